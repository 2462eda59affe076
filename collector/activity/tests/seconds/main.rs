//! Recordings that go on, chunk by chunk, and what is said of their seconds.

mod functions;
mod model;
mod recorder;
mod shares;

use recorder::{MS, Recorder, SECOND};
use syscollect_activity::{CpuActivity, SpanKind, TaskTimes, Waker, WakerShare, ZoneActivity};
use syscollect_model::{Lane, LaneKind};
use syscollect_records::{RecordKind, SchedRecord, task_state};
use syscollect_store::Producer;
use syscollect_zone_protocol::log::{EntryWords, GpuContext};
use syscollect_zone_protocol::{Event, FramePhase, GpuApi, GpuEvent, GpuZoneNumber};

const SLEEPS: u8 = task_state::INTERRUPTIBLE;
const WAITS_FOR_DISK: u8 = task_state::UNINTERRUPTIBLE;

fn cpu_times(recorder: &Recorder, second: usize, cpu: usize) -> [u64; 3] {
    let CpuActivity { busy, idle, unknown, .. } = recorder.second(second).cpus[cpu];
    [busy / MS, idle / MS, unknown / MS]
}

#[test]
fn a_thread_that_is_woken_waits_runs_and_sleeps() {
    let mut recorder = Recorder::new(1);
    recorder.listed(&[(7, 7, "server", None), (8, 8, "client", None)]);
    recorder.switch(0, 0, 8, 0);
    recorder.wakes(0, 100 * MS, 7);
    recorder.switch(0, 140 * MS, 7, SLEEPS);
    recorder.switch(0, 200 * MS, 0, WAITS_FOR_DISK);
    recorder.interrupt_wakes(0, 500 * MS, 7);
    recorder.switch(0, 500 * MS, 7, 0);
    recorder.switch(0, 600 * MS, 0, SLEEPS);
    recorder.until(SECOND);
    let server = recorder.thread(0, 7);
    let times = TaskTimes {
        running: 160 * MS,
        runnable: 40 * MS,
        interruptible: 400 * MS,
        uninterruptible: 300 * MS,
        ..TaskTimes::default()
    };
    assert_eq!(server.times, times, "from when it was first heard of");
    assert_eq!((server.switches, server.wakeups, server.longest_wait), (2, 2, 40 * MS));
    assert_eq!(server.name.map(|name| name.to_string()).as_deref(), Some("server"));
    let Some(WakerShare { waker: Waker::Thread(8, Some(name)), wakeups: 1 }) = server.waker else {
        panic!("{:?}", server.waker);
    };
    assert_eq!(name.to_string(), "client");
    assert_eq!(cpu_times(&recorder, 0, 0), [300, 700, 0]);
    let second = recorder.second(0);
    assert_eq!((second.switches, second.wakeups, second.latency.count()), (5, 2, 2));
    assert_eq!(second.latency.longest(), 40 * MS);
    assert!(!second.is_incomplete);
}

#[test]
fn what_goes_on_when_a_second_ends_is_split_there() {
    let mut recorder = Recorder::new(2);
    recorder.switch(0, 0, 7, 0);
    recorder.switch(1, 0, 0, 0);
    recorder.wakes(0, 800 * MS, 8);
    recorder.until(1500 * MS);
    // It ran all the time, and nothing had to be told of it.
    recorder.switch(0, 3250 * MS, 8, 0);
    recorder.until(4 * SECOND);
    let split: Vec<[u64; 4]> = (0..4)
        .map(|second| {
            let [first, other] = [7, 8].map(|tid| recorder.thread(second, tid).times);
            [first.running, first.runnable, other.running, other.runnable].map(|t| t / MS)
        })
        .collect();
    assert_eq!(
        split,
        [[1000, 0, 0, 200], [1000, 0, 0, 1000], [1000, 0, 0, 1000], [250, 750, 750, 250]]
    );
    assert_eq!(recorder.thread(3, 8).longest_wait, 2450 * MS, "all of it, where it ends");
    assert_eq!(recorder.second(2).latency.count(), 0);
    assert_eq!([0, 1].map(|cpu| cpu_times(&recorder, 2, cpu)), [[1000, 0, 0], [0, 1000, 0]]);
}

