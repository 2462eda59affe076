//! Numbers of the log for what is known by an address: a caller's place, a
//! callsite of `tracing`, a field's name.
//!
//! Such things are statics of other crates, so the number cannot be cached
//! within them. It is cached in a table by a hash of the address and of what
//! lies there, so that another library that is loaded at the same place later
//! does not inherit its names. A slot is taken once and never given to another.

use crate::arena::Arena;
use crate::log::CachedNumber;
use core::sync::atomic::{AtomicU64, Ordering};

/// Slots of the table.
const SLOTS: usize = 2048;
/// Slots that are looked at before the number is asked for at each use.
const PROBES: usize = 8;

struct Slot {
    /// 0: free.
    identity: AtomicU64,
    number: CachedNumber,
}

static TABLE: [Slot; SLOTS] =
    [const { Slot { identity: AtomicU64::new(0), number: CachedNumber::new() } }; SLOTS];

/// What something is known by.
#[derive(Clone, Copy)]
pub(crate) struct Identity(u64);

impl Identity {
    /// The identity of what has these words: addresses, lengths, lines.
    #[inline]
    pub(crate) fn of<const WORDS: usize>(words: [usize; WORDS]) -> Self {
        let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
        for word in words {
            hash = (hash ^ word as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
            hash ^= hash >> 32;
        }
        Self(hash.max(1))
    }

    /// The identity of a static text.
    #[cfg(feature = "tracing")]
    pub(crate) fn of_text(text: &'static str) -> Self {
        Self::of([text.as_ptr() as usize, text.len()])
    }

    /// Its number in that arena's log; asks `entry` where it is not known yet.
    pub(crate) fn number(self, arena: &Arena, entry: impl FnOnce() -> u32) -> u32 {
        match self.slot() {
            Some(slot) => slot.number.or_define(arena, entry),
            None => entry(),
        }
    }

    fn slot(self) -> Option<&'static Slot> {
        (0..PROBES).map(|probe| &TABLE[(self.0 as usize).wrapping_add(probe) % SLOTS]).find(
            |slot| {
                let held = slot.identity.load(Ordering::Relaxed);
                held == self.0 || held == 0 && slot.take(self.0)
            },
        )
    }
}

impl Slot {
    /// Whether the slot is that identity's now.
    #[cold]
    fn take(&self, identity: u64) -> bool {
        match self.identity.compare_exchange(0, identity, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(other) => other == identity,
        }
    }
}
