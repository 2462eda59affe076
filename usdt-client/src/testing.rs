//! For tests without a collector: raises the semaphore of this process alone
//! and reads the process's own arena. No part of the stable interface.

use crate::protocol::{ARENA_BYTES, ClockKind};
use crate::semaphore::SEMAPHORE;
use crate::{arena, clock, memory};
use core::sync::atomic::Ordering;

pub use crate::arena::LOST_BEFORE_ARENA;

/// Behaves as if a collector had attached.
pub fn raise() {
    SEMAPHORE.fetch_add(1, Ordering::Relaxed);
}

/// Behaves as if it had gone.
pub fn lower() {
    SEMAPHORE.fetch_sub(1, Ordering::Relaxed);
}

/// Behaves as if memfd_create were refused. Call it before the first event.
pub fn refuse_shared_memory() {
    arena::REFUSE_MEMORY.store(true, Ordering::Relaxed);
}

/// Behaves as if there were no invariant time stamp counter. Call it before the first event.
pub fn refuse_counter() {
    clock::force(ClockKind::Monotonic);
}

/// The descriptor of the process's arena, if it has made one.
pub fn arena_descriptor() -> Option<i32> {
    let arena = arena::existing()?;
    (!arena.is_fallback()).then(|| arena.descriptor())
}

/// Maps an arena as a collector does; the mapping stays.
pub fn map_arena(descriptor: i32) -> Option<*mut u8> {
    memory::map_shared(descriptor, ARENA_BYTES).map(core::ptr::NonNull::as_ptr)
}
