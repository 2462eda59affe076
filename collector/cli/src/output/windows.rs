//! A folder by its path.
//!
//! Whoever records on Windows is an administrator in his own session; there is no
//! other user behind him whose folders could be turned into a trap, as behind sudo.

use super::ExistingEntry;
use anyhow::{Result, bail};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A folder that files are created in.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path.is_file() {
            bail!("{} is a file, not a folder to write into", path.display());
        }
        if !path.is_dir() {
            bail!("cannot write into folder {}: create it, or name another one", path.display());
        }
        Ok(Self { path: path.to_owned() })
    }

    pub(super) fn existing(&self, name: &OsStr) -> io::Result<ExistingEntry> {
        let kind = match fs::symlink_metadata(self.path.join(name)) {
            Ok(data) => data.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(ExistingEntry::Nothing);
            }
            Err(error) => return Err(error),
        };
        Ok(match (kind.is_file(), kind.is_symlink()) {
            (true, _) => ExistingEntry::File,
            (_, true) => ExistingEntry::SymbolicLink,
            _ => ExistingEntry::Other,
        })
    }

    /// Creates a file that was not there.
    #[expect(clippy::disallowed_methods, reason = "an output, which the user names")]
    pub(super) fn create(&self, name: &OsStr) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(self.path.join(name))
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        let (from, to) = (self.path.join(from), self.path.join(to));
        if replace {
            return fs::rename(from, to);
        }
        // A hard link refuses to replace. Some file systems have none: there a look before has to
        // do.
        match fs::hard_link(&from, &to) {
            Ok(()) => fs::remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) => fs::rename(from, to),
        }
    }

    pub(super) fn join(&self, name: &OsStr) -> PathBuf {
        if self.path == Path::new(".") { PathBuf::from(name) } else { self.path.join(name) }
    }
}
