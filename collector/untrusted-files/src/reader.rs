//! Reading without a position of the descriptor's, and without mapping.

use crate::{OpenError, read_at, within};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// A file's bytes, as many as there were when it was opened.
///
/// Where fewer are left, reading ends early, which is an error to whoever expects more: parsers see
/// a damaged file.
#[derive(Clone, Debug)]
pub struct Reader {
    file: Arc<File>,
    position: u64,
    length: u64,
    /// For whom, where its file system may not answer.
    patiently: Option<Option<u32>>,
}

impl Reader {
    /// Reads `length` bytes of `file`.
    pub(crate) fn new(file: Arc<File>, length: u64, patiently: Option<Option<u32>>) -> Self {
        Self { file, position: 0, length, patiently }
    }

    /// Reads a file that this program made itself, or was given.
    ///
    /// # Errors
    ///
    /// If its length cannot be had.
    pub fn of(file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::new(Arc::new(file.try_clone()?), length, None))
    }

    /// Its length when it was opened, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    fn read_here(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(uid) = self.patiently else { return read_at(&self.file, bytes, self.position) };
        let (file, position, mut buffer) = (self.file.clone(), self.position, vec![0; bytes.len()]);
        let read =
            within(uid, move || read_at(&file, &mut buffer, position).map(|read| (buffer, read)));
        let (buffer, read) = read.map_err(<OpenError as Into<io::Error>>::into)??;
        bytes.copy_from_slice(&buffer);
        Ok(read)
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let wanted = bytes.len().min(left);
        let read = self.read_here(&mut bytes[..wanted])?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = target.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}
