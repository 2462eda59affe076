//! Scenarios of GPUs as their drivers' tracepoints tell them, told again as text.

use syscollect_model::{Lane, LaneKind};
use syscollect_records::{TracepointRecord, task_state};
use syscollect_tests::gpu::{self, FenceTracepoints, SchedulerTracepoints};
use syscollect_tests::tracepoint::{FakeField, FakeTracepoint, FakeValue, TEXT};
use syscollect_tests::{FakeMachine, golden};

fn fence<'a>(driver: &'a str, context: u64, sequence: u64) -> [FakeValue<'a>; 4] {
    gpu::fence(driver, "ring", context, sequence)
}

/// A machine with a program that has two threads.
fn machine() -> FakeMachine {
    let mut machine = FakeMachine::new(2);
    machine.process(100, 1, "game", &[]);
    machine.process(200, 1, "viewer", &[]);
    machine.switch(0, 1, task_state::RUNNABLE, 100);
    machine.switch(1, 1, task_state::RUNNABLE, 200);
    machine
}

#[test]
fn fences_are_jobs_of_the_thread_that_made_them_and_those_that_go_wrong_say_so() {
    let mut machine = machine();
    let fences = FenceTracepoints::new(&mut machine);
    // All goes well, and an interrupt ends it.
    fences.init.fire(&mut machine, at(10), 100, &fence("radeon", 5, 1));
    fences.emit.fire(&mut machine, at(12), 100, &fence("radeon", 5, 1));
    fences.signaled.interrupt(&mut machine, (1, 20), 200, &fence("radeon", 5, 1));
    fences.destroy.fire(&mut machine, at(21), 100, &fence("radeon", 5, 1));
    // It is used again before its end.
    fences.init.fire(&mut machine, at(30), 100, &fence("radeon", 5, 2));
    fences.init.fire(&mut machine, at(35), 100, &fence("radeon", 5, 2));
    fences.signaled.fire(&mut machine, at(40), 100, &fence("radeon", 5, 2));
    // Its beginning was before the recording.
    fences.signaled.fire(&mut machine, at(45), 100, &fence("radeon", 5, 3));
    // Its end comes before it is emitted.
    fences.signaled.fire(&mut machine, at(50), 100, &fence("radeon", 5, 4));
    fences.emit.fire(&mut machine, at(51), 100, &fence("radeon", 5, 4));
    // Nobody ever signals it, and it is gone; nobody ever signals this one, and it stays.
    fences.init.fire(&mut machine, at(60), 100, &fence("radeon", 5, 5));
    fences.destroy.fire(&mut machine, at(65), 100, &fence("radeon", 5, 5));
    fences.init.fire(&mut machine, at(70), 100, &fence("radeon", 5, 6));
    // From 6.17 on a signaled fence has no driver any more; and some only stand for others.
    fences.init.fire(&mut machine, at(80), 100, &fence("radeon", 5, 7));
    fences.signaled.fire(&mut machine, at(82), 100, &fence("detached-driver", 5, 7));
    fences.signaled.fire(&mut machine, at(84), 100, &fence("detached-driver", 9, 9));
    fences.init.fire(&mut machine, at(86), 100, &fence("dma_fence_array", 8, 1));
    fences.signaled.fire(&mut machine, at(88), 100, &fence("dma_fence_array", 8, 1));
    golden::check("gpu_fences", &mut golden::open(machine.finish()));
}

fn at(us: u64) -> (u16, u64) {
    (0, us)
}

#[test]
fn a_thread_that_waits_for_a_fence_shows_it_and_who_signaled_it_or_that_nobody_did() {
    let mut machine = machine();
    let fences = FenceTracepoints::new(&mut machine);
    fences.init.fire(&mut machine, (0, 10), 100, &fence("radeon", 5, 1));
    fences.wait_start.fire(&mut machine, (1, 20), 200, &fence("radeon", 5, 1));
    fences.signaled.fire(&mut machine, (0, 30), 100, &fence("radeon", 5, 1));
    fences.wait_end.fire(&mut machine, (1, 33), 200, &fence("radeon", 5, 1));
    // An interrupt signals it while the thread waits; then it is signaled already.
    fences.wait_start.fire(&mut machine, (1, 34), 200, &fence("radeon", 5, 3));
    fences.signaled.interrupt(&mut machine, (1, 35), 200, &fence("radeon", 5, 3));
    fences.wait_end.fire(&mut machine, (1, 36), 200, &fence("radeon", 5, 3));
    fences.wait_start.fire(&mut machine, (1, 37), 200, &fence("radeon", 5, 3));
    fences.wait_end.fire(&mut machine, (1, 38), 200, &fence("radeon", 5, 3));
    // The wait began before the recording; this one is not over.
    fences.wait_end.fire(&mut machine, (0, 40), 100, &fence("radeon", 5, 1));
    fences.wait_start.fire(&mut machine, (1, 50), 200, &fence("radeon", 5, 2));
    golden::check("gpu_waits", &mut golden::open(machine.finish()));
}

