use super::*;
use syscollect_model::Time;

const LIMIT: u64 = 50;
const CPU: CpuId = CpuId::new(0);
const LOOP: ThreadId = ThreadId(1);

/// Sleeps in that from then on.
fn sleeps(loops: &mut EventLoops<u8>, now: u64, wait: Option<LoopWait>) {
    let departure = Departure::Asleep(Sleep { wait, what: 7 });
    let previous = Some(LeavingThread { thread: LOOP, departure });
    loops.switch(now, &LoopSwitch { cpu: CPU, previous, next: None });
}

fn runs(loops: &mut EventLoops<u8>, now: u64) {
    loops.switch(now, &LoopSwitch { cpu: CPU, previous: None, next: Some(LOOP) });
}

/// Comes back as often, each time after 10; the time of its last sleep.
fn comes_back(loops: &mut EventLoops<u8>, from: u64, times: u64, wait: LoopWait) -> u64 {
    for turn in 0..times {
        runs(loops, from + turn * 100);
        sleeps(loops, from + turn * 100 + 10, Some(wait));
    }
    from + (times - 1) * 100 + 10
}

#[test]
fn a_stretch_lasts_from_the_wakeup_to_the_next_wait_and_tells_what_was_meanwhile() {
    let mut loops = EventLoops::new(LIMIT);
    let last = comes_back(&mut loops, 1000, LEAST_RETURNS + 1, LoopWait::Events);
    assert!(loops.take().is_empty(), "none was over the limit");
    loops.wakeup(last + 100, LOOP);
    runs(&mut loops, last + 105);
    sleeps(&mut loops, last + 135, None);
    runs(&mut loops, last + 175);
    sleeps(&mut loops, last + 180, Some(LoopWait::Events));
    let [stretch] = &loops.take()[..] else { panic!("there is one") };
    assert_eq!((stretch.since, stretch.until), (last + 100, last + 180));
    let activity = &stretch.activity;
    assert_eq!((activity.on_cpu, activity.waiting, activity.asleep()), (35, 5, 40));
    assert_eq!((stretch.may_be_longer, stretch.end), (false, StretchEnd::Returned));
    assert_eq!(loops.loops().count(), 1);
}

#[test]
fn what_was_before_a_thread_was_known_to_be_a_loop_is_told_then_and_near_misses_never() {
    let mut loops = EventLoops::new(LIMIT);
    let last = comes_back(&mut loops, 1000, 2, LoopWait::Events);
    for length in [200, LIMIT] {
        runs(&mut loops, last + 300 - length);
        sleeps(&mut loops, last + 300, Some(LoopWait::Events));
        assert!(loops.take().is_empty());
        comes_back(&mut loops, last + 400, LEAST_RETURNS, LoopWait::Events);
        let found = loops.take();
        assert_eq!(found.len(), usize::from(length > LIMIT), "{length}");
        loops = EventLoops::new(LIMIT);
        comes_back(&mut loops, 1000, 2, LoopWait::Events);
    }
}

#[test]
fn who_waits_a_few_times_or_works_long_for_a_pool_is_no_loop() {
    let mut loops = EventLoops::new(LIMIT);
    comes_back(&mut loops, 1000, LEAST_RETURNS - 1, LoopWait::Events);
    loops.finish(100_000, |_| true);
    assert_eq!((loops.take().len(), loops.loops().count()), (0, 0));
    let mut pool = EventLoops::new(5);
    comes_back(&mut pool, 1000, 100, LoopWait::Futex);
    assert_eq!((pool.take().len(), pool.loops().count()), (0, 0));
}

#[test]
fn where_records_are_missing_a_stretch_ends_and_the_next_may_be_longer() {
    let mut loops = EventLoops::new(LIMIT);
    let last = comes_back(&mut loops, 1000, LEAST_RETURNS + 1, LoopWait::Events);
    runs(&mut loops, last + 100);
    let gap = |cpu| SchedulingGap { cpu: Some(cpu), since: Some(Time(last + 200)) };
    loops.gap(last + 250, gap(CpuId::new(1)), |_| true);
    assert!(loops.take().is_empty(), "it ran on a CPU that lost nothing");
    loops.gap(last + 250, gap(CPU), |_| true);
    let [stretch] = &loops.take()[..] else { panic!("there is one") };
    assert_eq!((stretch.length(), stretch.end), (100, StretchEnd::Unknown));
    let stack = None;
    loops.sample(last + 300, &LoopSample { cpu: CPU, thread: LOOP, stack, wait: None });
    sleeps(&mut loops, last + 400, Some(LoopWait::Events));
    let [stretch] = &loops.take()[..] else { panic!("there is one") };
    assert_eq!((stretch.length(), stretch.may_be_longer), (100, true));
}

