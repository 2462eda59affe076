//! Bytes at an offset, from a file or from memory.

use std::fs::File;
use std::io;

/// Where a capture is read from. Never mapped: a file that someone cuts off
/// while it is read gives an error here, not a signal.
#[derive(Debug)]
pub(crate) enum Source {
    File(File),
    Bytes(Vec<u8>),
}

impl Source {
    pub(crate) fn length(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Reads `length` bytes at `offset` into `buffer`, fewer where the source ends.
    pub(crate) fn read(&self, offset: u64, length: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::File(file) => {
                buffer.resize(length, 0);
                let count = read_file(file, offset, buffer)?;
                buffer.truncate(count);
            }
            Self::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let end = start.saturating_add(length).min(bytes.len());
                buffer.clear();
                buffer.extend_from_slice(&bytes[start..end]);
            }
        }
        Ok(())
    }
}

fn read_file(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match read_some(file, offset + count as u64, &mut buffer[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(unix)]
fn read_some(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_some(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}
