//! Time off the CPU, from what was summed up.

use crate::report::ReportExporter;
use crate::report::data::*;
use crate::report::off_cpu::{Reason, Total, WaitKey, state_name};
use crate::report::stack_labels::{OwnCall, labels};
use crate::report::wait_for::{WaitFor, WaitsFor, is_recorder};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::Hash;
use syscollect_model::{ProcessId, StackId, Tables, ThreadId};

/// Where a process's threads were off the CPU.
type StackKey = (ProcessId, StackId);

/// What was waited for in one row of a table.
#[derive(Debug, Default)]
struct WaitShares {
    by_kind: FxHashMap<WaitFor, u64>,
}

impl WaitShares {
    fn add(&mut self, wait: WaitFor, nanoseconds: u64) {
        let sum = self.by_kind.entry(wait).or_default();
        *sum = sum.saturating_add(nanoseconds);
    }

    /// What most of it was spent on.
    fn most(&self) -> Option<WaitFor> {
        let sums = self.by_kind.iter();
        sums.map(|(wait, sum)| (Reverse(*sum), *wait)).min().map(|(_, wait)| wait)
    }

    fn of(&self, class: WaitClass) -> u64 {
        let sums = self.by_kind.iter().filter(|(wait, _)| wait.class() == class);
        crate::report::durations::sum_ns(sums.map(|(_, sum)| *sum))
    }
}

/// Sums of one class.
#[derive(Debug, Default)]
struct ClassSums {
    all: Total,
    threads: FxHashSet<ThreadId>,
    kinds: FxHashMap<WaitFor, (Total, FxHashSet<ThreadId>)>,
    reasons: FxHashMap<(WaitFor, Reason), Total>,
    stacks: FxHashMap<(WaitFor, StackKey), Total>,
}

impl ClassSums {
    fn add(&mut self, wait: WaitFor, key: &WaitKey, total: &Total) {
        self.all.merge(total);
        self.threads.insert(key.thread);
        let (kind, threads) = self.kinds.entry(wait).or_default();
        kind.merge(total);
        threads.insert(key.thread);
        self.reasons.entry((wait, key.reason)).or_default().merge(total);
        if let Some(stack) = key.stack {
            self.stacks.entry((wait, (key.process, stack))).or_default().merge(total);
        }
    }
}

/// All that was waited for.
#[derive(Debug, Default)]
struct AllWaits {
    blocked: ClassSums,
    undecided: ClassSums,
    idle: ClassSums,
    reasons: FxHashMap<Reason, WaitShares>,
    stacks: FxHashMap<StackKey, WaitShares>,
}

impl AllWaits {
    fn add(&mut self, wait: WaitFor, key: &WaitKey, total: &Total) {
        match wait.class() {
            WaitClass::Blocked => &mut self.blocked,
            WaitClass::Undecided => &mut self.undecided,
            WaitClass::Idle => &mut self.idle,
        }
        .add(wait, key, total);
        add_part(&mut self.reasons, key.reason, wait, total);
        if let Some(stack) = key.stack {
            add_part(&mut self.stacks, (key.process, stack), wait, total);
        }
    }
}

/// Processes of one name, together.
pub(in crate::report) struct Programs {
    /// Of each process, the first that is called so.
    first: Vec<ProcessId>,
}

impl Programs {
    fn new(tables: &Tables) -> Self {
        let mut by_name = FxHashMap::default();
        let processes = (0..tables.processes.len()).map(|index| ProcessId(index as u32));
        let first = processes.map(|id| *by_name.entry(tables.process_name(id)).or_insert(id));
        Self { first: first.collect() }
    }

    /// The first process that is called like this one.
    pub(in crate::report) fn first_of(&self, process: ProcessId) -> ProcessId {
        self.first.get(process.index()).copied().unwrap_or(process)
    }

    /// The stacks of each program, the first of its processes that was in them, and of how many
    /// these are.
    fn stacks(&self, sums: &ClassSums) -> Vec<((WaitFor, StackKey), ProgramTotal)> {
        let mut programs: FxHashMap<_, (ProcessId, ProgramTotal)> = FxHashMap::default();
        for ((wait, (process, stack)), total) in &sums.stacks {
            let first = self.first_of(*process);
            let (least, program) =
                programs.entry((*wait, first, *stack)).or_insert((*process, Default::default()));
            *least = (*least).min(*process);
            program.total.merge(total);
            program.processes += 1;
        }
        programs
            .into_iter()
            .map(|((wait, _, stack), (process, total))| ((wait, (process, stack)), total))
            .collect()
    }
}

