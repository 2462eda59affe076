//! Following a client's log of definitions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use syscollect_usdt_client::protocol::{EntryKind, LOG_BYTES, ValueType};

use super::memory::ArenaMemory;

/// Words of the longest entry.
const LONGEST_ENTRY: usize = (64 << 10) / 8;

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
    /// The number of a `ValueType`.
    pub(super) value_type: u32,
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

    fn taken(&self) -> usize {
        let taken = self.memory.header().log_taken.load(Ordering::Acquire);
        usize::try_from(taken).map_or(LOG_BYTES, |taken| taken.min(LOG_BYTES))
    }

    /// Whether a complete entry follows, as far as one word tells.
    pub(super) fn has_more(&self) -> bool {
        let mut first = [0];
        self.position < self.taken()
            && self.memory.read_log(self.position, &mut first).is_ok()
            && first[0] as u32 != 0
    }

    /// Whether an entry was begun that is not complete. If its thread is gone,
    /// what follows in the log cannot be found.
    pub(super) fn is_incomplete(&self) -> bool {
        // What does not fit counts as taken, but is not written; the program counts it itself.
        let full = self.memory.header().log_taken.load(Ordering::Acquire) > LOG_BYTES as u64;
        !full && self.position < self.taken()
    }

    /// Takes the entries that are complete, in order, up to the first that is
    /// not or to about a chunk.
    pub(super) fn take(&mut self, scratch: &mut Vec<u64>) -> Result<LogPart, BrokenLog> {
        let start = self.position;
        let broken = |_| BrokenLog(start);
        let there = (self.taken().saturating_sub(start) / 8).min(LONGEST_ENTRY);
        scratch.resize(scratch.len().max(LONGEST_ENTRY), 0);
        // What was only claimed, and what is not complete, costs one word.
        self.memory.read_log(start, &mut scratch[..there.min(1)]).map_err(broken)?;
        if there == 0 || scratch[0] as u32 == 0 {
            return Ok(LogPart::default());
        }
        self.memory.read_log(start, &mut scratch[..there]).map_err(broken)?;
        let complete = complete_words(&scratch[..there]);
        if complete == 0 {
            return Err(BrokenLog(start));
        }
        // Again, now that it is known to be complete: in the first copy a size may be newer than
        // what follows it.
        let words = &mut scratch[..complete];
        self.memory.read_log(start, words).map_err(broken)?;
        if complete_words(words) != complete {
            return Err(BrokenLog(start));
        }
        let mut part = LogPart::default();
        let mut at = 0;
        while at < complete {
            let entry = &words[at..at + entry_words(words[at])];
            part.counters.extend(CounterEntry::of((start / 8 + at + 1) as u32, entry));
            part.entries += 1;
            at += entry.len();
        }
        part.bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.position += complete * 8;
        Ok(part)
    }
}

/// Words of the whole entries at the beginning.
fn complete_words(words: &[u64]) -> usize {
    let mut at = 0;
    while let Some(first) = words.get(at) {
        let is_kind = EntryKind::from_number((*first >> 32) as u32).is_some();
        let size = *first as u32 as usize;
        if !is_kind || size == 0 || !size.is_multiple_of(8) || at + size / 8 > words.len() {
            break;
        }
        at += size / 8;
    }
    at
}

/// Words of the entry with this header.
fn entry_words(header: u64) -> usize {
    header as u32 as usize / 8
}

impl CounterEntry {
    /// The counter of that number, if the entry is one.
    fn of(number: u32, entry: &[u64]) -> Option<Self> {
        let [header, value_type, address, ..] = entry else { return None };
        let is_counter = EntryKind::from_number((*header >> 32) as u32) == Some(EntryKind::Counter);
        is_counter.then_some(Self { number, value_type: *value_type as u32, address: *address })
    }

    /// Whether its value is a number.
    pub(super) fn is_number(&self) -> bool {
        let value_type = u8::try_from(self.value_type).ok().and_then(ValueType::from_number);
        value_type.is_some_and(|value_type| value_type != ValueType::String)
    }
}
