//! Which job of a driver ran a zone that a program marked.
//!
//! Nobody tells it, so it follows from times alone, and only where nothing else can be. All is
//! decided when a recording is over:
//!
//! - A job is *possible* for a zone if a thread of the zone's process submitted it after the zone's
//!   submission had begun and before the GPU began with the zone, and if the GPU had the job
//!   meanwhile. Of what is not known of a job (who submitted it, when) the possible is taken.
//! - A context of a program belongs to the one ring on which each of its zones begins and ends in a
//!   possible job. One zone that does not, or another ring of which the same is true, and none of
//!   its zones has a job.
//! - A zone then lies in the only job that is possible. Of several it is that in whose run it lies,
//!   as rings do one job after the other; not at its end, for a driver hears of that late.
//! - All is meant within the error of the zone's clock, and a zone must lie in the run as it is
//!   shown. What lies in a zone that has a job lies in that job.
//! - A job in which zones of two contexts would lie has none.

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{
    GpuJob, GpuJobEnd, GpuZone, ProcessId, Scope, StringId, Tables, ThreadId, Time, TrackId,
};

/// Zones and jobs that are held; with more, nothing is matched.
const MOST_ZONES: usize = 1 << 18;
const MOST_JOBS: usize = 1 << 20;
/// How many jobs a context has to have: with fewer, times may agree by chance.
const LEAST_JOBS: usize = 3;
/// Later than that no driver hears of the end of a job, nanoseconds.
const LATEST_END: u64 = 1_000_000;
/// The end of jobs of which none was told.
const NEVER: u64 = u64::MAX;
/// Jobs that are looked at for one zone: more at a time are too many to tell them apart.
const MOST_POSSIBLE: usize = 64;

/// A job that ran on a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobRun {
    /// Where it is shown.
    pub(crate) track: TrackId,
    /// Who submitted it.
    pub(crate) thread: Option<ThreadId>,
    process: Option<ProcessId>,
    submitted: Option<u64>,
    /// The GPU had it from here on.
    given: Option<u64>,
    /// From when on it is shown, until its end, if that was told.
    shown: Option<u64>,
    /// When its run began, if that was told.
    began: Option<u64>,
    ended: u64,
}

/// A zone by its times.
#[derive(Clone, Copy, Debug)]
struct ZoneTimes {
    process: ProcessId,
    submitted: u64,
    span: [u64; 2],
    error: u64,
    /// It lies in other zones of its context, or apart from them: what only overlaps them has no
    /// place in a job.
    is_nested: bool,
}

impl ZoneTimes {
    /// Its beginning, or its end.
    fn point(self, end: usize) -> Self {
        Self { span: [self.span[end]; 2], ..self }
    }

    fn surrounds(&self, other: &Self) -> bool {
        self.span[0] <= other.span[0] && other.span[1] <= self.span[1]
    }
}

impl JobRun {
    /// Jobs of a track do not overlap.
    fn key(&self) -> (TrackId, u64) {
        (self.track, self.ended)
    }

    fn is_possible(&self, zone: &ZoneTimes) -> bool {
        let begins = zone.span[0].saturating_add(zone.error);
        self.process.is_none_or(|process| process == zone.process)
            && self.submitted.is_none_or(|at| zone.submitted <= at && at <= begins)
            && self.given.is_none_or(|at| at <= begins)
            && zone.span[1] <= self.ended.saturating_add(zone.error)
    }

    /// Whether all is known, and the zone lies in its run as that is shown.
    fn shows(&self, zone: &ZoneTimes) -> bool {
        let is_known = self.process.is_some() && self.submitted.is_some();
        let [began, ended] = zone.span;
        let is_within = self.shown.is_some_and(|shown| shown.saturating_add(zone.error) <= began);
        is_known && is_within && ended.saturating_add(zone.error) <= self.ended
    }

