//! The ring of a perf event: one page of positions, then the data.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;

use super::event::PerfEvent;

/// The mapped ring of one event. Dropping it unmaps; the event is kept open.
pub(crate) struct PerfRing {
    /// Kept open: closing it would end the records.
    _event: PerfEvent,
    base: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, the kernel aside, whose
// writes are ordered by data_head and data_tail.
unsafe impl Send for PerfRing {}

impl PerfRing {
    /// Maps `pages` pages of data (a power of two).
    pub(crate) fn map(event: PerfEvent, pages: usize) -> io::Result<Self> {
        // SAFETY: sysconf has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let data_bytes = pages * page_bytes;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a descriptor that is a perf event; the
        // kernel checks the size.
        let base = unsafe {
            let fd = event.as_fd().as_raw_fd();
            libc::mmap(
                std::ptr::null_mut(),
                page_bytes + data_bytes,
                access,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => {
                Ok(Self { _event: event, base, page_bytes, data_bytes })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is a perf_event_mmap_page, whose positions
        // are aligned 64-bit words that kernel and user share.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Appends all complete records to `out` and gives their room back.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>) {
        // The pairing of barriers is documented at perf_output_put_handle in
        // kernel/events/ring_buffer.c: Acquire after head, Release before tail.
        let head = self
            .position(std::mem::offset_of!(perf_event_mmap_page, data_head))
            .load(Ordering::Acquire);
        let tail = self.position(std::mem::offset_of!(perf_event_mmap_page, data_tail));
        let start = tail.load(Ordering::Relaxed);
        let length = (head.wrapping_sub(start) as usize).min(self.data_bytes);
        let offset = start as usize & (self.data_bytes - 1);
        let first = length.min(self.data_bytes - offset);
        for (offset, length) in [(offset, first), (0, length - first)] {
            // SAFETY: within the data by the arithmetic above; the kernel does
            // not write there before tail moves.
            let part = unsafe {
                std::slice::from_raw_parts(self.base.as_ptr().add(self.page_bytes + offset), length)
            };
            out.extend_from_slice(part);
        }
        tail.store(head, Ordering::Release);
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, and nothing borrows from it now.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page_bytes + self.data_bytes) };
    }
}
