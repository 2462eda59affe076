//! Bytes at an offset, of a file or in memory: what captures and Windows traces are read from.
//!
//! A file is never mapped: one that somebody cuts off while it is read gives fewer bytes here, and
//! no signal. Reads carry their offset, so that several readers share a source.
//!
//! # Not its duties
//!
//! - It does not look at what it reads, and keeps nothing of it.
//! - It opens what the user of the program named. What a recorded program can name is opened by
//!   `syscollect-untrusted-files`.
//!
//! # Example
//!
//! ```
//! use syscollect_byte_source::ByteSource;
//!
//! let source = ByteSource::from(b"0123456789".to_vec());
//! let mut buffer = [0; 4];
//! assert_eq!(source.read_at(&mut buffer, 8)?, 2, "it ends there");
//! assert_eq!(&buffer[..2], b"89");
//! # std::io::Result::Ok(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::fs::File;
use std::io;
use std::path::Path;

/// What is read: a file, or bytes in memory.
#[derive(Debug)]
pub struct ByteSource {
    origin: Origin,
    length: u64,
}

#[derive(Debug)]
enum Origin {
    File(File),
    Memory(Vec<u8>),
}

impl From<Vec<u8>> for ByteSource {
    fn from(bytes: Vec<u8>) -> Self {
        Self { length: bytes.len() as u64, origin: Origin::Memory(bytes) }
    }
}

impl ByteSource {
    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// The system's.
    #[expect(clippy::disallowed_methods, reason = "captures and traces, which the user names")]
    pub fn open(path: &Path) -> io::Result<Self> {
        File::open(path).and_then(Self::of_file)
    }

    /// An open file, wherever it stands: its own offset is neither used nor moved (on Windows it is
    /// moved).
    ///
    /// # Errors
    ///
    /// The system's, where it does not say how long the file is.
    pub fn of_file(file: File) -> io::Result<Self> {
        Ok(Self { length: file.metadata()?.len(), origin: Origin::File(file) })
    }

    /// The same, of which bytes beyond the first `most` are not read.
    ///
    /// # Errors
    ///
    /// Those of [`Self::of_file`].
    pub fn of_part(file: File, most: u64) -> io::Result<Self> {
        let whole = Self::of_file(file)?;
        Ok(Self { length: whole.length.min(most), ..whole })
    }

    /// Bytes that there were when it was opened. A file may have grown since, which is not read, or
    /// have been cut off.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Makes `buffer` the bytes from `offset` on, `length` of them or as many as there are.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read_at`].
    pub fn read_into(&self, buffer: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
        // What a caller was made to ask for is not worth memory before it is seen to be there.
        let there = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        buffer.resize(length.min(there), 0);
        let count = self.read_at(buffer, offset)?;
        buffer.truncate(count);
        Ok(())
    }

    /// Fills `buffer` with what begins at `offset`; how many bytes that were. Fewer than
    /// `buffer.len()` only where the source ends.
    ///
    /// # Errors
    ///
    /// The system's, but for interruptions, after which it reads on.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.origin {
            Origin::File(file) => read_file(file, buffer, offset),
            Origin::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - start);
                buffer[..count].copy_from_slice(&bytes[start..start + count]);
                Ok(count)
            }
        }
    }
}

fn read_file(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match read_some(file, &mut buffer[count..], offset.saturating_add(count as u64)) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(unix)]
fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const BYTES: &[u8] = b"0123456789";

    fn both() -> [ByteSource; 2] {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(BYTES).expect("room for ten bytes");
        [ByteSource::of_file(file).expect("a length"), ByteSource::from(BYTES.to_vec())]
    }

    #[test]
    fn what_is_there_is_read_and_nothing_beyond_it() {
        for source in both() {
            for offset in [0, 3, 9, 10, 11, u64::MAX] {
                let mut buffer = [0; 4];
                // An offset that a file cannot have may be refused instead.
                let Ok(count) = source.read_at(&mut buffer, offset) else {
                    assert_eq!(offset, u64::MAX);
                    continue;
                };
                let rest = BYTES.get(offset as usize..).unwrap_or_default();
                assert_eq!(&buffer[..count], &rest[..rest.len().min(4)], "at {offset}");
            }
            assert_eq!(source.length(), BYTES.len() as u64);
            let mut rest = vec![b'x'; 20];
            source.read_into(&mut rest, 1 << 40, 7).expect("memory for what is there alone");
            assert_eq!(rest, b"789");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_gives_fewer_bytes() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(BYTES).expect("room for ten bytes");
        let second = file.try_clone().expect("a second descriptor");
        let source = ByteSource::of_file(second).expect("a length");
        file.set_len(2).expect("the file is ours");
        let mut buffer = [0; 4];
        assert_eq!(source.read_at(&mut buffer, 0).expect("no error"), 2);
    }
}
