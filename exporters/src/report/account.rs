//! The books of one thread.

use super::data::{Activity, Counts, Times};
use super::worst::Woken;
use crate::gaps::Gaps;
use syscollect_model::{CpuId, OffCpu, ProcessId};

/// The state of a thread, as far as events tell it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ThreadState {
    /// Nothing tells.
    Unknown,
    /// On this CPU.
    Running(CpuId),
    /// Runnable, waiting for a CPU.
    Waiting(Wait),
    /// Asleep.
    Blocked(OffCpu),
    /// It left the CPU for the last time.
    Ended,
}

/// What a wait for a CPU began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Wakeup,
    Preemption,
}

/// The time in a state that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateInterval {
    pub(super) state: ThreadState,
    /// When it began.
    pub(super) since: u64,
    /// How long the state is known to have lasted.
    pub(super) known: u64,
    /// For how long it is not known what happened between its beginning and its end.
    pub(super) unknown: u64,
    pub(super) earlier: EarlierPart,
}

/// What of a state was before what the report tells of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EarlierPart {
    /// There is such a part.
    pub(super) is_cut_off: bool,
    /// How long the state had lasted then; 0 if that is not known.
    known: u64,
    /// The state is a sleep that had begun before the recording.
    pub(super) slept: bool,
}

/// The longest of the waits of a thread for a CPU, the first of equals; none is of no length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongestWait {
    pub(super) waited: u64,
    pub(super) since: u64,
}

impl StateInterval {
    /// From its true beginning on; `None` if that is not known.
    pub(super) fn whole(&self) -> Option<Self> {
        let Self { since, known, earlier, .. } = *self;
        (!earlier.is_cut_off || earlier.known > 0).then_some(Self {
            since: since - earlier.known,
            known: known + earlier.known,
            ..*self
        })
    }
}

impl Times {
    /// Adds nanoseconds in a state. All time on CPU is counted here, that of CPUs' rows, too.
    #[inline]
    fn add(&mut self, state: &ThreadState, nanoseconds: u64) {
        match state {
            ThreadState::Unknown => self.unknown_ns += nanoseconds,
            ThreadState::Running(_) => self.on_cpu_ns += nanoseconds,
            ThreadState::Waiting(_) => self.waiting_ns += nanoseconds,
            ThreadState::Blocked(_) => self.blocked_ns += nanoseconds,
            ThreadState::Ended => {}
        }
    }
}

/// A thread's state and what was counted of it. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct ThreadAccount {
    pub(super) process: ProcessId,
    /// It belongs to what the report is about.
    pub(super) chosen: bool,
    /// Only what concerns others is recorded of it.
    pub(super) is_partial: bool,
    pub(super) state: ThreadState,
    /// Since when.
    pub(super) since: u64,
    /// What of the state was before what the report tells of.
    earlier: EarlierPart,
    /// It was woken while it was still on the CPU.
    pub(super) woken_early: bool,
    /// Who woke it last, since it left the CPU or just before.
    pub(super) woken: Option<Woken>,
    /// Its end was told; it may still run for a moment.
    pub(super) exiting: bool,
    /// Its begin or end was told, or something that it said, whether or not any event tells what it
    /// did.
    pub(super) reported: bool,
    pub(super) times: Times,
    pub(super) counts: Counts,
    pub(super) longest_wait: LongestWait,
}

impl ThreadAccount {
    pub(super) fn new(process: ProcessId, chosen: bool, since: u64) -> Self {
        Self {
            process,
            chosen,
            is_partial: false,
            state: ThreadState::Unknown,
            since,
            earlier: EarlierPart::default(),
            woken_early: false,
            woken: None,
            exiting: false,
            reported: false,
            times: Times::default(),
            counts: Counts::default(),
            longest_wait: LongestWait::default(),
        }
    }

    /// What is told of it begins now.
    pub(super) fn begin_anew(&mut self, now: u64) {
        self.doubt_sleep();
        self.restart(now);
    }

    /// What was overwritten may have told that it ran since it was seen asleep.
    pub(super) fn doubt_sleep(&mut self) {
        if std::mem::take(&mut self.earlier.slept) {
            (self.state, self.earlier.is_cut_off) = (ThreadState::Unknown, false);
        }
    }

