//! What drivers add to jobs of the DRM scheduler (amdgpu, xe), and their own
//! fences of these jobs, which are the same work and no job of their own.

use rustc_hash::FxHashMap;
use syscollect_model::{Fence, Field, FieldRole, Forgotten, StringId, ThreadId, Value};

use super::fences::{FenceEvent, FenceStep, are_same, as_reported};
use super::gpu_jobs::{GpuJobs, JobDetail, JobFamily, JobKey};
use super::recent::Recent;
use super::record::DescribedRecord;
use super::scheduler::UNNAMED;
use crate::engine::Engine;
use syscollect_playback::Stopped;

/// What a thread says of the job that it gives to the scheduler next.
#[derive(Clone, Debug, Default)]
struct AnnouncedJob {
    ring: Option<StringId>,
    fence: Option<Fence>,
    /// The scheduler's number of the job, on kernels that tell it.
    number: Option<u64>,
    /// Where the driver's own fence lies.
    address: Option<u64>,
    fields: Vec<Field>,
}

impl AnnouncedJob {
    /// Whether it can be the same job. Older kernels tell half of a fence's numbers.
    fn is_of(&self, fence: Option<Fence>, number: Option<u64>) -> bool {
        let same_fence = self.fence.zip(fence).is_none_or(|(a, b)| are_same(a, b));
        same_fence && self.number.zip(number).is_none_or(|(a, b)| a == b)
    }

    /// Adds what the scheduler does not tell. Before 6.1 it tells the address of its ring's name
    /// only.
    fn complete(self, detail: &mut JobDetail, unnamed: StringId) {
        detail.fence = detail.fence.or(self.fence);
        self.fields.into_iter().for_each(|field| detail.set(field));
        if let Some(ring) = self.ring.filter(|_| detail.queue == unnamed) {
            (detail.queue, detail.name) = (ring, ring);
        }
    }
}

/// A job that a thread gave to the GPU, and its ring.
#[derive(Clone, Copy, Debug)]
struct RunningJob {
    key: JobKey,
    ring: StringId,
}

/// What is remembered of jobs on their way from drivers to the scheduler and back.
#[derive(Debug, Default)]
pub(super) struct Submissions {
    announced: FxHashMap<ThreadId, AnnouncedJob>,
    /// The job that a thread gave to the GPU last.
    running: FxHashMap<ThreadId, RunningJob>,
    /// Whose a fence on the GPU is; `None` where its numbers are used again by nobody's.
    own: Recent<Fence, Option<JobKey>>,
    /// Fences of xe, and jobs whose fence it is, by address.
    fences: Recent<u64, Fence>,
    jobs: Recent<u64, JobKey>,
}

/// Whether fences of this timeline are those of a ring of the scheduler, as their drivers name
/// them.
fn is_timeline_of(ring: &str, driver: &str, timeline: &str) -> bool {
    !ring.is_empty() && (ring == timeline || (!driver.is_empty() && ring.starts_with(driver)))
}

impl Submissions {
    /// Forgets threads that are gone.
    pub(super) fn forget(&mut self, forgotten: &Forgotten) {
        self.announced.retain(|thread, _| !forgotten.threads.contains(thread));
        self.running.retain(|thread, _| !forgotten.threads.contains(thread));
    }

    /// Jobs of AMD's driver, which are the scheduler's (drivers/gpu/drm/amd/amdgpu/amdgpu_trace.h).
    pub(super) fn amdgpu(
        &mut self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        record: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let thread = record.thread(engine).filter(|_| record.table.has_scheduler());
        let Some(thread) = thread else { return record.emit_as_instant(engine) };
        let ring = record
            .text("ring")
            .filter(|ring| !ring.is_empty())
            .map(|ring| engine.tables.strings.intern(&ring));
        let fence = record.number("context").zip(record.number("seqno"));
        let fence = fence.map(|(context, sequence)| Fence { context, sequence });
        let fields = record.labeled(engine, &[("num_ibs", "indirect buffers")], Value::Unsigned);
        let number = record.number("sched_job_id");
        let job = AnnouncedJob { ring, fence, number, address: None, fields };
        match record.tracepoint.name.as_str() {
            "amdgpu_cs_ioctl" => drop(self.announced.insert(thread, job)),
            "amdgpu_sched_run_job" => self.amdgpu_runs(engine, jobs, thread, job),
            _ => return record.emit_as_instant(engine),
        }
        Ok(())
    }

    /// Jobs of the kernel's own are not announced; this comes right after the scheduler says that
    /// they run.
    fn amdgpu_runs(
        &mut self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        thread: ThreadId,
        job: AnnouncedJob,
    ) {
        let Some(running) = self.running.get_mut(&thread) else { return };
        running.ring = job.ring.unwrap_or(running.ring);
        let unnamed = engine.tables.strings.intern(UNNAMED);
        let detail = jobs.open.detail(running.key);
        if let Some(detail) = detail.filter(|detail| job.is_of(detail.fence, None)) {
            job.complete(detail, unnamed);
        }
    }

