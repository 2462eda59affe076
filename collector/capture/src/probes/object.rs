//! Loading the object of the probes' programs.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use syscollect_records::RecordKind;

use super::attach::Program;
use super::cookies::Cookies;
use super::descriptors::DescriptorLayout;
use super::unheard::Announcers;
use crate::attach_method::AttachMethod;
use crate::bpf_calls;
use crate::bpf_object::{KernelObject, MapSizes, SharedMaps};
use crate::error::CaptureError;
use crate::ring_buffers::{Counters, Ring};

/// The committed object, built by `cargo xtask bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../../bpf/probes.bpf.o");
const NAME: &str = "probes.bpf.o";

/// Bytes of the ring buffer of announcements, as bpf/include/probe.h has it.
const ANNOUNCEMENT_BYTES: usize = 256 << 10;

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
    /// How they will be attached.
    pub(super) way: AttachMethod,
}

/// The loaded object. The kernel keeps what its programs use as long as they
/// are attached.
pub(super) struct Loaded {
    /// Runs at each hit of a probe.
    pub(super) on_probe: OwnedFd,
    /// Runs when an instrumented program announces a ring.
    pub(super) on_ring: OwnedFd,
    object: KernelObject,
    ring_bytes: usize,
    possible_cpus: u32,
}

impl Loaded {
    /// Makes the maps and loads the programs.
    pub(super) fn load(settings: &Settings, shared: &SharedMaps) -> Result<Self, CaptureError> {
        let (tsc, filter) = ([u8::from(settings.tsc)], [u8::from(settings.filter)]);
        let cookies = [u8::from(!matches!(settings.way, AttachMethod::EventsWithoutCookies(_)))];
        // Without it, every announcement is looked at in /proc.
        let layout = DescriptorLayout::below(Path::new("/")).map(|layout| layout.constants());
        let layout = layout.unwrap_or_default();
        let layout = layout.iter().map(|(name, value)| (*name, &value[..]));
        let constants: Vec<(&str, &[u8])> = layout
            .chain([("USE_TSC", &tsc[..]), ("FILTER", &filter[..]), ("COOKIES", &cookies[..])])
            .collect();
        let (cpus, programs) = (settings.possible_cpus, settings.programs);
        let sizes = MapSizes {
            entries: &[("probe_cpus", cpus), ("probe_rings", cpus), ("probe_programs", programs)],
            ring_bytes: settings.ring_bytes,
        };
        let mut object = KernelObject::new(NAME, OBJECT, &constants, shared, &sizes)?;
        if matches!(settings.way, AttachMethod::EventsWithoutCookies(_)) {
            object.without_exchanges();
        }
        let attach_type =
            if settings.way == AttachMethod::Multi { bpf_calls::TRACE_UPROBE_MULTI } else { 0 };
        let kind = (bpf_calls::PROG_TYPE_KPROBE, attach_type);
        let (on_probe, on_ring) = (object.load("on_probe", kind)?, object.load("on_ring", kind)?);
        Ok(Self { on_probe, on_ring, object, ring_bytes: settings.ring_bytes, possible_cpus: cpus })
    }

    /// Gives a CPU its ring buffer; its hits are recorded from now on.
    pub(super) fn add_cpu(&self, cpu: u32) -> Result<Ring, CaptureError> {
        self.object.add_ring("probe_rings", cpu, self.ring_bytes)
    }

    /// What the programs count.
    pub(super) fn counters(&self) -> Result<Counters, CaptureError> {
        Counters::map(self.object.map("probe_cpus")?, self.possible_cpus)
            .map_err(|error| CaptureError::system("cannot map the counters of the probes", error))
    }

    /// What of each user's announcements was not passed on.
    pub(super) fn announcers(&self) -> Result<Announcers, CaptureError> {
        Announcers::map(self.object.map("announcers")?)
            .map_err(|error| CaptureError::system("cannot map who announces rings", error))
    }

    /// The ring buffer of announcements, and the descriptor to wait on.
    pub(super) fn announcements(&self) -> Result<(Ring, OwnedFd), CaptureError> {
        let failed =
            |error| CaptureError::system("cannot map the ring buffer of announcements", error);
        let map = self.object.map("announcements")?;
        let ring = Ring::map(map, ANNOUNCEMENT_BYTES).map_err(failed)?;
        Ok((ring, map.try_clone_to_owned().map_err(failed)?))
    }

    /// Hits that the kernel left out because a program was running: kernels
    /// before 6.0 do so for events of the uprobe PMU.
    pub(super) fn skipped(&self) -> [(RecordKind, u64); 2] {
        [(RecordKind::Probe, &self.on_probe), (RecordKind::Ring, &self.on_ring)]
            .map(|(record, program)| (record, bpf_calls::recursion_misses(program.as_fd())))
    }

    /// One of the two programs, as attaching in this way takes it.
    pub(super) fn program(
        &self,
        program: &OwnedFd,
        way: AttachMethod,
    ) -> Result<Program, CaptureError> {
        let failed = |error| CaptureError::system("cannot hold a program", error);
        let program = program.try_clone().map_err(failed)?;
        if !matches!(way, AttachMethod::EventsWithoutCookies(_)) {
            return Ok(Program { program, cookies: None });
        }
        let given = self.object.map("given_cookie")?.try_clone_to_owned().map_err(failed)?;
        let cookies = Cookies::new(program.as_fd(), given).map_err(|error| {
            CaptureError::system("cannot make the map of a program's cookies", error)
        })?;
        Ok(Program { program, cookies: Some(cookies) })
    }

    /// A descriptor of the map that holds what to read at which probe.
    pub(super) fn argument_programs(&self) -> Result<OwnedFd, CaptureError> {
        let failed = |error| CaptureError::system("cannot hold on to a map", error);
        self.object.map("probe_programs")?.try_clone_to_owned().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use aya_obj::generated::bpf_insn;

    use super::*;

    /// Kernels from 6.13 on round up to 16 bytes, and give a function with 64 bytes of stack one
    /// per CPU: `BPF_PRIV_STACK_MIN_SIZE` of include/linux/bpf_verifier.h.
    const MOST_STACK: i32 = 48;
    /// The frame pointer; the stack lies below it.
    const FRAME: u8 = 10;
    const LOAD: u8 = 1;
    const STORE_BY_REGISTER: u8 = 3;
    /// `dst += imm`, of a copy of the frame pointer; what is larger is no place in a stack of 512
    /// bytes.
    const ADD: u8 = 0x07;

    /// How far below its frame pointer an instruction reaches.
    fn reaches(instruction: &bpf_insn) -> i32 {
        let below = match instruction.code & 7 {
            LOAD if instruction.src_reg() == FRAME => -i32::from(instruction.off),
            2..=STORE_BY_REGISTER if instruction.dst_reg() == FRAME => -i32::from(instruction.off),
            _ if instruction.code == ADD => -instruction.imm,
            _ => 0,
        };
        if below <= 512 { below } else { 0 }
    }

    #[test]
    fn a_hit_that_is_preempted_shares_its_stack_with_no_other() {
        let object = aya_obj::Object::parse(OBJECT).unwrap();
        assert!(object.functions.len() >= 4, "the programs and what they call");
        for function in object.functions.values() {
            let bytes = function.instructions.iter().map(reaches).max().unwrap_or(0);
            assert!(
                bytes <= MOST_STACK,
                "{} needs {bytes} bytes of stack, see probe.h",
                function.name
            );
        }
    }
}
