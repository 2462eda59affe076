//! How threads wait, found by their numbers: who switches is mostly one of those who did a moment
//! ago, and found without a look into a hash table.

use rustc_hash::FxHashMap;

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// It is runnable, and others have the CPU.
    Runnable,
    /// It sleeps, and a signal would wake it.
    Interruptible,
    /// It sleeps, and none would.
    Uninterruptible,
}

/// What is known of a thread: one that was heard of stays in the table for a while, for it is put
/// there again for less than it is looked up for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadWait {
    /// How it waits; `None` where it does not, or no rule asks.
    pub(crate) kind: Option<WaitKind>,
    pub(crate) since: u64,
    /// The rules by which it was found, a bit each.
    pub(crate) found: u64,
}

/// Threads that are found by the last digits of their numbers.
const RECENT: usize = 1024;

/// Threads, and how they wait.
#[derive(Debug)]
pub(crate) struct WaitTable {
    threads: Vec<KnownThread>,
    /// Where each thread lies.
    places: FxHashMap<u32, u32>,
    /// Where the thread lies that was looked for last, of those with the same last digits. It may
    /// lie elsewhere by now, or not be there.
    recent: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct KnownThread {
    tid: u32,
    wait: ThreadWait,
}

impl WaitTable {
    pub(crate) fn new() -> Self {
        Self { threads: Vec::new(), places: FxHashMap::default(), recent: vec![0; RECENT] }
    }

    pub(crate) fn len(&self) -> usize {
        self.threads.len()
    }

    pub(crate) fn contains(&mut self, tid: u32) -> bool {
        self.get(tid).is_some()
    }

    /// What is known of a thread.
    #[inline]
    pub(crate) fn get(&mut self, tid: u32) -> Option<&mut ThreadWait> {
        let recent = &mut self.recent[tid as usize % RECENT];
        let mut place = *recent as usize;
        if self.threads.get(place).is_none_or(|thread| thread.tid != tid) {
            *recent = *self.places.get(&tid)?;
            place = *recent as usize;
        }
        self.threads.get_mut(place).map(|thread| &mut thread.wait)
    }

    /// Adds a thread that is not there.
    pub(crate) fn add(&mut self, tid: u32, wait: ThreadWait) {
        let place = self.threads.len() as u32;
        self.threads.push(KnownThread { tid, wait });
        self.places.insert(tid, place);
        self.recent[tid as usize % RECENT] = place;
    }

    /// Forgets those that do not wait.
    pub(crate) fn retain_waiting(&mut self) {
        for place in (0..self.threads.len()).rev() {
            let KnownThread { tid, wait } = self.threads[place];
            if wait.kind.is_some() {
                continue;
            }
            self.places.remove(&tid);
            self.threads.swap_remove(place);
            // The last has its place now; those behind it wait all.
            if let Some(moved) = self.threads.get(place) {
                self.places.insert(moved.tid, place as u32);
            }
        }
    }

    /// All of them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut ThreadWait)> {
        self.threads.iter_mut().map(|thread| (thread.tid, &mut thread.wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Numbers with the same last digits among them.
        #[test]
        fn it_holds_what_a_map_does(
            steps in prop::collection::vec((0u32..6, 0u32..3, 0u64..4), 0..200),
        ) {
            let (mut table, mut map) = (WaitTable::new(), BTreeMap::new());
            for (low, high, step) in steps {
                let tid = low + high * RECENT as u32;
                let kind = [None, Some(WaitKind::Runnable)][step as usize % 2];
                let wait = ThreadWait { kind, since: step, found: 0 };
                match table.get(tid) {
                    Some(known) => *known = wait,
                    None => table.add(tid, wait),
                }
                map.insert(tid, wait);
                if step == 3 {
                    table.retain_waiting();
                    map.retain(|_, wait| wait.kind.is_some());
                }
                prop_assert_eq!(table.len(), map.len());
                for tid in (0..3).flat_map(|high| (0..6).map(move |low| low + high * RECENT as u32))
                {
                    let known = table.get(tid).map(|wait| (wait.kind, wait.since));
                    prop_assert_eq!(known, map.get(&tid).map(|wait| (wait.kind, wait.since)));
                }
                let all: BTreeMap<_, _> =
                    table.iter_mut().map(|(tid, wait)| (tid, wait.since)).collect();
                let expected: BTreeMap<_, _> =
                    map.iter().map(|(tid, wait)| (*tid, wait.since)).collect();
                prop_assert_eq!(all, expected);
            }
        }
    }
}
