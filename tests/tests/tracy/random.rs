//! Sessions of any kind: the strict reader accepts them, and nothing is missing.

use crate::scenario::{Scenario, ZERO, off};
use proptest::prelude::*;
use std::collections::BTreeMap;
use syscollect_model::{
    CpuId, Event, GpuJob, MachineId, OffCpu, Scope, SleepState, StackId, Tables, ThreadId, Time,
};

const THREADS: u32 = 6;
const STACKS: u32 = 5;

fn scenario(steps: Vec<(u8, u64, u32, u32, u32)>) -> Scenario {
    let mut scenario = Scenario::new(4);
    for tid in 1..THREADS {
        scenario.task(tid % 3 + 1, &format!("t{tid}"));
    }
    for index in 1..STACKS {
        let names: Vec<String> = (0..index).map(|frame| format!("f{frame}")).collect();
        scenario.stack(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let thread = ThreadId(1);
    let tracks = [
        scenario.zones(thread),
        scenario.track(Scope::Machine(MachineId::FIRST), "all"),
        scenario.track(Scope::Thread(thread), "probes"),
    ];
    let name = scenario.tables.strings.intern("slice");
    let queues = [scenario.queue("ring"), scenario.queue("copy")];
    let mut free = [0, 0];
    let mut at = 1;
    for (kind, delay, cpu, thread, other) in steps {
        at += delay;
        let (thread, other) = (ThreadId(thread), ThreadId(other));
        let stack = (other.0 % STACKS).checked_sub(1).map(StackId);
        let track = tracks[cpu as usize % 3];
        match kind {
            0 | 1 => {
                let state =
                    if kind == 0 { SleepState::Interruptible } else { SleepState::Runnable };
                let leaves = OffCpu { stack, preempted: other.0 == 1, ..off(state) };
                scenario.switch(at, cpu, (cpu < 3).then_some(thread), leaves, other);
            }
            2 => scenario.wake(at, thread),
            3 => scenario.sample(at, thread, stack),
            4 => scenario.at(at, Event::SliceBegin(track, name.into())),
            5 => scenario.at(at, Event::SliceEnd(track)),
            6 => scenario.at(at, Event::Instant(track, name.into())),
            _ => {
                let queue = cpu as usize % 2;
                let began = at.saturating_sub(u64::from(other.0)).max(free[queue]).min(at);
                free[queue] = at;
                let job = GpuJob {
                    thread: (thread.0 != 0).then_some(thread),
                    submitted: time(began.saturating_sub(3)),
                    started: if other.0 == 2 { None } else { time(began) },
                    ..GpuJob::named(name)
                };
                scenario.at(at, Event::GpuJob(queues[queue], Box::new(job)));
            }
        }
    }
    scenario
}

fn time(at: u64) -> Option<Time> {
    Some(Time(ZERO + at))
}

proptest! {
    #[test]
    fn whatever_happens_the_file_is_whole(
        steps in prop::collection::vec((0u8..8, 0u64..3, 0u32..4, 0..THREADS, 0..THREADS), 0..120),
    ) {
        let scenario = scenario(steps);
        let trace = scenario.read();
        let samples = count(&scenario, |event| matches!(event, Event::Sample(_)));
        prop_assert_eq!(trace.cpu_samples(), samples);
        let waits = count(&scenario, |event| {
            matches!(event, Event::Switch(switch)
            if switch.previous.is_some() && switch.off_cpu.stack.is_some() && !switch.off_cpu.preempted)
        });
        prop_assert_eq!(trace.switch_samples(), waits);
        let instants = trace.messages.iter().filter(|message| message.text == "slice").count();
        prop_assert_eq!(instants, count(&scenario, |event| matches!(event, Event::Instant(..))));
        let zones: u64 =
            trace.threads.iter().map(|thread| thread.zones.iter().map(size).sum::<u64>()).sum();
        let begun = count(&scenario, |event| matches!(event, Event::SliceBegin(..)));
        prop_assert_eq!(zones as usize, begun);

        let jobs: usize =
            trace.gpus.iter().map(|gpu| gpu.threads.values().map(Vec::len).sum::<usize>()).sum();
        prop_assert_eq!(jobs, count(&scenario, |event| matches!(event, Event::GpuJob(..))));

        // Every switch begins a time on its CPU, at its time; what ran before the first is at most
        // one more.
        for cpu in 0..4 {
            let mut expected: BTreeMap<i64, usize> = BTreeMap::new();
            let origin = scenario.events.first().map_or(1, first) as i64 - 1;
            for (at, event) in &scenario.events {
                if let Event::Switch(switch) = event
                    && switch.cpu == CpuId::new(cpu)
                    && switch.next != Tables::IDLE_THREAD
                {
                    *expected.entry(*at as i64 - origin).or_default() += 1;
                }
            }
            let mut found: BTreeMap<i64, usize> = BTreeMap::new();
            trace.cpus[cpu as usize]
                .iter()
                .for_each(|time| *found.entry(time.start).or_default() += 1);
            let missing =
                expected.iter().filter(|(start, count)| found.get(start) < Some(count)).count();
            prop_assert_eq!(missing, 0);
            prop_assert!(trace.cpus[cpu as usize].len() <= expected.values().sum::<usize>() + 1);
        }
    }
}

/// The first moment that is shown.
fn first((at, event): &(u64, Event)) -> u64 {
    match event {
        Event::GpuJob(_, job) => job.submitted.map_or(*at, |time| (time.0 - ZERO).min(*at)),
        _ => *at,
    }
}

fn size(zone: &syscollect_tests::tracy_reader::Zone) -> u64 {
    1 + zone.children.iter().map(size).sum::<u64>()
}

fn count(scenario: &Scenario, wanted: impl Fn(&Event) -> bool) -> usize {
    scenario.events.iter().filter(|(_, event)| wanted(event)).count()
}
