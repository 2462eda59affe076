//! Jobs of GPUs: markers on a thread for each queue, which the file has for nothing else.
//!
//! A queue's thread belongs to its process, or to process 0, the machine. The
//! thread that handed a job over has a marker there of its own.

use super::markers::{Data, GpuJobData, GpuSubmitData, Marker, Timing};
use super::meta::milliseconds;
use super::slices::location_label;
use super::tables::{Category, Shared};
use super::threads::ThreadState;
use crate::labels;
use std::collections::BTreeMap;
use syscollect_model::{GpuJob, GpuJobEnd, ProcessId, StringId, Tables, ThreadId, TrackId};

/// The queues so far. Tracks of one name are rows of one queue, and so one thread.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) threads: BTreeMap<(ProcessId, StringId), Box<ThreadState>>,
}

impl Queues {
    /// Takes in a job that ends now; gives the marker of the thread that submitted it.
    pub(super) fn job(
        &mut self,
        time: u64,
        (track, owner): (TrackId, ProcessId),
        job: &GpuJob,
        shared: &mut Shared,
        tables: &Tables,
    ) -> Option<(ThreadId, Marker)> {
        let queue = tables.track(track).name;
        let timing = job
            .began()
            .map_or(Timing::Instant(time), |began| Timing::Interval(began.0.min(time), time));
        let data = Data::GpuJob(data(time, job, shared, tables)).into();
        let number = job.zone.and_then(|zone| zone.number);
        let name = shared.string(&labels::numbered(job.name, number, tables));
        let category = Category::Gpu.index();
        let state = self.threads.entry((owner, queue)).or_default();
        state.markers.push(&Marker { name, category, timing, data });

        let (thread, submitted) = (job.thread?, job.submitted?);
        let queue = shared.string(tables.strings.get(queue));
        let data = Data::GpuSubmit(GpuSubmitData { job: name, queue, waited: waited(job) }).into();
        let name = shared.string("Submit to GPU");
        Some((thread, Marker { name, category, timing: Timing::Instant(submitted.0), data }))
    }
}

/// Milliseconds from its submission until the GPU began with it.
fn waited(job: &GpuJob) -> Option<f64> {
    Some(milliseconds(job.started?.0.saturating_sub(job.submitted?.0)))
}

fn data(time: u64, job: &GpuJob, shared: &mut Shared, tables: &Tables) -> GpuJobData {
    let [submitted, queued, started] =
        [job.submitted, job.queued, job.started].map(|time| time.map(|time| time.0));
    let thread = job.thread.map(|id| {
        let row = tables.thread(id);
        shared.string(&format!("{} ({})", tables.strings.get(row.name), row.tid))
    });
    let location = job.zone.and_then(|zone| zone.location);
    let others = job.fields.iter().map(|field| labels::named_value(field, tables));
    GpuJobData {
        thread,
        context: job.context.map(|context| format!("{context:#x}")),
        waited: waited(job),
        submission: labels::submission(job).map(milliseconds),
        place: location.map(|location| location_label(location, tables)),
        accepted: distance(submitted, queued),
        queued: distance(queued, started),
        ran: distance(started, Some(time)).filter(|_| job.end != GpuJobEnd::Untimed),
        fence: job.fence.map(labels::fence),
        waited_for: non_empty(labels::fences(&job.waited_for)),
        end: (job.end != GpuJobEnd::Finished).then(|| labels::job_end(job.end)),
        more: non_empty(others.collect::<Vec<_>>().join(", ")),
    }
}

fn distance(from: Option<u64>, to: Option<u64>) -> Option<f64> {
    Some(milliseconds(to?.saturating_sub(from?)))
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
