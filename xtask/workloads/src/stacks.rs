//! CPU-bound threads under stacks of 24 frames: what sampling costs.

use std::hint::black_box;

use anyhow::Result;

use crate::system::{clock_ns, usage_ns};

const DEPTH: u64 = 20;

/// Runs `units` of work in each of `threads` threads; prints the CPU time.
pub(crate) fn run(threads: u64, units: u64) -> Result<()> {
    let wall = clock_ns(libc::CLOCK_MONOTONIC);
    std::thread::scope(|scope| {
        for seed in 1..=threads {
            scope.spawn(move || {
                let mut value = seed;
                for _ in 0..units {
                    value = black_box(descend(value, DEPTH));
                }
            });
        }
    });
    let (cpu, wall) = (usage_ns(libc::RUSAGE_SELF), clock_ns(libc::CLOCK_MONOTONIC) - wall);
    println!("{{\"cpu_ns\":{cpu},\"wall_ns\":{wall}}}");
    Ok(())
}

#[inline(never)]
fn descend(value: u64, depth: u64) -> u64 {
    let below = if depth == 0 {
        work(black_box(value))
    } else {
        descend(black_box(value + depth), depth - 1)
    };
    black_box(below).wrapping_add(1)
}

#[inline(never)]
fn work(mut value: u64) -> u64 {
    for round in 0..2_000 {
        value = (value ^ value >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd).wrapping_add(round);
    }
    value
}
