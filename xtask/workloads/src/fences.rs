//! Fences of vgem, the kernel's GPU without hardware: each is made, waited for
//! or not, and signaled by a system call.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::system::tid;

/// Numbers of include/uapi/drm/drm.h, drm_mode.h, vgem_drm.h and linux/dma-buf.h.
const CREATE_DUMB: u64 = 0xc020_64b2;
const PRIME_HANDLE_TO_FD: u64 = 0xc00c_642d;
const FENCE_ATTACH: u64 = 0xc010_6441;
const FENCE_SIGNAL: u64 = 0x4008_6442;
const DMA_BUF_SYNC: u64 = 0x4008_6200;
/// The fence stands for writing, so that readers wait for it.
const FENCE_WRITE: u32 = 1;
const SYNC_READ: u64 = 1;
const SYNC_END: u64 = 4;

#[repr(C)]
#[derive(Default)]
struct DumbBuffer {
    height: u32,
    width: u32,
    bits: u32,
    flags: u32,
    handle: u32,
    pitch: u32,
    size: u64,
}

#[repr(C)]
#[derive(Default)]
struct Prime {
    handle: u32,
    flags: u32,
    descriptor: i32,
}

#[repr(C)]
#[derive(Default)]
struct Attach {
    handle: u32,
    flags: u32,
    fence: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct Signal {
    fence: u32,
    flags: u32,
}

/// Makes and signals `count` fences, one after the other; for each tenth
/// another thread waits meanwhile. Prints what was done.
pub(crate) fn run(count: u64) -> Result<()> {
    let card = card()?;
    let mut dumb = DumbBuffer { height: 16, width: 16, bits: 32, ..DumbBuffer::default() };
    call(card.as_raw_fd(), CREATE_DUMB, &mut dumb).context("cannot make a buffer")?;
    let mut prime = Prime { handle: dumb.handle, ..Prime::default() };
    call(card.as_raw_fd(), PRIME_HANDLE_TO_FD, &mut prime).context("cannot export the buffer")?;
    // SAFETY: the call gave a new descriptor that nobody else owns.
    let buffer = unsafe { OwnedFd::from_raw_fd(prime.descriptor) };
    let mut waits = 0;
    for number in 0..count {
        let mut attach = Attach { handle: dumb.handle, flags: FENCE_WRITE, ..Attach::default() };
        call(card.as_raw_fd(), FENCE_ATTACH, &mut attach).context("cannot attach a fence")?;
        let mut signal = Signal { fence: attach.fence, flags: 0 };
        if number % 10 != 0 {
            call(card.as_raw_fd(), FENCE_SIGNAL, &mut signal).context("cannot signal a fence")?;
            continue;
        }
        std::thread::scope(|scope| -> Result<()> {
            let (sender, thread) = std::sync::mpsc::channel();
            let buffer = &buffer;
            let waiter = scope.spawn(move || {
                let _ = sender.send(tid());
                read(buffer)
            });
            until_it_waits(thread.recv().context("the waiting thread never began")?)?;
            call(card.as_raw_fd(), FENCE_SIGNAL, &mut signal).context("cannot signal a fence")?;
            waiter.join().map_err(|_| anyhow::anyhow!("the waiting thread panicked"))?
        })?;
        waits += 1;
    }
    let pid = std::process::id();
    println!("{{\"pid\":{pid},\"fences\":{count},\"waits\":{waits}}}");
    Ok(())
}

/// Returns once a thread sleeps in a call of ioctl.
fn until_it_waits(thread: i32) -> Result<()> {
    let path = format!("/proc/self/task/{thread}/syscall");
    let ioctl = format!("{} ", libc::SYS_ioctl);
    for _ in 0..10_000 {
        let description =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        if description.starts_with(&ioctl) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("the thread that waits for a fence never slept")
}

/// Waits until the buffer may be read.
fn read(buffer: &OwnedFd) -> Result<()> {
    for mut flags in [SYNC_READ, SYNC_READ | SYNC_END] {
        call(buffer.as_raw_fd(), DMA_BUF_SYNC, &mut flags).context("cannot wait for the buffer")?;
    }
    Ok(())
}

/// The card of vgem: the one that knows its fences.
fn card() -> Result<File> {
    for number in 0..16 {
        let path = PathBuf::from(format!("/dev/dri/card{number}"));
        let Ok(card) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        // A fence that is not there: vgem says so, others do not know the call.
        let asked = call(card.as_raw_fd(), FENCE_SIGNAL, &mut Signal { fence: u32::MAX, flags: 0 });
        if asked.is_err_and(|error| error.raw_os_error() == Some(libc::ENOENT)) {
            return Ok(card);
        }
    }
    bail!("no card in /dev/dri is of vgem; `modprobe vgem` makes one")
}

fn call<T>(descriptor: i32, number: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: each number above is used with the structure that the kernel's header gives it.
    match unsafe { libc::ioctl(descriptor, number as libc::Ioctl, std::ptr::from_mut(argument)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
