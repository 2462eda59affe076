//! Who called functions and hit probes, by the stacks that these have.

use super::capped::Capped;
use super::data::{CallerRow, CallersRow, StackLabels, Table};
use super::row_maker::RowMaker;
use super::stack_labels::labels;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use syscollect_model::{StackId, StringId};

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

    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<CallersRow> {
        // Stacks that show alike are one.
        let mut stacks: FxHashMap<StringId, BTreeMap<StackLabels, u64>> = FxHashMap::default();
        for ((name, stack), count) in self.stacks.iter() {
            let of_name = stacks.entry(*name).or_default();
            *of_name.entry(labels(Some(*stack), maker.tables)).or_default() += count;
        }
        let rows = self.names.iter().map(|(name, count)| {
            let callers = stacks.remove(name).unwrap_or_default().into_iter();
            let mut callers: Vec<_> =
                callers.map(|(stack, count)| CallerRow { count, stack }).collect();
            callers.sort_by_key(|row| Reverse(row.count));
            let different = callers.len();
            callers.truncate(STACKS);
            let name = maker.string(*name);
            CallersRow { name, count: *count, stacks: Table { total: different, rows: callers } }
        });
        maker.table(rows.collect(), |row: &CallersRow| (Reverse(row.count), row.name.clone()))
    }
}
