//! Fences of every driver (include/trace/events/dma_fence.h).

use syscollect_model::{Fence, GpuJobEnd};

use super::decoder::{Detail, Family, Gpu, Key};
use super::jobs::Stage;
use super::record::DescribedRecord;
use crate::engine::Engine;
use syscollect_playback::Stopped;

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

impl Gpu {
    /// Fences of every driver (include/trace/events/dma_fence.h).
    pub(super) fn dma_fence(
        &mut self,
        engine: &mut Engine<'_>,
        name: &str,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let driver = reading.text("driver").unwrap_or_default();
        let (Some(context), Some(sequence)) = (reading.number("context"), reading.number("seqno"))
        else {
            return self.plain(engine, reading);
        };
        let fence = Fence { context, sequence };
        match name {
            "dma_fence_wait_start" => {
                let timeline = reading.text("timeline").unwrap_or_default();
                return self.wait_begins(
                    engine,
                    fence,
                    format!("{driver} {timeline}").trim(),
                    reading,
                );
            }
            "dma_fence_wait_end" => return self.wait_ends(engine, reading),
            "dma_fence_signaled" => self.fence_signaled(engine, fence, reading),
            _ => {}
        }
        let key = (Family::Fence, context, sequence);
        if name == "dma_fence_signaled"
            && let Some(job) = self.failures.decided(fence)
        {
            let detail = self.fence_detail(engine, fence, reading);
            return self.job_ends(engine, job, GpuJobEnd::Finished, detail);
        }
        let is_promise = driver == "xe"
            && reading.text("timeline").is_some_and(|timeline| timeline == PREEMPTION);
        // Nobody's work: what they stand for has fences of its own.
        let is_told = driver == SCHEDULER && reading.table.has_scheduler();
        if NO_WORK.contains(&&*driver) || is_promise || is_told {
            self.failures.is_nobodys(key);
            return Ok(());
        }
        // Told by other tracepoints, which say more.
        if self.is_request(engine, name, fence, &driver, reading)?
            || self.is_jobs_own(engine, name, fence, reading)
        {
            self.failures.is_nobodys(key);
            return Ok(());
        }
        if driver.starts_with(DETACHED) && self.jobs.detail(key).is_none() {
            return Ok(());
        }
        match name {
            "dma_fence_init" => self.fence_stage(engine, key, Stage::Submitted, fence, reading),
            "dma_fence_emit" => self.fence_stage(engine, key, Stage::Queued, fence, reading),
            "dma_fence_signaled" => {
                self.fence_ends(engine, key, GpuJobEnd::Finished, fence, reading)
            }
            "dma_fence_destroy" if self.jobs.detail(key).is_some() => {
                self.fence_ends(engine, key, GpuJobEnd::Failed, fence, reading)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn fence_stage(
        &mut self,
        engine: &mut Engine<'_>,
        key: Key,
        stage: Stage,
        fence: Fence,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let detail = self.fence_detail(engine, fence, reading);
        self.stage(engine, key, stage, detail)
    }

    pub(super) fn fence_ends(
        &mut self,
        engine: &mut Engine<'_>,
        key: Key,
        end: GpuJobEnd,
        fence: Fence,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let detail = self.fence_detail(engine, fence, reading);
        self.job_ends(engine, key, end, detail)
    }

    pub(super) fn fence_detail(
        &mut self,
        engine: &mut Engine<'_>,
        fence: Fence,
        reading: &DescribedRecord<'_>,
    ) -> Detail {
        let driver = reading.text("driver").unwrap_or_default();
        let timeline = reading.text("timeline").unwrap_or_default();
        let thread = self.current(engine, reading);
        let name =
            engine.tables.strings.intern(if timeline.is_empty() { "fence" } else { &timeline });
        let queue = engine.tables.strings.intern(format!("{driver} {timeline}").trim());
        let context = Some(fence.context);
        Detail {
            queue,
            name,
            context,
            fence: Some(fence),
            thread,
            waited_for: Vec::new(),
            fields: Vec::new(),
        }
    }
}
