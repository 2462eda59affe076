//! Which tracepoints tell what GPUs do, and those that a user asks for.

use crate::options::Tracepoints;

/// A tracepoint, or all of a subsystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TracepointSelector<'a> {
    /// The subsystem, a folder of `events/` in tracefs.
    pub(crate) system: &'a str,
    /// The event; `None` for all of the subsystem.
    pub(crate) event: Option<&'a str>,
}

impl TracepointSelector<'_> {
    /// Whether this event is one of these.
    pub(crate) fn includes(&self, system: &str, name: &str) -> bool {
        self.system == system && self.event.is_none_or(|event| event == name)
    }
}

impl<'a> From<&'a Tracepoints> for TracepointSelector<'a> {
    fn from(asked: &'a Tracepoints) -> Self {
        Self { system: &asked.system, event: asked.name.as_deref() }
    }
}

const fn all(system: &'static str) -> TracepointSelector<'static> {
    TracepointSelector { system, event: None }
}

const fn one(system: &'static str, event: &'static str) -> TracepointSelector<'static> {
    TracepointSelector { system, event: Some(event) }
}

/// What every driver tells by way of the kernel's own parts comes first: fences
/// (include/trace/events/dma_fence.h), the scheduler (its names changed between
/// 6.12 and 7.2), vertical blanks, memory; then what drivers add.
pub(crate) const GPU: &[TracepointSelector<'static>] = &[
    all("dma_fence"),
    all("gpu_scheduler"),
    all("drm"),
    one("gpu_mem", "gpu_mem_total"),
    all("virtio_gpu"),
    one("amdgpu", "amdgpu_cs_ioctl"),
    one("amdgpu", "amdgpu_sched_run_job"),
    one("amdgpu", "amdgpu_iv"),
    one("i915", "i915_request_queue"),
    one("i915", "i915_request_add"),
    one("i915", "i915_request_submit"),
    one("i915", "i915_request_in"),
    one("i915", "i915_request_out"),
    one("i915", "i915_request_retire"),
    one("i915", "i915_request_wait_begin"),
    one("i915", "i915_request_wait_end"),
    one("xe", "xe_hw_fence_create"),
    one("xe", "xe_sched_job_exec"),
    one("xe", "xe_sched_job_timedout"),
    one("xe", "xe_exec_queue_reset"),
    one("xe", "xe_exec_queue_memory_cat_error"),
];
