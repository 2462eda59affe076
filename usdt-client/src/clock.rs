//! Ticks: the time stamp counter, or CLOCK_MONOTONIC where it is not invariant.

pub(crate) use crate::arch::counter;
use crate::arch::has_invariant_counter;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use syscollect_zone_protocol::arena::ClockKind;

/// 0: not asked yet, else 1 + [`ClockKind`].
static KIND: AtomicU8 = AtomicU8::new(0);
/// The last stamp that [`ordered_ticks`] gave.
static LAST_ORDERED: AtomicU64 = AtomicU64::new(0);

/// What ticks are on this machine.
pub(crate) fn kind() -> ClockKind {
    match KIND.load(Ordering::Relaxed) {
        1 => ClockKind::Tsc,
        2 => ClockKind::Monotonic,
        _ => {
            let kind = if has_invariant_counter() { ClockKind::Tsc } else { ClockKind::Monotonic };
            KIND.store(1 + kind as u8, Ordering::Relaxed);
            kind
        }
    }
}

/// Makes the machine look as if its counter were not invariant.
pub(crate) fn force(kind: ClockKind) {
    KIND.store(1 + kind as u8, Ordering::Relaxed);
}

/// Now, in ticks.
pub fn ticks() -> u64 {
    match kind() {
        ClockKind::Tsc => counter(),
        ClockKind::Monotonic => monotonic(),
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
#[cold]
#[inline(never)]
pub(crate) fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Ticks that are larger than all that this function has returned before on
/// any thread: for events whose order counts across threads (allocations).
pub fn ordered_ticks() -> u64 {
    let now = ticks();
    let mut last = LAST_ORDERED.load(Ordering::Relaxed);
    loop {
        let next = now.max(last + 1);
        match LAST_ORDERED.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return next,
            Err(newer) => last = newer,
        }
    }
}
