//! Memory that may not be there, read so that nothing happens where it is not.
//!
//! Before a page is read for the first time the kernel is asked whether it can be: by a system call
//! that reads a word there, and refuses the rest of what it is asked for. What is asked for is the
//! caller's own stack, which nobody takes away while it runs on it.
//!
//! Some programs have filters of system calls that answer in the kernel's place, and emulators look
//! at a call's arguments in another order. Any answer but the kernel's two means that nothing is
//! read; and whether memory that is never there is told from other memory is tried before the first
//! walk.

use crate::arch;
use core::sync::atomic::{AtomicU8, Ordering};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// The kernel's own half, which no program can read.
const NEVER_THERE: u64 = 1 << 63;

/// Whether answers about memory can be relied on, once that was tried.
static TRIED: AtomicU8 = AtomicU8::new(UNTRIED);
const UNTRIED: u8 = 0;
const RELIABLE: u8 = 1;
const UNRELIABLE: u8 = 2;

/// Whether there is an answer that tells memory that is there from other memory.
fn is_reliable() -> bool {
    match TRIED.load(Ordering::Relaxed) {
        UNTRIED => {
            let is_reliable = !arch::can_be_read(NEVER_THERE);
            TRIED.store(if is_reliable { RELIABLE } else { UNRELIABLE }, Ordering::Relaxed);
            is_reliable
        }
        tried => tried == RELIABLE,
    }
}

/// The pages that were found to be there.
pub(crate) struct Memory {
    start: u64,
    end: u64,
}

impl Memory {
    /// Of which nothing is known yet.
    pub(crate) fn new() -> Self {
        Self { start: 0, end: 0 }
    }

    /// The word at an address; `None` where nothing can be read.
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        let is_there = address.is_multiple_of(8) && self.has_page(address);
        // SAFETY: aligned, and the page can be read.
        is_there.then(|| unsafe { (address as *const u64).read_volatile() })
    }

    /// The eight bytes before an address.
    pub(crate) fn bytes_before(&mut self, address: u64) -> Option<[u8; 8]> {
        let start = address.checked_sub(8)?;
        let is_there = self.has_page(start) && self.has_page(address - 1);
        // SAFETY: the pages of the first and of the last byte can be read.
        is_there.then(|| unsafe { (start as *const [u8; 8]).read_volatile() })
    }

    fn has_page(&mut self, address: u64) -> bool {
        if (self.start..self.end).contains(&address) {
            return true;
        }
        let page = address & !(PAGE - 1);
        let Some(end) = page.checked_add(PAGE).filter(|_| page != 0) else { return false };
        if !is_reliable() || !arch::can_be_read(page) {
            return false;
        }
        // Stacks are read upwards.
        if page != self.end {
            self.start = page;
        }
        self.end = end;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_read_and_what_is_not_is_none() {
        let words: Vec<u64> = (0..2000).collect();
        let mut memory = Memory::new();
        for (index, word) in words.iter().enumerate().chain(words.iter().enumerate().rev()) {
            assert_eq!(memory.word(&raw const words[index] as u64), Some(*word));
        }
        let bytes = memory.bytes_before(&raw const words[8] as u64);
        assert_eq!(bytes, Some(words[7].to_ne_bytes()));
        for address in [0, 8, 4097, 0xdead_beef_0000, 1 << 63, u64::MAX - 7, u64::MAX] {
            assert_eq!((memory.word(address), memory.bytes_before(address)), (None, None));
        }
    }

    #[test]
    fn a_page_that_must_not_be_read_is_none_and_the_one_before_it_is_there() {
        // SAFETY: new memory, of which the second page is taken away.
        let start = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let start = libc::mmap(core::ptr::null_mut(), 8192, protection, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.byte_add(4096), 4096, libc::PROT_NONE), 0);
            start as u64
        };
        let mut memory = Memory::new();
        assert_eq!((memory.word(start + 4088), memory.word(start + 4096)), (Some(0), None));
        assert_eq!(memory.bytes_before(start + 4096), Some([0; 8]));
        assert_eq!(memory.bytes_before(start + 4097), None);
    }

    #[test]
    fn asking_changes_neither_errno_nor_the_signals_that_are_blocked() {
        let blocked = || {
            // SAFETY: reads this thread's signals.
            unsafe {
                let mut set: libc::sigset_t = core::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut set);
                (0..64).filter(|signal| libc::sigismember(&raw const set, *signal) == 1).count()
            }
        };
        let before = blocked();
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = 77 };
        let all = [u64::MAX; 2];
        assert!(arch::can_be_read(all.as_ptr() as u64) && !arch::can_be_read(0x1000));
        // SAFETY: as above.
        assert_eq!((unsafe { *libc::__errno_location() }, blocked()), (77, before));
    }

    /// Whether a child whose `rt_sigprocmask` a filter answers with this error reads a word that is
    /// there, and one that is not; or the signal that ended it.
    fn in_a_child_that_is_answered(error: i32) -> Result<(bool, bool), i32> {
        let word = 7_u64;
        let mut filter = [
            // The number of the call.
            libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
            libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_rt_sigprocmask as u32 },
            libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0x0005_0000 | error as u32 },
            libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0x7fff_0000 },
        ];
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        // SAFETY: the child asks for nothing that another thread could hold when it is made.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                TRIED.store(UNTRIED, Ordering::Relaxed);
                let (one, none) = (1_u64, 0_u64);
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, none, none, none);
                let filters = u64::from(libc::SECCOMP_MODE_FILTER);
                if libc::prctl(libc::PR_SET_SECCOMP, filters, &raw const program) != 0 {
                    libc::_exit(99);
                }
                let mut memory = Memory::new();
                let there = memory.word(&raw const word as u64).is_some();
                let absent = memory.word(0xdead_beef_0000).is_some();
                libc::_exit(i32::from(there) | i32::from(absent) << 1);
            }
            assert!(child > 0);
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            if libc::WIFSIGNALED(status) {
                return Err(libc::WTERMSIG(status));
            }
            let code = libc::WEXITSTATUS(status);
            assert!(code < 4, "it could not have a filter");
            Ok((code & 1 != 0, code & 2 != 0))
        }
    }

    #[test]
    fn where_a_filter_answers_in_the_kernels_place_nothing_is_read() {
        for error in [libc::EPERM, libc::ENOSYS, libc::EACCES, libc::EINVAL, 0] {
            assert_eq!(in_a_child_that_is_answered(error), Ok((false, false)), "{error}");
        }
    }
}
