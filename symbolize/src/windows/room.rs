//! Memory that threads share.

use std::sync::{Condvar, Mutex, PoisonError};

/// Room for a number of bytes, of which threads take parts.
#[derive(Debug)]
pub(crate) struct ByteQuota {
    capacity: u64,
    free: Mutex<u64>,
    given_back: Condvar,
}

impl ByteQuota {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, free: Mutex::new(capacity), given_back: Condvar::new() }
    }

    /// Waits until there is room for so many bytes; whoever wants more than there ever is gets all
    /// of it.
    pub(crate) fn take(&self, bytes: u64) -> QuotaShare<'_> {
        let bytes = bytes.min(self.capacity);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .given_back
            .wait_while(free, |free| *free < bytes)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= bytes;
        QuotaShare { room: self, bytes }
    }
}

/// A part of a [`ByteQuota`], given back when it is dropped.
#[derive(Debug)]
pub(crate) struct QuotaShare<'a> {
    room: &'a ByteQuota,
    bytes: u64,
}

impl Drop for QuotaShare<'_> {
    fn drop(&mut self) {
        *self.room.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.room.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    #[test]
    fn threads_never_have_more_than_there_is() {
        let (room, taken, most) = (ByteQuota::new(10), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for thread in 0..8 {
                let (room, taken, most) = (&room, &taken, &most);
                scope.spawn(move || {
                    for round in 0..50 {
                        // Some want more than there ever is.
                        let bytes = (thread * 7 + round * 3) % 14;
                        let _part = room.take(bytes);
                        let now = taken.fetch_add(bytes.min(10), Ordering::SeqCst) + bytes.min(10);
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        taken.fetch_sub(bytes.min(10), Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 10);
        assert_eq!(room.free.into_inner().unwrap(), 10);
    }
}
