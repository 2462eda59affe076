//! Time blocked, by what was waited for and by stack.

use super::capped::Capped;
use syscollect_model::{OffCpu, ProcessId, SleepState, StackId, StringId, ThreadId};

/// Rows of each table.
const MAX_ROWS: usize = 1 << 19;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reason {
    pub(crate) blocked_in: Option<StringId>,
    pub(crate) state: SleepState,
    pub(crate) io_wait: bool,
}

impl Reason {
    pub(crate) fn of(off_cpu: &OffCpu) -> Self {
        let OffCpu { blocked_in, state, io_wait, .. } = *off_cpu;
        Self { blocked_in, state, io_wait }
    }
}

/// Who waited, where and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WaitKey {
    pub(super) thread: ThreadId,
    pub(super) process: ProcessId,
    pub(super) stack: Option<StackId>,
    pub(super) reason: Reason,
}

impl WaitKey {
    pub(super) fn new(thread: ThreadId, process: ProcessId, off_cpu: &OffCpu) -> Self {
        Self { thread, process, stack: off_cpu.stack, reason: Reason::of(off_cpu) }
    }
}

/// How often, how long in all and at most, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) sum: u64,
    pub(super) most: u64,
}

impl Total {
    #[inline]
    fn add(&mut self, nanoseconds: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(nanoseconds);
        self.most = self.most.max(nanoseconds);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.most = self.most.max(other.most);
    }
}

/// The time that threads were blocked.
#[derive(Debug)]
pub(super) struct OffCpuTimes {
    pub(super) all: Total,
    pub(super) without_stack: Total,
    pub(super) reasons: Capped<Reason, Total>,
    pub(super) stacks: Capped<(ProcessId, StackId), Total>,
    /// By all of it, for what only names tell, which are all there at the end.
    pub(super) waits: Capped<WaitKey, Total>,
    /// Who slept from beginning to end: in no other row.
    pub(super) asleep_throughout: Vec<WaitKey>,
}

impl Default for OffCpuTimes {
    fn default() -> Self {
        Self {
            all: Total::default(),
            without_stack: Total::default(),
            reasons: Capped::new(MAX_ROWS),
            stacks: Capped::new(MAX_ROWS),
            waits: Capped::new(MAX_ROWS),
            asleep_throughout: Vec::new(),
        }
    }
}

impl OffCpuTimes {
    #[inline]
    pub(super) fn add(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        off_cpu: &OffCpu,
        nanoseconds: u64,
    ) {
        let key = WaitKey::new(thread, process, off_cpu);
        let WaitKey { reason, stack, .. } = key;
        self.waits.row(key).add(nanoseconds);
        self.all.add(nanoseconds);
        self.reasons.row(reason).add(nanoseconds);
        match stack {
            Some(stack) => self.stacks.row((process, stack)).add(nanoseconds),
            None => self.without_stack.add(nanoseconds),
        }
    }
}

/// The kind of sleep, as the report calls it.
pub(crate) fn state_name(state: SleepState) -> &'static str {
    match state {
        SleepState::Runnable => "runnable",
        SleepState::Interruptible => "interruptible",
        SleepState::Uninterruptible => "uninterruptible",
        SleepState::Idle => "idle",
        SleepState::Stopped => "stopped",
        SleepState::Traced => "traced",
        SleepState::Dead => "dead",
        SleepState::Zombie => "zombie",
        SleepState::Parked => "parked",
    }
}
