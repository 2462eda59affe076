//! Parts of files of code, kept so that their functions can be named on machines without them.
//!
//! They come behind a recording's events, as names do. Each chunk is one part: where it lies in its
//! file, 8 bytes, and its bytes. [`KeptFile`] says which chunks are whose; what no
//! such definition speaks of means nothing.

use crate::format::CHUNK_HEADER;
use crate::{CaptureReader, CaptureWriter, Chunk, ChunkHeader, KeptFile, StoreError};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use syscollect_model::{Lane, LaneKind, Ticks};

const LANE: Lane = Lane::new(LaneKind::FilePart, 0);
/// Where a part lies in its file.
const PLACE: usize = 8;
/// Most bytes of one part: what does not fit is several.
pub const PART_MAX: usize = 1 << 20;

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl FilePart {
    fn chunk(sequence: u64, offset: u64, bytes: &[u8]) -> Chunk {
        let data = [&offset.to_le_bytes(), bytes].concat();
        let header = ChunkHeader {
            lane: LANE,
            sequence,
            first: Ticks(0),
            last: Ticks(0),
            current_tid: 0,
            stride: 0,
            records_before: sequence,
            records: 1,
            length: data.len() as u32,
        };
        Chunk { header, data }
    }

    fn read(mut data: Vec<u8>) -> Option<Self> {
        let offset = u64::from_le_bytes(*data.first_chunk::<PLACE>()?);
        data.drain(..PLACE);
        Some(Self { offset, bytes: data })
    }
}

/// Takes a part, by where it lies in its file and its bytes; `false` if no more are wanted.
pub type TakePart<'a, E> = dyn FnMut(u64, &[u8]) -> Result<bool, E> + 'a;

/// Adds parts of files to the end of a capture: of each file all of them, or none.
#[derive(Debug)]
pub struct FilePartsWriter {
    file: File,
    /// Where the last whole file ends.
    end: u64,
    /// The number of the next chunk.
    next: u64,
    next_definition: u64,
}

impl FilePartsWriter {
    /// Goes on behind `end`, where `reader` says that the capture in `file` ends.
    pub fn append(file: File, end: u64, reader: &CaptureReader) -> Self {
        let next = reader.chunks(LANE).last().map_or(0, |entry| entry.sequence.saturating_add(1));
        Self { file, end, next, next_definition: reader.next_definition_sequence() }
    }

    /// Where the capture ends now.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Takes back the file that was added last.
    ///
    /// # Errors
    ///
    /// [`StoreError::Write`] when the capture cannot be cut.
    pub fn take_back(&mut self, last: &KeptFile) -> Result<(), StoreError> {
        (self.end, self.next) = (self.end - last.stored, self.next - last.chunks);
        self.file.set_len(self.end).map_err(|source| StoreError::Write { written: 0, source })
    }

    /// Adds a file whose parts `each` hands over one by one, as long as they take no more than
    /// `most` bytes of the capture; `None`, and nothing is added, if they take more. What is given
    /// back has `first`, `chunks` and `stored`.
    ///
    /// # Errors
    ///
    /// Those of `each`, and [`StoreError::Write`]; nothing is added then.
    pub fn add<E: From<StoreError>>(
        &mut self,
        most: u64,
        each: impl FnOnce(&mut TakePart<'_, E>) -> Result<(), E>,
    ) -> Result<Option<KeptFile>, E> {
        self.file.set_len(self.end).map_err(nothing_written)?;
        self.file.seek(SeekFrom::Start(self.end)).map_err(nothing_written)?;
        let mut writer = CaptureWriter::append(&self.file, self.next_definition);
        let (mut chunks, mut is_too_much) = (0, false);
        let written = each(&mut |offset, bytes| {
            for (number, part) in bytes.chunks(PART_MAX).enumerate() {
                let offset = offset.saturating_add((number * PART_MAX) as u64);
                writer.write(&FilePart::chunk(self.next + chunks, offset, part))?;
                chunks += 1;
            }
            is_too_much = writer.bytes() > most;
            Ok(!is_too_much)
        });
        let stored = writer.bytes();
        writer.finish()?;
        if written.is_err() || is_too_much {
            self.file.set_len(self.end).map_err(nothing_written)?;
        }
        written?;
        if is_too_much {
            return Ok(None);
        }
        let first = self.next;
        (self.end, self.next) = (self.end + stored, self.next + chunks);
        Ok(Some(KeptFile { first, chunks, stored, ..KeptFile::default() }))
    }
}

fn nothing_written(source: std::io::Error) -> StoreError {
    StoreError::Write { written: 0, source }
}

impl CaptureReader {
    /// Files of code of which the capture has parts, and such of which it has none.
    pub fn files(&self) -> impl Iterator<Item = KeptFile> {
        self.definitions()
            .filter_map(|definition| match definition {
                Ok(crate::Definition::Files(files)) => Some(files),
                _ => None,
            })
            .flatten()
    }

