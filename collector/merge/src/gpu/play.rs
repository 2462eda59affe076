//! Records of tracepoints on their way into the model.

use super::jobs::{Jobs, Open, Stage, Told};
use super::record::{Reading, TracepointTable};
use crate::play::Player;
use crate::record_cursor::RecordItem;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Exporter, Fence, Field, GpuJob, GpuJobEnd, Scope, Slice, SliceMore, StringId, ThreadId, Time, TrackId,
    TrackKind, Value,
};
use syscollect_playback::Rows;
use syscollect_records::RecordKind;

/// Rows of one queue: jobs that overlap beyond them lose their beginning.
const MOST_ROWS: usize = 64;
/// Keeps rows of queues apart from those of other tracks of the same name.
const QUEUES: u64 = 1 << 59;
/// Fences that only stand for others (drivers/dma-buf/dma-fence-array.c, -chain.c).
const STAND_INS: [&str; 2] = ["dma_fence_array", "dma_fence_chain"];
/// How the driver's name begins once a fence is signaled (from 6.17) or its driver is gone: whose it
/// was is known from before, or nobody's work.
const DETACHED: &str = "detached";
/// The driver's name of the scheduler's own fences; its tracepoints tell more.
const SCHEDULER: &str = "drm_sched";

/// What tells a job from others: who names it so, and two numbers.
type Key = (Family, u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Family {
    Fence,
    Scheduler,
    Virtio,
    I915,
}

/// What is known of a job beside its times.
#[derive(Clone, Debug)]
struct Detail {
    queue: StringId,
    name: StringId,
    context: Option<u64>,
    fence: Option<Fence>,
    thread: Option<ThreadId>,
    waited_for: Vec<Fence>,
    fields: Vec<Field>,
}

/// A queue's rows, and when its last job ended.
#[derive(Debug)]
struct Queue {
    rows: Rows<Time>,
    last_end: Option<Time>,
}

/// Numbers of commands that are answered in the order in which they were queued.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    queued: u64,
    answered: u64,
}

impl Order {
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

/// What is remembered of GPUs while playing.
#[derive(Debug, Default)]
pub(crate) struct GpuState {
    jobs: Jobs<Key, Detail, Time>,
    queues: FxHashMap<StringId, Queue>,
    /// Waits for fences that are open, by thread.
    waits: FxHashMap<ThreadId, (TrackId, u32)>,
    /// Commands by virtual device and queue, on kernels that do not number them.
    orders: FxHashMap<u64, Order>,
    /// Frames by CRTC.
    frames: FxHashMap<(u64, &'static str), TrackId>,
}

impl<E: Exporter> Player<'_, E> {
    /// An item of a lane of tracepoints; `bytes` are those of a record.
    pub(crate) fn tracepoints(&mut self, lane: usize, item: RecordItem, bytes: &[u8]) -> Result<(), E::Error> {
        match item {
            RecordItem::Missing(missing) => {
                self.missing(lane, if missing.records > 0 { missing.records } else { missing.chunks })?;
            }
            RecordItem::Record => {
                let table: &TracepointTable = &self.marked.tracepoints;
                match Reading::new(bytes, table) {
                    Some(reading) => self.tracepoint(&reading)?,
                    None => self.unknown(lane),
                }
            }
        }
        self.lanes[lane].last = Some(self.now);
        Ok(())
    }

    fn tracepoint(&mut self, reading: &Reading<'_>) -> Result<(), E::Error> {
        self.count(RecordKind::Tracepoint);
        let (system, name) = (reading.tracepoint.system.as_str(), reading.tracepoint.name.as_str());
        match system {
            "dma_fence" => self.dma_fence(name, reading),
            "gpu_scheduler" => self.scheduler(name, reading),
            "virtio_gpu" => self.virtio(name, reading),
            "i915" => self.i915(name, reading),
            "drm" if name == "drm_vblank_event" => self.crtc_frame("", "vblank", reading),
            "drm" if name == "drm_vblank_event_delivered" => self.crtc_frame(" flips", "flip", reading),
            _ => self.plain(reading),
        }
    }

    /// The thread that was current; interrupts have none of their own.
    fn current(&mut self, reading: &Reading<'_>) -> Option<ThreadId> {
        let head = reading.head;
        (head.interrupt == 0).then(|| self.thread_of(head.tid, Some(head.tgid)))
    }

