//! How threads of the recorder stand to others: the real-time class, for all or part of a thread's
//! time, and nice values.

mod alternation;
mod session;

use std::time::{Duration, Instant};

use syscollect_untrusted_files::FixedPath;

use self::alternation::Alternation;
pub use self::session::{RaisedSession, restore_session};
use crate::usage::thread_cpu_time;

/// A scheduling class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// The real-time class, with a priority in it.
    RealTime(libc::c_int),
    /// The ordinary class, where a thread has the nice value that it had.
    Others,
}

impl Class {
    /// The lowest priority of the real-time class.
    const FIRST: Self = Self::RealTime(1);
}

/// On a machine whose CPUs are all busy the collector must still come in time;
/// it needs little. A nice value counts only among the tasks of one group
/// (control groups, and each terminal's own), and has been seen to make the
/// collector wait a quarter of a second; the real-time class goes before all
/// groups. Where neither is permitted, it goes without.
pub(crate) fn go_first() {
    if !set_class(0, Class::FIRST) {
        go_before_most();
    }
}

/// Back into the ordinary class.
fn go_with_others() {
    set_class(0, Class::Others);
}

/// Puts a thread of this process, or the calling one (0), into a class, which threads that it
/// starts later do not inherit; whether that is permitted.
fn set_class(thread: libc::pid_t, class: Class) -> bool {
    let (policy, priority) = match class {
        Class::RealTime(priority) => (libc::SCHED_RR, priority),
        Class::Others => (libc::SCHED_OTHER, 0),
    };
    set_policy(thread, policy | libc::SCHED_RESET_ON_FORK, priority)
}

/// Threads that the calling one starts are in the ordinary class, and inherit its nice value again.
fn let_threads_inherit() {
    set_policy(0, libc::SCHED_OTHER, 0);
}

/// Whether it is permitted.
fn set_policy(thread: libc::pid_t, policy: libc::c_int, priority: libc::c_int) -> bool {
    // musl's function of this name always fails, because POSIX means processes where Linux means
    // threads. So the call is made without the C library. The priority is all of the kernel's
    // `sched_param`.
    // SAFETY: two numbers, and a parameter that outlives the call. A thread that has ended is none:
    // its number is not given out again so soon.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const priority) == 0 }
}

/// As much of a CPU as a thread of the ordinary class can have: for work that must keep up with the
/// lanes, but that may wait for the disk.
pub fn go_before_most() {
    // SAFETY: the own thread's priority; no memory is involved.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -19) };
}

/// How much nicer others are than the recorder once it stops.
const BEFORE_MANY: libc::c_int = 10;

/// A thread of this process, and those that it starts from now on, go before many others, as
/// [`all_go_before_many`] has it: by so much before the process's first thread.
pub fn goes_before_many(thread: u32) {
    // SAFETY: numbers in, numbers out; no memory is involved. The thread is of this process, or it
    // has ended, and then there is none: its number is not given out again so soon. -1 is a nice
    // value, or an error, and then what is left is before others all the same.
    unsafe {
        let nice = libc::getpriority(libc::PRIO_PROCESS, libc::getpid() as libc::id_t);
        libc::setpriority(libc::PRIO_PROCESS, thread, nice - BEFORE_MANY);
    }
}

/// More of a CPU than others have for all threads of this process and those that they start, and
/// not as much as there is: for the work after a recording, which somebody waits for. Beside 30
/// busy threads of its group on its CPU, a thread would have 1/31 of it; so it has a quarter. As
/// long as what is returned lives, the same holds beside 30 busy sessions.
///
/// Threads that go before others already stay as they are.
pub fn all_go_before_many() -> RaisedSession {
    let threads = FixedPath::new("/proc/self/task").entries().into_iter().flatten().flatten();
    for id in threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()) {
        // SAFETY: numbers in, numbers out; no memory is involved. The thread is of this process, or
        // it has ended, and then there is none: its number is not given out again so soon. -1 is a
        // nice value, or an error, and of either nothing is to be raised.
        unsafe {
            let nice = libc::getpriority(libc::PRIO_PROCESS, id);
            if nice >= 0 {
                libc::setpriority(libc::PRIO_PROCESS, id, nice - BEFORE_MANY);
            }
        }
    }
    RaisedSession::before_many()
}

/// Less of a CPU than others have: for work that nobody waits for.
pub(crate) fn go_behind_others() {
    // SAFETY: the own thread's priority; no memory is involved.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
}

/// While this lives, the thread has as much of a CPU as it can, and half of one before everybody:
/// people reach for a profiler when the machine is busy, and what they look for happens meanwhile.
pub(crate) struct PriorityBoost {
    alternation: Option<Alternation>,
    nice_before: i32,
}

impl PriorityBoost {
    pub(crate) fn begin() -> Self {
        // SAFETY: the own thread's priority; no memory is involved. It cannot fail, so that -1 is a
        // value.
        let nice_before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        go_before_most();
        // A nice value counts only within a session, and many of them may be busy.
        Self { alternation: Some(Alternation::begin()), nice_before }
    }
}

impl Drop for PriorityBoost {
    fn drop(&mut self) {
        // Ends first: it leaves the thread in the ordinary class.
        self.alternation = None;
        let_threads_inherit();
        // SAFETY: the own thread's priority; no memory is involved. Whoever may raise it may lower
        // it.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.nice_before) };
    }
}

