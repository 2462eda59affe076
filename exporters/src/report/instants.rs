//! Instants and messages, by name.

use super::capped::Capped;
use super::data::{InstantRow, Table};
use super::row_maker::{OTHERS, RowMaker};
use std::cmp::Reverse;
use syscollect_model::StringId;

/// Names that are told apart.
const MAX_NAMES: usize = 1 << 17;

/// How often each was.
#[derive(Debug)]
pub(super) struct InstantCounts {
    names: Capped<StringId, u64>,
}

impl Default for InstantCounts {
    fn default() -> Self {
        Self { names: Capped::new(MAX_NAMES) }
    }
}

impl InstantCounts {
    pub(super) fn add(&mut self, name: StringId) {
        *self.names.row(name) += 1;
    }

    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<InstantRow> {
        let named = self.names.iter();
        let mut rows: Vec<_> = named
            .map(|(name, count)| InstantRow { name: maker.string(*name), count: *count })
            .collect();
        let others = *self.names.left_out();
        if others > 0 {
            rows.push(InstantRow { name: OTHERS.to_owned(), count: others });
        }
        maker.table(rows, |row| (Reverse(row.count), row.name.clone()))
    }
}
