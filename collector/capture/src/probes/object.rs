//! Loading the object of the probes' programs.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use syscollect_records::RecordKind;

use super::attach::Program;
use super::cookies::Cookies;
use super::descriptors::DescriptorLayout;
use super::dropped_announcements::Announcers;
use super::hit_shares::{self, HitShares};
use crate::attach_method::AttachMethod;
use crate::bpf_calls::{self, ProgramKind};
use crate::bpf_object::{KernelObject, MapSizes, SharedMaps};
use crate::committed_object;
use crate::ebpf::forget_ids;
use crate::error::CaptureError;
use crate::kernel_types::kernel_types;
use crate::ring_buffers::{Counters, Ring};

const NAME: &str = "probes.bpf.o";
const NAME_WITH_STACKS: &str = "probe_stacks.bpf.o";
/// Its memory of the stacks that it sent and of what code objects are called: maps, and where an
/// element holds the id (see `ebpf/known_stacks.rs`).
const KNOWN_STACKS: [(&str, usize); 2] = [("probe_stacks", 8), ("probe_codes", 8)];

/// Bytes of the ring buffer of announcements, as bpf/include/probe.h has it.
const ANNOUNCEMENT_BYTES: usize = 256 << 10;

/// Hits of one CPU that may walk at once: `WALK_SLOTS` of bpf/src/probe_stacks.bpf.c.
const WALKS_AT_ONCE: u32 = 4;

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
    /// Who asked for the recording, if not root.
    pub(super) asked_by: Option<u32>,
    /// How they will be attached.
    pub(super) way: AttachMethod,
    /// How user stacks of hits are walked; `None` for hits without.
    pub(super) stacks: Option<WalkMethod>,
}

/// How the programs walk user stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkMethod {
    /// By unwind tables.
    Tables,
    /// By frame pointers.
    FramePointers,
}

/// The loaded object. The kernel keeps what its programs use as long as they
/// are attached.
pub(super) struct LoadedObject {
    /// Runs at each hit of a probe.
    pub(super) on_probe: OwnedFd,
    /// Runs when an instrumented program announces a ring.
    pub(super) on_ring: OwnedFd,
    object: KernelObject,
    ring_bytes: usize,
    possible_cpus: u32,
    walks: bool,
}

