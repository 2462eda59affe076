//! Work that failed: errors of fences, which come just before the ends that they belong to.

use std::collections::VecDeque;

use syscollect_model::{Fence, Field, FieldRole, GpuJobEnd, Value};
use syscollect_records::{GpuFailureRecord, gpu_failure};

use super::decoder::{Family, Gpu, Key};
use super::submissions::replace;
use crate::engine::Engine;
use syscollect_playback::{EventType, Stopped};

/// Failures that are remembered: what belongs to them follows at once.
const REMEMBERED: usize = 64;

/// A failure that something more is to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    address: u64,
    context: u64,
    sequence: u64,
    error: i32,
    /// A job shows it.
    shown: bool,
}

impl Failure {
    fn new(record: &GpuFailureRecord, shown: bool) -> Self {
        let GpuFailureRecord { fence, context, sequence, error, .. } = *record;
        Self { address: fence, context, sequence, error, shown }
    }

    fn is_of(&self, (family, first, second): Key) -> bool {
        match family {
            // Tracepoints of fences tell half of the numbers.
            Family::Fence => {
                [self.context as u32, self.sequence as u32] == [first as u32, second as u32]
            }
            _ => keys(family, self.address, self.context, self.sequence)
                .contains(&(family, first, second)),
        }
    }
}

/// Failures of the last moments, without I/O.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    recent: VecDeque<Failure>,
    /// Jobs that the scheduler takes for done, but their own fence tells how they ended.
    undecided: VecDeque<(Fence, Key)>,
    /// Those that no job shows.
    pub(crate) unshown: u64,
}

