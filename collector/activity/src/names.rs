//! What threads are called, and whose they are.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt;
use syscollect_records::{RecordKind, TaskRecord};
use syscollect_store::KnownProcess;

/// Threads whose names are kept; of more the names are not known.
const MOST_THREADS: usize = 1 << 16;

/// A thread's name, as the program gave it: at most 15 bytes, of any kind. Whoever shows it has to
/// escape what a terminal obeys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadName([u8; 16]);

impl ThreadName {
    /// As much of it as the kernel keeps.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; 16];
        let length = name.iter().take(15).take_while(|byte| **byte != 0).count();
        bytes[..length].copy_from_slice(&name[..length]);
        Self(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        &self.0[..length]
    }
}

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.bytes()))
    }
}

impl fmt::Debug for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Whose a thread is, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) pid: u32,
    pub(crate) name: ThreadName,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    named: Named,
    /// When that was right, ticks.
    at: u64,
    has_ended: bool,
    /// It was made, and has not run yet.
    is_new: bool,
}

/// The names of those that live, and of those that ended a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Names {
    threads: FxHashMap<u32, Known>,
    /// When threads ended, ascending.
    ended: VecDeque<(u64, u32)>,
}

impl Names {
    pub(crate) fn get(&self, tid: u32) -> Option<Named> {
        Some(self.threads.get(&tid)?.named)
    }

    /// Something happened to a task, behind all that was told before.
    pub(crate) fn on(&mut self, at: u64, kind: RecordKind, record: &TaskRecord) {
        let TaskRecord { tid, tgid, parent_tid, comm, .. } = *record;
        let has_ended = kind == RecordKind::Exit;
        if !matches!(kind, RecordKind::Fork | RecordKind::Exec | RecordKind::Rename) && !has_ended {
            return;
        }
        if kind == RecordKind::Exec && parent_tid != 0 && parent_tid != tid {
            // It had this number until it took the first thread's place.
            self.threads.remove(&parent_tid);
        }
        let named = Named { pid: tgid, name: ThreadName::new(&comm) };
        let is_new = kind == RecordKind::Fork
            || (kind == RecordKind::Rename && self.threads.get(&tid).is_some_and(|k| k.is_new));
        self.set(tid, Known { named, at, has_ended, is_new });
        if has_ended {
            self.ended.push_back((at, tid));
            // Most of these numbers mean others by now.
            if self.ended.len() > MOST_THREADS {
                self.forget_oldest();
            }
        }
    }

    /// A thread that was made runs for the first time. If nothing told of its making, what is known
    /// of its number is another's.
    pub(crate) fn begins(&mut self, tid: u32) {
        if let Some(known) = self.threads.get_mut(&tid)
            && !std::mem::take(&mut known.is_new)
        {
            self.threads.remove(&tid);
        }
    }

    /// What a list of /proc says, which may be older than what records said.
    pub(crate) fn add(&mut self, process: &KnownProcess) {
        let at = process.noted.0.max(process.names_read.0);
        for thread in &process.threads {
            if self.threads.get(&thread.tid).is_none_or(|known| at > known.at && !known.has_ended) {
                let name = ThreadName::new(thread.name.as_bytes());
                let named = Named { pid: process.pid, name };
                self.set(thread.tid, Known { named, at, has_ended: false, is_new: false });
            }
        }
    }

    fn set(&mut self, tid: u32, known: Known) {
        while self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&tid) {
            // Those that have ended make room for those that live.
            if !self.forget_oldest() {
                return;
            }
        }
        self.threads.insert(tid, known);
    }

    /// What ended before that is over.
    pub(crate) fn forget_ended(&mut self, before: u64) {
        while self.ended.front().is_some_and(|(at, _)| *at < before) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) -> bool {
        let Some((at, tid)) = self.ended.pop_front() else { return false };
        if self.threads.get(&tid).is_some_and(|known| known.has_ended && known.at == at) {
            self.threads.remove(&tid);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::Ticks;
    use syscollect_store::KnownThread;

    fn record(tid: u32, tgid: u32, name: &str) -> TaskRecord {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        TaskRecord { tid, tgid, comm, ..TaskRecord::default() }
    }

    fn listed(pid: u32, name: &str, noted: u64) -> KnownProcess {
        let thread = KnownThread { tid: pid, name: name.into(), asleep: None };
        let noted = Ticks(noted);
        KnownProcess { pid, threads: vec![thread], noted, ..KnownProcess::default() }
    }

    fn name(names: &Names, tid: u32) -> String {
        names.get(tid).map_or_else(String::new, |named| named.name.to_string())
    }

    #[test]
    fn the_newest_name_counts_and_a_list_that_is_older_changes_nothing() {
        let mut names = Names::default();
        names.add(&listed(7, "sh", 0));
        assert_eq!(name(&names, 7), "sh");
        names.on(100, RecordKind::Exec, &record(7, 7, "make"));
        names.add(&listed(7, "sh", 50));
        assert_eq!(name(&names, 7), "make");
        names.add(&listed(7, "renamed", 150));
        assert_eq!(name(&names, 7), "renamed");
    }

    #[test]
    fn who_has_ended_is_known_until_it_is_forgotten_and_its_number_may_be_anothers_by_then() {
        let mut names = Names::default();
        names.on(1, RecordKind::Fork, &record(7, 7, "a"));
        names.on(2, RecordKind::Exit, &record(7, 7, "a"));
        names.add(&listed(7, "stale", 3));
        assert_eq!(name(&names, 7), "a");
        names.on(4, RecordKind::Fork, &record(7, 9, "b"));
        names.forget_ended(10);
        assert_eq!(name(&names, 7), "b");
        names.on(11, RecordKind::Exit, &record(7, 9, "b"));
        names.forget_ended(12);
        assert_eq!(names.get(7), None);
    }

    #[test]
    fn a_thread_whose_making_was_lost_does_not_get_the_name_of_who_had_its_number() {
        let mut names = Names::default();
        names.on(1, RecordKind::Fork, &record(7, 7, "before"));
        names.begins(7);
        assert_eq!(name(&names, 7), "before");
        names.begins(7);
        assert_eq!(names.get(7), None);
    }

    #[test]
    fn more_threads_than_are_kept_have_no_names_and_those_that_ended_make_room() {
        let mut names = Names::default();
        names.on(1, RecordKind::Exit, &record(1, 1, "gone"));
        for tid in 2..MOST_THREADS as u32 + 3 {
            names.on(2, RecordKind::Fork, &record(tid, tid, "t"));
        }
        assert_eq!(names.threads.len(), MOST_THREADS);
        assert_eq!(names.get(1), None);
    }

    #[test]
    fn a_name_is_fifteen_bytes_of_any_kind() {
        assert_eq!(ThreadName::new(b"a\x1b[2J\xff").to_string(), "a\u{1b}[2J\u{fffd}");
        assert_eq!(ThreadName::new(b"0123456789abcdefgh").to_string(), "0123456789abcde");
        assert_eq!(ThreadName::new(b"ab\0cd").bytes(), b"ab");
    }
}
