//! The file of a socket by a handle: who may change its folder puts nothing else in its place.

#![expect(clippy::disallowed_methods, reason = "sockets, which the user names")]

use crate::owner::{Owner, is_trusted};
use std::ffi::CString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The file.
#[derive(Debug)]
pub(super) struct SocketEntry {
    handle: File,
    data: Metadata,
}

impl SocketEntry {
    /// Finds what lies there, or where links from there lead.
    ///
    /// # Errors
    ///
    /// There is nothing, or something else than a socket, to which nobody listens.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, libc::O_PATH | libc::O_CLOEXEC)
    }

    /// Finds what lies there; no link is followed.
    pub(super) fn open_unlinked(path: &Path) -> io::Result<Self> {
        Self::open_with(path, libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW)
    }

    fn open_with(path: &Path, flags: libc::c_int) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the name ends with a zero byte; the flags ask for no mode.
        let descriptor = unsafe { libc::open(name.as_ptr(), flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        let handle = unsafe { File::from_raw_fd(descriptor) };
        let data = handle.metadata()?;
        match data.file_type().is_socket() {
            true => Ok(Self { handle, data }),
            false => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    /// Who made it.
    pub(super) fn uid(&self) -> u32 {
        self.data.uid()
    }

    /// Whether root made it, this process's user, or the one behind sudo.
    pub(super) fn is_of_root_or_own(&self, behind_sudo: Option<Owner>) -> bool {
        is_trusted(self.uid(), behind_sudo)
    }

    /// A way to it that nobody can change.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd()).into()
    }
}
