//! What a writer commits: a chunk of fragments, and the patches that come after it.

use std::ops::{BitOr, BitOrAssign};

/// A writer of a producer: packets of one sequence come out in the order in which they were written.
///
/// Who assigns producer ids knows that they are true; writer ids are claims of the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId {
    /// The program, or what else writes.
    pub producer: u16,
    /// One of up to 65,536 writers of the producer, a thread for example.
    pub writer: u16,
}

impl SequenceId {
    /// The writer `writer` of the producer `producer`.
    pub const fn new(producer: u16, writer: u16) -> Self {
        Self { producer, writer }
    }

    pub(crate) const fn key(self) -> u32 {
        (self.producer as u32) << 16 | self.writer as u32
    }
}

/// What a writer says of the first and the last fragment of its chunk. The bits are those of the
/// chunk headers in Perfetto's shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkFlags(u8);

impl ChunkFlags {
    /// All fragments are whole packets.
    pub const NONE: Self = Self(0);
    /// The first fragment goes on with the packet that the last chunk left open.
    pub const FROM_PREVIOUS: Self = Self(1);
    /// The packet of the last fragment goes on in the next chunk.
    pub const ON_NEXT: Self = Self(2);
    /// The last fragment is not valid before patches have come ([`Patch`]).
    pub const NEEDS_PATCH: Self = Self(4);

    /// The flags of the lowest three bits; others mean nothing and are left out.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// The flags as bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for ChunkFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for ChunkFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// A chunk as a writer sent it, or as it was copied out of the writer's memory. Nothing in it is
/// trusted but the producer's id.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Whose chunk it is.
    pub sequence: SequenceId,
    /// Its number in the sequence: one more than that of the chunk before, modulo 2^32.
    pub id: u32,
    /// How many fragments `payload` has. Bytes behind them are ignored.
    pub fragments: u16,
    /// What the first and the last fragment are.
    pub flags: ChunkFlags,
    /// Whether the writer is done with the chunk. If not, it was scraped: copied while the writer
    /// still has it. Its last fragment is not read then, and as many bytes as `payload` has are
    /// reserved, so that the commit of the same id that follows can extend it.
    pub is_complete: bool,
    /// The fragments, each a size (a base-128 varint of up to 10 bytes) and that many bytes; at most
    /// [`MAX_PAYLOAD`](crate::MAX_PAYLOAD) bytes. Memory that nobody else writes to meanwhile: who
    /// reads memory that is shared copies it first.
    pub payload: &'a [u8],
}

/// Bytes that replace as many of a chunk's last fragment: a size that was not known when the chunk
/// was committed, for example.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    /// Where they go, in bytes from the beginning of the chunk's payload.
    pub offset: u32,
    /// What is written there.
    pub bytes: &'a [u8],
}
