//! A chunk as a file has it.

use crate::codec::Encoder;
use crate::format::MAX_CHUNK;
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

    /// Bytes of memory that it takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}
