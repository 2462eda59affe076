//! Jobs of the DRM scheduler.

use syscollect_model::{Fence, Field, StringId, Value};

use super::gpu_jobs::{GpuJobs, JobDetail, JobFamily, JobKey};
use super::jobs::Stage;
use super::recent::Recent;
use super::record::DescribedRecord;
use super::submissions::Submissions;
use crate::engine::Engine;
use syscollect_playback::Stopped;

/// Dependencies of a job that are shown.
const MOST_DEPENDENCIES: usize = 64;

/// The queue of jobs whose ring's name is not told.
pub(super) const UNNAMED: &str = "gpu_scheduler";

/// A job as its dependencies name it, on kernels that do not name their fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NumberedJob {
    ring: StringId,
    /// Where the ring's name lies, on kernels that tell that instead.
    ring_address: u64,
    number: u64,
}

impl NumberedJob {
    fn new(engine: &mut Engine<'_>, record: &DescribedRecord<'_>) -> Option<Self> {
        // Before 6.1 the name is an address in the kernel.
        let ring = record.text("name").unwrap_or_default();
        let ring = engine.tables.strings.intern(&ring);
        let ring_address = record.number("name").unwrap_or(0);
        Some(Self { ring, ring_address, number: record.number("id")? })
    }
}

/// Jobs of the DRM scheduler, with what drivers add to them.
#[derive(Debug, Default)]
pub(super) struct SchedulerJobs {
    pub(super) submissions: Submissions,
    numbered: Recent<NumberedJob, JobKey>,
}

impl SchedulerJobs {
    /// Something happens to a job, by both generations of names
    /// (drivers/gpu/drm/scheduler/gpu_scheduler_trace.h).
    pub(super) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        record: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let name = record.tracepoint.name.as_str();
        if name == "drm_sched_job_wait_dep" {
            self.numbered_waits(engine, jobs, record);
            return Ok(());
        }
        let fence = record.number("fence_context").zip(record.number("fence_seqno"));
        let fence = fence.map(|(context, sequence)| Fence { context, sequence });
        let key = match (fence, record.number("fence")) {
            (Some(fence), _) => JobKey::of_fence(JobFamily::Scheduler, fence),
            // Before 6.16 jobs are told by the address of their fence.
            (None, Some(address)) => JobKey { family: JobFamily::Scheduler, numbers: [address, 0] },
            (None, None) => return record.emit_as_instant(engine),
        };
        match name {
            "drm_sched_job" | "drm_sched_job_queue" => {
                let mut detail = detail(engine, fence, record);
                self.submissions.submitted(engine, jobs, key, record.number("id"), &mut detail);
                if let (None, Some(numbered)) = (fence, NumberedJob::new(engine, record)) {
                    self.numbered.note(numbered, key);
                }
                jobs.stage(engine, key, Stage::Submitted, detail.clone())?;
                jobs.stage(engine, key, Stage::Queued, detail)
            }
            "drm_run_job" | "drm_sched_job_run" => {
                let detail = detail(engine, fence, record);
                self.submissions.runs(engine, key, record);
                jobs.stage(engine, key, Stage::Started, detail)
            }
            "drm_sched_process_job" | "drm_sched_job_done" if jobs.failures.is_undecided(key) => {
                Ok(())
            }
            "drm_sched_process_job" | "drm_sched_job_done" => {
                let detail = detail(engine, fence, record);
                let end = jobs.end_of_done(key);
                jobs.end(engine, key, end, detail)
            }
            "drm_sched_job_add_dep" | "drm_sched_job_unschedulable" => {
                waits_for(jobs, key, record);
                Ok(())
            }
            _ => record.emit_as_instant(engine),
        }
    }

    /// Before 6.16 a dependency names the job by its ring and number, and `fence` is what it waits
    /// for.
    fn numbered_waits(
        &self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        record: &DescribedRecord<'_>,
    ) {
        let numbered = NumberedJob::new(engine, record);
        match numbered.and_then(|numbered| self.numbered.get(numbered)) {
            Some(key) => waits_for(jobs, key, record),
            // It was handed over before the recording.
            None => engine.sink.tally.unmatched_ends += 1,
        }
    }
}

/// A job waits for a fence.
fn waits_for(jobs: &mut GpuJobs, key: JobKey, record: &DescribedRecord<'_>) {
    let dependency =
        record.one_of(&["dep_context", "ctx"]).zip(record.one_of(&["dep_seqno", "seqno"]));
    if let (Some((context, sequence)), Some(detail)) = (dependency, jobs.open.detail(key)) {
        let fence = Fence { context, sequence };
        if !detail.waited_for.contains(&fence) && detail.waited_for.len() < MOST_DEPENDENCIES {
            detail.waited_for.push(fence);
        }
    }
}

/// What a record says of a job.
fn detail(
    engine: &mut Engine<'_>,
    fence: Option<Fence>,
    record: &DescribedRecord<'_>,
) -> JobDetail {
    // Before 6.1 the name is an address in the kernel.
    let ring = record.text("name").unwrap_or(UNNAMED.into());
    let device = record.text("dev").unwrap_or_default();
    let thread = record.thread(engine);
    let name = engine.tables.strings.intern(if ring.is_empty() { "job" } else { &ring });
    let queue = engine.tables.strings.intern(format!("{device} {ring}").trim());
    let context = record.one_of(&["client_id", "entity"]);
    let labels =
        [("id", "job"), ("job_count", "jobs in the queue"), ("hw_job_count", "jobs on the GPU")];
    let fields = labels.iter().filter_map(|(key, label)| {
        let name = engine.tables.strings.intern(label);
        record.number(key).map(|value| Field::named(name, Value::Unsigned(value)))
    });
    let fields = fields.collect();
    JobDetail { queue, name, context, fence, thread, waited_for: Vec::new(), fields }
}
