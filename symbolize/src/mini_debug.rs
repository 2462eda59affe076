//! Mini debug information: the symbols that `strip` took away, in a small ELF file of their own
//! that lies, compressed by xz, in a section of the stripped one (`.gnu_debugdata`).
//!
//! A file's maker may have written anything there: a few kilobytes can claim to be gigabytes, and a
//! dictionary of as many. So neither is larger than a bound, and both count as memory that all who
//! name share.

use crate::elf::{Layout, MINI_DEBUG};
use crate::memory::{MEMORY_PATIENCE, NamingMemory, Share};
use std::io::{self, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use syscollect_untrusted_files::{MemoryFile, OpenedFile, Reader};
use xz4rust::{XzDecoder, XzError};

/// Those of browsers have a few MiB.
const COMPRESSED_MAX: u64 = 64 << 20;
/// The symbols of browsers have some 50 MiB.
const INFLATED_MAX: u64 = 256 << 20;
/// What `xz` asks for unless it is told otherwise.
const DICTIONARY: usize = 8 << 20;
/// What `xz -9` asks for.
const DICTIONARY_MAX: usize = 64 << 20;
/// Bytes that are read at once.
const INPUT: usize = 64 << 10;
/// Bytes that are written at once, and between two looks at whether there is time left.
const OUTPUT: usize = 1 << 20;
/// So much memory is taken at a time.
const MEMORY_STEP: u64 = 16 << 20;

/// Why a file's mini debug information cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MiniDebugError {
    #[error("it has {0} bytes")]
    Large(u64),
    #[error("it has more than {0} bytes when it is inflated")]
    LargeInflated(u64),
    #[error("no memory for {0} bytes")]
    NoMemory(u64),
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it is damaged: {0}")]
    Damaged(XzError),
    #[error("it is damaged: its reader gave up on it")]
    GivenUp,
    #[error("it ends too early")]
    CutOff,
    #[error("inflating it takes too long")]
    Slow,
}

/// The small ELF file, in memory.
#[derive(Debug)]
pub(crate) struct MiniDebug {
    pub(crate) file: OpenedFile,
    _memory: Vec<Share>,
}

impl MiniDebug {
    /// That in `file`, which `layout` describes, as long as `has_time` says so; `None` if it has
    /// none.
    ///
    /// # Errors
    ///
    /// It is too large, or no xz, or there is neither memory nor time for it.
    pub(crate) fn read(
        file: &OpenedFile,
        layout: &Layout,
        memory: &NamingMemory,
        has_time: impl Fn() -> bool,
    ) -> Result<Option<Self>, MiniDebugError> {
        let section = layout.sections.iter().find(|section| section.name == MINI_DEBUG);
        let Some(bytes) = section.map(|section| section.bytes.clone()) else { return Ok(None) };
        let length = bytes.end - bytes.start;
        if length > COMPRESSED_MAX {
            return Err(MiniDebugError::Large(length));
        }
        let mut dictionary = DICTIONARY;
        let inflated = loop {
            let mut reader = file.reader();
            reader.seek(SeekFrom::Start(bytes.start))?;
            let mut inflated = Inflated::new(memory)?;
            match inflated.fill(reader.take(length), dictionary, &has_time) {
                Err(MiniDebugError::Damaged(XzError::DictionaryTooLarge(wanted)))
                    if (dictionary as u64 + 1..=DICTIONARY_MAX as u64).contains(&wanted) =>
                {
                    dictionary = DICTIONARY_MAX;
                }
                filled => {
                    filled?;
                    break inflated;
                }
            }
        };
        Ok(Some(inflated.seal()?))
    }
}

/// What was inflated so far.
struct Inflated<'m> {
    file: MemoryFile,
    length: u64,
    memory: &'m NamingMemory,
    shares: Vec<Share>,
    /// Bytes of `shares`, without the dictionary's.
    room: u64,
}

impl<'m> Inflated<'m> {
    fn new(memory: &'m NamingMemory) -> io::Result<Self> {
        let file = MemoryFile::new("naming", 0)?;
        Ok(Self { file, length: 0, memory, shares: Vec::new(), room: 0 })
    }

