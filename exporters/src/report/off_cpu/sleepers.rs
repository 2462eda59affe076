//! Who slept from beginning to end, and how suspicious that is.

use super::wait_rows::WaitRows;
use super::{Reason, WaitKey, state_name};
use crate::report::data::*;
use crate::report::programs::UnfinishedWork;
use crate::report::stack_labels::labels;
use crate::report::wait_for::{WaitFor, WaitsFor};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use syscollect_model::{ProcessId, SleepState, StackId, StringId, Tables, ThreadId};

/// Names of threads in a row.
const NAMES: usize = 8;

impl Suspicion {
    /// The same distinction that all time off the CPU has ([`WaitFor::class`]), and how usual such
    /// a wait is that does not end.
    fn of(wait: WaitFor, reason: Reason, has_stack: bool) -> Self {
        use WaitFor::*;
        match wait {
            _ if wait.class() == WaitClass::Idle => Self::Idle,
            _ if reason.state == SleepState::Uninterruptible => Self::Uninterruptible,
            Lock | Gil | PythonLock | KernelLock => Self::Lock,
            PythonSemaphore | PythonBarrier | Semaphore | Futex => Self::Semaphore,
            FileLock => Self::FileLock,
            Child => Self::Child,
            PythonFuture | PythonQueueRoom | ChannelRoom | PipeRoom | PipeData | PipePeer
            | ThreadEnd | Connect | Completion | Io | Page | Fuse | Stopped | Tracer
                if has_stack =>
            {
                Self::Peer
            }
            _ => Self::Unclear,
        }
    }
}

/// Those threads of which these are the waits.
pub(super) fn asleep_throughout(
    waits: &[WaitKey],
    unfinished: UnfinishedWork<'_>,
    waits_for: &mut WaitsFor<'_>,
    rows: WaitRows<'_>,
) -> AsleepThroughout {
    let mut groups = FxHashMap::<SleepKey, Sleepers>::default();
    let mut kinds = BTreeMap::<Suspicion, usize>::new();
    for WaitKey { thread, process, stack, reason } in waits {
        let wait = waits_for.of(*process, *stack, *reason);
        let held_up = unfinished.holding_up.get(thread).copied();
        let suspicion = match held_up {
            Some(_) => Suspicion::HoldsUpOthers,
            None => Suspicion::of(wait, *reason, stack.is_some()),
        };
        let program = rows.programs.first_of(*process);
        let slice = unfinished.slices.get(thread).copied();
        let key = SleepKey { program, wait, suspicion, slice, reason: *reason, stack: *stack };
        let sleepers = groups.entry(key).or_default();
        sleepers.held_up += held_up.unwrap_or(0);
        sleepers.threads.insert(*thread);
        sleepers.processes.insert(*process);
        *kinds.entry(suspicion).or_default() += 1;
    }
    let groups = groups.iter();
    let groups: Vec<_> =
        groups.map(|(key, sleepers)| sleepers.row(key, rows.maker.tables)).collect();
    AsleepThroughout {
        threads: kinds.values().sum(),
        idle_threads: kinds.get(&Suspicion::Idle).copied().unwrap_or(0),
        kinds: kinds
            .into_iter()
            .map(|(suspicion, threads)| SleeperKind { suspicion, threads })
            .collect(),
        held_up_rows: groups.iter().filter(|row| row.suspicion < Suspicion::Child).count(),
        rows: rows.maker.table(groups, |row| {
            let name = (row.process.clone(), row.pid, row.tid, row.waits_for.clone());
            let slept = (row.blocked_in.clone(), row.state.clone(), row.stack.frames.clone());
            // Who is in a zone was at something; others may wait for work.
            let stake = (Reverse(row.held_up), row.zone.is_none());
            (row.suspicion, stake, Reverse(row.threads), name, slept)
        }),
        with_idle: false,
    }
}

/// What threads have in common that slept from beginning to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SleepKey {
    /// The first process that is called so.
    program: ProcessId,
    wait: WaitFor,
    suspicion: Suspicion,
    /// The innermost that is open.
    slice: Option<StringId>,
    reason: Reason,
    stack: Option<StackId>,
}

/// These threads.
#[derive(Debug, Default)]
struct Sleepers {
    threads: BTreeSet<ThreadId>,
    processes: BTreeSet<ProcessId>,
    /// Threads that wait for locks that these hold.
    held_up: usize,
}

impl Sleepers {
    fn row(&self, key: &SleepKey, tables: &Tables) -> SleeperRow {
        let SleepKey { program, wait, suspicion, slice, reason, stack } = *key;
        let first = self.processes.first().copied().unwrap_or(program);
        let one = self.threads.first().filter(|_| self.threads.len() == 1);
        let names: BTreeSet<_> =
            self.threads.iter().map(|thread| tables.thread_name(*thread)).collect();
        SleeperRow {
            threads: self.threads.len(),
            tid: one.map(|thread| tables.thread(*thread).tid),
            thread_names: names.into_iter().take(NAMES).map(Into::into).collect(),
            pid: tables.process(first).pid,
            processes: self.processes.len(),
            process: tables.process_name(program).into(),
            waits_for: wait.name().to_owned(),
            class: wait.class(),
            suspicion,
            held_up: self.held_up,
            zone: slice.map(|name| tables.strings.get(name).to_owned()),
            blocked_in: reason.blocked_in.map(|name| tables.strings.get(name).to_owned()),
            state: state_name(reason.state).to_owned(),
            io_wait: reason.io_wait,
            stack: labels(stack, tables),
        }
    }
}
