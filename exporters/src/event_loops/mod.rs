//! Event loops: threads that come back to the same kind of wait again and again, and the stretches
//! in which they did not.
//!
//! # Definitions
//!
//! **A loop's wait** is a sleep in which a thread has nothing to do: for events, for completions of
//! io_uring, for work of a pool ([`LoopWait`]). A futex that nothing names may be that of a pool as
//! well as a part of the work, so each thread is followed in two ways: with futexes among its waits
//! and without ([`WaitTier`]); it is a loop by the kind that it comes back to more often.
//!
//! **A stretch** begins when a thread is woken from such a wait (where no wakeup was recorded: when
//! it is on a CPU again), and ends when it sleeps in one again. A sample that finds the thread in
//! the function of the wait ends it, too, and begins another: such a loop had so much to do that it
//! did not sleep. The first sample after a wakeup does not, as the thread may be on its way out.
//!
//! **A loop** is a thread that has come back [`LEAST_RETURNS`] times. Where its wait may be one of
//! a pool, at most half of these stretches are over the limit: who is usually away for longer does
//! long work, and nobody waits for its return. Where it may be a lock or an answer (a futex), at
//! most half of them are longer than the waits before: who waits for locks is mostly at work. The
//! time for which it waited for a CPU is left out in both. What came before it was known to be a
//! loop counts.
//!
//! **A loop that polls** comes back without sleeping, and no event tells of it: only samples do.
//! Once [`LEAST_RETURNS`] samples have found it back since it last slept, a stretch is told where
//! so many of its samples would have found it in its wait that it cannot be chance
//! ([`ENOUGH_SAMPLES`](books::ENOUGH_SAMPLES)), and else counted as unsure. Before that, and where there are no samples of what it did on its CPU, a stretch is told as one in which it
//! may have come back. Other stretches may be such, too, if a loop's work never ends and each look
//! for it is too short for a sample.
//!
//! **A loop that marks its waits** itself (a program with a client) is one from its first mark on,
//! and its stretches lie between these marks alone: from where it says that it goes on to where it
//! says that it waits again. What the kernel tells says what it did meanwhile. Where a mark is
//! missing (it goes on twice) nothing is told of what lies between, and it is counted as unsure.
//!
//! **Missing records.** A thread may have come back where records are missing, unless it ran on a
//! CPU that lost none. A stretch ends there for what is known ([`StretchEnd::Unknown`]), and what
//! is seen of the thread next begins one whose true beginning is not known, as at the beginning of
//! the recording. Both are only said to be at least as long.
//!
//! **Beginnings and ends.** What a thread does before its first wait is no stretch, and neither is
//! it after an exec, which makes another program of it.
//!
//! **Memory** is bounded: by threads, by what each slept in and by stacks of each stretch.

mod books;
#[cfg(test)]
mod judge;
#[cfg(test)]
mod random;
mod stretch;
#[cfg(test)]
mod tests;

pub(crate) use stretch::{Stretch, StretchEnd};

use books::LoopBooks;
use std::collections::BTreeSet;
use std::time::Duration;
use syscollect_model::{CpuId, LoopMark, PerCpu, SchedulingGap, StackId, ThreadId};

/// Returns after which a thread is a loop.
pub(crate) const LEAST_RETURNS: u64 = 8;
/// Threads that are followed at one time.
const MOST_THREADS: usize = 1 << 14;
/// Loops of which it is known, with those that have ended.
const MOST_LOOPS: usize = 1 << 14;

/// How long a loop may be away from its wait: 50 ms, if nothing else is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopLimit(Duration);

impl LoopLimit {
    /// Longer stretches are told.
    pub fn new(limit: Duration) -> Self {
        Self(limit)
    }

    pub(crate) fn nanoseconds(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Default for LoopLimit {
    fn default() -> Self {
        Self(Duration::from_millis(50))
    }
}

/// What loops wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum LoopWait {
    /// epoll, poll, select.
    Events,
    /// Completions of io_uring.
    IoUring,
    /// Work of a pool, a queue, a connection: by what is known of the functions that wait.
    Work,
    /// Another thread, through a futex: work, or an answer.
    Futex,
    /// Whatever the program says.
    Marked,
}

impl LoopWait {
    /// It is one that nothing else than loops has, of whose function samples tell.
    pub(crate) fn is_of_events(self) -> bool {
        matches!(self, Self::Events | Self::IoUring)
    }
}

/// What a thread's waits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitTier {
    /// Those in which it has nothing to do.
    Idle,
    /// These, and futexes.
    WithFutexes,
    /// Those that it marks itself.
    Marked,
}

impl WaitTier {
    /// What a thread may have that marks nothing.
    const UNMARKED: [Self; 2] = [Self::Idle, Self::WithFutexes];

