//! The log of definitions: what items name by a number is written here once.
//!
//! Entries are appended without a lock: room is taken by one atomic addition,
//! and an entry counts when its size, written last, is there. A table in
//! private memory finds an entry by its content, so that what is defined twice
//! (the same name in two places, a script's location at every call) is one.

use crate::arena::{Arena, TABLE_SLOTS};
use crate::protocol::{EntryHeader, EntryKind, LOG_BYTES};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words of the longest entry without its header.
const MAX_WORDS: usize = 512;
/// Slots that are looked at before an entry is made without one.
const PROBES: usize = 32;

/// An entry that is being put together, on the stack.
pub(crate) struct Entry {
    kind: EntryKind,
    bytes: usize,
    words: [u64; MAX_WORDS],
}

impl Entry {
    /// An empty entry of that kind.
    pub(crate) fn new(kind: EntryKind) -> Self {
        Self { kind, bytes: 0, words: [0; MAX_WORDS] }
    }

    /// Appends a number.
    pub(crate) fn number(&mut self, number: u32) -> &mut Self {
        self.append(&number.to_le_bytes());
        self
    }

    /// Appends a number of 64 bits.
    pub(crate) fn long(&mut self, number: u64) -> &mut Self {
        self.append(&number.to_le_bytes());
        self
    }

    /// Appends a text after its length; cut where the entry is full.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        let room = (MAX_WORDS * 8 - self.bytes).saturating_sub(2);
        // One long text must not push out the others.
        let text = cut(text, room.min(1000));
        self.append(&(text.len() as u16).to_le_bytes());
        self.append(text.as_bytes());
        self
    }

    /// Appends a text of which there are many: at most 100 bytes.
    pub(crate) fn short_text(&mut self, text: &str) -> &mut Self {
        self.text(cut(text, 100))
    }

    /// Appends a text of one byte.
    pub(crate) fn byte_text(&mut self, byte: u8) -> &mut Self {
        self.append(&[1, 0, byte]);
        self
    }

    /// Appends bytes as they are.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.append(cut(text, 4000).as_bytes());
        self
    }

    fn append(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(word) = self.words.get_mut(self.bytes / 8) {
                *word |= u64::from(*byte) << (self.bytes % 8 * 8);
                self.bytes += 1;
            }
        }
    }

    /// The words that are used.
    fn words(&self) -> &[u64] {
        &self.words[..self.bytes.div_ceil(8)]
    }

    /// The header's word as it is when the entry is complete.
    fn header(&self) -> u64 {
        let size = 8 + self.words().len() as u64 * 8;
        size | (self.kind as u64) << 32
    }

    fn hash(&self) -> u64 {
        let mut hash = self.header().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for word in self.words() {
            hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
            hash ^= hash >> 32;
        }
        hash
    }

    /// The entry's number in that arena's log; appends it if it is new. 0: the log is full or there
    /// is none.
    pub(crate) fn define(&self, arena: &Arena) -> u32 {
        let hash = self.hash();
        let tag = hash & 0xffff_ffff_0000_0000;
        for probe in 0..PROBES {
            let slot = &arena.table[(hash as usize).wrapping_add(probe) % TABLE_SLOTS];
            let mut found = slot.load(Ordering::Acquire);
            if found == 0 {
                let number = self.append_to(arena);
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
            if found & 0xffff_ffff_0000_0000 == tag && self.is(arena, found as u32) {
                return found as u32;
            }
        }
        self.append_to(arena)
    }

    /// Whether the log's entry of that number is this one.
    fn is(&self, arena: &Arena, number: u32) -> bool {
        let Some(log) = arena.log() else { return false };
        let words = self.words();
        let position = (number as usize).wrapping_sub(1).wrapping_mul(8);
        if position.saturating_add(8 + words.len() * 8) > LOG_BYTES {
            return false;
        }
        // SAFETY: checked to lie in the log, which is mapped and aligned; words are only ever
        // accessed atomically.
        let word =
            |index: usize| unsafe { log.add(position + index * 8).cast::<AtomicU64>().as_ref() };
        word(0).load(Ordering::Acquire) == self.header()
            && words
                .iter()
                .enumerate()
                .all(|(index, own)| word(1 + index).load(Ordering::Relaxed) == *own)
    }

    /// Appends the entry and returns its number, 0 where it does not fit.
    pub(crate) fn append_to(&self, arena: &Arena) -> u32 {
        let (Some(header), Some(log)) = (arena.header(), arena.log()) else { return 0 };
        let words = self.words();
        let size = 8 + words.len() as u64 * 8;
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
                start
                    .add(8 + index * 8)
                    .cast::<AtomicU64>()
                    .as_ref()
                    .store(*word, Ordering::Relaxed);
            }
            let entry = start.cast::<EntryHeader>().as_ref();
            entry.kind.store(self.kind as u32, Ordering::Relaxed);
            publish(&entry.size, size as u32);
        }
        (position / 8) as u32 + 1
    }
}

/// From now on a reader takes the entry.
fn publish(size: &AtomicU32, bytes: u32) {
    size.store(bytes, Ordering::Release);
}

/// The longest beginning of a text with at most so many bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A number of the log, cached in a static together with the arena it is good for.
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
