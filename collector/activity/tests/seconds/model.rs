//! Machines that do anything at random, against a model that remembers everything and adds it up at
//! the end.

use super::recorder::{Recorder, SECOND};
use proptest::prelude::*;
use std::collections::BTreeMap;
use syscollect_activity::TaskTimes;
use syscollect_records::{RecordKind, SchedRecord, task_state};

const THREADS: u32 = 6;

#[derive(Clone, Copy, Debug)]
enum MachineStep {
    /// On that CPU one of the threads that sleep is woken.
    Wake(u32),
    /// One of those that are runnable gets the CPU, or nobody; how the one before waits.
    Switch(u32, u8),
    /// What happened so far arrives.
    Arrives,
    /// What happened on that CPU since something of it arrived is lost.
    Lost,
}

/// So many of a hundred steps lose something.
fn steps(losses: u32) -> impl Strategy<Value = Vec<(u64, u16, MachineStep)>> {
    let state = prop::sample::select(vec![
        task_state::RUNNABLE,
        task_state::INTERRUPTIBLE,
        task_state::UNINTERRUPTIBLE,
        task_state::STOPPED,
    ]);
    let step = prop_oneof![
        36 => any::<u32>().prop_map(MachineStep::Wake),
        48 => (any::<u32>(), state).prop_map(|(next, state)| MachineStep::Switch(next, state)),
        12 => Just(MachineStep::Arrives),
        losses => Just(MachineStep::Lost),
    ];
    let wait = prop_oneof![1..1000u64, 1..300_000u64];
    prop::collection::vec((wait, 0..3u16, step), 1..120)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Waits(u8),
}

/// What was, from when until when.
#[derive(Default)]
struct Model {
    threads: BTreeMap<u32, Vec<(u64, State)>>,
    cpus: BTreeMap<u16, Vec<(u64, u32)>>,
    /// When a thread that waited for a CPU came to run, and how long it had waited.
    waits: Vec<(u64, u64)>,
}

impl Model {
    fn state(&self, tid: u32) -> Option<(u64, State)> {
        self.threads.get(&tid)?.last().copied()
    }

    /// Sets the state; the time since when it was the same does not begin anew.
    fn set(&mut self, tid: u32, at: u64, state: State) {
        self.threads.entry(tid).or_default().push((at, state));
    }

    fn times(&self, tid: u32, from: u64, until: u64) -> TaskTimes {
        let mut times = TaskTimes::default();
        let states = &self.threads[&tid];
        for (number, (at, state)) in states.iter().enumerate() {
            let end = states.get(number + 1).map_or(u64::MAX, |(at, _)| *at);
            let ticks = end.min(until).saturating_sub((*at).max(from));
            *match state {
                State::Running => &mut times.running,
                State::Waits(task_state::RUNNABLE) => &mut times.runnable,
                State::Waits(task_state::INTERRUPTIBLE) => &mut times.interruptible,
                State::Waits(task_state::UNINTERRUPTIBLE) => &mut times.uninterruptible,
                State::Waits(_) => &mut times.stopped,
            } += ticks;
        }
        times
    }

    fn busy(&self, cpu: u16, from: u64, until: u64) -> u64 {
        let owners = &self.cpus[&cpu];
        let parts = owners.iter().enumerate().map(|(number, (at, tid))| {
            let end = owners.get(number + 1).map_or(u64::MAX, |(at, _)| *at);
            let ticks = end.min(until).saturating_sub((*at).max(from));
            if *tid == 0 { 0 } else { ticks }
        });
        parts.sum()
    }
}

const RUNNABLE: State = State::Waits(task_state::RUNNABLE);

