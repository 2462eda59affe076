//! Files that no recorded program names.

use std::fs::{File, OpenOptions, ReadDir};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A path that this program's own text spells out, mostly one of the kernel's below /proc or /sys:
/// nobody else can choose what is opened, so it is opened as any file is.
#[derive(Clone, Debug)]
pub struct FixedPath(PathBuf);

impl FixedPath {
    /// This very path.
    pub fn new(path: &'static str) -> Self {
        Self(path.into())
    }

    /// That path below `root`, which is `/` or another fixed folder, and in tests one of theirs.
    pub fn below(root: &Path, path: &'static str) -> Self {
        Self(root.join(path))
    }

    /// Opens it for reading.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn open(&self) -> io::Result<File> {
        File::open(&self.0)
    }

    /// Opens it so.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn open_with(&self, options: &OpenOptions) -> io::Result<File> {
        options.open(&self.0)
    }

    /// All its bytes.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open()?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// All its text.
    ///
    /// # Errors
    ///
    /// The system's, and where it is no text.
    pub fn read_to_string(&self) -> io::Result<String> {
        let mut text = String::new();
        self.open()?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// What lies in this folder.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn entries(&self) -> io::Result<ReadDir> {
        std::fs::read_dir(&self.0)
    }
}
