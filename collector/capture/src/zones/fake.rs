//! An instrumented program for tests: an arena in this process, written by hand.

// Only tests and fuzz targets have it.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
#[cfg(test)]
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use syscollect_zone_protocol::arena::{
    ARENA_BYTES, ARENA_MAGIC, ClockKind, LOG_OFFSET, MAX_RINGS, RING_BYTES, RING_STRIDE,
    RINGS_OFFSET, RingHeader, RingState, VERSION,
};
use syscollect_zone_protocol::log::EntryKind;
use syscollect_zone_protocol::{ItemKind, ZONE_END};

use super::memory::ArenaMemory;
use super::{AnnouncedFile, Announcement, ZoneNotice};
use crate::clock::ticks_now;

/// An arena as a program sees it.
pub(super) struct FakeProgram {
    file: File,
    memory: ArenaMemory,
}

/// What a test may do wrong when it makes an arena.
#[derive(Clone, Copy)]
pub(super) struct FakeArenaOptions {
    pub(super) sealed: bool,
    pub(super) bytes: usize,
    pub(super) magic: u64,
    pub(super) version: u32,
}

impl Default for FakeArenaOptions {
    fn default() -> Self {
        Self { sealed: true, bytes: ARENA_BYTES, magic: ARENA_MAGIC, version: VERSION }
    }
}

impl FakeProgram {
    /// A program that has just made its arena.
    pub(super) fn new() -> Self {
        Self::made(FakeArenaOptions::default())
    }

    /// A program that made its arena so.
    pub(super) fn made(making: FakeArenaOptions) -> Self {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with a zero.
        let descriptor = unsafe { libc::memfd_create(c"syscollect-zones".as_ptr(), flags) };
        assert!(descriptor >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        // SAFETY: a new descriptor that nobody else owns.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(making.bytes as u64).unwrap();
        if making.sealed {
            // SAFETY: no memory is involved.
            let sealed = unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
            assert_eq!(sealed, 0);
        }
        let memory = ArenaMemory::map_whole(file.try_clone().unwrap(), making.bytes);
        let header = memory.header();
        header.version.store(making.version, Relaxed);
        header.pid.store(std::process::id(), Relaxed);
        header.clock.store(ClockKind::Tsc as u32, Relaxed);
        header.magic.store(making.magic, Release);
        Self { file, memory }
    }

    /// The process that it is in.
    pub(super) fn pid(&self) -> u32 {
        std::process::id()
    }

    /// The arena's descriptor.
    pub(super) fn descriptor(&self) -> u64 {
        self.file.as_raw_fd() as u64
    }

    /// Takes pages out of the file again, as its owner may whatever is sealed.
    pub(super) fn punch(&self, offset: usize, bytes: usize) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: no memory is involved.
        unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                mode,
                offset as libc::off_t,
                bytes as libc::off_t,
            )
        };
    }

    /// Bytes of the arena that exist.
    pub(super) fn allocated_bytes(&self) -> u64 {
        std::os::unix::fs::MetadataExt::blocks(&self.file.metadata().unwrap()) * 512
    }

    /// The arena's memory.
    pub(super) fn memory(&self) -> &ArenaMemory {
        &self.memory
    }

    /// What the kernel tells when a thread hits the probe.
    pub(super) fn announcement(&self, ring: &FakeThread<'_>) -> ZoneNotice {
        let (pid, tid, descriptor) = (self.pid(), ring.tid, self.descriptor());
        let inode = std::os::unix::fs::MetadataExt::ino(&self.file.metadata().unwrap());
        let (ring, file) = (u64::from(ring.number), AnnouncedFile::Arena(inode));
        let user = own_user();
        let (ticks, is_young) = (0, true);
        let announcement = Announcement { ticks, pid, tid, descriptor, ring, user, file, is_young };
        ZoneNotice::Announcement(announcement)
    }

    /// A thread takes the first ring that is free.
    pub(super) fn thread(&self, tid: u32) -> FakeThread<'_> {
        let number = (0..MAX_RINGS as u32)
            .find(|number| self.memory.ring(*number).state.load(Acquire) == RingState::Free as u32)
            .expect("there are enough rings for a test");
        let ring = FakeThread { program: self, number, tid };
        let header = ring.header();
        header.state.store(RingState::Used as u32, Relaxed);
        header.tid.store(tid, Relaxed);
        header.owner.fetch_add(1, Release);
        self.memory.header().rings.fetch_max(number + 1, Release);
        self.memory.header().claims.fetch_add(1, Release);
        ring
    }

    fn write(&self, offset: usize, word: u64) {
        self.memory.word(offset).store(word, Relaxed);
    }

    /// Takes room in the log; the entry is not complete before [`Self::complete`]. Returns its
    /// place.
    pub(super) fn reserve(&self, words: &[u64], kind: EntryKind) -> u64 {
        let bytes = 8 + words.len() as u64 * 8;
        let at = self.memory.header().log_taken.fetch_add(bytes, Relaxed);
        self.write(LOG_OFFSET + at as usize, (kind as u64) << 32);
        for (index, word) in words.iter().enumerate() {
            self.write(LOG_OFFSET + at as usize + 8 + index * 8, *word);
        }
        at
    }

    /// Completes an entry of so many words behind its header.
    pub(super) fn complete(&self, at: u64, words: usize) {
        let word = self.memory.word(LOG_OFFSET + at as usize);
        word.store(word.load(Relaxed) | (8 + words as u64 * 8), Release);
    }

    /// A whole entry; returns its number.
    pub(super) fn define(&self, words: &[u64], kind: EntryKind) -> u32 {
        let at = self.reserve(words, kind);
        self.complete(at, words.len());
        (at / 8 + 1) as u32
    }
}

