//! Linux.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use syscollect_untrusted_files::MemoryFile;

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
    let raised =
        limit.rlim_cur == before || unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } == 0;
    if raised { limit.rlim_cur } else { before }
}

/// This process's memory from `start` on as a file in memory.
pub(crate) fn copy_of_memory(name: &str, start: u64, size: usize) -> io::Result<File> {
    let mut bytes = vec![0; size];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    let file = MemoryFile::new(name, size as u64)?;
    file.write_at(&bytes, 0)?;
    file.seal()
}