impl Failures {
    fn remember(&mut self, failure: Failure) {
        self.recent.push_back(failure);
        if self.recent.len() > REMEMBERED {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        self.unshown += u64::from(self.recent.pop_front().is_some_and(|failure| !failure.shown));
    }

    /// The error with which a job ended of which nothing else is known.
    pub(super) fn of_end(&mut self, key: Key) -> Option<i32> {
        let place = self.recent.iter().position(|failure| !failure.shown && failure.is_of(key))?;
        if key.0 == Family::Fence {
            return self.recent.remove(place).map(|failure| failure.error);
        }
        // The scheduler's own fence follows.
        let failure = self.recent.get_mut(place)?;
        failure.shown = true;
        Some(failure.error)
    }

    /// The scheduler's own fence is signaled after its job's end; whether that was told.
    fn is_followed_by(&mut self, record: &GpuFailureRecord) -> bool {
        let Some(place) = self.recent.iter().position(|failure| {
            (failure.context, failure.sequence) == (record.context, record.sequence)
        }) else {
            return false;
        };
        let known = self.recent.remove(place);
        self.unshown += u64::from(known.is_some_and(|failure| !failure.shown));
        true
    }

    /// Fences that stand for others fail with them.
    pub(super) fn is_nobodys(&mut self, key: Key) {
        self.recent.retain(|failure| !failure.is_of(key));
    }

    fn decide_later(&mut self, fence: Fence, key: Key) {
        self.undecided.push_back((fence, key));
        if self.undecided.len() > REMEMBERED {
            self.undecided.pop_front();
        }
    }

    /// Whether how this job ended is told later.
    pub(super) fn is_undecided(&self, key: Key) -> bool {
        self.undecided.iter().any(|(_, undecided)| *undecided == key)
    }

    /// The job that ended with this fence and was not decided.
    pub(super) fn decided(&mut self, fence: Fence) -> Option<Key> {
        let place =
            self.undecided.iter().position(|(undecided, _)| halves(*undecided) == halves(fence))?;
        self.undecided.remove(place).map(|(_, key)| key)
    }

    /// The recording is over.
    pub(super) fn close(&mut self) {
        while !self.recent.is_empty() {
            self.forget_oldest();
        }
    }
}

fn halves(fence: Fence) -> [u32; 2] {
    [fence.context as u32, fence.sequence as u32]
}

/// By what jobs of this family may be known whose fence has this address and these numbers.
fn keys(family: Family, address: u64, context: u64, sequence: u64) -> [Key; 2] {
    match family {
        Family::Fence => {
            [(family, context & 0xffff_ffff, sequence & 0xffff_ffff), (family, context, sequence)]
        }
        // Before 6.16 its jobs are told by the address of their fence.
        Family::Scheduler => [(family, context, sequence), (family, address, 0)],
        Family::I915 | Family::Virtio => [(family, context, sequence); 2],
    }
}

impl Gpu {
    /// Ends the jobs that failed: what ends them otherwise follows, or is lost.
    pub(super) fn failure(
        &mut self,
        engine: &mut Engine<'_>,
        record: &GpuFailureRecord,
    ) -> Result<(), Stopped> {
        engine.count(EventType::GpuFailure);
        let by_scheduler = record.told_by == gpu_failure::SCHEDULER;
        if !by_scheduler && self.failures.is_followed_by(record) {
            return Ok(());
        }
        let fence = Fence { context: record.context, sequence: record.sequence };
        if record.error == 0 {
            self.ends_without_fence(fence, record.fence);
            return Ok(());
        }
        let job = self.submissions.job_of(fence).filter(|_| !by_scheduler);
        let field = self.error_field(engine, record.error);
        if let Some(detail) = job.and_then(|key| self.jobs.detail(key)) {
            // The scheduler ends the job, or tries it again.
            replace(&mut detail.fields, field);
            return Ok(());
        }
        let families: &[Family] = if by_scheduler {
            &[Family::Scheduler]
        } else {
            &[Family::Fence, Family::Scheduler, Family::I915]
        };
        let keys = families
            .iter()
            .flat_map(|family| keys(*family, record.fence, record.context, record.sequence));
        let (mut shown, mut ended) = (false, false);
        for key in keys {
            if self.jobs.detail(key).is_some() {
                shown = true;
                self.failures.decided(fence);
                self.job_fails(engine, key, record.error)?;
            }
            ended |= self.jobs.has_ended(key);
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
        let keys = keys(Family::Scheduler, address, fence.context, fence.sequence);
        if let Some(key) = keys.into_iter().find(|key| self.jobs.detail(*key).is_some()) {
            self.failures.decide_later(fence, key);
        }
    }

    fn job_fails(&mut self, engine: &mut Engine<'_>, key: Key, error: i32) -> Result<(), Stopped> {
        let field = self.error_field(engine, error);
        let Some(mut job) = self.jobs.end(key) else { return Ok(()) };
        replace(&mut job.detail.fields, field);
        if key.0 == Family::Scheduler && job.started.is_none() {
            // The GPU never had it: being with the scheduler is nothing more.
            job.queued = None;
        }
        self.job(engine, job, GpuJobEnd::Failed)
    }

    pub(super) fn error_field(&mut self, engine: &mut Engine<'_>, error: i32) -> Field {
        let name = engine.tables.strings.intern("error");
        Field::new(FieldRole::JobError, name, Value::Text(error_text(error).into()))
    }

    /// How a job ended that the scheduler takes for done.
    pub(super) fn end_of_job(&mut self, key: Key) -> GpuJobEnd {
        let failed = self
            .jobs
            .detail(key)
            .is_some_and(|job| job.fields.iter().any(|field| field.role == FieldRole::JobError));
        if failed { GpuJobEnd::Failed } else { GpuJobEnd::Finished }
    }
}

/// The kernel's name of an error and its number; those with which drivers end work.
fn error_text(error: i32) -> String {
    let name = match error {
        -1 => "EPERM",
        -2 => "ENOENT",
        -3 => "ESRCH",
        -4 => "EINTR",
        -5 => "EIO",
        -11 => "EAGAIN",
        -12 => "ENOMEM",
        -14 => "EFAULT",
        -16 => "EBUSY",
        -19 => "ENODEV",
        -22 => "EINVAL",
        -28 => "ENOSPC",
        -35 => "EDEADLK",
        -61 => "ENODATA",
        -62 => "ETIME",
        -71 => "EPROTO",
        -95 => "EOPNOTSUPP",
        -110 => "ETIMEDOUT",
        -121 => "EREMOTEIO",
        -125 => "ECANCELED",
        -133 => "EHWPOISON",
        _ => "error",
    };
    format!("{name} ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn failure(context: u64, sequence: u64, told_by: u16) -> GpuFailureRecord {
        GpuFailureRecord {
            fence: 0xffff_0000 + sequence,
            context,
            sequence,
            error: -62,
            told_by,
            ..Default::default()
        }
    }

    #[test]
    fn errors_have_the_names_that_the_kernel_gives_them() {
        assert_eq!(error_text(-62), "ETIME (-62)");
        assert_eq!(error_text(-512), "error (-512)");
    }

    #[test]
    fn a_failure_is_found_by_each_name_of_its_job_and_once() {
        for key in [
            (Family::Scheduler, 1 << 40 | 7, 9),
            (Family::Scheduler, 0xffff_0009, 0),
            (Family::Fence, 7, 9),
        ] {
            let mut failures = Failures::default();
            failures
                .remember(Failure::new(&failure(1 << 40 | 7, 9, gpu_failure::SCHEDULER), false));
            assert_eq!(failures.of_end((Family::Scheduler, 7, 8)), None);
            assert_eq!((failures.of_end(key), failures.of_end(key)), (Some(-62), None));
            failures.close();
            assert_eq!(failures.unshown, 0);
        }
    }

    proptest! {
        #[test]
        fn each_failure_is_shown_or_counted_and_memory_is_bounded(
            steps in prop::collection::vec((0u64..20, 0u8..4), 0..400),
        ) {
            let mut failures = Failures::default();
            let (mut reported, mut shown) = (0, 0);
            for (sequence, step) in steps {
                let record = failure(5, sequence, gpu_failure::FENCE);
                match step {
                    0 | 1 => {
                        failures.remember(Failure::new(&record, step == 0));
                        (reported, shown) = (reported + 1, shown + u64::from(step == 0));
                    }
                    2 => {
                        shown += u64::from(failures.of_end((Family::Fence, 5, sequence)).is_some());
                    }
                    _ => drop(failures.is_followed_by(&record)),
                }
                prop_assert!(failures.recent.len() <= REMEMBERED);
            }
            failures.close();
            prop_assert_eq!(reported, shown + failures.unshown);
        }
    }
}
