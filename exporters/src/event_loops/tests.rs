use super::*;

const LIMIT: u64 = 50;
const CPU: CpuId = CpuId::new(0);
const LOOP: ThreadId = ThreadId(1);

/// Sleeps in that from then on.
fn sleeps(loops: &mut EventLoops<u8>, now: u64, wait: Option<LoopWait>) {
    let departure = Departure::Asleep(Sleep { wait, what: 7 });
    let previous = Some(Leaver { thread: LOOP, departure });
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
    let spent = &stretch.spent;
    assert_eq!((spent.on_cpu, spent.waiting, spent.asleep()), (35, 5, 40));
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
    loops.gap(last + 200, Some(CpuId::new(1)), |_| true);
    assert!(loops.take().is_empty(), "it ran on a CPU that lost nothing");
    loops.gap(last + 200, Some(CPU), |_| true);
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
    let sample = |wait| LoopSample { cpu: CPU, thread: LOOP, stack: None, wait };
    loops.sample(last + 110, &sample(Some(LoopWait::Events)));
    loops.sample(last + 120, &sample(None));
    loops.sample(last + 160, &sample(Some(LoopWait::Events)));
    sleeps(&mut loops, last + 200, Some(LoopWait::Events));
    let lengths: Vec<_> = loops.take().iter().map(Stretch::length).collect();
    assert_eq!(lengths, [60]);
}