    /// Whether the ring did this job before or behind another one in whose run the zone lies.
    fn is_apart(&self, other: &Self, zone: &ZoneTimes) -> bool {
        let (Some(own), Some(of_other)) = (self.began, other.began) else { return false };
        let is_early = || {
            let late = zone.span[0].saturating_add(zone.error).saturating_add(LATEST_END);
            late <= other.ended
        };
        self.ended <= of_other || (other.ended <= own && is_early())
    }
}

/// The jobs of a ring, in order of their ends.
#[derive(Debug, Default)]
struct Ring {
    jobs: Vec<JobRun>,
    /// Of each and all behind it, the earliest time from which the GPU had it.
    earliest: Vec<u64>,
}

/// What may have run a zone.
#[derive(Debug)]
enum Possible<'a> {
    Jobs(Vec<&'a JobRun>),
    TooMany,
}

impl Ring {
    fn sort(&mut self) {
        self.jobs.sort_by_key(|job| job.ended);
        let mut last = 0;
        for job in &mut self.jobs {
            // It did one job after the other.
            job.given.get_or_insert(last);
            job.began = Some(job.began.unwrap_or(last).max(job.given.unwrap_or_default()));
            if job.ended != NEVER {
                last = job.ended;
            }
        }
        self.earliest = self.jobs.iter().map(|job| job.given.unwrap_or_default()).collect();
        for at in (1..self.earliest.len()).rev() {
            self.earliest[at - 1] = self.earliest[at - 1].min(self.earliest[at]);
        }
    }

    fn possible(&self, zone: &ZoneTimes) -> Possible<'_> {
        let ends = zone.span[1].saturating_sub(zone.error);
        let begins = zone.span[0].saturating_add(zone.error);
        let first = self.jobs.partition_point(|job| job.ended < ends);
        let near = self.jobs[first..].iter().zip(&self.earliest[first..]);
        let mut near = near.take_while(|(_, earliest)| **earliest <= begins);
        let jobs = near.by_ref().take(MOST_POSSIBLE).map(|(job, _)| job);
        let jobs = jobs.filter(|job| job.is_possible(zone)).collect();
        match near.next() {
            None => Possible::Jobs(jobs),
            Some(_) => Possible::TooMany,
        }
    }

    /// Whether a zone can have been done by jobs of this ring.
    fn fits(&self, zone: &ZoneTimes) -> bool {
        [0, 1].into_iter().all(|end| match self.possible(&zone.point(end)) {
            Possible::Jobs(jobs) => !jobs.is_empty(),
            Possible::TooMany => true,
        })
    }

    /// The job that did it, if it can be no other.
    fn job_of(&self, zone: &ZoneTimes) -> Option<JobRun> {
        let Possible::Jobs(possible) = self.possible(zone) else { return None };
        let mut shown = possible.iter().filter(|job| job.shows(zone));
        let (job, None) = (*shown.next()?, shown.next()) else { return None };
        let mut others = possible.iter().filter(|other| !std::ptr::eq(**other, job));
        others.all(|other| other.is_apart(job, zone)).then_some(*job)
    }
}

/// The zones of a context.
#[derive(Debug, Default)]
struct ContextZones {
    /// By their numbers.
    zones: Vec<(usize, ZoneTimes)>,
}

impl ContextZones {
    /// Zones by their numbers, and the jobs that did them.
    fn matched(mut self, rings: &FxHashMap<RingKey, Ring>) -> Vec<(usize, JobRun)> {
        let Some((_, first)) = self.zones.first() else { return Vec::new() };
        let process = first.process;
        let of_process = |ring: &&Ring| ring.jobs.iter().any(|job| job.process == Some(process));
        let fits = |ring: &&Ring| self.zones.iter().all(|(_, zone)| ring.fits(zone));
        let mut fitting = rings.values().filter(of_process).filter(fits);
        let (Some(ring), None) = (fitting.next(), fitting.next()) else { return Vec::new() };
        self.zones.sort_by_key(|(_, zone)| (zone.span[0], std::cmp::Reverse(zone.span[1])));
        let mut jobs = FxHashSet::default();
        let mut around: Vec<(ZoneTimes, JobRun)> = Vec::new();
        let mut own = Vec::new();
        for (number, zone) in &self.zones {
            around.retain(|(outer, _)| outer.span[1] >= zone.span[0]);
            let outer = around.iter().find(|(outer, _)| outer.surrounds(zone));
            let job = outer.map(|(_, job)| *job).or_else(|| ring.job_of(zone));
            let Some(job) = job else { continue };
            if outer.is_none() {
                around.push((*zone, job));
            }
            jobs.insert(job.key());
            if zone.is_nested {
                own.push((*number, job));
            }
        }
        if jobs.len() >= LEAST_JOBS { own } else { Vec::new() }
    }
}

