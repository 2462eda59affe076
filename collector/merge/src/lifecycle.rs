//! Lifecycle events of tasks while they are played, among the other events.

use crate::decoders::Decoders;
use crate::engine::{CaptureEngine, Engine};
use crate::sleepers::Sleeper;
use crate::stacks::{EventStacks, StackCache};
use crate::tasks::TaskEvent;
use syscollect_model::{Event, Lane, LaneKind, OffCpu, Ticks};
use syscollect_playback::{EventType, LifecycleEvent, Stopped};
use syscollect_records::RecordKind;

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
    /// Something that the kernel told of tasks.
    pub(crate) fn task_event(
        &mut self,
        engine: &mut Engine<'_>,
        event: TaskEvent,
    ) -> Result<(), Stopped> {
        match event {
            TaskEvent::Record(kind) => {
                engine.sink.tally.records += 1;
                event_type(kind).into_iter().for_each(|event| engine.occurred(event));
                Ok(())
            }
            TaskEvent::Lifecycle(event) => self.lifecycle_event(engine, event),
            TaskEvent::SignalExit(exit) => engine.emit(&Event::SignalExit(exit)),
            TaskEvent::Asleep(sleeper) => asleep(engine, sleeper),
            TaskEvent::Replace { old, new } => {
                let lanes = engine.source.lanes.iter_mut();
                let running = lanes.filter(|lane| lane.current == Some(old));
                running.for_each(|lane| lane.current = Some(new));
                Ok(())
            }
            TaskEvent::Lost(lane, count) => {
                let losses = &engine.source.losses;
                let cause = losses.cause_before_collector(lane);
                engine.emit(&losses.event(lane, cause, count, None))
            }
            TaskEvent::Missing(lane, count) => engine.gap(lane, count, None),
        }
    }

    /// Ends what ends with it, then tells it.
    fn lifecycle_event(
        &mut self,
        engine: &mut Engine<'_>,
        event: LifecycleEvent,
    ) -> Result<(), Stopped> {
        match event {
            LifecycleEvent::ProcessExec(process, _) => self.close_process(engine, Some(process))?,
            LifecycleEvent::ProcessEnd(process) => {
                self.close_process(engine, Some(process))?;
                self.counters.end_process(engine, process)?;
            }
            LifecycleEvent::ThreadEnd(thread) => self.close_thread(engine, thread)?,
            LifecycleEvent::ThreadName(thread, name) => return engine.rename(thread, name),
            LifecycleEvent::Bind(..)
            | LifecycleEvent::ProcessStart(_)
            | LifecycleEvent::ThreadStart(_) => {}
        }
        engine.apply(event).map_or(Ok(()), |event| engine.emit(&event))
    }
}

