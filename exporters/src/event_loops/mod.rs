//! Event loops: threads that come back to the same kind of wait again and again, and the stretches
//! in which they did not.
//!
//! # Definitions
//!
//! **A loop's wait** is a sleep in which a thread has nothing to do: for events, for completions of
//! io_uring, for work of a pool ([`LoopWait`]). A futex that nothing names may be that of a pool as
//! well as a part of the work, so each thread is followed in two ways: with futexes among its waits
//! and without ([`Tier`]); it is a loop by the kind that it comes back to more often.
//!
//! **A stretch** begins when a thread is woken from such a wait (where no wakeup was recorded: when
//! it is on a CPU again), and ends when it sleeps in one again. A sample that finds the thread in
//! the kernel's function of the wait ends it too, if one has found it elsewhere since the stretch
//! began: such a loop had so much to do that it did not sleep.
//!
//! **A loop** is a thread that has come back [`LEAST_RETURNS`] times. Where its wait may be one of
//! a pool, at most half of these stretches are over the limit: who is usually away for longer does
//! long work, and nobody waits for its return. What came before it was known to be a loop counts.
//!
//! **Missing records.** A thread may have come back where records are missing, unless it ran on a
//! CPU that lost none. A stretch ends there for what is known ([`StretchEnd::Unknown`]), and what
//! is seen of the thread next begins one whose true beginning is not known, as at the beginning of
//! the recording. Both are only said to be at least as long. A thread that ends leaves no stretch.
//!
//! **Memory** is bounded: by threads, by what each slept in and by stacks of each stretch.

mod books;
mod stretch;
#[cfg(test)]
mod tests;

pub(crate) use stretch::{Stretch, StretchEnd};

use books::LoopBooks;
use std::time::Duration;
use syscollect_model::{CpuId, PerCpu, StackId, ThreadId};

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
}

/// What a thread's waits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// Those in which it has nothing to do.
    Idle,
    /// These, and futexes.
    WithFutexes,
}

impl Tier {
    const ALL: [Self; 2] = [Self::Idle, Self::WithFutexes];

    fn has(self, wait: LoopWait) -> bool {
        wait != LoopWait::Futex || self == Self::WithFutexes
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
pub(crate) struct Leaver<B> {
    pub(crate) thread: ThreadId,
    pub(crate) departure: Departure<B>,
}

/// A switch; threads that are not to be followed are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopSwitch<B> {
    pub(crate) cpu: CpuId,
    pub(crate) previous: Option<Leaver<B>>,
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
    /// How often it came back.
    pub(crate) returns: u64,
    /// How long all stretches were together that it came back from.
    pub(crate) away: u64,
}

/// The threads of a recording, as far as they may be loops.
#[derive(Debug)]
pub(crate) struct EventLoops<B> {
    /// Nanoseconds: longer stretches are told.
    limit: u64,
    threads: Vec<Option<Box<LoopBooks<B>>>>,
    followed: usize,
    /// Threads for which there was no room.
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
            left_out: 0,
            on_cpus: PerCpu::default(),
            ended: Vec::new(),
            found: Vec::new(),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// How often a thread was met for which there was no room.
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
        let threads = (0..).map(ThreadId).zip(&self.threads);
        let present = threads.filter_map(|(thread, books)| books.as_ref()?.summary(thread));
        self.ended.iter().copied().chain(present)
    }

    fn books(&mut self, thread: ThreadId) -> Option<&mut LoopBooks<B>> {
        let index = thread.index();
        if index >= self.threads.len() {
            self.threads.resize_with(index + 1, || None);
        }
        if self.threads[index].is_none() {
            if self.followed >= MOST_THREADS {
                self.left_out += 1;
                return None;
            }
            self.followed += 1;
        }
        let limit = self.limit;
        Some(self.threads[index].get_or_insert_with(|| Box::new(LoopBooks::new(thread, limit))))
    }

