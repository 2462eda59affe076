//! x86-64.

use libc::c_long;

/// The counter of ticks now.
#[inline]
pub(crate) fn counter() -> u64 {
    // SAFETY: rdtsc has no preconditions on x86-64; whether user code may execute it was found out
    // when the source was chosen.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// What /proc/cpuinfo says (`flags`) of a CPU whose counter never changes its rate.
pub(crate) const INVARIANT_COUNTER: [&str; 2] = ["constant_tsc", "nonstop_tsc"];

/// The PMU that counts it for the kernel programs (below /), and its event: in text, and as a
/// number.
pub(crate) const COUNTER_PMU: &str = "sys/bus/event_source/devices/msr";
pub(crate) const COUNTER_EVENT: &str = "event=0x00";
pub(crate) const COUNTER_CONFIG: u64 = 0;

/// The kernel's variable that counts interrupts, before 6.2 and since 6.15.
pub(crate) const PREEMPT_COUNT: &str = "__preempt_count";
/// The structure that has it from 6.2 to 6.14 (arch/x86/include/asm/current.h), and where.
pub(crate) const HOT: &str = "pcpu_hot";
pub(crate) const PREEMPT_COUNT_IN_HOT: u64 = 8;

/// The folder of libraries, in distributions that have one for each CPU.
pub(crate) const LIBRARIES: &str = "x86_64-linux-gnu";

/// Calls that newer CPUs never had: what no recorder does once it records,
pub(crate) const NEVER_WHILE_RECORDING: &[c_long] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_mknod];

/// and what naming and exporting may do.
pub(crate) const NAMING_AND_EXPORTING: &[c_long] = &[
    libc::SYS_alarm,
    // As fork(3) of musl does it.
    libc::SYS_fork,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_time,
    libc::SYS_getrlimit,
    libc::SYS_arch_prctl,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_unlink,
    libc::SYS_mkdir,
];
