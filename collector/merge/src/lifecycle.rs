//! Lifecycle events of tasks while they are played, among the other events.

use crate::decoders::Decoders;
use crate::engine::Engine;
use crate::losses::GapCauses;
use crate::tasks::LifecycleEvent;
use syscollect_model::{Event, Lane};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::RecordKind;

/// What lanes of tasks lost. They are read before the others, and so have no state among them.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    gaps: Vec<(Lane, GapCauses)>,
}

impl Lifecycle {
    fn missing(&mut self, engine: &mut Engine<'_>, lane: Lane, count: u64) -> Result<(), Stopped> {
        let known = self.gaps.iter().position(|(of, _)| *of == lane);
        let index = known.unwrap_or_else(|| {
            self.gaps.push((lane, GapCauses::new(engine.losses.declared_chunks(lane))));
            self.gaps.len() - 1
        });
        let parts = self.gaps[index].1.divide(count);
        parts.into_iter().try_for_each(|(cause, count)| {
            engine.emit(&engine.losses.event(lane, cause, count, None))
        })
    }
}

/// What a record of that kind is counted as; `None` for what does not tell of tasks.
fn event_type(kind: RecordKind) -> Option<EventType> {
    Some(match kind {
        RecordKind::Fork => EventType::Fork,
        RecordKind::Exec => EventType::Exec,
        RecordKind::Exit => EventType::Exit,
        RecordKind::Rename => EventType::Rename,
        _ => return None,
    })
}

impl Decoders {
    /// Something in the life of tasks.
    pub(crate) fn lifecycle_event(
        &mut self,
        engine: &mut Engine<'_>,
        lifecycle_event: LifecycleEvent,
    ) -> Result<(), Stopped> {
        let event = match lifecycle_event {
            LifecycleEvent::Record(kind) => {
                engine.tally.records += 1;
                event_type(kind).into_iter().for_each(|event| engine.occurred(event));
                return Ok(());
            }
            LifecycleEvent::Bind(tid, thread) => {
                engine.threads.bind(tid, thread);
                return Ok(());
            }
            LifecycleEvent::Replace { old, new } => {
                let running = engine.lanes.iter_mut().filter(|lane| lane.current == Some(old));
                running.for_each(|lane| lane.current = Some(new));
                return Ok(());
            }
            LifecycleEvent::Lost(lane, count) => {
                let cause = engine.losses.cause_before_collector(lane);
                engine.losses.event(lane, cause, count, None)
            }
            LifecycleEvent::Missing(lane, count) => {
                return self.lifecycle.missing(engine, lane, count);
            }
            LifecycleEvent::ProcessStart(process) => Event::ProcessStart(process),
            LifecycleEvent::ProcessExec(process, name) => {
                self.close_process(engine, Some(process))?;
                Event::ProcessExec(process, name)
            }
            LifecycleEvent::ProcessEnd(process) => {
                self.close_process(engine, Some(process))?;
                self.counters.end_process(engine, process)?;
                Event::ProcessEnd(process)
            }
            LifecycleEvent::ThreadStart(thread) => Event::ThreadStart(thread),
            LifecycleEvent::ThreadName(thread, name) => return engine.rename(thread, name),
            LifecycleEvent::ThreadEnd(thread) => {
                self.close_thread(engine, thread)?;
                Event::ThreadEnd(thread)
            }
        };
        engine.emit(&event)
    }
}
