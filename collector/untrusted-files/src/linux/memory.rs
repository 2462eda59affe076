//! Files in memory, which nobody else can cut off.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

/// A file in memory that is being written. What was not written is zeros and costs nothing until it
/// is read.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// One of `length` bytes; `name` is what /proc shows.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn new(name: &str, length: u64) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: `name` is a C string that lives through the call, which keeps no pointer to it.
        let descriptor = unsafe {
            libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(length)?;
        Ok(Self(file))
    }

    /// Writes at a position.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, position)
    }

    /// From now on it neither shrinks nor changes.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn seal(self) -> io::Result<File> {
        let seals =
            libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
        // SAFETY: no memory is involved.
        match unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
            0 => Ok(self.0),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
