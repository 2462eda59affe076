//! Following a client's log of definitions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use syscollect_zone_protocol::ValueType;
use syscollect_zone_protocol::arena::LOG_BYTES;
use syscollect_zone_protocol::log::{Definition, MAX_ENTRY_BYTES, read_header, split_entry};

use super::memory::ArenaMemory;

/// Words of the longest entry.
const LONGEST_ENTRY: usize = MAX_ENTRY_BYTES / 8;

/// A log and how far it was read.
pub(super) struct LogReader {
    memory: Arc<ArenaMemory>,
    position: usize,
}

/// What was taken at a time.
#[derive(Default)]
pub(super) struct LogPart {
    /// Whole entries, in order.
    pub(super) bytes: Vec<u8>,
    /// How many they are.
    pub(super) entries: u32,
    /// The counters among them.
    pub(super) counters: Vec<CounterEntry>,
}

/// A counter of the application, whose value is read from its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterEntry {
    /// The number by which items name it.
    pub(super) number: u32,
    /// How its bits are read.
    pub(super) value_type: ValueType,
    /// Where its value lies in the process.
    pub(super) address: u64,
}

/// An entry that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its definitions cannot be read on at byte {0}")]
pub(super) struct BrokenLog(usize);

impl LogReader {
    /// Begins with the first entry.
    pub(super) fn new(memory: Arc<ArenaMemory>) -> Self {
        Self { memory, position: 0 }
    }

    /// Where the next entry will lie, bytes.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Where what the program has begun to write ends, bytes.
    pub(super) fn end(&self) -> usize {
        let taken = self.memory.header().log_taken.load(Ordering::Acquire);
        usize::try_from(taken).map_or(LOG_BYTES, |taken| taken.min(LOG_BYTES))
    }

    /// Whether a complete entry follows, as far as one word tells.
    pub(super) fn has_more(&self) -> bool {
        let mut first = [0];
        self.position < self.end()
            && self.memory.read_log(self.position, &mut first).is_ok()
            && first[0] as u32 != 0
    }

    /// Whether an entry was begun that is not complete. If its thread is gone,
    /// what follows in the log cannot be found.
    pub(super) fn is_incomplete(&self) -> bool {
        // What does not fit counts as taken, but is not written; the program counts it itself.
        let full = self.memory.header().log_taken.load(Ordering::Acquire) > LOG_BYTES as u64;
        !full && self.position < self.end()
    }

    fn read(&self, start: usize, words: &mut [u64]) -> Result<(), BrokenLog> {
        self.memory.read_log(start, words).map_err(|_| BrokenLog(start))
    }

    /// Takes the entries that are complete, in order, up to the first that is
    /// not or to about a chunk.
    pub(super) fn take(&mut self, scratch: &mut Vec<u64>) -> Result<LogPart, BrokenLog> {
        let start = self.position;
        let there = (self.end().saturating_sub(start) / 8).min(LONGEST_ENTRY);
        scratch.resize(scratch.len().max(LONGEST_ENTRY), 0);
        // What was only claimed, and what is not complete, costs one word.
        self.read(start, &mut scratch[..there.min(1)])?;
        if there == 0 || scratch[0] as u32 == 0 {
            return Ok(LogPart::default());
        }
        self.read(start, &mut scratch[..there])?;
        let complete = complete_words(&scratch[..there]);
        if complete == 0 {
            return Err(BrokenLog(start));
        }
        // Again, now that it is known to be complete: in the first copy a size may be newer than
        // what follows it.
        let words = &mut scratch[..complete];
        self.read(start, words)?;
        if complete_words(words) != complete {
            return Err(BrokenLog(start));
        }
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut part = LogPart { bytes, ..LogPart::default() };
        let mut at = 0;
        while let Some((kind, body, size)) = split_entry(&part.bytes[at..]) {
            let number = ((start + at) / 8 + 1) as u32;
            part.counters.extend(CounterEntry::of(number, kind, body));
            part.entries += 1;
            at += size;
        }
        self.position += complete * 8;
        Ok(part)
    }
}

/// Words of the whole entries at the beginning.
fn complete_words(words: &[u64]) -> usize {
    let mut at = 0;
    while let Some(first) = words.get(at)
        && let Some((_, size)) = read_header(*first)
        && at + size / 8 <= words.len()
    {
        at += size / 8;
    }
    at
}

impl CounterEntry {
    /// The counter of that number, if the entry is one.
    fn of(number: u32, kind: u32, body: &[u8]) -> Option<Self> {
        match Definition::decode(kind, body)? {
            Definition::Counter { value_type, address, .. } => {
                Some(Self { number, value_type, address })
            }
            _ => None,
        }
    }

    /// Whether its value is a number.
    pub(super) fn is_number(&self) -> bool {
        self.value_type != ValueType::String
    }
}
