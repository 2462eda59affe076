//! A flight recorder while an ordinary user computes on all CPUs: a snapshot is there in seconds all
//! the same, with names.

use std::fs;
use std::num::NonZero;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syscollect_store::{CaptureReader, Definition};

use super::context::{Context, NOBODY, finish, text};
use super::flight::{Flight, checked_whole};
use super::hostile_tasks::Programs;

/// Loops of the user for each CPU.
const LOOPS: usize = 4;
/// What they do.
const LOOP: &str = "while :; do :; done";
/// How long a snapshot may take: it is named for 8 s at most.
const LONGEST: Duration = Duration::from_secs(12);

/// Snapshots one after the other, and what they took.
pub(crate) fn busy(context: &Context) -> Result<String> {
    let (socket, folder) = (context.path("busy-socket"), context.path("flight-busy"));
    fs::create_dir(&folder)?;
    let flight = Flight::start_with(context, &socket, &folder, &[])?;
    let loops = busy_loops()?;
    std::thread::sleep(Duration::from_secs(3));
    let mut told = Vec::new();
    for number in 0..3 {
        let capture = context.path(&format!("busy-{number}.syscap"));
        let begun = Instant::now();
        let taken = finish(&mut flight.ask(&["snapshot", "-o", text(&capture)?]))?;
        let took = begun.elapsed();
        ensure!(taken.status.success(), "no snapshot: {}", taken.stderr);
        ensure!(took < LONGEST, "it took {took:.1?}");
        checked_whole(context, &capture)?;
        let names = names(&CaptureReader::open(&capture)?);
        let missing = taken.stderr.contains("names are missing");
        ensure!(names > 0 || missing, "it has no names, and does not say so: {}", taken.stderr);
        told.push(format!("{took:.1?} with {names} names"));
    }
    let many = loops.0.len();
    drop(loops);
    flight.stop()?;
    Ok(format!("beside {many} loops of another user: {}", told.join(", ")))
}

/// Another user computes on all CPUs.
pub(super) fn busy_loops() -> Result<Programs> {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut loops = Programs(Vec::new());
    for number in 0..LOOPS * cpus {
        // Some in sessions of their own, which the kernel may divide the CPUs among.
        match number % 2 {
            0 => loops.start_shell(&["/bin/sh"], LOOP, NOBODY)?,
            _ => loops.start_shell(&["/usr/bin/setsid", "/bin/sh"], LOOP, NOBODY)?,
        }
    }
    Ok(loops)
}

/// How many places have names.
fn names(reader: &CaptureReader) -> usize {
    let tables = reader.definitions().filter_map(|definition| match definition {
        Ok(Definition::Symbols(table)) => Some(table.symbols.len()),
        _ => None,
    });
    tables.sum()
}
