//! Jobs of GPUs, by queue and process, zones that programs marked, by name, and the longest waits
//! for fences.

use super::capped::Capped;
use super::data::{GpuRow, GpuZoneRow, Table};
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

/// What makes zones one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GpuZoneKey {
    queue: GpuKey,
    name: StringId,
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
    /// Those without times of the GPU.
    untimed: u64,
    /// From start to end.
    ran: Durations,
    /// From submission to start.
    waited: Durations,
    /// From submission to end.
    took: Durations,
    /// How wrong the times of the GPU may be, at most; nanoseconds.
    clock_error_ns: u64,
}

impl Default for GpuTotals {
    fn default() -> Self {
        let [ran, waited, took] = [(); 3].map(|()| Durations::new(DIGITS));
        let [jobs, failed, unfinished, without_beginning, untimed, clock_error_ns] = [0; 6];
        Self {
            jobs,
            failed,
            unfinished,
            without_beginning,
            untimed,
            ran,
            waited,
            took,
            clock_error_ns,
        }
    }
}

impl GpuTotals {
    /// A job that ends now.
    fn add(&mut self, now: u64, job: &GpuJob) {
        self.jobs += 1;
        let timed = job.zone.filter(|_| job.started.is_some());
        self.clock_error_ns = self.clock_error_ns.max(timed.map_or(0, |zone| zone.clock_error));
        if let Some(waited) = job.started.and_then(|started| between(job.submitted, started.0)) {
            self.waited.add(waited);
        }
        match job.end {
            GpuJobEnd::Unfinished => self.unfinished += 1,
            GpuJobEnd::WithoutBeginning => self.without_beginning += 1,
            GpuJobEnd::Untimed => self.untimed += 1,
            GpuJobEnd::Failed | GpuJobEnd::Finished => {
                self.failed += u64::from(job.end == GpuJobEnd::Failed);
                between(job.started, now).into_iter().for_each(|ran| self.ran.add(ran));
                between(job.submitted, now).into_iter().for_each(|took| self.took.add(took));
            }
        }
    }

    /// Those of `other` too.
    fn merge(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.without_beginning += other.without_beginning;
        self.untimed += other.untimed;
        self.ran.merge(&other.ran);
        self.waited.merge(&other.waited);
        self.took.merge(&other.took);
        self.clock_error_ns = self.clock_error_ns.max(other.clock_error_ns);
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
            untimed: self.untimed,
            ran: self.ran.distribution(),
            waited: self.waited.distribution(),
            took: self.took.distribution(),
            clock_error_ns: self.clock_error_ns,
        }
    }
}

/// The jobs of a queue, whosever they are.
struct QueueTotals {
    /// Who has all of them, if one process has.
    owner: Option<ProcessId>,
    totals: GpuTotals,
}

/// The jobs of all queues.
#[derive(Debug)]
pub(super) struct GpuAccounts {
    rows: Capped<GpuKey, GpuTotals>,
    zones: Capped<GpuZoneKey, GpuTotals>,
    pub(super) waits: FenceWaits,
}

impl GpuAccounts {
    /// Of waits for fences the longest are kept, as many as that.
    pub(super) fn new(waits: usize) -> Self {
        let (rows, zones) = (Capped::new(MAX_ROWS), Capped::new(MAX_ROWS));
        Self { rows, zones, waits: FenceWaits::new(waits) }
    }

    /// A job that ends now.
    pub(super) fn job(&mut self, now: u64, track: TrackId, job: &GpuJob, tables: &Tables) {
        let process = process_of(track, job, tables);
        let queue = GpuKey { queue: tables.track(track).name, process };
        if job.zone.is_some() {
            self.zones.row(GpuZoneKey { queue, name: job.name }).add(now, job);
        }
        // The queue is busy once with what lies in each other.
        if job.zone.is_none_or(|zone| zone.depth == 0) {
            self.rows.row(queue).add(now, job);
        }
    }

    /// Zones by name.
    pub(super) fn zone_rows(&self, maker: RowMaker<'_>) -> Table<GpuZoneRow> {
        let rows = self.zones.iter().map(|(GpuZoneKey { queue, name }, totals)| {
            let (name, of) = (maker.string(*name), maker.string(queue.queue));
            zone_row(totals, name, of, queue.process, maker)
        });
        let mut rows: Vec<_> = rows.collect();
        let others = self.zones.left_out();
        if others.jobs > 0 {
            rows.push(zone_row(others, OTHERS.to_owned(), String::new(), None, maker));
        }
        maker.table(rows, |row| {
            let amount = Reverse((row.ran.total_ns, row.zones));
            (amount, row.name.clone(), row.queue.clone(), row.pid)
        })
    }

    /// Of all processes together.
    pub(super) fn queue_rows(&self, maker: RowMaker<'_>) -> Table<GpuRow> {
        let mut queues: FxHashMap<StringId, QueueTotals> = FxHashMap::default();
        for (key, totals) in self.rows.iter() {
            let new = || QueueTotals { owner: key.process, totals: GpuTotals::default() };
            let queue = queues.entry(key.queue).or_insert_with(new);
            queue.owner = queue.owner.filter(|owner| Some(*owner) == key.process);
            queue.totals.merge(totals);
        }
        let rows = queues.iter().map(|(queue, QueueTotals { owner, totals })| {
            totals.row(maker.string(*queue), *owner, maker)
        });
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

/// Of zones of that name on that queue.
fn zone_row(
    totals: &GpuTotals,
    name: String,
    queue: String,
    owner: Option<ProcessId>,
    maker: RowMaker<'_>,
) -> GpuZoneRow {
    let process = owner.map(|id| maker.process(id));
    GpuZoneRow {
        name,
        queue,
        pid: process.as_ref().map(|process| process.pid),
        process: process.map(|process| process.name).unwrap_or_default(),
        zones: totals.jobs,
        untimed: totals.untimed,
        ran: totals.ran.distribution(),
        waited: totals.waited.distribution(),
        clock_error_ns: totals.clock_error_ns,
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
