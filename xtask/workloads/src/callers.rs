//! Two callers of equal frame size share one burner, 30 to 70.
//!
//! A profiler that takes a stack for another because stack pointer and
//! instruction pointer are equal splits them wrongly. The burner calls a
//! function itself, so it has a frame and its caller stays in the chain of
//! frame pointers.

use std::hint::black_box;

use anyhow::Result;

use crate::system::clock_ns;

/// Burns CPU for so many seconds of CPU time; prints the truth.
pub(crate) fn run(seconds: u64) -> Result<()> {
    let end = seconds * 1_000_000_000;
    let (mut thirty, mut seventy) = (0, 0);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut now = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    while now < end {
        // An irregular order, so that no sampling period falls in step with it.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Long enough that reading the clock between is nothing, also where system calls are slow.
        let units = 2_000 + random % 1_000;
        let first = random >> 32 & 0xffff < 0xffff * 3 / 10;
        black_box(if first { caller_thirty(units) } else { caller_seventy(units) });
        let then = now;
        now = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        *(if first { &mut thirty } else { &mut seventy }) += now - then;
    }
    println!(
        "{{\"pid\":{},\"caller_thirty_ns\":{thirty},\"caller_seventy_ns\":{seventy}}}",
        std::process::id()
    );
    Ok(())
}

#[inline(never)]
fn caller_thirty(units: u64) -> u64 {
    black_box(burner(black_box(units)).wrapping_add(1))
}

#[inline(never)]
fn caller_seventy(units: u64) -> u64 {
    black_box(burner(black_box(units)).wrapping_add(2))
}

#[inline(never)]
fn burner(units: u64) -> u64 {
    let mut value = units;
    for _ in 0..units {
        value = black_box(burn_unit(black_box(value)));
    }
    value
}

#[inline(never)]
fn burn_unit(mut value: u64) -> u64 {
    for round in 0..100 {
        value = (value ^ value >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd).wrapping_add(round);
    }
    value
}
