//! The kernel's library in every process, which is no file.

use crate::os::copy_of_memory;
use std::fs::File;
use std::io;
use syscollect_model::ModuleKind;
use syscollect_untrusted_files::FixedPath;

/// Its path in mappings.
pub(crate) const PATH: &str = ModuleKind::VDSO_PATH;
/// It has had one to four pages; a larger range is not it.
const SIZE_MAX: u64 = 1 << 20;

/// A copy of this process's vDSO as a file in memory: all processes of the same
/// bitness have the same.
///
/// # Errors
///
/// The system's, and where the kernel gives none.
pub fn own() -> io::Result<File> {
    let maps = FixedPath::new("/proc/self/maps").read_to_string()?;
    let line = maps.lines().find(|line| line.ends_with(PATH)).ok_or(io::ErrorKind::NotFound)?;
    let (start, end) = range(line).ok_or(io::ErrorKind::InvalidData)?;
    let size = end
        .checked_sub(start)
        .filter(|size| *size <= SIZE_MAX)
        .ok_or(io::ErrorKind::InvalidData)?;
    copy_of_memory("vdso", start, size as usize)
}

/// Whether a mapping that begins at `start` belongs to a program of our bitness: the vDSO of 64-bit
/// programs lies above what 32 bits can address, and they alone can have it there.
pub(crate) fn is_ours(start: u64) -> bool {
    cfg!(target_pointer_width = "64") == (start > u64::from(u32::MAX))
}

fn range(maps_line: &str) -> Option<(u64, u64)> {
    let (start, end) = maps_line.split_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
