//! What a trigger is to see, and what only comes near it.

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use syscollect_usdt_client::{AsyncZone, frame, frame_mark, location, message, plot, zone};

use crate::instrumented::wait_for_recorder;
use crate::system::{meminfo, pin, ticks, tid};
use crate::usdt::probe;

/// How long a program that marks something lives on, so that its ring is taken over.
const AFTERWARDS: Duration = Duration::from_millis(300);
/// So often something takes as long as it usually does: a recorder asks for 100.
const USUAL_TIMES: u32 = 110;
const USUAL_TIME: Duration = Duration::from_millis(20);
/// A recorder looks what is usual no more often than each second.
const UNTIL_KNOWN: Duration = Duration::from_millis(1_200);

/// Does one thing of a size, and says which thread did it, and when it began and was over, in
/// ticks. A thread of that name does it, or a program where it is one that ends, or that sends a
/// message.
pub(crate) fn run(what: &str, size: u64, name: &str) -> Result<()> {
    let time = Duration::from_millis(size);
    match what {
        "zone" => marked(|| {
            let _zone = zone!("request");
            std::thread::sleep(time);
        }),
        "other-zone" => marked(|| {
            let _zone = zone!("requests");
            std::thread::sleep(time);
        }),
        "async-zone" => {
            wait_for_recorder()?;
            let zone = AsyncZone::begin(location!("upload"));
            // It ends on another thread than it began.
            join(named("uploads", move || {
                marked(|| {
                    std::thread::sleep(time);
                    drop(zone);
                })
            })?)
        }
        "usual" => marked(|| {
            (0..USUAL_TIMES).for_each(|_| takes(USUAL_TIME));
            std::thread::sleep(UNTIL_KNOWN);
            takes(time);
        }),
        "unusual" => marked(|| takes(time)),
        "frame" => marked(|| {
            let _frame = frame!("render");
            std::thread::sleep(time);
        }),
        "other-frame" => marked(|| {
            let _frame = frame!("rendering");
            std::thread::sleep(time);
        }),
        "main-frame" => marked(|| {
            frame_mark!();
            std::thread::sleep(time);
            frame_mark!();
        }),
        "mark" => marked(|| {
            std::thread::sleep(time);
            frame_mark!("render");
        }),
        "message" => {
            call_program(name)?;
            marked(|| message!("alarm {size}"))
        }
        "plot" => marked(|| [size, size, size + 7].into_iter().for_each(set_queue)),
        "other-plot" => marked(|| plot!("queue lengths", size)),
        "level" => marked(|| plot!("level", -(size as f64) / 10.0)),
        "function" => {
            // Another function that is probed may take as long as it wants.
            syscollect_stalls_too(800);
            let began = ticks();
            syscollect_stalls(size);
            report(began);
            Ok(())
        }
        "pair" => {
            let began = ticks();
            request_start(size);
            std::thread::sleep(time);
            request_done(size);
            report(began);
            Ok(())
        }
        // What began on one thread does not end on another.
        "pair-of-threads" => {
            let begins = named(name, move || {
                request_start(size);
                std::thread::sleep(2 * time);
                Ok(())
            })?;
            std::thread::sleep(time);
            request_done(size);
            report(ticks());
            join(begins)
        }
        // Each is over when the next begins, though nothing says so.
        "pairs-left-open" => {
            (0..100).for_each(request_start);
            std::thread::sleep(time);
            for id in 0..10 {
                request_start(id);
                request_done(id);
            }
            report(ticks());
            Ok(())
        }
        "entered" => at_once(|| syscollect_enters(size)),
        "other-entered" => at_once(|| syscollect_enters_too(size)),
        "opened" => at_once(|| opened(PATHS[size as usize % PATHS.len()])),
        "answered" => at_once(|| answered(size)),
        "owed" => at_once(|| owed((size as i64).wrapping_neg() as u64)),
        "sent" => at_once(|| {
            // SAFETY: they take numbers; a signal that is ignored does nothing.
            unsafe {
                libc::signal(size as libc::c_int, libc::SIG_IGN);
                libc::kill(libc::getpid(), size as libc::c_int);
            }
        }),
        "renamed" => {
            let name = CString::new(name)?;
            at_once(|| rename(&name))
        }
        "blocked" => join(named(name, move || {
            let began = ticks();
            std::thread::sleep(time);
            report(began);
            Ok(())
        })?),
        "uninterruptible" => join(named(name, move || {
            let began = ticks();
            wait_for_child(time)?;
            report(began);
            Ok(())
        })?),
        "starved" => starve(time, name),
        "memory" => use_memory(size),
        "exit" => {
            call_program(name)?;
            // The end of a thread is not that of its program.
            join(named("one that ends", || Ok(()))?)?;
            report(ticks());
            std::process::exit(i32::try_from(size).context("no exit code")?)
        }
        "signal" => {
            call_program(name)?;
            report(ticks());
            // SAFETY: they take numbers.
            unsafe {
                libc::signal(size as libc::c_int, libc::SIG_DFL);
                libc::kill(libc::getpid(), size as libc::c_int);
            }
            std::thread::sleep(AFTERWARDS);
            bail!("signal {size} did not end it")
        }
        "ignored-signal" => {
            call_program(name)?;
            // SAFETY: they take numbers.
            unsafe {
                libc::signal(size as libc::c_int, libc::SIG_IGN);
                libc::kill(libc::getpid(), size as libc::c_int);
            }
            report(ticks());
            Ok(())
        }
        "abort" => {
            call_program(name)?;
            report(ticks());
            std::process::abort()
        }
        _ => bail!("nothing called {what} can be done"),
    }
}

