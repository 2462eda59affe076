//! Drivers that tell of their jobs in their own words.

use syscollect_model::{Fence, Field, GpuJobEnd, Value};

use super::decoder::{Detail, Family, Gpu, Key};
use super::jobs::Stage;
use super::record::DescribedRecord;
use crate::engine::Engine;
use syscollect_playback::Stopped;

impl Gpu {
    /// Commands of virtual GPUs (drivers/gpu/drm/virtio/virtgpu_trace.h).
    pub(super) fn virtio(
        &mut self,
        engine: &mut Engine<'_>,
        name: &str,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let queue = reading.text("name").filter(|name| !name.is_empty()).unwrap_or("queue".into());
        let device = reading.number("dev").unwrap_or(0) & 0xffff_ffff;
        let Some(vq) = reading.number("vq") else { return self.plain(engine, reading) };
        let is_answer = name == "virtio_gpu_cmd_response";
        let sequence = reading.number("seqno").unwrap_or_else(|| {
            let order = self.orders.entry(device << 32 | vq & 0xffff_ffff).or_default();
            if is_answer { order.answered() } else { order.queued() }
        });
        let key = (Family::Virtio, device << 32 | vq & 0xffff_ffff, sequence);
        let thread = self.current(engine, reading);
        let queue = engine.tables.strings.intern(&format!("virtio_gpu {device} {queue}"));
        let command = reading.number("type").unwrap_or(0);
        let label = engine.tables.strings.intern(virtio_command(command));
        let field = engine.tables.strings.intern("type");
        let fields = vec![Field::named(field, Value::Address(command))];
        let context = reading.number("ctx_id");
        let detail = Detail {
            queue,
            name: label,
            context,
            fence: None,
            thread,
            waited_for: Vec::new(),
            fields,
        };
        match name {
            "virtio_gpu_cmd_queue" => self.stage(engine, key, Stage::Submitted, detail),
            "virtio_gpu_cmd_response" => self.job_ends(engine, key, GpuJobEnd::Finished, detail),
            _ => self.plain(engine, reading),
        }
    }

    /// Requests of Intel's older driver, which has a scheduler of its own
    /// (drivers/gpu/drm/i915/i915_trace.h).
    pub(super) fn i915(
        &mut self,
        engine: &mut Engine<'_>,
        name: &str,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let (Some(context), Some(sequence)) = (reading.number("ctx"), reading.number("seqno"))
        else {
            return self.plain(engine, reading);
        };
        let key = (Family::I915, context, sequence);
        match name {
            "i915_request_queue" => self.request_stage(engine, key, Stage::Submitted, reading),
            // A program's requests were queued before, the kernel's own begin here.
            "i915_request_add" if self.jobs.detail(key).is_none() => {
                self.request_stage(engine, key, Stage::Submitted, reading)
            }
            "i915_request_add" => Ok(()),
            "i915_request_submit" => self.request_stage(engine, key, Stage::Queued, reading),
            "i915_request_in" => self.request_stage(engine, key, Stage::Started, reading),
            // Most end when their fence is signaled; what is left ends here.
            "i915_request_out" | "i915_request_retire" if self.jobs.detail(key).is_some() => {
                let detail = self.request(engine, key, reading);
                self.job_ends(engine, key, GpuJobEnd::Finished, detail)
            }
            "i915_request_out" | "i915_request_retire" => Ok(()),
            "i915_request_wait_begin" => {
                self.request_wait_begins(engine, Fence { context, sequence }, reading)
            }
            "i915_request_wait_end" => self.request_wait_ends(engine, reading),
            _ => self.plain(engine, reading),
        }
    }

    fn request_stage(
        &mut self,
        engine: &mut Engine<'_>,
        key: Key,
        stage: Stage,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let detail = self.request(engine, key, reading);
        self.stage(engine, key, stage, detail)
    }

    fn request(
        &mut self,
        engine: &mut Engine<'_>,
        (_, context, sequence): Key,
        reading: &DescribedRecord<'_>,
    ) -> Detail {
        let instance =
            [reading.number("class"), reading.number("instance")].map(Option::unwrap_or_default);
        let thread = self.current(engine, reading);
        let queue = engine.tables.strings.intern(&format!("i915 {}", engine_name(instance)));
        let name = engine.tables.strings.intern("request");
        let fence = Some(Fence { context, sequence });
        let (waited_for, fields) = (Vec::new(), Vec::new());
        Detail { queue, name, context: Some(context), fence, thread, waited_for, fields }
    }

    /// A fence of i915 is one of its requests, which has more to tell; whether that is so.
    pub(super) fn is_request(
        &mut self,
        engine: &mut Engine<'_>,
        name: &str,
        fence: Fence,
        driver: &str,
        reading: &DescribedRecord<'_>,
    ) -> Result<bool, Stopped> {
        let key = (Family::I915, fence.context, fence.sequence);
        if name == "dma_fence_signaled" && self.jobs.detail(key).is_some() {
            let detail = self.request(engine, key, reading);
            self.job_ends(engine, key, GpuJobEnd::Finished, detail)?;
            return Ok(true);
        }
        Ok(driver == "i915" && reading.table.has_requests())
    }

    /// The driver tells of a wait within the kernel's own of the same fence, or alone.
    fn request_wait_begins(
        &mut self,
        engine: &mut Engine<'_>,
        fence: Fence,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let Some(thread) = self.current(engine, reading) else { return Ok(()) };
        if self.waits.is_for(thread, fence) {
            self.waits_within.insert(thread);
            return Ok(());
        }
        let instance =
            [reading.number("class"), reading.number("instance")].map(Option::unwrap_or_default);
        self.wait_begins(engine, fence, &format!("i915 {}", engine_name(instance)), reading)
    }

    fn request_wait_ends(
        &mut self,
        engine: &mut Engine<'_>,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let is_within =
            self.current(engine, reading).is_some_and(|thread| self.waits_within.remove(&thread));
        if is_within { Ok(()) } else { self.wait_ends(engine, reading) }
    }
}

/// How users know an engine by its class (include/uapi/drm/i915_drm.h) and number.
fn engine_name([class, instance]: [u64; 2]) -> String {
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

/// Names of the commands that make most of the traffic (include/uapi/linux/virtio_gpu.h).
fn virtio_command(number: u64) -> &'static str {
    match number {
        0x0100 => "GET_DISPLAY_INFO",
        0x0101 => "RESOURCE_CREATE_2D",
        0x0102 => "RESOURCE_UNREF",
        0x0103 => "SET_SCANOUT",
        0x0104 => "RESOURCE_FLUSH",
        0x0105 => "TRANSFER_TO_HOST_2D",
        0x0106 => "RESOURCE_ATTACH_BACKING",
        0x0107 => "RESOURCE_DETACH_BACKING",
        0x0200 => "CTX_CREATE",
        0x0201 => "CTX_DESTROY",
        0x0204 => "RESOURCE_CREATE_3D",
        0x0205 => "TRANSFER_TO_HOST_3D",
        0x0206 => "TRANSFER_FROM_HOST_3D",
        0x0207 => "SUBMIT_3D",
        0x0300 => "UPDATE_CURSOR",
        0x0301 => "MOVE_CURSOR",
        _ => "command",
    }
}
