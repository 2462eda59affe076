//! How much memory copies of files and inflated debug information may take, all together.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one waits for memory that others use.
pub(crate) const MEMORY_PATIENCE: Duration = Duration::from_secs(10);

/// Memory that all who name share: who has a clone takes of the same.
#[derive(Clone, Debug)]
pub struct NamingMemory(Arc<MemoryBudget>);

#[derive(Debug)]
struct MemoryBudget {
    all: u64,
    free: Mutex<u64>,
    more: Condvar,
}

/// Some of it, until this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: NamingMemory,
    bytes: u64,
}

impl NamingMemory {
    /// `bytes` in all: of copies and inflated parts of files. What is made of them while they are
    /// read may take two or three times as much, which counts too.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(MemoryBudget { all: bytes, free: Mutex::new(bytes), more: Condvar::new() }))
    }

    /// What there is in all, bytes.
    pub fn all(&self) -> u64 {
        self.0.all
    }

    /// Waits at most `patience` until so much is free; `None` if it never is.
    pub(crate) fn take(&self, bytes: u64, patience: Duration) -> Option<Share> {
        if bytes > self.0.all {
            return None;
        }
        let end = Instant::now() + patience;
        // A number is whole even if a thread panicked.
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free < bytes {
            let left = end.checked_duration_since(Instant::now())?;
            free = self.0.more.wait_timeout(free, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= bytes;
        Some(Share { memory: self.clone(), bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let shared = &self.memory.0;
        *shared.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        shared.more.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_not_there_for_others_until_it_is_given_back() {
        let memory = NamingMemory::new(100);
        let share = memory.take(60, Duration::ZERO).unwrap();
        assert!(
            memory.take(41, Duration::from_millis(1)).is_none()
                && memory.take(101, Duration::MAX / 4).is_none()
        );
        let waiting = memory.clone();
        let other =
            std::thread::spawn(move || waiting.take(100, Duration::from_secs(60)).is_some());
        drop(share);
        assert!(other.join().unwrap(), "who waits gets what is given back");
        assert!(memory.take(100, Duration::ZERO).is_some());
    }
}