/// How long a window is, of which a thread goes first for a part.
const WINDOW: Duration = Duration::from_millis(100);

/// How much CPU time of each window of 100 ms a thread goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstParts {
    /// Always.
    pub(crate) always: Duration,
    /// In windows of the beginning, until `credit` is used up.
    pub(crate) at_first: Duration,
    /// How much more than always a thread may have at the beginning, in all.
    pub(crate) credit: Duration,
}

impl FirstParts {
    /// Of a thread that hears of programs that may end at once.
    pub(crate) const HEARING: Self = Self::of(Duration::from_millis(2));

    /// Of the thread that writes the file: while it waits for a CPU the trace buffer fills.
    pub(crate) const WRITING: Self = Self::of(Duration::from_millis(10));

    /// The same from the beginning on.
    pub(crate) const fn of(always: Duration) -> Self {
        Self { always, at_first: always, credit: Duration::ZERO }
    }
}

/// A thread that goes first: what it does cannot wait, but programs make it, as much as they like.
/// Beyond a part of its time it goes with all others, so that nobody has more of it than that.
pub(crate) struct FirstForPart {
    parts: FirstParts,
    window: Instant,
    cpu_before: Duration,
    is_first: bool,
}

impl FirstForPart {
    /// The calling thread goes first from now on, and beyond its parts as it did before.
    pub(crate) fn begin(parts: FirstParts) -> Self {
        go_first();
        Self::at(parts, Instant::now(), thread_cpu_time())
    }

    fn at(parts: FirstParts, window: Instant, cpu_before: Duration) -> Self {
        Self { parts, window, cpu_before, is_first: true }
    }

    /// The calling thread goes with others whatever it has left, until [`Self::follow`].
    pub(crate) fn stand_back(&mut self) {
        if std::mem::replace(&mut self.is_first, false) {
            go_with_others();
        }
    }

    /// The calling thread has done something. Cheap: it reads two clocks.
    pub(crate) fn follow(&mut self) {
        match self.turn(Instant::now(), thread_cpu_time()) {
            Some(true) => go_first(),
            Some(false) => go_with_others(),
            None => {}
        }
    }

    /// Whether it goes first from now on, if that is another than before.
    fn turn(&mut self, now: Instant, cpu: Duration) -> Option<bool> {
        let FirstParts { always, at_first, credit } = &mut self.parts;
        let mut used = cpu.saturating_sub(self.cpu_before);
        if now.duration_since(self.window) >= WINDOW {
            let beyond = used.min(*at_first).saturating_sub(*always);
            *credit = credit.saturating_sub(beyond);
            (self.window, self.cpu_before, used) = (now, cpu, Duration::ZERO);
        }
        let is_first = used <= if credit.is_zero() { *always } else { *at_first };
        (std::mem::replace(&mut self.is_first, is_first) != is_first).then_some(is_first)
    }

    /// How long the thread may wait before it calls [`Self::follow`] again; `None` if as long as it
    /// likes: what comes next finds it where it is to go.
    pub(crate) fn wait(&self) -> Option<Duration> {
        (!self.is_first).then(|| WINDOW.saturating_sub(self.window.elapsed()))
    }
}

impl Drop for FirstForPart {
    fn drop(&mut self) {
        self.stand_back();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn a_thread_that_works_without_end_goes_first_for_its_part_of_each_window() {
        let start = Instant::now();
        let (step, part) = (Duration::from_millis(1), Duration::from_millis(2));
        let mut priority = FirstForPart::at(FirstParts::of(part), start, Duration::ZERO);
        let first = first_of(&mut priority, start, 1..1_001);
        let most = (part + 2 * step) * 11;
        assert!(first >= part * 10 && first <= most, "it went first for {first:?} of a second");
    }

    #[test]
    fn a_thread_goes_first_for_more_when_it_begins() {
        let start = Instant::now();
        let [step, always, at_first, credit] = [1, 2, 20, 100].map(Duration::from_millis);
        let parts = FirstParts { always, at_first, credit };
        let mut priority = FirstForPart::at(parts, start, Duration::ZERO);
        let begin = first_of(&mut priority, start, 1..1_001);
        let later = first_of(&mut priority, start, 1_001..2_001);
        let all = 10 * (always + 2 * step);
        assert!(begin >= credit && begin <= credit + at_first + all, "first for {begin:?}");
        assert!(later <= all + always, "then for {later:?} of a second");
    }

    /// How long a thread that works all the time goes first in these milliseconds.
    fn first_of(priority: &mut FirstForPart, start: Instant, all: Range<u32>) -> Duration {
        let (step, mut first) = (Duration::from_millis(1), Duration::ZERO);
        for ms in all {
            first += if priority.is_first { step } else { Duration::ZERO };
            priority.turn(start + step * ms, step * ms);
        }
        first
    }

    #[test]
    fn a_thread_that_has_little_to_do_always_goes_first() {
        let start = Instant::now();
        let parts = FirstParts::of(Duration::from_millis(2));
        let mut priority = FirstForPart::at(parts, start, Duration::ZERO);
        for ms in 1..=1_000u32 {
            let cpu = Duration::from_micros(15) * ms;
            assert_eq!(priority.turn(start + Duration::from_millis(ms.into()), cpu), None);
        }
        assert_eq!(priority.wait(), None);
    }
}