    fn fill(
        &mut self,
        compressed: io::Take<Reader>,
        dictionary: usize,
        has_time: &impl Fn() -> bool,
    ) -> Result<(), MiniDebugError> {
        // Where a stream changes its dictionary, the old one goes when the new one is there.
        let _dictionaries = take(self.memory, 2 * dictionary as u64)?;
        inflate(compressed, dictionary, |bytes| match has_time() {
            true => self.append(bytes),
            false => Err(MiniDebugError::Slow),
        })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), MiniDebugError> {
        let length = self.length + bytes.len() as u64;
        if length > INFLATED_MAX {
            return Err(MiniDebugError::LargeInflated(INFLATED_MAX));
        }
        if length > self.room {
            self.shares.push(take(self.memory, MEMORY_STEP)?);
            self.room += MEMORY_STEP;
        }
        self.file.write_at(bytes, self.length)?;
        self.length = length;
        Ok(())
    }

    fn seal(self) -> io::Result<MiniDebug> {
        let file = OpenedFile::made(self.file.seal()?)?;
        Ok(MiniDebug { file, _memory: self.shares })
    }
}

fn take(memory: &NamingMemory, bytes: u64) -> Result<Share, MiniDebugError> {
    memory.take(bytes, MEMORY_PATIENCE).ok_or(MiniDebugError::NoMemory(bytes))
}

/// Hands what the xz stream `compressed` holds to `write`, with a dictionary of at most so many
/// bytes; what comes behind the stream is not read.
pub(crate) fn inflate(
    mut compressed: impl Read,
    dictionary: usize,
    mut write: impl FnMut(&[u8]) -> Result<(), MiniDebugError>,
) -> Result<(), MiniDebugError> {
    let mut decoder = XzDecoder::in_heap_with_alloc_dict_size(0, dictionary);
    let (mut input, mut output) = (vec![0; INPUT], vec![0; OUTPUT]);
    let (mut read, mut used, mut is_more_needed) = (0, 0, true);
    loop {
        if is_more_needed || used == read {
            input.copy_within(used..read, 0);
            (read, used) = (read - used, 0);
            let more = compressed.read(&mut input[read..])?;
            if more == 0 {
                return Err(MiniDebugError::CutOff);
            }
            read += more;
        }
        let step = match catch_unwind(AssertUnwindSafe(|| {
            decoder.decode(&input[used..read], &mut output)
        })) {
            Ok(Err(XzError::NeedsLargerInputBuffer)) => {
                is_more_needed = true;
                continue;
            }
            step => step.map_err(|_| MiniDebugError::GivenUp)?.map_err(MiniDebugError::Damaged)?,
        };
        used += step.input_consumed();
        is_more_needed = !step.made_progress();
        write(output.get(..step.output_produced()).unwrap_or_default())?;
        if step.is_end_of_stream() {
            return Ok(());
        }
    }
}

