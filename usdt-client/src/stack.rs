//! Call stacks by frame pointers, without touching memory that may not be there.
//!
//! The kernel copies the part of the stack that is looked at, a window at a
//! time (a system call, which fails where a read would crash), and the chain of
//! frame pointers is followed in the copy. Windows are small: a handler of
//! signals may have 8 KiB of stack in all.

use crate::arch;
use core::ffi::c_void;

/// Most addresses of a stack.
pub(crate) const MAX_ADDRESSES: usize = 32;
/// Words of the stack that are looked at, at a time.
const WINDOW_WORDS: usize = 128;

/// Return addresses of the caller's callers, innermost first.
#[inline(always)]
pub(crate) fn of_caller(addresses: &mut [u64; MAX_ADDRESSES]) -> usize {
    from_frame(arch::frame_pointer(), addresses)
}

/// Return addresses from a frame pointer on.
pub(crate) fn from_frame(mut frame: u64, addresses: &mut [u64]) -> usize {
    let mut window = [0_u64; WINDOW_WORDS];
    let mut count = 0;
    while count < addresses.len() {
        let words = read_memory(frame, &mut window);
        let walked = walk(frame, &window[..words], &mut addresses[count..]);
        count += walked.count;
        match walked.next {
            Some(next) => frame = next,
            None => break,
        }
    }
    count
}

/// What a window gave.
#[derive(Debug, PartialEq)]
struct WalkedWindow {
    /// Return addresses found.
    count: usize,
    /// The frame beyond the window at which to go on.
    next: Option<u64>,
}

/// Follows the chain of frame pointers through a copy of the stack that begins at `start`.
fn walk(start: u64, window: &[u64], addresses: &mut [u64]) -> WalkedWindow {
    let mut frame = start;
    let mut count = 0;
    while let Some(slot) = addresses.get_mut(count) {
        let index = (frame.wrapping_sub(start) / 8) as usize;
        let (Some(next), Some(address)) = (window.get(index), window.get(index.wrapping_add(1)))
        else {
            return WalkedWindow { count, next: (count > 0).then_some(frame) };
        };
        if *address < 4096 {
            break;
        }
        *slot = *address;
        count += 1;
        // Frames lie one above the other; anything else is no frame pointer.
        if *next <= frame || !next.is_multiple_of(8) {
            break;
        }
        frame = *next;
    }
    WalkedWindow { count, next: None }
}

/// Copies what is mapped from `address` on; returns the number of words.
fn read_memory(address: u64, window: &mut [u64; WINDOW_WORDS]) -> usize {
    if !address.is_multiple_of(8) || address < 4096 {
        return 0;
    }
    let bytes = WINDOW_WORDS * 8;
    let local = libc::iovec { iov_base: window.as_mut_ptr().cast::<c_void>(), iov_len: bytes };
    // Up to the end of a page each: a part that is not mapped ends the copy, it does not fail it.
    let first = (4096 - address % 4096).min(bytes as u64);
    let remote = [
        libc::iovec { iov_base: address as *mut c_void, iov_len: first as usize },
        libc::iovec {
            iov_base: address.wrapping_add(first) as *mut c_void,
            iov_len: bytes - first as usize,
        },
    ];
    // SAFETY: the kernel writes to `window` alone and checks all it reads.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, remote.as_ptr(), 2, 0)
    };
    usize::try_from(copied).unwrap_or(0) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_frames_gives_its_return_addresses_and_ends_at_what_is_no_frame() {
        let start = 0x7000_0000;
        let window = [start + 32, 0x40_1000, 0, 0, start + 48, 0x40_2000, 7, 0x40_3000, 0];
        let mut addresses = [0; 8];
        assert_eq!(walk(start, &window, &mut addresses), WalkedWindow { count: 3, next: None });
        // A window that ends before the chain does says where to go on.
        assert_eq!(
            walk(start, &window[..5], &mut addresses),
            WalkedWindow { count: 1, next: Some(start + 32) }
        );
        assert_eq!(addresses[..3], [0x40_1000, 0x40_2000, 0x40_3000]);
    }

    #[test]
    fn a_frame_pointer_that_points_nowhere_gives_no_stack_and_no_crash() {
        let mut addresses = [0; 8];
        for frame in [0, 1, 8, 0xdead_beef_0000, u64::MAX - 7] {
            assert_eq!(from_frame(frame, &mut addresses), 0);
        }
    }
}