#[test]
fn it_does_not_matter_how_much_comes_at_once() {
    let of = |step: u64| {
        let mut recorder = Recorder::new(2);
        let mut next = step;
        for number in 0..3000 {
            let at = number * MS + 3;
            if at >= next {
                recorder.until(next);
                next += step;
            }
            let cpu = (number % 2) as u16;
            recorder.wakes(cpu, at, 7 + (number % 5) as u32);
            recorder.switch(cpu, at + 100, 7 + (number % 3) as u32 * 2 + u32::from(cpu), SLEEPS);
        }
        recorder.until(3 * SECOND);
        recorder.activity.history().clone()
    };
    let slow = of(3 * SECOND);
    assert_eq!(slow.len(), 3);
    for step in [MS, 100 * MS, 1700 * MS] {
        assert_eq!(of(step), slow, "every {step}");
    }
}

#[test]
fn a_cpu_of_which_nothing_came_is_not_known_until_its_lane_says_who_had_it() {
    let mut recorder = Recorder::new(2);
    recorder.switch(0, 0, 7, 0);
    recorder.until(SECOND);
    assert_eq!([0, 1].map(|cpu| cpu_times(&recorder, 0, cpu)), [[1000, 0, 0], [0, 0, 1000]]);
    recorder.switch(1, 1900 * MS, 8, 0);
    recorder.until(2 * SECOND);
    assert_eq!(cpu_times(&recorder, 1, 1), [100, 0, 900]);
}

