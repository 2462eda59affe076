//! Systems whose programs are not recorded through files: every look-up says so.

use crate::{FileData, FileLocation, OpenError, Reader};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

fn not_here() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "files of Linux' programs are read on Linux")
}

pub(crate) fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(not_here())
}

/// Nothing is recorded here beside which work could be less urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNice;

impl ThreadNice {
    /// That of any.
    pub fn of_this_thread() -> Self {
        Self
    }

    /// Does nothing.
    pub fn give_this_thread(self) {}
}

/// Who owns a process or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner;

impl Owner {
    /// Nobody's.
    pub fn of_process(_: u32) -> Option<Self> {
        None
    }

    /// Nobody's.
    pub fn of_file(_: &File) -> Option<Self> {
        None
    }

    /// Never called: nobody owns anything here.
    pub fn uid(&self) -> u32 {
        u32::MAX
    }
}

/// A file that was found.
#[derive(Debug)]
pub struct FoundFile {
    never: std::convert::Infallible,
}

impl FoundFile {
    /// What is known of it.
    pub fn data(&self) -> &FileData {
        match self.never {}
    }

    /// Nothing: none was found.
    pub fn shown_path(&self) -> Option<PathBuf> {
        match self.never {}
    }

    /// Opens it.
    ///
    /// # Errors
    ///
    /// Never: none was found.
    pub fn open(&self) -> Result<OpenedFile, OpenError> {
        match self.never {}
    }

    /// Opens it and reads something of it.
    ///
    /// # Errors
    ///
    /// Never: none was found.
    pub fn open_and<T: Send + 'static>(
        &self,
        _: impl FnOnce(&File) -> T + Send + 'static,
    ) -> Result<(OpenedFile, T), OpenError> {
        match self.never {}
    }
}

/// A file that was opened.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    never: std::convert::Infallible,
}

impl OpenedFile {
    /// Nothing.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn made(_: File) -> io::Result<Self> {
        Err(not_here())
    }

    /// Whether a call on it may never end.
    pub fn may_keep_waiting(&self) -> bool {
        match self.never {}
    }

    /// What is known of it.
    pub fn data(&self) -> &FileData {
        match self.never {}
    }

    /// Nothing: none was opened.
    pub fn shown_path(&self) -> Option<PathBuf> {
        match self.never {}
    }

    /// What is known of it now.
    ///
    /// # Errors
    ///
    /// Never: none was opened.
    pub fn data_now(&self) -> io::Result<FileData> {
        match self.never {}
    }

    /// Bytes that lie somewhere only because it is open.
    ///
    /// # Errors
    ///
    /// Never: none was opened.
    pub fn bytes_without_name(&self) -> io::Result<u64> {
        match self.never {}
    }

    /// Whether a user may have mounted its file system.
    pub fn is_of_a_users_mount(&self, _: Option<u32>) -> bool {
        match self.never {}
    }

    /// The open file.
    pub fn file(&self) -> &File {
        match self.never {}
    }

    /// The open file alone.
    pub fn into_file(self) -> io::Result<File> {
        match self.never {}
    }

    /// Its bytes, as many as there are now.
    ///
    /// # Errors
    ///
    /// None.
    pub fn reader_of_now(&self) -> io::Result<Reader> {
        match self.never {}
    }

    /// Its bytes.
    pub fn reader(&self) -> Reader {
        match self.never {}
    }
}

/// Finds nothing.
///
/// # Errors
///
/// Always.
pub fn find(_: &FileLocation<'_>, _: Option<&Owner>) -> Result<FoundFile, OpenError> {
    Err(not_here().into())
}

/// Knows nothing.
///
/// # Errors
///
/// Always.
pub fn data_of_mapping(_: u32, _: u64, _: u64, _: Option<u32>) -> Result<FileData, OpenError> {
    Err(not_here().into())
}

/// Knows nothing.
///
/// # Errors
///
/// Always.
pub fn data_of_program(_: &Path) -> Result<FileData, OpenError> {
    Err(not_here().into())
}

/// Opens nothing.
///
/// # Errors
///
/// Always.
pub fn open(_: &FileLocation<'_>, _: Option<&Owner>) -> Result<OpenedFile, OpenError> {
    Err(not_here().into())
}

/// Reads nothing.
///
/// # Errors
///
/// Always.
pub fn read_text(
    _: &Path,
    _: &'static str,
    _: Option<&Owner>,
    _: usize,
) -> Result<Vec<u8>, OpenError> {
    Err(not_here().into())
}

/// A file in memory.
#[derive(Debug)]
pub struct MemoryFile;

impl MemoryFile {
    /// Makes none.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn new(_: &str, _: u64) -> io::Result<Self> {
        Err(not_here())
    }

    /// Writes nothing.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(not_here())
    }

    /// Seals nothing.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn seal(self) -> io::Result<File> {
        Err(not_here())
    }
}

/// Nothing lies there: no file gets this far.
pub fn path_of(_: &File) -> PathBuf {
    PathBuf::new()
}
