//! Opening an arena: whether it is one, and whether it can be had.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use syscollect_model::ClockSource;
use syscollect_usdt_client::protocol::{
    ARENA_BYTES, ARENA_MAGIC, ArenaHeader, ClockKind, LOG_BYTES, LOG_OFFSET, MAX_RINGS, PAGE, RING_STRIDE,
    RINGS_OFFSET, VERSION,
};

use super::memory::SharedMemory;

/// Which file an arena is: its inode on the kernel's own mount of memfds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArenaId(u64);

/// Why an arena is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTaken {
    /// The file is not there: the process has ended, run exec or closed it.
    #[error("it is gone")]
    Gone,
    /// Another collector has locked it.
    #[error("another recorder reads it")]
    Held,
    /// It is not what it should be.
    #[error("it is not as it should be: {0}")]
    Wrong(&'static str),
    /// The system refuses.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// An arena that this recorder has taken: locked, its header and log mapped.
/// The lock goes with the file.
#[derive(Clone)]
pub(super) struct Arena {
    file: Arc<File>,
    /// Which file it is.
    pub(super) id: ArenaId,
    /// Its header's page.
    pub(super) header: Arc<SharedMemory>,
    /// Its log.
    pub(super) log: Arc<SharedMemory>,
    /// What its ticks are.
    pub(super) clock: ClockSource,
    /// Whether a collector has had it before.
    pub(super) had_reader: bool,
}

/// What the header of a ring says, read without mapping it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingIdentity {
    /// The number of a `RingState`.
    pub(super) state: u32,
    /// The thread, as its own pid namespace numbers it.
    pub(super) tid: u32,
    /// Counts the ring's threads.
    pub(super) owner: u32,
}

impl Arena {
    /// Which arena that path leads to; `None` where it is not a memfd or gone.
    /// Nothing that the path might lead to can make this wait.
    pub(super) fn identify(path: &Path) -> Option<ArenaId> {
        identity(open_path(path).ok()?.as_fd()).ok()
    }

    /// What the process that made the arena there calls itself.
    pub(super) fn owner(path: &Path) -> Option<u32> {
        use std::os::unix::fs::FileExt;
        let file = reopen(&open_path(path).ok()?, libc::O_RDONLY).ok()?;
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, std::mem::offset_of!(ArenaHeader, pid) as u64).ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    /// Takes the arena that the path leads to, and tells its threads.
    pub(super) fn take(path: &Path) -> Result<Self, NotTaken> {
        let found = open_path(path)?;
        let id = identity(found.as_fd())?;
        let file = Arc::new(reopen(&found, libc::O_RDWR)?);
        check_size(&file)?;
        lock(&file)?;
        let map = |offset, length| SharedMemory::map(file.as_fd(), offset, length).map(Arc::new);
        let header = map(0, PAGE)?;
        let clock = check_header(&header)?;
        let log = map(LOG_OFFSET, LOG_BYTES)?;
        let attached = &header.arena().attached;
        let last = attached.load(Ordering::Acquire);
        attached.store(last.wrapping_add(1).max(1), Ordering::Release);
        Ok(Self { file, id, header, log, clock, had_reader: last != 0 })
    }

    /// How many rings were ever used.
    pub(super) fn rings(&self) -> u32 {
        self.header.arena().rings.load(Ordering::Acquire).min(MAX_RINGS as u32)
    }

    /// Maps a ring; `number` is less than `MAX_RINGS`.
    pub(super) fn map_ring(&self, number: u32) -> io::Result<Arc<SharedMemory>> {
        SharedMemory::map(self.file.as_fd(), ring_offset(number), RING_STRIDE).map(Arc::new)
    }

    /// Who has that ring. It is read, not mapped: that makes no page of a ring
    /// that was never used.
    pub(super) fn ring_identity(&self, number: u32) -> io::Result<RingIdentity> {
        use std::os::unix::fs::FileExt;
        let mut bytes = [0; 12];
        self.file.read_exact_at(&mut bytes, ring_offset(number) as u64)?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Ok(RingIdentity { state: word(0), tid: word(4), owner: word(8) })
    }
}

