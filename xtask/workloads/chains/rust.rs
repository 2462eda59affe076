//! Rust in release: generics, trait objects, iterators that call back, values to drop.

use std::hint::black_box;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

struct Leaf {
    round: u64,
    wakes: std::os::unix::net::UnixStream,
}

#[inline(never)]
fn burn(mut value: u64) -> u64 {
    for round in 0..150_000 {
        value = black_box((value ^ value >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd) + (round & 1));
    }
    value
}

#[inline(never)]
fn leaf(x: u64, leaf: &mut Leaf) -> u64 {
    leaf.round += 1;
    match leaf.round % 4 {
        0 => std::thread::sleep(Duration::from_micros(200)),
        1 => leaf.wakes.write_all(b"w").expect("the other thread reads"),
        _ => return burn(x),
    }
    x
}

/// Functions that own something and are not the last thing their callers do.
macro_rules! chain {
    ($($name:ident calls $next:ident,)*) => {
        $(
            #[inline(never)]
            fn $name(x: u64, end: &mut Leaf) -> u64 {
                let owned: Vec<String> = black_box((0..x % 3).map(|n| n.to_string()).collect());
                let y = black_box($next(x + 1, end));
                y.wrapping_add(owned.len() as u64)
            }
        )*
    };
}

chain! {
    f01 calls f02, f02 calls f03, f03 calls f04, f04 calls f05, f05 calls f06, f06 calls f07,
    f07 calls f08, f08 calls f09, f09 calls f10, f10 calls f11, f11 calls f12, f12 calls f13,
    f13 calls f14, f14 calls f15, f15 calls f16, f16 calls f17, f17 calls f18, f18 calls f19,
    f19 calls f20, f20 calls leaf,
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (wakes, mut woken) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    std::thread::spawn(move || {
        let mut byte = [0];
        while woken.read_exact(&mut byte).is_ok() {}
    });
    let mut innermost = Leaf { round: 0, wakes };
    while Instant::now() < end {
        // Called back: an iterator's closure is what calls the chain.
        let all: Vec<u64> = [1, 2].iter().map(|x| f01(*x, &mut innermost)).collect();
        black_box(all);
    }
}
