//! A program that says of its threads that they are others: of a number that nobody has yet, and of
//! one that a program of somebody else has.
//!
//! It is instrumented like any other, and then writes into the memory that it shares.

use std::fs::{self, File};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use syscollect_usdt_client::testing::arena_descriptor;
use syscollect_usdt_client::{message, set_thread_name, zone};
use syscollect_zone_protocol::arena::{ArenaHeader, HEADER_STRIDE, HEADERS_OFFSET, RingHeader};

use crate::instrumented::wait_for_recorder;

/// Threads, each of which claims a number.
const THREADS: u32 = 400;
/// Between zones of a thread.
const PAUSE: Duration = Duration::from_millis(20);
/// What threads have to have a ring in, and the recorder to take it over.
const BEGINNING: Duration = Duration::from_millis(500);
/// Numbers that programs have which begin until a recorder has heard of the claims.
const PASSED_OVER: u32 = 100;

/// Marks zones on many threads until its input ends. When the recorder has all of them, one claims
/// to be thread `victim`, and the others those that begin next.
pub(crate) fn run(victim: u32) -> Result<()> {
    wait_for_recorder()?;
    for _ in 0..THREADS {
        std::thread::Builder::new().stack_size(64 << 10).spawn(mark)?;
    }
    std::thread::sleep(BEGINNING);
    let first = next_numbers()?;
    let arena = SharedArena::of_this_process()?;
    let rings = arena.word(offset_of!(ArenaHeader, rings))?;
    ensure!(rings >= THREADS, "there are {rings} rings of {THREADS} threads");
    arena.claim(0, victim)?;
    (1..rings).try_for_each(|ring| arena.claim(ring, first + ring - 1))?;
    arena.add(offset_of!(ArenaHeader, claims))?;
    println!(r#"{{"first":{first},"last":{}}}"#, first + rings - 2);
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn mark() {
    loop {
        set_thread_name("claimed");
        let _zone = zone!("claimed");
        message!("claimed");
        std::thread::sleep(PAUSE);
    }
}

/// The first of as many numbers as there are claims, none of which is any thread's.
fn next_numbers() -> Result<u32> {
    let most: u32 = fs::read_to_string("/proc/sys/kernel/pid_max")?.trim().parse()?;
    loop {
        // The number that was given last.
        let load = fs::read_to_string("/proc/loadavg")?;
        let last: u32 = load.split_ascii_whitespace().last().context("nothing")?.parse()?;
        let first = last + PASSED_OVER;
        let is_free = |number: u32| !fs::exists(format!("/proc/{number}")).unwrap_or(true);
        if first + THREADS < most && (first..first + THREADS).all(is_free) {
            return Ok(first);
        }
        if std::thread::spawn(|| {}).join().is_err() {
            bail!("a thread panicked");
        }
    }
}

/// The arena of this process as a file.
pub(crate) struct SharedArena(File);

impl SharedArena {
    pub(crate) fn of_this_process() -> Result<Self> {
        let descriptor = arena_descriptor().context("this process has no arena")?;
        let path = format!("/proc/self/fd/{descriptor}");
        Ok(Self(File::options().read(true).write(true).open(path)?))
    }

    /// Says that the first ring is that thread's.
    pub(crate) fn claim_first(&self, tid: u32) -> Result<()> {
        self.claim(0, tid)?;
        self.add(offset_of!(ArenaHeader, claims))
    }

    fn word(&self, offset: usize) -> Result<u32> {
        let mut bytes = [0; 4];
        self.0.read_exact_at(&mut bytes, offset as u64)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn write(&self, offset: usize, word: u32) -> Result<()> {
        Ok(self.0.write_all_at(&word.to_le_bytes(), offset as u64)?)
    }

    fn add(&self, offset: usize) -> Result<()> {
        self.write(offset, self.word(offset)?.wrapping_add(1))
    }

    /// Says that another thread has taken the ring, of that number.
    fn claim(&self, ring: u32, tid: u32) -> Result<()> {
        let header = HEADERS_OFFSET + ring as usize * HEADER_STRIDE;
        self.write(header + offset_of!(RingHeader, tid), tid)?;
        self.add(header + offset_of!(RingHeader, owner))
    }
}
