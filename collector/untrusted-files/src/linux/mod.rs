//! Linux.

mod memory;
mod open;
mod owner;
mod storage;
#[cfg(test)]
mod tests;

pub use memory::MemoryFile;
pub use open::{Found, OpenedFile, find, open};
pub use owner::Owner;
pub use storage::only_root_writes;

use crate::{OpenError, within};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Reads at a position, without moving the descriptor's own.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    file.read_at(bytes, position)
}

/// A path by which this process, as long as `file` is open, opens the same file.
pub fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The first `most` bytes of a text of /proc that is read out of a process's memory, such as its command line.
///
/// That memory may be a mapping of a file whose file system never answers.
///
/// # Errors
///
/// The system's, and [`OpenError::Hangs`].
pub fn read_text(path: &Path, most: usize) -> Result<Vec<u8>, OpenError> {
    let path = path.to_owned();
    // Whose process it is costs more to find out than to read it; those that hang are few.
    let read = within(None, move || {
        let mut bytes = Vec::new();
        File::open(path)?.take(most as u64).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    });
    Ok(read??)
}
