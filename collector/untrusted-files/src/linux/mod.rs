//! Linux.

mod memory;
mod open;
mod owner;
mod storage;
#[cfg(test)]
mod tests;

pub use memory::MemoryFile;
pub use open::{FoundFile, OpenedFile, data_of_mapping, data_of_program, find, open};
pub use owner::{Owner, status_at};

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

/// The first `most` bytes of a text of /proc for which the kernel needs a process's memory, such as
/// its command line or its mappings; `owner` is the process's.
///
/// That memory may be a mapping of a file whose file system never answers.
///
/// # Errors
///
/// The system's, and [`OpenError::Hangs`].
pub fn read_text(path: &Path, owner: Option<&Owner>, most: usize) -> Result<Vec<u8>, OpenError> {
    let path = path.to_owned();
    let read = within(owner.map(|owner| owner.uid), move || {
        let mut bytes = Vec::new();
        File::open(path)?.take(most as u64).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    });
    Ok(read??)
}

/// At most `most` bytes of a process's memory, as many as can be read from `address` on.
///
/// # Errors
///
/// The system's, and [`OpenError::Hangs`]: what is mapped there may be a file whose file system
/// never answers.
pub fn read_memory(pid: u32, address: u64, most: usize) -> Result<Vec<u8>, OpenError> {
    let read = within(Owner::of_process(pid).map(|owner| owner.uid), move || {
        let mut bytes = vec![0; most];
        let length = File::open(format!("/proc/{pid}/mem"))?.read_at(&mut bytes, address)?;
        bytes.truncate(length);
        Ok::<_, io::Error>(bytes)
    });
    Ok(read??)
}