/// A machine does that; what is said of it, and what was so.
fn run(steps: Vec<(u64, u16, MachineStep)>) -> (Recorder, Model) {
    let mut recorder = Recorder::new(3);
    let mut model = Model::default();
    for cpu in 0..3 {
        recorder.switch(cpu, 0, 0, 0);
        model.cpus.insert(cpu, vec![(0, 0)]);
    }
    recorder.until(1);
    let mut at = 1;
    for (wait, cpu, step) in steps {
        at += wait;
        match step {
            MachineStep::Wake(number) => {
                let is_asleep = |tid: &u32| {
                    let state = model.state(*tid);
                    state.is_none_or(|(_, state)| !matches!(state, State::Running | RUNNABLE))
                };
                let asleep: Vec<u32> = (1..=THREADS).filter(is_asleep).collect();
                if let Some(tid) = asleep.get(number as usize % asleep.len().max(1)) {
                    recorder.wakes(cpu, at, *tid);
                    model.set(*tid, at, RUNNABLE);
                }
            }
            MachineStep::Switch(number, state) => {
                let is_runnable =
                    |tid: &u32| model.state(*tid).is_some_and(|(_, is)| is == RUNNABLE);
                let mut next: Vec<u32> = (1..=THREADS).filter(is_runnable).collect();
                next.push(0);
                let next = next[number as usize % next.len()];
                let before = model.cpus[&cpu].last().expect("it has one").1;
                if next == before {
                    continue;
                }
                recorder.switch(cpu, at, next, state);
                if before != 0 {
                    model.set(before, at, State::Waits(state));
                }
                if let Some((since, _)) = model.state(next) {
                    model.waits.push((at, at - since));
                    model.set(next, at, State::Running);
                }
                model.cpus.get_mut(&cpu).expect("it is one").push((at, next));
            }
            MachineStep::Arrives => recorder.until(at),
            MachineStep::Lost => drop(recorder.take_chunk(cpu)),
        }
    }
    // Each lane goes on once more, which tells of what was lost.
    at += 1;
    for cpu in 0..3 {
        recorder.event(cpu, at, RecordKind::Migrate, SchedRecord::default());
    }
    recorder.until(at + SECOND);
    assert_eq!(recorder.activity.history().len() as u64, (at + SECOND) / SECOND);
    (recorder, model)
}

proptest! {
    #[test]
    fn every_second_is_what_a_model_that_forgets_nothing_says(steps in steps(0)) {
        let (recorder, model) = run(steps);
        for (number, second) in recorder.activity.history().iter().enumerate() {
            let (from, until) = (number as u64 * SECOND, (number as u64 + 1) * SECOND);
            prop_assert!(!second.is_incomplete);
            let mut sum = 0;
            for cpu in &second.cpus {
                prop_assert_eq!(cpu.busy + cpu.idle + cpu.unknown, SECOND);
                prop_assert_eq!(cpu.unknown, 0);
                prop_assert_eq!(cpu.busy, model.busy(cpu.cpu, from, until));
                sum += cpu.busy;
            }
            let rows: u64 = second.threads.iter().map(|thread| thread.times.running).sum();
            prop_assert_eq!(rows, sum);
            for tid in model.threads.keys() {
                let times = model.times(*tid, from, until);
                match second.threads.iter().find(|thread| thread.tid == *tid) {
                    Some(thread) => prop_assert_eq!(thread.times, times),
                    None => prop_assert_eq!(times.running + times.runnable, 0),
                }
            }
            let is_within = |(at, _): &&(u64, u64)| (from..until).contains(at);
            let waits: Vec<u64> = model.waits.iter().filter(is_within).map(|(_, w)| *w).collect();
            prop_assert_eq!(second.latency.count(), waits.len() as u64);
            prop_assert_eq!(second.latency.longest(), waits.iter().copied().max().unwrap_or(0));
        }
    }

    #[test]
    fn whatever_is_lost_a_second_that_does_not_say_so_is_right(steps in steps(10)) {
        let (recorder, model) = run(steps);
        for (number, second) in recorder.activity.history().iter().enumerate() {
            let (from, until) = (number as u64 * SECOND, (number as u64 + 1) * SECOND);
            let mut sum = 0;
            for cpu in &second.cpus {
                prop_assert_eq!(cpu.busy + cpu.idle + cpu.unknown, SECOND);
                sum += cpu.busy;
                if !second.is_incomplete {
                    let told = (cpu.busy, cpu.unknown);
                    prop_assert_eq!(told, (model.busy(cpu.cpu, from, until), 0));
                }
            }
            let rows: u64 = second.threads.iter().map(|thread| thread.times.running).sum();
            prop_assert_eq!(rows, sum);
            for thread in &second.threads {
                prop_assert!(thread.times.sum() <= SECOND);
                if second.is_incomplete {
                    continue;
                }
                let times = model.times(thread.tid, from, until);
                prop_assert_eq!(thread.times.running, times.running);
                prop_assert!(thread.times.runnable <= times.runnable);
                prop_assert!(thread.times.interruptible <= times.interruptible);
                prop_assert!(thread.times.uninterruptible <= times.uninterruptible);
                prop_assert!(thread.times.stopped <= times.stopped);
            }
        }
    }
}
