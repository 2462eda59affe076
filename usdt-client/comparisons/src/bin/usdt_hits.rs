//! What a hit of a probe costs with a counting uprobe attached: a 1-byte nop,
//! as `sys/sdt.h` emits it, and a 5-byte nop.
//!
//! Needs root (or CAP_PERFMON). Prints nanoseconds per hit and hits per second.

use anyhow::{Context, bail};
use std::time::Instant;

/// A probe site with a nop of one byte.
#[inline(never)]
extern "C" fn one_byte(value: u64) {
    // SAFETY: a nop.
    unsafe { core::arch::asm!("nop", in("rdi") value, options(nomem, nostack, preserves_flags)) }
}

/// A probe site with a nop of five bytes.
#[inline(never)]
extern "C" fn five_bytes(value: u64) {
    // SAFETY: a nop.
    unsafe {
        core::arch::asm!(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", in("rdi") value, options(nomem, nostack, preserves_flags));
    }
}

/// Longest instruction sequence before the nop that is searched.
const SEARCHED_BYTES: usize = 32;

/// Address of the first occurrence of a nop in a function.
fn nop_in(function: extern "C" fn(u64), nop: &[u8]) -> anyhow::Result<u64> {
    let start = function as usize;
    // SAFETY: the program's own code; the functions are followed by other code of at least that
    // length.
    let code = unsafe { std::slice::from_raw_parts(start as *const u8, SEARCHED_BYTES) };
    let at = code
        .windows(nop.len())
        .position(|window| window == nop)
        .context("the function has no nop")?;
    Ok((start + at) as u64)
}

/// Where an address of this program lies in its file.
fn file_offset(address: u64) -> anyhow::Result<u64> {
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(_), Some(offset)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Some((start, end)) = range.split_once('-') else { continue };
        let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
        if (start..end).contains(&address) {
            return Ok(address - start + u64::from_str_radix(offset, 16)?);
        }
    }
    bail!("{address:#x} is in no mapping")
}

/// The beginning of `perf_event_attr` (version 0 to 1, 72 bytes).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    path: u64,
    offset: u64,
}

/// A counting uprobe on this process.
fn attach(offset: u64) -> anyhow::Result<i32> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")
        .context("this kernel has no uprobe events")?;
    let attributes = Attributes {
        kind: kind.trim().parse()?,
        size: size_of::<Attributes>() as u32,
        path: c"/proc/self/exe".as_ptr() as u64,
        offset,
        ..Default::default()
    };
    // SAFETY: the attributes and the path last over the call.
    let event =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, 0) };
    if event < 0 {
        return Err(std::io::Error::last_os_error())
            .context("perf_event_open of a uprobe (this needs root)");
    }
    Ok(event as i32)
}

/// How often the event happened.
fn count(event: i32) -> anyhow::Result<u64> {
    let mut count = 0_u64;
    // SAFETY: `count` may be written and has that size.
    if unsafe { libc::read(event, (&raw mut count).cast(), 8) } != 8 {
        return Err(std::io::Error::last_os_error()).context("reading the count");
    }
    Ok(count)
}

/// Nanoseconds per call, the least of so many rounds.
fn nanoseconds(function: extern "C" fn(u64), calls: u64, rounds: u32) -> f64 {
    let round = || {
        let start = Instant::now();
        for call in 0..calls {
            function(std::hint::black_box(call));
        }
        start.elapsed().as_nanos() as f64 / calls as f64
    };
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() -> anyhow::Result<()> {
    println!("| probe site | attached | ns per hit | hits per second |\n|---|---|---|---|");
    for (name, function, nop) in [
        ("nop of 1 byte", one_byte as extern "C" fn(u64), &[0x90][..]),
        ("nop of 5 bytes", five_bytes, &[0x0f, 0x1f, 0x44, 0x00, 0x00]),
    ] {
        let offset = file_offset(nop_in(function, nop)?)?;
        println!("| {name} | no | {:.2} | |", nanoseconds(function, 10_000_000, 5));
        let event = attach(offset)?;
        let (calls, rounds) = (200_000, 9);
        let hit = nanoseconds(function, calls, rounds);
        let counted = count(event)?;
        if counted != calls * u64::from(rounds) {
            bail!("{name}: {counted} hits were counted of {}", calls * u64::from(rounds));
        }
        println!("| {name} | yes | {hit:.0} | {:.2} million |", 1e3 / hit);
        // SAFETY: opened by `attach`, used no more.
        unsafe { libc::close(event) };
    }
    Ok(())
}
