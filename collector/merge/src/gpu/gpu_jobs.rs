//! Jobs of GPUs, whoever tells of them: from their first stage to the event at their end.

use syscollect_model::{Fence, Field, FieldRole, GpuJobEnd, StringId, ThreadId, Time};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::{GpuFailureRecord, gpu_failure};

use super::failures::{Failure, Failures, error_field};
use super::fences::as_reported;
use super::jobs::{Jobs, OpenJob, Stage, StageOutcome};
use super::queues::GpuQueues;
use crate::engine::Engine;

/// Who tells of a job, and so what its numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum JobFamily {
    Fence,
    Scheduler,
    Virtio,
    I915,
}

/// What tells a job from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct JobKey {
    pub(super) family: JobFamily,
    /// Those of its fence, mostly: context and sequence.
    pub(super) numbers: [u64; 2],
}

impl JobKey {
    pub(super) fn of_fence(family: JobFamily, fence: Fence) -> Self {
        Self { family, numbers: [fence.context, fence.sequence] }
    }

    /// By what jobs of this family may be known whose fence lies at this address.
    pub(super) fn of_family(family: JobFamily, fence: Fence, address: u64) -> [Self; 2] {
        let whole = Self::of_fence(family, fence);
        match family {
            JobFamily::Fence => [Self::of_fence(family, as_reported(fence)), whole],
            // Before 6.16 its jobs are told by the address of their fence.
            JobFamily::Scheduler => [whole, Self { family, numbers: [address, 0] }],
            JobFamily::I915 | JobFamily::Virtio => [whole; 2],
        }
    }
}

/// What is known of a job beside its times.
#[derive(Clone, Debug)]
pub(super) struct JobDetail {
    pub(super) queue: StringId,
    pub(super) name: StringId,
    pub(super) context: Option<u64>,
    pub(super) fence: Option<Fence>,
    pub(super) thread: Option<ThreadId>,
    pub(super) waited_for: Vec<Fence>,
    pub(super) fields: Vec<Field>,
}

impl JobDetail {
    /// Adds a field, in the place of an older one of its kind.
    pub(super) fn set(&mut self, field: Field) {
        self.fields.retain(|known| !known.is_same(&field));
        self.fields.push(field);
    }
}

/// Jobs that are open, how they failed, and the queues where they are shown when they are over.
#[derive(Debug, Default)]
pub(crate) struct GpuJobs {
    pub(super) open: Jobs<JobKey, JobDetail, Time>,
    pub(crate) failures: Failures,
    queues: GpuQueues,
}

impl GpuJobs {
    pub(super) fn stage(
        &mut self,
        engine: &mut Engine<'_>,
        key: JobKey,
        stage: Stage,
        detail: JobDetail,
    ) -> Result<(), Stopped> {
        match self.open.stage(key, stage, engine.now(), || detail) {
            StageOutcome::Replaced(job) => self.queues.emit(engine, job, GpuJobEnd::Unfinished),
            StageOutcome::Noted => Ok(()),
            StageOutcome::Ignored => {
                engine.sink.tally.unmatched_ends += 1;
                Ok(())
            }
        }
    }

    /// `detail` is that of the end, where nothing else was told.
    pub(super) fn end(
        &mut self,
        engine: &mut Engine<'_>,
        key: JobKey,
        end: GpuJobEnd,
        detail: JobDetail,
    ) -> Result<(), Stopped> {
        if self.open.has_ended(key) && self.open.detail(key).is_none() {
            return Ok(());
        }
        match self.open.end(key) {
            Some(job) => self.queues.emit(engine, job, end),
            None => {
                engine.sink.tally.unmatched_ends += 1;
                // Whoever ended it is not who handed it over.
                let mut detail = JobDetail { thread: None, ..detail };
                let error = self.failures.of_end(key);
                detail.fields.extend(error.map(|error| error_field(engine, error)));
                let job = OpenJob { detail, submitted: None, queued: None, started: None };
                let end = error.map_or(GpuJobEnd::WithoutBeginning, |_| GpuJobEnd::Failed);
                self.queues.emit(engine, job, end)
            }
        }
    }

    /// How a job ended that the scheduler takes for done.
    pub(super) fn end_of_done(&mut self, key: JobKey) -> GpuJobEnd {
        let failed = self
            .open
            .detail(key)
            .is_some_and(|job| job.fields.iter().any(|field| field.role == FieldRole::JobError));
        if failed { GpuJobEnd::Failed } else { GpuJobEnd::Finished }
    }

    /// Ends the jobs that failed: what ends them otherwise follows, or is lost. `own` is the job of
    /// the scheduler whose fence on the GPU it is.
    pub(super) fn failure(
        &mut self,
        engine: &mut Engine<'_>,
        record: &GpuFailureRecord,
        own: Option<JobKey>,
    ) -> Result<(), Stopped> {
        let by_scheduler = record.told_by == gpu_failure::SCHEDULER;
        engine.count(EventType::GpuFailure);
        if !by_scheduler && self.failures.is_followed_by(record) {
            return Ok(());
        }
        let fence = Fence { context: record.context, sequence: record.sequence };
        if record.error == 0 {
            self.ends_without_fence(fence, record.fence);
            return Ok(());
        }
        let field = error_field(engine, record.error);
        let own = own.filter(|_| !by_scheduler);
        if let Some(detail) = own.and_then(|key| self.open.detail(key)) {
            // The scheduler ends the job, or tries it again.
            detail.set(field);
            return Ok(());
        }
        let families: &[JobFamily] = if by_scheduler {
            &[JobFamily::Scheduler]
        } else {
            &[JobFamily::Fence, JobFamily::Scheduler, JobFamily::I915]
        };
        let keys =
            families.iter().flat_map(|family| JobKey::of_family(*family, fence, record.fence));
        let (mut shown, mut ended) = (false, false);
        for key in keys {
            if self.open.detail(key).is_some() {
                shown = true;
                self.failures.decided(fence);
                self.fail(engine, key, field.clone())?;
            }
            ended |= self.open.has_ended(key);
        }
        if by_scheduler || !(shown || ended) {
            self.failures.remember(Failure::new(record, shown));
        } else if !shown {
            // Its end was told first, and it was well.
            self.failures.unshown += 1;
        }
        Ok(())
    }

    fn ends_without_fence(&mut self, fence: Fence, address: u64) {
        let keys = JobKey::of_family(JobFamily::Scheduler, fence, address);
        if let Some(key) = keys.into_iter().find(|key| self.open.detail(*key).is_some()) {
            self.failures.decide_later(fence, key);
        }
    }

    fn fail(&mut self, engine: &mut Engine<'_>, key: JobKey, error: Field) -> Result<(), Stopped> {
        let Some(mut job) = self.open.end(key) else { return Ok(()) };
        job.detail.set(error);
        if key.family == JobFamily::Scheduler && job.started.is_none() {
            // The GPU never had it: being with the scheduler is nothing more.
            job.queued = None;
        }
        self.queues.emit(engine, job, GpuJobEnd::Failed)
    }

    /// The recording is over: what is open ends with it.
    pub(super) fn close(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        self.failures.close();
        let open = self.open.finish().into_iter();
        open.map(|(_, job)| job)
            .try_for_each(|job| self.queues.emit(engine, job, GpuJobEnd::Unfinished))
    }
}
