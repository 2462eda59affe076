//! Blocks of memory: `struct syscollect_pool`.

use super::text;
use crate::arena::Arena;
use crate::log::CachedNumber;
use crate::{alloc, emit};
use core::ffi::{c_char, c_void};

/// `struct syscollect_pool`.
#[repr(C)]
pub struct CPool {
    name: *const c_char,
    number: CachedNumber,
}

/// The pool's number in the log; 0 is the heap.
///
/// # Safety
/// Null, or a pool whose name is null or ends with a zero.
unsafe fn number(pool: *const CPool, arena: &Arena) -> u32 {
    // SAFETY: as the caller says.
    let Some(pool) = (unsafe { pool.as_ref() }) else { return 0 };
    // SAFETY: as the caller says.
    pool.number.or_define(arena, || emit::string(arena, unsafe { text(pool.name) }))
}

/// Records a block that a pool has given.
///
/// # Safety
/// The pool is null, or lasts as long as the program, as its name does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_alloc_recorded(
    address: *const c_void,
    bytes: usize,
    pool: *const CPool,
) {
    if !address.is_null() {
        // SAFETY: as the caller says.
        alloc::record_allocated(address as u64, bytes as u64, |arena| unsafe {
            number(pool, arena)
        });
    }
}

/// Records a block that a pool is about to get back.
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_free_recorded(address: *const c_void, pool: *const CPool) {
    if !address.is_null() {
        // SAFETY: as the caller says.
        alloc::record_freed(address as u64, |arena| unsafe { number(pool, arena) });
    }
}
