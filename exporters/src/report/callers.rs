//! Who called functions and hit probes, by the stacks that these have.

use super::ReportExporter;
use super::capped::Capped;
use super::columns::grouped;
use super::data::{CallerRow, CallersRow, StackLabels, Table};
use super::stack_labels::labels;
use super::text::{ReportText, count, shown, some_of};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use syscollect_model::{StackId, StringId, Tables};

/// Pairs of a name and a stack.
const MAX_CALLERS: usize = 1 << 16;
/// Stacks of a function that are told.
const STACKS: usize = 3;

/// How often each function or probe was come to by each stack.
#[derive(Debug)]
pub(super) struct Callers {
    stacks: Capped<(StringId, StackId), u64>,
    /// Of each name, how many had a stack.
    names: Capped<StringId, u64>,
}

impl Default for Callers {
    fn default() -> Self {
        Self { stacks: Capped::new(MAX_CALLERS), names: Capped::new(MAX_CALLERS) }
    }
}

impl Callers {
    /// A slice that begins, or an instant.
    pub(super) fn add(&mut self, name: StringId, stack: Option<StackId>) {
        if let Some(stack) = stack {
            *self.names.row(name) += 1;
            *self.stacks.row((name, stack)) += 1;
        }
    }
}

impl ReportExporter {
    pub(super) fn caller_rows(&self, tables: &Tables) -> Table<CallersRow> {
        // Stacks that show alike are one.
        let mut stacks: FxHashMap<StringId, BTreeMap<StackLabels, u64>> = FxHashMap::default();
        for ((name, stack), count) in self.callers.stacks.iter() {
            let of_name = stacks.entry(*name).or_default();
            *of_name.entry(labels(Some(*stack), tables)).or_default() += count;
        }
        let rows = self.callers.names.iter().map(|(name, count)| {
            let callers = stacks.remove(name).unwrap_or_default().into_iter();
            let mut callers: Vec<_> =
                callers.map(|(stack, count)| CallerRow { count, stack }).collect();
            callers.sort_by_key(|row| Reverse(row.count));
            let different = callers.len();
            callers.truncate(STACKS);
            let name = tables.strings.get(*name).to_owned();
            CallersRow { name, count: *count, stacks: Table { total: different, rows: callers } }
        });
        self.table(rows.collect(), |row: &CallersRow| (Reverse(row.count), row.name.clone()))
    }
}

impl ReportText {
    pub(super) fn callers(&mut self, callers: &Table<CallersRow>) {
        if callers.rows.is_empty() {
            return;
        }
        let title = "Callers of functions and probes, most frequent first";
        self.title(&some_of(title, callers.rows.len(), callers.total));
        for CallersRow { name, count: times, stacks } in &callers.rows {
            let ways = count(stacks.total as u64, "stack");
            self.line(&format!("  {}: {} by {ways}", shown(name), grouped(*times)));
            for CallerRow { count, stack } in &stacks.rows {
                self.line(&format!("  {:>9} {}", grouped(*count), share(*count, *times)));
                self.frames_of_stack(stack);
            }
        }
    }
}

fn share(part: u64, all: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / all.max(1) as f64)
}
