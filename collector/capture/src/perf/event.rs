//! Opening per-CPU perf events.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_DUMMY, PERF_FLAG_FD_CLOEXEC,
    PERF_SAMPLE_CPU, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE,
    perf_event_attr,
};

use crate::arch::COUNTER_CONFIG;

/// A perf event of all tasks on one CPU.
#[derive(Debug)]
pub(crate) struct PerfEvent {
    fd: OwnedFd,
}

impl PerfEvent {
    fn open(attr: &mut perf_event_attr, cpu: u32) -> io::Result<Self> {
        attr.size = size_of::<perf_event_attr>() as u32;
        let cpu = i32::try_from(cpu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `attr` is a valid attribute of the size it states; pid -1
        // with a CPU means every task of that CPU.
        let fd = unsafe {
            perf_event_open_sys::perf_event_open(attr, -1, cpu, -1, u64::from(PERF_FLAG_FD_CLOEXEC))
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor that nobody else owns.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Counts the TSC, by its PMU's type number.
    pub(crate) fn tsc(pmu_type: u32, cpu: u32) -> io::Result<Self> {
        let mut attr =
            perf_event_attr { type_: pmu_type, config: COUNTER_CONFIG, ..Default::default() };
        // Before 6.11 whoever enables an event of the same CPU, as sampling does, stops the others
        // for a moment, and what the counter misses then is an error of all stamps; pinned ones go
        // on.
        attr.set_pinned(1);
        Self::open(&mut attr, cpu)
    }

    /// Overflows `hz` times a second of run time, driven by the PMU's cycle counter.
    pub(crate) fn cycles(hz: u32, cpu: u32) -> io::Result<Self> {
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_HARDWARE,
            config: u64::from(PERF_COUNT_HW_CPU_CYCLES),
            ..Default::default()
        };
        attr.__bindgen_anon_1.sample_freq = u64::from(hz);
        attr.set_freq(1);
        attr.set_disabled(1);
        Self::open(&mut attr, cpu)
    }

    /// Overflows `hz` times a second, driven by a timer.
    pub(crate) fn cpu_clock(hz: u32, cpu: u32) -> io::Result<Self> {
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
            ..Default::default()
        };
        // The period of this event is in nanoseconds.
        attr.__bindgen_anon_1.sample_period = 1_000_000_000 / u64::from(hz.max(1));
        attr.set_disabled(1);
        Self::open(&mut attr, cpu)
    }

    /// Reports executable mappings and program changes, stamped with
    /// CLOCK_MONOTONIC_RAW. `build_ids` asks the kernel for each file's build
    /// id (5.12). Never wakes a reader before `wakeup_bytes` are unread.
    pub(crate) fn mappings(cpu: u32, wakeup_bytes: u32, build_ids: bool) -> io::Result<Self> {
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            config: u64::from(PERF_COUNT_SW_DUMMY),
            sample_type: u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU),
            clockid: libc::CLOCK_MONOTONIC_RAW,
            ..Default::default()
        };
        attr.__bindgen_anon_2.wakeup_watermark = wakeup_bytes;
        attr.set_watermark(1);
        attr.set_use_clockid(1);
        attr.set_sample_id_all(1);
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_build_id(u64::from(build_ids));
        Self::open(&mut attr, cpu)
    }

    /// Runs a BPF program at each overflow, from now on.
    pub(crate) fn run_program(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let event = self.fd.as_raw_fd();
        // SAFETY: both descriptors are open; the ioctl takes the program's by value.
        if unsafe { perf_event_open_sys::ioctls::SET_BPF(event, program.as_raw_fd() as u32) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is a perf event.
        if unsafe { perf_event_open_sys::ioctls::ENABLE(event, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// The counter's value.
    pub(crate) fn count(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        // SAFETY: the buffer has the length given.
        let read =
            unsafe { libc::read(self.fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        if read == 8 { Ok(u64::from_ne_bytes(bytes)) } else { Err(io::Error::last_os_error()) }
    }

    /// The descriptor's number.
    pub(crate) fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for PerfEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
