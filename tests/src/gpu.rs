//! What every GPU driver tells by way of the kernel's own parts, as tracepoints of a fake machine.

use crate::FakeMachine;
use crate::tracepoint::{FakeField, FakeTracepoint, FakeValue, TEXT};

/// Fields of the tracepoints of fences: include/trace/events/dma_fence.h, 5.10 to 7.2.
pub const FENCE: &[FakeField<'_>] =
    &[("driver", TEXT), ("timeline", TEXT), ("context", 4), ("seqno", 4)];
/// Fields of the tracepoints of jobs: drivers/gpu/drm/scheduler/gpu_scheduler_trace.h, from 6.16
/// on.
pub const JOB: &[FakeField<'_>] = &[
    ("name", TEXT),
    ("job_count", 4),
    ("hw_job_count", 4),
    ("dev", TEXT),
    ("fence_context", 8),
    ("fence_seqno", 8),
    ("client_id", 8),
];
/// The same, where a job is done.
pub const JOB_DONE: &[FakeField<'_>] = &[("fence_context", 8), ("fence_seqno", 8)];
/// The same, where a job has to wait for a fence.
const JOB_NEEDS: &[FakeField<'_>] =
    &[("fence_context", 8), ("fence_seqno", 8), ("ctx", 8), ("seqno", 8)];

/// The tracepoints of fences; their values are those of [`fence`].
#[derive(Clone, Debug)]
pub struct FenceTracepoints {
    /// A fence is made.
    pub init: FakeTracepoint,
    /// Its work goes to the GPU.
    pub emit: FakeTracepoint,
    /// Its work is done.
    pub signaled: FakeTracepoint,
    /// Nobody holds it any more.
    pub destroy: FakeTracepoint,
    /// A thread begins to wait for it.
    pub wait_start: FakeTracepoint,
    /// The thread goes on.
    pub wait_end: FakeTracepoint,
}

impl FenceTracepoints {
    /// Defines them, with numbers from 1 on.
    pub fn new(machine: &mut FakeMachine) -> Self {
        let [init, emit, signaled, destroy, wait_start, wait_end] = [
            (1, "dma_fence_init"),
            (2, "dma_fence_emit"),
            (3, "dma_fence_signaled"),
            (4, "dma_fence_destroy"),
            (5, "dma_fence_wait_start"),
            (6, "dma_fence_wait_end"),
        ]
        .map(|(number, name)| FakeTracepoint::new(machine, number, ("dma_fence", name), FENCE));
        Self { init, emit, signaled, destroy, wait_start, wait_end }
    }
}

/// What a tracepoint of fences says.
pub fn fence<'a>(
    driver: &'a str,
    timeline: &'a str,
    context: u64,
    sequence: u64,
) -> [FakeValue<'a>; 4] {
    [driver.into(), timeline.into(), context.into(), sequence.into()]
}

/// The tracepoints of the DRM scheduler from 6.16 on.
#[derive(Clone, Debug)]
pub struct SchedulerTracepoints {
    /// A job is handed over. Name, jobs in the queue and on the GPU, device, context and number of
    /// its fence, client.
    pub queue: FakeTracepoint,
    /// The driver has it; the same values.
    pub run: FakeTracepoint,
    /// It is done. Context and number of its fence.
    pub done: FakeTracepoint,
    /// It has to wait for a fence. Context and number of its own, and of the other.
    pub needs: FakeTracepoint,
}

impl SchedulerTracepoints {
    /// Defines them, with numbers from 20 on.
    pub fn new(machine: &mut FakeMachine) -> Self {
        let [queue, run, done, needs] = [
            (20, "drm_sched_job_queue", JOB),
            (21, "drm_sched_job_run", JOB),
            (22, "drm_sched_job_done", JOB_DONE),
            (23, "drm_sched_job_add_dep", JOB_NEEDS),
        ]
        .map(|(number, name, fields)| {
            FakeTracepoint::new(machine, number, ("gpu_scheduler", name), fields)
        });
        Self { queue, run, done, needs }
    }
}
