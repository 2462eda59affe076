use super::*;
use proptest::prelude::*;
use syscollect_model::{MachineId, Process, Thread, Track, TrackKind};

/// Two processes with a thread each, a ring of the machine, and a context of each process.
struct Made {
    tables: Tables,
    threads: [ThreadId; 2],
    ring: TrackId,
    other_ring: TrackId,
    contexts: [TrackId; 3],
    name: StringId,
}

impl Made {
    fn new() -> Self {
        let mut tables = Tables::default();
        let name = tables.strings.intern("made");
        let pids = [10, 20];
        let [first, second] = pids.map(|pid| {
            let process = ProcessId(tables.processes.len() as u32);
            tables.processes.push(Process {
                machine: MachineId::FIRST,
                pid,
                parent_pid: None,
                name,
                command_line: Vec::new(),
                start: None,
                end: None,
                kernel: false,
            });
            tables.threads.push(Thread { tid: pid, process, name, start: None, end: None });
            (process, ThreadId(tables.threads.len() as u32 - 1))
        });
        let mut queue = |scope, text: &str| {
            let name = tables.strings.intern(text);
            tables.add_track(Track { scope, name, kind: TrackKind::GpuQueue })
        };
        let (ring, other_ring) = (
            queue(Scope::Machine(MachineId::FIRST), "gfx"),
            queue(Scope::Machine(MachineId::FIRST), "comp"),
        );
        let contexts = [(first, "graphics"), (second, "graphics"), (first, "compute")]
            .map(|((process, _), text)| queue(Scope::Process(process), text));
        Self { tables, threads: [first.1, second.1], ring, other_ring, contexts, name }
    }

    fn job(&self, thread: usize, [submitted, started]: [u64; 2]) -> GpuJob {
        GpuJob {
            thread: Some(self.threads[thread]),
            submitted: Some(Time(submitted)),
            queued: Some(Time(submitted)),
            started: Some(Time(started)),
            ..GpuJob::named(self.name)
        }
    }

    fn zone(&self, context: usize, [submitted, began]: [u64; 2], error: u64) -> GpuJob {
        let zone = GpuZone {
            queue: self.contexts[context],
            depth: 0,
            row: 0,
            number: None,
            location: None,
            color: None,
            stack: None,
            clock_error: error,
            submission_ended: None,
            ended: None,
        };
        let thread = if context == 1 { 1 } else { 0 };
        GpuJob { zone: Some(zone), ..self.job(thread, [submitted, began]) }
    }
}

/// Times of a job or a zone: submitted, began, ended.
type Times = [u64; 3];

/// In milliseconds: one job of 10 ms after the other, each with a zone in its middle.
fn frames(first: u64) -> (Vec<Times>, Vec<Times>) {
    let frames = (first..first + 6).map(|at| at * 20);
    let jobs = frames.clone().map(|at| [at + 2, at + 3, at + 13]);
    let zones = frames.map(|at| [at + 1, at + 4, at + 12]);
    let in_ns = |times: Times| times.map(|time| time * 1_000_000);
    (jobs.map(in_ns).collect(), zones.map(in_ns).collect())
}

/// In which job, by its end, each zone lies.
fn matched(
    made: &Made,
    jobs: &[(TrackId, GpuJob, u64)],
    zones: &[(GpuJob, u64)],
) -> Vec<Option<u64>> {
    let mut matches = GpuMatches::default();
    for (track, job, ended) in jobs {
        matches.job(Time(*ended), *track, job, &made.tables);
    }
    for (job, ended) in zones {
        matches.zone(Time(*ended), job, &job.zone.unwrap(), &made.tables);
    }
    matches.finish().into_iter().map(|job| job.map(|job| job.ended)).collect()
}

fn of_ring(made: &Made, thread: usize, jobs: &[Times]) -> Vec<(TrackId, GpuJob, u64)> {
    jobs.iter().map(|[a, b, end]| (made.ring, made.job(thread, [*a, *b]), *end)).collect()
}

fn of_context(made: &Made, context: usize, zones: &[Times]) -> Vec<(GpuJob, u64)> {
    zones.iter().map(|[a, b, end]| (made.zone(context, [*a, *b], 0), *end)).collect()
}

