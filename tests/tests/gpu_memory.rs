//! Scenarios of what processes have of GPUs, told again as text.

use syscollect_model::Unit;
use syscollect_records::task_state;
use syscollect_store::CounterDefinition;
use syscollect_tests::tracepoint::{FakeField, FakeTracepoint};
use syscollect_tests::{FakeMachine, golden};

/// include/trace/events/gpu_mem.h.
const TOTAL: &[FakeField<'_>] = &[("gpu_id", 4), ("pid", 4), ("size", 8)];

fn machine() -> FakeMachine {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "game", &[]);
    machine.switch(0, 1, task_state::RUNNABLE, 100);
    machine
}

fn counter(counter: u64, name: &str, unit: Unit<String>, pid: u32) -> CounterDefinition {
    CounterDefinition {
        counter,
        name: name.into(),
        unit,
        pid: Some(pid),
        ..CounterDefinition::default()
    }
}

#[test]
fn what_a_process_has_is_its_own_until_it_ends_even_where_another_gets_its_id() {
    let mut machine = machine();
    machine.counters(&[
        counter(1, "GPU memory vram (x)", Unit::Bytes, 300),
        counter(2, "GPU engine gfx (x)", Unit::Percent, 300),
    ]);
    machine.fork(0, 10, 100, (300, 300), "renderer");
    machine.count(20, 1, 4096.0);
    machine.count(20, 2, 62.5);
    machine.exit(0, 30, (300, 300), "renderer");
    // The id is given out again before the recorder sees that the first one has gone.
    machine.fork(0, 40, 100, (300, 300), "compositor");
    machine.count(50, 1, 0.0);
    machine.count(50, 2, 0.0);
    // Numbers are not: this is the second's.
    machine.counters(&[counter(3, "GPU memory vram (x)", Unit::Bytes, 300)]);
    machine.count(60, 3, 8192.0);
    // A process that nobody announced, and a number that nobody defined.
    machine.counters(&[counter(4, "GPU memory vram (x)", Unit::Bytes, 900)]);
    machine.count(70, 4, 1.0);
    machine.count(71, 5, 1.0);
    golden::check("gpu_memory_polled", &mut golden::open(machine.finish()));
}

#[test]
fn a_driver_tells_when_the_memory_of_a_process_or_of_all_changes() {
    let mut machine = machine();
    let total = FakeTracepoint::new(&mut machine, 1, ("gpu_mem", "gpu_mem_total"), TOTAL);
    machine.fork(0, 5, 100, (101, 100), "worker");
    total.fire(&mut machine, (0, 10), 100, &[0.into(), 0.into(), 65_536.into()]);
    // A driver may name the thread that opened the device.
    total.fire(&mut machine, (0, 11), 100, &[0.into(), 101.into(), 4096.into()]);
    total.fire(&mut machine, (0, 12), 100, &[0.into(), 100.into(), 8192.into()]);
    total.interrupt(&mut machine, (0, 13), 100, &[1.into(), 100.into(), (1 << 40).into()]);
    // A kernel that says something else by that name.
    let other = FakeTracepoint::new(&mut machine, 2, ("gpu_mem", "gpu_mem_total"), &TOTAL[..2]);
    other.fire(&mut machine, (0, 20), 100, &[0.into(), 100.into()]);
    golden::check("gpu_memory_reported", &mut golden::open(machine.finish()));
}