    /// Fences of every driver (include/trace/events/dma_fence.h).
    fn dma_fence(&mut self, name: &str, reading: &Reading<'_>) -> Result<(), E::Error> {
        let driver = reading.text("driver").unwrap_or_default();
        let (Some(context), Some(sequence)) = (reading.number("context"), reading.number("seqno")) else {
            return self.plain(reading);
        };
        let fence = Fence { context, sequence };
        match name {
            "dma_fence_wait_start" => return self.wait_begins(fence, reading),
            "dma_fence_wait_end" => return self.wait_ends(reading),
            _ => {}
        }
        // Nobody's work: what they stand for has fences of its own.
        if STAND_INS.contains(&&*driver) || (driver == SCHEDULER && self.marked.tracepoints.has_scheduler()) {
            return Ok(());
        }
        let key = (Family::Fence, context, sequence);
        if driver.starts_with(DETACHED) && self.gpu.jobs.detail(key).is_none() {
            return Ok(());
        }
        match name {
            "dma_fence_init" => self.fence_stage(key, Stage::Submitted, fence, reading),
            "dma_fence_emit" => self.fence_stage(key, Stage::Queued, fence, reading),
            "dma_fence_signaled" => self.fence_ends(key, GpuJobEnd::Finished, fence, reading),
            "dma_fence_destroy" if self.gpu.jobs.detail(key).is_some() => {
                self.fence_ends(key, GpuJobEnd::Failed, fence, reading)
            }
            _ => Ok(()),
        }
    }

    fn fence_stage(&mut self, key: Key, stage: Stage, fence: Fence, reading: &Reading<'_>) -> Result<(), E::Error> {
        let detail = self.fence_detail(fence, reading);
        self.stage(key, stage, detail)
    }

    fn fence_ends(&mut self, key: Key, end: GpuJobEnd, fence: Fence, reading: &Reading<'_>) -> Result<(), E::Error> {
        let detail = self.fence_detail(fence, reading);
        self.job_ends(key, end, detail)
    }

    fn fence_detail(&mut self, fence: Fence, reading: &Reading<'_>) -> Detail {
        let driver = reading.text("driver").unwrap_or_default();
        let timeline = reading.text("timeline").unwrap_or_default();
        let thread = self.current(reading);
        let name = self.tables.strings.intern(if timeline.is_empty() { "fence" } else { &timeline });
        let queue = self.tables.strings.intern(format!("{driver} {timeline}").trim());
        let context = Some(fence.context);
        Detail { queue, name, context, fence: Some(fence), thread, waited_for: Vec::new(), fields: Vec::new() }
    }

    /// Jobs of the DRM scheduler, by both generations of names
    /// (drivers/gpu/drm/scheduler/gpu_scheduler_trace.h).
    fn scheduler(&mut self, name: &str, reading: &Reading<'_>) -> Result<(), E::Error> {
        let fence = reading.number("fence_context").zip(reading.number("fence_seqno"));
        let key = match (fence, reading.number("fence")) {
            (Some((context, sequence)), _) => (Family::Scheduler, context, sequence),
            // Before 6.16 jobs are told by the address of their fence.
            (None, Some(address)) => (Family::Scheduler, address, 0),
            (None, None) => return self.plain(reading),
        };
        let fence = fence.map(|(context, sequence)| Fence { context, sequence });
        match name {
            "drm_sched_job" | "drm_sched_job_queue" => {
                let detail = self.scheduler_detail(fence, reading);
                self.stage(key, Stage::Submitted, detail.clone())?;
                self.stage(key, Stage::Queued, detail)
            }
            "drm_run_job" | "drm_sched_job_run" => {
                let detail = self.scheduler_detail(fence, reading);
                self.stage(key, Stage::Started, detail)
            }
            "drm_sched_process_job" | "drm_sched_job_done" => {
                let detail = self.scheduler_detail(fence, reading);
                self.job_ends(key, GpuJobEnd::Finished, detail)
            }
            "drm_sched_job_add_dep" | "drm_sched_job_unschedulable" => {
                let dependency = reading.one_of(&["dep_context", "ctx"]).zip(reading.one_of(&["dep_seqno", "seqno"]));
                if let (Some((context, sequence)), Some(detail)) = (dependency, self.gpu.jobs.detail(key)) {
                    let fence = Fence { context, sequence };
                    if !detail.waited_for.contains(&fence) && detail.waited_for.len() < 64 {
                        detail.waited_for.push(fence);
                    }
                }
                Ok(())
            }
            _ => self.plain(reading),
        }
    }

    fn scheduler_detail(&mut self, fence: Option<Fence>, reading: &Reading<'_>) -> Detail {
        // Before 6.1 the name is an address in the kernel.
        let ring = reading.text("name").unwrap_or("gpu_scheduler".into());
        let device = reading.text("dev").unwrap_or_default();
        let thread = self.current(reading);
        let name = self.tables.strings.intern(if ring.is_empty() { "job" } else { &ring });
        let queue = self.tables.strings.intern(format!("{device} {ring}").trim());
        let context = reading.one_of(&["client_id", "entity"]);
        let number = |this: &mut Self, key: &str, label: &str| {
            let name = this.tables.strings.intern(label);
            reading.number(key).map(|value| Field { name, value: Value::Unsigned(value) })
        };
        let labels = [("id", "job"), ("job_count", "jobs in the queue"), ("hw_job_count", "jobs on the GPU")];
        let fields = labels.iter().filter_map(|(key, label)| number(self, key, label)).collect();
        Detail { queue, name, context, fence, thread, waited_for: Vec::new(), fields }
    }

