//! The bpf() calls that only attempts need. The layouts are those of `union
//! bpf_attr` in include/uapi/linux/bpf.h.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::bpf_calls::{
    self, MAP_TYPE_ARRAY, MapCreate, PROG_LOAD, PROG_TYPE_KPROBE, PROG_TYPE_RAW_TRACEPOINT,
    PROG_TYPE_TRACING, ProgLoad, TRACE_UPROBE_MULTI, UprobePoint, bpf_fd,
};

const RAW_TRACEPOINT_OPEN: i64 = 17;

/// `expected_attach_type` of a tracepoint with BTF arguments.
pub(crate) const TRACE_RAW_TP: u32 = 23;
/// `expected_attach_type` of an iterator.
pub(crate) const TRACE_ITER: u32 = 28;

/// One instruction: opcode, registers, offset, immediate.
#[derive(Clone, Copy)]
#[repr(C)]
struct Instruction {
    opcode: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// `register = 0`.
const fn zero(register: u8) -> Instruction {
    Instruction { opcode: 0xb7, registers: register, offset: 0, immediate: 0 }
}

/// The second half of an instruction of 16 bytes.
const NONE: Instruction = Instruction { opcode: 0, registers: 0, offset: 0, immediate: 0 };

const EXIT: Instruction = Instruction { opcode: 0x95, registers: 0, offset: 0, immediate: 0 };

const fn call(helper: u32) -> Instruction {
    Instruction { opcode: 0x85, registers: 0, offset: 0, immediate: helper as i32 }
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

/// Loads a program. `log` receives what the verifier says, as far as there is room.
fn load(instructions: &[Instruction], mut attr: ProgLoad, log: &mut [u8]) -> io::Result<OwnedFd> {
    attr.insns = instructions.as_ptr() as u64;
    attr.insn_cnt = instructions.len() as u32;
    attr.license = c"GPL".as_ptr() as u64;
    if !log.is_empty() {
        (attr.log_level, attr.log_size, attr.log_buf) =
            (1, log.len() as u32, log.as_mut_ptr() as u64);
    }
    bpf_fd(PROG_LOAD, &mut attr)
}

/// Loads an empty program for a kernel function or type of the kernel's BTF.
pub(crate) fn load_tracing(expected_attach_type: u32, attach_btf_id: u32) -> io::Result<OwnedFd> {
    let attr = ProgLoad {
        prog_type: PROG_TYPE_TRACING,
        expected_attach_type,
        attach_btf_id,
        ..Default::default()
    };
    load(&[zero(0), EXIT], attr, &mut [])
}

/// Attaches an empty program to a raw tracepoint for a moment.
pub(crate) fn attach_raw_tracepoint(name: &str) -> io::Result<()> {
    let attr = ProgLoad { prog_type: PROG_TYPE_RAW_TRACEPOINT, ..Default::default() };
    let program = load(&[zero(0), EXIT], attr, &mut [])?;
    let name = CString::new(name)?;
    let mut attr = RawTracepointOpen {
        name: name.as_ptr() as u64,
        prog_fd: program.as_raw_fd() as u32,
        padding: 0,
    };
    bpf_fd(RAW_TRACEPOINT_OPEN, &mut attr).map(drop)
}

/// Loads a program that calls a helper with zeros. The verifier refuses the
/// arguments of most; only its complaint about the helper itself means that
/// there is none.
pub(crate) fn load_with_helper(number: u32) -> io::Result<()> {
    let program = [zero(1), zero(2), zero(3), zero(4), zero(5), call(number), zero(0), EXIT];
    let attr = ProgLoad { prog_type: PROG_TYPE_RAW_TRACEPOINT, ..Default::default() };
    let mut log = vec![0; 4096];
    let Err(error) = load(&program, attr, &mut log) else { return Ok(()) };
    judge_helper(&String::from_utf8_lossy(&log), error)
}

/// Loads a program that names a variable of each CPU by its type number. A kernel without a list of
/// all symbols (`CONFIG_KALLSYMS_ALL`) describes the variables, but does not know where they lie.
pub(crate) fn load_with_variable(type_id: u32) -> io::Result<()> {
    let variable =
        Instruction { opcode: 0x18, registers: 3 << 4, offset: 0, immediate: type_id as i32 };
    let attr = ProgLoad { prog_type: PROG_TYPE_RAW_TRACEPOINT, ..Default::default() };
    load(&[variable, NONE, zero(0), EXIT], attr, &mut []).map(drop)
}

/// "invalid func" and "unknown func" are what kernels up to 6.10 and later say.
fn judge_helper(log: &str, error: io::Error) -> io::Result<()> {
    let absent = ["invalid func", "unknown func", "cannot use helper"]
        .iter()
        .any(|complaint| log.contains(complaint));
    let silent = log.trim_matches('\0').trim().is_empty();
    match (absent, silent) {
        (true, _) => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        // The verifier did not get to speak: no permission, no memory, ...
        (false, true) => Err(error),
        (false, false) => Ok(()),
    }
}

/// Whether several user functions can be attached to with one link (6.6). The
/// folder `/` is no program, and a kernel that knows the link says so.
pub(crate) fn try_uprobe_multi() -> io::Result<()> {
    let attr = ProgLoad {
        prog_type: PROG_TYPE_KPROBE,
        expected_attach_type: TRACE_UPROBE_MULTI,
        ..Default::default()
    };
    let program = load(&[zero(0), EXIT], attr, &mut [])?;
    let place = UprobePoint { offset: 0, semaphore: 0, cookie: 0 };
    match bpf_calls::link_uprobe_multi(program.as_fd(), c"/", &[place], false, None) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates an array map of so many bytes for a moment; with the limit on locked
/// memory (which bounds maps before 5.11) raised, as the recorder raises it.
pub(crate) fn create_map(bytes: u32) -> io::Result<()> {
    let value_size = 64 << 10;
    let max_entries = bytes.div_ceil(value_size);
    let map = MapCreate {
        map_type: MAP_TYPE_ARRAY,
        key_size: 4,
        value_size,
        max_entries,
        ..Default::default()
    };
    let refused = match bpf_calls::create_map(map) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => error,
        other => return other.map(drop),
    };
    let Ok(_raised) = RaisedMemoryLimit::new() else { return Err(refused) };
    bpf_calls::create_map(map).map(drop)
}

/// No limit on locked memory until it is dropped.
struct RaisedMemoryLimit {
    before: libc::rlimit,
}

impl RaisedMemoryLimit {
    fn new() -> io::Result<Self> {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let raised = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `before` is a live structure of the type that the call fills.
        if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut before) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raised` is a live structure of the type that the call reads.
        if unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const raised) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { before })
    }
}

impl Drop for RaisedMemoryLimit {
    fn drop(&mut self) {
        // SAFETY: `before` is a live structure of the type that the call reads;
        // lowering a limit cannot fail in a way that matters.
        unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> io::Error {
        io::Error::from_raw_os_error(libc::EINVAL)
    }

    #[test]
    fn a_helper_is_absent_only_when_the_verifier_says_so() {
        assert!(is_absent("5: (85) call unknown#999\ninvalid func unknown#999\n"));
        assert!(is_absent("program of this type cannot use helper bpf_bind#64\n"));
        assert!(judge_helper("R1 type=scalar expected=fp\n", refused()).is_ok());
    }

    fn is_absent(log: &str) -> bool {
        judge_helper(log, refused()).unwrap_err().raw_os_error() == Some(libc::EOPNOTSUPP)
    }

    #[test]
    fn a_silent_verifier_leaves_the_systems_own_answer() {
        let forbidden = io::Error::from_raw_os_error(libc::EPERM);
        assert_eq!(
            judge_helper("\0\0\0", forbidden).unwrap_err().raw_os_error(),
            Some(libc::EPERM)
        );
    }
}
