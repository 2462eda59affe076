//! What threads are called, and whose they are.

use crate::cause::NamePattern;
use crate::payers::{Payer, PayerRule};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use syscollect_records::{RecordKind, TaskRecord};
use syscollect_store::KnownProcess;

/// Threads of which names are kept; of more the names are not known.
const MOST_THREADS: usize = 1 << 18;
/// How long a thread that has ended is known, seconds: what programs wrote is read a moment later.
pub(crate) const KNOWN_AFTER_END_SECONDS: f64 = 10.0;

/// The threads that live, and those that ended a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    threads: FxHashMap<u32, ThreadState>,
    /// The threads of each process that run.
    running: FxHashMap<u32, FxHashSet<u32>>,
    /// When threads ended, ascending.
    ended: VecDeque<(u64, u32)>,
    known_after_end: u64,
    unfollowed: u64,
    /// Who pays for what a user does.
    pub(crate) payer_rule: PayerRule,
}

#[derive(Clone, Debug)]
struct ThreadState {
    pid: u32,
    /// Who runs it, as far as that is known.
    user: Option<u32>,
    name: [u8; 16],
    /// When the name was right, ticks.
    named: u64,
    ended: Option<u64>,
}

impl Threads {
    pub(crate) fn set_tick_rate(&mut self, ticks_per_second: f64) {
        self.known_after_end = (KNOWN_AFTER_END_SECONDS * ticks_per_second) as u64;
    }

    /// Something happened to a task, behind all that was told before.
    pub(crate) fn on(&mut self, ticks: u64, record: &TaskRecord) {
        let TaskRecord { tid, tgid, comm, parent_tid, .. } = *record;
        let kind = RecordKind::from_number(record.stamp.split().1);
        if kind == Some(RecordKind::Fork) && tid == tgid {
            self.begins(tgid, ticks);
        }
        if kind == Some(RecordKind::Exec) && parent_tid != 0 && parent_tid != tid {
            // It had this number until it took the first thread's place.
            self.remove(parent_tid);
        }
        let user = record.user().or_else(|| self.user_before(kind, record));
        let state = ThreadState { pid: tgid, user, name: comm, named: ticks, ended: None };
        match kind {
            Some(RecordKind::Fork | RecordKind::Rename | RecordKind::Exec) => self.set(tid, state),
            Some(RecordKind::Exit) => {
                self.set(tid, ThreadState { ended: Some(ticks), ..state });
                self.ended.push_back((ticks, tid));
                self.forget_ended(ticks);
            }
            _ => {}
        }
    }

    /// Who ran it, or who forked it, before a record that says nothing of that.
    fn user_before(&self, kind: Option<RecordKind>, record: &TaskRecord) -> Option<u32> {
        let before = if kind == Some(RecordKind::Fork) { record.parent_tid } else { record.tid };
        self.user(before)
    }

    /// What a list of /proc says, which may be older than what records said.
    pub(crate) fn add(&mut self, process: &KnownProcess) {
        // Those that were there when the recording began carry no time, and come before all else.
        let listed = process.noted.0.max(process.names_read.0);
        for thread in &process.threads {
            let known = self.threads.get(&thread.tid);
            // One that has ended may be listed as long as others of its process run.
            let has_ended =
                known.is_some_and(|known| known.ended.is_some() && known.pid == process.pid);
            let is_newer = known.is_none_or(|known| listed > known.ended.unwrap_or(known.named));
            if is_newer && !has_ended {
                let mut name = [0; 16];
                let bytes = thread.name.as_bytes();
                let length = bytes.len().min(name.len() - 1);
                name[..length].copy_from_slice(&bytes[..length]);
                let user = process.user.or_else(|| known.and_then(|known| known.user));
                let pid = process.pid;
                self.set(thread.tid, ThreadState { pid, user, name, named: listed, ended: None });
            }
        }
    }