    /// Jobs of Intel's newer driver, which are the scheduler's (drivers/gpu/drm/xe/xe_trace.h).
    pub(super) fn xe(
        &mut self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        record: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let thread = record.thread(engine).filter(|_| record.table.has_scheduler());
        let address = record.number("fence");
        match (record.tracepoint.name.as_str(), address, thread) {
            ("xe_hw_fence_create", Some(address), _) => {
                if let Some((context, sequence)) = record.number("ctx").zip(record.number("seqno"))
                {
                    self.fences.note(address, Fence { context, sequence });
                }
                Ok(())
            }
            ("xe_sched_job_exec", address, Some(thread)) => {
                let numbers = [("gt_id", "GT"), ("guc_id", "GuC id")];
                let mut fields = record.labeled(engine, &numbers, Value::Unsigned);
                fields.extend(record.labeled(engine, &[("batch_addr", "batch")], Value::Address));
                let job = AnnouncedJob { address, fields, ..AnnouncedJob::default() };
                self.announced.insert(thread, job);
                Ok(())
            }
            ("xe_sched_job_timedout", Some(address), _) => {
                let name = engine.tables.strings.intern("timed out");
                match self.jobs.get(address).and_then(|key| jobs.open.detail(key)) {
                    Some(detail) => {
                        let value = Value::Text("the driver gave it up".into());
                        detail.fields.push(Field::named(name, value));
                        Ok(())
                    }
                    None => record.emit_as_instant(engine),
                }
            }
            _ => record.emit_as_instant(engine),
        }
    }

    /// A thread gives a job to the scheduler: what the driver said right before is this job's.
    pub(super) fn submitted(
        &mut self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        key: JobKey,
        number: Option<u64>,
        detail: &mut JobDetail,
    ) {
        let job = detail.thread.and_then(|thread| self.announced.remove(&thread));
        let Some(job) = job.filter(|job| job.is_of(detail.fence, number)) else { return };
        let address = job.address;
        job.complete(detail, engine.tables.strings.intern(UNNAMED));
        let Some(address) = address else { return };
        self.jobs.note(address, key);
        if let Some(fence) = self.fences.get(address).map(as_reported) {
            // Until now it looked like a job of its own.
            jobs.open.forget(JobKey::of_fence(JobFamily::Fence, fence));
            self.own.note(fence, Some(key));
            detail.set(own_fence(engine, fence));
        }
    }

    /// A thread gives a job to the GPU.
    pub(super) fn runs(
        &mut self,
        engine: &mut Engine<'_>,
        key: JobKey,
        record: &DescribedRecord<'_>,
    ) {
        let Some(thread) = record.thread(engine) else { return };
        let ring = engine.tables.strings.intern(&record.text("name").unwrap_or_default());
        self.running.insert(thread, RunningJob { key, ring });
    }

    /// The job whose fence on the GPU it is.
    pub(super) fn job_of(&self, fence: Fence) -> Option<JobKey> {
        self.own.get(as_reported(fence)).flatten()
    }

    /// Whether a fence that is told is the driver's own of a job that the scheduler tells: made by
    /// the thread that gave the job to the GPU last, on the timeline of its ring.
    pub(super) fn is_jobs_own(
        &mut self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        event: &FenceEvent<'_>,
    ) -> bool {
        let fence = event.fence;
        if event.step != FenceStep::Init {
            return self.job_of(fence).is_some();
        }
        let running =
            event.record.thread(engine).and_then(|thread| self.running.get(&thread).copied());
        let running = running.filter(|running| {
            let ring = engine.tables.strings.get(running.ring);
            is_timeline_of(ring, &event.driver, &event.timeline())
        });
        let field = own_fence(engine, fence);
        if let Some(RunningJob { key, .. }) = running
            && let Some(detail) = jobs.open.detail(key)
        {
            // The last of several is the job's: those before it are of what prepares the GPU for
            // it, or of a try that failed.
            detail.set(field);
            detail.fields.retain(|field| field.role != FieldRole::JobError);
            self.own.note(fence, Some(key));
            return true;
        }
        if self.own.get(fence).is_some() {
            // Its numbers are used again.
            self.own.note(fence, None);
        }
        false
    }
}

fn own_fence(engine: &mut Engine<'_>, fence: Fence) -> Field {
    let value = Value::Text(format!("{}:{}", fence.context, fence.sequence).into());
    Field::named(engine.tables.strings.intern("fence on the GPU"), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_says_is_of_a_job_that_it_does_not_contradict() {
        let attributes =
            AnnouncedJob { fence: fence(7, 9), number: Some(3), ..AnnouncedJob::default() };
        assert!(attributes.is_of(None, None) && attributes.is_of(fence(1 << 32 | 7, 9), Some(3)));
        assert!(!attributes.is_of(fence(7, 8), Some(3)) && !attributes.is_of(None, Some(4)));
        assert!(AnnouncedJob::default().is_of(fence(7, 9), Some(3)));
    }

    fn fence(context: u64, sequence: u64) -> Option<Fence> {
        Some(Fence { context, sequence })
    }

    #[test]
    fn rings_and_timelines_are_matched_as_drivers_name_them() {
        for (ring, driver, timeline) in [
            ("gfx_0.0.0", "amdgpu", "gfx_0.0.0"),
            ("nouveau_sched", "nouveau", "game[77]"),
            ("v3d_render", "v3d", "v3d-render"),
            ("pp", "lima", "pp"),
        ] {
            assert!(is_timeline_of(ring, driver, timeline), "{ring}");
        }
        assert!(!is_timeline_of("gfx_0.0.0", "amdgpu", "sdma0"), "another ring of the same GPU");
        assert!(
            !is_timeline_of("", "", "") && !is_timeline_of("gfx", "", "other"),
            "nothing is known"
        );
    }
}
