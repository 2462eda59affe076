//! The rows of functions, and of one that is unfolded: who called it, and what it called.

use super::rows::{Column, Row, Selection};
use super::view::Recorded;
use crate::escape::printable;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use syscollect_activity::{
    CodeFunction, FunctionActivity, FunctionWeight, Interval, StackWeight, UnfoldedCall,
};

/// Lines of an unfolded tree, each of what called and what was called.
const MOST_LINES: usize = 500;
/// Lines of less than that part of the function are left out.
const LEAST_SHARE: f64 = 0.001;

/// What a row of functions has. Times are ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FunctionFigures {
    /// On a CPU, by samples: the function itself, and with what it called.
    pub(super) ran: u64,
    pub(super) ran_all: u64,
    /// Blocked, to the tick.
    pub(super) blocked: u64,
    pub(super) blocked_all: u64,
    /// Part of the unfolded function.
    pub(super) share: f64,
    /// The file that it is in.
    pub(super) module: String,
}

/// The functions of a second, in no order; last what is of none.
pub(super) fn functions(
    recorded: Recorded<'_>,
    second: &Interval,
    process: Option<u32>,
) -> Vec<Row> {
    let Some(of) = second.functions.as_deref() else { return Vec::new() };
    let sums = recorded.functions.sums(of, process).into_iter();
    sums.map(|sum| {
        let name = recorded.functions.name(of, sum.function);
        let module = recorded.functions.module(of, sum.function);
        let figures = FunctionFigures {
            ran: of.ran(sum.own),
            ran_all: of.ran(sum.all),
            blocked: sum.own.blocked,
            blocked_all: sum.all.blocked,
            share: 0.0,
            module: printable(&module),
        };
        row(Some(mark(&name, &module)), printable(&name), figures)
    })
    .collect()
}

/// What of a second is of no function that could be told; nothing where that is nothing.
pub(super) fn others(second: &Interval) -> Option<Row> {
    let of = second.functions.as_deref()?;
    let (no_room, _) = of.tree.others();
    let samples = no_room.samples + of.unknown.samples;
    let blocked = no_room.blocked + of.unknown.blocked;
    let ran = of.ran(StackWeight { samples, blocked });
    let figures = FunctionFigures {
        ran,
        ran_all: ran,
        blocked,
        blocked_all: blocked,
        ..FunctionFigures::default()
    };
    (samples + blocked > 0).then(|| row(None, "(stacks that are not known)".into(), figures))
}

/// Who called the function that is unfolded, and what it called, as lines of a tree.
pub(super) fn calls(recorded: Recorded<'_>, second: &Interval, selection: &Selection) -> Vec<Row> {
    let Some(of) = second.functions.as_deref() else { return Vec::new() };
    let process = selection.of_process;
    let Some(function) = selected(recorded, of, selection) else { return Vec::new() };
    // Either is blocked or runs, mostly: it is unfolded by what it is looked at for.
    let by_blocked = match selection.sort {
        Column::Off | Column::OffAll => true,
        _ => function.all.samples == 0,
    };
    let order = move |weight: StackWeight| if by_blocked { weight.blocked } else { weight.samples };
    let Some(unfolded) = recorded.functions.unfold(of, process, function.function, order) else {
        return Vec::new();
    };
    let all = order(unfolded.all).max(1) as f64;
    let figures = |weight: StackWeight| FunctionFigures {
        ran_all: of.ran(weight),
        blocked_all: weight.blocked,
        share: order(weight) as f64 / all,
        ..FunctionFigures::default()
    };
    let name = |function| printable(&recorded.functions.name(of, function));
    let mut rows = vec![row(Some(0), name(function.function), figures(unfolded.all))];
    let lines = [("called by", unfolded.callers), ("calls", unfolded.callees)];
    for (title, lines) in lines {
        if lines.is_empty() {
            continue;
        }
        rows.push(row(Some(rows.len() as u32), format!("-- {title}:"), FunctionFigures::default()));
        let is_shown =
            |line: &&UnfoldedCall<CodeFunction>| order(line.weight) as f64 / all >= LEAST_SHARE;
        for line in lines.iter().filter(is_shown).take(MOST_LINES) {
            let indented = "  ".repeat(line.depth.min(60)) + &name(line.function);
            rows.push(row(Some(rows.len() as u32), indented, figures(line.weight)));
        }
    }
    rows
}

/// The function that is unfolded, as that second has it.
fn selected(
    recorded: Recorded<'_>,
    of: &FunctionActivity,
    selection: &Selection,
) -> Option<FunctionWeight<CodeFunction>> {
    let functions = recorded.functions;
    let sums = functions.sums(of, selection.of_process);
    sums.into_iter().find(|sum| {
        let (name, module) = (functions.name(of, sum.function), functions.module(of, sum.function));
        Some(mark(&name, &module)) == selection.of_function
    })
}

/// What a function is marked by: it is the same in each second.
fn mark(name: &str, module: &str) -> u32 {
    let mut hasher = FxHasher::default();
    (name, module).hash(&mut hasher);
    (hasher.finish() >> 16) as u32
}

fn row(id: Option<u32>, name: String, figures: FunctionFigures) -> Row {
    Row { id, name, function: Some(figures), ..Row::default() }
}
