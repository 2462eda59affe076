//! Threads that wait in a known function.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::system::clock_ns;

const THREADS: usize = 4;

/// Waits for so many seconds on each of four threads; prints how long they waited.
pub(crate) fn run(seconds: u64) -> Result<()> {
    let end = clock_ns(libc::CLOCK_MONOTONIC) + seconds * 1_000_000_000;
    let waiting = || {
        let mut waited = 0;
        let mut now = clock_ns(libc::CLOCK_MONOTONIC);
        while now < end {
            waits_here(black_box(Duration::from_millis(20)));
            let then = now;
            now = clock_ns(libc::CLOCK_MONOTONIC);
            waited += now - then;
        }
        waited
    };
    let waited: u64 = thread::scope(|threads| {
        let started: Vec<_> = (0..THREADS).map(|_| threads.spawn(waiting)).collect();
        started.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    println!("{{\"pid\":{},\"waited_ns\":{waited}}}", std::process::id());
    Ok(())
}

#[inline(never)]
fn waits_here(time: Duration) {
    thread::sleep(time);
    // It is no last call, so that it stays in the stack.
    black_box(());
}
