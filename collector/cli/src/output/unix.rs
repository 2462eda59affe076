//! A folder by its handle: no name on the way to it is looked up twice.

#![expect(clippy::disallowed_methods, reason = "outputs, which the user names")]

mod way;

use super::ExistingEntry;
use crate::confine::WritingFiles;
use crate::owner::{Owner, is_trusted};
use anyhow::{Context, Result, bail};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use way::WayError;

/// A folder that files are created in.
#[derive(Debug)]
pub(super) struct Folder {
    handle: OwnedFd,
    path: PathBuf,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let behind_sudo = Owner::behind_sudo();
        let handle = match way::open_folder(path, |uid| is_trusted(uid, behind_sudo)) {
            Ok(handle) => handle,
            Err(WayError::ForeignLink { link, uid }) => bail!(
                "{} is a symbolic link of user {uid} and is not followed: name the folder that it \
                 leads to",
                link.display()
            ),
            Err(WayError::System(error)) => {
                return Err(error).with_context(|| match path.is_file() {
                    true => format!("{} is a file, not a folder to write into", path.display()),
                    false => format!(
                        "cannot write into folder {}: create it, or name another one",
                        path.display()
                    ),
                });
            }
        };
        Ok(Self { handle, path: path.to_owned() })
    }

    /// Whether the folder is this user's, who may change what lies in it.
    pub(super) fn is_of(&self, uid: u32) -> bool {
        let all = libc::S_IRUSR | libc::S_IWUSR | libc::S_IXUSR;
        self.data(c"").is_ok_and(|data| data.st_uid == uid && data.st_mode & all == all)
    }

    /// Who else may take, move and replace files of ours in it, in words, if anybody may.
    pub(super) fn changed_by(&self, behind_sudo: Option<Owner>) -> io::Result<Option<String>> {
        let data = self.data(c"")?;
        if !is_trusted(data.st_uid, behind_sudo) {
            return Ok(Some(format!("user {}", data.st_uid)));
        }
        // Where it is sticky, each has but their own files.
        if data.st_mode & libc::S_ISVTX != 0 {
            return Ok(None);
        }
        // SAFETY: getegid has no preconditions and always succeeds.
        let own_group = unsafe { libc::getegid() };
        let is_own_group = data.st_gid == 0
            || data.st_gid == own_group
            || behind_sudo.is_some_and(|owner| owner.gid == data.st_gid);
        Ok(if data.st_mode & libc::S_IWOTH != 0 {
            Some("everybody".to_owned())
        } else if data.st_mode & libc::S_IWGRP != 0 && !is_own_group {
            Some(format!("members of group {}", data.st_gid))
        } else {
            None
        })
    }

    /// The names of what lies in it.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let place = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        std::fs::read_dir(place)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// The size of the regular file of that name, if one of these users has it.
    pub(super) fn size_of_file_of(&self, name: &OsStr, users: &[u32]) -> io::Result<Option<u64>> {
        let (name, _rights) = (c_string(name)?, WritingFiles::begin());
        let data = self.data(&name)?;
        let is_of_them = users.contains(&data.st_uid) && is_kind(&data, libc::S_IFREG);
        Ok(is_of_them.then_some(data.st_size as u64))
    }

    pub(super) fn existing(&self, name: &OsStr) -> io::Result<ExistingEntry> {
        let (name, _rights) = (c_string(name)?, WritingFiles::begin());
        match self.data(&name) {
            Ok(data) if is_kind(&data, libc::S_IFREG) => Ok(ExistingEntry::File),
            Ok(data) if is_kind(&data, libc::S_IFLNK) => Ok(ExistingEntry::SymbolicLink),
            Ok(_) => Ok(ExistingEntry::Other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ExistingEntry::Nothing),
            Err(error) => Err(error),
        }
    }

    /// What the kernel says of what has that name, or of the folder itself where it is empty.
    fn data(&self, name: &CStr) -> io::Result<libc::stat> {
        let mut data = std::mem::MaybeUninit::<libc::stat>::zeroed();
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        // SAFETY: the handle is open, the name ends with a zero byte, and `data` has room for the
        // result.
        check(unsafe {
            libc::fstatat(self.handle.as_raw_fd(), name.as_ptr(), data.as_mut_ptr(), flags)
        })?;
        // SAFETY: zero bytes are a valid `stat`, and the call has filled it.
        Ok(unsafe { data.assume_init() })
    }

    /// Creates a file that was not there, for its owner only: a trace of a
    /// whole machine is nobody else's business.
    pub(super) fn create(&self, name: &OsStr) -> io::Result<File> {
        let (name, _rights) = (c_string(name)?, WritingFiles::begin());
        let flags =
            libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the handle is open and the name ends with a zero byte.
        let fd = unsafe {
            libc::openat(self.handle.as_raw_fd(), name.as_ptr(), flags, 0o600 as libc::c_uint)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    /// Creates a file that has no name yet, and goes with its last descriptor; `None` where the
    /// file system has none.
    pub(super) fn create_unnamed(&self) -> io::Result<Option<File>> {
        let _rights = WritingFiles::begin();
        let flags = libc::O_RDWR | libc::O_TMPFILE | libc::O_CLOEXEC;
        // SAFETY: the handle is open and the name is a C string.
        let fd = unsafe {
            libc::openat(self.handle.as_raw_fd(), c".".as_ptr(), flags, 0o600 as libc::c_uint)
        };
        if fd >= 0 {
            // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
            return Ok(Some(unsafe { File::from_raw_fd(fd) }));
        }
        let error = io::Error::last_os_error();
        // What file systems without it answer, those that do not know the flag among them.
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL) => Ok(None),
            _ => Err(error),
        }
    }

    /// Gives a file of [`create_unnamed`](Self::create_unnamed) a name that nothing has.
    pub(super) fn name(&self, file: &File, name: &OsStr) -> io::Result<()> {
        let (name, _rights) = (c_string(name)?, WritingFiles::begin());
        let place = c_string(format!("/proc/self/fd/{}", file.as_raw_fd()).as_ref())?;
        let (handle, follow) = (self.handle.as_raw_fd(), libc::AT_SYMLINK_FOLLOW);
        // SAFETY: the handle is open and both names end with a zero byte.
        check(unsafe {
            libc::linkat(libc::AT_FDCWD, place.as_ptr(), handle, name.as_ptr(), follow)
        })
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let (name, _rights) = (c_string(name)?, WritingFiles::begin());
        // SAFETY: the handle is open and the name ends with a zero byte.
        check(unsafe { libc::unlinkat(self.handle.as_raw_fd(), name.as_ptr(), 0) })
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        let _rights = WritingFiles::begin();
        let (handle, from_name, to_name) =
            (self.handle.as_raw_fd(), c_string(from)?, c_string(to)?);
        if replace {
            // SAFETY: the handle is open and both names end with a zero byte.
            return check(unsafe {
                libc::renameat(handle, from_name.as_ptr(), handle, to_name.as_ptr())
            });
        }
        let flags = libc::RENAME_NOREPLACE;
        let (from_name_at, to_name_at) = (from_name.as_ptr(), to_name.as_ptr());
        // Made without the C library: the musl that Rust brings has no function for it.
        // SAFETY: as above.
        let result = check(unsafe {
            libc::syscall(libc::SYS_renameat2, handle, from_name_at, handle, to_name_at, flags)
        } as libc::c_int);
        match result {
            // File systems without that flag: a hard link refuses to replace as well.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
                // SAFETY: as above.
                check(unsafe {
                    libc::linkat(handle, from_name.as_ptr(), handle, to_name.as_ptr(), 0)
                })?;
                self.remove(from)
            }
            other => other,
        }
    }

    pub(super) fn join(&self, name: &OsStr) -> PathBuf {
        if self.path == Path::new(".") { PathBuf::from(name) } else { self.path.join(name) }
    }
}

fn is_kind(data: &libc::stat, kind: libc::mode_t) -> bool {
    data.st_mode & libc::S_IFMT == kind
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn c_string(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a name with a zero byte"))
}
