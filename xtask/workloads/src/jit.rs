//! Code that is made while the program runs, and replaced at its place again and again, with a
//! jitdump that says so.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::system::clock_ns;

/// A function that counts down what it is given: `mov rax, rdi; dec rax; jnz -5; ret`.
const CODE: [u8; 9] = [0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3];
/// What it counts in one call.
const COUNT: u64 = 100_000;
const PAGE: usize = 4096;
/// What it is called, and for how long each time in CPU time.
const TURNS: [(&str, Duration); 2] =
    [("jit_first", Duration::from_millis(60)), ("jit_second", Duration::from_millis(20))];

/// Runs it under each name in turn; the CPU time of each, nanoseconds.
pub(crate) fn run(folder: &str, rounds: u64) -> Result<()> {
    let dump = Path::new(folder).join(format!("jit-{}.dump", std::process::id()));
    let mut dump = File::options().create(true).read(true).write(true).truncate(true).open(dump)?;
    let mut header = Vec::new();
    for word in [0x4a69_5444, 1, 40, 62, 0, std::process::id()] {
        header.extend(u32::to_ne_bytes(word));
    }
    header.extend([monotonic(), 0].map(u64::to_ne_bytes).concat());
    dump.write_all(&header)?;
    // By that mapping recorders hear of it.
    map(Some(&dump), libc::PROT_READ | libc::PROT_EXEC)?;
    let place = map(None, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
    // SAFETY: the page is this function's alone and has room for the code, which keeps to the C
    // calling convention and touches no memory.
    let code = unsafe {
        place.copy_from_nonoverlapping(CODE.as_ptr(), CODE.len());
        std::mem::transmute::<*mut u8, extern "C" fn(u64)>(place)
    };
    let mut used = [0; TURNS.len()];
    for index in 0..rounds {
        for ((name, long), used) in TURNS.iter().zip(&mut used) {
            load(&mut dump, place as u64, index, name)?;
            let begin = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
            let end = begin + long.as_nanos() as u64;
            while clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) < end {
                code(COUNT);
            }
            *used += clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - begin;
        }
    }
    let [first, second] = used;
    println!("{{\"pid\":{},\"first\":{first},\"second\":{second}}}", std::process::id());
    Ok(())
}

/// Says that code lies there from now on.
fn load(dump: &mut File, at: u64, index: u64, name: &str) -> Result<()> {
    let mut body = Vec::new();
    body.extend([std::process::id(), crate::system::tid() as u32].map(u32::to_ne_bytes).concat());
    body.extend([at, at, CODE.len() as u64, index].map(u64::to_ne_bytes).concat());
    body.extend(name.as_bytes());
    body.push(0);
    body.extend(CODE);
    let mut record = [0, 16 + body.len() as u32].map(u32::to_ne_bytes).concat();
    record.extend(monotonic().to_ne_bytes());
    record.extend(body);
    Ok(dump.write_all(&record)?)
}

fn monotonic() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// A page of that file, or of nothing.
fn map(file: Option<&File>, rights: libc::c_int) -> Result<*mut u8> {
    let kind = if file.is_some() { 0 } else { libc::MAP_ANONYMOUS };
    let descriptor = file.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: the kernel chooses the place.
    let place = unsafe {
        let anywhere = std::ptr::null_mut();
        libc::mmap(anywhere, PAGE, rights, libc::MAP_PRIVATE | kind, descriptor, 0)
    };
    ensure!(place != libc::MAP_FAILED, "no mapping: {}", io::Error::last_os_error());
    Ok(place.cast())
}
