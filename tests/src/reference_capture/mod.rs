//! A capture whose figures are known before anybody reads it.
//!
//! **Duty.** [`capture`] tells a [`FakeMachine`] what to do, and [`figures`]
//! says what a viewer has to find in that: numbers written down by hand, which
//! come from no exporter and from no reader. One mistake in the model would make
//! all exporters agree with each other, but not with these.
//!
//! A hundred rounds of a millisecond, on two CPUs:
//!
//! - on CPU 0 a server's worker is woken and runs zones, then its main thread;
//! - on CPU 1 two threads of a build share the CPU, and in every tenth round a
//!   compiler is forked, runs and exits;
//! - both hand work to GPUs, a display shows a frame, and the server's main thread waits
//!   for a fence.

mod code;
mod edge_cases;
mod gpu;
mod instrumented;

use crate::{FakeMachine, Stacks};
use code::Code;
use gpu::Gpus;
use instrumented::Server;
use std::collections::BTreeMap;
use syscollect_model::Unit;
use syscollect_records::{SchedRecord, task_state};
use syscollect_store::CounterDefinition;

pub use code::{FUNCTIONS, TOP};
pub use edge_cases::{Case, cases};

/// What a viewer shows, by name.
///
/// ```
/// assert_eq!(syscollect_tests::reference_capture::figures()["samples"], 407);
/// ```
pub type Figures = BTreeMap<String, u64>;

/// Rounds of the capture.
const ROUNDS: u64 = 100;
/// Microseconds of a round.
const ROUND_US: u64 = 1_000;
/// The server and its worker.
const SERVER: [u32; 2] = [100, 101];
/// The build and its second thread.
const BUILD: [u32; 2] = [300, 301];
/// The compilers' ids begin here.
const COMPILERS: u32 = 400;
/// The thread of an idle CPU.
const IDLE: u32 = 0;

/// What the capture holds.
const PLAN: [(&str, u64); 30] = [
    // Six in each round, and two more in every tenth.
    ("switches", 620),
    // Those that bring a thread and not the idle one: four in each round, and two more in every
    // tenth.
    ("runs", 420),
    ("runs of server / worker", 100),
    ("samples of server / worker", 200),
    // Three in each round, and that of each compiler.
    ("wakeups", 310),
    // Four in each round, and seven of an idle CPU.
    ("samples", 407),
    ("zone handle", 100),
    ("zone query", 100),
    ("zone render", 100),
    ("zone loop", 100),
    ("zone fetch", 20),
    ("zone decode", 20),
    ("zone gc", 12),
    ("zone work", 8),
    ("zone Write", 10),
    // In every other round, for a fence.
    ("zone waits for a fence", 50),
    ("messages", 135),
    ("message started", 100),
    ("message a slow one", 25),
    ("message job 5", 10),
    ("marker Read", 30),
    ("marker python:line", 15),
    ("values of queue", 100),
    ("sum of queue", 4_950),
    ("frames Render", 10),
    ("times that cache was held", 20),
    ("waits for cache", 10),
    ("allocations", 50),
    ("bytes held", 640),
    ("crashes", 1),
];

/// What the capture holds: [`PLAN`](self), that of the GPUs, and `self NAME` for the samples of
/// each of the [`TOP`] functions.
pub fn figures() -> Figures {
    let plan = PLAN.iter().chain(&gpu::PLAN).map(|(name, count)| ((*name).to_owned(), *count));
    let functions =
        FUNCTIONS.iter().take(TOP).map(|(name, samples)| (format!("self {name}"), *samples));
    plan.chain(functions).collect()
}

/// The same of two machines that both did that: each figure twice.
pub fn figures_of_two_machines() -> Figures {
    figures().into_iter().map(|(name, count)| (name, 2 * count)).collect()
}

/// The capture.
pub fn capture() -> Vec<u8> {
    let mut machine = machine();
    let code = Code::new(&mut machine);
    let mut server = Server::new(&mut machine);
    let gpus = Gpus::new(&mut machine);
    instrumented::define_probes(&mut machine);
    machine.counters(&[CounterDefinition {
        counter: 1,
        name: "load".into(),
        unit: Unit::from("jobs"),
        ..Default::default()
    }]);
    for round in 0..ROUNDS {
        first_cpu(&mut machine, &code, round);
        second_cpu(&mut machine, &code, round);
        server.round(&mut machine, round);
        instrumented::probes(&mut machine, round);
        gpus.round(&mut machine, round);
    }
    server.finish(&mut machine, ROUNDS);
    machine.finish()
}

/// When a round begins.
fn begin(round: u64) -> u64 {
    (round + 1) * ROUND_US
}

fn machine() -> FakeMachine {
    let mut machine = FakeMachine::new(2);
    // Several chunks of each lane.
    machine.chunk_bytes(4 << 10);
    machine.process(SERVER[0], 1, "server", &[(SERVER[0], "server"), (SERVER[1], "worker")]);
    machine.process(BUILD[0], 1, "build", &[(BUILD[0], "build"), (BUILD[1], "jobs")]);
    machine
}

/// The server's worker, then its main thread.
fn first_cpu(machine: &mut FakeMachine, code: &Code, round: u64) {
    let us = begin(round);
    machine.wake(0, us + 10, SERVER[1], 0, Stacks::default());
    machine.switch(0, us + 20, task_state::RUNNABLE, SERVER[1]);
    code.sample(machine, 0, us + 50, SERVER[1], 4 * round);
    code.sample(machine, 0, us + 150, SERVER[1], 4 * round + 1);
    machine.wake(0, us + 290, SERVER[0], 0, Stacks::default());
    let next =
        SchedRecord { tid: SERVER[0], state: task_state::INTERRUPTIBLE, ..SchedRecord::default() };
    machine.switch_with(0, us + 300, next, code.blocks);
    machine.switch(0, us + 400, task_state::UNINTERRUPTIBLE, IDLE);
    machine.count(us + 500, 1, round as f64);
    if round < 7 {
        code.idle_sample(machine, us + 950);
    }
}

/// The two threads of the build, and a compiler now and then.
fn second_cpu(machine: &mut FakeMachine, code: &Code, round: u64) {
    let us = begin(round);
    machine.switch(1, us + 15, task_state::RUNNABLE, BUILD[0]);
    code.sample(machine, 1, us + 60, BUILD[0], 4 * round + 2);
    machine.wake(1, us + 490, BUILD[1], 1, Stacks::default());
    machine.switch(1, us + 500, task_state::RUNNABLE, BUILD[1]);
    code.sample(machine, 1, us + 600, BUILD[1], 4 * round + 3);
    if round.is_multiple_of(10) {
        let compiler = COMPILERS + (round / 10) as u32;
        machine.fork(1, us + 610, BUILD[1], (compiler, compiler), "cc");
        let woken = SchedRecord { tid: compiler, state: 1, prio: 120, ..SchedRecord::default() };
        machine.sched(
            1,
            us + 620,
            syscollect_records::RecordKind::WakeupNew,
            woken,
            Stacks::default(),
        );
        machine.switch(1, us + 700, task_state::RUNNABLE, compiler);
        machine.exit(1, us + 750, (compiler, compiler), "cc");
        machine.switch(1, us + 760, task_state::DEAD, BUILD[1]);
    }
    machine.switch(1, us + 900, task_state::INTERRUPTIBLE, IDLE);
}
