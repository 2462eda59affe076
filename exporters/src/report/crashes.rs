//! Crashes of programs.

use super::data::{CrashRow, Table};
use super::row_maker::RowMaker;
use super::stack_labels::labels;
use syscollect_model::Crash;

/// Crashes that are told.
const MAX_CRASHES: usize = 1 << 10;

/// The first crashes, and how many there were.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    first: Vec<TimedCrash>,
    count: usize,
}

#[derive(Debug)]
struct TimedCrash {
    at: u64,
    crash: Crash,
}

impl Crashes {
    pub(super) fn add(&mut self, now: u64, crash: &Crash) {
        self.count += 1;
        if self.first.len() < MAX_CRASHES {
            self.first.push(TimedCrash { at: now, crash: *crash });
        }
    }

    /// In the order in which they happened.
    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<CrashRow> {
        let rows = self.first.iter().take(maker.limit).map(|TimedCrash { at, crash }| {
            let thread = maker.tables.thread(crash.thread);
            let process = maker.process(thread.process);
            CrashRow {
                at_ns: at.saturating_sub(maker.first),
                tid: thread.tid,
                thread: maker.string(thread.name),
                pid: process.pid,
                process: process.name,
                signal: maker.string(crash.signal),
                address: crash.address,
                stack: labels(crash.stack, maker.tables),
            }
        });
        Table { total: self.count, rows: rows.collect() }
    }
}
