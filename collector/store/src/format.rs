//! The bytes of headers. `docs/capture-format.md` is the same in words.

use crate::ChunkHeader;
use syscollect_model::{Lane, LaneKind, MachineId, Ticks};

/// Major version: a reader refuses files with a greater one.
pub(crate) const MAJOR: u16 = 1;
/// Minor version: grows with additions that old readers pass over.
pub(crate) const MINOR: u16 = 0;
/// Bytes of the file header.
pub(crate) const FILE_HEADER: usize = 32;
/// Bytes of a capture file that holds nothing.
pub const EMPTY_CAPTURE_BYTES: u64 = FILE_HEADER as u64;
/// Bytes of a chunk header.
pub(crate) const CHUNK_HEADER: usize = 72;
/// Most bytes of one chunk's records.
pub const MAX_CHUNK: usize = 4 << 20;
/// The kind of lane that pads: readers pass over it.
pub(crate) const FILLER: u16 = 0;

/// Starts the file. Like PNG's: shows transfers that cut bit 7 or change line ends.
const FILE_MAGIC: [u8; 8] = *b"\x89SCAP\r\n\x1a";
/// Starts a chunk. 0xFD and 0xFE never occur in UTF-8, so no text looks like it.
pub(crate) const CHUNK_MAGIC: [u8; 4] = [0xFD, b'C', b'k', 0xFE];

/// The file header of this version.
pub(crate) fn file_header() -> [u8; FILE_HEADER] {
    let mut bytes = [0; FILE_HEADER];
    bytes[..8].copy_from_slice(&FILE_MAGIC);
    bytes[8..10].copy_from_slice(&MAJOR.to_le_bytes());
    bytes[10..12].copy_from_slice(&MINOR.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What the first bytes of a file say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileHeader {
    /// A capture of this major version.
    Verified(u16),
    /// It does not verify.
    Damaged,
}

impl FileHeader {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let Some(bytes) = bytes.first_chunk::<FILE_HEADER>() else { return Self::Damaged };
        if bytes[..8] != FILE_MAGIC || u32_at(bytes, 28) != crc32fast::hash(&bytes[..28]) {
            return Self::Damaged;
        }
        Self::Verified(u16_at(bytes, 8))
    }
}

/// How the payload of a chunk is stored. Numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Encoding {
    /// As it is.
    Raw = 0,
    /// An LZ4 block.
    Lz4 = 1,
    /// An LZ4 block of the transposed records, after each stamp's ticks were
    /// replaced by their distance from those before.
    Columns = 2,
}

impl Encoding {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Raw, Self::Lz4, Self::Columns].into_iter().find(|e| *e as u8 == number)
    }
}

/// A chunk header as it lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredHeader {
    /// Number of the lane's kind, which may be unknown here.
    pub(crate) kind: u16,
    /// The rest of the chunk's header; for unknown kinds its lane means nothing.
    pub(crate) chunk: ChunkHeader,
    /// Bytes of the payload in the file.
    pub(crate) stored: u32,
    /// Checksum of the payload as stored.
    pub(crate) payload_crc: u32,
    /// Number of the encoding, which may be unknown here.
    pub(crate) encoding: u8,
    /// 0 for the first copy, 1 for the second.
    pub(crate) copy: u8,
}

impl StoredHeader {
    /// The bytes, with their checksum.
    pub(crate) fn to_bytes(self) -> [u8; CHUNK_HEADER] {
        let mut bytes = [0; CHUNK_HEADER];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC);
        bytes[8..10].copy_from_slice(&self.kind.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.chunk.lane.index.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.chunk.stride.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.chunk.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.chunk.first.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.chunk.last.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.chunk.records_before.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.chunk.records.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.chunk.current_tid.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.chunk.length.to_le_bytes());
        bytes[60..64].copy_from_slice(&self.stored.to_le_bytes());
        bytes[64..68].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[68] = self.encoding;
        bytes[69] = self.copy;
        bytes[70..72].copy_from_slice(&self.chunk.lane.machine.0.to_le_bytes());
        let crc = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header from the start of `bytes`; `None` if none verifies there
    /// or its lengths are beyond what the format allows.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<CHUNK_HEADER>()?;
        if bytes[..4] != CHUNK_MAGIC || u32_at(bytes, 4) != crc32fast::hash(&bytes[8..]) {
            return None;
        }
        let kind = u16_at(bytes, 8);
        let lane = Lane {
            machine: MachineId(u16_at(bytes, 70)),
            kind: LaneKind::from_number(kind).unwrap_or(LaneKind::Definition),
            index: u16_at(bytes, 10),
        };
        let chunk = ChunkHeader {
            lane,
            stride: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            first: Ticks(u64_at(bytes, 24)),
            last: Ticks(u64_at(bytes, 32)),
            records_before: u64_at(bytes, 40),
            records: u32_at(bytes, 48),
            current_tid: u32_at(bytes, 52),
            length: u32_at(bytes, 56),
        };
        let header = Self {
            kind,
            chunk,
            stored: u32_at(bytes, 60),
            payload_crc: u32_at(bytes, 64),
            encoding: bytes[68],
            copy: bytes[69],
        };
        (header.chunk.length as usize <= MAX_CHUNK && header.stored <= header.chunk.length)
            .then_some(header)
    }

    /// The lane, if its kind is known here.
    pub(crate) fn lane(&self) -> Option<Lane> {
        (LaneKind::from_number(self.kind)?.eq(&self.chunk.lane.kind)).then_some(self.chunk.lane)
    }

    /// Bytes of header and payload in the file.
    pub(crate) fn size(&self) -> u64 {
        CHUNK_HEADER as u64 + u64::from(self.stored)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