#[test]
fn a_zone_lies_in_the_only_job_that_can_have_run_it() {
    let made = Made::new();
    let (jobs, zones) = frames(1);
    let found = matched(&made, &of_ring(&made, 0, &jobs), &of_context(&made, 0, &zones));
    assert_eq!(found, jobs.iter().map(|job| Some(job[2])).collect::<Vec<_>>());
}

#[test]
fn jobs_of_another_process_have_none_of_its_zones() {
    let made = Made::new();
    let (jobs, zones) = frames(1);
    let found = matched(&made, &of_ring(&made, 1, &jobs), &of_context(&made, 0, &zones));
    assert_eq!(found, [None; 6]);
}

#[test]
fn a_context_of_which_one_zone_has_no_job_is_on_another_ring() {
    let made = Made::new();
    let (jobs, mut zones) = frames(1);
    zones.push([25_100_000, 35_000_000, 35_100_000]);
    let found = matched(&made, &of_ring(&made, 0, &jobs), &of_context(&made, 0, &zones));
    assert_eq!(found, [None; 7], "the ring was idle at 35 ms");
}

#[test]
fn of_two_rings_that_ran_jobs_at_the_same_times_neither_is_taken() {
    let made = Made::new();
    let (jobs, zones) = frames(1);
    let mut of_both = of_ring(&made, 0, &jobs);
    let twice = of_both.clone().into_iter().map(|(_, job, end)| (made.other_ring, job, end));
    of_both.extend(twice);
    assert_eq!(matched(&made, &of_both, &of_context(&made, 0, &zones)), [None; 6]);
}

#[test]
fn a_job_in_which_zones_of_two_contexts_would_lie_has_none() {
    let made = Made::new();
    let (jobs, zones) = frames(1);
    let mut of_both = of_context(&made, 0, &zones);
    of_both.extend(of_context(&made, 2, &zones[..4]));
    let mut expected = vec![None; 10];
    expected[4] = Some(jobs[4][2]);
    expected[5] = Some(jobs[5][2]);
    assert_eq!(matched(&made, &of_ring(&made, 0, &jobs), &of_both), expected);
}

#[test]
fn two_jobs_are_too_few() {
    let made = Made::new();
    let (jobs, zones) = frames(1);
    let found = matched(&made, &of_ring(&made, 0, &jobs[..2]), &of_context(&made, 0, &zones[..2]));
    assert_eq!(found, [None; 2]);
}

#[test]
fn a_zone_whose_clock_may_be_wrong_by_more_than_its_job_is_longer_has_none() {
    let made = Made::new();
    let (jobs, zones) = frames(1);
    let with_error = |error| {
        let zones = zones.iter().map(|[a, b, end]| (made.zone(0, [*a, *b], error), *end));
        matched(&made, &of_ring(&made, 0, &jobs), &zones.collect::<Vec<_>>())
    };
    assert_eq!(with_error(1_000_000).iter().flatten().count(), 6);
    assert_eq!(with_error(1_000_001), [None; 6]);
}

#[test]
fn what_was_recorded_early_and_lies_at_the_end_of_a_job_may_be_of_the_next() {
    let made = Made::new();
    // Each is submitted while the one before runs, and all zones were marked before.
    let jobs: Vec<Times> =
        (1..7).map(|at| [at * 10 - 5, at * 10, at * 10 + 10].map(|ms| ms * 1_000_000)).collect();
    let zones: Vec<Times> = (1..7)
        .flat_map(|at| {
            let ms = at * 10;
            [[ms - 9, ms + 2, ms + 8], [ms - 9, ms + 9, ms + 10]]
        })
        .map(|times| times.map(|ms: u64| ms * 1_000_000))
        .map(|[a, b, c]| [a, b + 500_000, c - 400_000])
        .collect();
    let found = matched(&made, &of_ring(&made, 0, &jobs), &of_context(&made, 0, &zones));
    for (at, pair) in found.chunks(2).enumerate() {
        assert_eq!(pair[0], Some(jobs[at][2]), "in the middle of {at}");
        // Behind the last job there is no other.
        let last = at == 5;
        assert_eq!(pair[1].is_some(), last, "half a millisecond before the end of {at}");
    }
}

