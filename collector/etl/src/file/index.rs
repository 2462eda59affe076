//! Where the buffers of a file lie, and in which order each CPU filled them.

use super::buffer::{BufferHeader, Expansion, HEADER};
use super::extent::FoundBuffers;
use super::record::first_timestamp;
use super::xpress;
use std::collections::BTreeMap;
use syscollect_byte_source::ByteSource;

/// A buffer of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BufferPosition {
    pub(super) offset: u64,
    /// Time stamp of its first record, raw.
    pub(super) first: u64,
}

/// The buffers that one CPU filled, in the order of their first records.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) file: usize,
    pub(super) entries: Vec<BufferPosition>,
}

/// What lies at a place of a file.
pub(super) enum FilePart {
    Buffer(u64, BufferHeader),
    /// Bytes that were allocated and never written.
    Unused(u64),
    /// Bytes that belong to no buffer.
    Stray(u64),
}

/// Goes over a file from buffer to buffer.
pub(super) struct BufferWalk<'a> {
    source: &'a ByteSource,
    offset: u64,
    /// What every buffer takes; `None` where each takes its own.
    fixed: Option<usize>,
    /// The bytes of the last buffer that was found: its header and a part of its data.
    glimpse: [u8; GLIMPSE],
    length: usize,
}

/// Enough for a buffer's header and its first record's, even when that is compressed.
const GLIMPSE: usize = HEADER + 128;

impl<'a> BufferWalk<'a> {
    pub(super) fn new(source: &'a ByteSource, fixed: Option<usize>) -> Self {
        Self { source, offset: 0, fixed, glimpse: [0; GLIMPSE], length: 0 }
    }

    /// The time stamp of the first record of the buffer that was found last.
    fn first_timestamp(&self, header: &BufferHeader, how: Expansion) -> Option<u64> {
        let data = self.glimpse.get(HEADER..self.length.min(header.stride))?;
        if !header.is_compressed() {
            return first_timestamp(&data[..data.len().min(header.end - HEADER)]);
        }
        let mut expanded = [0; 48];
        let length = if how.is_supported { xpress::expand(data, &mut expanded) } else { 0 };
        first_timestamp(&expanded[..length])
    }

    /// What lies where no buffer begins. Where all buffers are alike, the next one
    /// is looked for where it has to be.
    fn no_buffer(&self) -> FilePart {
        let rest = self.source.length() - self.offset;
        let bytes = self.fixed.map_or(rest, |fixed| rest.min(fixed as u64));
        let glimpse = &self.glimpse[..self.length];
        // What cannot be read is not known to be unused.
        let is_read = self.length as u64 == rest.min(GLIMPSE as u64);
        match is_read && glimpse.iter().all(|byte| *byte == 0) {
            true => FilePart::Unused(bytes),
            false => FilePart::Stray(bytes),
        }
    }
}

impl Iterator for BufferWalk<'_> {
    type Item = FilePart;

    fn next(&mut self) -> Option<FilePart> {
        if self.offset >= self.source.length() {
            return None;
        }
        self.length = self.source.read_at(&mut self.glimpse, self.offset).unwrap_or(0);
        let offset = self.offset;
        let step = match BufferHeader::parse(&self.glimpse[..self.length]) {
            Some(header) if self.fixed.is_none_or(|fixed| fixed == header.stride) => {
                FilePart::Buffer(offset, header)
            }
            _ => self.no_buffer(),
        };
        self.offset += match &step {
            FilePart::Buffer(_, header) => header.stride as u64,
            FilePart::Unused(bytes) | FilePart::Stray(bytes) => *bytes,
        };
        Some(step)
    }
}

/// The buffers of a file by CPU, and how many bytes are stray and unused.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) streams: Vec<Stream>,
    pub(super) stray: u64,
    pub(super) unused: u64,
    pub(super) found: FoundBuffers,
}

impl Index {
    /// Looks at every buffer's header and first record.
    pub(super) fn of(walk: &mut BufferWalk<'_>, how: Expansion, file: usize) -> Self {
        let mut cpus: BTreeMap<u16, Vec<BufferPosition>> = BTreeMap::new();
        let mut index = Self::default();
        while let Some(step) = walk.next() {
            index.found.add(&step);
            match step {
                FilePart::Buffer(offset, header) => {
                    let entries = cpus.entry(header.cpu).or_default();
                    // What does not say when it begins stays behind the one before.
                    let before = entries.last().map_or(0, |entry| entry.first);
                    let first = walk.first_timestamp(&header, how).unwrap_or(before);
                    entries.push(BufferPosition { offset, first });
                }
                FilePart::Unused(bytes) => index.unused += bytes,
                FilePart::Stray(bytes) => index.stray += bytes,
            }
        }
        index.streams = cpus.into_values().map(|entries| Stream { file, entries }).collect();
        index.found.seal();
        for stream in &mut index.streams {
            // A circular file begins in its middle.
            if !stream.entries.is_sorted_by_key(|entry| entry.first) {
                stream.entries.sort_by_key(|entry| entry.first);
            }
            stream.entries.shrink_to_fit();
        }
        index
    }
}
