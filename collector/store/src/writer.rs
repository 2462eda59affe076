//! Chunks to bytes.

use crate::codec::Encoder;
use crate::format::{CHUNK_HEADER, FILLER, MAX_CHUNK, StoredHeader, file_header};
use crate::{Chunk, ChunkHeader, Definition, EncodedChunk, LaneEnd, StoreError};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use syscollect_model::{Lane, LaneKind, Ticks};

/// Bytes between the copies of a definition.
const COPY_DISTANCE: u64 = 1 << 20;
/// Fewest bytes between the copies where the file ends earlier: a page.
const SPOT: u64 = 4096;

/// Writes a capture file.
///
/// Every chunk goes out in one write, so that a recorder that is killed loses
/// none that it had written. Chunks of definition lanes are written a second
/// time, at least 1 MiB later or at the end; so long their bytes are kept,
/// which is not more than 1 MiB and one chunk.
pub struct CaptureWriter<W: Write> {
    out: W,
    written: u64,
    encoder: Encoder,
    /// The chunk that is being put together.
    bytes: Vec<u8>,
    copies: VecDeque<Copy>,
    next_definition: u64,
    ends: BTreeMap<Lane, LaneEnd>,
}

/// A chunk whose second copy is not written yet.
struct Copy {
    /// Where the first copy ends.
    end: u64,
    bytes: Vec<u8>,
}

impl<W: Write> CaptureWriter<W> {
    /// Starts a capture: writes the file header.
    ///
    /// # Errors
    ///
    /// [`StoreError::Write`] when `out` refuses it.
    pub fn create(out: W) -> Result<Self, StoreError> {
        let mut writer = Self::append(out, 0);
        writer.put(&file_header())?;
        Ok(writer)
    }

    /// Continues a capture whose end `out` stands at, to add definitions.
    /// `next_definition_sequence` is what [`crate::CaptureReader`] says.
    pub fn append(out: W, next_definition_sequence: u64) -> Self {
        Self {
            out,
            written: 0,
            encoder: Encoder::new(),
            bytes: Vec::new(),
            copies: VecDeque::new(),
            next_definition: next_definition_sequence,
            ends: BTreeMap::new(),
        }
    }

    /// Writes a chunk. Chunks of [`LaneKind::Definition`] are numbered here;
    /// all others keep the number they have.
    ///
    /// # Errors
    ///
    /// [`StoreError::Write`] when the output refuses it, and
    /// [`StoreError::ChunkTooLarge`].
    pub fn write(&mut self, chunk: &Chunk) -> Result<(), StoreError> {
        let mut header = chunk.header;
        if chunk.data.len() > MAX_CHUNK {
            let (lane, length) = (header.lane, chunk.data.len());
            return Err(StoreError::ChunkTooLarge { lane, length, limit: MAX_CHUNK });
        }
        header.length = chunk.data.len() as u32;
        if header.lane.kind == LaneKind::Definition {
            (header.sequence, header.records_before, header.records) =
                (self.next_definition, self.next_definition, 1);
        }
        let mut stored = self.encode(header, &chunk.data);
        let bytes = std::mem::take(&mut self.bytes);
        let result = self.put(&bytes);
        self.bytes = bytes;
        result?;
        if header.lane.kind == LaneKind::Definition {
            self.next_definition += 1;
        } else if header.lane.kind != LaneKind::FilePart {
            // Parts of files are added to a capture whose ends were told already.
            self.note_end(LaneEnd::after(&header));
        }
        if header.lane.kind.is_definition() {
            stored.copy = 1;
            self.keep_copy(stored);
        }
        self.write_due_copies()
    }

    /// Writes a chunk of events that has the form of the file already.
    ///
    /// # Errors
    ///
    /// [`StoreError::Write`] when the output refuses it.
    pub fn write_encoded(&mut self, chunk: &EncodedChunk) -> Result<(), StoreError> {
        self.put(chunk.bytes())?;
        self.note_end(LaneEnd::after(chunk.header()));
        self.write_due_copies()
    }

