//! What lies before each chunk in the block, and what padding is.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..2 | `words` | size of the whole in words of 4 bytes, header included |
//! | 2 | `flags` | [`StoredFlags`] |
//! | 3 | `packets` | packets in a chunk of whole ones, or [`MANY_PACKETS`] |
//! | 4..6 | `producer` | |
//! | 6..8 | `writer` | |
//! | 8..12 | `id` | the chunk's number in its sequence |
//! | 12..14 | `payload` | bytes of fragments that are there |
//! | 14..16 | `read` | bytes of them that were consumed |
//!
//! All little-endian. Padding has the first word only, so that whatever lies between two chunks can
//! be padding, be it 4 bytes. A chunk that was consumed becomes padding by its flag.

use crate::chunk::{ChunkFlags, SequenceId};
use std::ops::BitOr;

/// Bytes before a chunk's payload.
pub const HEADER_BYTES: usize = 16;

/// Chunks and padding begin at multiples of it.
pub(crate) const WORD: usize = 4;

/// In [`Extent::packets`]: so many that only the fragments themselves tell.
pub(crate) const MANY_PACKETS: u8 = u8::MAX;

/// Flags of what lies in the block: the writer's lowest three, and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredFlags(u8);

impl StoredFlags {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const FROM_PREVIOUS: Self = Self(ChunkFlags::FROM_PREVIOUS.bits());
    pub(crate) const ON_NEXT: Self = Self(ChunkFlags::ON_NEXT.bits());
    pub(crate) const NEEDS_PATCH: Self = Self(ChunkFlags::NEEDS_PATCH.bits());
    /// No chunk, or none any more.
    pub(crate) const PADDING: Self = Self(0x08);
    /// The writer gave up a fragment behind those that are there.
    pub(crate) const ABORTED: Self = Self(0x20);
    /// A fragment behind those that are there is none.
    pub(crate) const DAMAGED: Self = Self(0x40);
    /// The writer still has the chunk.
    pub(crate) const INCOMPLETE: Self = Self(0x80);
    /// A fragment is missing at the end.
    pub(crate) const CUT: Self = Self(Self::ABORTED.0 | Self::DAMAGED.0);

    pub(crate) const fn from_writer(flags: ChunkFlags) -> Self {
        Self(flags.bits())
    }

    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(crate) fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

impl BitOr for StoredFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The first word, which chunks and padding have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) words: u16,
    pub(crate) flags: StoredFlags,
    pub(crate) packets: u8,
}

impl Extent {
    /// Padding of `bytes`, a multiple of [`WORD`] that is at most [`Self::LONGEST`].
    pub(crate) fn padding(bytes: usize) -> Self {
        debug_assert!(bytes.is_multiple_of(WORD) && (WORD..=Self::LONGEST).contains(&bytes));
        Self { words: (bytes / WORD) as u16, flags: StoredFlags::PADDING, packets: 0 }
    }

    /// Bytes that one extent can have.
    pub(crate) const LONGEST: usize = u16::MAX as usize * WORD;

    pub(crate) const fn bytes(self) -> usize {
        self.words as usize * WORD
    }

    pub(crate) const fn is_padding(self) -> bool {
        self.flags.intersects(StoredFlags::PADDING)
    }

    pub(crate) const fn from_bytes(bytes: [u8; WORD]) -> Self {
        let [low, high, flags, packets] = bytes;
        Self { words: u16::from_le_bytes([low, high]), flags: StoredFlags(flags), packets }
    }

    pub(crate) const fn to_bytes(self) -> [u8; WORD] {
        let [low, high] = self.words.to_le_bytes();
        [low, high, self.flags.0, self.packets]
    }
}

/// The whole header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) extent: Extent,
    pub(crate) sequence: SequenceId,
    pub(crate) id: u32,
    pub(crate) payload: u16,
    pub(crate) read: u16,
}

impl ChunkHeader {
    /// Where `read` lies in the header.
    pub(crate) const READ_AT: usize = 14;

    /// Bytes that a chunk with a payload of `room` bytes takes.
    pub(crate) const fn bytes_for(room: usize) -> usize {
        HEADER_BYTES + room.next_multiple_of(WORD)
    }

    /// Bytes that the payload can have.
    pub(crate) const fn room(self) -> usize {
        self.extent.bytes() - HEADER_BYTES
    }

    pub(crate) const fn has(self, flags: StoredFlags) -> bool {
        self.extent.flags.intersects(flags)
    }

    /// Whether it has whole packets only, all unread, in a number that is known.
    pub(crate) fn is_plain(self) -> bool {
        self.extent.flags == StoredFlags::NONE
            && self.read == 0
            && self.extent.packets != MANY_PACKETS
    }

    #[inline]
    pub(crate) const fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let [b0, b1, b2, b3, p0, p1, w0, w1, i0, i1, i2, i3, l0, l1, r0, r1] = bytes;
        Self {
            extent: Extent::from_bytes([b0, b1, b2, b3]),
            sequence: SequenceId {
                producer: u16::from_le_bytes([p0, p1]),
                writer: u16::from_le_bytes([w0, w1]),
            },
            id: u32::from_le_bytes([i0, i1, i2, i3]),
            payload: u16::from_le_bytes([l0, l1]),
            read: u16::from_le_bytes([r0, r1]),
        }
    }

    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [b0, b1, b2, b3] = self.extent.to_bytes();
        let [p0, p1] = self.sequence.producer.to_le_bytes();
        let [w0, w1] = self.sequence.writer.to_le_bytes();
        let [i0, i1, i2, i3] = self.id.to_le_bytes();
        let [l0, l1] = self.payload.to_le_bytes();
        let [r0, r1] = self.read.to_le_bytes();
        [b0, b1, b2, b3, p0, p1, w0, w1, i0, i1, i2, i3, l0, l1, r0, r1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_sixteen_bytes_with_each_field_where_the_table_says() {
        let header = ChunkHeader {
            extent: Extent { words: 0x0102, flags: StoredFlags::INCOMPLETE, packets: 3 },
            sequence: SequenceId::new(0x0405, 0x0607),
            id: 0x0809_0a0b,
            payload: 0x0c0d,
            read: 0x0e0f,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes, [2, 1, 0x80, 3, 5, 4, 7, 6, 0xb, 0xa, 9, 8, 0xd, 0xc, 0xf, 0xe]);
        assert_eq!(ChunkHeader::from_bytes(bytes), header);
        assert_eq!(bytes[ChunkHeader::READ_AT..], header.read.to_le_bytes());
    }

    #[test]
    fn the_longest_chunk_fits_its_size_field() {
        assert!(ChunkHeader::bytes_for(crate::MAX_PAYLOAD) <= Extent::LONGEST);
        assert_eq!(ChunkHeader::bytes_for(0), 16);
        assert_eq!(ChunkHeader::bytes_for(5), 24);
    }

    #[test]
    fn padding_needs_one_word() {
        let padding = Extent::padding(4);
        assert!(padding.is_padding());
        assert_eq!(Extent::from_bytes(padding.to_bytes()), padding);
    }
}
