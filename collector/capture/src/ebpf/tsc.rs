//! Ticks in the kernel programs: a perf event per CPU that counts TSC, and
//! where each of them began to count.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use aya::maps::{Map, MapData};
use aya::programs::Iter;
use aya::{Btf, Ebpf};
use syscollect_model::{ClockSource, CpuClock};
use syscollect_untrusted_files::FixedPath;

use super::lanes::Lanes;
use crate::arch::{COUNTER_EVENT, COUNTER_PMU};
use crate::bpf_calls;
use crate::clock::ticks_now;
use crate::error::CaptureError;
use crate::perf::event::PerfEvent;

/// Bracketed reads per CPU; each narrows the range that the base lies in.
const READS: usize = 32;

/// The type number of the msr PMU, or why it cannot be used.
pub(super) fn msr_pmu() -> Result<u32, String> {
    let folder = Path::new("/").join(COUNTER_PMU);
    let event = FixedPath::below(&folder, "events/tsc").read_to_string();
    match event {
        Ok(event) if event.trim() == COUNTER_EVENT => {}
        Ok(event) => {
            return Err(format!(
                "the msr PMU names its tsc event {:?}, not {COUNTER_EVENT}",
                event.trim()
            ));
        }
        Err(error) => return Err(format!("there is no msr PMU with a tsc event ({error})")),
    }
    let number =
        FixedPath::below(&folder, "type").read_to_string().map_err(|error| error.to_string())?;
    number.trim().parse().map_err(|_| format!("the type of the msr PMU is {number:?}"))
}

/// The TSC events of all CPUs.
pub(super) struct TscEvents {
    pmu: u32,
    events: BTreeMap<u32, PerfEvent>,
}

impl TscEvents {
    pub(super) fn new(pmu: u32) -> Self {
        Self { pmu, events: BTreeMap::new() }
    }

    /// Starts the events of these CPUs, sets the lanes' bases, and only then
    /// lets the programs read them. CPUs that came back get a new event.
    pub(super) fn add_cpus(
        &mut self,
        cpus: &[u32],
        ebpf: &mut Ebpf,
        lanes: &Lanes,
    ) -> Result<Vec<CpuClock>, CaptureError> {
        for &cpu in cpus {
            let event = PerfEvent::tsc(self.pmu, cpu).map_err(|error| {
                CaptureError::system(format!("cannot count TSC on CPU {cpu}"), error)
            })?;
            self.events.insert(cpu, event);
        }
        let exact = bases_from_kernel(ebpf).unwrap_or_default();
        let mut clocks = Vec::new();
        for &cpu in cpus {
            let event = &self.events[&cpu];
            let range = bracketed_base(event, cpu).map_err(|error| {
                CaptureError::system(format!("cannot read the TSC event of CPU {cpu}"), error)
            })?;
            let (base, clock) = choose_base(cpu, exact.get(&event.number()).copied(), range);
            lanes.set_clock_base(cpu, base);
            let map = events_map(ebpf)?;
            bpf_calls::update_map(map.fd().as_fd(), cpu, &(event.number() as u32).to_ne_bytes())
                .map_err(|error| {
                    CaptureError::system(
                        format!("cannot hand out the TSC event of CPU {cpu}"),
                        error,
                    )
                })?;
            clocks.push(clock);
        }
        Ok(clocks)
    }
}

fn events_map(ebpf: &Ebpf) -> Result<&MapData, CaptureError> {
    match ebpf.map("tsc_events") {
        Some(Map::PerfEventArray(map)) => Ok(map),
        _ => Err(CaptureError::Program {
            program: "syscollect.bpf.o".into(),
            reason: "no map tsc_events".into(),
        }),
    }
}

/// Loads the iterator that [`bases_from_kernel`] runs.
pub(super) fn load_iterator(ebpf: &mut Ebpf, btf: &Btf) -> Result<(), String> {
    let program: &mut Iter = ebpf
        .program_mut("clock_base_of_files")
        .ok_or("no program clock_base_of_files")?
        .try_into()
        .map_err(|error: aya::programs::ProgramError| error.to_string())?;
    program.load("task_file", btf).map_err(|error| error.to_string())
}

/// By descriptor: where the event counted zero, as the kernel's own state has it.
fn bases_from_kernel(ebpf: &mut Ebpf) -> Option<BTreeMap<i32, u64>> {
    let program: &mut Iter = ebpf.program_mut("clock_base_of_files")?.try_into().ok()?;
    let link = program.attach().ok()?;
    let mut bytes = Vec::new();
    program.take_link(link).ok()?.into_file().ok()?.read_to_end(&mut bytes).ok()?;
    Some(bytes.chunks_exact(16).map(|pair| (word(&pair[..8]) as i32, word(&pair[8..]))).collect())
}

fn word(at: &[u8]) -> u64 {
    at.try_into().map_or(0, u64::from_ne_bytes)
}

/// The range that the base lies in, by reading the event between two looks at
/// the TSC, on the CPU itself.
fn bracketed_base(event: &PerfEvent, cpu: u32) -> io::Result<(u64, u64)> {
    let _there = crate::affinity::run_on(cpu);
    let (mut low, mut high) = (0, u64::MAX);
    for _ in 0..READS {
        let before = ticks_now(ClockSource::Tsc).0;
        let count = event.count()?;
        let after = ticks_now(ClockSource::Tsc).0;
        low = low.max(before.wrapping_sub(count));
        high = high.min(after.wrapping_sub(count));
    }
    Ok((low, high))
}

/// The kernel's own value if the brackets confirm it, else their middle.
fn choose_base(cpu: u32, exact: Option<u64>, (low, high): (u64, u64)) -> (u64, CpuClock) {
    let half_width = high.saturating_sub(low) / 2;
    let (base, method) = match exact {
        Some(base) if (low..=high).contains(&base) => {
            (base, "start of the msr/tsc event, confirmed by bracketed reads")
        }
        _ => (low + half_width, "bracketed reads of the msr/tsc event"),
    };
    // In ticks here; the caller knows their rate.
    (base, CpuClock { cpu, error_bound_ns: half_width as f64, method: method.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_value_counts_only_if_the_brackets_agree() {
        assert_eq!(choose_base(0, Some(105), (100, 110)).0, 105);
        let (base, clock) = choose_base(0, Some(200), (100, 110));
        assert_eq!((base, clock.error_bound_ns), (105, 5.0));
        assert_eq!(choose_base(0, None, (100, 110)).0, 105);
    }
}
