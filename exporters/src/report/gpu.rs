//! Jobs of GPUs, by queue and process.

use super::capped::Capped;
use super::durations::Durations;
use syscollect_model::{GpuJob, GpuJobEnd, ProcessId, Scope, StringId, Tables, Time, TrackId};

/// Queues and processes that are told apart, at most 84 kB each.
const MAX_ROWS: usize = 1024;
/// Digits of the percentiles.
const DIGITS: u8 = 2;

/// What makes jobs one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GpuKey {
    pub(super) queue: StringId,
    pub(super) process: Option<ProcessId>,
}

/// The jobs of one row.
#[derive(Debug)]
pub(super) struct GpuTotals {
    pub(super) jobs: u64,
    pub(super) failed: u64,
    /// Those whose end or beginning is missing; they are in no duration.
    pub(super) incomplete: u64,
    /// From start to end.
    pub(super) ran: Durations,
    /// From submission to start.
    pub(super) waited: Durations,
}

impl Default for GpuTotals {
    fn default() -> Self {
        let [ran, waited] = [(); 2].map(|()| Durations::new(DIGITS));
        Self { jobs: 0, failed: 0, incomplete: 0, ran, waited }
    }
}

/// The jobs of all queues.
#[derive(Debug)]
pub(super) struct GpuBooks {
    pub(super) rows: Capped<GpuKey, GpuTotals>,
}

impl Default for GpuBooks {
    fn default() -> Self {
        Self { rows: Capped::new(MAX_ROWS) }
    }
}

impl GpuBooks {
    /// A job that ends now.
    pub(super) fn job(&mut self, now: u64, track: TrackId, job: &GpuJob, tables: &Tables) {
        let row = self.rows.row(GpuKey { queue: tables.track(track).name, process: process_of(track, job, tables) });
        row.jobs += 1;
        row.failed += u64::from(job.end == GpuJobEnd::Failed);
        let between = |from: Option<Time>, to: u64| Some(to.saturating_sub(from?.0));
        if let Some(waited) = job.started.and_then(|started| between(job.submitted, started.0)) {
            row.waited.add(waited);
        }
        if matches!(job.end, GpuJobEnd::Unfinished | GpuJobEnd::WithoutBeginning) {
            row.incomplete += 1;
        } else if let Some(ran) = between(job.started, now) {
            row.ran.add(ran);
        }
    }
}

/// Whose job it is: of the thread that submitted it, else of the queue.
pub(super) fn process_of(track: TrackId, job: &GpuJob, tables: &Tables) -> Option<ProcessId> {
    let submitter = job.thread.map(|thread| tables.thread(thread).process);
    submitter.or(match tables.track(track).scope {
        Scope::Machine | Scope::Cpu(_) => None,
        Scope::Process(process) => Some(process),
        Scope::Thread(thread) => Some(tables.thread(thread).process),
    })
}
