//! Event loops: threads that wait for something to do, do it, and wait again.
//!
//! A loop that says when it waits is told to be away by its own marks: also where it looks for
//! events without sleeping, or sleeps in something that the kernel does not know as its wait.

use crate::emit;
use core::marker::PhantomData;
use syscollect_zone_protocol::{Event, LoopPhase};

/// The calling thread's loop waits for something to do until this is dropped.
///
/// ```
/// use syscollect_usdt_client::loop_wait;
///
/// # let poll = || Some("an event");
/// let event = {
///     let _wait = loop_wait();
///     poll() // may sleep, or only look
/// };
/// # let handle = |_| ();
/// handle(event);
/// ```
#[inline(always)]
pub fn loop_wait() -> LoopWait {
    waits();
    LoopWait { of_thread: PhantomData }
}

/// A wait of the calling thread's loop; its turn begins when it is dropped.
#[must_use = "the wait ends when its guard is dropped"]
pub struct LoopWait {
    /// The marks are those of one thread.
    of_thread: PhantomData<*const ()>,
}

impl Drop for LoopWait {
    #[inline(always)]
    fn drop(&mut self) {
        turns();
    }
}

/// The calling thread's loop begins to wait, where no scope does it.
#[inline(always)]
pub fn waits() {
    mark(LoopPhase::Waits);
}

/// It goes on with what it found.
#[inline(always)]
pub fn turns() {
    mark(LoopPhase::Turns);
}

#[inline(always)]
fn mark(phase: LoopPhase) {
    if crate::enabled() {
        record(phase);
    }
}

/// Records that the calling thread's loop waits, or goes on.
#[cold]
#[inline(never)]
pub(crate) fn record(phase: LoopPhase) {
    if let Ok(mut group) = emit::group(16) {
        group.event(Event::Loop { phase });
    }
}
