//! Fences of every driver (include/trace/events/dma_fence.h).

use std::borrow::Cow;

use syscollect_model::{Fence, GpuJobEnd};
use syscollect_playback::Stopped;

use super::gpu_jobs::{GpuJobs, JobDetail, JobFamily, JobKey};
use super::jobs::Stage;
use super::record::DescribedRecord;
use crate::engine::Engine;

/// Fences that only stand for others (drivers/dma-buf/dma-fence-array.c, -chain.c), and promises to
/// stop using memory, which are open for as long as nobody wants it: no work.
const NO_WORK: [&str; 4] =
    ["dma_fence_array", "dma_fence_chain", "amdgpu_eviction_fence", "amdgpu_amdkfd_fence"];
/// The timeline of such promises of xe.
const PREEMPTION: &str = "preempt";
/// How the driver's name begins once a fence is signaled (from 6.17) or its driver is gone: whose
/// it was is known from before, or nobody's work.
const DETACHED: &str = "detached";
/// The driver's name of the scheduler's own fences; its tracepoints tell more.
const SCHEDULER: &str = "drm_sched";

/// What happens to a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FenceStep {
    Init,
    Emit,
    Signaled,
    Destroyed,
    WaitBegins,
    WaitEnds,
    /// What no rule here knows.
    Other,
}

impl FenceStep {
    fn of_tracepoint(name: &str) -> Self {
        match name {
            "dma_fence_init" => Self::Init,
            "dma_fence_emit" => Self::Emit,
            "dma_fence_signaled" => Self::Signaled,
            "dma_fence_destroy" => Self::Destroyed,
            "dma_fence_wait_start" => Self::WaitBegins,
            "dma_fence_wait_end" => Self::WaitEnds,
            _ => Self::Other,
        }
    }
}

/// A fence of which a record tells.
pub(super) struct FenceEvent<'r> {
    pub(super) step: FenceStep,
    pub(super) fence: Fence,
    pub(super) driver: Cow<'r, str>,
    pub(super) record: &'r DescribedRecord<'r>,
}

impl<'r> FenceEvent<'r> {
    /// `None` where the record does not say of which fence.
    pub(super) fn new(record: &'r DescribedRecord<'r>) -> Option<Self> {
        let fence = Fence { context: record.number("context")?, sequence: record.number("seqno")? };
        let step = FenceStep::of_tracepoint(&record.tracepoint.name);
        Some(Self { step, fence, driver: record.text("driver").unwrap_or_default(), record })
    }

    pub(super) fn timeline(&self) -> Cow<'r, str> {
        self.record.text("timeline").unwrap_or_default()
    }

    /// Where its work is done: its driver and timeline.
    pub(super) fn queue(&self) -> String {
        format!("{} {}", self.driver, self.timeline()).trim().to_owned()
    }

    /// Whether nobody works until it is signaled, or what it stands for has tracepoints of its own.
    pub(super) fn is_no_work(&self) -> bool {
        let is_promise = || self.driver == "xe" && self.timeline() == PREEMPTION;
        let is_of_scheduler = || self.driver == SCHEDULER && self.record.table.has_scheduler();
        NO_WORK.contains(&&*self.driver) || is_promise() || is_of_scheduler()
    }

    /// Whether the kernel does not say any more whose it is.
    pub(super) fn is_detached(&self) -> bool {
        self.driver.starts_with(DETACHED)
    }

    /// The key of its work, where that is a job of its own.
    pub(super) fn key(&self) -> JobKey {
        JobKey::of_fence(JobFamily::Fence, self.fence)
    }

    /// A stage of its own job.
    pub(super) fn stage(
        &self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        stage: Stage,
    ) -> Result<(), Stopped> {
        let detail = self.detail(engine);
        jobs.stage(engine, self.key(), stage, detail)
    }

    /// The end of a job, of its own or of another.
    pub(super) fn end(
        &self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        job: JobKey,
        end: GpuJobEnd,
    ) -> Result<(), Stopped> {
        let detail = self.detail(engine);
        jobs.end(engine, job, end, detail)
    }

    fn detail(&self, engine: &mut Engine<'_>) -> JobDetail {
        let timeline = self.timeline();
        let thread = self.record.thread(engine);
        let name = if timeline.is_empty() { "fence" } else { &timeline };
        JobDetail {
            name: engine.tables.strings.intern(name),
            queue: engine.tables.strings.intern(&self.queue()),
            context: Some(self.fence.context),
            fence: Some(self.fence),
            thread,
            waited_for: Vec::new(),
            fields: Vec::new(),
        }
    }
}

/// The half of a fence's numbers that its tracepoints tell.
pub(super) fn as_reported(fence: Fence) -> Fence {
    Fence { context: fence.context & 0xffff_ffff, sequence: fence.sequence & 0xffff_ffff }
}

/// Whether they can be one fence: some of the kernel's tracepoints tell half of a fence's numbers.
pub(super) fn are_same(one: Fence, other: Fence) -> bool {
    as_reported(one) == as_reported(other)
}
