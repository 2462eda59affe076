//! Scenarios of GPUs whose work failed: a program tells the error just before the
//! tracepoint tells the end.

use syscollect_model::{Lane, LaneKind};
use syscollect_records::{GpuFailureRecord, Stamp, gpu_failure, task_state};
use syscollect_tests::gpu::{self, FENCE};
use syscollect_tests::tracepoint::{FakeField, FakeTracepoint, FakeValue, TEXT};
use syscollect_tests::{FakeMachine, golden};

const ETIME: i32 = -62;
const ECANCELED: i32 = -125;
const ESRCH: i32 = -3;
const EIO: i32 = -5;

/// What tells of fences: include/trace/events/dma_fence.h, 5.10 to 7.2.
struct Fences {
    init: FakeTracepoint,
    signaled: FakeTracepoint,
}

impl Fences {
    fn new(machine: &mut FakeMachine) -> Self {
        Self {
            init: FakeTracepoint::new(machine, 1, ("dma_fence", "dma_fence_init"), FENCE),
            signaled: FakeTracepoint::new(machine, 2, ("dma_fence", "dma_fence_signaled"), FENCE),
        }
    }
}

fn fence<'a>(driver: &'a str, context: u64, sequence: u64) -> [FakeValue<'a>; 4] {
    gpu::fence(driver, "ring", context, sequence)
}

/// A machine with a program, and a thread that is interrupted.
fn machine() -> FakeMachine {
    let mut machine = FakeMachine::new(2);
    machine.process(100, 1, "game", &[]);
    machine.process(200, 1, "worker", &[]);
    machine.switch(0, 1, task_state::RUNNABLE, 100);
    machine.switch(1, 1, task_state::RUNNABLE, 200);
    machine
}

fn fails(machine: &mut FakeMachine, us: u64, (context, sequence): (u64, u64), error: i32) {
    let record = GpuFailureRecord {
        context,
        sequence,
        error,
        fence: 0xffff_1000 + sequence,
        ..Default::default()
    };
    machine.gpu_failure(1, us, record);
}

fn job_fails(
    machine: &mut FakeMachine,
    us: u64,
    address: u64,
    (context, sequence): (u64, u64),
    error: i32,
) {
    let told_by = gpu_failure::SCHEDULER;
    machine.gpu_failure(
        1,
        us,
        GpuFailureRecord {
            context,
            sequence,
            error,
            fence: address,
            told_by,
            ..Default::default()
        },
    );
}

/// What a capture told, and how many failures nothing shows.
fn check(name: &str, machine: FakeMachine) -> u64 {
    let mut session = golden::open(machine.finish());
    golden::check(name, &mut session);
    golden::text(&mut session).1.unshown_failures
}

#[test]
fn a_fence_that_is_signaled_with_an_error_is_a_job_that_failed() {
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    let m = &mut machine;
    fences.init.fire(m, (0, 10), 100, &fence("radeon", 5, 1));
    fences.init.fire(m, (0, 11), 100, &fence("radeon", 5, 2));
    fails(m, 20, (5, 1), ETIME);
    fences.signaled.interrupt(m, (1, 20), 200, &fence("radeon", 5, 1));
    fences.signaled.interrupt(m, (1, 22), 200, &fence("radeon", 5, 2));
    // Tracepoints tell half of the numbers.
    fences.init.fire(m, (0, 30), 100, &fence("radeon", 6, 3));
    fails(m, 35, (1 << 32 | 6, 7 << 32 | 3), -4000);
    fences.signaled.interrupt(m, (1, 35), 200, &fence("detached-driver", 6, 3));
    // Its beginning was before the recording; and one that stands for others is nobody's work.
    fails(m, 40, (5, 4), ECANCELED);
    fences.signaled.interrupt(m, (1, 40), 200, &fence("radeon", 5, 4));
    fails(m, 45, (8, 1), ECANCELED);
    fences.signaled.interrupt(m, (1, 45), 200, &fence("dma_fence_array", 8, 1));
    assert_eq!(check("gpu_failed_fences", machine), 0);
}

