//! Output files that appear whole, belong to the right user, and overwrite nothing unasked.
//!
//! A file is written under a draft name, created with `O_EXCL | O_NOFOLLOW`,
//! and takes its final name when it is finished. Everything goes through a
//! handle of the folder, so that neither a renamed folder nor a symbolic link
//! put in the way can turn a file that root writes into another one.

use crate::owner::Owner;
use anyhow::{Context, Result, bail};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder that files are created in.
#[derive(Debug)]
struct Folder {
    handle: OwnedFd,
    path: PathBuf,
}

/// What lies under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existing {
    Nothing,
    File,
    SymbolicLink,
    Other,
}

impl Folder {
    fn open(path: &Path) -> Result<Self> {
        let name = c_string(path.as_os_str())?;
        // SAFETY: the name ends with a zero byte; the flags ask for no mode.
        let fd = unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            return Err(error).with_context(|| match path.is_file() {
                true => format!("{} is a file, not a folder to write into", path.display()),
                false => format!("cannot write into folder {}: create it or name another with -o", path.display()),
            });
        }
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        let handle = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { handle, path: path.to_owned() })
    }

    fn existing(&self, name: &OsStr) -> io::Result<Existing> {
        let name = c_string(name)?;
        let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the handle is open, the name ends with a zero byte, and `stat` has room for the result.
        let result = unsafe {
            libc::fstatat(self.handle.as_raw_fd(), name.as_ptr(), stat.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW)
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::NotFound { Ok(Existing::Nothing) } else { Err(error) };
        }
        // SAFETY: zero bytes are a valid `stat`, and the call has filled it.
        Ok(match unsafe { stat.assume_init() }.st_mode & libc::S_IFMT {
            libc::S_IFREG => Existing::File,
            libc::S_IFLNK => Existing::SymbolicLink,
            _ => Existing::Other,
        })
    }

    /// Creates a file that was not there, for its owner only: a trace of a
    /// whole machine is nobody else's business.
    fn create(&self, name: &OsStr) -> io::Result<File> {
        let name = c_string(name)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the handle is open and the name ends with a zero byte.
        let fd = unsafe { libc::openat(self.handle.as_raw_fd(), name.as_ptr(), flags, 0o600 as libc::c_uint) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = c_string(name)?;
        // SAFETY: the handle is open and the name ends with a zero byte.
        check(unsafe { libc::unlinkat(self.handle.as_raw_fd(), name.as_ptr(), 0) })
    }

    fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        let (handle, from_name, to_name) = (self.handle.as_raw_fd(), c_string(from)?, c_string(to)?);
        if replace {
            // SAFETY: the handle is open and both names end with a zero byte.
            return check(unsafe { libc::renameat(handle, from_name.as_ptr(), handle, to_name.as_ptr()) });
        }
        let flags = libc::RENAME_NOREPLACE;
        // SAFETY: as above.
        let result = check(unsafe { libc::renameat2(handle, from_name.as_ptr(), handle, to_name.as_ptr(), flags) });
        match result {
            // File systems without that flag: a hard link refuses to replace as well.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
                // SAFETY: as above.
                check(unsafe { libc::linkat(handle, from_name.as_ptr(), handle, to_name.as_ptr(), 0) })?;
                self.remove(from)
            }
            other => other,
        }
    }

    fn join(&self, name: &OsStr) -> PathBuf {
        if self.path == Path::new(".") { PathBuf::from(name) } else { self.path.join(name) }
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn c_string(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a name with a zero byte"))
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

    /// The final path, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// The name without its extension.
    pub(crate) fn stem(&self) -> OsString {
        Path::new(&self.name).file_stem().unwrap_or(&self.name).to_owned()
    }

    fn check_free(&self) -> Result<()> {
        let path = self.path();
        match self.folder.existing(&self.name).with_context(|| format!("cannot look at {}", path.display()))? {
            Existing::Nothing => Ok(()),
            Existing::File if self.force => Ok(()),
            Existing::File => {
                bail!("{} exists: name another file with -o, or add --force to replace it", path.display())
            }
            Existing::SymbolicLink => {
                bail!("{} is a symbolic link and is not followed: remove it or name another file", path.display())
            }
            Existing::Other => {
                bail!("{} is no plain file: name another file, or use -o - for standard output", path.display())
            }
        }
    }

    /// Creates the file under a draft name; [`Draft::publish`] gives it its own.
    pub(crate) fn draft(&self) -> Result<Draft> {
        // The process id lets two exports to one name write side by side.
        let mut name = self.name.clone();
        name.push(format!(".{}.partial", std::process::id()));
        self.draft_named(name)
    }

    /// Creates the file under this draft name.
    pub(crate) fn draft_named(&self, name: OsString) -> Result<Draft> {
        let path = self.folder.join(&name);
        let file = self.folder.create(&name).with_context(|| format!("cannot create {}", path.display()))?;
        // From here on dropping removes the file again.
        let draft = Draft { file, folder: Arc::clone(&self.folder), name, armed: true };
        if let Some(owner) = self.owner {
            std::os::unix::fs::fchown(&draft.file, Some(owner.uid), Some(owner.gid))
                .with_context(|| format!("cannot give {} to user {}", path.display(), owner.uid))?;
        }
        Ok(draft)
    }
}

/// A file under a draft name, removed when it is dropped unfinished.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    folder: Arc<Folder>,
    name: OsString,
    armed: bool,
}

impl Draft {
    /// The open file, for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.file
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
        let kept = || format!("the finished file stays at {}", self.path().display());
        target.check_free().with_context(kept)?;
        self.folder.rename(&self.name, &target.name, target.force).with_context(|| {
            format!("cannot rename {} to {}; the file stays there", self.path().display(), target.path().display())
        })?;
        Ok(target.path())
    }

    /// Leaves the file under its draft name and says where that is.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.armed = false;
        self.path()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.armed {
            // Nothing can be done about a failure, and the reason for dropping
            // is what the user needs to hear.
            let _ = self.folder.remove(&self.name);
        }
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
