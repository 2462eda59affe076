//! Programs that hit a probe: one as fast as it can, with the longest arguments, and one now and
//! then with a number.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::usdt::probe;

/// As long as a recorder reads it.
const LONG: &[u8; 256] = &{
    let mut text = [b'x'; 256];
    text[255] = 0;
    text
};
const PAUSE: Duration = Duration::from_micros(500);

#[inline(never)]
fn long(text: *const u8) {
    probe!("hits", "long", "8@%rdi 8@%rdi 8@%rdi 8@%rdi 8@%rdi 8@%rdi 8@%rdi 8@%rdi", text);
}

#[inline(never)]
fn short(number: u64) {
    probe!("hits", "short", "8@%rdi", number);
}

/// Two threads hit `hits:long` for so long; prints how often.
pub(crate) fn run_long(seconds: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let hits: u64 = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(|| hit_until(end)));
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    println!("{{\"hits\":{hits}}}");
    Ok(())
}

fn hit_until(end: Instant) -> u64 {
    let mut hits = 0;
    while Instant::now() < end {
        (0..100).for_each(|_| long(black_box(LONG.as_ptr())));
        hits += 100;
    }
    hits
}

/// Hits `hits:short` with numbers from 0 on for so long; prints with how many.
pub(crate) fn run_short(seconds: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut number = 0;
    while Instant::now() < end {
        short(black_box(number));
        number += 1;
        std::thread::sleep(PAUSE);
    }
    println!("{{\"hits\":{number}}}");
    Ok(())
}