#[test]
fn a_job_of_the_scheduler_that_is_given_up_failed_by_its_older_names() {
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    let fields: &[FakeField<'_>] = &[
        ("entity", 8),
        ("fence", 8),
        ("name", TEXT),
        ("id", 8),
        ("job_count", 4),
        ("hw_job_count", 4),
    ];
    let of_dependency = [("name", TEXT), ("id", 8), ("fence", 8), ("ctx", 8), ("seqno", 4)];
    let queue = FakeTracepoint::new(&mut machine, 20, ("gpu_scheduler", "drm_sched_job"), fields);
    let needs = FakeTracepoint::new(
        &mut machine,
        21,
        ("gpu_scheduler", "drm_sched_job_wait_dep"),
        &of_dependency,
    );
    let run = FakeTracepoint::new(&mut machine, 22, ("gpu_scheduler", "drm_run_job"), fields);
    let done = FakeTracepoint::new(
        &mut machine,
        23,
        ("gpu_scheduler", "drm_sched_process_job"),
        &[("fence", 8)],
    );
    let m = &mut machine;
    for number in [1, 2] {
        queue.fire(m, (0, 10 + number), 100, &addressed_job(number));
        // `fence` is where the other fence lies.
        let dependency = 0xffff_7000_u64;
        needs.fire(
            m,
            (1, 12 + number),
            200,
            &["gfx".into(), number.into(), dependency.into(), 3.into(), number.into()],
        );
        run.fire(m, (1, 18 + number), 200, &addressed_job(number));
        fences.init.fire(m, (1, 19 + number), 200, &fence("amdgpu", 7, number));
    }
    // The driver's fence tells first, then the scheduler, then the scheduler's own fence.
    fails(m, 30, (7, 1), ETIME);
    fences.signaled.fire(m, (1, 30), 200, &fence("amdgpu", 7, 1));
    job_fails(m, 31, address(1), (5, 1), ETIME);
    done.fire(m, (1, 31), 200, &[address(1).into()]);
    fails(m, 32, (5, 1), ETIME);
    fences.signaled.fire(m, (1, 32), 200, &fence("drm_sched", 5, 1));
    fences.signaled.fire(m, (1, 40), 200, &fence("amdgpu", 7, 2));
    done.fire(m, (1, 41), 200, &[address(2).into()]);
    fences.signaled.fire(m, (1, 42), 200, &fence("drm_sched", 5, 2));
    // Handed over before the recording.
    job_fails(m, 50, address(9), (5, 9), ECANCELED);
    done.fire(m, (1, 50), 200, &[address(9).into()]);
    fails(m, 51, (5, 9), ECANCELED);
    fences.signaled.fire(m, (1, 51), 200, &fence("drm_sched", 5, 9));
    assert_eq!(check("gpu_failed_jobs_older", machine), 0);
}

fn addressed_job(number: u64) -> [FakeValue<'static>; 6] {
    [
        0xffff_8000_u64.into(),
        address(number).into(),
        "gfx".into(),
        number.into(),
        1.into(),
        0.into(),
    ]
}

fn address(number: u64) -> u64 {
    0xffff_9000 + number
}

