//! What happens at a fork: the child starts afresh.
//!
//! The private state (of the process and of its threads) is wiped by the kernel,
//! and the parent's arena is not mapped in the child, so the child makes its own
//! at its next event. That needs no handler; the handler here closes the
//! descriptor that the child inherited, and covers the one case in which the
//! child could still write: a signal handler that forks in the middle of an
//! event, which then goes on in the child. It finds private memory in the
//! place of its parent's. (`_Fork`, which runs no handlers, is not covered there.)
//!
//! After exec nothing is left: mappings end, and the descriptor is closed by it.

use crate::arena::identity;
use crate::memory;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use syscollect_zone_protocol::arena::ARENA_BYTES;

/// What a child has to get rid of.
pub(crate) struct Inheritance {
    pub(crate) descriptor: i32,
    /// Device and inode: the number may long be another file's.
    pub(crate) identity: (u64, u64),
    pub(crate) base: *mut u8,
}

static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
static BASE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Notes the arena for children that are forked from now on.
pub(crate) fn remember(inheritance: Inheritance) {
    DEVICE.store(inheritance.identity.0, Ordering::Relaxed);
    INODE.store(inheritance.identity.1, Ordering::Relaxed);
    BASE.store(inheritance.base, Ordering::Relaxed);
    DESCRIPTOR.store(inheritance.descriptor, Ordering::Release);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // The C library forgets the handler when it unloads the library that this code is in.
        // SAFETY: the handler may run in a forked child: it makes system calls only.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

unsafe extern "C" fn in_child() {
    let descriptor = DESCRIPTOR.swap(-1, Ordering::Acquire);
    let remembered = (DEVICE.load(Ordering::Relaxed), INODE.load(Ordering::Relaxed));
    if descriptor >= 0 && identity(descriptor) == Some(remembered) {
        // SAFETY: it is the parent's arena's, nobody else's.
        unsafe { libc::close(descriptor) };
    }
    let base = BASE.swap(core::ptr::null_mut(), Ordering::Relaxed);
    if !base.is_null() {
        memory::plug(base, ARENA_BYTES);
    }
}
