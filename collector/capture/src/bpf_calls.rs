//! The bpf() and perf calls that loading and attaching need. Layouts are those
//! of `union bpf_attr` in include/uapi/linux/bpf.h; the kernel takes shorter
//! ones and requires what it does not know to be zero.

use std::ffi::{CStr, CString, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, PERF_TYPE_TRACEPOINT, perf_event_attr};
use syscollect_untrusted_files::FixedPath;

const MAP_CREATE: i64 = 0;
const MAP_LOOKUP_ELEM: i64 = 1;
const MAP_UPDATE_ELEM: i64 = 2;
const MAP_DELETE_ELEM: i64 = 3;
const PROG_TEST_RUN: i64 = 10;
pub(crate) const PROG_LOAD: i64 = 5;
const OBJ_GET_INFO_BY_FD: i64 = 15;
const MAP_FREEZE: i64 = 22;
const MAP_UPDATE_BATCH: i64 = 26;
const BTF_LOAD: i64 = 18;
const LINK_CREATE: i64 = 28;
const ITER_CREATE: i64 = 33;

/// Types of programs: uprobes; tracepoints with records of their own, or with what the kernel has;
/// those that know functions of the kernel by its types.
pub(crate) const PROG_TYPE_KPROBE: u32 = 2;
pub(crate) const PROG_TYPE_TRACEPOINT: u32 = 5;
pub(crate) const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
pub(crate) const PROG_TYPE_TRACING: u32 = 26;
/// `expected_attach_type` of iterators.
const TRACE_ITER: u32 = 28;
/// `attach_type` of a link to a perf event.
const ATTACH_PERF_EVENT: u32 = 41;
/// `expected_attach_type` of programs that one link attaches to many points.
pub(crate) const TRACE_UPROBE_MULTI: u32 = 48;
const UPROBE_MULTI_RETURN: u32 = 1;

pub(crate) const MAP_TYPE_ARRAY: u32 = 2;
pub(crate) const MAP_TYPE_PROG_ARRAY: u32 = 3;
pub(crate) const MAP_TYPE_ARRAY_OF_MAPS: u32 = 12;
pub(crate) const MAP_TYPE_RINGBUF: u32 = 27;

/// What a map is created with.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MapCreate {
    pub(crate) map_type: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) map_flags: u32,
    pub(crate) inner_map_fd: u32,
}

#[repr(C)]
struct UpdateElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct UpdateBatch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
}

#[repr(C)]
struct MapFreeze {
    map_fd: u32,
}

/// As Linux 5.17 knows it; older kernels ask that what they do not know is zero.
#[repr(C)]
#[derive(Default)]
pub(crate) struct ProgLoad {
    pub(crate) prog_type: u32,
    pub(crate) insn_cnt: u32,
    pub(crate) insns: u64,
    pub(crate) license: u64,
    pub(crate) log_level: u32,
    pub(crate) log_size: u32,
    pub(crate) log_buf: u64,
    pub(crate) kern_version: u32,
    pub(crate) prog_flags: u32,
    pub(crate) prog_name: [u8; 16],
    pub(crate) prog_ifindex: u32,
    pub(crate) expected_attach_type: u32,
    pub(crate) prog_btf_fd: u32,
    pub(crate) func_info_rec_size: u32,
    pub(crate) func_info: u64,
    pub(crate) func_info_cnt: u32,
    pub(crate) line_info_rec_size: u32,
    pub(crate) line_info: u64,
    pub(crate) line_info_cnt: u32,
    pub(crate) attach_btf_id: u32,
    pub(crate) attach_prog_fd: u32,
    pub(crate) core_relo_cnt: u32,
}

const _: () = assert!(size_of::<ProgLoad>() == 120);
const _: () = assert!(std::mem::offset_of!(ProgLoad, expected_attach_type) == 68);
const _: () = assert!(std::mem::offset_of!(ProgLoad, attach_btf_id) == 108);

