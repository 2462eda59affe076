//! Loading the program once for each tracepoint, and attaching it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::failures::Failures;
use super::kept::RecordPrefix;
use super::lanes::{LaneRecords, Lanes};
use super::offer::Offer;
use crate::bpf_calls::{self, ProgramKind};
use crate::bpf_object::{KernelObject, MapSizes, SharedMaps};
use crate::committed_object;
use crate::error::CaptureError;
use crate::interrupts::{CountConstants, PreemptCount};
use crate::ring_buffers::Counters;

const NAME: &str = "tracepoints.bpf.o";
const PROGRAM: &str = "on_tracepoint";
/// The map of what each CPU lost.
const CPUS: &str = "tracepoint_cpus";
/// What the programs are to the kernel.
pub(super) const KIND: ProgramKind = ProgramKind::of(bpf_calls::PROG_TYPE_TRACEPOINT);

/// What the programs are loaded with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Stamps are TSC.
    pub(super) tsc: bool,
    /// CPUs that may come up.
    pub(super) possible_cpus: u32,
    /// Bytes of each CPU's lane, a power of two.
    pub(super) lane_bytes: u64,
}

/// The programs, which run as long as the events are open that [`Self::attach`] made.
pub(super) struct Attached {
    settings: Settings,
    way: PreemptCount,
    lanes: Lanes,
    /// Those that all programs use.
    maps: SharedMaps,
    failures: Failures,
    programs: Vec<OwnedFd>,
}

impl Attached {
    /// Makes the maps that all programs share.
    pub(super) fn new(wanted: Settings, shared: &SharedMaps) -> Result<Self, CaptureError> {
        let lanes = Lanes::new(wanted.possible_cpus, wanted.lane_bytes)?;
        let settings = Settings { lane_bytes: lanes.data_bytes(), ..wanted };
        let mut maps = SharedMaps::new();
        for (name, map) in shared {
            maps.insert(name.clone(), held(map.as_fd())?);
        }
        maps.insert("tracepoint_lanes".to_owned(), held(lanes.map())?);
        let way = PreemptCount::of_this_kernel();
        let cpus = held(object(settings, way, 0, RecordPrefix::default(), &maps)?.map(CPUS)?)?;
        maps.insert(CPUS.to_owned(), cpus);
        let failures = Failures::default();
        Ok(Self { settings, way, lanes, maps, failures, programs: Vec::new() })
    }

    /// Whether records tell interrupts from tasks.
    pub(super) fn knows_interrupts(&self) -> bool {
        self.way != PreemptCount::Unknown
    }

    /// Attaches what tells which of the work failed; has to come before the tracepoints that tell
    /// of its end.
    pub(super) fn attach_failures(&mut self, offers: &[Offer], missing: &mut Vec<String>) {
        self.failures = Failures::attach(offers, self.settings, &self.maps, missing);
    }

    /// Attaches to a tracepoint until the event is closed; its records carry this number.
    pub(super) fn attach(&mut self, number: u32, offer: &Offer) -> Result<OwnedFd, CaptureError> {
        let object =
            object(self.settings, self.way, number, RecordPrefix::of(&offer.format), &self.maps)?;
        let program = object.load(PROGRAM, KIND)?;
        let event = attach(offer, program.as_fd())?;
        self.programs.push(program);
        Ok(event)
    }

    /// Gives a CPU its lane; what happens there is recorded from now on.
    pub(super) fn add_cpu(&self, cpu: u32) -> Result<LaneRecords, CaptureError> {
        self.lanes.add_cpu(cpu)
    }

    /// What the programs lose.
    pub(super) fn counters(&self) -> Result<Counters, CaptureError> {
        Counters::map(
            self.maps.get(CPUS).ok_or_else(no_map_of_cpus)?.as_fd(),
            self.settings.possible_cpus,
        )
        .map_err(|error| CaptureError::system("cannot map the counters of tracepoints", error))
    }

    /// Detaches what tells of failures.
    pub(super) fn detach_failures(&mut self) {
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

fn no_map_of_cpus() -> CaptureError {
    CaptureError::Program { program: NAME.to_owned(), reason: format!("there is no map {CPUS}") }
}

/// Runs a program at a tracepoint until the event is closed.
pub(super) fn attach(offer: &Offer, program: BorrowedFd<'_>) -> Result<OwnedFd, CaptureError> {
    let event = bpf_calls::open_tracepoint(offer.format.id)
        .and_then(|event| bpf_calls::run_at(event.as_fd(), program).map(|()| event));
    event.map_err(|error| {
        CaptureError::system(
            format!("cannot attach to the tracepoint {}/{}", offer.system, offer.name),
            error,
        )
    })
}

fn held(map: BorrowedFd<'_>) -> Result<OwnedFd, CaptureError> {
    map.try_clone_to_owned().map_err(|error| CaptureError::system("cannot hold on to a map", error))
}

fn object(
    settings: Settings,
    way: PreemptCount,
    number: u32,
    kept: RecordPrefix,
    maps: &SharedMaps,
) -> Result<KernelObject, CaptureError> {
    let (tsc, number) = ([u8::from(settings.tsc)], number.to_ne_bytes());
    let CountConstants { way: way_number, offset, table } = way.constants();
    let way_number = way_number.to_ne_bytes();
    let words = [settings.lane_bytes, kept.most_bytes, kept.text_at, kept.text_base, offset, table]
        .map(u64::to_ne_bytes);
    let names =
        ["TRACEPOINT_LANE_BYTES", "BYTES", "TEXT_AT", "TEXT_BASE", "COUNT_OFFSET", "CPU_OFFSETS"];
    let mut constants: Vec<(&str, &[u8])> =
        vec![("USE_TSC", &tsc), ("TRACEPOINT", &number), ("COUNT_WAY", &way_number)];
    constants.extend(names.into_iter().zip(words.iter().map(|word| &word[..])));
    let sizes = MapSizes { entries: &[(CPUS, settings.possible_cpus)], ring_bytes: 0 };
    KernelObject::new(
        NAME,
        &way.written_into(&committed_object::TRACEPOINTS.bytes()),
        &constants,
        maps,
        &sizes,
    )
}
