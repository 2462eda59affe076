//! Threads that block, each time below another stack: what a recorder that keeps each stack once
//! can be brought to keep. And one that blocks below the same each time, beside them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Frames below the thread's first: each is one of two functions.
const DEPTH: u32 = 60;
const THREADS: u64 = 2;

/// Blocks below new stacks in so many processes; prints how often.
pub(crate) fn run(processes: u64, seconds: u64) -> Result<()> {
    let mut children = Vec::new();
    for number in 0..processes {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: plain numbers. Who is killed takes these with him.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let blocks = block_in_threads(1 + number * THREADS, seconds);
                println!(r#"{{"blocks":{blocks}}}"#);
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(0) };
            }
            child if child > 0 => children.push(child),
            _ => bail!("fork: {}", std::io::Error::last_os_error()),
        }
    }
    for child in children {
        // SAFETY: a child of this process; a null status is allowed.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
    Ok(())
}

fn block_in_threads(first_seed: u64, seconds: u64) -> u64 {
    let end = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (first_seed..first_seed + THREADS)
            .map(|seed| scope.spawn(move || block_until(end, seed)))
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    })
}

fn block_until(end: Instant, seed: u64) -> u64 {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut blocks = 0;
    while Instant::now() < end {
        for _ in 0..100 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            black_box(left(random, DEPTH));
            blocks += 1;
        }
    }
    blocks
}

/// Blocks below the same stack each time; prints who did and how often.
pub(crate) fn run_same(seconds: u64) -> Result<()> {
    let (end, mut blocks) = (Instant::now() + Duration::from_secs(seconds), 0u64);
    while Instant::now() < end {
        black_box(left(0, 20));
        std::thread::sleep(Duration::from_millis(1));
        blocks += 2;
    }
    println!(r#"{{"pid":{},"blocks":{blocks}}}"#, std::process::id());
    Ok(())
}

#[inline(never)]
fn left(path: u64, depth: u32) -> u64 {
    descend(black_box(path), depth).wrapping_add(1)
}

#[inline(never)]
fn right(path: u64, depth: u32) -> u64 {
    descend(black_box(path), depth).wrapping_add(2)
}

#[inline(always)]
fn descend(path: u64, depth: u32) -> u64 {
    let below = match (depth, path & 1) {
        (0, _) => block(),
        (_, 0) => left(path >> 1, depth - 1),
        _ => right(path >> 1, depth - 1),
    };
    black_box(below)
}

/// For as short as that may be.
#[inline(never)]
fn block() -> u64 {
    std::thread::sleep(Duration::from_nanos(1));
    0
}