#[test]
fn a_job_of_which_only_the_end_is_known_makes_doubtful_what_it_can_have_run() {
    let made = Made::new();
    let (jobs, zones) = frames(1);
    let mut of_ring = of_ring(&made, 0, &jobs);
    let lost = GpuJob { end: GpuJobEnd::WithoutBeginning, ..GpuJob::named(made.name) };
    of_ring[2].1 = lost;
    let found = matched(&made, &of_ring, &of_context(&made, 0, &zones));
    let expected: Vec<_> =
        jobs.iter().enumerate().map(|(at, job)| (at != 2).then_some(job[2])).collect();
    assert_eq!(found, expected);
}

#[test]
fn more_than_can_be_held_is_not_matched() {
    let made = Made::new();
    let (jobs, zones) = frames(1);
    let mut matches = GpuMatches::default();
    let zones = of_context(&made, 0, &zones);
    for (track, job, ended) in of_ring(&made, 0, &jobs) {
        matches.job(Time(ended), track, &job, &made.tables);
    }
    for _ in 0..=MOST_ZONES / 6 {
        for (job, ended) in &zones {
            matches.zone(Time(*ended), job, &job.zone.unwrap(), &made.tables);
        }
    }
    assert!(matches.is_full() && matches.finish().iter().all(Option::is_none));
}

/// A job of a ring as it really was, microseconds.
#[derive(Clone, Debug)]
struct TrueJob {
    thread: usize,
    /// After the end of the one before.
    idle: u64,
    /// How long before its begin it was submitted.
    early: u64,
    length: u64,
    /// How much later the driver heard of its end.
    late: u64,
    /// Zones: how long before the job was submitted, and where they lie in it, in percent.
    zones: Vec<(u64, u64, u64)>,
}

fn true_job() -> impl Strategy<Value = TrueJob> {
    let zones = prop::collection::vec((0..30_000_u64, 0..100_u64, 0..100_u64), 0..3);
    (
        0..2_usize,
        prop_oneof![Just(0), 0..2_000_u64],
        0..20_000_u64,
        20..8_000_u64,
        0..900_u64,
        zones,
    )
        .prop_map(|(thread, idle, early, length, late, zones)| TrueJob {
            thread,
            idle,
            early,
            length,
            late,
            zones,
        })
}

proptest! {
    /// Whatever the order of submissions, how long before they are marked, how late ends are heard
    /// of and how wrong the clock is within its error: a zone that has a job was run by it.
    #[test]
    fn no_zone_lies_in_a_job_that_did_not_run_it(
        jobs in prop::collection::vec(true_job(), 1..40),
        error in 0..300_u64,
        shift in -1.0..1.0_f64,
    ) {
        let made = Made::new();
        let mut now = 100_000;
        let (mut of_ring, mut zones, mut truth) = (Vec::new(), Vec::new(), Vec::new());
        let mut heard = 0;
        for job in &jobs {
            let began = now + job.idle;
            let ended = began + job.length;
            let told = (ended + job.late).max(heard + 1);
            let submitted = began - job.early.min(began);
            // As merging does it: not before the one before was heard to end.
            let shown = submitted.max(heard).min(told);
            heard = told;
            let us = 1_000;
            let model = made.job(job.thread, [submitted * us, shown * us]);
            of_ring.push((made.ring, model, told * us));
            for (marked, from, to) in &job.zones {
                let at = |percent: &u64| began + job.length * percent / 100;
                let [from, to] = [from.min(to), from.max(to)].map(at);
                let off = (shift * error as f64 * us as f64) as i64;
                let [from, to] = [from, to].map(|time| (time * us).saturating_add_signed(off));
                let submitted = (submitted - marked.min(&submitted)) * us;
                zones.push((made.zone(job.thread, [submitted, from], error * us), to));
                truth.push(told * us);
            }
            now = ended;
        }
        let found = matched(&made, &of_ring, &zones);
        for (found, truth) in found.into_iter().zip(truth) {
            prop_assert!(found.is_none_or(|found| found == truth), "{found:?} is {truth}");
        }
    }
}
