//! Output files that appear whole, belong to the right user, and overwrite nothing unasked.
//!
//! A file is written under a draft name, created with `O_EXCL | O_NOFOLLOW`,
//! and takes its final name when it is finished. Everything goes through a
//! handle of the folder, so that neither a renamed folder nor a symbolic link
//! put in the way can turn a file that root writes into another one.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use crate::confine::WritingFiles;
use crate::owner::Owner;
use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::fs::File;
#[cfg(unix)]
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(unix)]
use unix::Folder;
#[cfg(windows)]
use windows::Folder;

/// What lies under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExistingEntry {
    Nothing,
    File,
    SymbolicLink,
    Other,
}

/// A file to be written: its folder is there, and its name is free or may be replaced.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    folder: Arc<Folder>,
    name: OsString,
    force: bool,
    owner: Option<Owner>,
}

impl Target {
    /// Checks that `path` can be written: the folder exists, and the name is
    /// free, or holds a plain file that `force` allows to replace.
    ///
    /// # Errors
    ///
    /// A message that names the path and the way out.
    pub(crate) fn new(path: &Path, force: bool, owner: Option<Owner>) -> Result<Self> {
        let Some(name) = path.file_name() else { bail!("{} does not name a file", path.display()) };
        let folder = match path.parent() {
            Some(parent) if parent != Path::new("") => Folder::open(parent)?,
            _ => Folder::open(Path::new("."))?,
        };
        let target = Self { folder: Arc::new(folder), name: name.to_owned(), force, owner };
        target.check_free()?;
        Ok(target)
    }

    /// Another name in the same folder, under the same rules.
    pub(crate) fn beside(&self, name: impl Into<OsString>) -> Result<Self> {
        let target = self.beside_unchecked(name);
        target.check_free()?;
        Ok(target)
    }

    /// Another name in the same folder, whatever lies there.
    pub(crate) fn beside_unchecked(&self, name: impl Into<OsString>) -> Self {
        Self { name: name.into(), ..self.clone() }
    }

    /// The user whom files are given to, if this user can make and rename them in the folder as
    /// well.
    #[cfg(target_os = "linux")]
    pub(crate) fn owner_of_folder(&self) -> Option<Owner> {
        self.owner.filter(|owner| self.folder.is_of(owner.uid))
    }

    /// Nobody: files belong to whoever records.
    #[cfg(windows)]
    pub(crate) fn owner_of_folder(&self) -> Option<Owner> {
        None
    }

    /// The final path, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// The final name.
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// The name without its extension.
    pub(crate) fn stem(&self) -> OsString {
        Path::new(&self.name).file_stem().unwrap_or(&self.name).to_owned()
    }

    /// Removes the file of that name.
    #[cfg_attr(windows, expect(dead_code, reason = "only the recorder of Linux needs it"))]
    pub(crate) fn remove(&self) -> std::io::Result<()> {
        self.folder.remove(&self.name)
    }

    /// The size of the file of that name, if it is a regular one of whoever records, or of whom
    /// files are given to: what others put there is none of ours.
    #[cfg(target_os = "linux")]
    pub(crate) fn own_size(&self) -> Option<u64> {
        // SAFETY: geteuid has no preconditions and always succeeds.
        let own = unsafe { libc::geteuid() };
        let users = [own, self.owner.map_or(own, |owner| owner.uid)];
        self.folder.size_of_file_of(&self.name, &users).ok().flatten()
    }

    /// The names of what lies in the folder.
    #[cfg(target_os = "linux")]
    pub(crate) fn names_in_folder(&self) -> std::io::Result<Vec<OsString>> {
        self.folder.names()
    }

    /// Who else may take, move and replace files of ours in the folder, in words, if anybody may.
    #[cfg(target_os = "linux")]
    pub(crate) fn folder_changed_by(&self) -> Option<String> {
        self.folder.changed_by(self.owner).ok().flatten()
    }

