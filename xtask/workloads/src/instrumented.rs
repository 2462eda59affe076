//! Loads that mark what they do, and say how often.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use syscollect_usdt_client::lock::Mutex;
use syscollect_usdt_client::{
    Counter, alloc, frame, frame_mark, message, plot, set_thread_name, zone,
};

use crate::bracket::{BURST, PAUSE};
use crate::system::{pin, tid};

/// How long a load waits for a recorder.
const PATIENCE: Duration = Duration::from_secs(20);
/// Turns of [`numbered`] that were done.
static TURNS: Counter = Counter::new("turns done", "");

/// Marks `count` zones on each of `threads` threads, as fast as they come.
pub(crate) fn many(threads: u64, count: u64) -> Result<()> {
    wait_for_recorder()?;
    let running: Vec<_> =
        (0..threads).map(|_| std::thread::spawn(move || mark_turns(count))).collect();
    for thread in running {
        if thread.join().is_err() {
            bail!("a thread panicked");
        }
    }
    // Rings are taken over while the program lives.
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}

fn mark_turns(count: u64) {
    for _ in 0..count {
        let _zone = zone!("turn");
    }
    println!(r#"{{"tid":{},"zones":{count}}}"#, tid());
}

/// Marks zones with the numbers 1, 2, 3 ... until it is killed or `seconds` are over; around them,
/// one zone from when it is first recorded until its end. The number of the last zone that has
/// ended stands in the file, as text of 20 digits.
pub(crate) fn numbered(file: &str, seconds: u64) -> Result<()> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(file)?;
    set_thread_name("marker");
    let begun = Instant::now();
    let mut whole = None;
    let mut number = 0u64;
    while begun.elapsed() < Duration::from_secs(seconds) {
        number += 1;
        if whole.is_none() && syscollect_usdt_client::enabled() {
            whole = Some(zone!("whole"));
        }
        {
            let turn = zone!("numbered");
            turn.value(number);
            plot!("number", number);
            std::thread::sleep(Duration::from_micros(50));
        }
        TURNS.add(1);
        if number.is_multiple_of(1000) {
            message!("{number} turns");
        }
        file.write_all_at(format!("{number:020}").as_bytes(), 0)?;
    }
    println!(r#"{{"tid":{},"numbers":{number}}}"#, tid());
    Ok(())
}

/// Two threads that mark what they do in all ways, for so long: zones with values within others, a
/// plot, messages, a lock that they take by turns, frames that follow each other and frames with
/// gaps, and memory that each holds for a turn.
pub(crate) fn everything(seconds: u64) -> Result<()> {
    wait_for_recorder()?;
    let shared = Mutex::named("shared", 0u64);
    std::thread::scope(|threads| {
        for name in ["one", "other"] {
            let shared = &shared;
            threads.spawn(move || {
                set_thread_name(name);
                let _whole = zone!("everything");
                let mut held = ReportedBlock::new(1);
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_secs(seconds) {
                    let turn = zone!("turn");
                    let Ok(mut number) = shared.lock() else { return };
                    frame_mark!("turns");
                    let frame = frame!("held");
                    *number += 1;
                    held.give_way_to(*number as usize % 1_000 + 1);
                    turn.value(*number);
                    plot!("turns", *number);
                    if number.is_multiple_of(16) {
                        message!("{} turns", *number);
                    }
                    drop(frame);
                    drop(number);
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
        }
    });
    // Rings are taken over while the program lives.
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}

/// Memory that is reported while it is there.
struct ReportedBlock(Box<[u8]>);

impl ReportedBlock {
    fn new(bytes: usize) -> Self {
        let block = vec![0; bytes].into_boxed_slice();
        alloc::allocated(block.as_ptr(), bytes);
        Self(block)
    }

    /// Another one is there from now on. For a moment both are.
    fn give_way_to(&mut self, bytes: usize) {
        *self = Self::new(bytes);
    }
}

impl Drop for ReportedBlock {
    fn drop(&mut self) {
        alloc::freed(self.0.as_ptr());
    }
}

/// Begins a zone, sets a plot, and takes a lock for which another thread waits; then nothing more
/// for so long.
pub(crate) fn silent(seconds: u64) -> Result<()> {
    wait_for_recorder()?;
    let registry = Mutex::named("registry", ());
    set_thread_name("holder");
    let held = registry.lock();
    plot!("connections", 42);
    let _stuck = zone!("stuck");
    println!(r#"{{"tid":{}}}"#, tid());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            set_thread_name("waiter");
            let _waiting = zone!("waiting");
            drop(registry.lock());
        });
        std::thread::sleep(Duration::from_secs(seconds));
        drop(held);
    });
    Ok(())
}

/// Renames this thread `count` times on each CPU, each time within a zone.
pub(crate) fn ordered(count: u64, cpus: &[usize]) -> Result<()> {
    wait_for_recorder()?;
    for &cpu in cpus {
        pin(cpu)?;
        for index in 0..count {
            if index % BURST == BURST - 1 {
                std::thread::sleep(PAUSE);
            }
            let name = std::ffi::CString::new(format!("z-{index}"))?;
            let _zone = zone!("around");
            // SAFETY: the name is a string with an end, which PR_SET_NAME copies.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        }
    }
    println!(r#"{{"tid":{}}}"#, tid());
    // Rings are taken over while the program lives.
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}

pub(crate) fn wait_for_recorder() -> Result<()> {
    let begun = Instant::now();
    while !syscollect_usdt_client::enabled() {
        if begun.elapsed() > PATIENCE {
            bail!("nobody records");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