#[test]
fn a_sample_in_the_wait_ends_a_stretch_that_has_left_it() {
    let mut loops = EventLoops::new(LIMIT);
    let last = comes_back(&mut loops, 1000, LEAST_RETURNS + 1, LoopWait::Events);
    runs(&mut loops, last + 100);
    let stack = Some(StackId(0));
    let sample = |wait| LoopSample { cpu: CPU, thread: LOOP, stack, wait };
    loops.sample(last + 110, &sample(Some(LoopWait::Events)));
    loops.sample(last + 120, &sample(None));
    loops.sample(last + 160, &sample(Some(LoopWait::Events)));
    sleeps(&mut loops, last + 200, Some(LoopWait::Events));
    let lengths: Vec<_> = loops.take().iter().map(Stretch::length).collect();
    assert_eq!(lengths, [60]);
}

#[test]
fn a_program_that_starts_or_execs_is_not_away_until_its_first_wait() {
    let mut loops = EventLoops::new(LIMIT);
    loops.start(LOOP);
    runs(&mut loops, 0);
    sleeps(&mut loops, 400, None);
    let last = comes_back(&mut loops, 1000, LEAST_RETURNS + 1, LoopWait::Events);
    assert!(loops.take().is_empty(), "what was before its first wait is its start");
    runs(&mut loops, last + 100);
    loops.start(LOOP);
    sleeps(&mut loops, last + 500, None);
    comes_back(&mut loops, last + 1000, LEAST_RETURNS, LoopWait::Events);
    assert!(loops.take().is_empty(), "and so it is after an exec");
    let returns: Vec<_> = loops.loops().map(|found| found.returns).collect();
    assert_eq!(returns, [LEAST_RETURNS], "the second program has one too few");
}

#[test]
fn a_loop_whose_thread_ends_is_told_to_be_away_until_then() {
    let mut loops = EventLoops::new(LIMIT);
    let last = comes_back(&mut loops, 1000, LEAST_RETURNS + 1, LoopWait::Events);
    runs(&mut loops, last + 100);
    loops.end_thread(last + 300, LOOP);
    let [stretch] = &loops.take()[..] else { panic!("there is one") };
    assert_eq!((stretch.length(), stretch.end), (200, StretchEnd::ThreadEnded));
    assert!(!stretch.is_least());
}

#[test]
fn who_waits_shortly_for_locks_between_long_work_is_no_loop() {
    let mut loops = EventLoops::new(LIMIT);
    for turn in 0..100 {
        runs(&mut loops, 1000 + turn * 50);
        sleeps(&mut loops, 1040 + turn * 50, Some(LoopWait::Futex));
    }
    runs(&mut loops, 10_000);
    sleeps(&mut loops, 10_500, Some(LoopWait::Futex));
    assert_eq!((loops.take().len(), loops.loops().count()), (0, 0));
}

/// Samples of a thread that looks for work in every one of so many, each after 1.
fn polls(loops: &mut EventLoops<u8>, from: u64, times: u64, every: u64) {
    for turn in 0..times {
        let wait = (turn % every == 0).then_some(LoopWait::Events);
        let sample = LoopSample { cpu: CPU, thread: LOOP, stack: Some(StackId(0)), wait };
        loops.sample(from + turn, &sample);
    }
}

#[test]
fn a_loop_that_polls_is_away_where_samples_leave_no_doubt() {
    let mut loops = EventLoops::new(LIMIT);
    loops.start(LOOP);
    runs(&mut loops, 0);
    polls(&mut loops, 0, 100, 4);
    polls(&mut loops, 101, 1, 1);
    let summary = |loops: &EventLoops<u8>| loops.loops().next().expect("it is a loop");
    assert_eq!((summary(&loops).returns, summary(&loops).seen_awake), (0, 25));
    let elsewhere = |loops: &mut EventLoops<u8>, from: u64, count: u64| {
        for turn in 0..count {
            let stack = Some(StackId(1));
            let sample = LoopSample { cpu: CPU, thread: LOOP, stack, wait: None };
            loops.sample(from + turn, &sample);
        }
    };
    elsewhere(&mut loops, 200, 100);
    polls(&mut loops, 300, 1, 1);
    let [stretch] = &loops.take()[..] else { panic!("there is one") };
    assert_eq!((stretch.length(), stretch.may_have_returned), (199, false));
    elsewhere(&mut loops, 310, 10);
    polls(&mut loops, 400, 1, 1);
    assert!(loops.take().is_empty(), "ten samples may have missed it");
    assert_eq!(summary(&loops).unsure, 1);
}