impl LoadedObject {
    /// Makes the maps and loads the programs.
    pub(super) fn load(settings: &Settings, shared: &SharedMaps) -> Result<Self, CaptureError> {
        let (tsc, filter) = ([u8::from(settings.tsc)], [u8::from(settings.filter)]);
        let cookies = [u8::from(!matches!(settings.way, AttachMethod::EventsWithoutCookies(_)))];
        // Without it, every announcement is looked at in /proc.
        let layout = DescriptorLayout::below(Path::new("/")).map(|layout| layout.constants());
        let layout = layout.unwrap_or_default();
        let layout = layout.iter().map(|(name, value)| (*name, &value[..]));
        let ring_bytes = (settings.ring_bytes as u32).to_ne_bytes();
        let asked_by = settings.asked_by.unwrap_or(0).to_ne_bytes();
        let mut constants: Vec<(&str, &[u8])> = layout
            .chain([("USE_TSC", &tsc[..]), ("FILTER", &filter[..]), ("COOKIES", &cookies[..])])
            .chain([("PROBE_RING_BYTES", &ring_bytes[..]), ("ASKED_BY", &asked_by[..])])
            .collect();
        let tables = [u8::from(settings.stacks == Some(WalkMethod::Tables))];
        // The standard library's own source of numbers that nobody can guess.
        let secret = RandomState::new().hash_one(std::process::id()).to_ne_bytes();
        if settings.stacks.is_some() {
            constants.extend([("UNWIND_TABLES", &tables[..]), ("HASH_SECRET", &secret[..])]);
        }
        let (cpus, programs) = (settings.possible_cpus, settings.programs);
        let sizes = MapSizes {
            entries: &[
                ("probe_cpus", cpus),
                ("probe_rings", cpus),
                ("probe_programs", programs),
                ("hit_shares", hit_shares::elements(cpus)),
                ("probe_rows", cpus * WALKS_AT_ONCE),
            ],
            ring_bytes: settings.ring_bytes,
        };
        let mut object = match settings.stacks {
            None => KernelObject::new(
                NAME,
                &committed_object::PROBES.bytes(),
                &constants,
                shared,
                &sizes,
            )?,
            Some(_) => {
                let kernel = kernel_types();
                let kernel = kernel.map_err(|error| CaptureError::NoBtf(error.to_string()))?;
                KernelObject::with_types(
                    NAME_WITH_STACKS,
                    &committed_object::PROBE_STACKS.bytes(),
                    &constants,
                    shared,
                    &sizes,
                    Some(&kernel),
                )?
            }
        };
        if matches!(settings.way, AttachMethod::EventsWithoutCookies(_)) {
            object.without_exchanges();
        }
        let attach_type =
            if settings.way == AttachMethod::Multi { bpf_calls::TRACE_UPROBE_MULTI } else { 0 };
        let kind = ProgramKind {
            expected_attach_type: attach_type,
            ..ProgramKind::of(bpf_calls::PROG_TYPE_KPROBE)
        };
        let (on_probe, on_ring) = (object.load("on_probe", kind)?, object.load("on_ring", kind)?);
        Ok(Self {
            on_probe,
            on_ring,
            object,
            ring_bytes: settings.ring_bytes,
            possible_cpus: cpus,
            walks: settings.stacks.is_some(),
        })
    }

    /// Gives a CPU its ring buffer; its hits are recorded from now on.
    pub(super) fn add_cpu(&self, cpu: u32) -> Result<Ring, CaptureError> {
        self.object.add_ring("probe_rings", cpu, self.ring_bytes)
    }

    /// Whether hits may have stacks.
    pub(super) fn walks(&self) -> bool {
        self.walks
    }

    /// Lets the programs forget which stacks they sent, where they walk any: each is sent again
    /// before a hit refers to it. A hit that is preempted between the two may come behind, without
    /// its stack, which is told of it.
    pub(super) fn forget_stacks(&self) -> io::Result<()> {
        let cpus = aya::util::nr_cpus().map_err(|(_, error)| error)?;
        for (name, id_offset) in KNOWN_STACKS {
            let (Ok(map), Some(size)) = (self.object.map(name), self.object.size_of(name)) else {
                continue;
            };
            forget_ids((name, map), size, id_offset, cpus)?;
        }
        Ok(())
    }

    /// What the programs count.
    pub(super) fn counters(&self) -> Result<Counters, CaptureError> {
        Counters::map(self.object.map("probe_cpus")?, self.possible_cpus)
            .map_err(|error| CaptureError::system("cannot map the counters of the probes", error))
    }

    /// What of each user's hits was beyond its share.
    pub(super) fn hit_shares(&self) -> Result<HitShares, CaptureError> {
        HitShares::map(self.object.map("hit_shares")?, self.possible_cpus)
            .map_err(|error| CaptureError::system("cannot map the users' shares of hits", error))
    }

    /// What of each user's announcements was not passed on.
    pub(super) fn announcers(&self) -> Result<Announcers, CaptureError> {
        Announcers::map(self.object.map("announcers")?)
            .map_err(|error| CaptureError::system("cannot map who announces rings", error))
    }