#[test]
fn a_job_of_the_scheduler_that_is_given_up_or_never_run_failed_by_its_newer_names() {
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    let fields: &[FakeField<'_>] =
        &[("name", TEXT), ("dev", TEXT), ("fence_context", 8), ("fence_seqno", 8)];
    let of_fence: &[FakeField<'_>] = &[("fence_context", 8), ("fence_seqno", 8)];
    let queue =
        FakeTracepoint::new(&mut machine, 20, ("gpu_scheduler", "drm_sched_job_queue"), fields);
    let run = FakeTracepoint::new(&mut machine, 21, ("gpu_scheduler", "drm_sched_job_run"), fields);
    let done =
        FakeTracepoint::new(&mut machine, 22, ("gpu_scheduler", "drm_sched_job_done"), of_fence);
    let m = &mut machine;
    for number in [1, 2] {
        queue.fire(m, (0, 10 + number), 100, &named_job(number));
    }
    run.fire(m, (1, 20), 200, &named_job(1));
    fences.init.fire(m, (1, 21), 200, &fence("amdgpu", 7, 1));
    fails(m, 30, (7, 1), ETIME);
    fences.signaled.fire(m, (1, 30), 200, &fence("detached-driver", 7, 1));
    job_fails(m, 31, 0xffff_9001, (5, 1), ETIME);
    done.fire(m, (1, 31), 200, &[5.into(), 1.into()]);
    fails(m, 32, (5, 1), ETIME);
    fences.signaled.fire(m, (1, 32), 200, &fence("detached-driver", 5, 1));
    // Its program ended, so the scheduler does not run it: only its fence tells.
    fails(m, 40, (5, 2), ESRCH);
    fences.signaled.fire(m, (1, 40), 200, &fence("detached-driver", 5, 2));
    // For these the driver has no fence: one was nothing to do, the other it refused.
    for number in [3, 4] {
        queue.fire(m, (0, 50 + number), 100, &named_job(number));
        run.fire(m, (1, 55 + 10 * number), 200, &named_job(number));
        job_fails(m, 56 + 10 * number, 0xffff_9000 + number, (5, number), 0);
        done.fire(m, (1, 56 + 10 * number), 200, &[5.into(), number.into()]);
        if number == 4 {
            fails(m, 57 + 10 * number, (5, number), EIO);
        }
        fences.signaled.fire(m, (1, 57 + 10 * number), 200, &fence("detached-driver", 5, number));
    }
    assert_eq!(check("gpu_failed_jobs_newer", machine), 0);
}

fn named_job(number: u64) -> [FakeValue<'static>; 4] {
    ["gfx".into(), "card0".into(), 5.into(), number.into()]
}

#[test]
fn a_failure_needs_no_end_and_one_without_a_job_or_after_it_is_counted() {
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    let lane = Lane::new(LaneKind::Tracepoint, 1);
    let m = &mut machine;
    fences.init.fire(m, (0, 10), 100, &fence("radeon", 5, 1));
    fails(m, 20, (5, 1), ETIME);
    m.end_chunk(lane);
    fences.signaled.fire(m, (1, 20), 200, &fence("radeon", 5, 1));
    assert_eq!(m.drop_chunk(lane), 1, "its end is lost");
    // Nobody knows this one; and of this one another program told the end before.
    fails(m, 30, (5, 2), ETIME);
    fences.init.fire(m, (0, 35), 100, &fence("radeon", 5, 3));
    fences.signaled.fire(m, (1, 40), 200, &fence("radeon", 5, 3));
    fails(m, 40, (5, 3), ETIME);
    assert_eq!(check("gpu_failed_alone", machine), 2);
}

#[test]
fn a_record_of_a_kind_that_is_not_known_hides_no_other() {
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    let m = &mut machine;
    fences.init.fire(m, (0, 10), 100, &fence("radeon", 5, 1));
    // As older readers see a failure.
    let record = GpuFailureRecord {
        stamp: Stamp(syscollect_tests::ticks(15) << 8 | 99),
        bytes: 24,
        ..Default::default()
    };
    m.push_after(Lane::new(LaneKind::Tracepoint, 0), 15, &[], record.as_bytes());
    fences.signaled.fire(m, (0, 20), 100, &fence("radeon", 5, 1));
    let (lines, played) = golden::text(&mut golden::open(machine.finish()));
    assert!(lines.contains("ring finished of game/100") && lines.contains("fence=5:1"), "{lines}");
    assert_eq!(played.lost, 1, "{lines}");
}

#[test]
fn a_job_fails_with_its_own_fence_unless_the_scheduler_tries_it_again() {
    // Kernels before 5.11 tell of the drivers' fences only.
    let mut machine = machine();
    let fences = Fences::new(&mut machine);
    let fields: &[FakeField<'_>] = &[("fence", 8), ("name", TEXT), ("id", 8)];
    let queue = FakeTracepoint::new(&mut machine, 20, ("gpu_scheduler", "drm_sched_job"), fields);
    let run = FakeTracepoint::new(&mut machine, 22, ("gpu_scheduler", "drm_run_job"), fields);
    let done = FakeTracepoint::new(
        &mut machine,
        23,
        ("gpu_scheduler", "drm_sched_process_job"),
        &[("fence", 8)],
    );
    let m = &mut machine;
    for number in [1, 2] {
        queue.fire(m, (0, 10 + number), 100, &job(number));
        run.fire(m, (1, 17 + 2 * number), 200, &job(number));
        fences.init.fire(m, (1, 18 + 2 * number), 200, &fence("amdgpu", 7, number));
    }
    for number in [1, 2] {
        fails(m, 29 + number, (7, number), ECANCELED);
        fences.signaled.fire(m, (1, 29 + number), 200, &fence("amdgpu", 7, number));
    }
    done.fire(m, (1, 35), 200, &[0xffff_9001_u64.into()]);
    run.fire(m, (1, 40), 200, &job(2));
    fences.init.fire(m, (1, 41), 200, &fence("amdgpu", 7, 3));
    fences.signaled.fire(m, (1, 50), 200, &fence("amdgpu", 7, 3));
    done.fire(m, (1, 51), 200, &[0xffff_9002_u64.into()]);
    assert_eq!(check("gpu_failed_tries", machine), 0);
}

fn job(number: u64) -> [FakeValue<'static>; 3] {
    [(0xffff_9000 + number).into(), "ring".into(), number.into()]
}
