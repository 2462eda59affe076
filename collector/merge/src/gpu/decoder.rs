//! Records of tracepoints on their way into the model.

use super::failures::Failures;
use super::jobs::{Jobs, OpenJob, Stage, StageOutcome};
use super::recent::Recent;
use super::record::{DescribedRecord, TracepointTable};
use super::scheduler::Numbered;
use super::submissions::Submissions;
use super::waits::Waits;
use crate::engine::{CaptureEngine, Engine};
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{
    Event, Fence, Field, GpuJob, GpuJobEnd, Scope, Slice, StringId, Tables, ThreadId, Time, Track,
    TrackId, TrackKind, TrackRole,
};
use syscollect_playback::{EventType, Rows, Stopped};
use syscollect_records::{GpuFailureRecord, RecordKind};

/// Rows of one queue: jobs that overlap beyond them lose their beginning.
const MOST_ROWS: usize = 64;
/// Keeps rows of queues apart from those of other tracks of the same name.
pub(super) const QUEUES: u64 = 1 << 59;

/// What tells a job from others: who names it so, and two numbers.
pub(super) type Key = (Family, u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Family {
    Fence,
    Scheduler,
    Virtio,
    I915,
}

/// What is known of a job beside its times.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub(super) queue: StringId,
    pub(super) name: StringId,
    pub(super) context: Option<u64>,
    pub(super) fence: Option<Fence>,
    pub(super) thread: Option<ThreadId>,
    pub(super) waited_for: Vec<Fence>,
    pub(super) fields: Vec<Field>,
}

/// A queue's rows, and when its last job ended.
#[derive(Debug)]
struct Queue {
    rows: Rows<Time>,
    last_end: Option<Time>,
}

/// Numbers of commands that are answered in the order in which they were queued.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommandNumbers {
    queued: u64,
    answered: u64,
}

impl CommandNumbers {
    pub(super) fn queued(&mut self) -> u64 {
        self.queued += 1;
        self.queued
    }

    /// The oldest that has no answer; one that nobody queued where all have theirs.
    pub(super) fn answered(&mut self) -> u64 {
        let number = self.answered + 1;
        self.answered = number.min(self.queued);
        number
    }
}

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
            return match GpuFailureRecord::from_bytes(bytes) {
                Some(record) => self.gpu.failure(engine, &record),
                None => {
                    engine.unknown(lane);
                    Ok(())
                }
            };
        }
        match DescribedRecord::new(bytes, &self.table) {
            Some(reading) => self.gpu.tracepoint(engine, &reading),
            None => {
                engine.unknown(lane);
                Ok(())
            }
        }
    }
}

/// What GPUs do, as tracepoints tell it.
#[derive(Debug, Default)]
pub(crate) struct Gpu {
    pub(super) jobs: Jobs<Key, Detail, Time>,
    /// Jobs of the scheduler by what their dependencies name them, on kernels that do not name
    /// their fences.
    pub(super) numbered: Recent<Numbered, Key>,
    pub(crate) failures: Failures,
    queues: FxHashMap<StringId, Queue>,
    pub(super) waits: Waits,
    /// Threads in a wait for a request within the kernel's own wait for its fence.
    pub(super) waits_within: FxHashSet<ThreadId>,
    pub(super) submissions: Submissions,
    /// Commands by virtual device and queue, on kernels that do not number them.
    pub(super) orders: FxHashMap<u64, CommandNumbers>,
    /// Frames by CRTC.
    pub(super) frames: FxHashMap<(u64, &'static str), TrackId>,
}

impl Gpu {
    fn tracepoint(
        &mut self,
        engine: &mut Engine<'_>,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        engine.count(EventType::Tracepoint);
        let (system, name) = (reading.tracepoint.system.as_str(), reading.tracepoint.name.as_str());
        match system {
            "dma_fence" => self.dma_fence(engine, name, reading),
            "gpu_scheduler" => self.scheduler(engine, name, reading),
            "virtio_gpu" => self.virtio(engine, name, reading),
            "i915" => self.i915(engine, name, reading),
            "amdgpu" => self.amdgpu(engine, name, reading),
            "xe" => self.xe(engine, name, reading),
            "gpu_mem" => self.memory_total(engine, reading),
            "drm" if name == "drm_vblank_event" => self.crtc_frame(engine, "", "vblank", reading),
            "drm" if name == "drm_vblank_event_delivered" => {
                self.crtc_frame(engine, " flips", "flip", reading)
            }
            _ => self.plain(engine, reading),
        }
    }

