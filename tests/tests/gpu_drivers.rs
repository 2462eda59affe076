//! Scenarios of drivers that tell of the same work in several ways: it is shown once.
//!
//! Layouts and order are those of Debian's kernels 5.10, 6.12 and 7.2; none of
//! these drivers' hardware was at hand.

use syscollect_records::{GpuFailureRecord, gpu_failure, task_state};
use syscollect_tests::gpu::{FENCE, JOB, JOB_DONE, fence};
use syscollect_tests::tracepoint::{FakeField, FakeTracepoint, FakeValue, TEXT};
use syscollect_tests::{FakeMachine, golden};

const GAME: u32 = 100;
const WORKER: u32 = 200;

/// The tracepoints of fences.
struct Fences {
    init: FakeTracepoint,
    signaled: FakeTracepoint,
    wait_start: FakeTracepoint,
    wait_end: FakeTracepoint,
}

impl Fences {
    fn new(machine: &mut FakeMachine) -> Self {
        let [init, signaled, wait_start, wait_end] = [
            (1, "dma_fence_init"),
            (2, "dma_fence_signaled"),
            (3, "dma_fence_wait_start"),
            (4, "dma_fence_wait_end"),
        ]
        .map(|(number, name)| FakeTracepoint::new(machine, number, ("dma_fence", name), FENCE));
        Self { init, signaled, wait_start, wait_end }
    }
}

/// A program that draws, and a worker of the kernel.
fn machine() -> FakeMachine {
    let mut machine = FakeMachine::new(2);
    machine.process(GAME, 1, "game", &[]);
    machine.process(WORKER, 2, "worker", &[]);
    machine.switch(0, 1, task_state::RUNNABLE, GAME);
    machine.switch(1, 1, task_state::RUNNABLE, WORKER);
    machine
}

/// The scheduler's tracepoints from 6.16 on.
struct Scheduler {
    queue: FakeTracepoint,
    run: FakeTracepoint,
    done: FakeTracepoint,
}

impl Scheduler {
    fn new(machine: &mut FakeMachine) -> Self {
        Self {
            queue: FakeTracepoint::new(machine, 20, ("gpu_scheduler", "drm_sched_job_queue"), JOB),
            run: FakeTracepoint::new(machine, 21, ("gpu_scheduler", "drm_sched_job_run"), JOB),
            done: FakeTracepoint::new(
                machine,
                22,
                ("gpu_scheduler", "drm_sched_job_done"),
                JOB_DONE,
            ),
        }
    }
}

fn job(ring: &str, number: u64) -> [FakeValue<'_>; 7] {
    [ring.into(), 1.into(), 0.into(), "0000:03:00.0".into(), 5.into(), number.into(), 42.into()]
}

#[test]
fn jobs_of_amdgpu_before_6_16_learn_their_ring_and_fence_from_the_driver() {
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    // 5.10, where the scheduler's ring is an address.
    let fields: &[FakeField<'_>] = &[
        ("entity", 8),
        ("fence", 8),
        ("name", 8),
        ("id", 8),
        ("job_count", 4),
        ("hw_job_count", 4),
    ];
    let queue = FakeTracepoint::new(&mut machine, 20, ("gpu_scheduler", "drm_sched_job"), fields);
    let run = FakeTracepoint::new(&mut machine, 21, ("gpu_scheduler", "drm_run_job"), fields);
    let done = FakeTracepoint::new(
        &mut machine,
        22,
        ("gpu_scheduler", "drm_sched_process_job"),
        &[("fence", 8)],
    );
    let fields: &[FakeField<'_>] = &[
        ("sched_job_id", 8),
        ("timeline", TEXT),
        ("context", 4),
        ("seqno", 4),
        ("ring", TEXT),
        ("num_ibs", 4),
    ];
    let ioctl = FakeTracepoint::new(&mut machine, 30, ("amdgpu", "amdgpu_cs_ioctl"), fields);
    let runs = FakeTracepoint::new(&mut machine, 31, ("amdgpu", "amdgpu_sched_run_job"), fields);
    // A program's job is announced; the GPU is prepared for it first.
    ioctl.fire(&mut machine, (0, 10), GAME, &driver(1, "gfx".into()));
    queue.fire(&mut machine, (0, 11), GAME, &numbered_job(1));
    run.fire(&mut machine, (1, 20), WORKER, &numbered_job(1));
    runs.fire(&mut machine, (1, 21), WORKER, &driver(1, "gfx".into()));
    fences.init.fire(&mut machine, (1, 22), WORKER, &fence("amdgpu", "gfx", 7, 1));
    fences.init.fire(&mut machine, (1, 23), WORKER, &fence("amdgpu", "gfx", 7, 2));
    // What another ring does meanwhile on that thread is no part of it.
    fences.init.fire(&mut machine, (1, 24), WORKER, &fence("amdgpu", "sdma0", 8, 1));
    fences.signaled.interrupt(&mut machine, (1, 29), WORKER, &fence("amdgpu", "gfx", 7, 1));
    fences.signaled.interrupt(&mut machine, (1, 30), WORKER, &fence("amdgpu", "gfx", 7, 2));
    done.interrupt(&mut machine, (1, 31), WORKER, &[0x9001.into()]);
    fences.signaled.interrupt(&mut machine, (1, 32), WORKER, &fence("amdgpu", "sdma0", 8, 1));
    // The kernel's own job is not; and what was said of a job that never came is not of the next.
    ioctl.fire(&mut machine, (0, 40), WORKER, &driver(9, "sdma0".into()));
    queue.fire(&mut machine, (0, 41), WORKER, &numbered_job(2));
    run.fire(&mut machine, (1, 42), WORKER, &numbered_job(2));
    runs.fire(&mut machine, (1, 43), WORKER, &driver(2, "gfx".into()));
    fences.init.fire(&mut machine, (1, 44), WORKER, &fence("amdgpu", "gfx", 7, 3));
    fences.signaled.interrupt(&mut machine, (1, 50), WORKER, &fence("amdgpu", "gfx", 7, 3));
    done.interrupt(&mut machine, (1, 51), WORKER, &[0x9002.into()]);
    golden::check("gpu_amdgpu_older", &mut golden::open(machine.finish()));
}

