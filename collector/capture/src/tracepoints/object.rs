//! Loading the program once for each tracepoint, and attaching it.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use super::failures::Failures;
use super::format::Format;
use super::interrupts::PreemptCount;
use super::offer::Offer;
use crate::bpf_calls;
use crate::bpf_object::{KernelObject, MapSizes, SharedMaps};
use crate::error::CaptureError;
use crate::ring_buffers::{Counters, Ring};

/// The committed object, built by `cargo xtask bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../../bpf/tracepoints.bpf.o");
const NAME: &str = "tracepoints.bpf.o";
const PROGRAM: &str = "on_tracepoint";
const KIND: (u32, u32) = (bpf_calls::PROG_TYPE_TRACEPOINT, 0);

/// Records are kept to this, as bpf/src/tracepoints.bpf.c has it.
const MOST_BYTES: usize = 256;
/// What is kept of the texts behind the fixed part: names of drivers and timelines.
const TEXT_BYTES: usize = 96;

/// What the programs are loaded with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Stamps are TSC.
    pub(super) tsc: bool,
    /// CPUs that may come up.
    pub(super) possible_cpus: u32,
    /// Bytes of each CPU's ring buffer, a power of two.
    pub(super) ring_bytes: usize,
}

/// The attached programs. Each of their events is closed with it.
pub(super) struct Attached {
    object: KernelObject,
    settings: Settings,
    way: PreemptCount,
    failures: Failures,
    events: Vec<OwnedFd>,
    programs: Vec<OwnedFd>,
}

impl Attached {
    /// Makes the maps that all programs share, and finds the way to count interrupts that this kernel takes.
    pub(super) fn new(settings: Settings, shared: &SharedMaps) -> Result<Self, CaptureError> {
        let mut refused = None;
        for way in PreemptCount::ways() {
            let object = object(settings, way, 0, 8, shared)?;
            match object.load(PROGRAM, KIND) {
                Ok(_) => {
                    let failures = Failures::default();
                    return Ok(Self { object, settings, way, failures, events: Vec::new(), programs: Vec::new() });
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| CaptureError::Program { program: PROGRAM.into(), reason: "not tried".into() }))
    }

    /// Whether records tell interrupts from tasks.
    pub(super) fn knows_interrupts(&self) -> bool {
        self.way != PreemptCount::Unknown
    }

    /// Attaches what tells which of the work failed; has to come before the tracepoints that tell of its end.
    pub(super) fn attach_failures(
        &mut self,
        offers: &[Offer],
        shared: &SharedMaps,
        missing: &mut Vec<String>,
    ) -> Result<(), CaptureError> {
        self.failures = Failures::attach(offers, self.settings.tsc, &self.maps(shared)?, missing);
        Ok(())
    }

    /// The maps of this object, and those of the main one.
    fn maps(&self, shared: &SharedMaps) -> Result<SharedMaps, CaptureError> {
        let mut maps = HashMap::new();
        let own = ["tracepoint_cpus", "tracepoint_rings"];
        for name in own {
            maps.insert(name.to_owned(), held(self.object.map(name)?.try_clone_to_owned())?);
        }
        for (name, map) in shared {
            maps.insert(name.clone(), held(map.try_clone())?);
        }
        Ok(maps)
    }

    /// Attaches to a tracepoint; its records carry this number.
    pub(super) fn attach(&mut self, number: u32, offer: &Offer, shared: &SharedMaps) -> Result<(), CaptureError> {
        let maps = self.maps(shared)?;
        let object = object(self.settings, self.way, number, kept_bytes(&offer.format), &maps)?;
        let program = object.load(PROGRAM, KIND)?;
        let event = bpf_calls::open_tracepoint(offer.format.id)
            .and_then(|event| bpf_calls::run_at(event.as_fd(), program.as_fd()).map(|()| event));
        let event = event.map_err(|error| {
            CaptureError::system(format!("cannot attach to the tracepoint {}/{}", offer.system, offer.name), error)
        })?;
        self.events.push(event);
        self.programs.push(program);
        Ok(())
    }

    /// Gives a CPU its ring buffer; what happens there is recorded from now on.
    pub(super) fn add_cpu(&self, cpu: u32) -> Result<Ring, CaptureError> {
        self.object.add_ring("tracepoint_rings", cpu, self.settings.ring_bytes)
    }

    /// What the programs count.
    pub(super) fn counters(&self) -> Result<Counters, CaptureError> {
        Counters::map(self.object.map("tracepoint_cpus")?, self.settings.possible_cpus)
            .map_err(|error| CaptureError::system("cannot map the counters of tracepoints", error))
    }

    /// Detaches everything.
    pub(super) fn detach(&mut self) {
        self.events.clear();
        self.failures.detach();
    }

    /// Ends of work that were not looked at for a failure, because a program was running.
    pub(super) fn failures_skipped(&self) -> u64 {
        self.failures.skipped()
    }

    /// Events that the kernel left out because a program was running.
    pub(super) fn skipped(&self) -> u64 {
        self.programs.iter().map(|program| bpf_calls::recursion_misses(program.as_fd())).sum()
    }
}

fn held(map: std::io::Result<OwnedFd>) -> Result<OwnedFd, CaptureError> {
    map.map_err(|error| CaptureError::system("cannot hold on to a map", error))
}

fn object(
    settings: Settings,
    way: PreemptCount,
    number: u32,
    bytes: u32,
    shared: &SharedMaps,
) -> Result<KernelObject, CaptureError> {
    let (tsc, number, bytes) = ([u8::from(settings.tsc)], number.to_ne_bytes(), bytes.to_ne_bytes());
    let (way_number, offset, table) = way.constants();
    let (way_number, offset, table) = (way_number.to_ne_bytes(), offset.to_ne_bytes(), table.to_ne_bytes());
    let constants = [
        ("USE_TSC", &tsc[..]),
        ("TRACEPOINT", &number[..]),
        ("BYTES", &bytes[..]),
        ("COUNT_WAY", &way_number[..]),
        ("COUNT_OFFSET", &offset[..]),
        ("CPU_OFFSETS", &table[..]),
    ];
    let cpus = settings.possible_cpus;
    let sizes =
        MapSizes { entries: &[("tracepoint_cpus", cpus), ("tracepoint_rings", cpus)], ring_bytes: settings.ring_bytes };
    let mut object = KernelObject::new(NAME, OBJECT, &constants, shared, &sizes)?;
    if let Some((mark, id)) = way.variable() {
        object.point_to_variable(mark, id);
    }
    Ok(object)
}

/// Bytes of a record that are kept.
fn kept_bytes(format: &Format) -> u32 {
    let texts = if format.has_texts() { TEXT_BYTES } else { 0 };
    (format.fixed_bytes() + texts).next_multiple_of(8).clamp(8, MOST_BYTES) as u32
}