/// A thread with a ring.
#[derive(Clone, Copy)]
pub(super) struct FakeThread<'a> {
    pub(super) program: &'a FakeProgram,
    pub(super) number: u32,
    pub(super) tid: u32,
}

impl FakeThread<'_> {
    fn items(&self) -> usize {
        RINGS_OFFSET + self.number as usize * RING_STRIDE
    }

    /// The ring's header.
    pub(super) fn header(&self) -> &RingHeader {
        self.program.memory.ring(self.number)
    }

    /// Writes words behind the head and publishes them if there is room for
    /// the whole; counts one lost item if not.
    pub(super) fn write(&self, words: &[u64]) -> bool {
        let header = self.header();
        let head = header.head.load(Relaxed);
        let used = head.wrapping_sub(header.tail.load(Acquire));
        // A hostile program may have put its own positions out of order: it writes nothing then.
        let is_in_order = head.is_multiple_of(8) && used <= RING_BYTES as u64;
        if !is_in_order || used + words.len() as u64 * 8 > RING_BYTES as u64 {
            header.lost.fetch_add(1, Relaxed);
            return false;
        }
        let start = head as usize % RING_BYTES;
        for (index, word) in words.iter().enumerate() {
            self.program.write(self.items() + start + index * 8, *word);
        }
        header.head.store(head + words.len() as u64 * 8, Release);
        true
    }

    /// Begins and ends a zone; returns whether both fit.
    pub(super) fn zone(&self, location: u32) -> bool {
        self.write(&[ticks() | ItemKind::ZoneBegin as u64, u64::from(location)])
            && self.write(&[ticks() | u64::from(ZONE_END)])
    }

    /// The thread ends.
    pub(super) fn end(self) {
        self.header().state.store(RingState::Ended as u32, Release);
    }
}

fn ticks() -> u64 {
    ticks_now(syscollect_model::ClockSource::Tsc).0 << 8
}

/// Who runs the tests.
fn own_user() -> u32 {
    // SAFETY: no memory is involved; it cannot fail.
    unsafe { libc::getuid() }
}

/// What /proc shows of a process 7001, whose programs have their arenas as descriptor 3, one after
/// the other.
#[cfg(test)]
pub(super) struct FakeProcess {
    root: tempfile::TempDir,
}

#[cfg(test)]
impl FakeProcess {
    /// It runs nothing yet.
    pub(super) fn new() -> Self {
        let process = Self { root: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(process.link().parent().unwrap()).unwrap();
        process
    }

    /// Below which /proc is.
    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    fn link(&self) -> PathBuf {
        self.root.path().join("proc/7001/fd/3")
    }

    /// It runs this program now.
    pub(super) fn runs(&self, program: &FakeProgram) {
        self.ends();
        std::os::unix::fs::symlink(format!("/proc/self/fd/{}", program.descriptor()), self.link())
            .unwrap();
    }

    /// It has no arena any more.
    pub(super) fn ends(&self) {
        let _ = std::fs::remove_file(self.link());
    }

    /// What the kernel tells when it announces its first ring.
    pub(super) fn announces(ticks: u64) -> ZoneNotice {
        ZoneNotice::Announcement(Announcement {
            ticks,
            pid: 7001,
            tid: 7001,
            descriptor: 3,
            ring: 0,
            user: own_user(),
            file: AnnouncedFile::Unknown,
            is_young: false,
        })
    }
}
