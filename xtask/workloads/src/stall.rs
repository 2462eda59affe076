//! What a trigger is to see, and what only comes near it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use syscollect_usdt_client::{message, plot, zone};

use crate::instrumented::wait_for_recorder;
use crate::system::{pin, ticks, tid};

/// How long a program that marks something lives on, so that its ring is taken over.
const AFTERWARDS: Duration = Duration::from_millis(300);

/// Does one thing of a size, and says which thread did it and when it was over, in ticks.
pub(crate) fn run(what: &str, size: u64) -> Result<()> {
    let time = Duration::from_millis(size);
    match what {
        "zone" => marked(|| {
            let _zone = zone!("request");
            std::thread::sleep(time);
        }),
        "message" => marked(|| message!("alarm {size}")),
        "plot" => marked(|| plot!("queue length", size)),
        "function" => {
            // Another function that is probed may take as long as it wants.
            syscollect_stalls_too(if size < 100 { 300 } else { 1 });
            syscollect_stalls(size);
            report();
            Ok(())
        }
        "blocked" => join(named("sleeper", move || {
            std::thread::sleep(time);
            report();
            Ok(())
        })?),
        "starved" => starve(time),
        "exit" => {
            report();
            std::process::exit(i32::try_from(size).context("no exit code")?)
        }
        "abort" => {
            report();
            std::process::abort()
        }
        _ => bail!("nothing called {what} can be done"),
    }
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

fn marked(work: impl FnOnce()) -> Result<()> {
    wait_for_recorder()?;
    // The first zone of a thread makes its ring, which takes its time.
    drop(zone!("first"));
    work();
    report();
    std::thread::sleep(AFTERWARDS);
    Ok(())
}

/// A thread computes at the lowest priority, and another of the highest keeps it from its CPU for
/// that time; for less than 100 ms both have the usual one.
fn starve(time: Duration) -> Result<()> {
    const CPU: usize = 0;
    // For a moment both have the CPU as others have it, whatever else runs there.
    let is_starving = time >= Duration::from_millis(100);
    let is_over = Arc::new(AtomicBool::new(false));
    let starved = {
        let is_over = Arc::clone(&is_over);
        named("starved", move || {
            pin(CPU)?;
            if is_starving {
                be_nice(19)?;
            }
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            report();
            Ok(())
        })?
    };
    std::thread::sleep(Duration::from_millis(200));
    pin(CPU)?;
    if is_starving {
        be_nice(-20)?;
    }
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
    is_over.store(true, Ordering::Relaxed);
    join(starved)
}

/// A thread that the kernel knows by this name.
fn named(
    name: &str,
    work: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<JoinHandle<Result<()>>> {
    Ok(std::thread::Builder::new().name(name.to_owned()).spawn(work)?)
}

fn join(thread: JoinHandle<Result<()>>) -> Result<()> {
    match thread.join() {
        Ok(ended) => ended,
        Err(_) => bail!("a thread panicked"),
    }
}

/// Of the calling thread alone, as Linux has it.
fn be_nice(nice: libc::c_int) -> Result<()> {
    // SAFETY: it takes numbers.
    let set = unsafe { libc::setpriority(libc::PRIO_PROCESS, tid() as libc::id_t, nice) };
    if set != 0 {
        bail!("cannot set the priority {nice}: {}", std::io::Error::last_os_error());
    }
    Ok(())
}

fn report() {
    println!(r#"{{"tid":{},"ticks":{}}}"#, tid(), ticks());
}
