//! A program whose first thread has ended: one thread burns CPU time in zones, one waits.

use std::hint::black_box;
use std::io::Read;
use std::time::Duration;

use anyhow::{Result, bail};
use syscollect_usdt_client::zone;

use crate::system::clock_ns;

/// How long one zone takes, in CPU time.
const ZONE_NS: u64 = 2_000_000;

/// Says so when the first thread has ended, and ends when its standard input does.
pub(crate) fn run() -> Result<()> {
    std::thread::spawn(leaderless_burns);
    std::thread::spawn(|| {
        let result = leaderless_waits();
        // The one that burns ends with the program.
        std::process::exit(i32::from(result.is_err()))
    });
    // SAFETY: the thread ends without running what it left to do, and nothing of that is needed.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    bail!("a thread cannot go on after its end")
}

#[inline(never)]
fn leaderless_burns() {
    loop {
        let _zone = zone!("leaderless zone");
        let end = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) + ZONE_NS;
        while clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) < end {
            black_box(leaderless_unit(black_box(1)));
        }
    }
}

#[inline(never)]
fn leaderless_unit(mut value: u64) -> u64 {
    for round in 0..10_000 {
        value = (value ^ value >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd).wrapping_add(round);
    }
    value
}

#[inline(never)]
fn leaderless_waits() -> Result<()> {
    while !first_has_ended()? {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("{{\"pid\":{},\"first\":\"ended\"}}", std::process::id());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn first_has_ended() -> Result<bool> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    Ok(stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}
