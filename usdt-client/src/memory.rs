//! Memory from the kernel alone: nothing here or above touches the
//! application's heap.

use core::ptr::{NonNull, null_mut};

/// Maps private zeroed memory that is all zeros again in a forked child, so
/// that a child can not take its parent's state for its own.
pub(crate) fn map_private(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let address = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping is ours. Where the kernel is too old (before 4.14) the fork handler does
    // it alone.
    unsafe { libc::madvise(address, bytes, libc::MADV_WIPEONFORK) };
    NonNull::new(address.cast())
}

/// Maps a shared file; neither a forked child nor a core dump has it.
pub(crate) fn map_shared(descriptor: i32, bytes: usize) -> Option<NonNull<u8>> {
    // In a program that locks all its memory (mlockall), a mapping that may be accessed would be
    // filled at once. SAFETY: a new mapping at an address of the kernel's choice.
    let address =
        unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, libc::MAP_SHARED, descriptor, 0) };
    if address == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping is ours.
    unsafe {
        libc::munlock(address, bytes);
        libc::madvise(address, bytes, libc::MADV_DONTFORK);
        libc::madvise(address, bytes, libc::MADV_DONTDUMP);
        if libc::mprotect(address, bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            libc::munmap(address, bytes);
            return None;
        }
    }
    NonNull::new(address.cast())
}

/// Puts private memory where [`map_shared`]'s memory was in the parent.
pub(crate) fn plug(address: *mut u8, bytes: usize) {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: NOREPLACE: nothing that is mapped there is touched.
    unsafe { libc::mmap(address.cast(), bytes, protection, flags, -1, 0) };
}

/// Gives back what [`map_private`] or [`map_shared`] mapped.
///
/// # Safety
/// Nobody uses it any more.
pub(crate) unsafe fn unmap(address: *mut u8, bytes: usize) {
    // SAFETY: as the caller says.
    unsafe { libc::munmap(address.cast(), bytes) };
}
