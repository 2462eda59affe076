//! Jobs from what is told of their stages, without I/O and without knowledge of
//! drivers.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// Jobs that may be open at once. More are only made by damage, or by a driver
/// that never ends what it begins.
const MOST_OPEN: usize = 1 << 16;
/// Ends are remembered for so many jobs, to tell a stage that comes late from one of a new job.
const REMEMBERED: usize = 1024;

/// A job whose end has not been told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenJob<D, T> {
    /// What is known of it beside its times.
    pub(super) detail: D,
    pub(super) submitted: Option<T>,
    pub(super) queued: Option<T>,
    pub(super) started: Option<T>,
}

/// What a stage says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A thread made it: an older job of the same key never ended.
    Submitted,
    /// It is with the scheduler or the driver.
    Queued,
    /// The GPU has it.
    Started,
}

/// What a stage led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StageOutcome<D, T> {
    /// The job is known now, or was.
    Noted,
    /// This older one never ended: its key is used again.
    Replaced(OpenJob<D, T>),
    /// The job has ended before; or too many are open.
    Ignored,
}

/// Jobs by key, from their first stage to their end.
#[derive(Debug)]
pub(super) struct Jobs<K, D, T> {
    open: FxHashMap<K, OpenJob<D, T>>,
    /// Keys whose end came, the oldest first.
    ended: VecDeque<K>,
    /// How often a key is in `ended`.
    counts: FxHashMap<K, u32>,
    /// Stages that came after the end, or found no room.
    pub(super) ignored: u64,
}

impl<K, D, T> Default for Jobs<K, D, T> {
    fn default() -> Self {
        Self {
            open: FxHashMap::default(),
            ended: VecDeque::new(),
            counts: FxHashMap::default(),
            ignored: 0,
        }
    }
}

impl<K: Copy + Eq + Hash + Ord, D, T: Copy> Jobs<K, D, T> {
    /// A stage of a job; `detail` is asked for where it was not known.
    pub(super) fn stage(
        &mut self,
        key: K,
        stage: Stage,
        now: T,
        detail: impl FnOnce() -> D,
    ) -> StageOutcome<D, T> {
        let renewed = stage == Stage::Submitted;
        // CPUs' clocks differ a little, so a later stage may be told first: then it is the same
        // job.
        let replaced = if self.open.get(&key).is_some_and(|job| renewed && job.submitted.is_some())
        {
            self.open.remove(&key)
        } else {
            None
        };
        if let Some(job) = self.open.get_mut(&key) {
            if renewed {
                // Who hands a job over knows most of it.
                job.detail = detail();
            }
        } else {
            if (!renewed && self.counts.contains_key(&key)) || self.open.len() >= MOST_OPEN {
                self.ignored += 1;
                return StageOutcome::Ignored;
            }
            self.open.insert(
                key,
                OpenJob { detail: detail(), submitted: None, queued: None, started: None },
            );
        }
        if let Some(job) = self.open.get_mut(&key) {
            let time = match stage {
                Stage::Submitted => &mut job.submitted,
                Stage::Queued => &mut job.queued,
                Stage::Started => &mut job.started,
            };
            // A stage that is told twice was reached the first time.
            time.get_or_insert(now);
        }
        replaced.map_or(StageOutcome::Noted, StageOutcome::Replaced)
    }

    /// What is known of an open job.
    pub(super) fn detail(&mut self, key: K) -> Option<&mut D> {
        self.open.get_mut(&key).map(|job| &mut job.detail)
    }

    /// A job's end; `None` where nothing of it was told before.
    pub(super) fn end(&mut self, key: K) -> Option<OpenJob<D, T>> {
        let job = self.open.remove(&key);
        self.remember(key);
        job
    }

    /// It turns out to be no job of its own.
    pub(super) fn forget(&mut self, key: K) {
        self.open.remove(&key);
    }