/// For the fuzz target: how many bytes the xz stream `compressed` holds, up to `most`; `None` if it
/// is damaged, or holds more.
#[doc(hidden)]
pub fn read_mini_debug(compressed: &[u8], most: u64) -> Option<u64> {
    let mut length = 0;
    inflate(compressed, DICTIONARY, |bytes| {
        length += bytes.len() as u64;
        if length <= most { Ok(()) } else { Err(MiniDebugError::LargeInflated(most)) }
    })
    .ok()?;
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_fixtures::xz;

    /// Of `xz`, with a check of 64 bits: twenty times the same sentence.
    const OF_XZ: [u8; 96] = [
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21,
        0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0xe0, 0x01, 0xb7, 0x00, 0x1f, 0x5d,
        0x00, 0x2b, 0x9a, 0x08, 0x27, 0x75, 0x19, 0x6a, 0xdf, 0x8f, 0x01, 0x3c, 0x7e, 0x6e, 0x03,
        0x7f, 0xba, 0x02, 0xa3, 0xbd, 0xb9, 0xb1, 0x3e, 0x80, 0x52, 0x54, 0xea, 0x74, 0xad, 0x1d,
        0x00, 0x00, 0x00, 0x00, 0x2d, 0xe1, 0xf0, 0x1a, 0x5c, 0x96, 0x51, 0x59, 0x00, 0x01, 0x3b,
        0xb8, 0x03, 0x00, 0x00, 0x00, 0x88, 0xcf, 0xea, 0x9f, 0xb1, 0xc4, 0x67, 0xfb, 0x02, 0x00,
        0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
    ];

    fn inflated(stream: &[u8]) -> Result<Vec<u8>, MiniDebugError> {
        let mut bytes = Vec::new();
        inflate(stream, DICTIONARY, |block| {
            bytes.extend_from_slice(block);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Gives a piece at a time, as files of slow file systems do.
    struct Slowly<'p>(std::collections::VecDeque<&'p [u8]>);

    impl Read for Slowly<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.pop_front() else { return Ok(0) };
            bytes[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn what_xz_made_is_inflated_and_no_damage_makes_something_else_of_it() {
        let whole = b"What strip took away. ".repeat(20);
        assert_eq!(inflated(&OF_XZ).unwrap(), whole);
        for length in 0..OF_XZ.len() {
            assert!(inflated(&OF_XZ[..length]).is_err(), "cut off behind {length} bytes");
        }
        let each = OF_XZ.iter().map(std::slice::from_ref);
        let mut slowly = Vec::new();
        let one_by_one = Slowly(each.collect());
        inflate(one_by_one, DICTIONARY, |block| {
            slowly.extend_from_slice(block);
            Ok(())
        })
        .unwrap();
        assert_eq!(slowly, whole, "byte by byte");
        for at in 0..OF_XZ.len() {
            let mut damaged = OF_XZ;
            damaged[at] ^= 0x10;
            // Nothing depends on the first byte of compressed data.
            assert!(inflated(&damaged).map_or(true, |bytes| bytes == whole), "byte {at}");
        }
    }

    #[test]
    fn a_few_kilobytes_that_claim_to_be_many_stay_few() {
        let memory = NamingMemory::new(3 * MEMORY_STEP);
        let bomb = xz::zeros(40);
        assert!(bomb.len() < 20_000);
        assert!(matches!(fill_memory(&bomb, &memory, true), Err(MiniDebugError::NoMemory(_))));
        assert!(matches!(fill_memory(&bomb, &memory, false), Err(MiniDebugError::Slow)));
        let most = INFLATED_MAX / xz::ZEROS;
        let (large, much) = (xz::zeros(most + 1), NamingMemory::new(1 << 30));
        assert!(matches!(fill_memory(&large, &much, true), Err(MiniDebugError::LargeInflated(_))));
        // What was taken is given back.
        assert_eq!(fill_memory(&xz::zeros(4), &memory, true).unwrap(), 4 * xz::ZEROS);
        assert_eq!(fill_memory(&xz::zeros(4), &memory, true).unwrap(), 4 * xz::ZEROS);
    }

    fn fill_memory(
        stream: &[u8],
        memory: &NamingMemory,
        has_time: bool,
    ) -> Result<u64, MiniDebugError> {
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, stream).unwrap();
        let reader = Reader::of(&file).unwrap();
        let mut inflated = Inflated::new(memory).unwrap();
        let filled = inflated.fill(reader.take(u64::MAX), DICTIONARY, &|| has_time);
        filled.map(|()| inflated.length)
    }

    #[test]
    fn a_large_dictionary_is_an_error_before_it_is_made() {
        let stream = xz::stream_with(b"symbols", 40);
        let made = inflated(&stream);
        assert!(matches!(made, Err(MiniDebugError::Damaged(_))), "a dictionary of 4 GiB: {made:?}");
        let stream = xz::stream_with(b"symbols", 28);
        assert!(matches!(
            inflated(&stream),
            Err(MiniDebugError::Damaged(XzError::DictionaryTooLarge(0x400_0000)))
        ));
        assert_eq!(inflated(&xz::stream(b"symbols")).unwrap(), b"symbols");
    }
}
