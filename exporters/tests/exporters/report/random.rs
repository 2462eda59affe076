//! Whatever comes, the books balance.

use super::*;
use proptest::prelude::*;
use syscollect_model::{CpuId, Sample};

const THREADS: u32 = 5;

fn thread() -> impl Strategy<Value = ThreadId> {
    (0..THREADS).prop_map(ThreadId)
}

/// Any event, at some time after the one before.
fn event() -> impl Strategy<Value = (u64, Event)> {
    let state = prop::sample::select(vec![
        SleepState::Runnable,
        SLEEPS,
        SleepState::Uninterruptible,
        SleepState::Dead,
    ]);
    let switch = (0..3u32, prop::option::of(thread()), state, any::<bool>(), thread());
    let switch = switch.prop_map(|(cpu, previous, state, preempted, next)| {
        let off_cpu = OffCpu { state, preempted, ..off() };
        Event::Switch(Switch {
            cpu: CpuId::new(cpu),
            previous,
            previous_priority: 0,
            off_cpu,
            next,
            next_priority: 0,
        })
    });
    let wake = (0..3u32, prop::option::of(thread()), 1..THREADS);
    let wake = wake.prop_map(|(cpu, waker, wakee)| {
        Event::Wakeup(Wakeup { waker, ..wakeup(cpu, ThreadId(wakee)) })
    });
    let sample = (0..3u32, thread());
    let sample = sample.prop_map(|(cpu, thread)| {
        Event::Sample(Sample { cpu: CpuId::new(cpu), thread, stack: None, in_kernel: false })
    });
    let lost = (prop::option::of(0..3u32), prop::option::of((0..200u64, 0..200u64)));
    let lost = lost.prop_map(|(cpu, between)| {
        let between = between.map(|(a, b)| (Time(START + a * 1_000), Time(START + b * 1_000)));
        Event::Loss(Loss { cpu: cpu.map(CpuId::new), between, ..loss(0, 0, 0) })
    });
    let life = (any::<bool>(), 1..THREADS).prop_map(|(starts, thread)| match starts {
        true => Event::ThreadStart(ThreadId(thread)),
        false => Event::ThreadEnd(ThreadId(thread)),
    });
    (0..20u64, prop_oneof![8 => switch, 6 => wake, 2 => sample, 1 => lost, 1 => life])
}

proptest! {
    #[test]
    fn the_books_balance(
        steps in prop::collection::vec(event(), 1..120),
        filtered in any::<bool>(),
    ) {
        let mut scenario = Scenario::new();
        let (process, _) = scenario.process(10, 1, "a", &[]);
        (1..THREADS - 1).for_each(|index| {
            scenario.thread(10 + index, process, "a");
        });
        let (mut now, mut mortal) = (0, false);
        for (wait, event) in steps {
            now += wait;
            mortal |= matches!(&event, Event::ThreadEnd(_))
                || matches!(&event, Event::Switch(switch) if switch.off_cpu.state == SleepState::Dead);
            scenario.at(now, event);
        }
        let session =
            SessionInfo { filter_pids: if filtered { vec![10] } else { vec![] }, ..session() };
        let report = report_with(&scenario, ReportOptions::default(), &session, &[]);
        let on_cpu: u64 = report.threads.rows.iter().map(|row| row.activity.times.on_cpu_ns).sum();
        let busy: u64 = report.cpus.iter().map(|cpu| cpu.busy_ns).sum();
        prop_assert_eq!(on_cpu, busy, "what runs, runs on a CPU");
        for row in &report.threads.rows {
            let Times { on_cpu_ns, waiting_ns, blocked_ns, unknown_ns } = row.activity.times;
            let sum = on_cpu_ns + waiting_ns + blocked_ns + unknown_ns;
            prop_assert!(
                sum == report.duration_ns || (mortal && sum < report.duration_ns),
                "{:?}",
                row
            );
        }
        for cpu in &report.cpus {
            prop_assert_eq!(cpu.busy_ns + cpu.idle_ns + cpu.unknown_ns, report.duration_ns);
        }
        let blocked: u64 =
            report.threads.rows.iter().map(|row| row.activity.times.blocked_ns).sum();
        prop_assert_eq!(blocked, report.off_cpu.blocked_ns, "what is blocked has a reason");
        let OffCpuReport { blocked, undecided, idle, .. } = &report.off_cpu;
        let classes = blocked.blocked_ns + undecided.blocked_ns + idle.blocked_ns;
        prop_assert_eq!(classes, report.off_cpu.blocked_ns, "and is of one class");
        let waiting: u64 =
            report.threads.rows.iter().map(|row| row.activity.times.waiting_ns).sum();
        prop_assert!(report.run_queue.all.total_ns <= waiting);
        prop_assert!(!report.text(80).is_empty());
    }
}
