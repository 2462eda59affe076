//! Which recording runs: what was told in one is not known to the next.

use crate::arena;
use core::sync::atomic::Ordering;

/// The recording that runs now: the process's arena and the number of the
/// collector that has it. 0 before the process's first event.
pub(crate) fn now() -> u64 {
    arena::existing().map_or(0, |arena| {
        let collector = arena.header().map_or(0, |header| header.attached.load(Ordering::Relaxed));
        u64::from(arena.generation()) << 32 | u64::from(collector)
    })
}

/// Whether what was told in `reported` is known in `now`. What was written before
/// an arena's first collector came (its number is 0) is read by that one.
pub(crate) fn is_of(reported: u64, now: u64) -> bool {
    reported == now || reported as u32 == 0 && reported >> 32 == now >> 32
}