    /// A context switch.
    pub(crate) fn switch(&mut self, now: u64, switch: &LoopSwitch<B>) {
        let LoopSwitch { cpu, previous, next } = *switch;
        let ran = std::mem::replace(self.on_cpus.get_or(cpu, || None), next);
        if let Some(ran) = ran.filter(|ran| previous.is_none_or(|leaver| leaver.thread != *ran)) {
            // When it left is missing.
            self.lose(ran, 0);
        }
        if let Some(Leaver { thread, departure }) = previous {
            self.leave(now, cpu, Leaver { thread, departure });
        }
        let Some(next) = next else { return };
        if let Some(books) = self.books(next) {
            books.enter(now, cpu);
            self.hand_over(next);
        }
    }

    fn leave(&mut self, now: u64, cpu: CpuId, leaver: Leaver<B>) {
        if leaver.departure == Departure::Ended {
            return self.end_thread(leaver.thread);
        }
        let Some(books) = self.books(leaver.thread) else { return };
        books.leave(now, cpu, leaver.departure);
        self.hand_over(leaver.thread);
    }

    /// A thread is made runnable.
    pub(crate) fn wakeup(&mut self, now: u64, thread: ThreadId) {
        if let Some(books) = self.books(thread) {
            books.wake(now);
        }
    }

    /// A thread begins: what it does before its first wait is no stretch.
    pub(crate) fn start(&mut self, thread: ThreadId) {
        if let Some(books) = self.books(thread) {
            books.begin_anew();
        }
    }

    /// A thread has ended.
    pub(crate) fn end_thread(&mut self, thread: ThreadId) {
        let Some(books) = self.threads.get_mut(thread.index()).and_then(Option::take) else {
            return;
        };
        self.followed -= 1;
        if let Some(summary) = books.summary(thread).filter(|_| self.ended.len() < MOST_LOOPS) {
            self.ended.push(summary);
        }
    }

    /// A thread was seen asleep, and no switch told of it.
    pub(crate) fn asleep(&mut self, now: u64, thread: ThreadId, sleep: Sleep<B>) {
        if let Some(books) = self.books(thread) {
            books.seen_asleep(now, sleep);
        }
    }

    /// A thread was seen on a CPU.
    pub(crate) fn sample(&mut self, now: u64, sample: &LoopSample) {
        let Some(books) = self.books(sample.thread) else { return };
        books.sample(now, sample);
        self.hand_over(sample.thread);
        *self.on_cpus.get_or(sample.cpu, || None) = Some(sample.thread);
    }

    /// Records of a CPU, or of any, are missing from then until now, of these threads.
    pub(crate) fn gap(&mut self, since: u64, cpu: Option<CpuId>, of: impl Fn(ThreadId) -> bool) {
        for index in 0..self.threads.len() {
            let thread = ThreadId(index as u32);
            let Some(books) = self.threads[index].as_ref().filter(|_| of(thread)) else { continue };
            if cpu.is_none_or(|cpu| !books.runs_elsewhere(cpu, since)) {
                self.lose(thread, since);
            }
        }
        for (id, thread) in self.on_cpus.iter_mut() {
            if cpu.map_or(thread.is_some_and(&of), |cpu| cpu == id) {
                *thread = None;
            }
        }
    }

    /// What a thread did is known up to then; 0: up to its last event.
    fn lose(&mut self, thread: ThreadId, since: u64) {
        if let Some(Some(books)) = self.threads.get_mut(thread.index()) {
            books.lose(since);
            self.hand_over(thread);
        }
    }

    /// What is known of a thread's stretches is there to be taken.
    #[inline]
    fn hand_over(&mut self, thread: ThreadId) {
        if let Some(Some(books)) = self.threads.get_mut(thread.index()) {
            books.give(&mut self.found);
        }
    }

    /// The recording of these threads ends: what lasts, lasts until now.
    pub(crate) fn finish(&mut self, now: u64, of: impl Fn(ThreadId) -> bool) {
        for (thread, books) in (0..).map(ThreadId).zip(&mut self.threads) {
            if let Some(books) = books.as_mut().filter(|_| of(thread)) {
                books.finish(now);
                books.give(&mut self.found);
            }
        }
    }
}
