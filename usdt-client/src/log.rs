//! The log of definitions: what items name by a number is written here once.
//!
//! Entries are appended without a lock: room is taken by one atomic addition,
//! and an entry counts when its size, written last, is there. A table in
//! private memory finds an entry by its content, so that what is defined twice
//! (the same name in two places, a script's location at every call) is one.

use crate::arena::{Arena, TABLE_SLOTS};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use syscollect_zone_protocol::arena::LOG_BYTES;
use syscollect_zone_protocol::log::{self as protocol, EntryHeader, EntryWords};

/// Slots that are looked at before an entry is made without one.
const PROBES: usize = 32;

fn hash(entry: &EntryWords) -> u64 {
    let mut hash = entry.header().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for word in entry.body() {
        hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 32;
    }
    hash
}

/// The entry's number in that arena's log; appends it if it is new. 0: the log is full or there
/// is none.
pub(crate) fn define(entry: &EntryWords, arena: &Arena) -> u32 {
    let hash = hash(entry);
    let tag = hash & 0xffff_ffff_0000_0000;
    for probe in 0..PROBES {
        let slot = &arena.table[(hash as usize).wrapping_add(probe) % TABLE_SLOTS];
        let mut found = slot.load(Ordering::Acquire);
        if found == 0 {
            let number = append(entry, arena);
            if number == 0 {
                return 0;
            }
            match slot.compare_exchange(
                0,
                tag | u64::from(number),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return number,
                // Another thread was faster; if with the same, there are two, which is no harm.
                Err(other) => found = other,
            }
        }
        if found & 0xffff_ffff_0000_0000 == tag && is_at(entry, arena, found as u32) {
            return found as u32;
        }
    }
    append(entry, arena)
}

/// Whether the log's entry of that number is this one.
fn is_at(entry: &EntryWords, arena: &Arena, number: u32) -> bool {
    let Some(log) = arena.log() else { return false };
    let words = entry.body();
    let position = (number as usize).wrapping_sub(1).wrapping_mul(8);
    if position.saturating_add(entry.size()) > LOG_BYTES {
        return false;
    }
    // SAFETY: checked to lie in the log, which is mapped and aligned; words are only ever
    // accessed atomically.
    let word = |index: usize| unsafe { log.add(position + index * 8).cast::<AtomicU64>().as_ref() };
    word(0).load(Ordering::Acquire) == entry.header()
        && words
            .iter()
            .enumerate()
            .all(|(index, own)| word(1 + index).load(Ordering::Relaxed) == *own)
}

/// Appends the entry and returns its number, 0 where it does not fit.
pub(crate) fn append(entry: &EntryWords, arena: &Arena) -> u32 {
    let (Some(header), Some(log)) = (arena.header(), arena.log()) else { return 0 };
    let words = entry.body();
    let size = entry.size() as u64;
    let position = header.log_taken.fetch_add(size, Ordering::Relaxed);
    if position.saturating_add(size) > LOG_BYTES as u64 {
        header.definitions_lost.fetch_add(1, Ordering::Relaxed);
        return 0;
    }
    // SAFETY: the log is mapped, these bytes are taken for this entry alone, and 8 divides the
    // position.
    unsafe {
        let start = log.add(position as usize);
        for (index, word) in words.iter().enumerate() {
            start.add(8 + index * 8).cast::<AtomicU64>().as_ref().store(*word, Ordering::Relaxed);
        }
        let written = start.cast::<EntryHeader>().as_ref();
        written.kind.store(entry.kind() as u32, Ordering::Relaxed);
        publish(&written.size, size as u32);
    }
    (position / 8) as u32 + 1
}

/// From now on a reader takes the entry.
fn publish(size: &AtomicU32, bytes: u32) {
    size.store(bytes, Ordering::Release);
}

/// The longest beginning of a text with at most so many bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    &text[..protocol::cut(text.as_bytes(), bytes).len()]
}

/// A number of the log, cached in a static together with the arena it is good for.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct CachedNumber(AtomicU64);

impl CachedNumber {
    /// Nothing is known yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The number, if it is known for the arena of that generation.
    #[inline(always)]
    pub(crate) fn get(&self, generation: u32) -> Option<u32> {
        let cached = self.0.load(Ordering::Relaxed);
        ((cached >> 32) as u32 == generation).then_some(cached as u32)
    }

    /// The number in that arena; asks `entry` if it is not known.
    #[inline]
    pub(crate) fn or_define(&self, arena: &Arena, entry: impl FnOnce() -> u32) -> u32 {
        self.get(arena.generation()).unwrap_or_else(|| self.set(arena, entry()))
    }

    #[cold]
    fn set(&self, arena: &Arena, number: u32) -> u32 {
        self.0.store(u64::from(arena.generation()) << 32 | u64::from(number), Ordering::Relaxed);
        number
    }
}
