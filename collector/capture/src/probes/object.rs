//! Loading the object of the probes' programs.
//!
//! aya reads the object and fits its calls and maps together; making the maps
//! and loading the programs is done here, because aya has no way to say that a
//! program is for links to many places, nor to share maps between objects.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aya_obj::{Map, Object};
use syscollect_records::RecordKind;

use super::rings::{Counters, Ring};
use super::sys::{self, MapCreate};
use crate::error::CaptureError;

/// The committed object, built by `cargo xtask bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../../bpf/probes.bpf.o");
const NAME: &str = "probes.bpf.o";

/// Flags of a map that programs only read.
const RDONLY_PROG: u32 = 1 << 7;
/// Bytes of the ring buffer of announcements, as bpf/include/probe.h has it.
const ANNOUNCEMENT_BYTES: usize = 256 << 10;

/// Maps of the other object, by name: both use the same clock and the same set
/// of recorded processes.
pub(crate) type SharedMaps = HashMap<String, OwnedFd>;

/// What the programs are loaded with.
pub(super) struct Settings {
    /// Stamps are TSC.
    pub(super) tsc: bool,
    /// Only hits of the recorded processes.
    pub(super) filter: bool,
    /// CPUs that may come up.
    pub(super) possible_cpus: u32,
    /// Argument programs that can be stored.
    pub(super) programs: u32,
    /// Bytes of each CPU's ring buffer, a power of two.
    pub(super) ring_bytes: usize,
    /// Programs are for links to many places, else for perf events.
    pub(super) multi: bool,
}

/// The loaded object. The kernel keeps what its programs use as long as they
/// are attached.
pub(super) struct Loaded {
    /// Runs at each hit of a probe.
    pub(super) on_probe: OwnedFd,
    /// Runs when a marked program announces a ring.
    pub(super) on_ring: OwnedFd,
    maps: HashMap<String, OwnedFd>,
    ring_bytes: usize,
    possible_cpus: u32,
}

impl Loaded {
    /// Makes the maps and loads the programs.
    pub(super) fn load(settings: &Settings, shared: &SharedMaps) -> Result<Self, CaptureError> {
        let mut object = Object::parse(OBJECT).map_err(|error| broken(&error))?;
        let (tsc, filter) = ([u8::from(settings.tsc)], [u8::from(settings.filter)]);
        let globals = HashMap::from([("USE_TSC", (&tsc[..], true)), ("FILTER", (&filter[..], true))]);
        object.patch_map_data(globals).map_err(|error| broken(&error))?;
        let mut maps = HashMap::new();
        for (name, map) in &object.maps {
            let made = match shared.get(name) {
                Some(map) => map.try_clone(),
                None => create(name, map, settings),
            };
            let made = made.map_err(|error| CaptureError::system(format!("cannot make the map {name}"), error))?;
            maps.insert(name.clone(), made);
        }
        let [on_probe, on_ring] = programs(object, &maps, settings.multi)?;
        let (ring_bytes, possible_cpus) = (settings.ring_bytes, settings.possible_cpus);
        Ok(Self { on_probe, on_ring, maps, ring_bytes, possible_cpus })
    }

    fn map(&self, name: &str) -> Result<BorrowedFd<'_>, CaptureError> {
        let absent = || CaptureError::Program { program: NAME.to_owned(), reason: format!("there is no map {name}") };
        self.maps.get(name).map(AsFd::as_fd).ok_or_else(absent)
    }

    /// Gives a CPU its ring buffer; its hits are recorded from now on.
    pub(super) fn add_cpu(&self, cpu: u32) -> Result<Ring, CaptureError> {
        let failed = |error| CaptureError::system(format!("cannot make a ring buffer of CPU {cpu}"), error);
        let buffer = create_ring(self.ring_bytes).map_err(failed)?;
        let ring = Ring::map(buffer.as_fd(), self.ring_bytes).map_err(failed)?;
        sys::update_map(self.map("probe_rings")?, cpu, &buffer.as_raw_fd().to_ne_bytes()).map_err(failed)?;
        Ok(ring)
    }

    /// What the programs count.
    pub(super) fn counters(&self) -> Result<Counters, CaptureError> {
        Counters::map(self.map("probe_cpus")?, self.possible_cpus)
            .map_err(|error| CaptureError::system("cannot map the counters of the probes", error))
    }

    /// The ring buffer of announcements, and the descriptor to wait on.
    pub(super) fn announcements(&self) -> Result<(Ring, OwnedFd), CaptureError> {
        let failed = |error| CaptureError::system("cannot map the ring buffer of announcements", error);
        let map = self.map("announcements")?;
        let ring = Ring::map(map, ANNOUNCEMENT_BYTES).map_err(failed)?;
        Ok((ring, map.try_clone_to_owned().map_err(failed)?))
    }

    /// Hits that the kernel left out because a program was running: kernels
    /// before 6.0 do so for events of the uprobe PMU.
    pub(super) fn skipped(&self) -> [(RecordKind, u64); 2] {
        [(RecordKind::Probe, &self.on_probe), (RecordKind::Ring, &self.on_ring)]
            .map(|(record, program)| (record, sys::recursion_misses(program.as_fd())))
    }

    /// A descriptor of the map that holds what to read at which probe.
    pub(super) fn argument_programs(&self) -> Result<OwnedFd, CaptureError> {
        let failed = |error| CaptureError::system("cannot hold on to a map", error);
        self.map("probe_programs")?.try_clone_to_owned().map_err(failed)
    }
}