    /// The ring buffer of announcements, and the descriptor to wait on.
    pub(super) fn announcements(&self) -> Result<(Ring, OwnedFd), CaptureError> {
        let map = self.object.map("announcements")?;
        let ring = Ring::map(map, ANNOUNCEMENT_BYTES).map_err(no_announcements)?;
        Ok((ring, map.try_clone_to_owned().map_err(no_announcements)?))
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
        let program = program.try_clone().map_err(no_program)?;
        if !matches!(way, AttachMethod::EventsWithoutCookies(_)) {
            return Ok(Program { program, cookies: None });
        }
        let given = self.object.map("given_cookie")?.try_clone_to_owned().map_err(no_program)?;
        let cookies = Cookies::new(program.as_fd(), given).map_err(|error| {
            CaptureError::system("cannot make the map of a program's cookies", error)
        })?;
        Ok(Program { program, cookies: Some(cookies) })
    }

    /// A descriptor of the map that holds what to read at which probe.
    pub(super) fn argument_programs(&self) -> Result<OwnedFd, CaptureError> {
        self.object
            .map("probe_programs")?
            .try_clone_to_owned()
            .map_err(|error| CaptureError::system("cannot hold on to a map", error))
    }
}

fn no_announcements(error: std::io::Error) -> CaptureError {
    CaptureError::system("cannot map the ring buffer of announcements", error)
}

fn no_program(error: std::io::Error) -> CaptureError {
    CaptureError::system("cannot hold a program", error)
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
    /// `dst += imm` and `dst = src`.
    const ADD: u8 = 0x07;
    const MOVE: u8 = 0xbf;

    /// How far below its frame pointer a function reaches.
    fn stack_of(instructions: &[bpf_insn]) -> i32 {
        let before = std::iter::once(None).chain(instructions.iter().map(Some));
        let reaches =
            before.zip(instructions).map(|(before, instruction)| reach(before, instruction));
        reaches.max().unwrap_or(0)
    }

    /// How far below the frame pointer an instruction reaches that follows `before`.
    fn reach(before: Option<&bpf_insn>, instruction: &bpf_insn) -> i32 {
        match instruction.code & 7 {
            LOAD if instruction.src_reg() == FRAME => -i32::from(instruction.off),
            2..=STORE_BY_REGISTER if instruction.dst_reg() == FRAME => -i32::from(instruction.off),
            _ if instruction.code == ADD
                && before.is_some_and(|of| is_copy(of, instruction.dst_reg())) =>
            {
                -instruction.imm
            }
            _ => 0,
        }
    }

    /// Whether the register is a copy of the frame pointer: of another such a sum is no place on
    /// the stack.
    fn is_copy(of: &bpf_insn, register: u8) -> bool {
        of.code == MOVE && of.dst_reg() == register && of.src_reg() == FRAME
    }

    #[test]
    fn a_hit_that_is_preempted_shares_its_stack_with_no_other() {
        for object in [&committed_object::PROBES, &committed_object::PROBE_STACKS] {
            let object = aya_obj::Object::parse(&object.bytes()).unwrap();
            assert!(object.functions.len() >= 4, "the programs and what they call");
            for function in object.functions.values() {
                let bytes = stack_of(&function.instructions);
                assert!(
                    bytes <= MOST_STACK,
                    "{} needs {bytes} bytes of stack, see probe.h",
                    function.name
                );
            }
        }
    }

    /// Loads only: nothing is attached. Who may not load, or has a kernel without what it takes, is
    /// told nothing here.
    #[test]
    fn the_kernel_takes_the_programs_with_stacks_walked_in_either_way() {
        for stacks in [WalkMethod::Tables, WalkMethod::FramePointers] {
            let Ok(way) = AttachMethod::of_this_kernel() else { return };
            let settings = Settings {
                tsc: false,
                filter: false,
                possible_cpus: 1,
                programs: 16,
                ring_bytes: 64 << 10,
                asked_by: None,
                way,
                stacks: Some(stacks),
            };
            match LoadedObject::load(&settings, &SharedMaps::new()) {
                Ok(loaded) => assert!(loaded.walks() && loaded.forget_stacks().is_ok()),
                Err(CaptureError::Program { program, reason }) => panic!("{program}: {reason}"),
                Err(_) => return,
            }
        }
    }
}