/// What processes of one name had together.
#[derive(Clone, Copy, Debug, Default)]
struct ProgramTotal {
    total: Total,
    /// None where processes are told one by one.
    processes: usize,
}

impl ProgramTotal {
    fn of_one(total: &Total) -> Self {
        Self { total: *total, processes: 0 }
    }
}

fn add_part<K: Eq + Hash>(
    rows: &mut FxHashMap<K, WaitShares>,
    key: K,
    wait: WaitFor,
    total: &Total,
) {
    rows.entry(key).or_default().add(wait, total.sum);
}

impl ReportExporter {
    pub(in crate::report) fn off_cpu(&self, tables: &Tables) -> OffCpuReport {
        let times = &self.scheduling.off_cpu;
        let mut waits_for = WaitsFor::new(tables);
        let mut waits = AllWaits::default();
        for (key, total) in times.waits.iter() {
            let wait = waits_for.of(key.process, key.stack, key.reason);
            waits.add(wait, key, total);
        }
        // Of what there was no room for nothing is claimed.
        waits.undecided.all.merge(times.waits.left_out());
        let rows = times.reasons.iter().map(|(reason, total)| {
            let parts = waits.reasons.get(reason);
            ReasonRow {
                waits_for: most(parts),
                undecided_ns: part(parts, WaitClass::Undecided),
                idle_ns: part(parts, WaitClass::Idle),
                ..reason_row(*reason, total, tables)
            }
        });
        let reasons = self.table(rows.collect(), reason_order);
        let stacks =
            times.stacks.iter().map(|(key, total)| (*key, ProgramTotal::of_one(total))).collect();
        let programs = Programs::new(tables);
        let sleeps = times.stacks.iter().map(|((_, stack), total)| (*stack, total.count));
        let (truncated, truncated_in) = self.truncated(sleeps, tables);
        OffCpuReport {
            blocked_ns: times.all.sum,
            reasons,
            without_stack_ns: times.without_stack.sum,
            with_stack: times.stacks.iter().map(|(_, total)| total.count).sum(),
            truncated,
            truncated_in,
            stacks: self.stack_rows(
                stacks,
                |(key, _)| (*key, waits.stacks.get(key).and_then(WaitShares::most)),
                tables,
            ),
            longest_blocked: longest_blocked(&waits.blocked, &programs, tables),
            blocked: self.of_class(&waits.blocked, &programs, tables),
            undecided: self.of_class(&waits.undecided, &programs, tables),
            idle: self.of_class(&waits.idle, &programs, tables),
            asleep_throughout: self.asleep_throughout(&mut waits_for, &programs, tables),
        }
    }

    fn of_class(&self, sums: &ClassSums, programs: &Programs, tables: &Tables) -> WaitsOfClass {
        let mut kinds: Vec<WaitRow> = sums
            .kinds
            .iter()
            .map(|(wait, (total, threads))| wait_row(*wait, total, threads.len()))
            .collect();
        kinds.sort_by_key(|row| (Reverse((row.blocked_ns, row.count)), row.waits_for.clone()));
        let reasons = sums.reasons.iter().map(|((wait, reason), total)| ReasonRow {
            waits_for: wait.name().to_owned(),
            undecided_ns: if wait.class() == WaitClass::Undecided { total.sum } else { 0 },
            idle_ns: if wait.class() == WaitClass::Idle { total.sum } else { 0 },
            ..reason_row(*reason, total, tables)
        });
        let reasons = self.table(reasons.collect(), reason_order);
        let stacks =
            sums.stacks.iter().map(|(key, total)| (*key, ProgramTotal::of_one(total))).collect();
        WaitsOfClass {
            blocked_ns: sums.all.sum,
            threads: sums.threads.len(),
            kinds,
            reasons,
            stacks: self.stack_rows(stacks, stack_key, tables),
            program_stacks: self.stack_rows(programs.stacks(sums), stack_key, tables),
        }
    }

