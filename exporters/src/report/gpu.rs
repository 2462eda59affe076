//! Jobs of GPUs, by queue and process, and the longest waits for fences.

use super::capped::Capped;
use super::data::{GpuRow, Table};
use super::durations::Durations;
use super::fence_waits::FenceWaits;
use super::row_maker::{OTHERS, RowMaker};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{GpuJob, GpuJobEnd, ProcessId, Scope, StringId, Tables, Time, TrackId};

/// Queues and processes that are told apart, at most 126 kB each.
const MAX_ROWS: usize = 1024;
/// Digits of the percentiles.
const DIGITS: u8 = 2;

/// What makes jobs one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GpuKey {
    queue: StringId,
    process: Option<ProcessId>,
}

/// The jobs of one row.
#[derive(Debug)]
struct GpuTotals {
    jobs: u64,
    failed: u64,
    /// Those whose end is missing; they have not `ran`.
    unfinished: u64,
    /// Those whose beginning is missing.
    without_beginning: u64,
    /// From start to end.
    ran: Durations,
    /// From submission to start.
    waited: Durations,
    /// From submission to end.
    took: Durations,
}

impl Default for GpuTotals {
    fn default() -> Self {
        let [ran, waited, took] = [(); 3].map(|()| Durations::new(DIGITS));
        Self { jobs: 0, failed: 0, unfinished: 0, without_beginning: 0, ran, waited, took }
    }
}

impl GpuTotals {
    /// Those of `other` too.
    fn merge(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.without_beginning += other.without_beginning;
        self.ran.merge(&other.ran);
        self.waited.merge(&other.waited);
        self.took.merge(&other.took);
    }

    fn row(&self, queue: String, owner: Option<ProcessId>, maker: RowMaker<'_>) -> GpuRow {
        let process = owner.map(|id| maker.process(id));
        GpuRow {
            queue,
            pid: process.as_ref().map(|process| process.pid),
            process: process.map(|process| process.name).unwrap_or_default(),
            jobs: self.jobs,
            failed: self.failed,
            unfinished: self.unfinished,
            without_beginning: self.without_beginning,
            ran: self.ran.distribution(),
            waited: self.waited.distribution(),
            took: self.took.distribution(),
        }
    }
}

/// The jobs of all queues.
#[derive(Debug)]
pub(super) struct GpuAccounts {
    rows: Capped<GpuKey, GpuTotals>,
    pub(super) waits: FenceWaits,
}

impl GpuAccounts {
    /// Of waits for fences the longest are kept, as many as that.
    pub(super) fn new(waits: usize) -> Self {
        Self { rows: Capped::new(MAX_ROWS), waits: FenceWaits::new(waits) }
    }

    /// A job that ends now.
    pub(super) fn job(&mut self, now: u64, track: TrackId, job: &GpuJob, tables: &Tables) {
        let row = self.rows.row(GpuKey {
            queue: tables.track(track).name,
            process: process_of(track, job, tables),
        });
        row.jobs += 1;
        if let Some(waited) = job.started.and_then(|started| between(job.submitted, started.0)) {
            row.waited.add(waited);
        }
        match job.end {
            GpuJobEnd::Unfinished => row.unfinished += 1,
            GpuJobEnd::WithoutBeginning => row.without_beginning += 1,
            GpuJobEnd::Failed | GpuJobEnd::Finished => {
                row.failed += u64::from(job.end == GpuJobEnd::Failed);
                between(job.started, now).into_iter().for_each(|ran| row.ran.add(ran));
                between(job.submitted, now).into_iter().for_each(|took| row.took.add(took));
            }
        }
    }

    /// Of all processes together.
    pub(super) fn queue_rows(&self, maker: RowMaker<'_>) -> Table<GpuRow> {
        let mut queues: FxHashMap<StringId, GpuTotals> = FxHashMap::default();
        for (key, totals) in self.rows.iter() {
            queues.entry(key.queue).or_default().merge(totals);
        }
        let rows =
            queues.iter().map(|(queue, totals)| totals.row(maker.string(*queue), None, maker));
        self.with_others(rows.collect(), maker)
    }

    /// Of each process.
    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<GpuRow> {
        let rows = self.rows.iter();
        let rows =
            rows.map(|(key, totals)| totals.row(maker.string(key.queue), key.process, maker));
        self.with_others(rows.collect(), maker)
    }

    fn with_others(&self, mut rows: Vec<GpuRow>, maker: RowMaker<'_>) -> Table<GpuRow> {
        let others = self.rows.left_out();
        if others.jobs > 0 {
            rows.push(others.row(OTHERS.to_owned(), None, maker));
        }
        maker.table(rows, |row| {
            (Reverse((row.ran.total_ns, row.took.total_ns, row.jobs)), row.queue.clone(), row.pid)
        })
    }
}

fn between(from: Option<Time>, to: u64) -> Option<u64> {
    Some(to.saturating_sub(from?.0))
}

/// Whose job it is: of the thread that submitted it, else of the queue.
pub(super) fn process_of(track: TrackId, job: &GpuJob, tables: &Tables) -> Option<ProcessId> {
    let submitter = job.thread.map(|thread| tables.thread(thread).process);
    submitter.or(match tables.track(track).scope {
        Scope::Machine(_) | Scope::Cpu(_) => None,
        Scope::Process(process) => Some(process),
        Scope::Thread(thread) => Some(tables.thread(thread).process),
    })
}