    /// The parts of a file, in the order they were written.
    ///
    /// # Errors
    ///
    /// One that is missing or damaged, without which the file means nothing.
    pub fn file_parts(
        &self,
        file: &KeptFile,
    ) -> impl Iterator<Item = Result<FilePart, StoreError>> {
        let all = self.chunks(LANE);
        let begin = all.partition_point(|entry| entry.sequence < file.first);
        // Each chunk takes its header's bytes at least, so no number is larger than the file.
        let wanted = usize::try_from(file.chunks).unwrap_or(usize::MAX).min(all.len() - begin);
        let entries = &all[begin..begin + wanted];
        let is_whole = entries.len() as u64 == file.chunks
            && entries.iter().zip(file.first..).all(|(entry, sequence)| entry.sequence == sequence);
        let missing = (!is_whole).then(|| StoreError::Damaged {
            capture: self.name().to_owned(),
            lane: LANE,
            sequence: file.first,
            offset: entries.first().map_or(0, |entry| entry.offset),
            reason: "parts of a file are missing",
        });
        let parts = entries.iter().filter(move |_| is_whole).map(|entry| {
            let chunk = self.read(entry)?;
            FilePart::read(chunk.data).ok_or_else(|| StoreError::Damaged {
                capture: self.name().to_owned(),
                lane: LANE,
                sequence: entry.sequence,
                offset: entry.offset,
                reason: "a part of a file does not say where it lies there",
            })
        });
        missing.map(Err).into_iter().chain(parts)
    }
}

// What a part's chunk adds to its bytes is little, so that a limit of the file is one of these.
const _: () = assert!((CHUNK_HEADER + PLACE) * 1000 < PART_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Definition;
    use std::io::Read;

    fn capture() -> File {
        let mut writer = CaptureWriter::create(tempfile::tempfile().unwrap()).unwrap();
        writer.define(&Definition::Counters(Vec::new())).unwrap();
        writer.finish().unwrap()
    }

    fn reader(file: &File) -> CaptureReader {
        CaptureReader::from_file(file.try_clone().unwrap()).unwrap()
    }

    fn writer(file: &File) -> FilePartsWriter {
        let reader = reader(file);
        FilePartsWriter::append(file.try_clone().unwrap(), reader.valid_length(), &reader)
    }

    fn add(to: &mut FilePartsWriter, most: u64, parts: &[(u64, &[u8])]) -> Option<KeptFile> {
        to.add(most, |put: &mut TakePart<'_, StoreError>| {
            for (offset, bytes) in parts {
                if !put(*offset, bytes)? {
                    break;
                }
            }
            Ok(())
        })
        .unwrap()
    }

    fn parts(reader: &CaptureReader, file: &KeptFile) -> Result<Vec<(u64, Vec<u8>)>, String> {
        let parts = reader.file_parts(file);
        let parts: Result<Vec<_>, _> = parts.collect();
        let parts = parts.map_err(|error| error.to_string())?;
        Ok(parts.into_iter().map(|part| (part.offset, part.bytes)).collect())
    }

