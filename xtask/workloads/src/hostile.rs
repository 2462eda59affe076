//! Programs that share memory to do harm: what an ordinary user may try against a recorder that
//! runs as root.
//!
//! They write arenas by hand, as `syscollect_zone_protocol` describes them, and lie in
//! them.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use syscollect_usdt_client::testing::announce;
use syscollect_usdt_client::{message, zone};
use syscollect_zone_protocol::ItemKind;
use syscollect_zone_protocol::arena::{
    ARENA_BYTES, ARENA_MAGIC, ArenaHeader, ClockKind, HEADER_STRIDE, HEADERS_OFFSET, LOG_BYTES,
    LOG_OFFSET, MAX_RINGS, RING_BYTES, RING_STRIDE, RINGS_OFFSET, RingHeader, RingState, VERSION,
};
use syscollect_zone_protocol::log::EntryKind;

use crate::instrumented::wait_for_recorder;
use crate::system::tid;

const NAME: &CStr = c"syscollect-zones";

/// Does harm in one way, for so long.
pub(crate) fn run(attack: &str, seconds: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(seconds);
    wait_for_recorder()?;
    match attack {
        // As many mappings as a recorder can be brought to make.
        "mappings" => in_processes(5, || {
            let arenas = arenas(16)?;
            for arena in &arenas {
                arena.claim_all();
                (0..MAX_RINGS as u32).for_each(|ring| arena.announce(ring));
            }
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            Ok(())
        }),
        // Rings that claim to be full and were never written.
        "memory" => {
            let arena = Arena::make()?;
            arena.claim_all();
            (0..MAX_RINGS)
                .for_each(|ring| arena.ring(ring).head.store(RING_BYTES as u64, Ordering::Release));
            wait_until(end, || (0..MAX_RINGS as u32).for_each(|ring| arena.announce(ring)))
        }
        // Nothing but arenas to look at, with as many rings as there can be, of which none is used.
        "discovery" => in_processes(40, || {
            let arenas = arenas(16)?;
            for arena in &arenas {
                arena.header().rings.store(MAX_RINGS as u32, Ordering::Release);
                arena.announce(0);
            }
            // Idle: what switches cost is not what arenas cost.
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            Ok(())
        }),
        // Names without end, and rings that are full again as soon as they are read.
        "flood" => in_processes(4, || {
            let arenas = arenas(4)?;
            for arena in &arenas {
                arena.claim_all();
                arena.fill_log();
                (0..FLOODING).for_each(|ring| arena.fill_ring(ring));
                (0..FLOODING).for_each(|ring| arena.announce(ring as u32));
            }
            wait_until(end, || {
                for ring in
                    arenas.iter().flat_map(|arena| (0..FLOODING).map(|ring| arena.ring(ring)))
                {
                    let tail = ring.tail.load(Ordering::Acquire);
                    ring.head.store(tail + RING_BYTES as u64, Ordering::Release);
                }
            })
        }),
        // Zones and messages of which each says something new, as fast as they come.
        "texts" => in_processes(2, || {
            let mut number = 0u64;
            while Instant::now() < end {
                let zone = zone!("says something new");
                zone.name(&format!("a name that nobody else has, {number}"));
                zone.text(&format!("a text that is there once, {number}"));
                message!("a message that is there once, {number}");
                number += 1;
            }
            Ok(())
        }),
        // Processes without end, which announce rings on descriptors that are no arenas: one that
        // is closed, and one of another file.
        "announcements" => in_processes(4, || {
            announce_in_new_processes(end, |number| {
                announce(if number % 2 == 0 { CLOSED } else { libc::STDERR_FILENO }, number);
            })
        }),
        // The same on a memfd that is as large as an arena, and holds nothing.
        "announced-files" => in_processes(4, || {
            let file = memfd()?;
            announce_in_new_processes(end, |number| announce(file.as_raw_fd(), number))
        }),
        // Files that change and are mapped again as fast as that may be.
        "looks" => in_processes(8, || {
            let files = (0..CHANGING)
                .map(|_| {
                    let mut options = File::options();
                    options.read(true).write(true).custom_flags(libc::O_TMPFILE);
                    let file = options.open(std::env::temp_dir())?;
                    file.set_len(4096)?;
                    Ok(file)
                })
                .collect::<Result<Vec<File>>>()?;
            let mut mode = 0o700;
            while Instant::now() < end {
                mode ^= 0o011;
                files.iter().try_for_each(|file| map_changed(file, mode))?;
            }
            Ok(())
        }),
        _ => bail!("there is no attack {attack}"),
    }
}

/// Rings that each process announces.
const ANNOUNCED: u32 = 200;
/// A descriptor that no process has.
const CLOSED: i32 = 999;