#[test]
fn where_records_are_missing_what_they_could_have_changed_is_not_known_and_that_is_said() {
    let mut recorder = Recorder::new(2);
    recorder.switch(0, 0, 7, 0);
    recorder.switch(1, 0, 9, 0);
    recorder.until(SECOND);
    recorder.switch(0, 1100 * MS, 0, SLEEPS);
    recorder.until(1150 * MS);
    // A chunk that is lost: 7 runs again, and 8.
    recorder.switch(0, 1200 * MS, 7, 0);
    recorder.switch(0, 1300 * MS, 8, SLEEPS);
    assert!(recorder.take_chunk(0).is_some());
    recorder.wakes(0, 1400 * MS, 7);
    recorder.switch(0, 1600 * MS, 7, SLEEPS);
    recorder.until(3 * SECOND);
    // The next chunk says that 8 had it at 1400.
    assert_eq!(cpu_times(&recorder, 1, 0), [700, 0, 300]);
    assert_eq!(cpu_times(&recorder, 1, 1), [1000, 0, 0], "the other one's lane is whole");
    assert_eq!([7, 8, 9].map(|tid| recorder.thread(1, tid).times.running / MS), [500, 200, 1000]);
    assert_eq!(recorder.thread(1, 7).times.unknown, 300 * MS, "it may have run, or slept");
    let incomplete = recorder.activity.history().iter().map(|second| second.is_incomplete);
    assert_eq!(incomplete.collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn chunks_that_are_left_out_make_seconds_incomplete_until_the_next_one_comes() {
    let mut recorder = Recorder::new(2);
    recorder.switch(0, 0, 7, 0);
    recorder.switch(1, 0, 9, 0);
    recorder.until(1500 * MS);
    recorder.switch(0, 1600 * MS, 0, SLEEPS);
    assert!(recorder.take_chunk(0).is_some());
    recorder.left_out(Lane::new(LaneKind::Sched, 0), None);
    recorder.until(3500 * MS);
    recorder.switch(0, 3600 * MS, 7, 0);
    recorder.until(5 * SECOND);
    let incomplete: Vec<bool> =
        recorder.activity.history().iter().map(|second| second.is_incomplete).collect();
    // Its last record was at the very beginning.
    assert_eq!(incomplete, [true, true, true, true, false]);
    assert_eq!(cpu_times(&recorder, 2, 0), [0, 0, 1000]);
    assert_eq!(cpu_times(&recorder, 2, 1), [1000, 0, 0], "the other one is known");
    assert_eq!(cpu_times(&recorder, 4, 0), [1000, 0, 0]);
    assert_eq!(recorder.activity.missed_chunks(), 1);
}

#[test]
fn a_resume_record_counts_what_was_lost_before_it() {
    let mut recorder = Recorder::new(1);
    recorder.switch(0, 0, 7, 0);
    recorder.switch(0, 100 * MS, 0, SLEEPS);
    let lost = SchedRecord { tid: 8, state: 5, ..SchedRecord::default() };
    recorder.event(0, 300 * MS, RecordKind::Resume, lost);
    recorder.until(SECOND);
    assert_eq!(cpu_times(&recorder, 0, 0), [800, 0, 200]);
    assert!(recorder.second(0).is_incomplete);
    assert_eq!(recorder.thread(0, 7).times.unknown, 900 * MS, "it may have run meanwhile");
}

#[test]
fn who_begins_and_ends_is_counted_and_a_number_that_is_used_again_is_another_thread() {
    let mut recorder = Recorder::new(1);
    recorder.switch(0, 0, 7, 0);
    for (at, name) in [(100, "first"), (500, "second")] {
        recorder.task(0, at * MS, RecordKind::Fork, (9, 9, name));
        let woken = SchedRecord { tid: 9, ..SchedRecord::default() };
        recorder.event(0, at * MS + 1, RecordKind::WakeupNew, woken);
        recorder.switch(0, (at + 50) * MS, 9, 0);
        recorder.task(0, (at + 150) * MS, RecordKind::Exit, (9, 9, name));
        recorder.switch(0, (at + 150) * MS + 1, 7, task_state::DEAD);
    }
    recorder.until(2 * SECOND);
    let second = recorder.second(0);
    let mut names: Vec<_> = second.threads.iter().filter(|thread| thread.tid == 9).collect();
    names.sort_by_key(|thread| thread.name);
    let told = names.iter().map(|thread| {
        let name = thread.name.map(|name| name.to_string()).unwrap_or_default();
        (name, thread.times.running / MS, thread.has_ended)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [("first".into(), 100, true), ("second".into(), 100, true)]
    );
    assert_eq!((second.new_threads, second.ended_threads), (2, 2));
    assert!(recorder.second(1).threads.iter().all(|thread| thread.tid == 7), "they are gone");
}

#[test]
fn processes_are_the_sums_of_their_threads() {
    let mut recorder = Recorder::new(1);
    let listed = [(7, 7, "server", None), (8, 7, "worker", None), (9, 9, "other", Some('D'))];
    recorder.listed(&listed);
    recorder.listed(&[(10, 10, "asleep", Some('S'))]);
    recorder.switch(0, 0, 7, 0);
    recorder.switch(0, 300 * MS, 8, SLEEPS);
    recorder.switch(0, 900 * MS, 0, SLEEPS);
    recorder.until(SECOND);
    let second = recorder.second(0);
    let process = |pid| *second.processes.iter().find(|of| of.pid == pid).expect("it is there");
    let server = process(7);
    assert_eq!((server.threads, server.times.running / MS, server.switches), (2, 900, 2));
    assert_eq!(server.name.map(|name| name.to_string()).as_deref(), Some("server"));
    assert_eq!(process(9).times.uninterruptible, SECOND, "it waits for a disk since before");
    assert_eq!(second.sleeping, 1, "who sleeps all the time has no row");
}

#[test]
fn of_more_threads_than_are_kept_the_others_are_one_sum() {
    let mut recorder = Recorder::new(1);
    recorder.switch(0, 0, 0, 0);
    for number in 0..3000 {
        recorder.switch(0, number * 300, 100 + number as u32, SLEEPS);
    }
    recorder.until(SECOND);
    let second = recorder.second(0);
    assert_eq!((second.threads.len(), second.other_threads.count), (1024, 1976));
    let rows: u64 = second.threads.iter().map(|thread| thread.times.running).sum();
    assert_eq!(rows + second.other_threads.times.running, second.cpus[0].busy);
    assert_eq!(second.threads[0].tid, 3099, "the largest are kept");
}

#[test]
fn a_storm_of_more_threads_than_are_followed_keeps_the_sums_and_takes_bounded_memory() {
    let mut recorder = Recorder::new(1);
    recorder.switch(0, 0, 0, 0);
    for number in 0..200_000 {
        recorder.switch(0, number * 4, 100 + number as u32, SLEEPS);
        if number % 1000 == 0 {
            recorder.until(number * 4);
        }
    }
    recorder.until(SECOND);
    let second = recorder.second(0);
    let rows: u64 = second.threads.iter().map(|thread| thread.times.running).sum();
    assert_eq!(rows + second.other_threads.times.running, second.cpus[0].busy);
    let CpuActivity { busy, idle, unknown, .. } = second.cpus[0];
    assert_eq!(busy + idle + unknown, SECOND);
}

#[test]
fn a_recording_that_stood_still_for_long_goes_on_from_now() {
    let mut recorder = Recorder::new(1);
    recorder.switch(0, 0, 7, 0);
    recorder.until(SECOND);
    recorder.until(3600 * SECOND);
    recorder.until(3601 * SECOND);
    let seconds = recorder.activity.history();
    assert_eq!(seconds.len(), 3);
    assert!(seconds[1].is_incomplete);
    assert_eq!(seconds[2].start.0, 3600 * SECOND);
    assert_eq!(cpu_times(&recorder, 2, 0), [1000, 0, 0]);
}

fn begins(location: u32) -> Event {
    Event::ZoneBegin { location, depth: 0 }
}

const ENDS: Event = Event::ZoneEnd { depth: 0 };

#[test]
fn zones_and_frames_count_in_the_second_in_which_they_end() {
    let mut recorder = Recorder::new(1);
    recorder.program(1, 70);
    let [request, other, same] = [(0, "request"), (1, "other"), (2, "request")]
        .map(|(number, name)| recorder.place(1, 4096 * number, name));
    let mark = Event::Frame { set: 0, phase: FramePhase::Mark };
    recorder.items(
        1,
        3,
        &[
            (100 * MS, begins(request)),
            (110 * MS, ENDS),
            (200 * MS, begins(same)),
            (230 * MS, ENDS),
            (300 * MS, mark),
            (316 * MS, mark),
            (332 * MS, mark),
            (900 * MS, begins(other)),
            (1100 * MS, ENDS),
        ],
    );
    recorder.until(2 * SECOND);
    let [first, second] = [0, 1].map(|number| recorder.second(number).clone());
    let told = |zone: &ZoneActivity| {
        (zone.kind, zone.pid, zone.name.to_string(), zone.count, zone.total / MS, zone.longest / MS)
    };
    assert_eq!(
        first.zones.iter().map(told).collect::<Vec<_>>(),
        [
            (SpanKind::Zone, 70, "request".into(), 2, 40, 30),
            (SpanKind::Frame, 70, "Frame".into(), 2, 32, 16),
        ]
    );
    assert_eq!(
        second.zones.iter().map(told).collect::<Vec<_>>(),
        [
            (SpanKind::Frame, 70, "Frame".into(), 0, 0, 0),
            (SpanKind::Zone, 70, "other".into(), 1, 200, 200)
        ]
    );
    let open = |zone: &ZoneActivity| (zone.open, zone.open_for / MS);
    assert_eq!(second.zones.iter().map(open).collect::<Vec<_>>(), [(1, 1668), (0, 0)]);
    assert_eq!((first.other_zones, first.zones_incomplete), (0, false));
    assert_eq!(first.zones[0].p50, first.zones[0].p50.clamp(10 * MS, 10 * MS + 10 * MS / 8));
}

#[test]
fn zones_that_come_late_lasted_as_long_as_they_did() {
    let mut recorder = Recorder::new(1);
    recorder.program(1, 70);
    let place = recorder.place(1, 0, "request");
    recorder.until(SECOND);
    recorder.items(1, 3, &[(800 * MS, begins(place)), (830 * MS, ENDS)]);
    recorder.until(2 * SECOND);
    let zones = recorder.second(1).zones.iter().map(|zone| (zone.count, zone.total / MS));
    assert_eq!(zones.collect::<Vec<_>>(), [(1, 30)]);
}

#[test]
fn zones_that_stay_open_are_told_until_they_end_or_their_thread_does() {
    let mut recorder = Recorder::new(1);
    recorder.listed(&[(70, 70, "server", None)]);
    recorder.program(1, 70);
    let [stuck, inner] =
        [(0, "stuck"), (1, "inner")].map(|(number, name)| recorder.place(1, 4096 * number, name));
    let inside = Event::ZoneBegin { location: inner, depth: 1 };
    recorder.items(1, 3, &[(100 * MS, begins(stuck)), (200 * MS, inside)]);
    recorder.items(1, 4, &[(300 * MS, begins(stuck))]);
    recorder.until(2 * SECOND);
    let open = |recorder: &Recorder, second| {
        let zones = recorder.second(second).zones.iter();
        zones.map(|zone| (zone.name.to_string(), zone.open, zone.open_for / MS)).collect::<Vec<_>>()
    };
    assert_eq!(open(&recorder, 0), []);
    let both = [("stuck".to_owned(), 2, 1900), ("inner".to_owned(), 1, 1800)];
    assert_eq!(open(&recorder, 1), both);
    let process = recorder.second(1).zones[0].process.map(|name| name.to_string());
    assert_eq!(process.as_deref(), Some("server"));
    // One ends, and the thread with the other two.
    recorder.items(1, 4, &[(2100 * MS, ENDS)]);
    recorder.task(0, 2200 * MS, RecordKind::Exit, (3, 70, "server"));
    recorder.until(4 * SECOND);
    assert_eq!(open(&recorder, 2), [("stuck".to_owned(), 0, 0)]);
    assert_eq!(open(&recorder, 3), []);
}

#[test]
fn zones_of_no_known_name_and_of_more_places_than_are_kept_are_counted() {
    let mut recorder = Recorder::new(1);
    recorder.program(1, 70);
    let zones: Vec<(u64, Event)> = (0..5000)
        .flat_map(|number| [(number * 10, begins(number as u32)), (number * 10 + 5, ENDS)])
        .collect();
    recorder.items(1, 3, &zones);
    recorder.until(SECOND);
    let second = recorder.second(0);
    assert_eq!((second.zones.len(), second.other_zones), (0, 5000));
}

#[test]
fn frames_that_may_have_ended_in_what_was_left_out_are_not_made_longer() {
    let mut recorder = Recorder::new(1);
    recorder.program(1, 70);
    let mark = Event::Frame { set: 0, phase: FramePhase::Mark };
    recorder.items(1, 3, &[(100 * MS, mark)]);
    recorder.until(200 * MS);
    let producer = Producer { user: 1000, program: 1 };
    recorder.left_out(Lane::new(LaneKind::Zone, 3), Some(producer));
    recorder.items(1, 4, &[(400 * MS, mark), (500 * MS, mark)]);
    recorder.items(1, 4, &[(1300 * MS, mark), (1310 * MS, mark)]);
    recorder.until(2 * SECOND);
    assert!(recorder.second(0).zones.is_empty() && recorder.second(0).zones_incomplete);
    assert_eq!(
        (recorder.second(1).zones[0].count, recorder.second(1).zones[0].total),
        (1, 10 * MS)
    );
}

/// A queue of a GPU whose clock counts 80 ns with 32 bits; its number.
fn queue(recorder: &mut Recorder, position: u32, name: &str) -> u32 {
    let mut entry = EntryWords::new();
    entry.gpu_context(GpuContext {
        api: GpuApi::Vulkan,
        tick_bits: 32,
        tick_femtoseconds: 80_000_000,
        owner: 0,
        serial: 0,
        name: name.as_bytes(),
    });
    recorder.log(1, position, &entry)
}

#[test]
fn zones_of_gpus_count_by_their_queues_once_their_times_are_told() {
    let mut recorder = Recorder::new(1);
    recorder.program(1, 70);
    let draw = recorder.place(1, 0, "draw");
    let [graphics, nameless] = [("graphics", 4096), ("", 8192)]
        .map(|(name, position)| queue(&mut recorder, position, name));
    let zone = |context, number| GpuZoneNumber { context, number };
    let begins = |zone| Event::Gpu(GpuEvent::ZoneBegin { zone, location: draw });
    let submitted = |zone| Event::Gpu(GpuEvent::ZoneEnd { zone });
    // Of so many milliseconds, around where the clock wraps.
    let took = |zone, ms: u32| {
        let began = 0_u32.wrapping_sub(1000);
        let ended = began.wrapping_add(ms * 12_500);
        Event::Gpu(GpuEvent::Times { zone, began: began.into(), ended: ended.into() })
    };
    let [first, second, lost, other] =
        [(graphics, 1), (graphics, 2), (graphics, 3), (nameless, 1)].map(|(c, n)| zone(c, n));
    let items = [
        (100 * MS, begins(first)),
        (101 * MS, submitted(first)),
        (110 * MS, begins(second)),
        (120 * MS, begins(other)),
        (130 * MS, begins(lost)),
        (140 * MS, begins(zone(999, 1))),
    ];
    recorder.items(1, 3, &items);
    // Another thread reads the times.
    recorder.items(1, 4, &[(200 * MS, took(first, 5)), (210 * MS, took(other, 7))]);
    recorder.items(1, 5, &[(220 * MS, took(zone(999, 1), 1)), (230 * MS, took(first, 50))]);
    recorder.items(1, 3, &[(1500 * MS, took(second, 20))]);
    recorder.items(1, 4, &[(2500 * MS, Event::Gpu(GpuEvent::NoTimes { zone: lost }))]);
    recorder.until(4 * SECOND);
    let told = |number| {
        let row = |zone: &ZoneActivity| {
            assert_eq!((zone.kind, &*zone.name), (SpanKind::GpuZone, "draw"));
            let queue = zone.queue.as_deref().unwrap_or_default().to_owned();
            (queue, zone.count, zone.total / MS, zone.open)
        };
        recorder.second(number).zones.iter().map(row).collect::<Vec<_>>()
    };
    let row = |queue: &str, count, total, open| (queue.to_owned(), count, total, open);
    assert_eq!(told(0), [row("Vulkan", 1, 7, 0), row("graphics", 1, 5, 0)]);
    assert_eq!(recorder.second(0).other_zones, 1, "nothing tells of its queue");
    // Who is submitted and has no times stays open, until that is said.
    assert_eq!(told(1), [row("graphics", 1, 20, 1)]);
    assert_eq!(told(2), []);
    assert_eq!(told(3), []);
}
