//! The single-producer ring's ordering, without memory mappings or threads.
//!
//! One thread writes items and publishes `head`; one reader takes them and
//! publishes `tail`. Each side keeps its own word and reads the other's only
//! when it must: the writer when the room it knows of is used up. Whether the
//! memory is shared with another process is [`Shared`]'s matter.
//!
//! Positions count bytes and never go back; an item at position `p` lies at
//! `p % capacity`, and may end in the slack behind the capacity.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// What both sides see.
pub trait Shared {
    /// Bytes of items; a power of two.
    fn capacity(&self) -> u64;
    /// Reads `tail` so that what the reader did before it published is seen (Acquire).
    fn tail(&self) -> u64;
    /// Publishes `head` after all that was written before (Release).
    fn publish_head(&self, head: u64);
    /// Counts items that did not fit.
    fn count_lost(&self, items: u64);
    /// Writes one word at an offset below capacity plus slack.
    ///
    /// # Safety
    /// The caller is the only writer, and the reader has left those bytes.
    unsafe fn write(&self, offset: u64, word: u64);
}

/// The writer's side: private to its thread, and safe against signal handlers
/// that write to the same ring in between.
#[derive(Default)]
#[repr(C)]
pub struct Producer {
    /// Up to which position there is room; 0 while somebody writes.
    limit: AtomicU64,
    head: Cell<u64>,
}

/// The right to write, from [`Producer::enter`] to [`Producer::leave`].
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    /// Up to which position there is room.
    pub limit: u64,
    /// The position of the next word.
    pub head: u64,
}

impl Producer {
    /// A producer that has neither room nor position: every entry is refused.
    pub const fn new() -> Self {
        Self { limit: AtomicU64::new(0), head: Cell::new(0) }
    }

    /// Goes on at `head`.
    pub fn start(&self, shared: &impl Shared, head: u64) {
        self.head.set(head);
        self.limit.store(limit(shared, head), Ordering::Relaxed);
    }

    /// Whether somebody is writing (below this frame: the caller is a signal handler or hook).
    pub fn is_busy(&self) -> bool {
        self.limit.load(Ordering::Relaxed) == 0
    }

    /// Takes the right to write so many bytes, if there is room as far as is known and nobody is
    /// writing.
    #[inline(always)]
    pub fn try_enter(&self, bytes: u64) -> Option<Entered> {
        // First the right, then the question: a signal handler that writes in between moves the
        // head.
        let entered = self.enter();
        if entered.head + bytes <= entered.limit {
            return Some(entered);
        }
        self.leave_unchanged(entered);
        None
    }

    /// Gives the right back; nothing was written.
    #[inline(always)]
    pub fn leave_unchanged(&self, entered: Entered) {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        self.limit.store(entered.limit, Ordering::Relaxed);
    }

    /// Takes the right to write; whoever comes in between finds no room.
    #[inline(always)]
    pub fn enter(&self) -> Entered {
        let limit = self.limit.load(Ordering::Relaxed);
        self.limit.store(0, Ordering::Relaxed);
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        Entered { limit, head: self.head.get() }
    }

    /// Makes what was written since [`Self::enter`] visible and gives the right back.
    #[inline(always)]
    pub fn leave(&self, shared: &impl Shared, entered: Entered) {
        shared.publish_head(entered.head);
        self.head.set(entered.head);
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        self.limit.store(entered.limit, Ordering::Relaxed);
    }

    /// Gives the right back, and goes to the slow way at every entry until there is room again.
    pub fn leave_full(&self, entered: Entered) {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        // Not 0, which is "busy": the first capacity's limit is the smallest there is.
        self.limit.store(entered.head.max(1), Ordering::Relaxed);
    }
}

impl Entered {
    /// Asks the reader how far it is.
    pub fn refresh(&mut self, shared: &impl Shared) {
        self.limit = limit(shared, self.head);
    }

    /// Has the slow way taken again after at most so many bytes.
    pub fn restrict(&mut self, bytes: u64) {
        self.limit = self.limit.min(self.head + bytes);
    }

    /// Bytes there is room for.
    pub fn room(&self) -> u64 {
        self.limit.saturating_sub(self.head)
    }

    /// Writes one item: a first word and those that follow it.
    ///
    /// # Safety
    /// There is room for it, and it is no longer than the slack.
    #[inline(always)]
    pub unsafe fn write(&mut self, shared: &impl Shared, first: u64, words: &[u64]) {
        // An item that begins before the end of the data ends in the slack: only its beginning
        // wraps.
        let offset = self.head & (shared.capacity() - 1);
        // SAFETY: below capacity plus slack, and there is room, so the reader has left it.
        unsafe { shared.write(offset, first) };
        for (index, word) in words.iter().enumerate() {
            // SAFETY: as above.
            unsafe { shared.write(offset + 8 + index as u64 * 8, *word) };
        }
        self.head += 8 + words.len() as u64 * 8;
    }
}

/// A reader that is ahead of the writer is wrong, but must not make room that is not there.
fn limit(shared: &impl Shared, head: u64) -> u64 {
    shared.tail().min(head) + shared.capacity()
}
