//! How much of a file is there.
//!
//! A logger numbers its buffers, and at its end writes into the logfile header how many
//! it wrote. Both tell what a file lacks, however whole the rest of it is. The count is
//! exact where the file holds everything that the logger wrote. A number that no buffer
//! has proves little: loggers do not write buffers in which nothing came to lie.
//!
//! - A file that a logger did not finish says no count. What it had begun and not
//!   written shows as numbers that no buffer has.
//! - Of a circular file the count is that of all buffers ever written. Once it has gone
//!   round, the file is as long as it may be, and only numbers that lack within it tell
//!   of buffers that it lost.
//! - One of several files of a logger (`NEWFILE`) may have the count of all files up to it.

use super::header::LogfileHeader;
use super::index::FilePart;
use std::path::PathBuf;

/// How much of a file is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The file.
    pub path: PathBuf,
    /// Buffers that are there, whole or in part.
    pub buffers: u64,
    /// Buffers that were written and are not there.
    pub missing: u64,
    /// Buffers that the logger had begun, and not written when it was cut off or the file copied.
    pub unwritten: u64,
}

/// Buffers as they were found in a file.
#[derive(Debug, Default)]
pub(super) struct FoundBuffers {
    count: u64,
    /// Places between buffers, or behind the last, that hold something else.
    holes: u64,
    /// Places of zeros since the last buffer: holes only where another buffer follows.
    unused: u64,
    /// The number of every buffer but the first, which holds the header.
    sequences: Vec<u64>,
}

impl FoundBuffers {
    /// Takes what lies at the next place.
    pub(super) fn add(&mut self, step: &FilePart) {
        match step {
            FilePart::Buffer(offset, header) => {
                self.holes += std::mem::take(&mut self.unused);
                self.count += 1;
                if *offset > 0 {
                    self.sequences.push(header.sequence);
                }
            }
            FilePart::Unused(_) => self.unused += 1,
            FilePart::Stray(_) => self.holes += 1,
        }
    }

    /// All places were seen.
    pub(super) fn seal(&mut self) {
        self.sequences.sort_unstable();
        self.sequences.dedup();
    }

    /// Numbers that no buffer has, from `first` up to the highest that one has.
    fn numbers_without_buffer(&self, first: u64) -> u64 {
        let from = self.sequences.partition_point(|number| *number < first);
        let there = &self.sequences[from..];
        there
            .last()
            .map_or(0, |last| last.saturating_sub(first).saturating_add(1) - there.len() as u64)
    }

    /// As many as damage alone can make of numbers is no count: no logger has so many buffers at
    /// once.
    fn plausible(&self, count: u64) -> u64 {
        count.min(self.count.saturating_mul(2).max(MOST_OPEN))
    }

    fn lowest(&self) -> u64 {
        self.sequences.first().copied().unwrap_or(1)
    }
}

/// Buffers that loggers hold at most: CPUs of the largest machines, a few each.
const MOST_OPEN: u64 = 4096;

impl Extent {
    pub(super) fn new(path: PathBuf, found: &FoundBuffers, header: &LogfileHeader) -> Self {
        let within = found.numbers_without_buffer(found.lowest());
        let (missing, unwritten) = match expected(found, header) {
            Some(expected) => (expected.saturating_sub(found.count), 0),
            // A circular file that went round is as long as it can be, but for buffers that it
            // lost.
            None if header.is_circular() && header.buffers_written > 0 => {
                let short =
                    header.most_buffers().map_or(u64::MAX, |most| most.saturating_sub(found.count));
                (found.holes.max(within.min(short)), 0)
            }
            None if header.is_a_part() => (found.holes, 0),
            None => (
                found.holes,
                found.plausible(found.numbers_without_buffer(1)).saturating_sub(found.holes),
            ),
        };
        Self { path, buffers: found.count, missing, unwritten }
    }
}

/// Buffers that a whole file has, where that can be known.
fn expected(found: &FoundBuffers, header: &LogfileHeader) -> Option<u64> {
    let written = u64::from(header.buffers_written);
    let fits = header.most_buffers().is_none_or(|most| written <= most);
    match written {
        0 => None,
        _ if header.is_circular() => fits.then_some(written),
        // What the files before it hold is counted as well.
        _ if header.is_one_of_several() && !fits => {
            Some(written.saturating_sub(found.lowest().saturating_sub(1)))
        }
        _ => Some(written),
    }
}
