//! The memory of a buffer: bytes, and the headers in them.

use crate::header::{ChunkHeader, Extent, HEADER_BYTES, StoredFlags, WORD};

/// Distance between bytes of different cache lines.
const CACHE_LINE: usize = 64;

/// One contiguous run of bytes. Offsets are multiples of [`WORD`] at which an extent begins; writers
/// have no way to write to one, so what lies there is ours.
#[derive(Clone, Debug)]
pub(crate) struct Block(Box<[u8]>);

impl Block {
    /// Zeros, which the system gives out page by page when they are first written.
    pub(crate) fn zeroed(bytes: usize) -> Self {
        Self(vec![0; bytes].into_boxed_slice())
    }

    /// A copy of the first `bytes`.
    pub(crate) fn copy_of_first(&self, bytes: usize) -> Self {
        Self(self.0[..bytes].into())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn extent(&self, offset: u32) -> Extent {
        let at = offset as usize;
        let mut bytes = [0; WORD];
        bytes.copy_from_slice(&self.0[at..at + WORD]);
        Extent::from_bytes(bytes)
    }

    pub(crate) fn set_extent(&mut self, offset: u32, extent: Extent) {
        let at = offset as usize;
        self.0[at..at + WORD].copy_from_slice(&extent.to_bytes());
    }

    /// The header of a chunk, which is not padding.
    #[inline]
    pub(crate) fn header(&self, offset: u32) -> ChunkHeader {
        let at = offset as usize;
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&self.0[at..at + HEADER_BYTES]);
        ChunkHeader::from_bytes(bytes)
    }

    pub(crate) fn set_header(&mut self, offset: u32, header: ChunkHeader) {
        let at = offset as usize;
        self.0[at..at + HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }

    #[inline]
    pub(crate) fn set_read(&mut self, offset: u32, read: u16) {
        let at = offset as usize + ChunkHeader::READ_AT;
        self.0[at..at + 2].copy_from_slice(&read.to_le_bytes());
    }

    /// Makes padding of a chunk.
    pub(crate) fn erase(&mut self, offset: u32) {
        let extent = self.extent(offset);
        self.set_extent(offset, Extent { flags: StoredFlags::PADDING, packets: 0, ..extent });
    }

    /// The fragments of the chunk at `offset`, read or not.
    #[inline]
    pub(crate) fn payload(&self, offset: u32, header: ChunkHeader) -> &[u8] {
        let at = offset as usize + HEADER_BYTES;
        &self.0[at..at + usize::from(header.payload)]
    }

    /// `len` bytes at `offset`, which need not be where an extent begins.
    #[inline]
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        &self.0[offset..offset + len]
    }

    /// Writes into the payload of the chunk at `offset`.
    pub(crate) fn write(&mut self, offset: u32, at: usize, bytes: &[u8]) {
        let at = offset as usize + HEADER_BYTES + at;
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Brings the bytes of a chunk near the CPU, those behind the first `from`: where a fragment lies
    /// is known only when the one before was looked at, so that each would be waited for; the lines
    /// of memory come side by side.
    #[inline]
    pub(crate) fn approach(&self, offset: u32, header: ChunkHeader, from: u16) {
        let lines = self.payload(offset, header)[usize::from(from)..].iter().step_by(CACHE_LINE);
        std::hint::black_box(lines.fold(0, |sum, byte| sum ^ byte));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_bytes_that_were_used_and_no_more() {
        let mut block = Block::zeroed(64);
        block.set_extent(16, Extent::padding(8));
        let copy = block.copy_of_first(24);
        assert_eq!((copy.len(), copy.extent(16)), (24, Extent::padding(8)));
    }
}