fn ring_offset(number: u32) -> usize {
    RINGS_OFFSET + number as usize * RING_STRIDE
}

/// Finds the file without opening what it is.
fn open_path(path: &Path) -> Result<OwnedFd, NotTaken> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    open(&path, libc::O_PATH)
}

/// Opens what was found, if it is a memfd: those can be opened without side
/// effects; without waiting, too, although the owner may hold a lease.
fn reopen(found: &OwnedFd, access: libc::c_int) -> Result<File, NotTaken> {
    identity(found.as_fd())?;
    let itself = CString::new(format!("/proc/self/fd/{}", found.as_raw_fd())).map_err(io::Error::other)?;
    open(&itself, access | libc::O_NONBLOCK).map(File::from)
}

fn open(path: &CString, flags: libc::c_int) -> Result<OwnedFd, NotTaken> {
    // SAFETY: the path ends with a zero and outlives the call.
    let descriptor = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    if descriptor >= 0 {
        // SAFETY: the call returned a new descriptor that nobody else owns.
        return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => NotTaken::Gone,
        _ => NotTaken::System(error),
    })
}

/// The inode, if the file lies where memfds lie. Other file systems may be
/// anybody's, and may make whoever reads from them wait.
fn identity(file: BorrowedFd<'_>) -> Result<ArenaId, NotTaken> {
    let (device, inode) = device_and_inode(file)?;
    if device != memfd_device()? {
        return Err(NotTaken::Wrong("it is not a memfd"));
    }
    Ok(ArenaId(inode))
}

fn device_and_inode(file: BorrowedFd<'_>) -> io::Result<((u32, u32), u64)> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: an empty path, and a structure that may be written.
    let result = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, libc::STATX_INO, &raw mut status) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(((status.stx_dev_major, status.stx_dev_minor), status.stx_ino))
}

/// Where memfds lie: seen by one of our own.
fn memfd_device() -> io::Result<(u32, u32)> {
    static DEVICE: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    let find = || {
        // SAFETY: the name ends with a zero.
        let descriptor = unsafe { libc::memfd_create(c"syscollect".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: a new descriptor that nobody else owns.
        let own = (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })?;
        device_and_inode(own.as_fd()).ok().map(|(device, _)| device)
    };
    DEVICE.get_or_init(find).ok_or_else(|| io::Error::other("memfd_create does not work here"))
}

fn check_size(file: &File) -> Result<(), NotTaken> {
    // SAFETY: no memory is involved.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return Err(NotTaken::Wrong("it is not sealed against shrinking"));
    }
    if file.metadata()?.len() != ARENA_BYTES as u64 {
        return Err(NotTaken::Wrong("it has another size"));
    }
    Ok(())
}

fn lock(file: &File) -> Result<(), NotTaken> {
    // SAFETY: plain numbers, for which zero is valid: the whole file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the structure outlives the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Err(NotTaken::Held),
        _ => Err(error.into()),
    }
}

fn check_header(header: &SharedMemory) -> Result<ClockSource, NotTaken> {
    let header = header.arena();
    if header.magic.load(Ordering::Acquire) != ARENA_MAGIC {
        return Err(NotTaken::Wrong("it does not begin as an arena does"));
    }
    if header.version.load(Ordering::Relaxed) != VERSION {
        return Err(NotTaken::Wrong("it has another version: build program and recorder from the same release"));
    }
    match header.clock.load(Ordering::Relaxed) {
        clock if clock == ClockKind::Tsc as u32 => Ok(ClockSource::Tsc),
        clock if clock == ClockKind::Monotonic as u32 => Ok(ClockSource::Monotonic),
        _ => Err(NotTaken::Wrong("it names a clock that there is not")),
    }
}
