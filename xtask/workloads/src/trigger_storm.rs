//! Causes of triggers at a rate, of four kinds, each of them counted: zones that take too long,
//! hits of a probe, signals, and processes that end with a code.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syscollect_usdt_client::zone;

use crate::instrumented::wait_for_recorder;
use crate::system::tid;
use crate::usdt::probe;

/// What the program is called whose processes end, and with which code they do.
const NAME: &std::ffi::CStr = c"storming";
const CODE: libc::c_int = 7;
/// The signal that it sends itself, and ignores.
const SIGNAL: libc::c_int = 47;
/// What a zone takes at least that is too long.
const LONG: Duration = Duration::from_micros(2);
/// How often it is looked how many causes are due.
const TURN: Duration = Duration::from_millis(1);
/// Of 20 causes so many are zones, hits and signals; the one that remains is an end.
const ZONES: u64 = 6;
const HITS: u64 = 7;
const SIGNALS: u64 = 6;
const ENDS: u64 = 1;
const ROUND: u64 = ZONES + HITS + SIGNALS + ENDS;
/// How long it lives on, so that what it marked is taken over.
const AFTERWARDS: Duration = Duration::from_millis(300);

/// Causes `rate` a second for so long, and catches up where it was kept from its CPU; prints how
/// many of each kind, and in which time.
pub(crate) fn run(rate: u64, seconds: u64) -> Result<()> {
    wait_for_recorder()?;
    // The first zone of a thread makes its ring, which takes its time.
    drop(zone!("first"));
    // SAFETY: the name is a string with an end; a signal that is ignored does nothing.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        libc::signal(SIGNAL, libc::SIG_IGN);
    }
    let length = Duration::from_secs(seconds);
    let (begun, mut rounds) = (Instant::now(), 0);
    loop {
        let elapsed = begun.elapsed().min(length);
        let due = (elapsed.as_secs_f64() * rate as f64) as u64 / ROUND;
        while rounds < due {
            round(rounds)?;
            rounds += 1;
        }
        if elapsed == length {
            break;
        }
        std::thread::sleep(TURN);
    }
    let took = begun.elapsed();
    std::thread::sleep(AFTERWARDS);
    println!(
        r#"{{"tid":{},"zones":{},"hits":{},"signals":{},"ends":{},"wall_ns":{}}}"#,
        tid(),
        rounds * ZONES,
        rounds * HITS,
        rounds * SIGNALS,
        rounds * ENDS,
        took.as_nanos()
    );
    Ok(())
}

fn round(number: u64) -> Result<()> {
    (0..ZONES).for_each(|_| too_long());
    (0..HITS).for_each(|_| hit(black_box(number)));
    for _ in 0..SIGNALS {
        // SAFETY: it takes numbers.
        unsafe { libc::kill(libc::getpid(), SIGNAL) };
    }
    (0..ENDS).try_for_each(|_| end_a_process())
}

fn too_long() {
    let _zone = zone!("storm");
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        std::hint::spin_loop();
    }
}

#[inline(never)]
fn hit(number: u64) {
    probe!("storm", "hit", "8@%rdi", number);
}

/// One that shares this one's memory, so that it is there in microseconds, and ends at once.
fn end_a_process() -> Result<()> {
    extern "C" fn ends(_: *mut libc::c_void) -> libc::c_int {
        CODE
    }
    let mut stack = [0u128; 512];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child has a stack of its own, which is there until it has ended, and touches
    // nothing else.
    let child = unsafe {
        let end = stack.as_mut_ptr_range().end;
        libc::clone(ends, end.cast(), flags, std::ptr::null_mut())
    };
    ensure!(child > 0, "cannot start a process: {}", std::io::Error::last_os_error());
    // SAFETY: it is a child of this process that nobody else waits for.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
    Ok(())
}
