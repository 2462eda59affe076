//! The bpf() calls that aya has no function for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;

/// `union bpf_attr` of BPF_MAP_UPDATE_ELEM, include/uapi/linux/bpf.h.
#[repr(C)]
struct UpdateElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Sets `map[key] = value` for a map of 4-byte keys and 4-byte values.
pub(crate) fn update_map(map: BorrowedFd<'_>, key: u32, value: u32) -> io::Result<()> {
    let attr = UpdateElement {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const key) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: key and value are live u32s, as the map's definition in
    // bpf/ has them; the size is that of the structure.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_UPDATE_ELEM, &raw const attr, size_of_val(&attr)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What the kernel counts of a program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramCounts {
    /// Nanoseconds it ran; 0 unless `kernel.bpf_stats_enabled` is set.
    pub(crate) run_time_ns: u64,
    /// How often it ran; 0 unless `kernel.bpf_stats_enabled` is set.
    pub(crate) run_count: u64,
    /// How often it was left out because it was already running on that CPU (5.12).
    pub(crate) recursion_misses: u64,
}

/// `union bpf_attr` of BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
struct InfoByFd {
    fd: u32,
    length: u32,
    info: u64,
}

/// Asks the kernel for a program's counts.
pub(crate) fn program_counts(program: BorrowedFd<'_>) -> io::Result<ProgramCounts> {
    // Offsets in struct bpf_prog_info, include/uapi/linux/bpf.h: run_time_ns,
    // run_cnt (5.1) and recursion_misses (5.12) follow one another.
    const RUN_TIME: usize = 192;
    const LENGTH: usize = 232;
    let mut info = [0u64; LENGTH / 8];
    let attr = InfoByFd { fd: program.as_raw_fd() as u32, length: LENGTH as u32, info: info.as_mut_ptr() as u64 };
    // SAFETY: `info` has the length given; the kernel fills at most that much,
    // and as it is all zero no field asks for more.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &raw const attr, size_of_val(&attr)) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let [run_time_ns, run_count, recursion_misses] = [0, 1, 2].map(|index| info[RUN_TIME / 8 + index]);
    Ok(ProgramCounts { run_time_ns, run_count, recursion_misses })
}
