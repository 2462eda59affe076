//! An allocator that tells what is allocated and freed.
//!
//! ```
//! use syscollect_usdt_client::alloc::ProfiledAllocator;
//!
//! #[global_allocator]
//! static ALLOCATOR: ProfiledAllocator = ProfiledAllocator::system();
//! # drop(vec![1]);
//! ```
//!
//! Stamps of these events never repeat: all threads together have one order, so
//! that a free and the allocation that gets the same address next are never
//! confused. A block is stamped as allocated after the inner allocator gave it,
//! and as freed before it gets it back.
//!
//! An event that comes in the middle of another one of its thread (a signal
//! handler that allocates) is counted as lost. Recording itself allocates nothing.

use crate::arena::Arena;
use crate::clock;
use crate::emit::{self, StaticString};
use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;
use syscollect_zone_protocol::Event;

/// An allocator that reports what `A` does.
pub struct ProfiledAllocator<A = System> {
    inner: A,
    /// The empty name is the heap.
    pool: StaticString,
}

impl ProfiledAllocator<System> {
    /// Reports the system's allocator.
    pub const fn system() -> Self {
        Self::new(System)
    }
}

impl<A> ProfiledAllocator<A> {
    /// Reports that allocator, as the heap.
    pub const fn new(inner: A) -> Self {
        Self::pool(inner, "")
    }

    /// Reports that allocator, as a pool of that name.
    pub const fn pool(inner: A, name: &'static str) -> Self {
        Self { inner, pool: StaticString::new(name) }
    }

    #[inline(always)]
    fn allocated(&self, address: *mut u8, bytes: usize) {
        if crate::enabled() && !address.is_null() {
            self.report_allocated(address, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_allocated(&self, address: *mut u8, bytes: usize) {
        record_allocated(address as u64, bytes as u64, |arena| self.pool.number(arena));
    }

    #[inline(always)]
    fn freed(&self, address: *mut u8) {
        if crate::enabled() {
            self.report_freed(address);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_freed(&self, address: *mut u8) {
        record_freed(address as u64, |arena| self.pool.number(arena));
    }
}

/// Reports a block that the heap has given, where the heap is no [`GlobalAlloc`].
#[inline(always)]
pub fn allocated(address: *const u8, bytes: usize) {
    if crate::enabled() && !address.is_null() {
        record_allocated(address as u64, bytes as u64, |_| 0);
    }
}

/// Reports a block that the heap is about to get back.
#[inline(always)]
pub fn freed(address: *const u8) {
    if crate::enabled() && !address.is_null() {
        record_freed(address as u64, |_| 0);
    }
}

/// Records a block that a pool has given, which has a number in the log.
#[cold]
#[inline(never)]
pub(crate) fn record_allocated(address: u64, bytes: u64, pool: impl FnOnce(&Arena) -> u32) {
    if let Ok(mut group) = emit::group(32) {
        let pool = pool(group.arena());
        group.event_at(clock::ordered_ticks(), Event::Alloc { address, bytes, pool });
    }
}

/// Records a block that a pool is about to get back.
#[cold]
#[inline(never)]
pub(crate) fn record_freed(address: u64, pool: impl FnOnce(&Arena) -> u32) {
    if let Ok(mut group) = emit::group(24) {
        let pool = pool(group.arena());
        group.event_at(clock::ordered_ticks(), Event::Free { address, pool });
    }
}

// SAFETY: everything is done by the inner allocator; reporting neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for ProfiledAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        let address = unsafe { self.inner.alloc(layout) };
        self.allocated(address, layout.size());
        address
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        let address = unsafe { self.inner.alloc_zeroed(layout) };
        self.allocated(address, layout.size());
        address
    }

    #[inline]
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        self.freed(address);
        // SAFETY: as the caller says.
        unsafe { self.inner.dealloc(address, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // Before the block can be another thread's; taken back where the allocator refuses.
        self.freed(address);
        // SAFETY: as the caller says.
        let moved = unsafe { self.inner.realloc(address, layout, bytes) };
        if moved.is_null() {
            self.allocated(address, layout.size());
        } else {
            self.allocated(moved, bytes);
        }
        moved
    }
}
