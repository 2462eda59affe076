//! What the reference machine's GPUs do, as tracepoints of Linux 6.16 and later tell it.
//!
//! - In every other round the server's worker hands two jobs to a queue of the
//!   DRM scheduler, which has both at once; its main thread waits for the second.
//! - In every tenth round the build's second thread makes two fences of a driver
//!   that emits them, and in every tenth two of one that does not.
//! - Single fences go wrong, and one job never ends.

use super::{BUILD, IDLE, ROUNDS, SERVER, begin};
use crate::FakeMachine;
use crate::gpu::{FenceTracepoints, SchedulerTracepoints, fence};
use crate::tracepoint::{FakeTracepoint, FakeValue};
use syscollect_records::{GpuFailureRecord, gpu_failure};

/// What the GPUs show; times are nanoseconds.
pub(super) const PLAN: [(&str, u64); 21] = [
    // Two in every other round, and the one that never ends.
    ("GPU jobs of 0000:03:00.0 gfx", 101),
    // 100 µs each: the second runs when the first has ended.
    ("GPU time of 0000:03:00.0 gfx", 10_000_000),
    // 15 µs and 105 µs; 10 µs of the one that never ends.
    ("GPU delay of 0000:03:00.0 gfx", 6_010_000),
    // From submission to end: 115 µs and 205 µs.
    ("GPU latency of 0000:03:00.0 gfx", 16_000_000),
    // Two in every tenth round; one whose fence is used again, and that one; one that is gone; one
    // of which the end comes first; one that ends with an error.
    ("GPU jobs of radeon ring", 25),
    // 65 µs and 10 µs; 8 µs, 28 µs, 28 µs.
    ("GPU time of radeon ring", 814_000),
    // 5 µs and 69 µs; 2 µs, 2 µs, 2 µs.
    ("GPU delay of radeon ring", 746_000),
    // 70 µs and 79 µs; 10 µs, 30 µs, 30 µs.
    ("GPU latency of radeon ring", 1_560_000),
    ("GPU jobs of vgem unbound", 20),
    // 50 µs each.
    ("GPU latency of vgem unbound", 1_000_000),
    ("GPU jobs by server / worker", 100),
    ("GPU jobs by server / server", 1),
    ("GPU jobs by build / jobs", 44),
    // The second of the scheduler's in every tenth round; the one that is gone, the one with an
    // error.
    ("GPU jobs that failed", 12),
    ("GPU errors ETIMEDOUT (-110)", 11),
    ("GPU jobs that never ended", 2),
    ("GPU jobs without a beginning", 1),
    // From 395 µs of a round to 305 µs of the next.
    ("time of waits for a fence", 45_500_000),
    ("fences signaled by an interrupt", 40),
    ("fences signaled by jobs (301)", 10),
    ("frames CRTC 0", 100),
];

/// The context of the scheduler's fences.
const GFX: u64 = 7;
/// That of the fences of a driver without it.
const RADEON: u64 = 5;
/// The tracepoints.
pub(super) struct Gpus {
    fences: FenceTracepoints,
    jobs: SchedulerTracepoints,
    vblank: FakeTracepoint,
}

/// The scheduler's own fence of a job.
fn finished(number: u64) -> [FakeValue<'static>; 4] {
    fence("drm_sched", "gfx", GFX, number)
}

fn radeon(sequence: u64) -> [FakeValue<'static>; 4] {
    fence("radeon", "ring", RADEON, sequence)
}

fn vgem(sequence: u64) -> [FakeValue<'static>; 4] {
    fence("vgem", "unbound", 9, sequence)
}

fn job(number: u64) -> [FakeValue<'static>; 7] {
    ["gfx".into(), 2.into(), 1.into(), "0000:03:00.0".into(), GFX.into(), number.into(), 42.into()]
}

/// A timeout, told before the record that says what ended.
fn failure(context: u64, sequence: u64, told_by: u16, tid: u32) -> GpuFailureRecord {
    let fence = 0xffff_8000_0000_0000 | context << 32 | sequence;
    GpuFailureRecord {
        tid,
        tgid: tid,
        error: -110,
        told_by,
        fence,
        context,
        sequence,
        ..GpuFailureRecord::default()
    }
}

impl Gpus {
    pub(super) fn new(machine: &mut FakeMachine) -> Self {
        Self {
            fences: FenceTracepoints::new(machine),
            jobs: SchedulerTracepoints::new(machine),
            vblank: FakeTracepoint::new(
                machine,
                30,
                ("drm", "drm_vblank_event"),
                &[("crtc", 4), ("seq", 4)],
            ),
        }
    }

