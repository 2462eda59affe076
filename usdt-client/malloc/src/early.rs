//! Blocks for whoever looks up where memory is to be had from: a few, which are never given back.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

/// For all of them.
const BYTES: usize = 64 << 10;
/// A block begins at a multiple of this, and the size before it has as much.
const ALIGNMENT: usize = 16;
pub(super) const PAGE: usize = 4096;

#[repr(align(4096))]
struct Memory(UnsafeCell<[u8; BYTES]>);
// SAFETY: each byte is given to one caller.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; BYTES]));
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// A block of zeros, null where there is no room.
#[cold]
pub(super) fn take(bytes: usize, alignment: usize) -> *mut c_void {
    let alignment = alignment.max(ALIGNMENT);
    let mut taken = TAKEN.load(Ordering::Relaxed);
    loop {
        let start = (taken + ALIGNMENT).checked_next_multiple_of(alignment);
        let end = start.and_then(|start| start.checked_add(bytes)).filter(|end| *end <= BYTES);
        let (Some(start), Some(end)) = (start, end) else { return null_mut() };
        match TAKEN.compare_exchange_weak(taken, end, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let block = MEMORY.0.get().cast::<u8>().wrapping_add(start);
                // SAFETY: the bytes from `taken` to `end` are this caller's, and `start` is at
                // least so far behind it, at a multiple of the alignment.
                unsafe { block.sub(ALIGNMENT).cast::<usize>().write(bytes) };
                return block.cast();
            }
            Err(now) => taken = now,
        }
    }
}

/// Whether the block was taken here.
#[inline(always)]
pub(super) fn has(block: *const c_void) -> bool {
    (block as usize).wrapping_sub(MEMORY.0.get() as usize) < BYTES
}

/// How large it is.
///
/// # Safety
/// It was taken here.
pub(super) unsafe fn size(block: *const c_void) -> usize {
    // SAFETY: as the caller says, the size stands before it.
    unsafe { block.cast::<u8>().sub(ALIGNMENT).cast::<usize>().read() }
}

/// Copies what fits to a block that was taken in its place.
///
/// # Safety
/// `block` was taken here or is null; `to` has so many bytes or is null.
pub(super) unsafe fn copy(block: *const c_void, to: *mut c_void, bytes: usize) {
    if has(block) && !to.is_null() {
        // SAFETY: as the caller says; what is taken anew lies elsewhere.
        unsafe { to.cast::<u8>().copy_from(block.cast(), bytes.min(size(block))) };
    }
}
