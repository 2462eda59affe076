//! Opening an arena: whether it is one, and whether it can be had.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use syscollect_model::ClockSource;
use syscollect_zone_protocol::arena::{
    ARENA_BYTES, ARENA_MAGIC, ArenaHeader, ClockKind, MAX_RINGS, VERSION,
};

use super::memory::ArenaMemory;

/// Which file an arena is: its inode on the kernel's own mount of memfds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArenaId(u64);

impl ArenaId {
    /// The memfd with that inode.
    pub(super) fn of_inode(inode: u64) -> Self {
        Self(inode)
    }
}

/// Why an arena is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArenaRefusal {
    /// The file is not there: the process has ended, run exec or closed it.
    #[error("it is gone")]
    Gone,
    /// Its user, or its process, has as many as one may have.
    #[error("{0} as many as one may have at a time")]
    TooMany(&'static str),
    /// It is not what it should be.
    #[error("it is not as it should be: {0}")]
    Wrong(&'static str),
    /// The system refuses.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// An arena that this recorder reads: its headers mapped, and locked where no other recorder had
/// the lock. The lock goes with the file.
#[derive(Clone)]
pub(super) struct Arena {
    /// Which file it is.
    pub(super) id: ArenaId,
    /// Who made it, by the file's own word: a process can lie about itself, not about this.
    pub(super) user: u32,
    /// Its headers and its file.
    pub(super) memory: Arc<ArenaMemory>,
    /// What its ticks are.
    pub(super) clock: ClockSource,
    /// Whether a collector has had it before this recording began, as far as that is known.
    pub(super) had_reader: bool,
    /// Whether another recorder held it when this one came.
    pub(super) was_held: bool,
    /// How many rings had been used when this recorder came.
    pub(super) rings_before: u32,
}

/// A file that is a memfd, found and not opened yet.
pub(super) struct FoundArena {
    place: OwnedFd,
    /// Which file it is.
    pub(super) id: ArenaId,
    /// Who made it.
    pub(super) user: u32,
}

/// A file that was found, and the path that led to it.
pub(super) struct LocatedArena {
    pub(super) path: PathBuf,
    pub(super) found: FoundArena,
}

impl LocatedArena {
    /// What the path leads to; `None` where that is no memfd, or gone.
    pub(super) fn at(path: PathBuf) -> Option<Self> {
        let found = FoundArena::at(&path).ok()?;
        Some(Self { path, found })
    }
}

impl Arena {
    /// Which arena that path leads to; `None` where it is not a memfd or gone.
    /// Nothing that the path might lead to can make this wait.
    pub(super) fn identify(path: &Path) -> Option<ArenaId> {
        Some(FoundArena::at(path).ok()?.id)
    }

    /// How many rings were ever used.
    pub(super) fn rings(&self) -> u32 {
        rings(self.memory.header())
    }

    /// Becomes its holder if nobody is any more, and tells its threads.
    pub(super) fn take_over(&self) {
        if !self.memory.is_held() && self.memory.try_hold().unwrap_or(false) {
            self.memory.request_restatement();
        }
    }
}

fn rings(header: &ArenaHeader) -> u32 {
    header.rings.load(Ordering::Acquire).min(MAX_RINGS as u32)
}

impl FoundArena {
    /// Finds the file that the path leads to.
    pub(super) fn at(path: &Path) -> Result<Self, ArenaRefusal> {
        let place = open_path(path)?;
        let (id, user) = identity(place.as_fd())?;
        Ok(Self { place, id, user })
    }

    /// What the process that made it calls itself.
    pub(super) fn owner(&self) -> Option<u32> {
        use std::os::unix::fs::FileExt;
        let file = self.open(libc::O_RDONLY).ok()?;
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, std::mem::offset_of!(ArenaHeader, pid) as u64).ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    /// Takes it over and tells its threads, or observes it where another recorder holds it.
    /// `announced` is the ring whose thread has led here.
    pub(super) fn take(&self, announced: Option<u64>) -> Result<Arena, ArenaRefusal> {
        let file = self.open(libc::O_RDWR)?;
        check_size(&file)?;
        let memory = Arc::new(ArenaMemory::map(file)?);
        let header = memory.header();
        let clock = check_header(header)?;
        let was_held = !memory.try_hold()?;
        let had_reader = if was_held {
            // The first thread of the first ring announces it once: the program has just begun, and
            // the holder has heard of it at the same time.
            let is_new = announced == Some(0) && memory.ring(0).owner.load(Ordering::Acquire) == 1;
            !is_new
        } else {
            header.attached.load(Ordering::Acquire) != 0
        };
        let rings_before = rings(header);
        memory.request_restatement();
        let (id, user) = (self.id, self.user);
        Ok(Arena { id, user, memory, clock, had_reader, was_held, rings_before })
    }

    /// A memfd can be opened without side effects; without waiting, too,
    /// although the owner may hold a lease.
    fn open(&self, access: libc::c_int) -> Result<File, ArenaRefusal> {
        let itself = CString::new(format!("/proc/self/fd/{}", self.place.as_raw_fd()))
            .map_err(io::Error::other)?;
        open(&itself, access | libc::O_NONBLOCK).map(File::from)
    }
}

/// Finds the file without opening what it is.
fn open_path(path: &Path) -> Result<OwnedFd, ArenaRefusal> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    open(&path, libc::O_PATH)
}

#[expect(
    clippy::disallowed_methods,
    reason = "/proc/PID/fd/N and map_files, with O_PATH until it is known to be a memfd"
)]
fn open(path: &CString, flags: libc::c_int) -> Result<OwnedFd, ArenaRefusal> {
    // SAFETY: the path ends with a zero and outlives the call.
    let descriptor = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    if descriptor >= 0 {
        // SAFETY: the call returned a new descriptor that nobody else owns.
        return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => ArenaRefusal::Gone,
        _ => ArenaRefusal::System(error),
    })
}

