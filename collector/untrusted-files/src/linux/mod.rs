//! Linux.

mod memory;
mod nice;
mod open;
mod owner;
mod resident;
mod storage;
#[cfg(test)]
mod tests;

pub use memory::MemoryFile;
pub use nice::ThreadNice;
pub use open::{
    FoundFile, OpenedFile, data_of_mapping, data_of_program, find, folder_in_root, open,
    try_to_find, working_folder,
};
pub use owner::{Owner, status_at};

use crate::{OpenError, in_process, within};
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

/// The first `most` bytes of a text for which the kernel needs a process's memory, such as its
/// command line or its mappings: `name` in `process`, its folder in /proc, whose `owner` is given.
///
/// That memory may be a mapping of a file whose file system never answers.
///
/// # Errors
///
/// The system's, and [`OpenError::Hangs`].
pub fn read_text(
    process: &Path,
    name: &'static str,
    owner: Option<&Owner>,
    most: usize,
) -> Result<Vec<u8>, OpenError> {
    let process = process.to_owned();
    let read =
        within(owner.map(|owner| owner.uid), move || read_text_patiently(&process, name, most));
    Ok(read??)
}

/// As [`read_text`], where it does not matter how long it takes. A command line of which a page
/// would have to be fetched from a file is empty.
///
/// # Errors
///
/// The system's.
pub fn read_text_patiently(process: &Path, name: &str, most: usize) -> io::Result<Vec<u8>> {
    bytes_in(process, |folder| {
        let mut bytes = Vec::new();
        if name == "cmdline" && !resident::has_resident_arguments(folder, most)? {
            return Ok(bytes);
        }
        File::open(folder.join(name))?.take(most as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

/// What `read` finds in a process's folder. A process without memory has empty texts, and one whose
/// first thread has ended looks like one.
fn bytes_in(process: &Path, read: impl Fn(&Path) -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    let found = in_process(process, |folder| match read(folder) {
        Ok(bytes) if !bytes.is_empty() => Ok(bytes),
        nothing => Err(nothing),
    });
    found.or_else(|nothing| nothing)
}

/// At most `most` bytes of a process's memory, as many as can be read from `address` on.
///
/// # Errors
///
/// The system's, and [`OpenError::Hangs`]: what is mapped there may be a file whose file system
/// never answers.
pub fn read_memory(pid: u32, address: u64, most: usize) -> Result<Vec<u8>, OpenError> {
    memory_within(pid, move |folder| memory_of(folder, address, most))
}

/// The same of memory that a program has written, such as a stack: it ends where a page would have
/// to be fetched from a file.
///
/// # Errors
///
/// The system's, and [`OpenError::Hangs`]: a file may have been mapped there just then.
pub fn read_resident_memory(pid: u32, address: u64, most: usize) -> Result<Vec<u8>, OpenError> {
    memory_within(pid, move |folder| {
        memory_of(folder, address, resident::resident_bytes(folder, address, most)?)
    })
}

/// What `read` finds in a process's folder, in the time that its user may take.
fn memory_within(
    pid: u32,
    read: impl Fn(&Path) -> io::Result<Vec<u8>> + Send + 'static,
) -> Result<Vec<u8>, OpenError> {
    let found = within(Owner::of_process(pid).map(|owner| owner.uid), move || {
        bytes_in(&folder_of(pid), read)
    });
    Ok(found??)
}

fn memory_of(folder: &Path, address: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let length = File::open(folder.join("mem"))?.read_at(&mut bytes, address)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// The folder of a process.
fn folder_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}
