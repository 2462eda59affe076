//! Bytes at a place: of a file, or in memory.

use std::fs::File;
use std::io;
use std::path::Path;

/// What a trace is read from.
#[derive(Debug)]
pub(super) struct Source {
    bytes: Bytes,
    length: u64,
}

#[derive(Debug)]
enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { bytes: Bytes::File(file), length })
    }

    pub(super) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { length: bytes.len() as u64, bytes: Bytes::Memory(bytes) }
    }

    /// Length when it was opened: a file that grows is read up to here.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` from `offset` on as far as there is something, and says how far that is.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.bytes {
            Bytes::File(file) => read_file_at(file, buffer, offset),
            Bytes::Memory(bytes) => {
                let rest = usize::try_from(offset)
                    .ok()
                    .and_then(|offset| bytes.get(offset..))
                    .unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
        }
    }
}

fn read_file_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match read_some_at(file, &mut buffer[count..], offset.saturating_add(count as u64)) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(unix)]
fn read_some_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_some_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}
