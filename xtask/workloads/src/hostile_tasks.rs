//! Threads that an ordinary user begins without end, and timers beside them: as many records of
//! tasks as there can be, and interrupts of whoever writes them.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::hostile::in_processes;
use crate::system::tid;

const PROCESSES: usize = 4;
const TIMER_NS: libc::c_long = 10_000;
/// Bytes of a thread's stack: as few as may be.
const THREAD_STACK: usize = 16_384;

/// Does harm in one way, for so long.
pub(crate) fn run(attack: &str, seconds: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let handler: extern "C" fn(i32) = ignored;
    // SAFETY: the handler does nothing.
    let before = unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    ensure!(before != libc::SIG_ERR, "cannot handle a signal");
    match attack {
        "threads" => in_processes(PROCESSES, || begin_threads(end)),
        "timers" => in_processes(PROCESSES, || be_interrupted(end)),
        _ => bail!("there is no attack {attack}"),
    }
}

extern "C" fn ignored(_: i32) {}

/// Begins threads, each of which sends a signal to the first and ends.
fn begin_threads(end: Instant) -> Result<()> {
    // SAFETY: an all-zero pthread_attr_t is a value of plain numbers that pthread_attr_init fills;
    // it is used by this thread alone.
    let attributes = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let failed = libc::pthread_attr_init(&raw mut attributes)
            | libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED)
            | libc::pthread_attr_setstacksize(&raw mut attributes, THREAD_STACK);
        ensure!(failed == 0, "no attributes of threads");
        attributes
    };
    let first = std::ptr::without_provenance_mut(tid() as usize);
    while Instant::now() < end {
        // SAFETY: `libc::pthread_t` is a number that may be written; the function takes a number
        // for a pointer. Where there are too many threads already, the next try is made at once.
        unsafe {
            let mut thread: libc::pthread_t = 0;
            libc::pthread_create(&raw mut thread, &raw const attributes, send_signal, first);
        }
    }
    Ok(())
}

extern "C" fn send_signal(to: *mut c_void) -> *mut c_void {
    // SAFETY: plain numbers; the thread is this process's first.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), to.addr(), libc::SIGUSR1) };
    std::ptr::null_mut()
}

/// Uses a CPU, and gets a signal by a timer each few microseconds.
fn be_interrupted(end: Instant) -> Result<()> {
    let interval = libc::timespec { tv_sec: 0, tv_nsec: TIMER_NS };
    let setting = libc::itimerspec { it_interval: interval, it_value: interval };
    // SAFETY: an all-zero sigevent is a valid value of plain numbers; all that is written lives
    // through the calls.
    let failed = unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGUSR1;
        let mut timer: libc::timer_t = std::mem::zeroed();
        libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0
            || libc::timer_settime(timer, 0, &raw const setting, std::ptr::null_mut()) != 0
    };
    if failed {
        bail!("no timer: {}", std::io::Error::last_os_error());
    }
    while Instant::now() < end {}
    Ok(())
}
