//! Bytes to chunks.

use crate::codec::ReadBuffer;
use crate::definition::variant;
use crate::format::{CHUNK_HEADER, Encoding, StoredHeader};
use crate::index::{find_gaps, join_copies};
use crate::scan::Scanner;
use crate::{Chunk, Damage, Definition, IndexEntry, LaneEnd, StoreError};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use syscollect_byte_source::ByteSource;
use syscollect_model::{Lane, LaneKind};

/// Reads a capture file, whole or damaged.
///
/// Opening reads the chunks' headers only and keeps 64 bytes of each. Payloads
/// are verified when they are read; of a definition the copy that verifies.
#[derive(Debug)]
pub struct CaptureReader {
    source: ByteSource,
    /// The capture as messages name it.
    name: String,
    lanes: BTreeMap<Lane, Vec<IndexEntry>>,
    damage: Vec<Damage>,
    end: u64,
}

impl CaptureReader {
    /// Opens a capture file.
    ///
    /// # Errors
    ///
    /// [`StoreError::Open`], [`StoreError::Read`], [`StoreError::NotACapture`]
    /// and [`StoreError::NewerFormat`]; damage is none, see [`Self::damage`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let source = ByteSource::open(path)
            .map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
        Self::new(source, path.display().to_string())
    }

    /// Reads a capture from an open file, wherever that stands.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn from_file(file: File) -> Result<Self, StoreError> {
        let capture = "the capture".to_owned();
        match ByteSource::of_file(file) {
            Ok(source) => Self::new(source, capture),
            Err(source) => Err(StoreError::Read { capture, offset: 0, source }),
        }
    }

    /// Reads a capture that has so many bytes: what somebody else makes of the file behind them
    /// takes no time.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn from_part(file: File, bytes: u64) -> Result<Self, StoreError> {
        let capture = "the capture".to_owned();
        match ByteSource::of_part(file, bytes) {
            Ok(source) => Self::new(source, capture),
            Err(source) => Err(StoreError::Read { capture, offset: 0, source }),
        }
    }

    /// Reads a capture from memory.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, StoreError> {
        Self::new(ByteSource::from(bytes), "the capture".to_owned())
    }

    fn new(source: ByteSource, name: String) -> Result<Self, StoreError> {
        let mut scan = Scanner::new(&source, &name)?.run()?;
        for entries in scan.entries.values_mut() {
            join_copies(entries, &mut scan.damage);
        }
        let mut reader =
            Self { source, name, lanes: scan.entries, damage: scan.damage, end: scan.end };
        reader.find_gaps();
        Ok(reader)
    }

    /// The capture as messages name it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The lanes that have chunks, in order.
    pub fn lanes(&self) -> Vec<Lane> {
        self.lanes.keys().copied().collect()
    }

    /// The chunks of a lane by ascending number, each once.
    pub fn chunks(&self, lane: Lane) -> &[IndexEntry] {
        self.lanes.get(&lane).map_or(&[], Vec::as_slice)
    }

    /// Reads a chunk: the first of its copies that verifies.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] when none does (its records are lost, and
    /// [`IndexEntry::records`] says how many), [`StoreError::Read`].
    pub fn read(&self, entry: &IndexEntry) -> Result<Chunk, StoreError> {
        let mut data = Vec::new();
        let header = self.read_into(entry, &mut data, &mut ReadBuffer::default())?;
        Ok(Chunk { header, data })
    }

    /// The same into a vector that is used again. On an error its content means nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    pub fn read_into(
        &self,
        entry: &IndexEntry,
        data: &mut Vec<u8>,
        buffer: &mut ReadBuffer,
    ) -> Result<crate::ChunkHeader, StoreError> {
        let mut first_error = None;
        for offset in entry.offsets() {
            match self.read_copy(entry, offset, data, buffer) {
                Ok(header) => return Ok(header.chunk),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        // An entry has one offset at least, so an error was noted.
        Err(first_error.unwrap_or_else(|| self.damaged(entry, entry.offset, "it is nowhere")))
    }

    fn read_copy(
        &self,
        entry: &IndexEntry,
        offset: u64,
        data: &mut Vec<u8>,
        buffer: &mut ReadBuffer,
    ) -> Result<StoredHeader, StoreError> {
        let length = CHUNK_HEADER + entry.stored as usize;
        self.source
            .read_into(&mut buffer.stored, length, offset)
            .map_err(|source| StoreError::Read { capture: self.name.clone(), offset, source })?;
        let header = StoredHeader::parse(&buffer.stored)
            .filter(|header| IndexEntry::new(offset, header).is_copy_of(entry))
            .ok_or_else(|| {
                self.damaged(entry, offset, "its header changed since the file was opened")
            })?;
        let payload = buffer.stored.get(CHUNK_HEADER..length).unwrap_or_default();
        if crc32fast::hash(payload) != header.payload_crc {
            return Err(self.damaged(entry, offset, "its checksum does not fit"));
        }
        let encoding = Encoding::from_number(header.encoding)
            .ok_or_else(|| self.damaged(entry, offset, "its encoding is of a later version"))?;
        let shape = (header.chunk.length as usize, header.chunk.stride as usize);
        buffer
            .decode(CHUNK_HEADER, encoding, shape, data)
            .map_err(|reason| self.damaged(entry, offset, reason))?;
        Ok(header)
    }

    /// The definitions in the order they were written. Those that a later
    /// version added are passed over.
    pub fn definitions(&self) -> impl Iterator<Item = Result<Definition, StoreError>> {
        let (mut data, mut buffer) = (Vec::new(), ReadBuffer::default());
        self.definition_chunks().iter().filter_map(move |entry| {
            if let Err(error) = self.read_into(entry, &mut data, &mut buffer) {
                return Some(Err(error));
            }
            let definition = Definition::from_json(&data).map_err(|source| {
                let (capture, sequence) = (self.name.clone(), entry.sequence);
                StoreError::Definition { capture, sequence, source }
            });
            definition.transpose()
        })
    }

    /// The number that the next definition gets, for [`crate::CaptureWriter::append`].
    pub fn next_definition_sequence(&self) -> u64 {
        self.definition_chunks().last().map_or(0, |entry| entry.sequence.saturating_add(1))
    }

    /// Where the last whole chunk ends: cut the file there before appending.
    pub fn valid_length(&self) -> u64 {
        self.end
    }

    /// What the file should hold and does not, as far as headers tell.
    /// Chunks whose payload is damaged show when they are read.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Whether the recording came to its end: a summary is there.
    pub fn is_complete(&self) -> bool {
        self.last_definition("summary").is_some()
    }

    fn definition_chunks(&self) -> &[IndexEntry] {
        self.chunks(Lane::new(LaneKind::Definition, 0))
    }

    /// The last definition of that name, if it can be read.
    fn last_definition(&self, name: &str) -> Option<Definition> {
        let (mut data, mut buffer) = (Vec::new(), ReadBuffer::default());
        let mut last_first = self.definition_chunks().iter().rev();
        last_first.find_map(|entry| {
            self.read_into(entry, &mut data, &mut buffer).ok()?;
            if variant(&data) != Some(name) {
                return None;
            }
            serde_json::from_slice(&data).ok()
        })
    }

    fn find_gaps(&mut self) {
        let ends = match self.last_definition("lanes") {
            Some(Definition::Lanes(ends)) => ends,
            _ => Vec::new(),
        };
        let ends: BTreeMap<Lane, LaneEnd> =
            ends.into_iter().filter_map(|end| Some((end.lane()?, end))).collect();
        for (lane, end) in &ends {
            find_gaps(
                *lane,
                self.lanes.get(lane).map_or(&[], Vec::as_slice),
                Some(end),
                &mut self.damage,
            );
        }
        for (lane, entries) in self.lanes.iter().filter(|(lane, _)| !ends.contains_key(lane)) {
            find_gaps(*lane, entries, None, &mut self.damage);
        }
    }

    fn damaged(&self, entry: &IndexEntry, offset: u64, reason: &'static str) -> StoreError {
        StoreError::Damaged {
            capture: self.name.clone(),
            lane: entry.lane,
            sequence: entry.sequence,
            offset,
            reason,
        }
    }
}
