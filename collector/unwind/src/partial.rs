//! A part of a file of which little is wanted.

use crate::UnwindError;
use crate::file::{Bytes, Source};
use std::io::SeekFrom;
use std::ops::Range;
use syscollect_elf::LoadedPart;

/// Bytes that are read at once.
const BLOCK: usize = 16 << 10;

/// Bytes of a file, read where they are wanted; 0 elsewhere.
///
/// A page of code needs 20 kB of a section that has 10 MB. Memory is set aside for all of it, so
/// that it is one section to a parser; what is never touched takes none.
pub(crate) struct PartialBytes<'a> {
    source: Box<dyn Bytes + 'a>,
    offset: u64,
    bytes: Vec<u8>,
    /// Of each block, whether it was read.
    is_read: Vec<bool>,
}

impl<'a> PartialBytes<'a> {
    pub(crate) fn new(source: &'a Source, segment: LoadedPart) -> Result<Self, UnwindError> {
        let bytes = source.zeros(segment)?;
        let is_read = vec![false; bytes.len().div_ceil(BLOCK)];
        Ok(Self { source: source.bytes(), offset: segment.offset, bytes, is_read })
    }

    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// The `length` bytes from `start` on, or as many as there are.
    pub(crate) fn get(&mut self, start: usize, length: usize) -> Result<&[u8], UnwindError> {
        let start = start.min(self.bytes.len());
        let end = start.saturating_add(length).min(self.bytes.len());
        self.read_blocks(start / BLOCK..end.div_ceil(BLOCK))?;
        Ok(&self.bytes[start..end])
    }

    /// All bytes, of which those that were never asked for are 0.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Reads those of `blocks` that were not, neighbours together.
    fn read_blocks(&mut self, blocks: Range<usize>) -> Result<(), UnwindError> {
        let mut next = blocks.start;
        while next < blocks.end {
            let first = next;
            while next < blocks.end && !self.is_read[next] {
                next += 1;
            }
            if next > first {
                let bytes = first * BLOCK..(next * BLOCK).min(self.bytes.len());
                self.source.seek(SeekFrom::Start(self.offset + bytes.start as u64))?;
                self.source.read_exact(&mut self.bytes[bytes])?;
                self.is_read[first..next].fill(true);
            } else {
                next += 1;
            }
        }
        Ok(())
    }
}
