//! Where a program was blocked the longest.

use super::Total;
use super::classes::{ClassSums, WaitStack};
use super::wait_rows::WaitRows;
use crate::report::data::LongestBlocked;
use crate::report::stack_labels::OwnCall;
use crate::report::wait_for::{WaitFor, is_recorder};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use syscollect_model::{ProcessId, Tables};

/// Stacks that are looked at for where a program was blocked the longest.
const LOOKED_AT: usize = 256;

/// What stacks are one for, that differ only in what the library or the kernel did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct OwnStackKey {
    program: ProcessId,
    wait: WaitFor,
    call: OwnCall,
}

/// Of the time that is of this class.
pub(super) fn of(sums: &ClassSums, rows: WaitRows<'_>) -> Option<LongestBlocked> {
    let tables = rows.maker.tables;
    let mut stacks: Vec<_> = sums
        .stacks
        .iter()
        .filter(|(key, _)| is_of_interest(key.wait, key.at.process, tables))
        .collect();
    stacks.sort_unstable_by_key(|(key, total)| (Reverse(total.sum), **key));
    let mut calls = FxHashMap::<OwnStackKey, (Total, BTreeSet<ProcessId>)>::default();
    for (WaitStack { wait, at }, total) in stacks.into_iter().take(LOOKED_AT) {
        let program = rows.programs.first_of(at.process);
        let call = OwnCall::of(at.stack, tables);
        let (sum, processes) = calls.entry(OwnStackKey { program, wait: *wait, call }).or_default();
        sum.merge(total);
        processes.insert(at.process);
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
