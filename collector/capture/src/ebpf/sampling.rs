//! The events that drive CPU samples.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::perf::event::PerfEvent;

/// Sampling events of all CPUs, with the program that each overflow runs.
pub(super) struct Sampling {
    hz: u32,
    cycles: bool,
    program: OwnedFd,
    events: BTreeMap<u32, PerfEvent>,
}

impl Sampling {
    /// `hz` samples a second; by hardware cycles where a PMU counts them, else by a timer.
    pub(super) fn new(hz: u32, program: OwnedFd, any_cpu: u32) -> Self {
        let cycles = PerfEvent::cycles(hz, any_cpu).is_ok();
        Self { hz, cycles, program, events: BTreeMap::new() }
    }

    /// What drives the samples, as the session names it.
    pub(super) fn event_name(&self) -> &'static str {
        if self.cycles { "cycles" } else { "cpu-clock" }
    }

    /// Starts sampling on a CPU, anew if it was away.
    pub(super) fn add_cpu(&mut self, cpu: u32) -> io::Result<()> {
        let event = if self.cycles { PerfEvent::cycles(self.hz, cpu) } else { PerfEvent::cpu_clock(self.hz, cpu) }?;
        event.run_program(self.program.as_fd())?;
        self.events.insert(cpu, event);
        Ok(())
    }
}
