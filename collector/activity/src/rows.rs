//! What is kept of an interval: rows of threads and processes, and the sums of the rest.

use crate::functions::StackOfThread;
use crate::interval::{Interval, OtherActivity, ProcessActivity, TaskTimes, ThreadActivity};
use crate::machine::Thread;
use crate::names::{Named, Names};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Threads of which a row is kept,
const MOST_THREADS: usize = 1024;
/// and processes.
const MOST_PROCESSES: usize = 512;

/// Fills an interval with what its threads did. `unfollowed` is the sum of those of which more is
/// not known.
pub(crate) fn keep(
    interval: &mut Interval,
    threads: &[Thread],
    unfollowed: &Thread,
    names: &Names,
) {
    let mut rows = Vec::new();
    for thread in threads.iter().filter(|thread| !thread.is_free()) {
        match thread.is_active() {
            true => rows.push(row(thread, names)),
            false => interval.sleeping += 1,
        }
    }
    let mut processes = processes(&rows, names);
    let other_threads = &mut interval.other_threads;
    for row in keep_most(&mut rows, MOST_THREADS, |row| (Reverse(row.times.weight()), row.tid)) {
        other_threads.add(&row.times, u64::from(row.switches), u64::from(row.wakeups));
    }
    let others =
        keep_most(&mut processes, MOST_PROCESSES, |row| (Reverse(row.times.weight()), row.pid));
    for row in others {
        interval.other_processes.add(&row.times, row.switches, row.wakeups);
    }
    if unfollowed.is_active() {
        let (switches, wakeups) = (u64::from(unfollowed.switches), u64::from(unfollowed.wakeups));
        for others in [&mut interval.other_threads, &mut interval.other_processes] {
            others.add(&unfollowed.times, switches, wakeups);
        }
    }
    (interval.threads, interval.processes) = (rows, processes);
}

/// Of the threads of which a row is kept, those that are blocked now.
pub(crate) fn blocked(
    interval: &Interval,
    threads: &[Thread],
) -> impl Iterator<Item = StackOfThread> {
    let kept: FxHashSet<u32> = interval.threads.iter().map(|row| row.tid).collect();
    threads.iter().filter_map(Thread::blocked_in).filter(move |thread| kept.contains(&thread.tid))
}

impl OtherActivity {
    fn add(&mut self, times: &TaskTimes, switches: u64, wakeups: u64) {
        self.count += 1;
        self.times.add(times);
        self.switches += switches;
        self.wakeups += wakeups;
    }
}

/// Leaves the first so many in their order, and gives the others.
fn keep_most<T, K: Ord>(rows: &mut Vec<T>, most: usize, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut others = Vec::new();
    if rows.len() > most {
        rows.select_nth_unstable_by_key(most, &key);
        others = rows.split_off(most);
    }
    rows.sort_unstable_by_key(key);
    rows.shrink_to_fit();
    others
}

fn row(thread: &Thread, names: &Names) -> ThreadActivity {
    let named = thread.ended_as.or_else(|| names.get(thread.tid));
    ThreadActivity {
        tid: thread.tid,
        pid: named.map_or(0, |named| named.pid),
        name: named.map(|named| named.name),
        times: thread.times,
        switches: thread.switches,
        preempted: thread.preempted,
        wakeups: thread.wakeups,
        longest_wait: thread.longest_wait,
        waker: thread.wakers.most(|tid| Some(names.get(tid)?.name)),
        has_ended: thread.has_ended(),
    }
}

fn processes(threads: &[ThreadActivity], names: &Names) -> Vec<ProcessActivity> {
    let mut processes = FxHashMap::<u32, ProcessActivity>::default();
    for thread in threads {
        let process = processes.entry(thread.pid).or_insert_with(|| {
            let first = names.get(thread.pid).filter(|Named { pid, .. }| *pid == thread.pid);
            let name = match thread.pid {
                0 => None,
                _ => first.map(|first| first.name).or(thread.name),
            };
            ProcessActivity {
                pid: thread.pid,
                name,
                times: TaskTimes::default(),
                threads: 0,
                switches: 0,
                wakeups: 0,
                longest_wait: 0,
            }
        });
        process.times.add(&thread.times);
        process.threads += 1;
        process.switches += u64::from(thread.switches);
        process.wakeups += u64::from(thread.wakeups);
        process.longest_wait = process.longest_wait.max(thread.longest_wait);
    }
    processes.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_in_order_and_the_others_are_given_back() {
        let mut rows: Vec<u32> = (0..100).map(|number| number * 37 % 100).collect();
        let others = keep_most(&mut rows, 3, |number| Reverse(*number));
        assert_eq!((rows.as_slice(), others.len()), (&[99, 98, 97][..], 97));
        let mut few = vec![1, 2];
        assert!(keep_most(&mut few, 3, |number| Reverse(*number)).is_empty());
        assert_eq!(few, [2, 1]);
    }
}