/// The inode and the owner, if the file lies where memfds lie. Other file
/// systems may be anybody's, and may make whoever reads from them wait.
fn identity(file: BorrowedFd<'_>) -> Result<(ArenaId, u32), ArenaRefusal> {
    let status = status(file)?;
    if device(&status) != memfd_device()? {
        return Err(ArenaRefusal::Wrong("it is not a memfd"));
    }
    Ok((ArenaId(status.stx_ino), status.stx_uid))
}

fn device(status: &libc::statx) -> (u32, u32) {
    (status.stx_dev_major, status.stx_dev_minor)
}

fn status(file: BorrowedFd<'_>) -> io::Result<libc::statx> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    let (flags, wanted) =
        (libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC, libc::STATX_INO | libc::STATX_UID);
    // SAFETY: an empty path, and a structure that may be written.
    let result =
        unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, wanted, &raw mut status) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status)
}

/// Where memfds lie, by the numbers of the device: seen by one of our own.
pub(crate) fn memfd_device() -> io::Result<(u32, u32)> {
    static DEVICE: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    DEVICE
        .get_or_init(|| {
            // SAFETY: the name ends with a zero.
            let descriptor =
                unsafe { libc::memfd_create(c"syscollect".as_ptr(), libc::MFD_CLOEXEC) };
            // SAFETY: a new descriptor that nobody else owns.
            let own = (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })?;
            status(own.as_fd()).ok().map(|status| device(&status))
        })
        .ok_or_else(|| io::Error::other("memfd_create does not work here"))
}

fn check_size(file: &File) -> Result<(), ArenaRefusal> {
    // SAFETY: no memory is involved.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return Err(ArenaRefusal::Wrong("it is not sealed against shrinking"));
    }
    if file.metadata()?.len() != ARENA_BYTES as u64 {
        return Err(ArenaRefusal::Wrong("it has another size"));
    }
    Ok(())
}

fn check_header(header: &ArenaHeader) -> Result<ClockSource, ArenaRefusal> {
    if header.magic.load(Ordering::Acquire) != ARENA_MAGIC {
        return Err(ArenaRefusal::Wrong("it does not begin as an arena does"));
    }
    if header.version.load(Ordering::Relaxed) != VERSION {
        return Err(ArenaRefusal::Wrong(
            "it has another version: build program and recorder from the same release",
        ));
    }
    match header.clock.load(Ordering::Relaxed) {
        clock if clock == ClockKind::Tsc as u32 => Ok(ClockSource::Tsc),
        clock if clock == ClockKind::Monotonic as u32 => Ok(ClockSource::Monotonic),
        _ => Err(ArenaRefusal::Wrong("it names a clock that there is not")),
    }
}
