//! Whatever comes, the recogniser finds what the judge does.

use super::judge::{LoopEvent, Verdict, judge};
use super::*;
use proptest::prelude::*;
use syscollect_model::{SchedulingGap, Time};

const LIMIT: u64 = 50;
const THREADS: u32 = 3;
const CPUS: u32 = 2;

/// Events, each with how much later than the one before it is.
type LaterEvents = Vec<(u64, LoopEvent)>;

fn thread() -> impl Strategy<Value = ThreadId> {
    (0..THREADS).prop_map(ThreadId)
}

fn cpu() -> impl Strategy<Value = CpuId> {
    (0..CPUS).prop_map(CpuId::new)
}

fn wait() -> impl Strategy<Value = Option<LoopWait>> {
    let waits = [
        Some(LoopWait::Events),
        Some(LoopWait::Events),
        Some(LoopWait::Futex),
        Some(LoopWait::Futex),
        Some(LoopWait::Work),
        Some(LoopWait::IoUring),
        None,
    ];
    prop::sample::select(waits.to_vec())
}

fn sleep() -> impl Strategy<Value = Sleep<u8>> {
    (wait(), 0..12_u8).prop_map(|(wait, what)| Sleep { wait, what })
}

fn time() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![0, 1, 5, 20, 49, 50, 51, 120])
}

fn sample() -> impl Strategy<Value = LoopSample> {
    let where_found = prop::sample::select(vec![None, None, None, Some(LoopWait::Events)]);
    (cpu(), thread(), prop::option::weighted(0.9, 0..40_u32), where_found).prop_map(
        |(cpu, thread, stack, wait)| {
            let stack = stack.map(StackId);
            LoopSample { cpu, thread, stack, wait: wait.filter(|_| stack.is_some()) }
        },
    )
}

/// Threads that come back to one kind of wait, again and again.
fn turns() -> impl Strategy<Value = LaterEvents> {
    let turns = prop::collection::vec((time(), time(), any::<bool>(), 0..8_u8), 1..20);
    (thread(), cpu(), wait(), turns).prop_map(|(thread, cpu, wait, turns)| {
        let turns = turns.into_iter().flat_map(|(waits, works, is_woken, odd)| {
            let runs = LoopSwitch { cpu, previous: None, next: Some(thread) };
            let sleep = Sleep { wait: wait.filter(|_| odd > 0), what: odd };
            let departure = Departure::Asleep(sleep);
            let previous = Some(LeavingThread { thread, departure });
            let sleeps = LoopSwitch { cpu, previous, next: None };
            let woken = is_woken.then_some((waits, LoopEvent::Wakeup(thread)));
            let runs = (if is_woken { 2 } else { waits }, LoopEvent::Switch(runs));
            woken.into_iter().chain([runs, (works, LoopEvent::Switch(sleeps))])
        });
        turns.collect()
    })
}

/// A thread that is on a CPU all the time, and looks for work now and then.
fn polls() -> impl Strategy<Value = LaterEvents> {
    let seen = prop::collection::vec((1..60_u64, any::<bool>()), 1..60);
    (thread(), cpu(), seen).prop_map(|(thread, cpu, seen)| {
        let runs = LoopSwitch { cpu, previous: None, next: Some(thread) };
        let samples = seen.into_iter().map(|(time, waits)| {
            let wait = waits.then_some(LoopWait::Events);
            let sample = LoopSample { cpu, thread, stack: Some(StackId(0)), wait };
            (time, LoopEvent::Sample(sample))
        });
        [(0, LoopEvent::Switch(runs))].into_iter().chain(samples).collect()
    })
}

fn departure() -> impl Strategy<Value = Departure<u8>> {
    prop_oneof![
        3 => Just(Departure::Runnable),
        4 => sleep().prop_map(Departure::Asleep),
        1 => Just(Departure::Ended),
    ]
}

/// Anything, in any order.
fn noise() -> impl Strategy<Value = LaterEvents> {
    let previous =
        (thread(), departure()).prop_map(|(thread, departure)| LeavingThread { thread, departure });
    let switch = (cpu(), prop::option::of(previous), prop::option::of(thread()));
    let switch = switch
        .prop_map(|(cpu, previous, next)| LoopEvent::Switch(LoopSwitch { cpu, previous, next }));
    let gap = (prop::option::of(cpu()), prop::option::of(0..5_000_u64));
    let gap =
        gap.prop_map(|(cpu, since)| LoopEvent::Gap(SchedulingGap { cpu, since: since.map(Time) }));
    let event = prop_oneof![
        8 => switch,
        6 => thread().prop_map(LoopEvent::Wakeup),
        6 => sample().prop_map(LoopEvent::Sample),
        1 => gap,
        1 => thread().prop_map(LoopEvent::Start),
        1 => thread().prop_map(LoopEvent::End),
        1 => (thread(), sleep()).prop_map(|(thread, sleep)| LoopEvent::Asleep(thread, sleep)),
    ];
    (time(), event).prop_map(|step| vec![step])
}

fn tell(loops: &mut EventLoops<u8>, now: u64, event: &LoopEvent) {
    match *event {
        LoopEvent::Switch(switch) => loops.switch(now, &switch),
        LoopEvent::Wakeup(thread) => loops.wakeup(now, thread),
        LoopEvent::Start(thread) => loops.start(thread),
        LoopEvent::End(thread) => loops.end_thread(now, thread),
        LoopEvent::Asleep(thread, sleep) => loops.asleep(now, thread, sleep),
        LoopEvent::Sample(sample) => loops.sample(now, &sample),
        LoopEvent::Gap(gap) => loops.gap(now, gap, |_| true),
    }
}

fn recognised(events: &[(u64, LoopEvent)], end: u64) -> Verdict {
    let (mut loops, mut verdict) = (EventLoops::new(LIMIT), Verdict::default());
    for (now, event) in events {
        tell(&mut loops, *now, event);
    }
    loops.finish(end, |_| true);
    for stretch in loops.take() {
        verdict.stretches.entry(stretch.thread).or_default().push(stretch);
    }
    for found in loops.loops() {
        verdict.loops.entry(found.thread).or_default().push(found);
    }
    verdict
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_found_is_what_the_judge_finds(
        steps in prop::collection::vec(
            prop_oneof![3 => turns(), 1 => polls(), 6 => noise()],
            1..40,
        ),
        rest in 0..200_u64,
    ) {
        let mut now = 0;
        let events = steps.into_iter().flatten().map(|(time, event)| {
            now += time;
            (now, event)
        });
        let events: Vec<_> = events.collect();
        let end = now + rest;
        let (found, judged) = (recognised(&events, end), judge(LIMIT, &events, end));
        prop_assert_eq!(&found, &judged);
        for stretch in found.stretches.values().flatten() {
            let activity = &stretch.activity;
            let known = activity.on_cpu + activity.waiting + activity.asleep();
            prop_assert!(stretch.length() > LIMIT);
            prop_assert!(known <= stretch.length());
            let is_whole = stretch.end != StretchEnd::Unknown;
            prop_assert!(!is_whole || known == stretch.length(), "{:?}", stretch);
        }
    }
}
