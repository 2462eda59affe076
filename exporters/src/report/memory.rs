//! Memory of programs.

use super::data::{PoolRow, Table};
use super::row_maker::RowMaker;
use crate::heap::Heap;
use std::cmp::Reverse;

/// The pools of these heaps.
pub(super) fn pool_rows(heap: &Heap, maker: RowMaker<'_>) -> Table<PoolRow> {
    let rows = heap.pools().map(|((owner, pool), totals)| {
        let process = maker.process(*owner);
        PoolRow {
            pool: pool.map(|name| maker.string(name)),
            pid: process.pid,
            process: process.name,
            allocations: totals.allocations,
            frees: totals.frees,
            unknown_frees: totals.unknown_frees,
            allocated_bytes: totals.allocated_bytes,
            live_bytes: totals.live_bytes,
            live_allocations: totals.live,
            peak_bytes: totals.peak_bytes,
        }
    });
    maker.table(rows.collect(), |row| {
        (Reverse((row.peak_bytes, row.allocations)), row.pid, row.pool.clone())
    })
}
