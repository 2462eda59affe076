//! One buffer of a file: read, expanded if it is compressed, and its records found.

use super::bytes::{u16_at, u32_at, u64_at};
use super::record::{ALIGNMENT, BufferPart, Head, peek};
use super::statistics::Statistics;
use super::xpress;
use syscollect_byte_source::ByteSource;

/// Bytes of a buffer's header.
pub(super) const HEADER: usize = 0x48;
/// No logger has larger buffers; what says so is damaged.
pub(super) const LARGEST: usize = 16 << 20;

/// The CPU is a u16 at 0x28, rather than a byte.
const FLAG_PROCESSOR_INDEX: u16 = 0x20;
const FLAG_EVENTS_LOST: u16 = 0x2;
const FLAG_BUFFER_LOST: u16 = 0x4;
const FLAG_COMPRESSED: u16 = 0x40;
/// CPU numbers have that many bits; the others mean something else.
const CPU_MASK: u16 = 0x7ff;

/// What a buffer says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BufferHeader {
    /// Bytes from this buffer to the next.
    pub(super) stride: usize,
    /// Where the data ends, counted from the header, after expansion.
    pub(super) end: usize,
    pub(super) cpu: u16,
    /// The logger counts its buffers, beginning with 0 for the one that holds the logfile header.
    pub(super) sequence: u64,
    /// State; of the first buffer it says how the others are compressed.
    pub(super) state: u16,
    flags: u16,
}

impl BufferHeader {
    /// `None` where no buffer begins.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let flags = u16_at(bytes, 0x34)?;
        let cpu = match flags & FLAG_PROCESSOR_INDEX {
            0 => u16_at(bytes, 0x28)? & 0xff,
            _ => u16_at(bytes, 0x28)? & CPU_MASK,
        };
        let header = Self {
            stride: u32_at(bytes, 0)? as usize,
            // Not the one at 4: that one may lie before the last events.
            end: u32_at(bytes, 0x30)? as usize,
            cpu,
            sequence: u64_at(bytes, 0x18)?,
            state: u16_at(bytes, 0x2c)?,
            flags,
        };
        let sizes = HEADER..=LARGEST;
        let fits = header.is_compressed() || header.end <= header.stride;
        (sizes.contains(&header.stride) && sizes.contains(&header.end) && fits).then_some(header)
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.flags & FLAG_COMPRESSED != 0
    }
}

/// How a file's compressed buffers are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expansion {
    /// They are plain XPRESS, which is the one kind that is supported.
    pub(super) is_supported: bool,
    /// A buffer that would be larger than this is taken for damaged.
    pub(super) limit: usize,
}

impl Expansion {
    const XPRESS: u16 = 3;

    /// What the first buffer of a file says.
    pub(super) fn of(first: &BufferHeader) -> Self {
        Self { is_supported: first.state == Self::XPRESS, limit: LARGEST }
    }
}

/// The place of one buffer at a time, and where in it reading stands.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// The buffer as it lies in the file.
    raw: Vec<u8>,
    /// How much is read at once: what the buffer before took.
    usual: usize,
    /// What it expands to, if it is compressed.
    expanded: Vec<u8>,
    is_expanded: bool,
    at: usize,
    end: usize,
    cpu: u16,
    is_damaged: bool,
}

impl Buffer {
    /// `usual` is how many bytes a buffer of this file probably has.
    pub(super) fn new(usual: usize) -> Self {
        Self { usual: usual.clamp(HEADER, LARGEST), ..Self::default() }
    }

    /// The CPU that wrote it.
    pub(super) fn cpu(&self) -> u16 {
        self.cpu
    }

    /// The bytes from `at` on.
    #[inline]
    pub(super) fn from(&self, at: usize) -> &[u8] {
        let bytes = if self.is_expanded { &self.expanded } else { &self.raw };
        &bytes[at..self.end]
    }

