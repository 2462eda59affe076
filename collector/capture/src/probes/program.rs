//! What the kernel program reads at a hit, as bpf/include/probe.h lays it out.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustc_hash::FxHashMap;
use syscollect_probes::{Argument, ArgumentLocation};
use syscollect_store::ProbeRole;

use crate::bpf_calls;

/// Arguments that the kernel program reads of one probe.
pub(super) const ARGUMENTS_MAX: usize = 12;
/// Arguments, counted from the first, that can be read as texts.
pub(super) const TEXTS_MAX: usize = 8;

const ARGUMENT_BYTES: usize = 16;
const PROGRAM_BYTES: usize = 8 + ARGUMENTS_MAX * ARGUMENT_BYTES;
/// The index of a register that is always 0.
const NO_REGISTER: u8 = 31;

const CONSTANT: u8 = 0;
const REGISTER: u8 = 1;
const MEMORY: u8 = 2;

/// Whether an argument is also read as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum StringReading {
    /// It is a number.
    Never = 0,
    /// It is the address of a text.
    Always = 1,
    /// It is one if what lies there looks like one.
    Likely = 2,
}

/// What to read at a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArgumentProgram([u8; PROGRAM_BYTES]);

impl ArgumentProgram {
    /// Reads these arguments, of which it takes the first [`ARGUMENTS_MAX`].
    pub(super) fn new(arguments: &[(Argument, StringReading)]) -> Self {
        let mut bytes = [0; PROGRAM_BYTES];
        bytes[0] = arguments.len().min(ARGUMENTS_MAX) as u8;
        for (index, (argument, text)) in arguments.iter().take(ARGUMENTS_MAX).enumerate() {
            let at = 8 + index * ARGUMENT_BYTES;
            let text = if index < TEXTS_MAX { *text } else { StringReading::Never };
            bytes[at..at + ARGUMENT_BYTES].copy_from_slice(&encode(argument, text));
        }
        Self(bytes)
    }
}

/// `struct probe_argument`.
fn encode(argument: &Argument, text: StringReading) -> [u8; ARGUMENT_BYTES] {
    let (kind, value, base, index, scale, skip) = match &argument.place {
        ArgumentLocation::Constant(value) => (CONSTANT, *value, NO_REGISTER, NO_REGISTER, 0, 0),
        ArgumentLocation::Register { register: name, shift } => {
            (REGISTER, 0, register_index(*name), NO_REGISTER, 0, *shift)
        }
        ArgumentLocation::Memory { base, index, offset } => {
            let base = base.map_or(NO_REGISTER, register_index);
            let (index, scale) =
                index.map_or((NO_REGISTER, 1), |(name, scale)| (register_index(name), scale));
            (MEMORY, *offset, base, index, scale.max(1).ilog2() as u8, 0)
        }
        // Memory of no bytes: what cannot be read is told as such.
        ArgumentLocation::Unsupported(_) => (MEMORY, 0, NO_REGISTER, NO_REGISTER, 0, 0),
    };
    let size = if argument.is_supported() { argument.size } else { 0 };
    let mut bytes = [0; ARGUMENT_BYTES];
    bytes[..8].copy_from_slice(&value.to_ne_bytes());
    bytes[8..].copy_from_slice(&[
        kind,
        base,
        index,
        scale,
        skip,
        size,
        u8::from(argument.signed),
        text as u8,
    ]);
    bytes
}

fn register_index(register: syscollect_probes::Register) -> u8 {
    (register.pt_regs_offset() / 8) as u8
}

/// Whether hits of a place have stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HitStack {
    /// They have none.
    None,
    /// They have.
    Taken,
    /// They have, and stand at their function's first instruction.
    AtEntry,
}

impl HitStack {
    /// Of hits with this meaning.
    pub(super) fn of(role: ProbeRole) -> Self {
        match role {
            ProbeRole::Point | ProbeRole::ZoneBegin => Self::Taken,
            ProbeRole::FunctionEntry => Self::AtEntry,
            // Ends are where their beginnings were; instrumented programs ask for stacks
            // themselves.
            _ => Self::None,
        }
    }

    /// What it is in a cookie: COOKIE_STACK and COOKIE_ENTRY of bpf/include/probe_stack.h.
    fn bits(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Taken => 1 << 63,
            Self::AtEntry => 3 << 62,
        }
    }
}

/// The programs that the kernel knows, each once.
pub(super) struct ArgumentPrograms {
    map: OwnedFd,
    /// Whether the kernel program knows of stacks.
    stacks: bool,
    room: ProgramQuota,
    known: FxHashMap<ArgumentProgram, u32>,
}

/// How many programs there may be. Anybody can write files with many; an owner of files has as many
/// as are still free for others, so that there are always some for one more.
#[derive(Debug)]
struct ProgramQuota {
    free: u32,
    used: FxHashMap<u32, u32>,
}

impl ProgramQuota {
    fn new(free: u32) -> Self {
        Self { free, used: FxHashMap::default() }
    }