fn numbered_job(number: u64) -> [FakeValue<'static>; 6] {
    [0x7000.into(), (0x9000 + number).into(), 0x8000.into(), number.into(), 1.into(), 0.into()]
}

fn driver(number: u64, ring: FakeValue<'_>) -> [FakeValue<'_>; 6] {
    [number.into(), "gfx".into(), 5.into(), (40 + number).into(), ring, 2.into()]
}

#[test]
fn jobs_of_amdgpu_from_6_16_on_are_shown_once_with_what_the_driver_adds() {
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    let scheduler = Scheduler::new(&mut machine);
    let fields: &[FakeField<'_>] = &[
        ("timeline", TEXT),
        ("context", 8),
        ("seqno", 8),
        ("fence", 8),
        ("ring", TEXT),
        ("num_ibs", 4),
    ];
    let ioctl = FakeTracepoint::new(&mut machine, 30, ("amdgpu", "amdgpu_cs_ioctl"), fields);
    let interrupt = FakeTracepoint::new(
        &mut machine,
        31,
        ("amdgpu", "amdgpu_iv"),
        &[("client_id", 4), ("src_id", 4)],
    );
    for number in [1, 2] {
        let values: [FakeValue<'_>; 6] =
            ["gfx_0.0.0".into(), 5.into(), number.into(), 0.into(), "gfx_0.0.0".into(), 3.into()];
        ioctl.fire(&mut machine, (0, 10 * number), GAME, &values);
        scheduler.queue.fire(&mut machine, (0, 10 * number + 1), GAME, &job("gfx_0.0.0", number));
        scheduler.run.fire(&mut machine, (1, 10 * number + 2), WORKER, &job("gfx_0.0.0", number));
        fences.init.fire(
            &mut machine,
            (1, 10 * number + 3),
            WORKER,
            &fence("amdgpu", "gfx_0.0.0", 7, number),
        );
    }
    // From 6.17 on a fence that is signaled names no driver.
    interrupt.interrupt(&mut machine, (1, 40), WORKER, &[20.into(), 181.into()]);
    for number in [1, 2] {
        let detached = fence("detached-driver", "signaled-timeline", 7, number);
        fences.signaled.interrupt(&mut machine, (1, 41 + number), WORKER, &detached);
        scheduler.done.interrupt(
            &mut machine,
            (1, 42 + number),
            WORKER,
            &[5.into(), number.into()],
        );
    }
    golden::check("gpu_amdgpu_newer", &mut golden::open(machine.finish()));
}

#[test]
fn jobs_of_xe_are_found_by_where_their_fences_lie_and_those_given_up_say_so() {
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    let scheduler = Scheduler::new(&mut machine);
    let created = [("dev", TEXT), ("ctx", 8), ("seqno", 4), ("fence", 8)];
    let created = FakeTracepoint::new(&mut machine, 30, ("xe", "xe_hw_fence_create"), &created);
    let fields: &[FakeField<'_>] = &[
        ("dev", TEXT),
        ("seqno", 4),
        ("gt_id", 1),
        ("guc_id", 2),
        ("fence", 8),
        ("batch_addr", 8),
    ];
    let exec = FakeTracepoint::new(&mut machine, 31, ("xe", "xe_sched_job_exec"), fields);
    let timedout = FakeTracepoint::new(&mut machine, 32, ("xe", "xe_sched_job_timedout"), fields);
    let reset = FakeTracepoint::new(
        &mut machine,
        33,
        ("xe", "xe_exec_queue_reset"),
        &[("dev", TEXT), ("guc_id", 2)],
    );
    let device = "0000:03:00.0";
    for number in [1, 2] {
        let address = 0xffff_8000_0000_1000 + number;
        fences.init.fire(&mut machine, (0, 10 * number), GAME, &fence(device, "rcs0", 7, number));
        let fence: [FakeValue<'_>; 4] = [device.into(), 7.into(), number.into(), address.into()];
        created.fire(&mut machine, (0, 10 * number + 1), GAME, &fence);
        exec.fire(&mut machine, (0, 10 * number + 2), GAME, &xe_job(device, number));
        scheduler.queue.fire(&mut machine, (0, 10 * number + 3), GAME, &job("rcs12", number));
        scheduler.run.fire(&mut machine, (1, 10 * number + 4), WORKER, &job("rcs12", number));
    }
    fences.signaled.interrupt(&mut machine, (1, 40), WORKER, &fence(device, "rcs0", 7, 1));
    scheduler.done.interrupt(&mut machine, (1, 41), WORKER, &[5.into(), 1.into()]);
    reset.fire(&mut machine, (1, 50), WORKER, &[device.into(), 12.into()]);
    timedout.fire(&mut machine, (1, 51), WORKER, &xe_job(device, 2));
    machine.gpu_failure(1, 52, failure(7, gpu_failure::FENCE));
    fences.signaled.fire(&mut machine, (1, 53), WORKER, &fence(device, "rcs0", 7, 2));
    machine.gpu_failure(1, 54, failure(5, gpu_failure::SCHEDULER));
    scheduler.done.fire(&mut machine, (1, 55), WORKER, &[5.into(), 2.into()]);
    // A promise to give memory back is no work.
    fences.init.fire(&mut machine, (0, 56), GAME, &fence("xe", "preempt", 9, 1));
    // This one was handed over before the recording.
    timedout.fire(&mut machine, (1, 60), WORKER, &xe_job(device, 3));
    golden::check("gpu_xe", &mut golden::open(machine.finish()));
}

/// What xe says of a job.
fn xe_job(device: &str, number: u64) -> [FakeValue<'_>; 6] {
    let address = 0xffff_8000_0000_1000 + number;
    let batch = 0x10_0000 * number;
    [device.into(), number.into(), 0.into(), 12.into(), address.into(), batch.into()]
}

fn failure(context: u64, told_by: u16) -> GpuFailureRecord {
    GpuFailureRecord {
        tid: WORKER,
        tgid: WORKER,
        error: -62,
        told_by,
        context,
        sequence: 2,
        ..GpuFailureRecord::default()
    }
}

#[test]
fn requests_of_i915_are_jobs_of_their_engine_and_end_with_their_fence() {
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    let fields: &[FakeField<'_>] =
        &[("dev", 4), ("ctx", 8), ("class", 2), ("instance", 2), ("seqno", 4)];
    let mut one =
        |number: u32, name: &str| FakeTracepoint::new(&mut machine, number, ("i915", name), fields);
    let (queue, add, retire) = (
        one(20, "i915_request_queue"),
        one(21, "i915_request_add"),
        one(22, "i915_request_retire"),
    );
    let (wait_begin, wait_end) =
        (one(23, "i915_request_wait_begin"), one(24, "i915_request_wait_end"));
    fences.init.fire(&mut machine, (0, 10), GAME, &fence("i915", "game[100]", 7, 1));
    queue.fire(&mut machine, (0, 11), GAME, &request(0, 1));
    add.fire(&mut machine, (0, 12), GAME, &request(0, 1));
    // The kernel's own request is only added.
    fences.init.fire(&mut machine, (1, 13), WORKER, &fence("i915", "[i915]", 7, 2));
    add.fire(&mut machine, (1, 14), WORKER, &request(1, 2));
    // The kernel's wait has the driver's within; the other wait is the driver's alone.
    fences.wait_start.fire(&mut machine, (0, 20), GAME, &fence("i915", "game[100]", 7, 1));
    wait_begin.fire(&mut machine, (0, 21), GAME, &request(0, 1));
    fences.signaled.interrupt(
        &mut machine,
        (1, 30),
        WORKER,
        &fence("detached-driver", "signaled-timeline", 7, 1),
    );
    wait_end.fire(&mut machine, (0, 31), GAME, &request(0, 1));
    fences.wait_end.fire(
        &mut machine,
        (0, 32),
        GAME,
        &fence("detached-driver", "signaled-timeline", 7, 1),
    );
    wait_begin.fire(&mut machine, (0, 33), GAME, &request(1, 2));
    fences.signaled.interrupt(&mut machine, (1, 40), WORKER, &fence("i915", "[i915]", 7, 2));
    wait_end.fire(&mut machine, (0, 41), GAME, &request(1, 2));
    // Nobody asked for the end of this one until it was cleared away; the fourth was before the
    // recording.
    queue.fire(&mut machine, (0, 50), GAME, &request(2, 3));
    for number in 1..=4 {
        retire.fire(&mut machine, (1, 60 + number), WORKER, &request(2, number));
    }
    golden::check("gpu_i915", &mut golden::open(machine.finish()));
}

fn request(class: u64, number: u64) -> [FakeValue<'static>; 5] {
    [0.into(), 7.into(), class.into(), 0.into(), number.into()]
}