    /// Reads the buffer at `offset`, or as much of it as can be had.
    #[cold]
    pub(super) fn load(
        &mut self,
        source: &ByteSource,
        offset: u64,
        how: Expansion,
        statistics: &mut Statistics,
    ) {
        (self.at, self.end, self.is_expanded, self.is_damaged) = (0, 0, false, false);
        statistics.buffers += 1;
        let Some((header, length)) = self.read(source, offset) else {
            return self.damaged(0, statistics);
        };
        self.cpu = header.cpu;
        statistics.buffers_after_lost_events += u64::from(header.flags & FLAG_EVENTS_LOST != 0);
        statistics.buffers_after_lost_buffers += u64::from(header.flags & FLAG_BUFFER_LOST != 0);
        if header.is_compressed() {
            statistics.compressed_buffers += 1;
            return self.expand(&header, length, how, statistics);
        }
        (self.at, self.end) = (HEADER, header.end.min(length));
        self.missing(header.end - self.end, statistics);
    }

    /// Reads header and data, and says how many bytes there are.
    fn read(&mut self, source: &ByteSource, offset: u64) -> Option<(BufferHeader, usize)> {
        // What a header claims is not worth memory before it is seen to be there.
        let there = usize::try_from(source.length().saturating_sub(offset)).unwrap_or(usize::MAX);
        let usual = self.usual.min(there);
        let mut length = source.read_at(self.room(usual), offset).ok()?;
        let header = BufferHeader::parse(&self.raw[..length])?;
        self.usual = header.stride;
        let whole = header.stride.min(there);
        if whole > usual && length == usual {
            length +=
                source.read_at(&mut self.room(whole)[length..], offset + length as u64).ok()?;
        }
        Some((header, length.min(header.stride)))
    }

    /// So much of the buffer, which is made larger where it has to be.
    fn room(&mut self, length: usize) -> &mut [u8] {
        if self.raw.len() < length {
            self.raw.resize(length, 0);
        }
        &mut self.raw[..length]
    }

    fn expand(
        &mut self,
        header: &BufferHeader,
        length: usize,
        how: Expansion,
        statistics: &mut Statistics,
    ) {
        if !how.is_supported {
            statistics.unsupported_buffers += 1;
            return;
        }
        let expected = header.end - HEADER;
        if expected > how.limit {
            return self.damaged(expected, statistics);
        }
        if self.expanded.len() < expected {
            self.expanded.resize(expected, 0);
        }
        let expanded =
            xpress::expand_all(&self.raw[HEADER..length], &mut self.expanded[..expected]);
        self.end = expanded.length;
        self.is_expanded = true;
        self.missing(expected - self.end, statistics);
        if expanded.unread > xpress::UNREAD_MAX {
            // The stream was to give more than there is room for: something in it is another than
            // was written.
            self.damaged(0, statistics);
        }
    }

    /// Counts bytes that cannot be read, and the buffer once.
    fn damaged(&mut self, bytes: usize, statistics: &mut Statistics) {
        statistics.damaged_buffers += u64::from(!self.is_damaged);
        self.is_damaged = true;
        statistics.damaged_bytes += bytes as u64;
    }

    /// Counts what was expected and is not there.
    fn missing(&mut self, bytes: usize, statistics: &mut Statistics) {
        if bytes > 0 {
            self.damaged(bytes, statistics);
        }
    }

    /// The next record and where it lies; passes over what is none.
    #[inline]
    pub(super) fn next(&mut self, statistics: &mut Statistics) -> Option<(usize, Head)> {
        while self.at < self.end {
            let at = self.at;
            match peek(self.from(at)) {
                BufferPart::Record(head) => {
                    self.advance(head.size.into());
                    statistics.count(head.kind);
                    return Some((at, head));
                }
                BufferPart::Other(size) => {
                    self.advance(size);
                    statistics.other_records += 1;
                }
                BufferPart::Filler => {
                    self.advance(ALIGNMENT);
                    statistics.filler_bytes += ALIGNMENT as u64;
                }
                BufferPart::Damage => {
                    let rest = self.end - at;
                    self.at = self.end;
                    self.damaged(rest, statistics);
                }
            }
        }
        None
    }

    #[inline]
    fn advance(&mut self, size: usize) {
        self.at = self.end.min(self.at + size.next_multiple_of(ALIGNMENT));
    }
}