    /// Writes a definition. Long lists are divided among several chunks.
    ///
    /// # Errors
    ///
    /// Those of [`Self::write`].
    pub fn define(&mut self, definition: &Definition) -> Result<(), StoreError> {
        definition.chunks().iter().try_for_each(|chunk| self.write(chunk))
    }

    /// Notes what a lane produced in all, as far as that is more than what was
    /// written: its last chunks may have been dropped on the way.
    pub fn note_end(&mut self, end: LaneEnd) {
        if let Some(lane) = end.lane() {
            self.ends.entry(lane).or_insert(end).extend(&end);
        }
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.written
    }

    /// Where everything goes.
    pub fn output_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// The number that the next definition gets.
    pub fn next_definition_sequence(&self) -> u64 {
        self.next_definition
    }

    /// Ends the file: writes what the lanes produced and the missing second
    /// copies, and gives the output back.
    ///
    /// # Errors
    ///
    /// [`StoreError::Write`] when the output refuses it.
    pub fn finish(mut self) -> Result<W, StoreError> {
        if !self.ends.is_empty() {
            let ends = self.ends.values().copied().collect();
            self.define(&Definition::Lanes(ends))?;
        }
        while let Some(end) = self.copies.front().map(|copy| copy.end) {
            let distance = self.written - end;
            if distance < SPOT {
                self.put_filler((SPOT - distance) as usize)?;
            }
            self.write_copies_until(end)?;
        }
        self.out.flush().map_err(|source| StoreError::Write { written: self.written, source })?;
        Ok(self.out)
    }

    /// Puts header and payload together in `self.bytes`.
    fn encode(&mut self, header: ChunkHeader, data: &[u8]) -> StoredHeader {
        let (stored, payload) = self.encoder.store(header, data);
        self.bytes.clear();
        self.bytes.extend_from_slice(&stored.to_bytes());
        self.bytes.extend_from_slice(payload);
        stored
    }

    /// Keeps the chunk in `self.bytes` until its second copy is due.
    fn keep_copy(&mut self, stored: StoredHeader) {
        let mut bytes = self.bytes.clone();
        bytes[..CHUNK_HEADER].copy_from_slice(&stored.to_bytes());
        self.copies.push_back(Copy { end: self.written, bytes });
    }

    /// Writes the second copies that are due.
    fn write_due_copies(&mut self) -> Result<(), StoreError> {
        match self.written.checked_sub(COPY_DISTANCE) {
            Some(offset) => self.write_copies_until(offset),
            None => Ok(()),
        }
    }

    /// Writes the second copies of chunks that end at `offset` or before.
    fn write_copies_until(&mut self, offset: u64) -> Result<(), StoreError> {
        while self.copies.front().is_some_and(|copy| copy.end <= offset)
            && let Some(copy) = self.copies.pop_front()
        {
            self.put(&copy.bytes)?;
        }
        Ok(())
    }

    /// Keeps two copies apart where the file ends too soon.
    fn put_filler(&mut self, length: usize) -> Result<(), StoreError> {
        let payload = vec![0; length];
        let lane = Lane::new(LaneKind::Definition, 0);
        let header = StoredHeader {
            kind: FILLER,
            chunk: ChunkHeader {
                lane,
                length: length as u32,
                records: 0,
                ..Definition::chunk_header(length)
            },
            stored: length as u32,
            payload_crc: crc32fast::hash(&payload),
            encoding: 0,
            copy: 0,
        };
        self.put(&header.to_bytes())?;
        self.put(&payload)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.written;
        self.out.write_all(bytes).map_err(|source| StoreError::Write { written, source })?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

impl Definition {
    /// The header of a chunk with one definition; the writer numbers it.
    pub(crate) fn chunk_header(length: usize) -> ChunkHeader {
        ChunkHeader {
            lane: Lane::new(LaneKind::Definition, 0),
            sequence: 0,
            first: Ticks(0),
            last: Ticks(0),
            current_tid: 0,
            stride: 0,
            records_before: 0,
            records: 1,
            length: length as u32,
        }
    }
}
