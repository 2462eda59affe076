//! What kernel programs count on each CPU: memory that they write and the
//! collector maps.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ring::{Mapping, PAGE};

/// Bytes of a CPU's counters, as `struct probe_cpu` and `struct tracepoint_cpu` of bpf/ have them.
const CPU_BYTES: usize = 64;
const STOPPED: usize = 6;
const STACKS_FULL: usize = 7;

/// What the programs count on each CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Hits whose records were written.
    pub(crate) written: u64,
    /// Hits that found the ring buffer full.
    pub(crate) full: u64,
    /// Hits that found all working memory taken by hits that were preempted.
    pub(crate) nested: u64,
    /// Hits on a CPU that came up and has no clock or no ring buffer yet.
    pub(crate) unclocked: u64,
    /// Rings of instrumented programs that were announced.
    pub(crate) announced: u64,
    /// Announcements that found no room.
    pub(crate) announcements_lost: u64,
    /// Stacks that found the ring buffer full: hits have none.
    pub(crate) stacks_full: u64,
}

/// The counters of all CPUs, mapped.
pub(crate) struct Counters {
    memory: Mapping,
    cpus: u32,
}

impl Counters {
    /// Maps the counters of `cpus` CPUs.
    pub(crate) fn map(map: BorrowedFd<'_>, cpus: u32) -> io::Result<Self> {
        let length = (cpus as usize * CPU_BYTES).next_multiple_of(PAGE);
        let memory = Mapping::new(map, 0, length, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Self { memory, cpus })
    }

    fn word(&self, cpu: u32, index: usize) -> &AtomicU64 {
        assert!(cpu < self.cpus && index < CPU_BYTES / 8);
        // SAFETY: within the mapping by the assertion, aligned, accessed as an atomic.
        unsafe {
            AtomicU64::from_ptr(
                self.memory.base.as_ptr().add(cpu as usize * CPU_BYTES + index * 8).cast(),
            )
        }
    }

    /// What one CPU has counted.
    pub(crate) fn of(&self, cpu: u32) -> Counts {
        let [written, full, nested, unclocked, announced, announcements_lost, stacks_full] =
            [0, 1, 2, 3, 4, 5, STACKS_FULL]
                .map(|index| self.word(cpu, index).load(Ordering::Relaxed));
        Counts { written, full, nested, unclocked, announced, announcements_lost, stacks_full }
    }

    /// Each CPU with what it counted.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, Counts)> {
        (0..self.cpus).map(|cpu| (cpu, self.of(cpu)))
    }

    /// From now on hits are neither recorded nor counted.
    pub(crate) fn stop(&self) {
        (0..self.cpus).for_each(|cpu| self.word(cpu, STOPPED).store(1, Ordering::Release));
    }
}
