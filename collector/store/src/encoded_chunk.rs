//! A chunk as a file has it.

use crate::codec::{Encoder, ReadBuffer};
use crate::format::{CHUNK_HEADER, Encoding, MAX_CHUNK, StoredHeader};
use crate::{Chunk, ChunkHeader};

/// A chunk in the form in which it is stored: compressed, with the header that lies before it in a
/// file. A buffer that keeps events for long keeps them so.
#[derive(Debug)]
pub struct EncodedChunk {
    header: ChunkHeader,
    /// Header and payload.
    bytes: Box<[u8]>,
}

impl EncodedChunk {
    /// `None` for a chunk that is too large for a file.
    pub(crate) fn of(encoder: &mut Encoder, chunk: &Chunk) -> Option<Self> {
        if chunk.data.len() > MAX_CHUNK {
            return None;
        }
        let header = ChunkHeader { length: chunk.data.len() as u32, ..chunk.header };
        let (stored, payload) = encoder.store(header, &chunk.data);
        let bytes = [&stored.to_bytes()[..], payload].concat();
        Some(Self { header, bytes: bytes.into() })
    }

    /// What is known of it without decoding it.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The chunk; none has been seen that cannot be decoded.
    pub(crate) fn decode(&self, buffer: &mut ReadBuffer) -> Option<Chunk> {
        let header = StoredHeader::parse(&self.bytes)?;
        buffer.stored.clear();
        buffer.stored.extend_from_slice(&self.bytes);
        let encoding = Encoding::from_number(header.encoding)?;
        let shape = (self.header.length as usize, self.header.stride as usize);
        let mut data = Vec::new();
        buffer.decode(CHUNK_HEADER, encoding, shape, &mut data).ok()?;
        Some(Chunk { header: self.header, data })
    }

    /// Bytes of memory that it takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}
