//! Stacks for handlers of signals: where a thread's own has overflowed, there is no room for one.

use crate::memory;
use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the stack that a thread gets for its handlers: those that were set before have it, too.
const HANDLER_STACK: usize = 64 << 10;
/// Below it, so that who overflows this one as well hits nothing.
const GUARD: usize = 4096;

/// Whether threads are to have one.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Threads get one with their rings from now on.
pub(crate) fn provide_from_now_on() {
    WANTED.store(true, Ordering::Release);
}

/// The stack for handlers that a thread was given; all zeros: none.
pub(crate) struct HandlerStack(Cell<*mut u8>);

impl HandlerStack {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(core::ptr::null_mut()))
    }

    /// Gives one to the calling thread, if threads are to have one and it has none.
    pub(crate) fn provide(&self) {
        if !WANTED.load(Ordering::Acquire) || !self.0.get().is_null() {
            return;
        }
        // SAFETY: all zeros is a `stack_t`, which the call only writes to.
        let has_one = unsafe {
            let mut present: libc::stack_t = core::mem::zeroed();
            libc::sigaltstack(core::ptr::null(), &raw mut present) != 0
                || present.ss_flags & libc::SS_DISABLE == 0
        };
        if has_one {
            return;
        }
        let Some(memory) = memory::map_private(GUARD + HANDLER_STACK) else { return };
        let memory = memory.as_ptr();
        let stack = libc::stack_t {
            ss_sp: memory.wrapping_add(GUARD).cast(),
            ss_flags: 0,
            ss_size: HANDLER_STACK,
        };
        // SAFETY: the memory is this thread's until `take_back`, and its first page nobody's.
        let is_set = unsafe {
            libc::mprotect(memory.cast(), GUARD, libc::PROT_NONE);
            libc::sigaltstack(&raw const stack, core::ptr::null_mut()) == 0
        };
        if is_set {
            self.0.set(memory);
        } else {
            // SAFETY: nobody uses it.
            unsafe { memory::unmap(memory, GUARD + HANDLER_STACK) };
        }
    }

    /// The calling thread ends.
    pub(crate) fn take_back(&self) {
        let memory = self.0.replace(core::ptr::null_mut());
        if memory.is_null() {
            return;
        }
        let own = memory.wrapping_add(GUARD).cast::<c_void>();
        // SAFETY: `stack_t` as above. While this thread runs on it, it can not be taken away, and
        // then it stays.
        unsafe {
            let mut present: libc::stack_t = core::mem::zeroed();
            libc::sigaltstack(core::ptr::null(), &raw mut present);
            let mut is_free = present.ss_sp != own || present.ss_flags & libc::SS_DISABLE != 0;
            if !is_free {
                present.ss_flags = libc::SS_DISABLE;
                is_free = libc::sigaltstack(&raw const present, core::ptr::null_mut()) == 0;
            }
            if is_free {
                memory::unmap(memory, GUARD + HANDLER_STACK);
            }
        }
    }
}
