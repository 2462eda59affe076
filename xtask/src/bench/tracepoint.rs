//! What an event of a kernel tracepoint costs who fires it.
//!
//! The tracepoint is the one of renamed threads, which needs no driver; the
//! program at it is the one that records GPU drivers' tracepoints, too.

use std::io;

use anyhow::{Context as _, Result, ensure};
use syscollect_capture::{AtTracepoint, TracepointCost};

use super::table::{median, spread};

const TRACEPOINT: &str = "task:task_rename";
/// Events of a round: they fit into one lane.
const EVENTS: u64 = 20_000;
/// Before each round, so that what was just attached is warm.
const WARM_UP: u64 = 500;
const WAYS: [(AtTracepoint, &str); 3] = [
    (AtTracepoint::Nothing, "no program"),
    (AtTracepoint::EmptyProgram, "an empty program"),
    (AtTracepoint::Recording, "recorded"),
];

/// Measures all ways by turns; the table as Markdown.
pub(super) fn cost(rounds: usize) -> Result<String> {
    let tracepoint = TRACEPOINT.parse().map_err(anyhow::Error::msg)?;
    let mut tracepoint = TracepointCost::of(&tracepoint)?;
    // On a thread of its own, because it stays on one CPU.
    let measured = std::thread::spawn(move || measure(&mut tracepoint, rounds));
    let times =
        measured.join().map_err(|_| anyhow::Error::msg("the measuring thread panicked"))??;
    Ok(render(&times))
}

/// Nanoseconds of CPU time for an event in each round, by way.
fn measure(tracepoint: &mut TracepointCost, rounds: usize) -> Result<[Vec<f64>; 3]> {
    stay_here()?;
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..rounds {
        for ((what, title), times) in WAYS.iter().zip(&mut times) {
            let (time, recorded) = tracepoint.with(*what, || {
                rename(WARM_UP)?;
                let before = cpu_ns();
                rename(EVENTS)?;
                Ok::<_, io::Error>((cpu_ns() - before) / EVENTS as f64)
            })?;
            let expected = if *what == AtTracepoint::Recording { EVENTS + WARM_UP } else { 0 };
            ensure!(
                recorded >= expected,
                "{recorded} of {expected} events were recorded ({title})"
            );
            times.push(time.context("cannot rename this thread")?);
        }
    }
    Ok(times)
}

fn render(times: &[Vec<f64>; 3]) -> String {
    let mut out = String::from(
        "| at the tracepoint | ns for each call | ratio to an empty program (spread) | ns above an \
         empty program |\n\
         |---|---|---|---|\n",
    );
    for ((_, title), way) in WAYS.iter().zip(times) {
        let pairs = way.iter().zip(&times[1]);
        let ratios: Vec<f64> = pairs.clone().map(|(time, empty)| time / empty).collect();
        let above: Vec<f64> = pairs.map(|(time, empty)| time - empty).collect();
        let (low, high) = spread(&ratios);
        let (time, ratio, above) = (median(way.clone()), median(ratios), median(above));
        out +=
            &format!("| {title} | {time:.0} | {ratio:.3} ({low:.3} to {high:.3}) | {above:.1} |\n");
    }
    out
}

/// Keeps the thread on the CPU that it is on.
fn stay_here() -> Result<()> {
    // SAFETY: a set of CPUs is plain bits, of which all zero is the empty one; the calls take it
    // and its size.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    ensure!(done == 0, "cannot stay on one CPU: {}", io::Error::last_os_error());
    Ok(())
}

/// Renames this thread so many times. A plain loop, which takes next to nothing in a debug build,
/// too.
fn rename(times: u64) -> io::Result<()> {
    let mut left = times;
    while left > 0 {
        // SAFETY: the name is a string with an end, which the kernel copies.
        if unsafe { libc::prctl(libc::PR_SET_NAME, c"bench".as_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        left -= 1;
    }
    Ok(())
}

/// CPU time of this thread.
fn cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a clock that every thread has, and room for its time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
