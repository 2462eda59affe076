//! Moves of threads from CPU to CPU.

use super::account::ThreadAccount;
use super::capped::Capped;
use super::data::{MigrationRow, Table};
use super::row_maker::RowMaker;
use std::cmp::Reverse;
use syscollect_model::{CpuId, Migration};

/// Pairs of CPUs.
const MAX_CPU_PAIRS: usize = 1 << 16;

/// How often threads that the report is about moved between two CPUs.
#[derive(Debug)]
pub(super) struct MigrationCounts {
    /// From one CPU to another.
    pairs: Capped<(CpuId, CpuId), u64>,
}

impl Default for MigrationCounts {
    fn default() -> Self {
        Self { pairs: Capped::new(MAX_CPU_PAIRS) }
    }
}

impl MigrationCounts {
    /// The thread of these books moves.
    #[inline]
    pub(super) fn add(&mut self, migration: &Migration, account: &mut ThreadAccount) {
        account.counts.migrations += 1;
        if account.chosen {
            *self.pairs.row((migration.from_cpu, migration.to_cpu)) += 1;
        }
    }

    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<MigrationRow> {
        let rows = self.pairs.iter().map(|((from, to), count)| MigrationRow {
            machine: from.machine,
            from_cpu: from.number,
            to_cpu: to.number,
            count: *count,
        });
        maker.table(rows.collect(), |row| {
            (Reverse(row.count), row.machine, row.from_cpu, row.to_cpu)
        })
    }
}
