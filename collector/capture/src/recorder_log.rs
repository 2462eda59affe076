//! What the recorder says while it records, for its own track: the newest, within a bound.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use syscollect_model::{LogEntry, Ticks};

/// Bytes of messages that are kept. Some of what they say is made up by programs.
const MOST_BYTES: usize = 256 << 10;
/// Bytes of one message.
const LONGEST_MESSAGE: usize = 2 << 10;

/// The newest of what was said, by any thread.
#[derive(Default)]
pub(crate) struct RecorderLog(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    entries: VecDeque<LogEntry>,
    bytes: usize,
}

impl RecorderLog {
    /// Something was said then.
    pub(crate) fn add(&self, at: Ticks, mut message: String) {
        if let Some((cut, _)) =
            message.char_indices().find(|(at, char)| at + char.len_utf8() > LONGEST_MESSAGE)
        {
            message.truncate(cut);
        }
        let mut log = self.lock();
        log.bytes += size_of(&message);
        log.entries.push_back(LogEntry { at, message });
        while log.bytes > MOST_BYTES
            && let Some(oldest) = log.entries.pop_front()
        {
            log.bytes -= size_of(&oldest.message);
        }
    }

    /// What was said, oldest first.
    pub(crate) fn entries(&self) -> Vec<LogEntry> {
        self.lock().entries.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // It is whole between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size_of(message: &str) -> usize {
    message.len() + std::mem::size_of::<LogEntry>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_what_was_said_are_kept_and_a_long_one_is_cut() {
        let log = RecorderLog::default();
        for number in 0..10_000 {
            log.add(Ticks(number), "é".repeat(LONGEST_MESSAGE));
        }
        let entries = log.entries();
        let bytes: usize = entries.iter().map(|entry| size_of(&entry.message)).sum();
        assert!(bytes <= MOST_BYTES && bytes > MOST_BYTES / 2, "{bytes}");
        assert_eq!(entries.last().map(|entry| entry.at), Some(Ticks(9_999)));
        assert!(entries.iter().all(|entry| entry.message.len() <= LONGEST_MESSAGE));
    }
}
