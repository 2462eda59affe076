//! What a capture has of files of code, so that they are named on machines that lack them.
//!
//! Such a file is as long as the one it was taken of, and each part lies where it lay; all else is
//! a hole, which takes no memory. So whatever reads it finds what it would find in the file, and
//! what it does not find is zeros. A capture may have been written by anybody: the parts of all
//! files together have a bound, and what they hold is read as any other file is.

use crate::elf::build_id_in;
use rustc_hash::FxHashMap;
use std::io;
use std::sync::Arc;
use syscollect_model::BuildId;
use syscollect_untrusted_files::{MemoryFile, OpenedFile};

/// No file system has longer files.
const LENGTH_MAX: u64 = 1 << 62;
/// Parts that begin within this many bytes of each other fill whole pages of memory.
const PAGE: u64 = 4096;

/// A module of which a capture has parts.
#[derive(Clone, Copy, Debug)]
pub struct KeptModule<'a> {
    /// Its path, as in mappings.
    pub path: &'a str,
    /// Its build id, as in mappings; may be empty.
    pub build_id: &'a BuildId,
    /// The parts are those of a separate debug file of it.
    pub debug: bool,
    /// Bytes of the whole file.
    pub length: u64,
}

/// Why what a capture has of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptFileError {
    /// There is no file with such parts.
    #[error("it has a part outside of its {0} bytes")]
    Outside(u64),
    /// It, and those before it, are more than may be taken.
    #[error("there is no memory for it: it and those before it need more than {0} bytes")]
    TooLarge(u64),
    /// It is another file.
    #[error("it has the build id {found}, and its module {wanted}")]
    AnotherBuild {
        /// What the file has; may be empty.
        found: BuildId,
        /// What the module has.
        wanted: BuildId,
    },
    /// The system has no memory for it, or its parts cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
}

/// Parts of files, by module.
#[derive(Clone, Debug)]
pub struct KeptFiles {
    files: FxHashMap<(String, BuildId, bool), Arc<OpenedFile>>,
    /// Bytes of memory that may be taken still, of so many.
    free: u64,
    all: u64,
}

impl Default for KeptFiles {
    /// None, and a GiB for them.
    fn default() -> Self {
        Self::within(1 << 30)
    }
}

impl KeptFiles {
    /// None, and so many bytes of memory for them.
    pub fn within(bytes: u64) -> Self {
        Self { files: FxHashMap::default(), free: bytes, all: bytes }
    }

    /// Adds what there is of a file: where each part lies in it, and its bytes.
    ///
    /// # Errors
    ///
    /// The first of `parts`, and what makes a file of them unusable: it is not added then.
    pub fn add(
        &mut self,
        module: KeptModule<'_>,
        parts: impl Iterator<Item = io::Result<(u64, Vec<u8>)>>,
    ) -> Result<(), KeptFileError> {
        let KeptModule { path, build_id, debug, length } = module;
        // What an unusable file took is not given back: a capture may have any number of these.
        let file = self.make(length, parts)?;
        let file = OpenedFile::made(file.seal()?)?;
        let found = build_id_in(file.reader()).unwrap_or_default();
        // A debug file that was found by its sum may have none.
        if found != *build_id && !(debug && found.is_empty()) {
            return Err(KeptFileError::AnotherBuild { found, wanted: build_id.clone() });
        }
        self.files.insert((path.to_owned(), build_id.clone(), debug), Arc::new(file));
        Ok(())
    }

    fn make(
        &mut self,
        length: u64,
        parts: impl Iterator<Item = io::Result<(u64, Vec<u8>)>>,
    ) -> Result<MemoryFile, KeptFileError> {
        if length > LENGTH_MAX {
            return Err(KeptFileError::Outside(length));
        }
        let file = MemoryFile::new("kept", length)?;
        for part in parts {
            let (offset, bytes) = part?;
            let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= length);
            let end = end.ok_or(KeptFileError::Outside(length))?;
            let pages = end.next_multiple_of(PAGE) - offset / PAGE * PAGE;
            let left = self.free.checked_sub(pages);
            self.free = left.ok_or(KeptFileError::TooLarge(self.all))?;
            file.write_at(&bytes, offset)?;
        }
        Ok(file)
    }

    /// Modules of which there is something, without those of debug files.
    pub fn len(&self) -> usize {
        self.files.keys().filter(|(_, _, debug)| !debug).count()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// What there is of the file of a module.
    pub(crate) fn own(&self, path: &str, build_id: &BuildId) -> Option<&OpenedFile> {
        self.find(path, build_id, false)
    }

    /// What there is of a separate debug file of a module.
    pub(crate) fn debug(&self, path: &str, build_id: &BuildId) -> Option<&OpenedFile> {
        self.find(path, build_id, true)
    }

    fn find(&self, path: &str, build_id: &BuildId, debug: bool) -> Option<&OpenedFile> {
        Some(&**self.files.get(&(path.to_owned(), build_id.clone(), debug))?)
    }
}
