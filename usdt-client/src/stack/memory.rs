//! Memory that may not be there, read so that nothing happens where it is not.
//!
//! Before a page is read for the first time the kernel is asked whether it can be: by a system call
//! that reads a word there, and refuses the rest of what it is asked for. What is asked for is the
//! caller's own stack, which nobody takes away while it runs on it.

use crate::arch;

/// Bytes of a page.
const PAGE: u64 = 4096;

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
        if !arch::can_be_read(page) {
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
}
