//! How much memory copies of files and inflated debug information may take, all together.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Memory that all who name share.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: u64,
    free: Mutex<u64>,
    more: Condvar,
}

/// A quarter of the memory that is available to this process, and no more than `most` bytes.
pub(crate) fn quarter_of_available(most: u64) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let machine = machine.and_then(|number| number.parse::<u64>().ok()).map_or(u64::MAX, |kilobytes| kilobytes << 10);
    (machine.min(left_to_group().unwrap_or(u64::MAX)) / 4).min(most)
}

/// What this process's control group may still take: the least that it or a group around it leaves.
fn left_to_group() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let left = |group: &Path| {
        let number = |name: &str| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
        Some(number("memory.max")?.saturating_sub(number("memory.current")?))
    };
    let root = Path::new("/sys/fs/cgroup");
    root.join(path).ancestors().take_while(|group| group.starts_with(root)).filter_map(left).min()
}

/// Some of it, until this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Memory,
    bytes: u64,
}

impl Memory {
    /// `bytes` in all.
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Arc::new(Shared { all: bytes, free: Mutex::new(bytes), more: Condvar::new() }))
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
    fn a_part_of_the_memory_that_is_there_is_taken_and_no_more_than_wanted() {
        assert_eq!(quarter_of_available(1000), 1000);
        assert!(quarter_of_available(u64::MAX) < u64::MAX / 4 || !Path::new("/proc/meminfo").exists());
    }

    #[test]
    fn what_is_taken_is_not_there_for_others_until_it_is_given_back() {
        let memory = Memory::new(100);
        let share = memory.take(60, Duration::ZERO).unwrap();
        assert!(memory.take(41, Duration::from_millis(1)).is_none() && memory.take(101, Duration::MAX / 4).is_none());
        let waiting = memory.clone();
        let other = std::thread::spawn(move || waiting.take(100, Duration::from_secs(60)).is_some());
        drop(share);
        assert!(other.join().unwrap(), "who waits gets what is given back");
        assert!(memory.take(100, Duration::ZERO).is_some());
    }
}
