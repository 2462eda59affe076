//! The longest waits of threads, and what their CPUs ran meanwhile.

use super::account::Wait;
use super::data::{BlockedWaitRow, CpuWaitRow, LockWaitRow, RanRow, Table, WaitClass, Waiter};
use super::data::{WakerRow, WorstWaits};
use super::longest::Longest;
use super::off_cpu::{Reason, state_name};
use super::row_maker::{RowMaker, WaitSpan};
use super::runs::CpuMeanwhile;
use super::stack_labels::labels;
use super::wait_for::{CachedWaits, WaitFor};
use super::wakeups::Waker;
use syscollect_model::{CpuId, OffCpu, ProcessId, StackId, Tables, ThreadId};

/// Who made a thread runnable, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Woken {
    pub(super) waker: Waker,
    pub(super) cpu: CpuId,
    pub(super) stack: Option<StackId>,
}

/// A thread waited for a CPU.
#[derive(Clone, Debug)]
pub(super) struct CpuWait {
    pub(super) thread: ThreadId,
    /// Nanoseconds of it in which records are missing.
    pub(super) unknown: u64,
    pub(super) began: Wait,
    pub(super) woken: Option<Woken>,
    /// Where it ran then; `None` where it still waited at the end.
    pub(super) cpu: Option<CpuId>,
    pub(super) meanwhile: CpuMeanwhile,
}

/// A thread was blocked.
#[derive(Clone, Debug)]
pub(super) struct BlockedWait {
    pub(super) thread: ThreadId,
    /// Nanoseconds between its beginning and its end in which records are missing.
    pub(super) unknown: u64,
    pub(super) off_cpu: OffCpu,
    pub(super) waits_for: WaitFor,
    pub(super) woken: Option<Woken>,
    /// It still was at the end.
    pub(super) goes_on: bool,
}

/// The longest waits of each kind; those for locks and fences are kept with these.
#[derive(Debug)]
pub(super) struct WorstOfEach {
    pub(super) for_cpu: Longest<CpuWait>,
    pub(super) blocked: Longest<BlockedWait>,
    /// How many times threads that had nothing to do are not among the blocked ones.
    pub(super) idle_left_out: usize,
    /// They are.
    with_idle: bool,
    cached: CachedWaits,
}

impl WorstOfEach {
    pub(super) fn new(kept: usize, with_idle: bool) -> Self {
        Self {
            for_cpu: Longest::new(kept),
            blocked: Longest::new(kept),
            idle_left_out: 0,
            with_idle,
            cached: CachedWaits::default(),
        }
    }

    /// As many can be kept, and none is.
    pub(super) fn emptied(&mut self) -> Self {
        Self {
            for_cpu: self.for_cpu.emptied(),
            blocked: self.blocked.emptied(),
            idle_left_out: 0,
            with_idle: self.with_idle,
            cached: std::mem::take(&mut self.cached),
        }
    }

    /// What a thread waited for that was blocked; `None` where that is left out: it was idle.
    pub(super) fn waited_for(
        &mut self,
        process: ProcessId,
        off_cpu: &OffCpu,
        tables: &Tables,
    ) -> Option<WaitFor> {
        let wait = self.cached.of(process, off_cpu.stack, Reason::of(off_cpu), tables);
        let is_left_out = wait.class() == WaitClass::Idle && !self.with_idle;
        self.idle_left_out += usize::from(is_left_out);
        (!is_left_out).then_some(wait)
    }

    /// With those for locks, which are kept elsewhere.
    pub(super) fn report(&self, locks: Table<LockWaitRow>, maker: RowMaker<'_>) -> WorstWaits {
        let for_cpu = self.for_cpu.sorted().into_iter().map(|(waited, since, wait)| {
            let span = WaitSpan { waited, since, thread: wait.thread };
            wait.row(span, maker)
        });
        let blocked = self.blocked.sorted().into_iter().map(|(waited, since, wait)| {
            let span = WaitSpan { waited, since, thread: wait.thread };
            wait.row(span, maker)
        });
        WorstWaits {
            for_cpu: Table { total: self.for_cpu.count, rows: for_cpu.collect() },
            blocked: Table { total: self.blocked.count, rows: blocked.collect() },
            idle_left_out: self.idle_left_out,
            locks,
        }
    }
}

impl CpuWait {
    fn row(&self, span: WaitSpan, maker: RowMaker<'_>) -> CpuWaitRow {
        let CpuMeanwhile { most, others, unknown, is_part } = &self.meanwhile;
        let ran = most.iter().map(|(thread, ran_ns)| RanRow {
            tid: maker.tables.thread(*thread).tid,
            thread: maker.tables.thread_name(*thread).into(),
            ran_ns: *ran_ns,
        });
        CpuWaitRow {
            waiter: Waiter { unknown_ns: self.unknown, ..maker.waiter(span) },
            preempted: self.began == Wait::Preemption,
            woken_by: self.woken.map(|woken| woken.row(maker.tables)),
            cpu: self.cpu,
            goes_on: self.cpu.is_none(),
            meanwhile: ran.collect(),
            other_threads: others.0,
            other_threads_ns: others.1,
            meanwhile_unknown_ns: *unknown,
            meanwhile_is_part: *is_part,
        }
    }
}

impl BlockedWait {
    fn row(&self, span: WaitSpan, maker: RowMaker<'_>) -> BlockedWaitRow {
        let OffCpu { blocked_in, state, io_wait, stack, .. } = self.off_cpu;
        BlockedWaitRow {
            waiter: Waiter { unknown_ns: self.unknown, ..maker.waiter(span) },
            blocked_in: blocked_in.map(|name| maker.string(name)),
            waits_for: self.waits_for.name().to_owned(),
            state: state_name(state).to_owned(),
            io_wait,
            stack: labels(stack, maker.tables),
            woken_by: self.woken.map(|woken| woken.row(maker.tables)),
            goes_on: self.goes_on,
        }
    }
}

impl Woken {
    fn row(self, tables: &Tables) -> WakerRow {
        let Self { waker, cpu, stack } = self;
        WakerRow {
            kind: waker.kind(),
            thread: waker.name(tables).into(),
            tid: waker.tid(tables),
            cpu,
            stack: labels(stack, tables),
        }
    }
}
