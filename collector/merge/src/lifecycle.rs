//! The steps of tasks while they are played, among the other events.

use crate::losses::{GapCauses, loss};
use crate::play::Player;
use crate::tasks::LifecycleEvent;
use syscollect_model::{Event, Lane};
use syscollect_playback::Stopped;

impl Player<'_> {
    /// Something in the life of tasks.
    pub(crate) fn lifecycle_event(
        &mut self,
        lifecycle_event: LifecycleEvent,
    ) -> Result<(), Stopped> {
        let event = match lifecycle_event {
            LifecycleEvent::Record(kind) => {
                self.count(kind);
                return Ok(());
            }
            LifecycleEvent::Bind(tid, thread) => {
                self.threads.bind(tid, thread);
                return Ok(());
            }
            LifecycleEvent::Replace { old, new } => {
                let running = self.lanes.iter_mut().filter(|lane| lane.current == Some(old));
                running.for_each(|lane| lane.current = Some(new));
                return Ok(());
            }
            LifecycleEvent::Lost(lane, count) => {
                loss(lane, self.losses.cause_before_collector(lane), count, None)
            }
            LifecycleEvent::Missing(lane, count) => {
                return self.missing_tasks(lane, count);
            }
            LifecycleEvent::ProcessStart(process) => Event::ProcessStart(process),
            LifecycleEvent::ProcessExec(process, name) => {
                self.close_process(process)?;
                Event::ProcessExec(process, name)
            }
            LifecycleEvent::ProcessEnd(process) => {
                self.close_process(process)?;
                self.end_counters(process)?;
                Event::ProcessEnd(process)
            }
            LifecycleEvent::ThreadStart(thread) => Event::ThreadStart(thread),
            LifecycleEvent::ThreadName(thread, name) => Event::ThreadName(thread, name),
            LifecycleEvent::ThreadEnd(thread) => {
                self.close_thread(thread)?;
                Event::ThreadEnd(thread)
            }
        };
        self.emit(&event)
    }

    fn missing_tasks(&mut self, lane: Lane, count: u64) -> Result<(), Stopped> {
        let known = self.task_lanes.iter().position(|(of, _)| *of == lane);
        let index = known.unwrap_or_else(|| {
            self.task_lanes.push((lane, GapCauses::new(self.losses.declared_chunks(lane))));
            self.task_lanes.len() - 1
        });
        let parts = self.task_lanes[index].1.divide(count);
        parts.into_iter().try_for_each(|(cause, count)| self.emit(&loss(lane, cause, count, None)))
    }
}
