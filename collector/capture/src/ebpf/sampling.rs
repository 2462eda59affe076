//! The events that drive CPU samples.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use syscollect_model::SampleEvent;
use syscollect_untrusted_files::FixedPath;

use crate::perf::event::PerfEvent;

/// The most samples a second and CPU that the kernel allows now; it lowers this
/// itself where samples take too long.
const HIGHEST_RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// The rate to sample at, and what to say if it is not the one asked for.
pub(super) fn allowed_rate(asked_hz: u32) -> (u32, Option<String>) {
    let highest = FixedPath::new(HIGHEST_RATE)
        .read_to_string()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    limited_rate(asked_hz, highest)
}

fn limited_rate(asked_hz: u32, highest: Option<u32>) -> (u32, Option<String>) {
    match highest {
        Some(highest) if asked_hz > highest => (
            highest,
            Some(format!(
                "sampled {highest} times a second, not {asked_hz}: the kernel allows no more now; \
                 sysctl kernel.perf_cpu_time_max_percent=0 and \
                 kernel.perf_event_max_sample_rate={asked_hz} raise it"
            )),
        ),
        _ => (asked_hz, None),
    }
}

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

    /// What drives the samples.
    pub(super) fn event(&self) -> SampleEvent {
        if self.cycles { SampleEvent::Cycles } else { SampleEvent::CpuClock }
    }

    /// Starts sampling on a CPU, anew if it was away.
    pub(super) fn add_cpu(&mut self, cpu: u32) -> io::Result<()> {
        let event = if self.cycles {
            PerfEvent::cycles(self.hz, cpu)
        } else {
            PerfEvent::cpu_clock(self.hz, cpu)
        }?;
        event.run_program(self.program.as_fd())?;
        self.events.insert(cpu, event);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_beyond_the_kernels_is_told() {
        assert_eq!(limited_rate(999, Some(7000)), (999, None));
        assert_eq!(limited_rate(999, None), (999, None));
        let (hz, why) = limited_rate(10_000, Some(7000));
        assert_eq!(hz, 7000);
        assert!(why.unwrap().starts_with("sampled 7000 times a second, not 10000"));
    }
}
