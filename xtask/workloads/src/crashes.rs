//! Programs that crash, each in its own way, on a thread of a pool, and one that only says so.

use std::hint::black_box;
use std::io;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use syscollect_usdt_client::{crash, message, set_thread_name, zone};

use crate::hostile_claims::SharedArena;
use crate::instrumented::wait_for_recorder;
use crate::system::tid;

/// Threads of the pool.
const THREADS: usize = 4;
/// What a recorder has to take over the rings in.
const BEGINNING: Duration = Duration::from_millis(400);

/// Crashes so, and says before which thread will. What is `silent` has no handler and no marks.
pub(crate) fn run(how: &str) -> Result<()> {
    allow_core_dumps()?;
    if how == "silent" {
        say(how);
        crashes_here(how);
    }
    wait_for_recorder()?;
    crash::install();
    let pool: Vec<_> = (0..THREADS).map(|number| begin(number, how.to_owned())).collect();
    for thread in pool {
        ensure!(thread?.join().is_ok(), "a thread of the pool panicked");
    }
    bail!("nothing crashed")
}

/// Threads of a pool, of which the last one crashes. A program in C has no handler's stack on its
/// threads: one of the ways is of such a thread.
fn begin(number: usize, how: String) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(format!("pool {number}")).spawn(move || {
        if number + 1 == THREADS && how == "bare overflow" {
            return bare_thread();
        }
        works(number, &how);
    })
}

fn works(number: usize, how: &str) {
    set_thread_name(&format!("pool {number}"));
    let _job = zone!("job");
    std::thread::sleep(BEGINNING);
    if number + 1 < THREADS {
        loop {
            let _step = zone!("step");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let _step = zone!("last step");
    message!("about to crash: {how}");
    say(how);
    crashes_here(how.trim_start_matches("bare "));
}

/// A thread without a stack for handlers of signals.
fn bare_thread() {
    extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
        works(THREADS - 1, "bare overflow");
        null_mut()
    }
    // SAFETY: the thread is given nothing, and waited for.
    unsafe {
        let mut thread = 0;
        if libc::pthread_create(&raw mut thread, std::ptr::null(), run, null_mut()) == 0 {
            libc::pthread_join(thread, null_mut());
        }
    }
}

fn say(how: &str) {
    println!(r#"{{"how":"{how}","pid":{},"tid":{}}}"#, std::process::id(), tid());
}

#[inline(never)]
fn crashes_here(how: &str) {
    match how {
        // SAFETY: none: the crash is what is wanted. Nothing is mapped there.
        "segv" | "silent" => unsafe { (0x1230 as *mut u64).write_volatile(1) },
        "abort" => std::process::abort(),
        "overflow" => {
            black_box(overflows_here(1));
        }
        "panic in a panic" => {
            let _panics = PanicsInPanics;
            panic!("the first");
        }
        _ => {}
    }
    black_box(());
}

#[inline(never)]
fn overflows_here(depth: u64) -> u64 {
    let frame = black_box([depth; 256]);
    if depth == 0 { 0 } else { overflows_here(depth + 1) + frame[1] }
}

struct PanicsInPanics;

impl Drop for PanicsInPanics {
    fn drop(&mut self) {
        panic!("the second");
    }
}

/// Claims crashes without end for so long, in the second half as another thread, and goes on.
pub(crate) fn claim(victim: u32, time: Duration) -> Result<()> {
    wait_for_recorder()?;
    // SAFETY: plain numbers.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_IGN) };
    crash::install();
    let mut made = 0u64;
    let mut other = false;
    let begun = Instant::now();
    while begun.elapsed() < time {
        // SAFETY: plain numbers; the handler goes on, because the signal was ignored before.
        unsafe { libc::raise(libc::SIGSEGV) };
        made += 1;
        std::thread::sleep(Duration::from_micros(50));
        if !other && begun.elapsed() > time / 2 {
            SharedArena::of_this_process()?.claim_first(victim)?;
            other = true;
        }
    }
    println!(r#"{{"pid":{},"claims":{made}}}"#, std::process::id());
    Ok(())
}

/// As large as this user may have them.
fn allow_core_dumps() -> Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing, then for reading.
    let status = unsafe {
        libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_CORE, &raw const limit)
    };
    ensure!(status == 0, "core dumps cannot be allowed");
    Ok(())
}
