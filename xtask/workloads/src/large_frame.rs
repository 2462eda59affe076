//! Threads that sleep below a function whose frame is larger than what is sent of a stack.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, anyhow};

/// As rustc has one.
const FRAME_BYTES: usize = 600 << 10;

/// The first thread and another each sleep so many times; prints the process's id.
pub(crate) fn run(times: u64) -> Result<()> {
    let other = std::thread::spawn(move || large_frame(times));
    large_frame(times);
    other.join().map_err(|_| anyhow!("the other thread panicked"))?;
    println!("{{\"pid\":{}}}", std::process::id());
    Ok(())
}

#[inline(never)]
fn large_frame(times: u64) {
    let mut room = [1_u8; FRAME_BYTES];
    black_box(&mut room);
    sleep_below(times);
    black_box(&mut room);
}

#[inline(never)]
fn sleep_below(times: u64) {
    for _ in 0..times {
        std::thread::sleep(Duration::from_millis(1));
    }
    black_box(times);
}
