//! Zones of GPUs that a viewer was told, beside those of the same recorder's snapshot.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use syscollect_model::{GpuJob, GpuJobEnd, Tables, Time};
use syscollect_tests::tracy_viewer::{ReceivedGpuJob, ReceivedTimeline};

/// A viewer may miss what was submitted so shortly after it came, nanoseconds.
const UNTIL_WATCHED: i64 = 200_000_000;
/// How far times may lie apart: a file knows of later readings of the clocks, nanoseconds.
const LONGEST_APART: i64 = 100_000;

/// A zone but for the GPU's times. No two of a thread begin at the same time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SubmittedZone {
    submitted: i64,
    submission_ended: i64,
    thread: u32,
    queue: String,
    name: String,
}

/// How many zones were the same, and how many lie in others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ComparedGpuZones {
    pub(super) zones: usize,
    pub(super) inside: usize,
}

/// Zones by what was submitted, with when the GPU did them.
#[derive(Debug, Default)]
pub(super) struct GpuZones {
    zones: BTreeMap<SubmittedZone, [i64; 2]>,
    /// The same of jobs that the kernel tells of: no program says anything of them.
    jobs: BTreeSet<[i64; 2]>,
}

impl GpuZones {
    /// A job of a file.
    pub(super) fn add(&mut self, time: Time, job: &GpuJob, tables: &Tables) {
        let times = [job.began().unwrap_or(time), job.ended(time)].map(|time| time.0 as i64);
        let (Some(zone), Some(thread), Some(submitted)) = (job.zone, job.thread, job.submitted)
        else {
            self.jobs.insert(times);
            return;
        };
        let name = tables.strings.get(job.name).to_owned();
        let is_untimed = job.end == GpuJobEnd::Untimed;
        let zone = SubmittedZone {
            submitted: submitted.0 as i64,
            submission_ended: zone.submission_ended.unwrap_or(submitted).0 as i64,
            thread: tables.thread(thread).tid,
            queue: tables.strings.get(tables.track(zone.queue).name).to_owned(),
            name: if is_untimed { name + " [without times]" } else { name },
        };
        self.zones.insert(zone, times);
    }

    /// What a viewer that joined then saw is what is here; how many zones.
    pub(super) fn compare(&self, seen: &ReceivedTimeline, joined: i64) -> Result<ComparedGpuZones> {
        let told: Vec<_> = seen.jobs.iter().map(|job| (told_zone(job, seen), job)).collect();
        // Zones are told in the order of their ends, by queue. Times of one of them never come.
        let mut last = BTreeMap::<&str, i64>::new();
        for (zone, job) in &told {
            let last = last.entry(&zone.queue).or_default();
            *last = job.gpu[1].max(*last);
        }
        let mut compared = 0;
        for (zone, job) in &told {
            let in_file = self.zones.get(zone);
            let Some(times) = in_file else {
                if self.jobs.contains(&job.gpu) {
                    continue;
                }
                ensure!(is_lost(zone), "{zone:?} was told and is not in the snapshot");
                continue;
            };
            let apart = times.iter().zip(job.gpu).map(|(file, told)| (file - told).abs()).max();
            // One without times lies where there is room for it.
            let is_same = zone.name.ends_with("[without times]") || apart <= Some(LONGEST_APART);
            ensure!(is_same, "{zone:?} was told as of {:?}, in the snapshot {times:?}", job.gpu);
            compared += 1;
        }
        let told: BTreeSet<&SubmittedZone> = told.iter().map(|(zone, _)| zone).collect();
        for (zone, times) in &self.zones {
            let is_watched = zone.submitted > joined + UNTIL_WATCHED;
            let is_told =
                last.get(zone.queue.as_str()).is_some_and(|last| times[1] + LONGEST_APART < *last);
            let is_timed = !zone.name.ends_with("[without times]");
            if is_watched && is_told && is_timed {
                ensure!(told.contains(zone), "{zone:?} was not told");
            }
        }
        let inside = seen.jobs.iter().filter(|job| job.depth > 0).count();
        Ok(ComparedGpuZones { zones: compared, inside })
    }
}

/// Its program says nothing of it, so it is told when that ends.
fn is_lost(zone: &SubmittedZone) -> bool {
    zone.queue == "lost"
}

fn told_zone(job: &ReceivedGpuJob, seen: &ReceivedTimeline) -> SubmittedZone {
    let context = seen.contexts.get(&job.context).map_or("", String::as_str);
    let queue = context.split_once(") ").map_or(context, |(_, queue)| queue);
    SubmittedZone {
        submitted: job.cpu[0],
        submission_ended: job.cpu[1],
        thread: job.thread,
        queue: queue.split(" #").next().unwrap_or_default().to_owned(),
        name: seen.location_name(job.location).to_owned(),
    }
}