    #[test]
    fn files_are_read_as_they_were_added_and_one_that_does_not_fit_leaves_no_trace() {
        let file = capture();
        let mut to = writer(&file);
        let large = vec![7; PART_MAX + 10];
        let first = add(&mut to, 1 << 20, &[(0, b"head"), (4096, &large)]).unwrap();
        assert_eq!((first.first, first.chunks), (0, 3), "what is long is two parts");
        let noise: Vec<u8> =
            (0..50_000_u32).flat_map(|n| (n.wrapping_mul(0x9E37_79B1)).to_le_bytes()).collect();
        assert_eq!(add(&mut to, 1000, &[(0, b"head"), (64, &noise)]), None);
        let second = add(&mut to, 1000, &[(8, b"second")]).unwrap();
        assert_eq!((second.first, second.chunks), (3, 1));
        assert_eq!(file.metadata().unwrap().len(), to.end());

        let reader = reader(&file);
        assert!(reader.damage().is_empty(), "{:?}", reader.damage());
        let read = parts(&reader, &first).unwrap();
        assert_eq!(read[0], (0, b"head".to_vec()));
        assert_eq!((read[1].0, read[1].1.len()), (4096, PART_MAX));
        assert_eq!(read[2], (4096 + PART_MAX as u64, vec![7; 10]));
        assert_eq!(parts(&reader, &second).unwrap(), [(8, b"second".to_vec())]);
        assert_eq!(reader.definitions().count(), 1, "what was there is there");
        // Whoever adds more goes on behind these.
        let third = add(&mut writer(&file), 1000, &[(0, b"third")]).unwrap();
        assert_eq!(third.first, 4);
    }

    #[test]
    fn a_file_whose_reader_fails_is_not_added() {
        let file = capture();
        let (mut to, before) = (writer(&file), file.metadata().unwrap().len());
        assert!(to.add(1 << 20, fail_after_the_head).is_err());
        assert_eq!((file.metadata().unwrap().len(), to.end()), (before, before));
    }

    fn fail_after_the_head(put: &mut TakePart<'_, StoreError>) -> Result<(), StoreError> {
        put(0, b"head")?;
        Err(StoreError::Write { written: 0, source: std::io::Error::other("it shrank") })
    }

    #[test]
    fn files_that_claim_chunks_that_are_not_there_are_damaged() {
        let file = capture();
        add(&mut writer(&file), 1000, &[(0, b"one"), (8, b"two")]).unwrap();
        let reader = reader(&file);
        for (first, chunks) in [(0, 3), (1, 2), (2, 1), (u64::MAX, 1), (0, u64::MAX), (1, u64::MAX)]
        {
            let lying = KeptFile { first, chunks, ..KeptFile::default() };
            let error = parts(&reader, &lying).unwrap_err();
            assert!(error.contains("parts of a file are missing"), "{first}, {chunks}: {error}");
        }
        let none = KeptFile { first: 1, chunks: 0, ..KeptFile::default() };
        assert_eq!(parts(&reader, &none).unwrap(), []);
    }

    #[test]
    fn one_damaged_part_is_told() {
        let file = capture();
        let kept = add(&mut writer(&file), 1000, &[(0, b"one"), (8, b"precious")]).unwrap();
        let mut bytes = Vec::new();
        let mut whole = &file;
        whole.seek(SeekFrom::Start(0)).unwrap();
        whole.read_to_end(&mut bytes).unwrap();
        let place = bytes.windows(8).rposition(|bytes| bytes == b"precious").unwrap();
        bytes[place] ^= 1;
        let reader = CaptureReader::from_bytes(bytes).unwrap();
        assert!(parts(&reader, &kept).unwrap_err().contains("checksum"));
    }
}