/// A zone of what has a usual duration.
fn takes(time: Duration) {
    let _zone = zone!("usual");
    std::thread::sleep(time);
}

fn set_queue(length: u64) {
    plot!("queue length", length);
}

/// Paths of which the first is asked for.
const PATHS: [&CStr; 4] = [c"/etc/passwd", c"/etc/passwd-", c"/etc/passw", c"/etc/Passwd"];

#[inline(never)]
fn opened(path: &CStr) {
    // Who opens a file has read its name. A probe reads only what is in memory, and brings no page
    // of a program that was built a moment ago.
    std::hint::black_box(path.to_bytes().iter().map(|byte| u32::from(*byte)).sum::<u32>());
    probe!("stall", "opened", "8@%rdi", path.as_ptr());
}

#[inline(never)]
fn answered(size: u64) {
    probe!("stall", "answered", "8@%rdi", size);
}

#[inline(never)]
fn owed(amount: u64) {
    probe!("stall", "owed", "-8@%rdi", amount);
}

#[inline(never)]
fn request_start(id: u64) {
    probe!("stall", "request__start", "8@%rdi", id);
}

#[inline(never)]
fn request_done(id: u64) {
    probe!("stall", "request__done", "8@%rdi", id);
}

/// Takes so many milliseconds.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn syscollect_stalls(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
    std::hint::black_box(milliseconds);
}

/// The same.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn syscollect_stalls_too(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
    std::hint::black_box(milliseconds + 1);
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn syscollect_enters(number: u64) {
    std::hint::black_box(number);
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn syscollect_enters_too(number: u64) {
    std::hint::black_box(number + 1);
}

fn marked(work: impl FnOnce()) -> Result<()> {
    wait_for_recorder()?;
    // The first zone of a thread makes its ring, which takes its time.
    drop(zone!("first"));
    at_once(work)?;
    std::thread::sleep(AFTERWARDS);
    Ok(())
}

fn at_once(work: impl FnOnce()) -> Result<()> {
    let began = ticks();
    work();
    report(began);
    Ok(())
}

/// A thread computes, and another one with a higher priority keeps it from its CPU for that time.
fn starve(time: Duration, name: &str) -> Result<()> {
    const CPU: usize = 0;
    let is_over = Arc::new(AtomicBool::new(false));
    let starved = {
        let is_over = Arc::clone(&is_over);
        named(name, move || {
            pin(CPU)?;
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            report(ticks());
            Ok(())
        })?
    };
    std::thread::sleep(Duration::from_millis(100));
    pin(CPU)?;
    come_first()?;
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
    is_over.store(true, Ordering::Relaxed);
    join(starved)
}

/// The calling thread runs before all that have no such priority. Threads that it starts do not.
fn come_first() -> Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters are read during the call only.
    let set = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &priority)
    };
    ensure!(set == 0, "cannot come first: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Starts a process in the way of vfork: until it ends, this thread waits for it so that no signal
/// but SIGKILL wakes it.
fn wait_for_child(time: Duration) -> Result<()> {
    extern "C" fn sleeps(time: *mut libc::c_void) -> libc::c_int {
        // SAFETY: it is the time below, of a thread that waits until this ends.
        let time = unsafe { *time.cast::<libc::timespec>() };
        // SAFETY: the time is valid for reading.
        unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
        0
    }
    let mut time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    let mut stack = vec![0u128; 4096];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child has a stack of its own, which lives longer than it does, and touches nothing
    // but what is given to it.
    let child = unsafe {
        let end = stack.as_mut_ptr_range().end;
        libc::clone(sleeps, end.cast(), flags, (&raw mut time).cast())
    };
    ensure!(child > 0, "cannot start a process: {}", std::io::Error::last_os_error());
    // SAFETY: it is a child of this process that nobody else waits for.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
    Ok(())
}

/// Takes memory until the machine uses so many MiB, and for a moment more.
fn use_memory(mebibytes: u64) -> Result<()> {
    let mut taken = Vec::new();
    loop {
        let used = (meminfo("MemTotal")? - meminfo("MemAvailable")?) >> 20;
        let Some(lack) = mebibytes.checked_sub(used).filter(|lack| *lack > 0) else { break };
        taken.push(vec![1u8; (lack as usize) << 20]);
    }
    std::hint::black_box(&taken);
    std::thread::sleep(AFTERWARDS);
    println!(r#"{{"tid":0,"mebibytes":{}}}"#, taken.iter().map(Vec::len).sum::<usize>() >> 20);
    Ok(())
}

/// A thread that the kernel knows by this name.
fn named(
    name: &str,
    work: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<JoinHandle<Result<()>>> {
    Ok(std::thread::Builder::new().name(name.to_owned()).spawn(work)?)
}

/// The program is called so from now on.
fn call_program(name: &str) -> Result<()> {
    rename(&CString::new(name)?);
    Ok(())
}

fn rename(name: &CStr) {
    // SAFETY: the name is a string with an end, which PR_SET_NAME copies.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn join(thread: JoinHandle<Result<()>>) -> Result<()> {
    match thread.join() {
        Ok(ended) => ended,
        Err(_) => bail!("a thread panicked"),
    }
}

/// This thread did it, from then until now.
fn report(began: u64) {
    println!(r#"{{"tid":{},"began":{began},"ticks":{}}}"#, tid(), ticks());
}