#[test]
fn jobs_of_the_scheduler_are_told_once_by_its_older_names() {
    let mut machine = machine();
    let fences = FenceTracepoints::new(&mut machine);
    let fields: &[FakeField<'_>] = &[
        ("entity", 8),
        ("fence", 8),
        ("name", TEXT),
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
    for (us, number) in [(10, 1), (12, 2)] {
        // The scheduler's own fences say nothing that its tracepoints do not.
        fences.init.fire(&mut machine, (0, us), 100, &fence("drm_sched", 5, number));
        queue.fire(&mut machine, (0, us + 1), 100, &scheduler_job(0xffff_9000 + number, number));
    }
    for (us, number) in [(20, 1), (30, 2)] {
        run.fire(&mut machine, (1, us), 200, &scheduler_job(0xffff_9000 + number, number));
        fences.init.fire(&mut machine, (1, us + 1), 200, &fence("amdgpu", 7, number));
        fences.signaled.interrupt(&mut machine, (1, us + 20), 200, &fence("amdgpu", 7, number));
        done.interrupt(&mut machine, (1, us + 21), 200, &[(0xffff_9000 + number).into()]);
        fences.signaled.interrupt(&mut machine, (1, us + 22), 200, &fence("drm_sched", 5, number));
    }
    golden::check("gpu_scheduler_older", &mut golden::open(machine.finish()));
}

fn scheduler_job(address: u64, id: u64) -> [FakeValue<'static>; 6] {
    [0xffff_8000_u64.into(), address.into(), "gfx_0.0.0".into(), id.into(), 1.into(), 0.into()]
}

#[test]
fn jobs_of_the_scheduler_name_their_fences_and_what_they_wait_for_by_its_newer_names() {
    let mut machine = machine();
    let SchedulerTracepoints { queue, run, done, needs } = SchedulerTracepoints::new(&mut machine);
    let context = FakeValue::Number(0x1_0000_0007);
    queue.fire(&mut machine, (0, 10), 100, &i915_job(1));
    queue.fire(&mut machine, (0, 12), 100, &i915_job(2));
    needs.fire(&mut machine, (0, 13), 100, &[context, 2.into(), 3.into(), 9.into()]);
    run.fire(&mut machine, (1, 20), 200, &i915_job(1));
    run.fire(&mut machine, (1, 22), 200, &i915_job(2));
    done.interrupt(&mut machine, (1, 30), 200, &[context, 1.into()]);
    done.interrupt(&mut machine, (1, 45), 200, &[context, 2.into()]);
    // Queued, and never run.
    queue.fire(&mut machine, (0, 50), 100, &i915_job(3));
    golden::check("gpu_scheduler_newer", &mut golden::open(machine.finish()));
}

fn i915_job(number: u64) -> [FakeValue<'static>; 7] {
    let (context, client) = (0x1_0000_0007_u64, 42_u64);
    [
        "gfx".into(),
        2.into(),
        1.into(),
        "0000:03:00.0".into(),
        context.into(),
        number.into(),
        client.into(),
    ]
}

#[test]
fn commands_of_a_virtual_gpu_are_jobs_and_what_it_shows_are_frames() {
    let mut machine = machine();
    let fields: &[FakeField<'_>] = &[
        ("dev", 4),
        ("vq", 4),
        ("name", TEXT),
        ("type", 4),
        ("flags", 4),
        ("fence_id", 8),
        ("ctx_id", 4),
        ("num_free", 4),
        ("seqno", 4),
    ];
    let queue =
        FakeTracepoint::new(&mut machine, 1, ("virtio_gpu", "virtio_gpu_cmd_queue"), fields);
    let response =
        FakeTracepoint::new(&mut machine, 2, ("virtio_gpu", "virtio_gpu_cmd_response"), fields);
    let blank = FakeTracepoint::new(
        &mut machine,
        3,
        ("drm", "drm_vblank_event"),
        &[("crtc", 4), ("seq", 4)],
    );
    let shown = [("file", 8), ("crtc", 4), ("seq", 4)];
    let flip = FakeTracepoint::new(&mut machine, 4, ("drm", "drm_vblank_event_delivered"), &shown);
    let memory = [("gpu_id", 4), ("pid", 4), ("size", 8)];
    let memory = FakeTracepoint::new(&mut machine, 5, ("gpu_mem", "gpu_mem_total"), &memory);
    queue.fire(&mut machine, (0, 10), 100, &control_command(0x105, 1));
    queue.fire(&mut machine, (0, 11), 100, &control_command(0x104, 2));
    response.interrupt(&mut machine, (0, 20), 100, &control_command(0x1100, 1));
    response.interrupt(&mut machine, (0, 21), 100, &control_command(0x1100, 2));
    for (us, frame) in [(30, 1), (46, 2), (63, 3)] {
        blank.interrupt(&mut machine, (0, us), 100, &[0.into(), frame.into()]);
        flip.interrupt(
            &mut machine,
            (0, us + 1),
            100,
            &[0xffff_7000_u64.into(), 1.into(), frame.into()],
        );
    }
    memory.fire(&mut machine, (0, 70), 100, &[0.into(), 100.into(), 4096.into()]);
    golden::check("gpu_virtual", &mut golden::open(machine.finish()));
}

fn control_command(kind: u64, sequence: u64) -> [FakeValue<'static>; 9] {
    [
        0.into(),
        0.into(),
        "control".into(),
        kind.into(),
        0.into(),
        0.into(),
        0.into(),
        9.into(),
        sequence.into(),
    ]
}

#[test]
fn commands_without_numbers_are_answered_in_the_order_in_which_they_were_queued() {
    // Kernels before 6.3 do not number them.
    let mut machine = machine();
    let fields: &[FakeField<'_>] = &[("dev", 4), ("vq", 4), ("name", TEXT), ("type", 4)];
    let queue =
        FakeTracepoint::new(&mut machine, 1, ("virtio_gpu", "virtio_gpu_cmd_queue"), fields);
    let response =
        FakeTracepoint::new(&mut machine, 2, ("virtio_gpu", "virtio_gpu_cmd_response"), fields);
    // Queued before the recording.
    response.interrupt(&mut machine, (0, 5), 100, &short_command(0x1100));
    for (us, kind) in [(10, 0x101), (12, 0x106), (14, 0x104)] {
        queue.fire(&mut machine, (0, us), 100, &short_command(kind));
    }
    for us in [20, 24] {
        response.interrupt(&mut machine, (0, us), 100, &short_command(0x1100));
    }
    golden::check("gpu_virtual_unnumbered", &mut golden::open(machine.finish()));
}

fn short_command(kind: u64) -> [FakeValue<'static>; 4] {
    [3.into(), 1.into(), "control".into(), kind.into()]
}

#[test]
fn what_was_lost_leaves_jobs_that_say_so_and_no_other() {
    let mut machine = machine();
    let fences = FenceTracepoints::new(&mut machine);
    let lane = Lane::new(LaneKind::Tracepoint, 0);
    fences.init.fire(&mut machine, (0, 10), 100, &fence("radeon", 5, 1));
    machine.end_chunk(lane);
    fences.signaled.fire(&mut machine, (0, 20), 100, &fence("radeon", 5, 1));
    fences.init.fire(&mut machine, (0, 22), 100, &fence("radeon", 5, 2));
    machine.drop_chunk(lane);
    fences.signaled.fire(&mut machine, (0, 30), 100, &fence("radeon", 5, 2));
    // Nobody has defined this one, and this one is cut.
    machine.tracepoint(
        0,
        40,
        TracepointRecord { tracepoint: 77, ..TracepointRecord::default() },
        &[0; 16],
    );
    machine.tracepoint(
        0,
        41,
        TracepointRecord { tracepoint: 1, ..TracepointRecord::default() },
        &[0; 8],
    );
    golden::check("gpu_lost", &mut golden::open(machine.finish()));
}