    fn restart(&mut self, now: u64) {
        self.since = self.since.max(now);
        self.times = Times::default();
    }

    /// No event told what it did, nor for how long.
    pub(super) fn is_told_nothing(&self) -> bool {
        self.counts == Counts::default() && self.times == Times::default()
    }

    /// It was seen asleep, and nothing told what it did: it has slept since before the recording.
    pub(super) fn slept_before(&mut self, off_cpu: OffCpu) {
        self.state = ThreadState::Blocked(off_cpu);
        (self.earlier.is_cut_off, self.earlier.slept) = (true, true);
    }

    /// What came until now is not told of: its state lasts, and nothing counts.
    pub(super) fn forget_before(&mut self, now: u64, gaps: &Gaps) {
        let EarlierPart { is_cut_off, known, slept } = &mut self.earlier;
        *is_cut_off = self.since < now || *slept;
        let is_known = *is_cut_off && !*slept && gaps.missing(self.since, now) == 0;
        *known = if is_known { now - self.since } else { 0 };
        self.restart(now);
        (self.counts, self.longest_wait, self.reported) = Default::default();
    }

    /// What its time went to until now, if nothing is missing since its state began.
    pub(super) fn times_at(&self, now: u64) -> Times {
        let mut times = self.times;
        times.add(&self.state, now.saturating_sub(self.since));
        times
    }

    /// What it did until now.
    pub(super) fn activity(&self) -> Activity {
        Activity {
            times: self.times,
            longest_wait_ns: self.longest_wait.waited,
            counts: self.counts,
        }
    }

    /// Whether any event tells of what it did.
    pub(super) fn is_active(&self) -> bool {
        let Counts { switches, preemptions, wakeups, migrations, samples } = self.counts;
        switches + preemptions + wakeups + migrations + samples > 0
            || self.times.on_cpu_ns + self.times.waiting_ns + self.times.blocked_ns > 0
    }

    /// The state ends now, with an event that follows from it: so it lasted all
    /// the time, but for what may have happened in gaps.
    ///
    /// What runs is told by its CPU alone, which [`super::scheduling`] stops at gaps.
    #[inline]
    pub(super) fn change(&mut self, state: ThreadState, now: u64, gaps: &Gaps) -> StateInterval {
        let now = now.max(self.since);
        let missing = match self.state {
            ThreadState::Waiting(_) | ThreadState::Blocked(_) => gaps.missing(self.since, now),
            ThreadState::Unknown | ThreadState::Running(_) | ThreadState::Ended => 0,
        };
        self.end(state, now - self.since - missing, now)
    }

    /// Something was seen that does not follow from the state: it ended unseen.
    /// It is known up to where records are missing, if any are.
    pub(super) fn lose_track(&mut self, now: u64, missing_from: Option<u64>) -> StateInterval {
        let now = now.max(self.since);
        let known_until = match self.state {
            ThreadState::Waiting(_) | ThreadState::Blocked(_) => {
                missing_from.map_or(self.since, |start| start.min(now))
            }
            ThreadState::Unknown | ThreadState::Running(_) | ThreadState::Ended => self.since,
        };
        self.end(ThreadState::Unknown, known_until.saturating_sub(self.since), now)
    }

    /// Nothing of what it did until now is known.
    pub(super) fn forget(&mut self, now: u64) {
        let Times { on_cpu_ns, waiting_ns, blocked_ns, unknown_ns } = self.times_at(now);
        let unknown_ns = on_cpu_ns + waiting_ns + blocked_ns + unknown_ns;
        (self.times, self.state) = (Times { unknown_ns, ..Times::default() }, ThreadState::Ended);
    }

    #[inline]
    fn end(&mut self, next: ThreadState, known: u64, now: u64) -> StateInterval {
        let elapsed = now - self.since;
        let unknown = elapsed - known;
        let stay = StateInterval {
            state: self.state,
            since: self.since,
            known,
            unknown,
            earlier: std::mem::take(&mut self.earlier),
        };
        self.times.add(&self.state, known);
        if self.state != ThreadState::Ended {
            self.times.unknown_ns += unknown;
        }
        (self.state, self.since) = (next, now);
        stay
    }
}
