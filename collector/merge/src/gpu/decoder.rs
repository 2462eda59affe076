//! Records of tracepoints on their way into the model.

use super::fences::{FenceEvent, FenceStep};
use super::frames::{CrtcFrames, FrameBoundary};
use super::gpu_jobs::GpuJobs;
use super::jobs::Stage;
use super::record::{DescribedRecord, TracepointTable};
use super::scheduler::SchedulerJobs;
use super::virtio::VirtioQueues;
use super::waits::FenceWaits;
use super::{i915, memory};
use crate::engine::{CaptureEngine, Engine};
use syscollect_model::{Fence, Forgotten, GpuJobEnd};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::{GpuFailureRecord, RecordKind};

/// Decodes lanes of tracepoints.
#[derive(Debug)]
pub(crate) struct Tracepoints {
    pub(crate) table: TracepointTable,
    pub(crate) gpu: Gpu,
}

impl Tracepoints {
    pub(crate) fn new(table: TracepointTable) -> Self {
        Self { table, gpu: Gpu::default() }
    }

    /// A record of a lane of tracepoints.
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        bytes: &[u8],
    ) -> Result<(), Stopped> {
        if bytes.first() == Some(&(RecordKind::GpuFailure as u8)) {
            if let Some(record) = GpuFailureRecord::from_bytes(bytes) {
                let Gpu { jobs, scheduler, .. } = &mut self.gpu;
                let fence = Fence { context: record.context, sequence: record.sequence };
                return jobs.failure(engine, &record, scheduler.submissions.job_of(fence));
            }
        } else if let Some(record) = DescribedRecord::new(bytes, &self.table) {
            return self.gpu.tracepoint(engine, &record);
        }
        engine.unknown(lane);
        Ok(())
    }
}

/// What GPUs do, as tracepoints tell it.
#[derive(Debug, Default)]
pub(crate) struct Gpu {
    pub(crate) jobs: GpuJobs,
    scheduler: SchedulerJobs,
    virtio: VirtioQueues,
    waits: FenceWaits,
    frames: CrtcFrames,
}

impl Gpu {
    /// Forgets threads that are gone.
    pub(crate) fn forget(&mut self, forgotten: &Forgotten) {
        self.waits.forget(forgotten);
        self.scheduler.submissions.forget(forgotten);
    }

    fn tracepoint(
        &mut self,
        engine: &mut Engine<'_>,
        record: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        engine.count(EventType::Tracepoint);
        let Self { jobs, scheduler, virtio, waits, frames } = self;
        match (record.tracepoint.system.as_str(), record.tracepoint.name.as_str()) {
            ("dma_fence", _) => self.fence(engine, record),
            ("gpu_scheduler", _) => scheduler.on(engine, jobs, record),
            ("virtio_gpu", _) => virtio.on(engine, jobs, record),
            ("i915", _) => i915::on(engine, jobs, waits, record),
            ("amdgpu", _) => scheduler.submissions.amdgpu(engine, jobs, record),
            ("xe", _) => scheduler.submissions.xe(engine, jobs, record),
            ("gpu_mem", _) => memory::total(engine, record),
            ("drm", "drm_vblank_event") => frames.on(engine, FrameBoundary::VerticalBlank, record),
            ("drm", "drm_vblank_event_delivered") => frames.on(engine, FrameBoundary::Flip, record),
            _ => record.emit_as_instant(engine),
        }
    }

    /// Something happens to a fence. It is a job of its own, unless others tell more of its work.
    fn fence(
        &mut self,
        engine: &mut Engine<'_>,
        record: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let Some(event) = FenceEvent::new(record) else { return record.emit_as_instant(engine) };
        let (jobs, fence) = (&mut self.jobs, event.fence);
        match event.step {
            FenceStep::WaitBegins => {
                return self.waits.begin(engine, record, fence, &event.queue());
            }
            FenceStep::WaitEnds => return self.waits.end(engine, record),
            FenceStep::Signaled => self.waits.signaled(engine, record, fence),
            FenceStep::Init | FenceStep::Emit | FenceStep::Destroyed | FenceStep::Other => {}
        }
        if event.step == FenceStep::Signaled
            && let Some(job) = jobs.failures.decided(fence)
        {
            return event.end(engine, jobs, job, GpuJobEnd::Finished);
        }
        let key = event.key();
        if event.is_no_work()
            || i915::is_request(engine, jobs, &event)?
            || self.scheduler.submissions.is_jobs_own(engine, jobs, &event)
        {
            jobs.failures.is_nobodys(key);
            return Ok(());
        }
        if event.is_detached() && jobs.open.detail(key).is_none() {
            return Ok(());
        }
        match event.step {
            FenceStep::Init => event.stage(engine, jobs, Stage::Submitted),
            FenceStep::Emit => event.stage(engine, jobs, Stage::Queued),
            FenceStep::Signaled => event.end(engine, jobs, key, GpuJobEnd::Finished),
            FenceStep::Destroyed if jobs.open.detail(key).is_some() => {
                event.end(engine, jobs, key, GpuJobEnd::Failed)
            }
            _ => Ok(()),
        }
    }

    /// The recording is over: what is open ends with it.
    pub(crate) fn close(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        self.jobs.close(engine)?;
        self.waits.close(engine)?;
        self.frames.close(engine)
    }
}