/// Tells of a thread that was seen asleep, with its stack.
fn asleep(engine: &mut Engine<'_>, sleeper: Sleeper) -> Result<(), Stopped> {
    // Within a recording lanes are of its own machine.
    let lane = Lane::new(LaneKind::Sched, Lane::SLEEPERS);
    let Sleeper { user_stack: user, kernel_stack: kernel, .. } = sleeper;
    let resolver = &mut engine.source.resolver;
    let mut cache = StackCache::default();
    let stacks = EventStacks { user, kernel, at: Ticks(engine.present.ticks()) };
    let found = resolver.resolve(&mut cache, lane, stacks, &mut engine.tables);
    let blocked_in = found.blocked_in.or(sleeper.off_cpu.blocked_in);
    let off_cpu = OffCpu { stack: found.stack, blocked_in, ..sleeper.off_cpu };
    engine.emit(&Event::Asleep(sleeper.thread, off_cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::gpu::decoder::Tracepoints;
    use crate::probes::decoder::Probes;
    use crate::scheduling::Scheduling;
    use crate::testing::{SCHED, events_of};
    use crate::zones::decoder::Zones;
    use syscollect_model::{
        Event, Lane, LaneKind, LossCause, ProcessId, SignalExit, Strings, Tables, ThreadId,
    };

    /// Decoders that know nothing.
    fn decoders(strings: &mut Strings) -> Decoders {
        Decoders {
            scheduling: Scheduling::default(),
            counters: Counters::new(Default::default()),
            zones: Zones::new(Default::default(), strings),
            probes: Probes::new(Default::default(), strings),
            tracepoints: Tracepoints::new(Default::default()),
            first_names: Vec::new(),
        }
    }

    #[test]
    fn who_takes_the_id_of_its_process_by_an_exec_goes_on_running() {
        let mut tables = Tables::default();
        let mut decoders = decoders(&mut tables.strings);
        let (old, new) = (ThreadId(40), ThreadId(41));
        let events = events_of(&mut tables, |engine| {
            engine.source.lanes[SCHED].current = Some(old);
            for event in [LifecycleEvent::Bind(7, new).into(), TaskEvent::Replace { old, new }] {
                decoders.task_event(engine, event).unwrap();
            }
            assert_eq!(engine.source.lanes[SCHED].current, Some(new));
            assert_eq!(engine.thread(7), new);
        });
        assert_eq!(events, [], "nothing happened");
    }

    #[test]
    fn records_are_counted_by_their_kind_and_told_by_what_they_say() {
        let mut tables = Tables::default();
        let mut decoders = decoders(&mut tables.strings);
        let process = ProcessId(0);
        let signal = tables.strings.intern("SIGSEGV");
        let exit =
            SignalExit { process, thread: None, signal, is_crash: true, has_core_dump: false };
        let events = events_of(&mut tables, |engine| {
            for event in [
                TaskEvent::Record(RecordKind::Fork),
                LifecycleEvent::ProcessStart(process).into(),
                TaskEvent::Record(RecordKind::Exit),
                TaskEvent::SignalExit(exit),
                LifecycleEvent::ProcessEnd(process).into(),
            ] {
                decoders.task_event(engine, event).unwrap();
            }
            let played = engine.sink.played();
            assert_eq!((played.records, played.events), (2, 2));
            assert_eq!((played.events_by_type["fork"], played.events_by_type["exit"]), (1, 1));
        });
        let told =
            [Event::ProcessStart(process), Event::SignalExit(exit), Event::ProcessEnd(process)];
        assert_eq!(events, told);
    }

    #[test]
    fn rows_get_the_names_of_now_only_while_recording() {
        for names_of_now in [false, true] {
            let mut tables = Tables::default();
            let mut decoders = decoders(&mut tables.strings);
            let before = tables.thread(Tables::IDLE_THREAD).name;
            let name = tables.strings.intern("renamed");
            let rename = LifecycleEvent::ThreadName(Tables::IDLE_THREAD, name);
            let events = events_of(&mut tables, |engine| {
                engine.source.names_of_now = names_of_now;
                decoders.task_event(engine, rename.into()).unwrap();
            });
            assert_eq!(events, [Event::ThreadName(Tables::IDLE_THREAD, name)]);
            let row = tables.thread(Tables::IDLE_THREAD).name;
            assert_eq!(row, if names_of_now { name } else { before });
        }
    }

    #[test]
    fn a_lane_of_tasks_tells_of_its_losses_although_it_is_not_played() {
        let mut tables = Tables::default();
        let mut decoders = decoders(&mut tables.strings);
        let lane = Lane::new(LaneKind::Task, 3);
        let events = events_of(&mut tables, |engine| {
            for event in [TaskEvent::Lost(lane, 2), TaskEvent::Missing(lane, 5)] {
                decoders.task_event(engine, event).unwrap();
            }
        });
        let [Event::Loss(lost), Event::Loss(missing)] = &events[..] else { panic!("{events:?}") };
        assert_eq!((lost.cause, lost.count), (LossCause::LaneFull, 2));
        assert_eq!((missing.cause, missing.count), (LossCause::Damaged, 5));
    }
}