    /// The stacks with the most time; only these get their text.
    fn stack_rows<K>(
        &self,
        stacks: Vec<(K, ProgramTotal)>,
        of: impl Fn(&(K, ProgramTotal)) -> (StackKey, Option<WaitFor>),
        tables: &Tables,
    ) -> Table<StackRow> {
        let sorted = self.table(stacks, |row| {
            let ((process, stack), wait) = of(row);
            let pid = tables.process(process).pid;
            let total = row.1.total;
            (Reverse((total.sum, total.count)), pid, process, stack, wait)
        });
        let rows = sorted.rows.into_iter().map(|row| {
            let ((process, stack), wait) = of(&row);
            let ProgramTotal { total, processes } = row.1;
            StackRow {
                pid: tables.process(process).pid,
                processes: (processes > 0).then_some(processes),
                process: tables.process_name(process).into(),
                count: total.count,
                blocked_ns: total.sum,
                max_ns: total.most,
                stack: labels(Some(stack), tables),
                waits_for: wait.map_or("", WaitFor::name).to_owned(),
                class: wait.map_or(WaitClass::Undecided, WaitFor::class),
            }
        });
        Table { total: sorted.total, rows: rows.collect() }
    }
}

fn wait_row(wait: WaitFor, total: &Total, threads: usize) -> WaitRow {
    WaitRow {
        waits_for: wait.name().to_owned(),
        threads,
        count: total.count,
        blocked_ns: total.sum,
        max_ns: total.most,
    }
}

fn stack_key(
    ((wait, key), _): &((WaitFor, StackKey), ProgramTotal),
) -> ((ProcessId, StackId), Option<WaitFor>) {
    (*key, Some(*wait))
}

/// Stacks that are looked at for where a program was blocked the longest.
const LOOKED_AT: usize = 256;

/// What stacks are one for, that differ only in what the library or the kernel did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct OwnStackKey {
    program: ProcessId,
    wait: WaitFor,
    call: OwnCall,
}

fn longest_blocked(
    sums: &ClassSums,
    programs: &Programs,
    tables: &Tables,
) -> Option<LongestBlocked> {
    let mut stacks: Vec<_> = sums
        .stacks
        .iter()
        .filter(|((wait, (process, _)), _)| is_of_interest(*wait, *process, tables))
        .collect();
    stacks.sort_unstable_by_key(|(key, total)| (Reverse(total.sum), **key));
    let mut calls = FxHashMap::<OwnStackKey, (Total, BTreeSet<ProcessId>)>::default();
    for ((wait, (process, stack)), total) in stacks.into_iter().take(LOOKED_AT) {
        let (program, call) = (programs.first_of(*process), OwnCall::of(*stack, tables));
        let (sum, processes) = calls.entry(OwnStackKey { program, wait: *wait, call }).or_default();
        sum.merge(total);
        processes.insert(*process);
    }
    let longest = calls
        .into_iter()
        .min_by_key(|(blocked_call, (total, _))| (Reverse(total.sum), blocked_call.clone()));
    let (blocked_call, (total, processes)) = longest?;
    Some(LongestBlocked {
        pid: processes.first().map_or(0, |process| tables.process(*process).pid),
        processes: processes.len(),
        process: tables.process_name(blocked_call.program).into(),
        waits_for: blocked_call.wait,
        function: blocked_call.call.function,
        called: blocked_call.call.called,
        count: total.count,
        blocked_ns: total.sum,
    })
}

fn is_of_interest(wait: WaitFor, process: ProcessId, tables: &Tables) -> bool {
    !matches!(wait, WaitFor::Child | WaitFor::ThreadEnd)
        && !tables.process(process).kernel
        && !is_recorder(process, tables)
}

fn reason_row(reason: Reason, total: &Total, tables: &Tables) -> ReasonRow {
    ReasonRow {
        blocked_in: reason.blocked_in.map(|name| tables.strings.get(name).to_owned()),
        state: state_name(reason.state).to_owned(),
        io_wait: reason.io_wait,
        count: total.count,
        blocked_ns: total.sum,
        max_ns: total.most,
        ..ReasonRow::default()
    }
}

fn most(parts: Option<&WaitShares>) -> String {
    parts.and_then(WaitShares::most).map_or("", WaitFor::name).to_owned()
}

fn part(parts: Option<&WaitShares>, class: WaitClass) -> u64 {
    parts.map_or(0, |parts| parts.of(class))
}

type ReasonOrder = (Reverse<(u64, u64)>, Option<String>, String, bool, String);

fn reason_order(row: &ReasonRow) -> ReasonOrder {
    let most = Reverse((row.blocked_ns, row.count));
    (most, row.blocked_in.clone(), row.state.clone(), row.io_wait, row.waits_for.clone())
}