    /// Whether nothing has that name.
    #[cfg_attr(windows, expect(dead_code, reason = "only the recorder of Linux needs it"))]
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.folder.existing(&self.name), Ok(ExistingEntry::Nothing))
    }

    fn check_free(&self) -> Result<()> {
        let path = self.path();
        match self
            .folder
            .existing(&self.name)
            .with_context(|| format!("cannot look at {}", path.display()))?
        {
            ExistingEntry::Nothing => Ok(()),
            ExistingEntry::File if self.force => Ok(()),
            ExistingEntry::File => {
                bail!(
                    "{} exists: name another file with -o, or add --force to replace it",
                    path.display()
                )
            }
            ExistingEntry::SymbolicLink => {
                bail!(
                    "{} is a symbolic link and is not followed: remove it or name another file",
                    path.display()
                )
            }
            ExistingEntry::Other => {
                bail!(
                    "{} is no plain file: name another file, or use -o - for standard output",
                    path.display()
                )
            }
        }
    }

    /// Creates the file under a draft name; [`DraftFile::publish`] gives it its own.
    pub(crate) fn draft(&self) -> Result<DraftFile> {
        // The process id lets two exports to one name write side by side.
        let mut name = self.name.clone();
        name.push(format!(".{}.partial", std::process::id()));
        self.draft_named(name)
    }

    /// Takes a file that somebody else has written under this draft name.
    #[cfg(windows)]
    pub(crate) fn adopt(&self, name: OsString) -> Result<DraftFile> {
        let path = self.folder.join(&name);
        #[expect(clippy::disallowed_methods, reason = "an output, which the user names")]
        let file = File::options().read(true).write(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(DraftFile { file, folder: Arc::clone(&self.folder), name, is_named: true, armed: true })
    }

    /// Creates the file so that it takes this draft name, which has to be free, when
    /// [`DraftFile::appear`] says so: what is ended before then leaves nothing. Where the file system
    /// has no such files, it has the name at once.
    #[cfg(unix)]
    pub(crate) fn draft_to_appear(&self, name: OsString) -> Result<DraftFile> {
        let path = self.folder.join(&name);
        let created = match self.folder.existing(&name) {
            Ok(ExistingEntry::Nothing) => self.folder.create_unnamed(),
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) => Err(error),
        };
        match created.with_context(|| format!("cannot create {}", path.display()))? {
            Some(file) => self.given(DraftFile {
                file,
                folder: Arc::clone(&self.folder),
                name,
                is_named: false,
                armed: true,
            }),
            None => self.draft_named(name),
        }
    }

    /// Creates the file under this draft name.
    pub(crate) fn draft_named(&self, name: OsString) -> Result<DraftFile> {
        let path = self.folder.join(&name);
        let file = self
            .folder
            .create(&name)
            .with_context(|| format!("cannot create {}", path.display()))?;
        // From here on dropping removes the file again.
        self.given(DraftFile {
            file,
            folder: Arc::clone(&self.folder),
            name,
            is_named: true,
            armed: true,
        })
    }

    /// The draft as a file of the user it is for.
    fn given(&self, draft: DraftFile) -> Result<DraftFile> {
        if let Some(owner) = self.owner {
            let _rights = WritingFiles::begin();
            owner
                .give(&draft.file)
                .with_context(|| format!("cannot give {} to {owner}", draft.path().display()))?;
        }
        Ok(draft)
    }
}

/// A file under a draft name, removed when it is dropped unfinished.
#[derive(Debug)]
pub(crate) struct DraftFile {
    file: File,
    folder: Arc<Folder>,
    name: OsString,
    /// Whether the folder has it.
    is_named: bool,
    armed: bool,
}

impl DraftFile {
    /// The open file, for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Takes its draft name, if it has none yet.
    ///
    /// # Errors
    ///
    /// When something has taken the name meanwhile.
    #[cfg(unix)]
    pub(crate) fn appear(&mut self) -> Result<()> {
        if !self.is_named {
            let named = self.folder.name(&self.file, &self.name);
            named.with_context(|| format!("cannot create {}", self.path().display()))?;
            self.is_named = true;
        }
        Ok(())
    }

    /// Is to appear under another draft name, as long as it has none yet.
    #[cfg(unix)]
    pub(crate) fn call(&mut self, name: OsString) {
        if !self.is_named {
            self.name = name;
        }
    }

    /// Where it lies now.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    ///
    /// When something has taken the name meanwhile; the draft is kept then,
    /// because what it holds is finished.
    pub(crate) fn publish(mut self, target: &Target) -> Result<PathBuf> {
        self.armed = false;
        target
            .check_free()
            .with_context(|| format!("the finished file stays at {}", self.path().display()))?;
        self.folder.rename(&self.name, &target.name, target.force).with_context(|| {
            format!(
                "cannot rename {} to {}; the file stays there",
                self.path().display(),
                target.path().display()
            )
        })?;
        Ok(target.path())
    }

    /// Leaves the file under its draft name and says where that is.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.armed = false;
        self.path()
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        // What was recorded is worth more than a folder without drafts.
        if self.armed && self.is_named && !std::thread::panicking() {
            // Nothing can be done about a failure, and the reason for dropping
            // is what the user needs to hear.
            let _ = self.folder.remove(&self.name);
        }
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