#[test]
fn without_samples_a_loop_that_was_on_its_cpu_may_have_come_back() {
    let mut loops = EventLoops::new(LIMIT);
    let last = comes_back(&mut loops, 1000, LEAST_RETURNS + 1, LoopWait::Events);
    runs(&mut loops, last + 100);
    sleeps(&mut loops, last + 200, Some(LoopWait::Events));
    runs(&mut loops, last + 300);
    sleeps(&mut loops, last + 310, None);
    runs(&mut loops, last + 400);
    sleeps(&mut loops, last + 410, Some(LoopWait::Events));
    let told: Vec<_> = loops.take().iter().map(|it| it.may_have_returned).collect();
    assert_eq!(told, [true, false], "who sleeps in something else does not come back meanwhile");
}

#[test]
fn threads_and_ended_loops_without_room_are_counted() {
    let mut loops = EventLoops::<u8>::new(LIMIT);
    for thread in 0..MOST_THREADS as u32 + 3 {
        loops.wakeup(1, ThreadId(thread));
    }
    assert_eq!(loops.left_out(), 3);
    loops.end_thread(2, ThreadId(0));
    loops.wakeup(3, ThreadId(MOST_THREADS as u32));
    assert_eq!(loops.left_out(), 3, "who ends makes room");
}

#[test]
fn a_loop_that_marks_its_waits_is_away_by_its_marks_alone() {
    let mut loops = EventLoops::new(LIMIT);
    // By kernel events it would be a loop that comes back each time.
    let last = comes_back(&mut loops, 1000, LEAST_RETURNS + 1, LoopWait::Events);
    loops.mark(last + 10, LOOP, LoopMark::Waits);
    runs(&mut loops, last + 100);
    loops.mark(last + 101, LOOP, LoopMark::Turns);
    for turn in 0..4 {
        // It sleeps in what looks like a loop's wait, and it is a part of its work.
        sleeps(&mut loops, last + 110 + turn * 20, Some(LoopWait::Events));
        runs(&mut loops, last + 120 + turn * 20);
    }
    let sample = LoopSample {
        cpu: CPU,
        thread: LOOP,
        stack: Some(StackId(3)),
        wait: Some(LoopWait::Events),
    };
    loops.sample(last + 190, &sample);
    loops.mark(last + 201, LOOP, LoopMark::Waits);
    let [stretch] = &loops.take()[..] else { panic!("there is one") };
    assert_eq!((stretch.since, stretch.until), (last + 101, last + 201));
    assert_eq!((stretch.wait, stretch.end), (LoopWait::Marked, StretchEnd::Returned));
    assert_eq!((stretch.is_least(), stretch.may_have_returned), (false, false));
    let activity = &stretch.activity;
    assert_eq!((activity.on_cpu, activity.asleep(), activity.samples()), (60, 40, 1));
    let [found] = &loops.loops().collect::<Vec<_>>()[..] else { panic!("it is one loop") };
    assert_eq!((found.wait, found.returns, found.away), (LoopWait::Marked, 1, 100));
}

#[test]
fn a_loop_that_only_looks_for_events_comes_back_with_each_mark() {
    let mut loops = EventLoops::<u8>::new(LIMIT);
    runs(&mut loops, 0);
    for turn in 1..50 {
        loops.mark(turn * 10, LOOP, LoopMark::Waits);
        loops.mark(turn * 10 + 1, LOOP, LoopMark::Turns);
    }
    assert!(loops.take().is_empty(), "it never slept, and was never away for long");
    loops.mark(600, LOOP, LoopMark::Waits);
    let lengths: Vec<_> = loops.take().iter().map(Stretch::length).collect();
    assert_eq!(lengths, [109]);
}

#[test]
fn where_a_mark_is_missing_nothing_is_told_and_other_missing_records_change_nothing() {
    let mut loops = EventLoops::new(LIMIT);
    runs(&mut loops, 0);
    loops.mark(10, LOOP, LoopMark::Turns);
    loops.mark(500, LOOP, LoopMark::Turns);
    loops.mark(510, LOOP, LoopMark::Waits);
    assert!(loops.take().is_empty());
    assert_eq!(loops.loops().next().map(|found| found.unsure), Some(1));
    loops.mark(600, LOOP, LoopMark::Turns);
    loops.gap(700, SchedulingGap { cpu: None, since: Some(Time(650)) }, |_| true);
    sleeps(&mut loops, 720, Some(LoopWait::Events));
    loops.mark(800, LOOP, LoopMark::Waits);
    let [stretch] = &loops.take()[..] else { panic!("there is one") };
    assert_eq!((stretch.length(), stretch.is_least()), (200, false));
    assert_eq!(stretch.activity.on_cpu, 50, "and no more is known of it");
    loops.mark(900, LOOP, LoopMark::Turns);
    loops.end_thread(1000, LOOP);
    let ends: Vec<_> = loops.take().iter().map(|it| (it.length(), it.end)).collect();
    assert_eq!(ends, [(100, StretchEnd::ThreadEnded)]);
}
