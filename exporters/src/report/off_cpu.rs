//! Time blocked, by what was waited for and by stack.

mod classes;
mod longest_blocked;
mod program_names;
mod sleepers;
mod wait_rows;

use super::capped::Capped;
use super::data::{AsleepThroughout, CallTree, OffCpuReport, WaitClass};
use super::programs::UnfinishedWork;
use super::row_maker::RowMaker;
use super::tree::{TreeBuilder, TreeOptions};
use super::truncated::TruncatedStacks;
use super::wait_for::WaitsFor;
use classes::{ClassifiedWaits, ProcessStack};
use program_names::ProgramNames;
use sleepers::asleep_throughout;
use syscollect_model::{OffCpu, ProcessId, SleepState, StackId, StringId, Tables, ThreadId};
use wait_rows::WaitRows;

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

    fn process_stack(&self) -> Option<ProcessStack> {
        self.stack.map(|stack| ProcessStack { process: self.process, stack })
    }
}

/// How often, how long in all and at most, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    count: u64,
    pub(super) sum: u64,
    most: u64,
}

impl Total {
    #[inline]
    fn add(&mut self, nanoseconds: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(nanoseconds);
        self.most = self.most.max(nanoseconds);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.most = self.most.max(other.most);
    }
}

/// The time that threads were blocked.
#[derive(Debug)]
pub(super) struct OffCpuTimes {
    all: Total,
    without_stack: Total,
    reasons: Capped<Reason, Total>,
    pub(super) stacks: Capped<(ProcessId, StackId), Total>,
    /// By all of it, for what only names tell, which are all there at the end.
    waits: Capped<WaitKey, Total>,
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

    /// With rows of threads that slept all the time and had nothing to do, if these are wanted.
    pub(super) fn report(
        &self,
        with_idle_sleepers: bool,
        unfinished: UnfinishedWork<'_>,
        maker: RowMaker<'_>,
    ) -> OffCpuReport {
        let mut waits_for = WaitsFor::new(maker.tables);
        let programs = ProgramNames::new(maker.tables);
        let mut waits = ClassifiedWaits::default();
        for (key, total) in self.waits.iter() {
            waits.add(waits_for.of(key.process, key.stack, key.reason), key, total);
        }
        // Of what there was no room for nothing is claimed.
        waits.undecided.all.merge(self.waits.left_out());
        let sleeps = self.stacks.iter().map(|((_, stack), total)| (*stack, total.count));
        let truncated = TruncatedStacks::among(sleeps, maker);
        let rows = WaitRows { maker, programs: &programs };
        let asleep = asleep_throughout(&self.asleep_throughout, unfinished, &mut waits_for, rows);
        OffCpuReport {
            blocked_ns: self.all.sum,
            reasons: rows.reasons(&self.reasons, &waits),
            without_stack_ns: self.without_stack.sum,
            with_stack: self.stacks.iter().map(|(_, total)| total.count).sum(),
            truncated: truncated.count,
            truncated_in: truncated.rows,
            stacks: rows.process_stacks(&self.stacks, &waits),
            longest_blocked: longest_blocked::of(&waits.blocked, rows),
            blocked: rows.of_class(&waits.blocked),
            undecided: rows.of_class(&waits.undecided),
            idle: rows.of_class(&waits.idle),
            asleep_throughout: AsleepThroughout { with_idle: with_idle_sleepers, ..asleep },
        }
    }

    pub(super) fn tree(&self, options: TreeOptions, tables: &Tables) -> CallTree {
        let mut tree = TreeBuilder::new(tables, options);
        let mut waits_for = WaitsFor::new(tables);
        let mut waits: Vec<_> = self
            .waits
            .iter()
            .map(|(key, total)| {
                let wait = waits_for.of(key.process, key.stack, key.reason);
                (key.process, key.stack, wait, total.sum)
            })
            .collect();
        waits.sort_unstable();
        for (process, stack, wait, nanoseconds) in waits {
            match wait.class() {
                WaitClass::Idle if !options.idle => tree.add_idle(nanoseconds),
                _ => tree.add(process, stack, Some(wait), nanoseconds),
            }
        }
        tree.add_left_out(self.waits.left_out().sum);
        tree.finish()
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
