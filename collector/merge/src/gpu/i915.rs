//! Requests of Intel's older driver, which has a scheduler of its own
//! (drivers/gpu/drm/i915/i915_trace.h).

use syscollect_model::{Fence, GpuJobEnd};

use super::fences::{FenceEvent, FenceStep};
use super::gpu_jobs::{GpuJobs, JobDetail, JobFamily, JobKey};
use super::jobs::Stage;
use super::record::DescribedRecord;
use super::waits::FenceWaits;
use crate::engine::Engine;
use syscollect_playback::Stopped;

/// A request of which a record tells.
#[derive(Clone, Copy)]
struct Request<'r> {
    fence: Fence,
    record: &'r DescribedRecord<'r>,
}

impl Request<'_> {
    fn key(&self) -> JobKey {
        JobKey::of_fence(JobFamily::I915, self.fence)
    }

    /// The engine that it is for, as users know it.
    fn queue(&self) -> String {
        let [class, instance] =
            ["class", "instance"].map(|field| self.record.number(field).unwrap_or_default());
        format!("i915 {}", engine_name(class, instance))
    }

    fn detail(&self, engine: &mut Engine<'_>) -> JobDetail {
        let thread = self.record.thread(engine);
        JobDetail {
            queue: engine.tables.strings.intern(&self.queue()),
            name: engine.tables.strings.intern("request"),
            context: Some(self.fence.context),
            fence: Some(self.fence),
            thread,
            waited_for: Vec::new(),
            fields: Vec::new(),
        }
    }

    fn stage(
        self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        stage: Stage,
    ) -> Result<(), Stopped> {
        let detail = self.detail(engine);
        jobs.stage(engine, self.key(), stage, detail)
    }

    /// It is over, if it is open.
    fn end(self, engine: &mut Engine<'_>, jobs: &mut GpuJobs) -> Result<(), Stopped> {
        if jobs.open.detail(self.key()).is_none() {
            return Ok(());
        }
        let detail = self.detail(engine);
        jobs.end(engine, self.key(), GpuJobEnd::Finished, detail)
    }
}

/// Something happens to a request.
pub(super) fn on(
    engine: &mut Engine<'_>,
    jobs: &mut GpuJobs,
    waits: &mut FenceWaits,
    record: &DescribedRecord<'_>,
) -> Result<(), Stopped> {
    let (Some(context), Some(sequence)) = (record.number("ctx"), record.number("seqno")) else {
        return record.emit_as_instant(engine);
    };
    let request = Request { fence: Fence { context, sequence }, record };
    match record.tracepoint.name.as_str() {
        "i915_request_queue" => request.stage(engine, jobs, Stage::Submitted),
        // A program's requests were queued before, the kernel's own begin here.
        "i915_request_add" if jobs.open.detail(request.key()).is_none() => {
            request.stage(engine, jobs, Stage::Submitted)
        }
        "i915_request_add" => Ok(()),
        "i915_request_submit" => request.stage(engine, jobs, Stage::Queued),
        "i915_request_in" => request.stage(engine, jobs, Stage::Started),
        // Most end when their fence is signaled; what is left ends here.
        "i915_request_out" | "i915_request_retire" => request.end(engine, jobs),
        "i915_request_wait_begin" => {
            waits.request_begins(engine, record, request.fence, &request.queue())
        }
        "i915_request_wait_end" => waits.request_ends(engine, record),
        _ => record.emit_as_instant(engine),
    }
}

/// A fence of i915 is one of its requests, which has more to tell; whether that is so.
pub(super) fn is_request(
    engine: &mut Engine<'_>,
    jobs: &mut GpuJobs,
    event: &FenceEvent<'_>,
) -> Result<bool, Stopped> {
    let request = Request { fence: event.fence, record: event.record };
    if event.step == FenceStep::Signaled && jobs.open.detail(request.key()).is_some() {
        request.end(engine, jobs)?;
        return Ok(true);
    }
    Ok(event.driver == "i915" && event.record.table.has_requests())
}

/// How users know an engine by its class (include/uapi/drm/i915_drm.h) and number.
fn engine_name(class: u64, instance: u64) -> String {
    let class = match class {
        0 => "render",
        1 => "copy",
        2 => "video",
        3 => "video enhancement",
        4 => "compute",
        _ => return format!("engine {class}:{instance}"),
    };
    format!("{class} {instance}")
}