    fn set(&mut self, tid: u32, state: ThreadState) {
        // Those that have ended make room for those that live.
        while self.threads.len() >= MOST_THREADS
            && !self.threads.contains_key(&tid)
            && let Some((at, oldest)) = self.ended.pop_front()
        {
            self.forget(at, oldest);
        }
        if self.threads.len() < MOST_THREADS || self.threads.contains_key(&tid) {
            let began = state.ended.is_none().then_some(state.pid);
            let before = self.threads.insert(tid, state);
            self.stopped(tid, before);
            if let Some(pid) = began {
                self.running.entry(pid).or_default().insert(tid);
            }
        } else {
            self.unfollowed += 1;
        }
    }

    fn remove(&mut self, tid: u32) {
        let before = self.threads.remove(&tid);
        self.stopped(tid, before);
    }

    /// A thread is no more what it was.
    fn stopped(&mut self, tid: u32, before: Option<ThreadState>) {
        let Some(ThreadState { pid, ended: None, .. }) = before else { return };
        if let Some(running) = self.running.get_mut(&pid) {
            running.remove(&tid);
            if running.is_empty() {
                self.running.remove(&pid);
            }
        }
    }

    /// A process begins. Its number may have been another's, of which the end was not told; a list
    /// of /proc may be ahead of that, and have threads of this one.
    fn begins(&mut self, pid: u32, ticks: u64) {
        let Some(running) = self.running.get_mut(&pid) else { return };
        let threads = &self.threads;
        running.retain(|tid| threads.get(tid).is_some_and(|thread| thread.named >= ticks));
        if running.is_empty() {
            self.running.remove(&pid);
        }
    }

    /// Whether a thread of that process runs, as far as is known.
    pub(crate) fn runs(&self, pid: u32) -> bool {
        self.running.contains_key(&pid)
    }

