//! Rows of waits: by reason, and by stack.

use super::classes::{ClassSums, ClassifiedWaits, KindSums, ProcessStack, WaitShares, WaitStack};
use super::program_names::ProgramNames;
use super::{Reason, Total, state_name};
use crate::report::capped::Capped;
use crate::report::data::{ReasonRow, StackRow, Table, WaitClass, WaitRow, WaitsOfClass};
use crate::report::row_maker::RowMaker;
use crate::report::stack_labels::labels;
use crate::report::wait_for::WaitFor;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{ProcessId, StackId};

/// What rows of waits are made with.
#[derive(Clone, Copy)]
pub(super) struct WaitRows<'a> {
    pub(super) maker: RowMaker<'a>,
    pub(super) programs: &'a ProgramNames,
}

/// A stack in which threads of a process, or of all of one name, were off the CPU.
struct SummedStack {
    at: ProcessStack,
    wait: Option<WaitFor>,
    total: Total,
    /// How many processes these are; `None` where each is told alone.
    processes: Option<usize>,
}

impl WaitRows<'_> {
    /// All time off the CPU by reason, with what of it was of which class.
    pub(super) fn reasons(
        self,
        reasons: &Capped<Reason, Total>,
        waits: &ClassifiedWaits,
    ) -> Table<ReasonRow> {
        let rows = reasons.iter().map(|(reason, total)| {
            let shares = waits.reasons.get(reason);
            let of_class = |class| shares.map_or(0, |shares| shares.of(class));
            ReasonRow {
                waits_for: shares.and_then(WaitShares::most).map_or("", WaitFor::name).to_owned(),
                undecided_ns: of_class(WaitClass::Undecided),
                idle_ns: of_class(WaitClass::Idle),
                ..self.reason(*reason, total)
            }
        });
        self.maker.table(rows.collect(), reason_order)
    }

    /// All time off the CPU by process and stack.
    pub(super) fn process_stacks(
        self,
        stacks: &Capped<(ProcessId, StackId), Total>,
        waits: &ClassifiedWaits,
    ) -> Table<StackRow> {
        let stacks = stacks.iter().map(|((process, stack), total)| {
            let at = ProcessStack { process: *process, stack: *stack };
            let wait = waits.stacks.get(&at).and_then(WaitShares::most);
            SummedStack { at, wait, total: *total, processes: None }
        });
        self.stacks(stacks.collect())
    }

    pub(super) fn of_class(self, sums: &ClassSums) -> WaitsOfClass {
        let kinds = sums.kinds.iter();
        let mut kinds: Vec<_> = kinds.map(|(wait, kind)| wait_row(*wait, kind)).collect();
        kinds.sort_by_key(|row| (Reverse((row.blocked_ns, row.count)), row.waits_for.clone()));
        let reasons = sums.reasons.iter().map(|((wait, reason), total)| {
            let of_class = |class| if wait.class() == class { total.sum } else { 0 };
            ReasonRow {
                waits_for: wait.name().to_owned(),
                undecided_ns: of_class(WaitClass::Undecided),
                idle_ns: of_class(WaitClass::Idle),
                ..self.reason(*reason, total)
            }
        });
        let stacks = sums.stacks.iter().map(|(WaitStack { wait, at }, total)| SummedStack {
            at: *at,
            wait: Some(*wait),
            total: *total,
            processes: None,
        });
        WaitsOfClass {
            blocked_ns: sums.all.sum,
            threads: sums.threads.len(),
            kinds,
            reasons: self.maker.table(reasons.collect(), reason_order),
            stacks: self.stacks(stacks.collect()),
            program_stacks: self.stacks(self.of_programs(sums)),
        }
    }

    /// The stacks of each program, the first of its processes that was in them, and of how many
    /// these are.
    fn of_programs(self, sums: &ClassSums) -> Vec<SummedStack> {
        let mut programs: FxHashMap<_, SummedStack> = FxHashMap::default();
        for (WaitStack { wait, at }, total) in &sums.stacks {
            let first = self.programs.first_of(at.process);
            let program = programs.entry((*wait, first, at.stack)).or_insert(SummedStack {
                at: *at,
                wait: Some(*wait),
                total: Total::default(),
                processes: Some(0),
            });
            program.at.process = program.at.process.min(at.process);
            program.total.merge(total);
            program.processes = program.processes.map(|processes| processes + 1);
        }
        programs.into_values().collect()
    }

    /// The stacks with the most time; only these get their text.
    fn stacks(self, stacks: Vec<SummedStack>) -> Table<StackRow> {
        let tables = self.maker.tables;
        let sorted = self.maker.table(stacks, |row| {
            let SummedStack { at: ProcessStack { process, stack }, wait, total, .. } = *row;
            let pid = tables.process(process).pid;
            (Reverse((total.sum, total.count)), pid, process, stack, wait)
        });
        let rows = sorted.rows.into_iter().map(|row| {
            let SummedStack { at: ProcessStack { process, stack }, wait, total, processes } = row;
            StackRow {
                pid: tables.process(process).pid,
                processes,
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

    fn reason(self, reason: Reason, total: &Total) -> ReasonRow {
        ReasonRow {
            blocked_in: reason.blocked_in.map(|name| self.maker.string(name)),
            state: state_name(reason.state).to_owned(),
            io_wait: reason.io_wait,
            count: total.count,
            blocked_ns: total.sum,
            max_ns: total.most,
            ..ReasonRow::default()
        }
    }
}

fn wait_row(wait: WaitFor, kind: &KindSums) -> WaitRow {
    WaitRow {
        waits_for: wait.name().to_owned(),
        threads: kind.threads.len(),
        count: kind.all.count,
        blocked_ns: kind.all.sum,
        max_ns: kind.all.most,
    }
}

type ReasonOrder = (Reverse<(u64, u64)>, Option<String>, String, bool, String);

fn reason_order(row: &ReasonRow) -> ReasonOrder {
    let most = Reverse((row.blocked_ns, row.count));
    (most, row.blocked_in.clone(), row.state.clone(), row.io_wait, row.waits_for.clone())
}