    pub(super) fn round(&self, m: &mut FakeMachine, round: u64) {
        let us = begin(round);
        self.vblank.interrupt(m, (0, us + 5), IDLE, &[0.into(), round.into()]);
        if round.is_multiple_of(2) {
            self.scheduled(m, us, (2 * round, 2 * round + 1), round % 10);
        } else {
            self.fences.wait_end.fire(m, (0, us + 305), SERVER[0], &finished(2 * round - 1));
        }
        match round % 10 {
            0 => self.emitted(m, us, (2 * round, 2 * round + 1)),
            2 => self.not_emitted(m, us, (2 * round, 2 * round + 1)),
            _ => {}
        }
        match round {
            5..=7 | 9 => self.gone_wrong(m, us, round),
            _ if round == ROUNDS - 1 => {
                self.jobs.queue.fire(m, (0, us + 320), SERVER[0], &job(9_999));
                self.jobs.run.fire(m, (1, us + 330), BUILD[0], &job(9_999));
            }
            _ => {}
        }
    }

    /// Two jobs of the worker, of which the main thread waits for the second; that one fails, or a
    /// thread and not an interrupt signals it.
    fn scheduled(&self, m: &mut FakeMachine, us: u64, (first, second): (u64, u64), digit: u64) {
        let (context, two) = (FakeValue::Number(GFX), [first, second]);
        for (at, number) in [230, 240].into_iter().zip(two) {
            self.jobs.queue.fire(m, (0, us + at), SERVER[1], &job(number));
        }
        self.jobs.needs.fire(
            m,
            (0, us + 241),
            SERVER[1],
            &[context, second.into(), context, first.into()],
        );
        for (at, number) in [245, 250].into_iter().zip(two) {
            self.jobs.run.fire(m, (1, us + at), BUILD[0], &job(number));
        }
        self.fences.wait_start.fire(m, (0, us + 395), SERVER[0], &finished(second));
        for (at, number) in [345, 445].into_iter().zip(two) {
            if (digit, number) == (8, second) {
                m.gpu_failure(1, us + at, failure(GFX, second, gpu_failure::SCHEDULER, BUILD[0]));
            }
            self.jobs.done.interrupt(m, (1, us + at), BUILD[0], &[context, number.into()]);
        }
        match digit {
            4 => return self.fences.signaled.fire(m, (1, us + 510), BUILD[1], &finished(second)),
            8 => m.gpu_failure(1, us + 446, failure(GFX, second, gpu_failure::FENCE, BUILD[0])),
            _ => {}
        }
        self.fences.signaled.interrupt(m, (1, us + 446), BUILD[0], &finished(second));
    }

    fn emitted(&self, m: &mut FakeMachine, us: u64, (first, second): (u64, u64)) {
        for (later, number) in [(0, first), (1, second)] {
            self.fences.init.fire(m, (1, us + 510 + later), BUILD[1], &radeon(number));
            self.fences.emit.fire(m, (1, us + 515 + later), BUILD[1], &radeon(number));
            self.fences.signaled.interrupt(m, (0, us + 580 + 10 * later), IDLE, &radeon(number));
        }
    }

    /// Nobody knows when the GPU began with them.
    fn not_emitted(&self, m: &mut FakeMachine, us: u64, (first, second): (u64, u64)) {
        for (later, number) in [(0, first), (10, second)] {
            self.fences.init.fire(m, (1, us + 510 + later), BUILD[1], &vgem(number));
            self.fences.signaled.fire(m, (1, us + 560 + later), BUILD[1], &vgem(number));
        }
    }

    fn gone_wrong(&self, m: &mut FakeMachine, us: u64, round: u64) {
        match round {
            // It is used again before its end.
            5 => {
                self.fences.init.fire(m, (1, us + 510), BUILD[1], &radeon(1_000));
                self.fences.init.fire(m, (1, us + 520), BUILD[1], &radeon(1_000));
                self.fences.emit.fire(m, (1, us + 522), BUILD[1], &radeon(1_000));
                self.fences.signaled.interrupt(m, (0, us + 530), IDLE, &radeon(1_000));
            }
            // Its end comes first.
            6 => {
                self.fences.signaled.interrupt(m, (0, us + 530), IDLE, &radeon(2_000));
                self.fences.emit.fire(m, (1, us + 531), BUILD[1], &radeon(2_000));
            }
            // Nobody ever signals it, and it is gone.
            7 => {
                self.fences.init.fire(m, (1, us + 510), BUILD[1], &radeon(3_000));
                self.fences.emit.fire(m, (1, us + 512), BUILD[1], &radeon(3_000));
                self.fences.destroy.fire(m, (1, us + 540), BUILD[1], &radeon(3_000));
            }
            // It ends with an error.
            _ => {
                self.fences.init.fire(m, (1, us + 510), BUILD[1], &radeon(4_000));
                self.fences.emit.fire(m, (1, us + 512), BUILD[1], &radeon(4_000));
                m.gpu_failure(0, us + 540, failure(RADEON, 4_000, gpu_failure::FENCE, IDLE));
                self.fences.signaled.interrupt(m, (0, us + 540), IDLE, &radeon(4_000));
            }
        }
    }
}
