//! What each CPU runs.

use syscollect_model::{Tables, ThreadId};

/// CPU numbers beyond this one (no machine has so many) count as this one, so
/// that a damaged number does not take memory.
const MAX_CPU: u32 = u16::MAX as u32;

/// One CPU, nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    /// What runs, where it is known.
    pub(super) current: Option<ThreadId>,
    /// Since when `current` runs.
    pub(super) since: u64,
    /// Nothing was known until then; what is seen next has run since.
    pub(super) resumed: Option<u64>,
    /// Its last scheduling event: up to there it is known what ran.
    pub(super) last_event: u64,
    pub(super) busy: u64,
    pub(super) idle: u64,
    pub(super) switches: u64,
}

impl Cpu {
    /// Books the time of what runs, until `now`.
    #[inline]
    pub(super) fn settle(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.since);
        match self.current {
            Some(Tables::IDLE_THREAD) => self.idle += elapsed,
            Some(_) => self.busy += elapsed,
            None => {}
        }
        self.since = self.since.max(now);
    }
}

/// All CPUs, by number.
#[derive(Debug, Default)]
pub(super) struct Cpus(Vec<Cpu>);

impl Cpus {
    #[inline]
    pub(super) fn get(&mut self, cpu: u32) -> &mut Cpu {
        let index = cpu.min(MAX_CPU) as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Cpu::default);
        }
        &mut self.0[index]
    }

    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Cpu)> {
        (0..).zip(&self.0)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Cpu)> {
        (0..).zip(&mut self.0)
    }
}