    /// Commands of virtual GPUs (drivers/gpu/drm/virtio/virtgpu_trace.h).
    fn virtio(&mut self, name: &str, reading: &Reading<'_>) -> Result<(), E::Error> {
        let queue = reading.text("name").filter(|name| !name.is_empty()).unwrap_or("queue".into());
        let device = reading.number("dev").unwrap_or(0) & 0xffff_ffff;
        let Some(vq) = reading.number("vq") else { return self.plain(reading) };
        let is_answer = name == "virtio_gpu_cmd_response";
        let sequence = reading.number("seqno").unwrap_or_else(|| {
            let order = self.gpu.orders.entry(device << 32 | vq & 0xffff_ffff).or_default();
            if is_answer { order.answered() } else { order.queued() }
        });
        let key = (Family::Virtio, device << 32 | vq & 0xffff_ffff, sequence);
        let thread = self.current(reading);
        let queue = self.tables.strings.intern(&format!("virtio_gpu {device} {queue}"));
        let command = reading.number("type").unwrap_or(0);
        let label = self.tables.strings.intern(virtio_command(command));
        let field = self.tables.strings.intern("type");
        let fields = vec![Field { name: field, value: Value::Address(command) }];
        let context = reading.number("ctx_id");
        let detail = Detail { queue, name: label, context, fence: None, thread, waited_for: Vec::new(), fields };
        match name {
            "virtio_gpu_cmd_queue" => self.stage(key, Stage::Submitted, detail),
            "virtio_gpu_cmd_response" => self.job_ends(key, GpuJobEnd::Finished, detail),
            _ => self.plain(reading),
        }
    }

    /// Requests of Intel's older driver, which has a scheduler of its own
    /// (drivers/gpu/drm/i915/i915_trace.h).
    fn i915(&mut self, name: &str, reading: &Reading<'_>) -> Result<(), E::Error> {
        let (Some(context), Some(sequence)) = (reading.number("ctx"), reading.number("seqno")) else {
            return self.plain(reading);
        };
        let key = (Family::I915, context, sequence);
        let engine = [reading.number("class"), reading.number("instance")].map(Option::unwrap_or_default);
        let thread = self.current(reading);
        let queue = self.tables.strings.intern(&format!("i915 engine {}:{}", engine[0], engine[1]));
        let label = self.tables.strings.intern("request");
        let fence = Some(Fence { context, sequence });
        let (waited_for, fields) = (Vec::new(), Vec::new());
        let detail = Detail { queue, name: label, context: Some(context), fence, thread, waited_for, fields };
        match name {
            "i915_request_queue" | "i915_request_add" => self.stage(key, Stage::Submitted, detail),
            "i915_request_submit" => self.stage(key, Stage::Queued, detail),
            "i915_request_in" => self.stage(key, Stage::Started, detail),
            "i915_request_out" => self.job_ends(key, GpuJobEnd::Finished, detail),
            "i915_request_retire" if self.gpu.jobs.has_ended(key) => Ok(()),
            "i915_request_retire" => self.job_ends(key, GpuJobEnd::Finished, detail),
            _ => self.plain(reading),
        }
    }

    fn stage(&mut self, key: Key, stage: Stage, detail: Detail) -> Result<(), E::Error> {
        match self.gpu.jobs.stage(key, stage, self.now, || detail) {
            Told::Replaced(job) => self.job(job, GpuJobEnd::Unfinished),
            Told::Noted => Ok(()),
            Told::Ignored => {
                self.unmatched += 1;
                Ok(())
            }
        }
    }

    /// `detail` is that of the end, where nothing else was told.
    fn job_ends(&mut self, key: Key, end: GpuJobEnd, detail: Detail) -> Result<(), E::Error> {
        if self.gpu.jobs.has_ended(key) && self.gpu.jobs.detail(key).is_none() {
            return Ok(());
        }
        match self.gpu.jobs.end(key) {
            Some(job) => self.job(job, end),
            None => {
                self.unmatched += 1;
                // Whoever ended it is not who handed it over.
                let detail = Detail { thread: None, ..detail };
                let job = Open { detail, submitted: None, queued: None, started: None };
                self.job(job, GpuJobEnd::WithoutBeginning)
            }
        }
    }