    fn remember(&mut self, key: K) {
        self.ended.push_back(key);
        *self.counts.entry(key).or_default() += 1;
        if self.ended.len() <= REMEMBERED {
            return;
        }
        let Some(oldest) = self.ended.pop_front() else { return };
        if let Some(count) = self.counts.get_mut(&oldest) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
    }

    /// Whether its end was told not long ago.
    pub(super) fn has_ended(&self, key: K) -> bool {
        self.counts.contains_key(&key)
    }

    /// Those that never ended, in order of their keys.
    pub(super) fn finish(&mut self) -> Vec<(K, OpenJob<D, T>)> {
        let mut rest: Vec<_> = self.open.drain().collect();
        rest.sort_by_key(|(key, _)| *key);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_job_ends_with_all_its_stages() {
        let mut jobs = Jobs::<u32, &str, u32>::default();
        assert_eq!(jobs.stage(1, Stage::Submitted, 10, || "draw"), StageOutcome::Noted);
        jobs.stage(1, Stage::Queued, 20, || "not asked for");
        jobs.stage(1, Stage::Started, 30, || "not asked for");
        jobs.stage(1, Stage::Started, 40, || "told twice");
        let job = jobs.end(1).unwrap();
        assert_eq!(
            (job.detail, job.submitted, job.queued, job.started),
            ("draw", Some(10), Some(20), Some(30))
        );
    }

    #[test]
    fn a_key_that_is_used_again_gives_back_the_job_that_never_ended() {
        let mut jobs = Jobs::<u32, &str, u32>::default();
        jobs.stage(1, Stage::Submitted, 10, || "old");
        let reported = jobs.stage(1, Stage::Submitted, 20, || "new");
        assert!(matches!(reported, StageOutcome::Replaced(job) if job.detail == "old"));
        assert_eq!(jobs.end(1).unwrap().detail, "new");
    }

    #[test]
    fn a_job_that_starts_before_it_is_handed_over_is_one_job() {
        let mut jobs = Jobs::<u32, &str, u32>::default();
        jobs.stage(1, Stage::Started, 19, || "a worker");
        assert_eq!(jobs.stage(1, Stage::Submitted, 20, || "a program"), StageOutcome::Noted);
        let job = jobs.end(1).unwrap();
        assert_eq!((job.detail, job.submitted, job.started), ("a program", Some(20), Some(19)));
    }

    #[test]
    fn a_stage_after_the_end_begins_nothing() {
        let mut jobs = Jobs::<u32, &str, u32>::default();
        assert_eq!(jobs.end(1), None, "nothing was told of it");
        assert_eq!(jobs.stage(1, Stage::Queued, 10, || "late"), StageOutcome::Ignored);
        assert_eq!((jobs.ignored, jobs.has_ended(1)), (1, true));
        assert_eq!(jobs.stage(1, Stage::Submitted, 20, || "a new one"), StageOutcome::Noted);
        assert_eq!(jobs.finish().len(), 1);
    }

    proptest! {
        #[test]
        fn every_job_comes_out_once_and_memory_is_bounded(
            steps in prop::collection::vec((0u16..2000, 0u8..4), 0..5000),
        ) {
            let mut jobs = Jobs::<u16, (), u32>::default();
            let (mut begun, mut done) = (0, 0);
            for (now, (key, step)) in (0u32..).zip(steps) {
                let stage = [Stage::Submitted, Stage::Queued, Stage::Started]
                    .get(usize::from(step))
                    .copied();
                match stage {
                    Some(stage) => {
                        let is_open = jobs.open.contains_key(&key);
                        match jobs.stage(key, stage, now, || ()) {
                            StageOutcome::Replaced(_) => (begun, done) = (begun + 1, done + 1),
                            StageOutcome::Noted => begun += usize::from(!is_open),
                            StageOutcome::Ignored => {}
                        }
                    }
                    None => done += usize::from(jobs.end(key).is_some()),
                }
                prop_assert!(jobs.ended.len() <= REMEMBERED && jobs.counts.len() <= REMEMBERED);
            }
            prop_assert_eq!(begun, done + jobs.finish().len());
        }
    }
}