    /// Takes one; whether there is one. Root's files are trusted with all there are.
    fn take(&mut self, owner: u32) -> bool {
        let used = self.used.get(&owner).copied().unwrap_or(0);
        let has_room = self.free > 0 && (owner == 0 || used < self.free);
        if has_room {
            self.free -= 1;
            self.used.insert(owner, used + 1);
        }
        has_room
    }
}

impl ArgumentPrograms {
    /// None yet; `map` has room for so many.
    pub(super) fn new(map: OwnedFd, room: u32, stacks: bool) -> Self {
        Self { map, stacks, room: ProgramQuota::new(room), known: FxHashMap::default() }
    }

    /// The cookie of a probe with these arguments, in a file of this owner.
    pub(super) fn cookie(
        &mut self,
        owner: u32,
        (probe, stack): (u32, HitStack),
        arguments: &[(Argument, StringReading)],
    ) -> io::Result<u64> {
        let stack = if self.stacks { stack.bits() } else { 0 };
        if arguments.is_empty() {
            return Ok(stack | u64::from(probe));
        }
        let program = ArgumentProgram::new(arguments);
        let index = match self.known.get(&program) {
            Some(index) => *index,
            None => {
                let index = self.known.len() as u32;
                if !self.room.take(owner) {
                    return Err(io::Error::other(format!(
                        "the files of this user have more different lists of arguments than its \
                         share ({} are free for others)",
                        self.room.free
                    )));
                }
                bpf_calls::update_map(self.map.as_fd(), index, &program.0)?;
                self.known.insert(program, index);
                index
            }
        };
        Ok(stack | u64::from(index + 1) << 32 | u64::from(probe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(argument: &str, text: StringReading) -> [u8; ARGUMENT_BYTES] {
        encode(&argument.parse().unwrap(), text)
    }

    #[test]
    fn each_form_of_an_argument_becomes_what_the_kernel_program_reads() {
        let memory = encoded("-4@112(%rsp)", StringReading::Never);
        assert_eq!(memory, [112, 0, 0, 0, 0, 0, 0, 0, MEMORY, 19, NO_REGISTER, 0, 0, 4, 1, 0]);
        let indexed = encoded("8@-80(%rbx,%rcx,8)", StringReading::Likely);
        assert_eq!(indexed[..8], (-80i64).to_ne_bytes());
        assert_eq!(indexed[8..], [MEMORY, 5, 11, 3, 0, 8, 0, 2]);
        assert_eq!(
            encoded("1@%ah", StringReading::Never)[8..],
            [REGISTER, 10, NO_REGISTER, 0, 8, 1, 0, 0]
        );
        assert_eq!(encoded("4@$-7", StringReading::Never)[..8], (-7i64).to_ne_bytes());
    }

    #[test]
    fn what_cannot_be_read_is_memory_of_no_bytes() {
        let argument = Argument {
            size: 8,
            signed: false,
            float: true,
            place: ArgumentLocation::Unsupported("%xmm0".into()),
        };
        assert_eq!(
            encode(&argument, StringReading::Never)[8..],
            [MEMORY, NO_REGISTER, NO_REGISTER, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn a_cookie_says_whether_hits_have_stacks_and_never_to_programs_that_walk_none() {
        let (entry, exit) =
            [ProbeRole::FunctionEntry, ProbeRole::FunctionExit].map(HitStack::of).into();
        assert_eq!(cookie_of(true, entry), 7 | 1 << 63 | 1 << 62);
        assert_eq!(cookie_of(true, HitStack::of(ProbeRole::Point)), 7 | 1 << 63);
        assert_eq!([cookie_of(true, exit), cookie_of(false, entry)], [7, 7]);
    }

    fn cookie_of(stacks: bool, stack: HitStack) -> u64 {
        let map = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        ArgumentPrograms::new(map, 1, stacks).cookie(0, (7, stack), &[]).unwrap()
    }

    #[test]
    fn whatever_one_owner_takes_there_is_room_for_the_next() {
        let mut room = ProgramQuota::new(4096);
        assert_eq!(taken(&mut room, 1001), 2048);
        (1002..1006).for_each(|owner| assert!(taken(&mut room, owner) >= 128, "{room:?}"));
        assert_eq!(taken(&mut room, 0), 128);
        assert_eq!(taken(&mut room, 1001), 0);
    }

    fn taken(room: &mut ProgramQuota, owner: u32) -> usize {
        (0..10_000).filter(|_| room.take(owner)).count()
    }

    #[test]
    fn only_so_many_arguments_and_texts_as_a_record_has_room_for() {
        let argument: Argument = "8@%rdi".parse().unwrap();
        let program = ArgumentProgram::new(&vec![(argument, StringReading::Always); 20]);
        let strings =
            program.0[8..].chunks(ARGUMENT_BYTES).filter(|argument| argument[15] == 1).count();
        assert_eq!((program.0[0] as usize, strings), (ARGUMENTS_MAX, TEXTS_MAX));
    }
}
