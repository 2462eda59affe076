//! Work that failed: errors of fences, which come just before the ends that they belong to.

use std::collections::VecDeque;

use syscollect_model::{Fence, Field, FieldRole, Value};
use syscollect_records::GpuFailureRecord;

use super::fences::are_same;
use super::gpu_jobs::{JobFamily, JobKey};
use crate::engine::Engine;

/// Failures that are remembered: what belongs to them follows at once.
const REMEMBERED: usize = 64;

/// A failure that something more is to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    address: u64,
    fence: Fence,
    error: i32,
    /// A job shows it.
    shown: bool,
}

impl Failure {
    pub(super) fn new(record: &GpuFailureRecord, shown: bool) -> Self {
        let GpuFailureRecord { fence: address, context, sequence, error, .. } = *record;
        Self { address, fence: Fence { context, sequence }, error, shown }
    }

    fn is_of(&self, key: JobKey) -> bool {
        let [context, sequence] = key.numbers;
        match key.family {
            // Tracepoints of fences tell half of the numbers.
            JobFamily::Fence => are_same(self.fence, Fence { context, sequence }),
            family => JobKey::of_family(family, self.fence, self.address).contains(&key),
        }
    }
}

/// Failures of the last moments, without I/O.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    recent: VecDeque<Failure>,
    /// Jobs that the scheduler takes for done, but their own fence tells how they ended.
    undecided: VecDeque<(Fence, JobKey)>,
    /// Those that no job shows.
    pub(crate) unshown: u64,
}

impl Failures {
    pub(super) fn remember(&mut self, failure: Failure) {
        self.recent.push_back(failure);
        if self.recent.len() > REMEMBERED {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        self.unshown += u64::from(self.recent.pop_front().is_some_and(|failure| !failure.shown));
    }

    /// The error with which a job ended of which nothing else is known.
    pub(super) fn of_end(&mut self, key: JobKey) -> Option<i32> {
        let place = self.recent.iter().position(|failure| !failure.shown && failure.is_of(key))?;
        if key.family == JobFamily::Fence {
            return self.recent.remove(place).map(|failure| failure.error);
        }
        // The scheduler's own fence follows.
        let failure = self.recent.get_mut(place)?;
        failure.shown = true;
        Some(failure.error)
    }

    /// The scheduler's own fence is signaled after its job's end; whether that was told.
    pub(super) fn is_followed_by(&mut self, record: &GpuFailureRecord) -> bool {
        let Some(place) = self.recent.iter().position(|failure| {
            [failure.fence.context, failure.fence.sequence] == [record.context, record.sequence]
        }) else {
            return false;
        };
        let known = self.recent.remove(place);
        self.unshown += u64::from(known.is_some_and(|failure| !failure.shown));
        true
    }

    /// Fences that stand for others fail with them.
    pub(super) fn is_nobodys(&mut self, key: JobKey) {
        self.recent.retain(|failure| !failure.is_of(key));
    }

    pub(super) fn decide_later(&mut self, fence: Fence, key: JobKey) {
        self.undecided.push_back((fence, key));
        if self.undecided.len() > REMEMBERED {
            self.undecided.pop_front();
        }
    }

    /// Whether how this job ended is told later.
    pub(super) fn is_undecided(&self, key: JobKey) -> bool {
        self.undecided.iter().any(|(_, undecided)| *undecided == key)
    }

    /// The job that ended with this fence and was not decided.
    pub(super) fn decided(&mut self, fence: Fence) -> Option<JobKey> {
        let place = self.undecided.iter().position(|(undecided, _)| are_same(*undecided, fence))?;
        self.undecided.remove(place).map(|(_, key)| key)
    }

    /// The recording is over.
    pub(super) fn close(&mut self) {
        while !self.recent.is_empty() {
            self.forget_oldest();
        }
    }
}

/// What a job says that failed.
pub(super) fn error_field(engine: &mut Engine<'_>, error: i32) -> Field {
    let name = engine.tables.strings.intern("error");
    Field::new(FieldRole::JobError, name, Value::Text(error_text(error).into()))
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
    use syscollect_records::gpu_failure;

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

    fn key(family: JobFamily, context: u64, sequence: u64) -> JobKey {
        JobKey { family, numbers: [context, sequence] }
    }

    #[test]
    fn errors_have_the_names_that_the_kernel_gives_them() {
        assert_eq!(error_text(-62), "ETIME (-62)");
        assert_eq!(error_text(-512), "error (-512)");
    }

    #[test]
    fn a_failure_is_found_by_each_name_of_its_job_and_once() {
        for known_as in [
            key(JobFamily::Scheduler, 1 << 40 | 7, 9),
            key(JobFamily::Scheduler, 0xffff_0009, 0),
            key(JobFamily::Fence, 7, 9),
        ] {
            let mut failures = Failures::default();
            failures
                .remember(Failure::new(&failure(1 << 40 | 7, 9, gpu_failure::SCHEDULER), false));
            assert_eq!(failures.of_end(key(JobFamily::Scheduler, 7, 8)), None);
            assert_eq!([known_as; 2].map(|job| failures.of_end(job)), [Some(-62), None]);
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
                        let job = key(JobFamily::Fence, 5, sequence);
                        shown += u64::from(failures.of_end(job).is_some());
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
