//! Room on a disk for what a file says at its end, also where the disk is full by then.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;

/// Bytes that are held, the first number of these that there is room for. What was lost of a
/// machine of 128 CPUs and the summary take some 50 kB.
const SIZES: [i64; 2] = [256 << 10, 32 << 10];

/// Where in the file: beyond all that is written there, and within what every file system can
/// address.
const OFFSET: i64 = 1 << 40;

/// Room that a file has on its disk beyond its end; nobody sees it in its length.
pub(crate) struct DiskReserve {
    file: File,
    bytes: i64,
}

impl DiskReserve {
    /// `None` where the file system has no such room, or cannot hold it.
    pub(crate) fn take(file: &File) -> Option<Self> {
        if is_size_limited() {
            return None;
        }
        let file = file.try_clone().ok()?;
        let bytes =
            SIZES.into_iter().find(|bytes| allocate(&file, libc::FALLOC_FL_KEEP_SIZE, *bytes))?;
        Some(Self { file, bytes })
    }
}

/// The disk has the room again.
impl Drop for DiskReserve {
    fn drop(&mut self) {
        // ext4 punches no holes beyond a file's end; what gives that room back there is a length
        // that is set, be it the same.
        let punch = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
        allocate(&self.file, punch, self.bytes);
        if let Ok(file) = self.file.metadata() {
            let _ = self.file.set_len(file.len());
        }
    }
}

/// Takes back what was written of a chunk that did not fit, so that what follows stands where it
/// is looked for.
pub(crate) fn cut_off(file: &mut File, bytes: u64) {
    // What cannot be cut (a pipe) stays; readers skip what is no chunk.
    if file.set_len(bytes).is_ok() {
        let _ = file.seek(SeekFrom::Start(bytes));
    }
}

fn allocate(file: &File, mode: libc::c_int, bytes: i64) -> bool {
    // SAFETY: numbers and an open file; no memory is involved.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, OFFSET, bytes) == 0 }
}

/// Whether files may not grow beyond some size: asking for room beyond it ends the process
/// (SIGXFSZ).
fn is_size_limited() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is the kernel's own and outlives the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    !known || limit.rlim_cur != libc::RLIM_INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn room_is_held_and_given_back_and_the_file_is_what_was_written() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"whole").unwrap();
        let before = blocks(&file);
        let Some(reserve) = DiskReserve::take(&file) else {
            eprintln!("skipped: the file system of temporary files holds no room");
            return;
        };
        assert!(blocks(&file) >= before + SIZES[0] as u64 / 512, "{}", blocks(&file));
        file.write_all(b" and a part").unwrap();
        drop(reserve);
        assert!(blocks(&file) <= before + 8, "{} after {before}", blocks(&file));
        cut_off(&mut file, 5);
        file.write_all(b", and its end").unwrap();
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "whole, and its end");
    }

    fn blocks(file: &File) -> u64 {
        file.metadata().unwrap().blocks()
    }
}
