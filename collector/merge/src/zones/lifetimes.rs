//! When threads lived, as the kernel told: what a program says of its threads'
//! time is limited to that.

use crate::tasks::{TaskEvent, TaskHistory};
use syscollect_model::{Tables, ThreadId};
use syscollect_playback::{LifecycleEvent, Lifetime};

/// The lifetimes of all threads, by thread id.
pub(crate) type Lifetimes = syscollect_playback::Lifetimes<ThreadId>;

/// The lifetimes of the threads of which the history tells.
pub(crate) fn lifetimes_of(history: &TaskHistory, tables: &Tables) -> Lifetimes {
    let mut lifetimes = Lifetimes::default();
    history.initial.iter().for_each(|(tid, thread)| lifetimes.begin(*tid, *thread, 0));
    history
        .lifecycle
        .iter()
        .for_each(|(ticks, event)| apply(&mut lifetimes, *ticks, *event, tables));
    lifetimes
}

/// Takes in a task event, which comes behind those before it.
pub(crate) fn apply(lifetimes: &mut Lifetimes, ticks: u64, event: TaskEvent, tables: &Tables) {
    let TaskEvent::Lifecycle(event) = event else { return };
    match event {
        LifecycleEvent::Bind(tid, thread) => lifetimes.begin(tid, thread, ticks),
        LifecycleEvent::ThreadEnd(thread) => {
            let row = tables.thread(thread);
            // A process may outlive its first thread, and what is sampled of it is told of that
            // thread.
            if tables.process(row.process).pid != row.tid {
                lifetimes.end(row.tid, ticks);
            }
        }
        LifecycleEvent::ProcessEnd(process) => lifetimes.end(tables.process(process).pid, ticks),
        _ => {}
    }
}

/// Who writes to a lane, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneOwners {
    lifetimes: Vec<Lifetime>,
}

impl LaneOwners {
    /// Another one begins, with an event at `first`.
    pub(crate) fn add(&mut self, lifetime: Lifetime, first: u64) {
        if let Some(before) = self.lifetimes.last_mut()
            && before.until == u64::MAX
        {
            // Its end was not seen, but the lane was free by then.
            before.until = first.max(before.since);
        }
        self.lifetimes.push(lifetime);
    }

    /// The lifetime of the owner of that number.
    pub(crate) fn lifetime(&self, number: usize) -> Option<Lifetime> {
        self.lifetimes.get(number).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{MachineId, Process, ProcessId, Thread};

    fn lifetimes(initial: &[(u32, u32)], lifecycle: &[(u64, LifecycleEvent)]) -> Lifetimes {
        let mut tables = Tables::default();
        let (process, name) = (ProcessId(tables.processes.len() as u32), tables.strings.intern(""));
        let start = None;
        let row = Process {
            machine: MachineId::FIRST,
            pid: 5,
            parent_pid: None,
            name,
            command_line: Vec::new(),
            start,
            end: None,
            kernel: false,
        };
        tables.processes.push(row);
        let row = |tid| Thread { tid, process, name, start, end: None };
        tables.threads = [5, 7, 7].map(row).into_iter().collect();
        let initial = initial.iter().map(|(tid, thread)| (*tid, ThreadId(*thread))).collect();
        let lifecycle = lifecycle.iter().map(|(ticks, event)| (*ticks, (*event).into())).collect();
        lifetimes_of(&TaskHistory { initial, lifecycle, ..TaskHistory::default() }, &tables)
    }

    #[test]
    fn a_life_is_between_birth_and_death_and_the_next_has_its_own() {
        let (first, second) = (ThreadId(1), ThreadId(2));
        let lifecycle = [
            (10, LifecycleEvent::Bind(7, first)),
            (20, LifecycleEvent::ThreadEnd(first)),
            (30, LifecycleEvent::Bind(7, second)),
            (40, LifecycleEvent::ThreadEnd(ThreadId(0))),
        ];
        let lifetimes = lifetimes(&[(5, 0)], &lifecycle);
        assert_eq!([4, 10, 19].map(|ticks| lifetimes.at(7, ticks)), [lifetime(10, 19); 3]);
        assert_eq!(lifetimes.at(7, 25), Lifetime::UNKNOWN, "nobody was seen to live then");
        assert_eq!(lifetimes.at(7, 31), lifetime(30, u64::MAX));
        assert_eq!(
            lifetimes.at(5, 50),
            Lifetime::UNKNOWN,
            "the process goes on without its first thread"
        );
        assert_eq!(
            [lifetime(10, 19).limit(4), lifetime(10, 19).limit(15), lifetime(10, 19).limit(90)],
            [10, 15, 19]
        );
    }

    fn lifetime(since: u64, until: u64) -> Lifetime {
        Lifetime { since, until }
    }

    #[test]
    fn who_is_born_while_the_tasks_are_listed_has_one_life() {
        let lifetimes = lifetimes(&[(7, 1)], &[(10, LifecycleEvent::Bind(7, ThreadId(1)))]);
        assert_eq!(lifetimes.at(7, 3), Lifetime { since: 10, until: u64::MAX });
    }

    #[test]
    fn who_gives_a_lane_away_has_no_time_behind_that() {
        let mut owners = LaneOwners::default();
        owners.add(Lifetime::UNKNOWN, 5);
        owners.add(Lifetime { since: 8, until: 20 }, 9);
        owners.add(Lifetime::UNKNOWN, 12);
        let untils: Vec<u64> =
            (0..3).map(|number| owners.lifetime(number).unwrap().until).collect();
        assert_eq!(untils, [9, 20, u64::MAX], "one whose end was seen keeps it");
    }
}
