//! Attempts on the running kernel.

use crate::arch::COUNTER_CONFIG;
use crate::ebpf::try_unwind_tables;
use crate::hexadecimal::hexadecimal;
use crate::sleepers::try_sleeper_stacks;
use crate::{bpf_attempts, btf};
use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_HARDWARE,
    PERF_TYPE_SOFTWARE, perf_event_attr,
};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use syscollect_untrusted_files::{FixedPath, try_to_find};

/// Something to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Open the TSC event of the msr PMU with this type number.
    TscEvent(u32),
    /// Open a sampling event on the PMU's cycles.
    CycleSampling,
    /// Open a sampling event on the CPU clock.
    ClockSampling,
    /// Load a program for this tracepoint with BTF arguments.
    BtfTracepoint(&'static str),
    /// Attach an empty program to this raw tracepoint.
    RawTracepoint(&'static str),
    /// Load a program for this iterator.
    Iterator(&'static str),
    /// Load a program that names this variable of each CPU.
    Variable(&'static str),
    /// Load a program that calls the helper of this number.
    Helper(u32),
    /// Attach to several user functions at once.
    UprobeMulti,
    /// Open an event of the uprobe PMU with this type number.
    UprobeEvent(u32),
    /// Create a map of so many bytes.
    MapMemory(u32),
    /// Open a mapped file through /proc/self/map_files.
    MappedFile,
    /// Find a file in the way in which all files of programs are found.
    FindFile,
    /// Load the program that looks up what is mapped at an address.
    UnwindTables,
    /// Load the program that goes through all threads for those that sleep.
    SleeperStacks,
}

/// Tries it on this kernel and takes it back at once.
pub(super) fn try_on_this_kernel(probe: &Probe) -> io::Result<()> {
    match probe {
        Probe::TscEvent(pmu_type) => open_event(*pmu_type, COUNTER_CONFIG, false),
        Probe::CycleSampling => {
            open_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES.into(), true)
        }
        Probe::ClockSampling => {
            open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK.into(), true)
        }
        Probe::BtfTracepoint(name) => {
            let id = btf::id_in_kernel(&format!("btf_trace_{name}"), btf::TYPEDEF)?;
            bpf_attempts::load_tracing(bpf_attempts::TRACE_RAW_TP, id).map(drop)
        }
        Probe::Iterator(name) => {
            let id = btf::id_in_kernel(&format!("bpf_iter_{name}"), btf::FUNCTION)?;
            bpf_attempts::load_tracing(bpf_attempts::TRACE_ITER, id).map(drop)
        }
        Probe::Variable(name) => {
            bpf_attempts::load_with_variable(btf::id_in_kernel(name, btf::VARIABLE)?)
        }
        Probe::RawTracepoint(name) => bpf_attempts::attach_raw_tracepoint(name),
        Probe::Helper(number) => bpf_attempts::load_with_helper(*number),
        Probe::UprobeMulti => bpf_attempts::try_uprobe_multi(),
        Probe::UprobeEvent(pmu_type) => try_uprobe_event(*pmu_type),
        Probe::MapMemory(bytes) => bpf_attempts::create_map(*bytes),
        Probe::MappedFile => open_mapped_file(),
        Probe::FindFile => try_to_find(),
        Probe::UnwindTables => try_unwind_tables(),
        Probe::SleeperStacks => try_sleeper_stacks(),
    }
}

/// Opens an event for all tasks on the current CPU.
fn open_event(kind: u32, config: u64, sampling: bool) -> io::Result<()> {
    let mut attr = perf_event_attr { type_: kind, config, ..Default::default() };
    attr.size = size_of::<perf_event_attr>() as u32;
    attr.set_disabled(1);
    if sampling {
        attr.__bindgen_anon_1.sample_freq = 99;
        attr.set_freq(1);
    }
    // SAFETY: sched_getcpu has no preconditions.
    let cpu = unsafe { libc::sched_getcpu() }.max(0);
    // SAFETY: `attr` is initialized, and its size is its own.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(&mut attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC.into())
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// The folder `/` is no program, and a kernel that would attach to one says so.
fn try_uprobe_event(pmu_type: u32) -> io::Result<()> {
    let mut attr = perf_event_attr { type_: pmu_type, ..Default::default() };
    attr.size = size_of::<perf_event_attr>() as u32;
    attr.__bindgen_anon_3.uprobe_path = c"/".as_ptr() as u64;
    // SAFETY: `attr` is initialized, its size is its own, and the path is static.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(&mut attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC.into())
    };
    let error = io::Error::last_os_error();
    if fd >= 0 {
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        return Ok(());
    }
    if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) }
}

/// This program's own file, the way a deleted file of another process is opened.
#[expect(clippy::disallowed_methods, reason = "a mapping of this program")]
fn open_mapped_file() -> io::Result<()> {
    let maps = FixedPath::new("/proc/self/maps").read_to_string()?;
    let range =
        maps.lines().find(|line| line.contains(" r-xp ") && line.contains(" /")).and_then(|line| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            // The names in map_files have no leading zeros, unlike the lines of maps.
            Some(format!("{:x}-{:x}", hexadecimal(start)?, hexadecimal(end)?))
        });
    let range = range.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    File::open(Path::new("/proc/self/map_files").join(range)).map(drop)
}
