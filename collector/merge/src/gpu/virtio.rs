//! Commands of virtual GPUs (drivers/gpu/drm/virtio/virtgpu_trace.h).

use rustc_hash::FxHashMap;
use syscollect_model::{Field, GpuJobEnd, Value};

use super::gpu_jobs::{GpuJobs, JobDetail, JobFamily, JobKey};
use super::jobs::Stage;
use super::record::DescribedRecord;
use crate::engine::Engine;
use syscollect_playback::Stopped;

/// Numbers of commands that are answered in the order in which they were queued.
#[derive(Clone, Copy, Debug, Default)]
struct CommandNumbers {
    queued: u64,
    answered: u64,
}

impl CommandNumbers {
    fn queued(&mut self) -> u64 {
        self.queued += 1;
        self.queued
    }

    /// The oldest that has no answer; one that nobody queued where all have theirs.
    fn answered(&mut self) -> u64 {
        let number = self.answered + 1;
        self.answered = number.min(self.queued);
        number
    }
}

/// The queues of virtual GPUs, on kernels that do not number their commands.
#[derive(Debug, Default)]
pub(super) struct VirtioQueues {
    /// By virtual device and queue.
    numbers: FxHashMap<u64, CommandNumbers>,
}

impl VirtioQueues {
    /// A command is queued or answered.
    pub(super) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        jobs: &mut GpuJobs,
        record: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let name = record.tracepoint.name.as_str();
        let queue = record.text("name").filter(|name| !name.is_empty()).unwrap_or("queue".into());
        let device = record.number("dev").unwrap_or(0) & 0xffff_ffff;
        let Some(vq) = record.number("vq") else { return record.emit_as_instant(engine) };
        let queue_number = device << 32 | vq & 0xffff_ffff;
        let sequence = record.number("seqno").unwrap_or_else(|| {
            let numbers = self.numbers.entry(queue_number).or_default();
            if name == "virtio_gpu_cmd_response" { numbers.answered() } else { numbers.queued() }
        });
        let key = JobKey { family: JobFamily::Virtio, numbers: [queue_number, sequence] };
        let thread = record.thread(engine);
        let queue = engine.tables.strings.intern(&format!("virtio_gpu {device} {queue}"));
        let command = record.number("type").unwrap_or(0);
        let label = engine.tables.strings.intern(command_name(command));
        let field = engine.tables.strings.intern("type");
        let detail = JobDetail {
            queue,
            name: label,
            context: record.number("ctx_id"),
            fence: None,
            thread,
            waited_for: Vec::new(),
            fields: vec![Field::named(field, Value::Address(command))],
        };
        match name {
            "virtio_gpu_cmd_queue" => jobs.stage(engine, key, Stage::Submitted, detail),
            "virtio_gpu_cmd_response" => jobs.end(engine, key, GpuJobEnd::Finished, detail),
            _ => record.emit_as_instant(engine),
        }
    }
}

/// Names of the commands that make most of the traffic (include/uapi/linux/virtio_gpu.h).
fn command_name(number: u64) -> &'static str {
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
