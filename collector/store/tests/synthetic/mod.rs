//! Scheduling records as the lanes produce them, without a kernel: the same
//! numbers on every run. Shared by tests and benches.
#![allow(dead_code, reason = "each user needs a part of it")]

use syscollect_records::{RecordKind, SchedRecord, SchedStackRecord, Stamp, task_state};

/// xorshift64*: small, and good enough to look like jitter.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number, all 64 bits of it random.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Ticks between two events: exponential around `mean`, after a fixed minimum.
    fn pause(&mut self, minimum: u64, mean: u64) -> u64 {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        minimum + (-(1.0 - uniform).ln() * mean as f64) as u64
    }
}

/// `count` records of `threads` threads on one of 8 CPUs at 2.1 GHz: wakeups,
/// switches to the woken and back, to idle, preemption. Two threads are a
/// ping-pong: a wakeup and a switch every 1.5 microseconds or so.
pub(crate) fn sched(threads: u64, count: usize) -> Vec<SchedRecord> {
    let mut random = Random(threads ^ 0x9E37_79B9_7F4A_7C15);
    let mut ticks = 0x0004_5678_9ABC_DEF0u64;
    // Thread ids as a machine hands them out: neighbours, in a few groups.
    let tids: Vec<u32> = (0..threads).map(|n| 210_000 + (n / 40 * 1_733 + n) as u32).collect();
    let mut turn = 0;
    let mut out = Vec::with_capacity(count);
    while out.len() < count {
        if threads == 2 {
            turn = 1 - turn;
            ticks += random.pause(1_300, 300);
            out.push(SchedRecord {
                state: 3,
                prio: 120,
                ..record(ticks, RecordKind::Waking, tids[turn])
            });
            ticks += random.pause(1_000, 250);
            let state = task_state::INTERRUPTIBLE;
            out.push(SchedRecord {
                state,
                prio: 120,
                next_prio: 120,
                ..record(ticks, RecordKind::Switch, tids[turn])
            });
            continue;
        }
        // A few threads run often, most seldom.
        let one = tids[(random.below(threads) * random.below(threads) / threads) as usize];
        ticks += random.pause(700, 12_000);
        let cpu = random.below(8) as u8;
        out.push(SchedRecord { state: cpu, prio: 120, ..record(ticks, RecordKind::Waking, one) });
        ticks += random.pause(900, 5_000);
        let next = if random.below(4) == 0 { 0 } else { one };
        let (state, flags) = match random.below(10) {
            0 => (task_state::RUNNABLE, 1),
            1 => (task_state::UNINTERRUPTIBLE, 2),
            _ => (task_state::INTERRUPTIBLE, 0),
        };
        out.push(SchedRecord {
            state,
            flags,
            prio: 120,
            next_prio: 120,
            ..record(ticks, RecordKind::Switch, next)
        });
    }
    out.truncate(count);
    out
}

fn record(ticks: u64, kind: RecordKind, tid: u32) -> SchedRecord {
    SchedRecord { stamp: Stamp::new(ticks, kind), tid, ..Default::default() }
}

/// The same as bytes.
pub(crate) fn sched_bytes(threads: u64, count: usize) -> Vec<u8> {
    sched(threads, count).iter().flat_map(|record| record.as_bytes().to_vec()).collect()
}

/// The same with the ids of stacks: each thread comes from a few places.
pub(crate) fn sched_stack_bytes(threads: u64, count: usize) -> Vec<u8> {
    let mut random = Random(7);
    sched(threads, count)
        .into_iter()
        .map(|event| {
            let place = 1 + event.tid % 61 * 3 + random.below(3) as u32;
            SchedStackRecord { event, user_stack: place, kernel_stack: 1 + place % 19 }
        })
        .flat_map(|record| record.as_bytes().to_vec())
        .collect()
}