    /// The thread that was current; interrupts have none of their own.
    pub(super) fn current(
        &mut self,
        engine: &mut Engine<'_>,
        reading: &DescribedRecord<'_>,
    ) -> Option<ThreadId> {
        let head = reading.head;
        (head.interrupt == 0).then(|| engine.thread_of(head.tid, Some(head.tgid)))
    }

    pub(super) fn stage(
        &mut self,
        engine: &mut Engine<'_>,
        key: Key,
        stage: Stage,
        detail: Detail,
    ) -> Result<(), Stopped> {
        match self.jobs.stage(key, stage, engine.now(), || detail) {
            StageOutcome::Replaced(job) => self.job(engine, job, GpuJobEnd::Unfinished),
            StageOutcome::Noted => Ok(()),
            StageOutcome::Ignored => {
                engine.sink.tally.unmatched_ends += 1;
                Ok(())
            }
        }
    }

    /// `detail` is that of the end, where nothing else was told.
    pub(super) fn job_ends(
        &mut self,
        engine: &mut Engine<'_>,
        key: Key,
        end: GpuJobEnd,
        detail: Detail,
    ) -> Result<(), Stopped> {
        if self.jobs.has_ended(key) && self.jobs.detail(key).is_none() {
            return Ok(());
        }
        match self.jobs.end(key) {
            Some(job) => self.job(engine, job, end),
            None => {
                engine.sink.tally.unmatched_ends += 1;
                // Whoever ended it is not who handed it over.
                let mut detail = Detail { thread: None, ..detail };
                let error = self.failures.of_end(key);
                detail.fields.extend(error.map(|error| self.error_field(engine, error)));
                let job = OpenJob { detail, submitted: None, queued: None, started: None };
                self.job(
                    engine,
                    job,
                    error.map_or(GpuJobEnd::WithoutBeginning, |_| GpuJobEnd::Failed),
                )
            }
        }
    }

    /// Tells of a job that is over now.
    pub(super) fn job(
        &mut self,
        engine: &mut Engine<'_>,
        job: OpenJob<Detail, Time>,
        end: GpuJobEnd,
    ) -> Result<(), Stopped> {
        let OpenJob { detail, submitted, queued, started } = job;
        let now = engine.now();
        let queue = self.queues.entry(detail.queue);
        let queue = queue.or_insert_with(|| Queue { rows: Rows::new(MOST_ROWS), last_end: None });
        // What the driver has is done one by one: the GPU began when it had ended the one before.
        let taken = started.or(queued);
        let started =
            taken.map(|taken| queue.last_end.map_or(taken, |last| taken.max(last)).min(now));
        let began = started.or(submitted).unwrap_or(now);
        let placed = queue.rows.place(began, now);
        if taken.is_some() {
            queue.last_end = Some(now);
        }
        let track = engine.track(
            Track {
                scope: Scope::Machine(engine.machine),
                name: detail.queue,
                kind: TrackKind::GpuQueue,
            },
            QUEUES | placed.row as u64,
        );
        let Detail { name, context, fence, thread, waited_for, fields, .. } = detail;
        let started = started.map(|started| started.max(placed.begin).min(now));
        let submitted =
            submitted.map(|submitted| taken.map_or(submitted, |taken| submitted.min(taken)));
        let job = GpuJob {
            name,
            context,
            thread,
            submitted,
            queued,
            started,
            end,
            fence,
            waited_for,
            fields,
        };
        engine.emit(&Event::GpuJob(track, Box::new(job)))
    }

    /// What no rule knows, with all its fields: beside the thread that did it.
    pub(super) fn plain(
        &mut self,
        engine: &mut Engine<'_>,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let name = engine.tables.strings.intern(&reading.tracepoint.system);
        let thread = self.current(engine, reading).filter(|thread| *thread != Tables::IDLE_THREAD);
        let track = engine.track(
            Track {
                scope: thread.map_or(Scope::Machine(engine.machine), Scope::Thread),
                name,
                kind: TrackKind::Slices(TrackRole::Named),
            },
            QUEUES,
        );
        let mut slice = Slice::named(reading.tracepoint.label);
        slice.fields = reading.fields();
        engine.emit(&Event::Instant(track, slice))
    }

    /// The recording is over: what is open ends with it.
    pub(crate) fn close(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        self.failures.close();
        for (_, job) in self.jobs.finish() {
            self.job(engine, job, GpuJobEnd::Unfinished)?;
        }
        self.close_waits(engine)?;
        let mut frames: Vec<_> = self.frames.drain().map(|(_, track)| track).collect();
        frames.sort_unstable();
        frames.into_iter().try_for_each(|track| engine.emit(&Event::SliceEnd(track)))
    }
}
