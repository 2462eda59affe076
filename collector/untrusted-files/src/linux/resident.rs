//! Whether memory of a process can be read without a file system.
//!
//! Whoever reads a page of a file that is not in memory waits for its file system, which may be
//! another user's program that never answers; not even SIGKILL ends that wait (fs/fuse/dev.c,
//! `request_wait_answer`). Pages that are there are read at once. A program that changes its
//! mappings between the look and the reading can still have a thread of
//! [`within`](crate::within) wait.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flags of a page (Documentation/admin-guide/mm/pagemap.rst): it is in memory, it is swapped out,
/// and it is a file's or shared.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
/// Bytes of a page, and of its entry.
const PAGE: u64 = 4096;
const ENTRY: u64 = 8;
/// Bytes of which is asked at most.
const LONGEST: u64 = 1 << 20;
/// Fields of `stat` behind the name (proc_pid_stat(5)): where the arguments begin and end, and
/// where the environment does, which the kernel takes for more of them.
const ARGUMENTS_BEGIN: usize = 45;
const ARGUMENTS_END: usize = 46;
const ENVIRONMENT_END: usize = 48;

/// How many bytes from `address` on, at most so many, are in memory, or swapped out of it; all
/// where the kernel does not tell. `process` is its folder in /proc.
///
/// # Errors
///
/// The system's.
pub(super) fn resident_bytes(process: &Path, address: u64, most: usize) -> io::Result<usize> {
    let pages = match File::open(process.join("pagemap")) {
        Ok(pages) => pages,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(most),
        Err(error) => return Err(error),
    };
    let most = (most as u64).min(LONGEST);
    let (first, end) = (address / PAGE, address.saturating_add(most).div_ceil(PAGE));
    let mut entries = vec![0; ((end - first) * ENTRY) as usize];
    let read = pages.read_at(&mut entries, first * ENTRY)?;
    let (entries, _) = entries[..read].as_chunks::<8>();
    let is_resident = |entry: &&[u8; 8]| {
        let flags = u64::from_ne_bytes(**entry);
        flags & PRESENT != 0 || flags & SWAPPED != 0 && flags & OF_FILE == 0
    };
    let resident = entries.iter().take_while(is_resident).count() as u64;
    Ok(((first + resident) * PAGE).saturating_sub(address).min(most) as usize)
}

/// Whether the memory that has a process's command line is there, as far as `most` bytes of it; so
/// it is where the kernel does not tell.
///
/// # Errors
///
/// The system's.
pub(super) fn has_resident_arguments(process: &Path, most: usize) -> io::Result<bool> {
    let stat = match std::fs::read(process.join("stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let Some((begin, end)) = arguments(&stat) else { return Ok(true) };
    let wanted = end.saturating_sub(begin).min(most as u64) as usize;
    Ok(resident_bytes(process, begin, wanted)? == wanted)
}

/// Where the arguments lie, at most, from the text of `stat`.
fn arguments(stat: &[u8]) -> Option<(u64, u64)> {
    let stat = String::from_utf8_lossy(stat);
    // A name may have spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number)?.parse::<u64>().ok();
    let ends = (field(ARGUMENTS_END)?, field(ENVIRONMENT_END)?);
    Some((field(ARGUMENTS_BEGIN)?, ends.0.max(ends.1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// Two pages of memory: of this file from its beginning, or of no file.
    struct Pages(*mut libc::c_void);

    impl Pages {
        fn new(file: Option<&File>) -> Self {
            let private = libc::MAP_PRIVATE | if file.is_none() { libc::MAP_ANONYMOUS } else { 0 };
            let (rights, fd) = (libc::PROT_READ, file.map_or(-1, AsRawFd::as_raw_fd));
            // SAFETY: the kernel chooses where; nobody has that memory.
            let at = unsafe {
                libc::mmap(std::ptr::null_mut(), 2 * PAGE as usize, rights, private, fd, 0)
            };
            assert_ne!(at, libc::MAP_FAILED);
            Self(at)
        }

        fn touch_first(&self) {
            // SAFETY: there is such a byte, which nobody writes.
            unsafe { std::ptr::read_volatile(self.0.cast::<u8>()) };
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: it was mapped so, and nothing refers to it any more.
            unsafe { libc::munmap(self.0, 2 * PAGE as usize) };
        }
    }

    #[test]
    fn a_processs_memory_ends_where_a_page_would_have_to_be_fetched() {
        let own = Path::new("/proc/self");
        let words = [7_u8; 100];
        assert_eq!(resident_bytes(own, words.as_ptr() as u64, 100).unwrap(), 100);
        assert!(has_resident_arguments(own, 4096).unwrap());
        let untouched = Pages::new(None);
        let at = untouched.0 as u64;
        assert_eq!(resident_bytes(own, at, 10).unwrap(), 0);
        let touched = Pages::new(None);
        touched.touch_first();
        let at = touched.0 as u64;
        assert_eq!(resident_bytes(own, at + 10, 5000).unwrap(), PAGE as usize - 10);
        let of_file = Pages::new(Some(&File::open("/proc/self/exe").unwrap()));
        assert_eq!(resident_bytes(own, of_file.0 as u64, 10).unwrap(), 0);
        assert_eq!(resident_bytes(own, u64::MAX - 5, 10).unwrap_or(0), 0);
    }

    #[test]
    fn arguments_are_found_behind_any_name() {
        let numbers: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a ) 1 2 3) {}", numbers.join(" "));
        // Fields count from 1: arg_start is the 48th, arg_end the 49th, env_end the 51st.
        assert_eq!(arguments(stat.as_bytes()), Some((48, 51)));
        assert_eq!(arguments(b"7 (a) 1 2"), None);
    }
}