/// Starts processes one after the other, each of which announces and ends.
fn announce_in_new_processes(end: Instant, announce: impl Fn(u32)) -> Result<()> {
    while Instant::now() < end {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            0 => {
                (0..ANNOUNCED).for_each(&announce);
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(0) };
            }
            child if child > 0 => {
                let mut status = 0;
                // SAFETY: a child of this process, and a number that may be written.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
            }
            _ => bail!("fork: {}", std::io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// Rings of each arena that are always full.
const FLOODING: usize = 8;

/// Files of each process that change.
const CHANGING: usize = 16;

/// Changes a file, and maps it for a moment as if it held code.
fn map_changed(file: &File, mode: libc::mode_t) -> Result<()> {
    let access = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: an open file, and a new mapping of its one page, which nobody uses and which is taken
    // away with the same address and length.
    let mapped = unsafe {
        libc::fchmod(file.as_raw_fd(), mode);
        let at =
            libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        at != libc::MAP_FAILED && libc::munmap(at, 4096) == 0
    };
    if !mapped {
        bail!("mmap: {}", std::io::Error::last_os_error());
    }
    std::thread::sleep(Duration::from_micros(400));
    Ok(())
}

/// Does the same in so many processes, and waits for them.
pub(crate) fn in_processes(count: usize, act: impl Fn() -> Result<()>) -> Result<()> {
    let mut children = Vec::new();
    for _ in 0..count {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: plain numbers. Who is killed takes these with him.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let failed = act().inspect_err(|error| eprintln!("{error:#}")).is_err();
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(i32::from(failed)) };
            }
            child if child > 0 => children.push(child),
            _ => bail!("fork: {}", std::io::Error::last_os_error()),
        }
    }
    let mut failed = 0;
    for child in children {
        let mut status = 0;
        // SAFETY: a child of this process, and a number that may be written.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        failed += i32::from(status != 0);
    }
    if failed > 0 {
        bail!("{failed} processes failed");
    }
    Ok(())
}

fn wait_until(end: Instant, again: impl Fn()) -> Result<()> {
    while Instant::now() < end {
        again();
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn arenas(count: usize) -> Result<Vec<Arena>> {
    (0..count).map(|_| Arena::make()).collect()
}

/// An arena, written by hand.
pub(crate) struct Arena {
    file: File,
    base: NonNull<u8>,
}

/// A memfd of an arena's name.
pub(crate) fn empty_memfd() -> Result<File> {
    // SAFETY: the name ends with a zero.
    let descriptor =
        unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if descriptor < 0 {
        bail!("memfd_create: {}", std::io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// A memfd of an arena's name and size.
fn memfd() -> Result<File> {
    let file = empty_memfd()?;
    file.set_len(ARENA_BYTES as u64)?;
    Ok(file)
}

impl Arena {
    fn make() -> Result<Self> {
        Self::of(std::process::id())
    }

    /// One that says to be that process's.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let file = memfd()?;
        let descriptor = file.as_raw_fd();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a seal, and a new mapping of a file of that size.
        let base = unsafe {
            libc::fcntl(descriptor, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW);
            libc::mmap(std::ptr::null_mut(), ARENA_BYTES, access, libc::MAP_SHARED, descriptor, 0)
        };
        let Some(base) = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED)
        else {
            bail!("mmap: {}", std::io::Error::last_os_error());
        };
        let arena = Self { file, base };
        let header = arena.header();
        header.version.store(VERSION, Ordering::Relaxed);
        header.pid.store(pid, Ordering::Relaxed);
        header.clock.store(ClockKind::Monotonic as u32, Ordering::Relaxed);
        header.magic.store(ARENA_MAGIC, Ordering::Release);
        Ok(arena)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn header(&self) -> &ArenaHeader {
        // SAFETY: mapped as long as the process lives; all atomics.
        unsafe { self.base.cast().as_ref() }
    }

    fn ring(&self, number: usize) -> &RingHeader {
        // SAFETY: as above; the headers lie within the mapping.
        unsafe { self.base.add(HEADERS_OFFSET + number * HEADER_STRIDE).cast().as_ref() }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: callers stay within the arena, at multiples of 8.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    fn announce(&self, ring: u32) {
        announce(self.file.as_raw_fd(), ring);
    }

    /// Says of all rings that this thread has them.
    fn claim_all(&self) {
        for number in 0..MAX_RINGS {
            let ring = self.ring(number);
            ring.tid.store(tid() as u32, Ordering::Relaxed);
            ring.owner.fetch_add(1, Ordering::Relaxed);
            ring.state.store(RingState::Used as u32, Ordering::Release);
        }
        self.header().rings.store(MAX_RINGS as u32, Ordering::Release);
        self.header().claims.fetch_add(1, Ordering::Release);
    }

    /// As many definitions as fit: a string of eight bytes each.
    fn fill_log(&self) {
        for at in (0..LOG_BYTES).step_by(16) {
            self.word(LOG_OFFSET + at + 8).store(at as u64, Ordering::Relaxed);
            self.word(LOG_OFFSET + at)
                .store(16 | (EntryKind::String as u64) << 32, Ordering::Release);
        }
        self.header().log_taken.store(LOG_BYTES as u64, Ordering::Release);
    }

    /// A whole ring of frames, which can be read again and again.
    fn fill_ring(&self, number: usize) {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` may be written.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        let now = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        for at in (0..RING_BYTES).step_by(16) {
            let items = RINGS_OFFSET + number * RING_STRIDE;
            self.word(items + at)
                .store((now + at as u64) << 8 | ItemKind::Frame as u64, Ordering::Relaxed);
        }
        self.ring(number).head.store(RING_BYTES as u64, Ordering::Release);
    }
}