    fn has(self, wait: LoopWait) -> bool {
        match self {
            Self::Idle => wait != LoopWait::Futex,
            Self::WithFutexes => true,
            Self::Marked => wait == LoopWait::Marked,
        }
    }
}

/// How a thread leaves its CPU; `B` says what it sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure<B> {
    /// It could run on.
    Runnable,
    /// For ever.
    Ended,
    Asleep(Sleep<B>),
}

/// A sleep that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sleep<B> {
    /// It is one that loops come back to.
    pub(crate) wait: Option<LoopWait>,
    pub(crate) what: B,
}

/// Who leaves a CPU, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeavingThread<B> {
    pub(crate) thread: ThreadId,
    pub(crate) departure: Departure<B>,
}

/// A switch; threads that are not to be followed are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopSwitch<B> {
    pub(crate) cpu: CpuId,
    pub(crate) previous: Option<LeavingThread<B>>,
    pub(crate) next: Option<ThreadId>,
}

/// A thread was seen on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopSample {
    pub(crate) cpu: CpuId,
    pub(crate) thread: ThreadId,
    pub(crate) stack: Option<StackId>,
    /// It was in the kernel's function of such a wait.
    pub(crate) wait: Option<LoopWait>,
}

/// A loop, and how it behaved until now. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopSummary {
    pub(crate) thread: ThreadId,
    pub(crate) wait: LoopWait,
    /// How often it came back, and slept.
    pub(crate) returns: u64,
    /// How often samples found it back that had not slept.
    pub(crate) seen_awake: u64,
    /// How long all stretches were together that it came back from.
    pub(crate) away: u64,
    /// Stretches that may be none, because it polls.
    pub(crate) unsure: u64,
}

impl LoopSummary {
    /// Both, of one thread.
    pub(crate) fn and(self, later: Self) -> Self {
        Self {
            returns: self.returns + later.returns,
            seen_awake: self.seen_awake + later.seen_awake,
            away: self.away.saturating_add(later.away),
            unsure: self.unsure + later.unsure,
            ..later
        }
    }
}

/// The threads of a recording, as far as they may be loops.
#[derive(Debug)]
pub(crate) struct EventLoops<B> {
    /// Nanoseconds: longer stretches are told.
    limit: u64,
    threads: Vec<Option<Box<LoopBooks<B>>>>,
    followed: usize,
    /// Those whose state may be known: who has none loses nothing where records are missing.
    known: BTreeSet<ThreadId>,
    left_out: u64,
    on_cpus: PerCpu<Option<ThreadId>>,
    ended: Vec<LoopSummary>,
    found: Vec<Stretch<B>>,
}

impl<B: Copy + Eq> EventLoops<B> {
    /// Stretches over `limit` nanoseconds are told.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            threads: Vec::new(),
            followed: 0,
            known: BTreeSet::new(),
            left_out: 0,
            on_cpus: PerCpu::default(),
            ended: Vec::new(),
            found: Vec::new(),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// How often a thread was met, or a loop ended, for which there was no room.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Of what came until now nothing is told, but who is a loop.
    pub(crate) fn forget(&mut self) {
        self.ended.clear();
        self.found.clear();
        self.threads.iter_mut().flatten().for_each(|books| books.forget());
    }

    /// Takes the stretches that are known by now, those of each thread in order of time.
    pub(crate) fn take(&mut self) -> Vec<Stretch<B>> {
        std::mem::take(&mut self.found)
    }

    /// Whether there are such.
    #[inline]
    pub(crate) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// All loops, in the order of threads, those that have ended first.
    pub(crate) fn loops(&self) -> impl Iterator<Item = LoopSummary> {
        let present = self.threads.iter().flatten().filter_map(|books| books.summary());
        self.ended.iter().copied().chain(present)
    }

    /// Does that with a thread, if there is room for it.
    #[inline]
    fn with(&mut self, thread: ThreadId, follow: impl FnOnce(&mut LoopBooks<B>)) {
        let index = thread.index();
        if self.threads.get(index).is_none_or(Option::is_none) && !self.add(thread, false) {
            return;
        }
        let Some(Some(books)) = self.threads.get_mut(index) else { return };
        let was_unknown = books.is_unknown();
        follow(books);
        if was_unknown && !books.is_unknown() {
            self.known.insert(thread);
        }
        books.give(&mut self.found);
    }

    /// Whether there is room for one more.
    fn add(&mut self, thread: ThreadId, is_new: bool) -> bool {
        if self.followed >= MOST_THREADS {
            self.left_out += 1;
            return false;
        }
        self.followed += 1;
        let index = thread.index();
        if index >= self.threads.len() {
            self.threads.resize_with(index + 1, || None);
        }
        self.threads[index] = Some(Box::new(LoopBooks::new(thread, self.limit, is_new)));
        true
    }

