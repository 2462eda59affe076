//! Counters that are sampled: a change is an atomic addition and no event.
//!
//! The collector learns the counter's address from the log and reads it when it
//! reads its other counters.

use crate::emit;
use crate::log::{self, CachedNumber};
use core::sync::atomic::{AtomicI64, Ordering};
use syscollect_zone_protocol::ValueType;
use syscollect_zone_protocol::log::EntryWords;

/// A counter: a static. It is known to a collector once it was touched while
/// one was attached. A library that is unloaded takes its counters with it:
/// what the collector reads from then on is not a value.
///
/// ```
/// use syscollect_usdt_client::Counter;
///
/// static REQUESTS: Counter = Counter::new("requests in flight", "");
///
/// REQUESTS.add(1);
/// REQUESTS.add(-1);
/// ```
pub struct Counter {
    value: AtomicI64,
    name: &'static str,
    unit: &'static str,
    number: CachedNumber,
}

impl Counter {
    /// A counter that is 0.
    pub const fn new(name: &'static str, unit: &'static str) -> Self {
        Self { value: AtomicI64::new(0), name, unit, number: CachedNumber::new() }
    }

    /// Adds.
    #[inline(always)]
    pub fn add(&'static self, amount: i64) {
        self.value.fetch_add(amount, Ordering::Relaxed);
        self.announce();
    }

    /// Sets.
    #[inline(always)]
    pub fn set(&'static self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
        self.announce();
    }

    /// What it is now.
    pub fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn announce(&'static self) {
        if crate::enabled() {
            self.announce_enabled();
        }
    }

    #[cold]
    #[inline(never)]
    fn announce_enabled(&'static self) {
        announce(&self.number, self.value.as_ptr() as u64, self.name, self.unit);
    }
}

/// Tells the collector where the number lies, once.
pub(crate) fn announce(number: &CachedNumber, address: u64, name: &str, unit: &str) {
    let generation = crate::thread::state().generation.get();
    if generation != 0 && number.get(generation).is_some() {
        return;
    }
    // A thread's first event announces its ring, and with it the arena.
    let Ok(group) = emit::group(8) else { return };
    let arena = group.arena();
    number.or_define(arena, || {
        let mut entry = EntryWords::new();
        log::define(entry.counter(ValueType::Signed, address, name, unit), arena)
    });
}
