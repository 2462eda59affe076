//! `libsyscollect_malloc.so`: stands before the C library's malloc and reports what it gives and
//! gets back, of programs that nobody changed.
//!
//! ```sh
//! sudo syscollect record -- env LD_PRELOAD=/usr/lib/libsyscollect_malloc.so PROGRAM
//! ```
//!
//! While nobody records, a call costs two loads and two branches more. Recording takes nothing from
//! the heap, so it calls nothing here; where the C library does meanwhile, the block is given and
//! the event counted as lost. What a thread frees after its last destructor is counted as lost,
//! too.

mod early;
mod next;

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use syscollect_usdt_client::{alloc, enabled};

/// Reports a block, and leaves errno alone.
#[inline(always)]
fn allocated(block: *mut c_void, bytes: usize) -> *mut c_void {
    if enabled() {
        keeping_errno(|| alloc::allocated(block.cast(), bytes));
    }
    block
}

/// Reports that a block is about to be given back.
#[inline(always)]
fn freed(block: *mut c_void) {
    if enabled() {
        keeping_errno(|| alloc::freed(block.cast()));
    }
}

/// A caller may look at errno after free, and after malloc that gave a block.
#[cold]
#[inline(never)]
fn keeping_errno(report: impl FnOnce()) {
    // SAFETY: errno is always there.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    report();
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

/// There is no memory.
#[cold]
fn refused() -> *mut c_void {
    // SAFETY: errno is always there.
    unsafe { libc::__errno_location().write(libc::ENOMEM) };
    null_mut()
}

/// As malloc(3).
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    match next::malloc() {
        // SAFETY: as of the caller.
        Some(next) => allocated(unsafe { next(bytes) }, bytes),
        None => early::take(bytes, 1),
    }
}

/// As calloc(3).
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    match next::calloc() {
        // SAFETY: as of the caller.
        Some(next) => allocated(unsafe { next(count, bytes) }, count.wrapping_mul(bytes)),
        // What is taken there was never another's: it is zeros.
        None => count.checked_mul(bytes).map_or_else(refused, |bytes| early::take(bytes, 1)),
    }
}

/// As realloc(3).
///
/// # Safety
/// The block is null, or was given here and not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    let Some(next) = next::realloc() else {
        let moved = early::take(bytes, 1);
        // SAFETY: as the caller says.
        unsafe { early::copy(block, moved, bytes) };
        return moved;
    };
    if early::has(block) {
        // SAFETY: as of the caller.
        let moved = unsafe { malloc(bytes) };
        // SAFETY: as the caller says; the new block has so many bytes.
        unsafe { early::copy(block, moved, bytes) };
        return moved;
    }
    // Before the block can be another thread's; taken back where it stays.
    freed(block);
    // SAFETY: as the caller says.
    let moved = unsafe { next(block, bytes) };
    if moved.is_null() && bytes != 0 && !block.is_null() {
        // SAFETY: the block is still the caller's.
        allocated(block, unsafe { malloc_usable_size(block) });
        return moved;
    }
    allocated(moved, bytes)
}

/// As reallocarray(3).
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    bytes: usize,
) -> *mut c_void {
    // SAFETY: as the caller says.
    count.checked_mul(bytes).map_or_else(refused, |bytes| unsafe { realloc(block, bytes) })
}

/// As free(3).
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() || early::has(block) {
        return;
    }
    freed(block);
    if let Some(next) = next::free() {
        // SAFETY: as the caller says.
        unsafe { next(block) };
    }
}

/// As posix_memalign(3).
///
/// # Safety
/// `block` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    block: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    let Some(next) = next::posix_memalign() else { return libc::ENOMEM };
    // SAFETY: as the caller says.
    let result = unsafe { next(block, alignment, bytes) };
    if result == 0 {
        // SAFETY: it was written.
        allocated(unsafe { block.read() }, bytes);
    }
    result
}

/// As aligned_alloc(3).
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    match next::aligned_alloc() {
        // SAFETY: as of the caller.
        Some(next) => allocated(unsafe { next(alignment, bytes) }, bytes),
        None => early::take(bytes, alignment),
    }
}

/// As memalign(3).
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    match next::memalign() {
        // SAFETY: as of the caller.
        Some(next) => allocated(unsafe { next(alignment, bytes) }, bytes),
        None => early::take(bytes, alignment),
    }
}

/// As valloc(3).
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    match next::valloc() {
        // SAFETY: as of the caller.
        Some(next) => allocated(unsafe { next(bytes) }, bytes),
        None => early::take(bytes, early::PAGE),
    }
}

/// As pvalloc(3).
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    match next::pvalloc() {
        // SAFETY: as of the caller.
        Some(next) => allocated(unsafe { next(bytes) }, bytes),
        None => early::take(bytes, early::PAGE),
    }
}

/// As malloc_usable_size(3).
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if early::has(block) {
        // SAFETY: the block was taken there.
        return unsafe { early::size(block) };
    }
    // SAFETY: as the caller says.
    next::malloc_usable_size().map_or(0, |next| unsafe { next(block) })
}