    /// Names of threads that were more than are known at a time.
    pub(crate) fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// Whether it is known what the thread is called.
    pub(crate) fn knows(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    fn forget_ended(&mut self, now: u64) {
        while let Some((at, tid)) = self.ended.front().copied()
            && (at.saturating_add(self.known_after_end) < now || self.ended.len() > MOST_THREADS)
        {
            self.ended.pop_front();
            self.forget(at, tid);
        }
    }

    /// Of a thread that ended then nothing is known any more, if its id is not another's by now.
    fn forget(&mut self, at: u64, tid: u32) {
        if self.threads.get(&tid).is_some_and(|state| state.ended == Some(at)) {
            self.threads.remove(&tid);
        }
    }

    /// Whether the thread, or its program, is called so; anybody is by no pattern.
    pub(crate) fn matches(&self, tid: u32, pattern: Option<&NamePattern>) -> bool {
        let Some(pattern) = pattern else { return true };
        let Some(thread) = self.threads.get(&tid) else { return false };
        pattern.matches(&thread.name())
            || self.threads.get(&thread.pid).is_some_and(|main| pattern.matches(&main.name()))
    }

    /// The thread's process, if it is known.
    pub(crate) fn process(&self, tid: u32) -> Option<u32> {
        self.threads.get(&tid).map(|thread| thread.pid)
    }

    /// The user who runs the thread, if that is known.
    pub(crate) fn user(&self, tid: u32) -> Option<u32> {
        self.threads.get(&tid).and_then(|thread| thread.user)
    }

    /// Who pays for what this user's threads do.
    pub(crate) fn payer(&self, user: Option<u32>) -> Payer {
        self.payer_rule.of(user)
    }

    /// Whose thread it is, by what is known of it and, where the recorder knows that otherwise, of
    /// who pays for its program.
    pub(crate) fn user_of(&self, tid: Option<u32>, payer: Option<u32>) -> Option<u32> {
        let user = tid.and_then(|tid| self.user(tid));
        match payer {
            // A program may name a thread that is not its own.
            Some(payer) => {
                user.filter(|user| self.payer(Some(*user)) == Payer::User(payer)).or(Some(payer))
            }
            None => user,
        }
    }

    /// The thread for people: `worker 1234 of server of user 1001`.
    pub(crate) fn label(&self, tid: u32, user: Option<u32>) -> String {
        let label = self.name_of(tid);
        match user {
            Some(0) => format!("{label} of root"),
            Some(user) => format!("{label} of user {user}"),
            None => label,
        }
    }

    fn name_of(&self, tid: u32) -> String {
        let Some(thread) = self.threads.get(&tid) else { return format!("thread {tid}") };
        let name = thread.name();
        match self.threads.get(&thread.pid).map(ThreadState::name) {
            Some(program) if program != name => format!("{name} {tid} of {program}"),
            _ => format!("{name} {tid}"),
        }
    }
}

impl ThreadState {
    fn name(&self) -> String {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::Ticks;
    use syscollect_records::Stamp;
    use syscollect_store::KnownThread;

    fn record(kind: RecordKind, tid: u32, tgid: u32, name: &str) -> TaskRecord {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        TaskRecord { stamp: Stamp::new(0, kind), tid, tgid, comm, ..TaskRecord::default() }
    }

    fn listed(pid: u32, name: &str, noted: u64) -> KnownProcess {
        let threads = vec![KnownThread { tid: pid, name: name.into(), asleep: None }];
        KnownProcess { pid, threads, noted: Ticks(noted), ..KnownProcess::default() }
    }

    #[test]
    fn a_thread_is_called_as_it_was_called_last_whoever_says_it_first() {
        let mut threads = Threads::default();
        threads.on(50, &record(RecordKind::Rename, 7, 7, "worker"));
        threads.add(&listed(7, "python", 40));
        assert_eq!(threads.label(7, None), "worker 7", "the list is older");
        threads.add(&listed(7, "idle", 60));
        assert_eq!(threads.label(7, None), "idle 7");
        threads.add(&listed(8, "server", 0));
        threads.on(70, &record(RecordKind::Fork, 9, 8, "io"));
        assert_eq!(threads.label(9, None), "io 9 of server");
        let pattern = |name: &str| NamePattern(name.into());
        assert!(threads.matches(9, Some(&pattern("server"))));
        assert!(threads.matches(9, Some(&pattern("i*"))));
        assert!(!threads.matches(9, Some(&pattern("idle"))) && threads.matches(5, None));
    }

    #[test]
    fn whose_a_thread_is_is_what_was_recorded_last_or_who_forked_it() {
        let mut threads = Threads::default();
        threads.add(&KnownProcess { user: Some(1001), ..listed(7, "shell", 0) });
        assert_eq!(threads.label(7, threads.user(7)), "shell 7 of user 1001");
        let child = TaskRecord { parent_tid: 7, ..record(RecordKind::Fork, 8, 8, "shell") };
        threads.on(10, &child);
        assert_eq!(threads.user(8), Some(1001), "nothing was recorded of it");
        threads.on(20, &record(RecordKind::Exec, 8, 8, "su").of_user(0));
        assert_eq!(threads.label(8, threads.user(8)), "su 8 of root");
        threads.on(30, &child.of_user(1002));
        assert_eq!(threads.user(8), Some(1002));
        threads.on(40, &record(RecordKind::Exit, 8, 8, "su"));
        assert_eq!((threads.user(8), threads.user(9)), (Some(1002), None));
    }

    #[test]
    fn a_thread_that_ended_is_known_for_a_while_and_its_id_goes_to_another() {
        let mut threads = Threads::default();
        threads.set_tick_rate(1.0);
        threads.on(10, &record(RecordKind::Exit, 7, 7, "first"));
        threads.add(&listed(7, "late list", 9));
        assert_eq!(threads.label(7, None), "first 7");
        threads.on(12, &record(RecordKind::Fork, 7, 7, "second"));
        threads.on(30, &record(RecordKind::Exit, 8, 8, "other"));
        assert_eq!(threads.label(7, None), "second 7");
        threads.on(50, &record(RecordKind::Exit, 9, 9, "another"));
        assert_eq!(threads.label(8, None), "thread 8");
    }
}
