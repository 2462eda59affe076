//! The few system calls that the loads make.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The time stamp counter, with everything before done and nothing after begun.
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both instructions are part of every x86-64 processor.
    unsafe {
        use core::arch::x86_64::{_mm_lfence, _rdtsc};
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
    #[cfg(not(target_arch = "x86_64"))]
    compile_error!("the loads read the TSC");
}

/// Binds the calling thread to one CPU.
pub(crate) fn pin(cpu: usize) -> Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set; CPU_SET checks the index
    // against the set's size; sched_setaffinity reads the set only.
    let status = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error()).with_context(|| format!("cannot run on CPU {cpu}"))
    }
}

/// A line of /proc/meminfo, in bytes.
pub(crate) fn meminfo(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kilobytes.with_context(|| format!("/proc/meminfo has no {name}"))? << 10)
}

/// The calling thread's id.
pub(crate) fn tid() -> libc::pid_t {
    // SAFETY: gettid takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// CPU time in nanoseconds by one of the CPU clocks (`CLOCK_THREAD_CPUTIME_ID`, ...).
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing; a constant clock id cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until then, by the clock that only goes forward.
pub(crate) fn sleep_until(ns: u64) {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    let at = libc::TIMER_ABSTIME;
    // SAFETY: the time outlives the call. A signal ends it early: whoever waits looks again.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, at, &raw const time, std::ptr::null_mut());
    }
}

/// User and system time of `RUSAGE_SELF` or `RUSAGE_CHILDREN`, nanoseconds.
pub(crate) fn usage_ns(who: libc::c_int) -> u64 {
    // SAFETY: rusage is plain data, and `usage` is valid for writing.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    rusage_ns(&usage)
}

/// User and system time of a filled `rusage`, nanoseconds.
pub(crate) fn rusage_ns(usage: &libc::rusage) -> u64 {
    nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime)
}

fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}

/// Voluntary and involuntary context switches of the calling process so far.
fn switches() -> Result<u64> {
    let status =
        fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
    counts
        .map(|line| {
            line.split_whitespace().last().unwrap_or("").parse::<u64>().context("an odd count")
        })
        .sum()
}

/// A moment at which the process's number of context switches is known exactly:
/// the counts read before and after it agree.
pub(crate) fn switches_now() -> Result<(u64, u64)> {
    let mut before = switches()?;
    loop {
        let at = ticks();
        let after = switches()?;
        if before == after {
            return Ok((at, after));
        }
        before = after;
    }
}

/// Gives up all rights but those of that user, who may be nobody.
pub(crate) fn become_user(user: libc::uid_t) -> Result<()> {
    // SAFETY: an empty list of groups, and plain numbers.
    let failed = unsafe {
        libc::setgroups(0, std::ptr::null()) != 0
            || libc::setresgid(user, user, user) != 0
            || libc::setresuid(user, user, user) != 0
            // As of a program that the user has started; one that changed its user is hidden
            // otherwise.
            || libc::prctl(libc::PR_SET_DUMPABLE, 1) != 0
    };
    if failed {
        anyhow::bail!("cannot become user {user}: {}", std::io::Error::last_os_error());
    }
    Ok(())
}

/// Runs this program with these arguments from a copy that lies in memory alone.
pub(crate) fn run_from_memory(arguments: &[String]) -> Result<Infallible> {
    // SAFETY: the name ends with a zero byte.
    let descriptor = unsafe { libc::memfd_create(c"load".as_ptr(), 0) };
    ensure!(descriptor >= 0, "no file in memory: {}", io::Error::last_os_error());
    // SAFETY: nobody else has it.
    let mut copy = unsafe { File::from_raw_fd(descriptor) };
    io::copy(&mut File::open("/proc/self/exe")?, &mut copy)?;
    // Read again: what is open for writing cannot be run.
    let path = format!("/proc/self/fd/{descriptor}");
    let program = File::open(&path)?;
    drop(copy);
    let path = format!("/proc/self/fd/{}", program.as_raw_fd());
    let error = Command::new(path).args(arguments).exec();
    Err(error).context("the copy in memory cannot be run")
}
