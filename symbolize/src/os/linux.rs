//! Linux.

use std::ffi::CStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::FileIdentity;

/// Reads at a position, without moving the descriptor's own.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    file.read_at(bytes, position)
}

/// Looks at what lies at `path` without opening it: opening a FIFO blocks, and a device may act.
pub(crate) fn regular_file(path: &Path) -> io::Result<(File, Metadata)> {
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    let data = place.metadata()?;
    if data.is_file() { Ok((place, data)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Opens for reading what [`regular_file`] found, whatever its name shows by now.
pub(crate) fn reopen(place: &File) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path_of(place))
}

/// A path by which this process, as long as `file` is open, opens the same file.
pub(crate) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

pub(crate) fn identity(data: &Metadata) -> FileIdentity {
    (data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec())
}

/// Raises the soft limit of open files towards `wanted`; what it is then.
pub(crate) fn raise_descriptor_limit(wanted: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable for the whole call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return 0;
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = before.max(wanted.min(limit.rlim_max));
    // SAFETY: `limit` is readable for the whole call.
    let raised = limit.rlim_cur == before || unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } == 0;
    if raised { limit.rlim_cur } else { before }
}

/// This process's memory from `start` on as a file in memory.
pub(crate) fn copy_of_memory(name: &CStr, start: u64, size: usize) -> io::Result<File> {
    let mut bytes = vec![0; size];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    let mut file = memory_file(name)?;
    file.write_all(&bytes)?;
    Ok(file)
}

fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: `name` is a C string that lives through the call, which keeps no pointer to it.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
