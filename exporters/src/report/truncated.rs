//! Stacks that lack their outer frames, and where they end.

use super::data::{Table, TruncatedRow};
use super::row_maker::RowMaker;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{ModuleId, StackCut, StackId};

/// Stacks of samples, or of sleeps.
pub(super) struct TruncatedStacks {
    pub(super) count: u64,
    /// By why, and by the module of the last frame there is.
    pub(super) rows: Table<TruncatedRow>,
}

impl TruncatedStacks {
    /// Of these stacks, each so many times.
    pub(super) fn among(stacks: impl Iterator<Item = (StackId, u64)>, maker: RowMaker<'_>) -> Self {
        let mut ends = FxHashMap::<(StackCut, Option<ModuleId>), u64>::default();
        for (stack, count) in stacks {
            let frames = maker.tables.stack(stack);
            let mut cuts = frames.iter().enumerate();
            let cut =
                cuts.find_map(|(depth, frame)| Some((depth, maker.tables.truncated_by(*frame)?)));
            let Some((depth, cut)) = cut else { continue };
            let last = depth.checked_sub(1).map(|depth| maker.tables.frame(frames[depth]).module);
            *ends.entry((cut, last.flatten())).or_insert(0) += count;
        }
        let rows = ends.iter().map(|((cut, module), count)| {
            let module = maker.module_path(*module);
            let without_table = match cut {
                StackCut::NoUnwindInformation | StackCut::NoTableYet | StackCut::BeyondMemory => {
                    maker.without_table(&module).to_owned()
                }
                _ => String::new(),
            };
            TruncatedRow { reason: cut.reason().to_owned(), module, without_table, count: *count }
        });
        let rows = maker.table(rows.collect(), |row| {
            (Reverse(row.count), row.reason.clone(), row.module.clone())
        });
        Self { count: ends.values().sum(), rows }
    }
}
