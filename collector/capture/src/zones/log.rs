//! Following a client's log of definitions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use syscollect_usdt_client::protocol::{EntryKind, LOG_BYTES, ValueType};

use super::memory::SharedMemory;
use crate::stage::CHUNK_BYTES;

/// Bytes of the longest entry.
const LONGEST_ENTRY: usize = 64 << 10;

/// A log and how far it was read.
pub(super) struct LogReader {
    header: Arc<SharedMemory>,
    log: Arc<SharedMemory>,
    position: usize,
    scratch: Vec<u64>,
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
    pub(super) fn new(header: Arc<SharedMemory>, log: Arc<SharedMemory>) -> Self {
        Self { header, log, position: 0, scratch: Vec::new() }
    }

    /// Where the next entry will lie, bytes.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    fn taken(&self) -> usize {
        let taken = self.header.arena().log_taken.load(Ordering::Acquire);
        usize::try_from(taken).map_or(LOG_BYTES, |taken| taken.min(LOG_BYTES))
    }

    /// Whether an entry was begun that is not complete. If its thread is gone,
    /// what follows in the log cannot be found.
    pub(super) fn is_incomplete(&self) -> bool {
        // What does not fit counts as taken, but is not written; the program counts it itself.
        let full = self.header.arena().log_taken.load(Ordering::Acquire) > LOG_BYTES as u64;
        !full && self.position < self.taken()
    }

    /// Appends the entries that are complete to `out`, in order, up to the
    /// first that is not or to about a chunk, and counts them. `counter` is
    /// told of counters.
    pub(super) fn take(
        &mut self,
        out: &mut Vec<u8>,
        entries: &mut u32,
        counter: &mut dyn FnMut(CounterEntry),
    ) -> Result<(), BrokenLog> {
        let taken = self.taken();
        while self.position < taken && out.len() < CHUNK_BYTES {
            let size = self.log.acquire(self.position) as usize;
            if size == 0 {
                break;
            }
            let end = self.position.saturating_add(size);
            if !size.is_multiple_of(8) || size > LONGEST_ENTRY || end > taken {
                return Err(BrokenLog(self.position));
            }
            self.scratch.clear();
            self.log.copy(self.position, size / 8, &mut self.scratch);
            // Of the copy, size included: the memory may have changed since.
            let first = self.scratch.first().copied().unwrap_or(0);
            let kind = EntryKind::from_number((first >> 32) as u32);
            let Some(kind) = kind.filter(|_| first as u32 as usize == size) else {
                return Err(BrokenLog(self.position));
            };
            if let (EntryKind::Counter, [_, value_type, address, ..]) = (kind, self.scratch.as_slice()) {
                let number = (self.position / 8 + 1) as u32;
                counter(CounterEntry { number, value_type: *value_type as u32, address: *address });
            }
            out.extend(self.scratch.iter().flat_map(|word| word.to_le_bytes()));
            self.position = end;
            *entries += 1;
        }
        Ok(())
    }
}

impl CounterEntry {
    /// Whether its value is a number.
    pub(super) fn is_number(&self) -> bool {
        let value_type = u8::try_from(self.value_type).ok().and_then(ValueType::from_number);
        value_type.is_some_and(|value_type| value_type != ValueType::String)
    }
}
