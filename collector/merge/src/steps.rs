//! The steps of tasks while they are played, among the other events.

use crate::losses::{GapCauses, loss};
use crate::play::Player;
use crate::tasks::Step;
use syscollect_model::{Event, Lane};
use syscollect_playback::Stopped;

impl Player<'_> {
    /// A step in the life of tasks.
    pub(crate) fn step(
        &mut self,
        step: Step,
        task_lanes: &mut Vec<(Lane, GapCauses)>,
    ) -> Result<(), Stopped> {
        let event = match step {
            Step::Record(kind) => {
                self.count(kind);
                return Ok(());
            }
            Step::Bind(tid, thread) => {
                self.threads.bind(tid, thread);
                return Ok(());
            }
            Step::Replace { old, new } => {
                let running = self.lanes.iter_mut().filter(|lane| lane.current == Some(old));
                running.for_each(|lane| lane.current = Some(new));
                return Ok(());
            }
            Step::Lost(lane, count) => {
                loss(lane, self.losses.cause_before_collector(lane), count, None)
            }
            Step::Missing(lane, count) => return self.missing_tasks(lane, count, task_lanes),
            Step::ProcessStart(process) => Event::ProcessStart(process),
            Step::ProcessExec(process, name) => {
                self.close_process(process)?;
                Event::ProcessExec(process, name)
            }
            Step::ProcessEnd(process) => {
                self.close_process(process)?;
                self.end_counters(process)?;
                Event::ProcessEnd(process)
            }
            Step::ThreadStart(thread) => Event::ThreadStart(thread),
            Step::ThreadName(thread, name) => Event::ThreadName(thread, name),
            Step::ThreadEnd(thread) => {
                self.close_thread(thread)?;
                Event::ThreadEnd(thread)
            }
        };
        self.emit(&event)
    }

    fn missing_tasks(
        &mut self,
        lane: Lane,
        count: u64,
        task_lanes: &mut Vec<(Lane, GapCauses)>,
    ) -> Result<(), Stopped> {
        let index = task_lanes.iter().position(|(of, _)| *of == lane).unwrap_or_else(|| {
            task_lanes.push((lane, GapCauses::new(self.losses.declared_chunks(lane))));
            task_lanes.len() - 1
        });
        let parts = task_lanes[index].1.divide(count);
        parts.into_iter().try_for_each(|(cause, count)| self.emit(&loss(lane, cause, count, None)))
    }
}