    /// Tells of a job that is over now.
    fn job(&mut self, job: Open<Detail, Time>, end: GpuJobEnd) -> Result<(), E::Error> {
        let Open { detail, submitted, queued, started } = job;
        let now = self.now;
        let queue = self.gpu.queues.entry(detail.queue);
        let queue = queue.or_insert_with(|| Queue { rows: Rows::new(MOST_ROWS), last_end: None });
        // What the driver has is done one by one: the GPU began when it had ended the one before.
        let taken = started.or(queued);
        let started = taken.map(|taken| queue.last_end.map_or(taken, |last| taken.max(last)).min(now));
        let began = started.or(submitted).unwrap_or(now);
        let placed = queue.rows.place(began, now);
        if taken.is_some() {
            queue.last_end = Some(now);
        }
        let track = self.track(Scope::Machine, detail.queue, TrackKind::GpuQueue, QUEUES | placed.row as u64);
        let Detail { name, context, fence, thread, waited_for, fields, .. } = detail;
        let started = started.map(|started| started.max(placed.begin).min(now));
        let submitted = submitted.map(|submitted| taken.map_or(submitted, |taken| submitted.min(taken)));
        let job = GpuJob { name, context, thread, submitted, queued, started, end, fence, waited_for, fields };
        self.emit(&Event::GpuJob(track, Box::new(job)))
    }

    fn wait_begins(&mut self, fence: Fence, reading: &Reading<'_>) -> Result<(), E::Error> {
        let Some(thread) = self.current(reading) else { return Ok(()) };
        let [track, name, context, sequence, timeline] =
            ["GPU waits", "waits for a fence", "context", "sequence", "timeline"]
                .map(|text| self.tables.strings.intern(text));
        let track = self.track(Scope::Thread(thread), track, TrackKind::Slices, QUEUES);
        let (_, open) = self.gpu.waits.entry(thread).or_insert((track, 0));
        *open += 1;
        let words = [reading.text("driver"), reading.text("timeline")].map(Option::unwrap_or_default);
        let mut slice = Slice::named(name);
        slice.fields = vec![
            Field { name: timeline, value: Value::Text(words.join(" ").trim().into()) },
            Field { name: context, value: Value::Unsigned(fence.context) },
            Field { name: sequence, value: Value::Unsigned(fence.sequence) },
        ];
        self.emit(&Event::SliceBegin(track, slice))
    }

    fn wait_ends(&mut self, reading: &Reading<'_>) -> Result<(), E::Error> {
        let Some(thread) = self.current(reading) else { return Ok(()) };
        let open = self.gpu.waits.get_mut(&thread).filter(|(_, open)| *open > 0);
        let Some((track, open)) = open else {
            self.unmatched += 1;
            return Ok(());
        };
        *open -= 1;
        let track = *track;
        self.emit(&Event::SliceEnd(track))
    }

    /// A vertical blank ends a frame and begins the next; so does what is told to programs that flip buffers.
    fn crtc_frame(&mut self, suffix: &str, kind: &'static str, reading: &Reading<'_>) -> Result<(), E::Error> {
        let Some(crtc) = reading.number("crtc") else { return self.plain(reading) };
        let known = self.gpu.frames.get(&(crtc, kind)).copied();
        let track = known.unwrap_or_else(|| {
            let name = self.tables.strings.intern(&format!("CRTC {crtc}{suffix}"));
            self.track(Scope::Machine, name, TrackKind::Frames { continuous: true }, 0)
        });
        if known.is_some() {
            self.emit(&Event::SliceEnd(track))?;
        }
        self.gpu.frames.insert((crtc, kind), track);
        let mut slice = Slice::named(self.tables.strings.intern(kind));
        slice.number = reading.number("seq");
        self.emit(&Event::SliceBegin(track, slice))
    }

    /// What no rule knows, with all its fields.
    fn plain(&mut self, reading: &Reading<'_>) -> Result<(), E::Error> {
        let name = self.tables.strings.intern(&reading.tracepoint.system);
        let track = self.track(Scope::Machine, name, TrackKind::Slices, QUEUES);
        let mut slice = Slice::named(reading.tracepoint.label);
        slice.fields = reading.fields();
        self.emit(&Event::Instant(track, slice))
    }

    /// The recording is over: what is open ends with it.
    pub(crate) fn close_gpu(&mut self) -> Result<(), E::Error> {
        for (_, job) in self.gpu.jobs.finish() {
            self.job(job, GpuJobEnd::Unfinished)?;
        }
        let mut waits: Vec<_> = self.gpu.waits.drain().map(|(_, wait)| wait).collect();
        waits.sort_unstable();
        for (track, open) in waits {
            for _ in 0..open {
                let more = SliceMore { unfinished: true, ..SliceMore::default() };
                self.emit(&Event::SliceMore(track, more))?;
                self.emit(&Event::SliceEnd(track))?;
            }
        }
        let mut frames: Vec<_> = self.gpu.frames.drain().map(|(_, track)| track).collect();
        frames.sort_unstable();
        frames.into_iter().try_for_each(|track| self.emit(&Event::SliceEnd(track)))
    }
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
