//! Jobs that are over, on the rows of their queues.

use rustc_hash::FxHashMap;
use syscollect_model::{Event, GpuJob, GpuJobEnd, Scope, StringId, Time, Track, TrackKind};
use syscollect_playback::{Rows, Stopped};

use super::gpu_jobs::JobDetail;
use super::jobs::OpenJob;
use super::record::TRACEPOINTS;
use crate::engine::Engine;

/// Rows of one queue: jobs that overlap beyond them lose their beginning.
const MOST_ROWS: usize = 64;

/// A queue's rows, and when its last job ended.
#[derive(Debug)]
struct GpuQueue {
    rows: Rows<Time>,
    last_end: Option<Time>,
}

/// The queues of all GPUs.
#[derive(Debug, Default)]
pub(super) struct GpuQueues {
    by_name: FxHashMap<StringId, GpuQueue>,
}

impl GpuQueues {
    /// Emits a job that is over now.
    pub(super) fn emit(
        &mut self,
        engine: &mut Engine<'_>,
        job: OpenJob<JobDetail, Time>,
        end: GpuJobEnd,
    ) -> Result<(), Stopped> {
        let OpenJob { detail, submitted, queued, started } = job;
        let now = engine.now();
        let queue = self.by_name.entry(detail.queue);
        let queue =
            queue.or_insert_with(|| GpuQueue { rows: Rows::new(MOST_ROWS), last_end: None });
        // What the driver has is done one by one: the GPU began when it had ended the one before.
        let taken = started.or(queued);
        let started =
            taken.map(|taken| queue.last_end.map_or(taken, |last| taken.max(last)).min(now));
        let began = started.or(submitted).unwrap_or(now);
        let placed = queue.rows.place(began, now);
        if taken.is_some() {
            queue.last_end = Some(now);
        }
        let track = engine.track(
            Track {
                scope: Scope::Machine(engine.machine),
                name: detail.queue,
                kind: TrackKind::GpuQueue,
            },
            TRACEPOINTS | placed.row as u64,
        );
        let JobDetail { name, context, fence, thread, waited_for, fields, .. } = detail;
        let started = started.map(|started| started.max(placed.begin).min(now));
        let submitted =
            submitted.map(|submitted| taken.map_or(submitted, |taken| submitted.min(taken)));
        let job = GpuJob {
            name,
            context,
            thread,
            submitted,
            queued,
            started,
            end,
            fence,
            waited_for,
            fields,
            zone: None,
        };
        engine.emit(&Event::GpuJob(track, Box::new(job)))
    }
}