fn create_ring(bytes: usize) -> io::Result<OwnedFd> {
    sys::create_map(MapCreate { map_type: sys::MAP_TYPE_RINGBUF, max_entries: bytes as u32, ..Default::default() })
}

/// Makes one of the object's own maps.
fn create(name: &str, map: &Map, settings: &Settings) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        map_type: map.map_type(),
        key_size: map.key_size(),
        value_size: map.value_size(),
        max_entries: map.max_entries(),
        map_flags: map.map_flags(),
        inner_map_fd: 0,
    };
    match name {
        "probe_cpus" | "probe_rings" => attr.max_entries = settings.possible_cpus,
        "probe_programs" => attr.max_entries = settings.programs,
        _ => {}
    }
    if attr.map_type == sys::MAP_TYPE_ARRAY_OF_MAPS {
        // Any ring buffer of the size shows the kernel what the elements are.
        let like = create_ring(settings.ring_bytes)?;
        attr.inner_map_fd = like.as_raw_fd() as u32;
        return sys::create_map(attr);
    }
    if map.data().is_empty() {
        return sys::create_map(attr);
    }
    let constants = MapCreate {
        map_type: sys::MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: map.data().len() as u32,
        max_entries: 1,
        map_flags: RDONLY_PROG,
        inner_map_fd: 0,
    };
    let made = sys::create_map(constants)?;
    sys::update_map(made.as_fd(), 0, map.data())?;
    sys::freeze_map(made.as_fd())?;
    Ok(made)
}

fn programs(mut object: Object, maps: &HashMap<String, OwnedFd>, multi: bool) -> Result<[OwnedFd; 2], CaptureError> {
    let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let definitions = object.maps.clone();
    let numbers = definitions.iter().filter_map(|(name, map)| Some((name.as_str(), maps.get(name)?.as_raw_fd(), map)));
    object.relocate_maps(numbers, &text).map_err(|error| broken(&error))?;
    object.relocate_calls(&text).map_err(|error| broken(&error))?;
    let attach_type = if multi { sys::TRACE_UPROBE_MULTI } else { 0 };
    Ok([load(&object, "on_probe", attach_type)?, load(&object, "on_ring", attach_type)?])
}

fn load(object: &Object, name: &str, attach_type: u32) -> Result<OwnedFd, CaptureError> {
    let function = object.programs.get(name).and_then(|program| object.functions.get(&program.function_key()));
    let Some(function) = function else {
        return Err(CaptureError::Program { program: name.to_owned(), reason: format!("{NAME} has no such program") });
    };
    let instructions = &function.instructions;
    // SAFETY: instructions are 8 bytes of plain numbers each, alive while borrowed.
    let bytes =
        unsafe { std::slice::from_raw_parts(instructions.as_ptr().cast::<u8>(), size_of_val(instructions.as_slice())) };
    sys::load_program(name, bytes, &object.license, attach_type).map_err(|(error, log)| refused(name, error, &log))
}

/// Permission told apart; else the end of the verifier's log.
fn refused(program: &str, error: io::Error, log: &str) -> CaptureError {
    if log.is_empty() {
        return CaptureError::system(format!("loading {program}"), error);
    }
    let lines: Vec<&str> = log.lines().collect();
    let end = lines[lines.len().saturating_sub(8)..].join("\n");
    CaptureError::Program { program: program.to_owned(), reason: format!("{error}: {end}") }
}

fn broken(error: &dyn std::error::Error) -> CaptureError {
    CaptureError::Program { program: NAME.to_owned(), reason: error.to_string() }
}