/// What makes tracks one ring.
type RingKey = (Scope, StringId);

/// Jobs and zones of a recording.
#[derive(Debug, Default)]
pub(crate) struct GpuMatches {
    rings: FxHashMap<RingKey, Ring>,
    contexts: FxHashMap<TrackId, ContextZones>,
    jobs: usize,
    zones: usize,
}

impl GpuMatches {
    /// A driver's job.
    pub(crate) fn job(&mut self, ended: Time, track: TrackId, job: &GpuJob, tables: &Tables) {
        self.jobs += 1;
        if self.is_full() {
            return;
        }
        let row = tables.track(track);
        let is_told = matches!(job.end, GpuJobEnd::Finished | GpuJobEnd::Failed);
        let is_over = job.end != GpuJobEnd::Unfinished;
        self.rings.entry((row.scope, row.name)).or_default().jobs.push(JobRun {
            track,
            thread: job.thread,
            process: job.thread.map(|thread| tables.thread(thread).process),
            submitted: job.submitted.map(|time| time.0),
            given: job.queued.or(job.submitted).map(|time| time.0),
            shown: job.began().filter(|_| is_told).map(|began| began.0),
            began: job.started.map(|began| began.0),
            ended: if is_over { ended.0 } else { NEVER },
        });
    }

    /// A zone, which has the next number from 0 on.
    pub(crate) fn zone(&mut self, ended: Time, job: &GpuJob, zone: &GpuZone, tables: &Tables) {
        let number = self.zones;
        self.zones += 1;
        let times = (job.thread, job.submitted, job.started);
        let (Some(thread), Some(submitted), Some(began)) = times else { return };
        if job.end != GpuJobEnd::Finished || self.is_full() {
            return;
        }
        let times = ZoneTimes {
            process: tables.thread(thread).process,
            submitted: submitted.0,
            span: [began.0, job.ended(ended).0],
            error: zone.clock_error,
            is_nested: zone.row == zone.depth,
        };
        self.contexts.entry(zone.queue).or_default().zones.push((number, times));
    }

    /// Whether there are more than can be matched.
    pub(crate) fn is_full(&self) -> bool {
        self.zones > MOST_ZONES || self.jobs > MOST_JOBS
    }

    /// Of each zone by its number, the job that did it.
    pub(crate) fn finish(mut self) -> Vec<Option<JobRun>> {
        let mut found = vec![None; self.zones];
        if self.is_full() {
            return found;
        }
        self.rings.values_mut().for_each(Ring::sort);
        let contexts = self.contexts.into_values();
        let contexts: Vec<_> = contexts.map(|context| context.matched(&self.rings)).collect();
        // A job is of one context: which of them it is remains open where it would be of several.
        let mut context_of_job = FxHashMap::default();
        let mut contested = FxHashSet::default();
        for (context, zones) in contexts.iter().enumerate() {
            for (_, job) in zones {
                if *context_of_job.entry(job.key()).or_insert(context) != context {
                    contested.insert(job.key());
                }
            }
        }
        for (number, job) in contexts.into_iter().flatten() {
            found[number] = Some(job).filter(|job| !contested.contains(&job.key()));
        }
        found
    }
}

#[cfg(test)]
mod tests;
