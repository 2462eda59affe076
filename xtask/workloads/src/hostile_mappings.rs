//! Processes whose lists of mappings are slow to read, and such that have somebody else's program
//! mapped: who attaches to programs has to know who has them mapped.

use std::fs;
use std::io::{self, stdin};
use std::path::Path;
use std::ptr::null_mut;

use anyhow::{Result, ensure};

use crate::fuse::map_file;

/// Mappings that change all the time, and bytes of each.
const PAGES: usize = 20_000;
const PAGE: usize = 4096;
const STACK: usize = 64 << 10;

/// What processes that share this one's memory change.
struct Changing {
    area: *mut libc::c_void,
    seed: usize,
}

/// Has `processes` share the memory of this one and change it all the time, until a line comes on
/// standard input: whoever wants to read the list of its mappings waits behind all of them.
pub(crate) fn hold(processes: u64) -> Result<()> {
    // A scheduling group of its own, where sessions have one: it is the lock that is fought for.
    // SAFETY: takes nothing.
    unsafe { libc::setsid() };
    let area = map(PAGES * PAGE)?;
    for page in (0..PAGES).step_by(2) {
        protect(area.wrapping_byte_add(page * PAGE), libc::PROT_NONE);
    }
    let mut children = Vec::new();
    for seed in 0..processes as usize {
        let stack = map(STACK)?;
        let what = Box::into_raw(Box::new(Changing { area, seed }));
        // SAFETY: the function is called on a stack of its own, with a value that is never freed,
        // and never returns.
        let child = unsafe {
            libc::clone(change, stack.byte_add(STACK), libc::CLONE_VM | libc::SIGCHLD, what.cast())
        };
        ensure!(child > 0, "cannot start a process: {}", io::Error::last_os_error());
        children.push(child);
    }
    println!(r#"{{"ready":true}}"#);
    wait_for_line(&children)
}

/// Has `processes` map a file, once each, until a line comes on standard input.
pub(crate) fn map_by_many(file: &str, processes: u64) -> Result<()> {
    let length = fs::metadata(file)?.len() as usize;
    map_file(Path::new(file), length)?;
    let mut children = Vec::new();
    for _ in 0..processes {
        // SAFETY: the child makes two calls that need no memory, and waits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            end_with_parent();
            loop {
                // SAFETY: takes nothing.
                unsafe { libc::pause() };
            }
        }
        ensure!(child > 0, "cannot start a process: {}", io::Error::last_os_error());
        children.push(child);
    }
    println!(r#"{{"ready":true}}"#);
    wait_for_line(&children)
}

extern "C" fn change(what: *mut libc::c_void) -> libc::c_int {
    end_with_parent();
    // SAFETY: `hold` gave it to this process.
    let &Changing { area, mut seed } = unsafe { &*what.cast::<Changing>() };
    loop {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let protection = if seed >> 20 & 1 == 0 { libc::PROT_READ } else { libc::PROT_NONE };
        protect(area.wrapping_byte_add((seed >> 4) % PAGES * PAGE), protection);
    }
}

fn end_with_parent() {
    // SAFETY: takes plain numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

fn map(bytes: usize) -> Result<*mut libc::c_void> {
    let (rights, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address that the kernel picks touches no memory in use.
    let address = unsafe { libc::mmap(null_mut(), bytes, rights, kind, -1, 0) };
    ensure!(address != libc::MAP_FAILED, "cannot map memory: {}", io::Error::last_os_error());
    Ok(address)
}

/// Changes the rights to a page that nobody reads or writes.
fn protect(page: *mut libc::c_void, rights: libc::c_int) {
    // SAFETY: the page is one of `hold`'s, which holds nothing.
    unsafe { libc::mprotect(page, PAGE, rights) };
}

fn wait_for_line(children: &[libc::pid_t]) -> Result<()> {
    stdin().lines().next().transpose()?;
    for child in children {
        // SAFETY: plain numbers; the child is ours.
        unsafe { libc::kill(*child, libc::SIGKILL) };
    }
    Ok(())
}
