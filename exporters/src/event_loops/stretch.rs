//! A time in which a loop did not come back to its wait.

use super::LoopWait;
use syscollect_model::{StackId, ThreadId};

/// What a thread slept in that is told apart in one stretch.
pub(super) const MOST_SLEEPS: usize = 8;
/// Stacks that are told apart in one stretch.
pub(super) const MOST_STACKS: usize = 32;

/// How a stretch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StretchEnd {
    /// The thread slept in its wait again, or was seen in it.
    Returned,
    /// Records are missing from there on.
    Unknown,
    /// The thread ended.
    ThreadEnded,
    /// The recording ended.
    Recording,
}

impl StretchEnd {
    /// Whether it lasted longer, for all that is known.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Unknown | Self::Recording)
    }
}

/// A loop was away. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch<B> {
    pub(crate) thread: ThreadId,
    /// What it waits in.
    pub(crate) wait: LoopWait,
    pub(crate) since: u64,
    pub(crate) until: u64,
    /// It may have begun earlier: it was away when it was first seen, or after missing records.
    pub(crate) may_be_longer: bool,
    /// It may have come back without sleeping: it was on a CPU, and what is known of samples does
    /// not rule that out.
    pub(crate) may_have_returned: bool,
    pub(crate) end: StretchEnd,
    pub(crate) activity: StretchActivity<B>,
}

impl<B> Stretch<B> {
    pub(crate) fn length(&self) -> u64 {
        self.until.saturating_sub(self.since)
    }

    /// Whether it was at least as long, rather than exactly.
    pub(crate) fn is_least(&self) -> bool {
        self.may_be_longer || self.end.is_open()
    }
}

/// What a thread did in a stretch. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StretchActivity<B> {
    pub(crate) on_cpu: u64,
    /// For a CPU.
    pub(crate) waiting: u64,
    pub(crate) asleep: Vec<AsleepFor<B>>,
    /// Asleep in what is not told apart.
    pub(crate) asleep_others: u64,
    pub(crate) stacks: Vec<SampledStack>,
    /// Samples whose stacks are not told apart, or that have none.
    pub(crate) other_samples: u64,
}

/// How long a thread slept for something, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AsleepFor<B> {
    pub(crate) what: B,
    pub(crate) time: u64,
}

/// How often a thread was seen there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampledStack {
    pub(crate) stack: StackId,
    pub(crate) count: u64,
}

impl<B> Default for StretchActivity<B> {
    fn default() -> Self {
        Self {
            on_cpu: 0,
            waiting: 0,
            asleep: Vec::new(),
            asleep_others: 0,
            stacks: Vec::new(),
            other_samples: 0,
        }
    }
}

impl<B: Copy + Eq> StretchActivity<B> {
    pub(super) fn sleep(&mut self, what: B, time: u64) {
        if time == 0 {
            return;
        }
        if let Some(known) = self.asleep.iter_mut().find(|known| known.what == what) {
            known.time += time;
        } else if self.asleep.len() < MOST_SLEEPS {
            self.asleep.push(AsleepFor { what, time });
        } else {
            self.asleep_others += time;
        }
    }

    pub(super) fn sample(&mut self, stack: Option<StackId>) {
        let Some(stack) = stack else {
            self.other_samples += 1;
            return;
        };
        if let Some(known) = self.stacks.iter_mut().find(|known| known.stack == stack) {
            known.count += 1;
        } else if self.stacks.len() < MOST_STACKS {
            self.stacks.push(SampledStack { stack, count: 1 });
        } else {
            self.other_samples += 1;
        }
    }

    /// In whatever it slept.
    pub(crate) fn asleep(&self) -> u64 {
        self.asleep.iter().map(|sleep| sleep.time).sum::<u64>() + self.asleep_others
    }

    /// How often samples found it.
    pub(crate) fn samples(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.count).sum::<u64>() + self.other_samples
    }
}