#[repr(C)]
#[derive(Default)]
struct BtfLoad {
    btf: u64,
    log_buf: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkIterator {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct IteratorFile {
    link_fd: u32,
    flags: u32,
}

#[repr(C)]
struct LinkUprobeMulti {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    count: u32,
    multi_flags: u32,
    pid: u32,
    padding: u32,
}

const _: () = assert!(size_of::<LinkUprobeMulti>() == 64);

#[repr(C)]
struct LinkPerfEvent {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

const _: () = assert!(size_of::<LinkPerfEvent>() == 24);

#[repr(C)]
struct InfoByFd {
    fd: u32,
    length: u32,
    info: u64,
}

/// Calls bpf() with one of the structures above; what it returns.
fn bpf<T>(command: i64, attr: &mut T) -> io::Result<i32> {
    // SAFETY: `attr` is initialized without padding, its size is its own, and
    // what its fields point to is alive while the caller's frame is.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attr).cast::<c_void>(),
            size_of::<T>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// The same for commands that return a descriptor.
pub(crate) fn bpf_fd<T>(command: i64, attr: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: these commands return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a map.
pub(crate) fn create_map(mut attr: MapCreate) -> io::Result<OwnedFd> {
    bpf_fd(MAP_CREATE, &mut attr)
}

/// Sets an element of a map with 4-byte keys. `value` has the map's value size.
pub(crate) fn update_map(map: BorrowedFd<'_>, key: u32, value: &[u8]) -> io::Result<()> {
    update_element(map, &key.to_ne_bytes(), value)
}

/// Sets an element of a map. `key` and `value` have the map's sizes.
pub(crate) fn update_element(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    let mut attr = UpdateElement {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    bpf(MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// Takes an element out of a map. `key` has the map's size.
pub(crate) fn delete_element(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<()> {
    let mut attr = UpdateElement {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: key.as_ptr() as u64,
        value: 0,
        flags: 0,
    };
    bpf(MAP_DELETE_ELEM, &mut attr).map(drop)
}

/// Sets elements of a map with 4-byte keys, all to the same value of the map's value size (of a map
/// that has a value for each CPU: of all of them together). One call sets them where the kernel can
/// do that (5.13).
pub(crate) fn update_map_all(map: BorrowedFd<'_>, keys: &[u32], value: &[u8]) -> io::Result<()> {
    let values = value.repeat(keys.len());
    let mut attr = UpdateBatch {
        in_batch: 0,
        out_batch: 0,
        keys: keys.as_ptr() as u64,
        values: values.as_ptr() as u64,
        count: keys.len() as u32,
        map_fd: map.as_raw_fd() as u32,
        elem_flags: 0,
        flags: 0,
    };
    match bpf(MAP_UPDATE_BATCH, &mut attr) {
        Ok(_) => Ok(()),
        Err(_) => keys.iter().try_for_each(|key| update_map(map, *key, value)),
    }
}

/// Runs a raw tracepoint's program once, on this thread, without a context (5.10).
pub(crate) fn run_program(program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = TestRun { prog_fd: program.as_raw_fd() as u32, ..TestRun::default() };
    bpf(PROG_TEST_RUN, &mut attr).map(drop)
}

/// Makes a map unchangeable from user space: the verifier may then take its values as constants.
pub(crate) fn freeze_map(map: BorrowedFd<'_>) -> io::Result<()> {
    bpf(MAP_FREEZE, &mut MapFreeze { map_fd: map.as_raw_fd() as u32 }).map(drop)
}

/// Loads what an object says of its own types.
pub(crate) fn load_types(btf: &[u8]) -> io::Result<OwnedFd> {
    let mut attr =
        BtfLoad { btf: btf.as_ptr() as u64, size: btf.len() as u32, ..BtfLoad::default() };
    bpf_fd(BTF_LOAD, &mut attr)
}

/// What is known of a program's functions: the object's types, and of which each function is, in
/// records of so many bytes.
pub(crate) struct FunctionTypes<'a> {
    pub(crate) types: BorrowedFd<'a>,
    pub(crate) functions: Vec<u8>,
    pub(crate) count: usize,
    pub(crate) record_bytes: usize,
}

/// What kind of program it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramKind {
    /// `PROG_TYPE_*`.
    pub(crate) prog_type: u32,
    pub(crate) expected_attach_type: u32,
    /// The kernel's function that it belongs to, by its type's number in the kernel's BTF.
    pub(crate) attach_btf_id: u32,
}

impl ProgramKind {
    /// One that is attached wherever its type is.
    pub(crate) const fn of(prog_type: u32) -> Self {
        Self { prog_type, expected_attach_type: 0, attach_btf_id: 0 }
    }

    /// An iterator, by the number of its function's type.
    pub(crate) const fn iterator(attach_btf_id: u32) -> Self {
        Self { prog_type: PROG_TYPE_TRACING, expected_attach_type: TRACE_ITER, attach_btf_id }
    }
}

/// What an iterator's program writes when this is read (5.8).
pub(crate) fn iterator_file(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut link = LinkIterator {
        prog_fd: program.as_raw_fd() as u32,
        attach_type: TRACE_ITER,
        ..LinkIterator::default()
    };
    let link = bpf_fd(LINK_CREATE, &mut link)?;
    bpf_fd(ITER_CREATE, &mut IteratorFile { link_fd: link.as_raw_fd() as u32, flags: 0 })
}

/// Loads a program from its instructions of 8 bytes. On refusal the error comes with the verifier's
/// log.
pub(crate) fn load_program(
    name: &str,
    instructions: &[u8],
    license: &CStr,
    kind: ProgramKind,
    functions: Option<&FunctionTypes<'_>>,
) -> Result<OwnedFd, (io::Error, String)> {
    let mut attr = ProgLoad {
        prog_type: kind.prog_type,
        insn_cnt: (instructions.len() / 8) as u32,
        insns: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        expected_attach_type: kind.expected_attach_type,
        attach_btf_id: kind.attach_btf_id,
        ..Default::default()
    };
    if let Some(of) = functions {
        attr.prog_btf_fd = of.types.as_raw_fd() as u32;
        attr.func_info = of.functions.as_ptr() as u64;
        (attr.func_info_cnt, attr.func_info_rec_size) = (of.count as u32, of.record_bytes as u32);
    }
    let shown = name.len().min(attr.prog_name.len() - 1);
    attr.prog_name[..shown].copy_from_slice(&name.as_bytes()[..shown]);
    if let Ok(program) = bpf_fd(PROG_LOAD, &mut attr) {
        return Ok(program);
    }
    // A log costs time, so only who failed asks for it.
    let mut log = vec![0u8; 1 << 20];
    (attr.log_level, attr.log_size, attr.log_buf) = (1, log.len() as u32, log.as_mut_ptr() as u64);
    bpf_fd(PROG_LOAD, &mut attr).map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        (error, String::from_utf8_lossy(&log[..end]).into_owned())
    })
}

/// One point that a program is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UprobePoint {
    /// Where the instruction lies in the file.
    pub(crate) offset: u64,
    /// Where the semaphore lies in the file; 0 for none.
    pub(crate) semaphore: u64,
    /// What the program is told.
    pub(crate) cookie: u64,
}

/// Attaches a program to many points of one file with one link (6.6). `pid`
/// restricts it to one process.
pub(crate) fn link_uprobe_multi(
    program: BorrowedFd<'_>,
    path: &CStr,
    points: &[UprobePoint],
    returns: bool,
    pid: Option<u32>,
) -> io::Result<OwnedFd> {
    let offsets: Vec<u64> = points.iter().map(|point| point.offset).collect();
    let semaphores: Vec<u64> = points.iter().map(|point| point.semaphore).collect();
    let cookies: Vec<u64> = points.iter().map(|point| point.cookie).collect();
    let with_semaphores = semaphores.iter().any(|offset| *offset != 0);
    let mut attr = LinkUprobeMulti {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: 0,
        attach_type: TRACE_UPROBE_MULTI,
        flags: 0,
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        ref_ctr_offsets: if with_semaphores { semaphores.as_ptr() as u64 } else { 0 },
        cookies: cookies.as_ptr() as u64,
        count: points.len() as u32,
        multi_flags: if returns { UPROBE_MULTI_RETURN } else { 0 },
        pid: pid.unwrap_or(0),
        padding: 0,
    };
    bpf_fd(LINK_CREATE, &mut attr)
}

/// Opens an event of the uprobe PMU: one point in one file, of all processes or of one.
pub(crate) fn open_uprobe_event(
    pmu: u32,
    path: &CStr,
    point: UprobePoint,
    returns: bool,
    pid: Option<u32>,
) -> io::Result<OwnedFd> {
    // Format of the PMU: bit 0 is a return probe, bits 32 to 63 the semaphore.
    let config = u64::from(returns) | point.semaphore << 32;
    let mut attr = perf_event_attr {
        type_: pmu,
        config,
        size: size_of::<perf_event_attr>() as u32,
        ..Default::default()
    };
    attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = point.offset;
    // As for tracepoints, so that the clock's event is left alone.
    attr.set_disabled(1);
    // For all processes the kernel wants a CPU, but runs the program on each.
    let (pid, cpu) = pid.map_or((-1, 0), |pid| (pid as i32, -1));
    open_event(&mut attr, pid, cpu)
}

/// Opens the event of a kernel tracepoint, by its number in tracefs.
pub(crate) fn open_tracepoint(id: u64) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_TRACEPOINT,
        config: id,
        size: size_of::<perf_event_attr>() as u32,
        ..Default::default()
    };
    // The program runs whether the event counts or not. That it never does matters before 6.11:
    // enabling one stops and starts the CPU's others, and the clock's event loses the time between.
    attr.set_disabled(1);
    // For all processes the kernel wants a CPU, but runs the program on each.
    open_event(&mut attr, -1, 0)
}

/// Opens the event of an attribute; what that points to is alive while the caller's frame is.
fn open_event(attr: &mut perf_event_attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is a valid attribute of the size it states, and what it points to outlives the
    // call.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(attr, pid, cpu, -1, u64::from(PERF_FLAG_FD_CLOEXEC))
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Runs a program at each hit of a perf event, on every kernel; it ends when the event is closed.
pub(crate) fn run_at(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is a perf event's, and the program's is passed by its number.
    let set = unsafe {
        perf_event_open_sys::ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as u32)
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs a program at each hit of a perf event, with a cookie (5.15).
pub(crate) fn link_perf_event(
    program: BorrowedFd<'_>,
    event: BorrowedFd<'_>,
    cookie: u64,
) -> io::Result<OwnedFd> {
    let mut attr = LinkPerfEvent {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: event.as_raw_fd() as u32,
        attach_type: ATTACH_PERF_EVENT,
        flags: 0,
        cookie,
    };
    bpf_fd(LINK_CREATE, &mut attr)
}

/// What the kernel counts of a program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramCounts {
    /// Nanoseconds it ran; 0 unless `kernel.bpf_stats_enabled` is set.
    pub(crate) run_time_ns: u64,
    /// How often it ran; 0 unless `kernel.bpf_stats_enabled` is set.
    pub(crate) run_count: u64,
    /// How often it was left out because another was already running on that CPU (5.12).
    pub(crate) recursion_misses: u64,
}

/// Asks the kernel for a program's counts.
pub(crate) fn program_counts(program: BorrowedFd<'_>) -> io::Result<ProgramCounts> {
    // Offsets in struct bpf_prog_info, include/uapi/linux/bpf.h: run_time_ns,
    // run_cnt (5.1) and recursion_misses (5.12) follow one another.
    const RUN_TIME: usize = 192 / 8;
    let mut info = [0u64; 232 / 8];
    let mut attr = InfoByFd {
        fd: program.as_raw_fd() as u32,
        length: size_of_val(&info) as u32,
        info: info.as_mut_ptr() as u64,
    };
    // `info` has the length given; all zero, it asks for nothing more.
    bpf(OBJ_GET_INFO_BY_FD, &mut attr)?;
    let [run_time_ns, run_count, recursion_misses] = [0, 1, 2].map(|index| info[RUN_TIME + index]);
    Ok(ProgramCounts { run_time_ns, run_count, recursion_misses })
}

/// How often the kernel left the program out because another was running.
pub(crate) fn recursion_misses(program: BorrowedFd<'_>) -> u64 {
    program_counts(program).unwrap_or_default().recursion_misses
}

/// The path by which the kernel finds an open file, wherever it lies and even
/// when it is deleted.
pub(crate) fn path_of(file: BorrowedFd<'_>) -> CString {
    // A number has no NUL.
    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// The type number of the uprobe PMU.
pub(crate) fn uprobe_pmu() -> io::Result<u32> {
    let number = FixedPath::new("/sys/bus/event_source/devices/uprobe/type").read_to_string()?;
    number.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Whether a map with 4-byte keys and values has this key.
pub(crate) fn contains(map: BorrowedFd<'_>, key: u32) -> bool {
    let mut value = 0u32;
    let mut attr = UpdateElement {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const key) as u64,
        value: (&raw mut value) as u64,
        flags: 0,
    };
    bpf(MAP_LOOKUP_ELEM, &mut attr).is_ok()
}