    /// Nothing more is known of a thread.
    fn remove(&mut self, thread: ThreadId) {
        let books = self.threads.get_mut(thread.index()).and_then(Option::take);
        let Some(mut books) = books else { return };
        books.give(&mut self.found);
        self.followed -= 1;
        self.known.remove(&thread);
        match books.summary() {
            Some(_) if self.ended.len() >= MOST_LOOPS => self.left_out += 1,
            summary => self.ended.extend(summary),
        }
    }

    /// A context switch.
    pub(crate) fn switch(&mut self, now: u64, switch: &LoopSwitch<B>) {
        let LoopSwitch { cpu, previous, next } = *switch;
        let ran = std::mem::replace(self.on_cpus.get_or(cpu, || None), next);
        if let Some(ran) = ran.filter(|ran| previous.is_none_or(|leaving| leaving.thread != *ran)) {
            let books = self.threads.get(ran.index()).and_then(Option::as_ref);
            if books.is_some_and(|books| books.runs_on(cpu)) {
                // When it left is missing.
                self.lose(ran, None);
            }
        }
        if let Some(LeavingThread { thread, departure }) = previous {
            if departure == Departure::Ended {
                self.end_thread(now, thread);
            } else {
                self.with(thread, |books| books.leave(now, cpu, departure));
            }
        }
        if let Some(next) = next {
            self.with(next, |books| books.enter(now, cpu));
        }
    }

    /// A thread is made runnable.
    pub(crate) fn wakeup(&mut self, now: u64, thread: ThreadId) {
        self.with(thread, |books| books.wake(now));
    }

    /// A thread's loop says that it waits, or goes on.
    pub(crate) fn mark(&mut self, now: u64, thread: ThreadId, mark: LoopMark) {
        self.with(thread, |books| books.mark(now, mark));
    }

    /// A thread begins, or begins another program.
    pub(crate) fn start(&mut self, thread: ThreadId) {
        self.remove(thread);
        self.add(thread, true);
    }

    /// A thread ends.
    pub(crate) fn end_thread(&mut self, now: u64, thread: ThreadId) {
        if let Some(Some(books)) = self.threads.get_mut(thread.index()) {
            books.end(now);
        }
        self.remove(thread);
    }

    /// A thread was seen asleep, and no switch told of it.
    pub(crate) fn asleep(&mut self, now: u64, thread: ThreadId, sleep: Sleep<B>) {
        self.with(thread, |books| books.seen_asleep(now, sleep));
    }

    /// A thread was seen on a CPU.
    pub(crate) fn sample(&mut self, now: u64, sample: &LoopSample) {
        let mut is_first = false;
        self.with(sample.thread, |books| is_first = books.sample(now, sample));
        if is_first {
            *self.on_cpus.get_or(sample.cpu, || None) = Some(sample.thread);
        }
    }

    /// Records of a CPU, or of any, are missing until now, of these threads.
    pub(crate) fn gap(&mut self, now: u64, gap: SchedulingGap, of: impl Fn(ThreadId) -> bool) {
        let cpu = gap.cpu;
        let since = gap.since.map(|since| since.0.min(now));
        let lost: Vec<ThreadId> = self
            .known
            .iter()
            .copied()
            .filter(|thread| of(*thread))
            .filter(|thread| {
                let books = self.threads.get(thread.index()).and_then(Option::as_ref);
                let runs_elsewhere =
                    |cpu| books.is_some_and(|books| books.runs_elsewhere(cpu, since.unwrap_or(0)));
                !cpu.is_some_and(runs_elsewhere)
            })
            .collect();
        for thread in lost {
            self.lose(thread, since);
        }
        for (id, thread) in self.on_cpus.iter_mut() {
            if cpu.map_or(thread.is_some_and(&of), |cpu| cpu == id) {
                *thread = None;
            }
        }
    }

    /// What a thread did is known up to then, or up to its last event.
    fn lose(&mut self, thread: ThreadId, since: Option<u64>) {
        if let Some(Some(books)) = self.threads.get_mut(thread.index()) {
            books.lose(since);
            books.give(&mut self.found);
        }
        self.known.remove(&thread);
    }

    /// The recording of these threads ends: what lasts, lasts until now.
    pub(crate) fn finish(&mut self, now: u64, of: impl Fn(ThreadId) -> bool) {
        for (thread, books) in (0..).map(ThreadId).zip(&mut self.threads) {
            if let Some(books) = books.as_mut().filter(|_| of(thread)) {
                books.finish(now);
                books.give(&mut self.found);
                self.known.remove(&thread);
            }
        }
    }
}
