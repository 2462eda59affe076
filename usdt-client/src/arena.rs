//! The process's arena: made once, by whichever thread is first, without a lock.
//!
//! What the process itself must know of it ([`Arena`]) lies in private memory
//! that a fork wipes: in a child there is none, and the child makes its own.
//! Where shared memory is refused, that is remembered here, too, and events
//! go through probes ([`Arena::is_fallback`]).

use crate::fork::{self, Inheritance};
use crate::open_async::OpenAsyncZones;
use crate::{clock, memory, unread};
use core::ffi::CStr;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use syscollect_zone_protocol::arena::{
    ARENA_BYTES, ARENA_MAGIC, ARENA_NAME, ArenaHeader, HEADER_STRIDE, HEADERS_OFFSET, LOG_OFFSET,
    MAX_RINGS, RING_STRIDE, RINGS_OFFSET, RingHeader, RingState, VERSION,
};

/// Slots of the table of definitions by content.
pub(crate) const TABLE_SLOTS: usize = 1 << 16;

/// The process's view of its arena.
#[repr(C)]
pub(crate) struct Arena {
    /// Not 0 once made; 0 again in a forked child.
    generation: u32,
    descriptor: i32,
    /// Device and inode: the program may close the descriptor and use the number again.
    identity: (u64, u64),
    /// The arena's first byte; null where there is no shared memory.
    base: *mut u8,
    /// The log's entries by content, see `log.rs`.
    pub(crate) table: [AtomicU64; TABLE_SLOTS],
    pub(crate) open_async: OpenAsyncZones,
}

/// The newest arena of this process.
static ARENA: AtomicPtr<Arena> = AtomicPtr::new(null_mut());
/// Numbers arenas, also over forks, so that no number cached in a static fits another arena.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Not even private memory could be had: nothing is recorded.
static HOPELESS: AtomicBool = AtomicBool::new(false);
/// Tests: behave as if memfd_create were refused.
pub(crate) static REFUSE_MEMORY: AtomicBool = AtomicBool::new(false);
/// Tests: no recorder is to find the arena, see [`crate::testing::hide_from_recorders`].
pub(crate) static HIDDEN: AtomicBool = AtomicBool::new(false);
/// What arenas are called that are hidden.
const HIDDEN_NAME: &CStr = c"syscollect-zones-hidden";
/// Events that could not even be counted in an arena.
pub static LOST_BEFORE_ARENA: AtomicU64 = AtomicU64::new(0);

/// The process's arena, if it has made one.
pub(crate) fn existing() -> Option<&'static Arena> {
    // SAFETY: an arena is never unmapped; a fork leaves it zeroed, which is valid, too.
    let arena = unsafe { ARENA.load(Ordering::Acquire).as_ref() }?;
    (arena.generation != 0).then_some(arena)
}

/// The process's arena; makes it if need be.
pub(crate) fn get() -> Option<&'static Arena> {
    if let Some(arena) = existing() {
        return Some(arena);
    }
    replace(ARENA.load(Ordering::Acquire))
}

/// Puts a new arena in the place of `old`; if another thread was faster, takes that.
fn replace(old: *mut Arena) -> Option<&'static Arena> {
    if HOPELESS.load(Ordering::Relaxed) {
        return None;
    }
    let Some(new) = Arena::make() else {
        HOPELESS.store(true, Ordering::Relaxed);
        return None;
    };
    match ARENA.compare_exchange(old, new.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            // SAFETY: just made, and never unmapped from now on.
            let new = unsafe { new.as_ref() };
            fork::remember(new.inheritance());
            Some(new)
        }
        Err(_) => {
            // SAFETY: nobody else has seen it.
            unsafe { Arena::discard(new) };
            existing()
        }
    }
}

/// Says that the program has closed the arena's descriptor: threads that come now get a new arena.
pub(crate) fn renew(gone: &'static Arena) -> Option<&'static Arena> {
    replace(core::ptr::from_ref(gone).cast_mut())
}

impl Arena {
    /// Makes an arena that nobody knows yet; without shared memory, one that says so.
    fn make() -> Option<NonNull<Arena>> {
        let memory = memory::map_private(size_of::<Arena>())?.cast::<Arena>();
        let shared = make_shared();
        let arena = memory.as_ptr();
        // SAFETY: large enough, zeroed (so every atomic is valid) and nobody else's.
        unsafe {
            (*arena).generation = GENERATION.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
            (*arena).descriptor = -1;
            if let Some((descriptor, base)) = shared {
                (*arena).descriptor = descriptor;
                (*arena).identity = identity(descriptor).unwrap_or_default();
                (*arena).base = base.as_ptr();
            }
        }
        Some(memory)
    }

    /// # Safety
    /// `arena` is [`Self::make`]'s and nobody has seen it.
    unsafe fn discard(arena: NonNull<Arena>) {
        // SAFETY: as the caller says.
        unsafe {
            let (descriptor, base) = ((*arena.as_ptr()).descriptor, (*arena.as_ptr()).base);
            if !base.is_null() {
                memory::unmap(base, ARENA_BYTES);
                libc::close(descriptor);
            }
            memory::unmap(arena.as_ptr().cast(), size_of::<Arena>());
        }
    }

    /// Which arena this is: what is cached of another one is void.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether there is no shared memory, so that events go through probes.
    pub(crate) fn is_fallback(&self) -> bool {
        self.base.is_null()
    }

    /// The shared header.
    pub(crate) fn header(&self) -> Option<&ArenaHeader> {
        // SAFETY: mapped as long as the process lives, all atomics; null is none.
        unsafe { self.base.cast::<ArenaHeader>().as_ref() }
    }

    /// The log's first byte.
    pub(crate) fn log(&self) -> Option<NonNull<u8>> {
        // SAFETY: within the mapping.
        NonNull::new(self.base).map(|base| unsafe { base.add(LOG_OFFSET) })
    }

    /// The descriptor by which a collector gets the arena.
    pub(crate) fn descriptor(&self) -> i32 {
        self.descriptor
    }

    /// Whether the descriptor is still the arena's.
    pub(crate) fn has_descriptor(&self) -> bool {
        self.descriptor >= 0 && identity(self.descriptor) == Some(self.identity)
    }

    /// What a child of a fork inherits of it.
    fn inheritance(&self) -> Inheritance {
        Inheritance { descriptor: self.descriptor, identity: self.identity, base: self.base }
    }

    /// Takes a ring for the calling thread.
    pub(crate) fn claim_ring(&self) -> Option<Ring<'_>> {
        let header = self.header()?;
        if let Some(ring) = self.claim_free(header) {
            return Some(ring);
        }
        if self.has_reader() {
            return self.claim_new(header);
        }
        let now = clock::monotonic();
        let old =
            self.claim_unread(header, |ended| ended.saturating_add(unread::PATIENCE_NS) <= now);
        old.or_else(|| self.claim_new(header)).or_else(|| self.claim_unread(header, |_| true))
    }

    fn claim_free(&self, header: &ArenaHeader) -> Option<Ring<'_>> {
        let used = (header.rings.load(Ordering::Acquire) as usize).min(MAX_RINGS);
        (0..used).find_map(|number| self.claim(number, RingState::Free))
    }

    /// Rings of threads that ended at a time of which `is_over` holds, if no reader will empty
    /// them.
    fn claim_unread(
        &self,
        header: &ArenaHeader,
        is_over: impl Fn(u64) -> bool,
    ) -> Option<Ring<'_>> {
        let used = (header.rings.load(Ordering::Acquire) as usize).min(MAX_RINGS);
        (0..used).find_map(|number| {
            let ring = self.ring_header(number)?;
            let ended = ring.state.load(Ordering::Acquire) == RingState::Ended as u32;
            if !ended || !is_over(ring.ended.load(Ordering::Relaxed)) {
                return None;
            }
            let ring = self.claim(number, RingState::Ended)?;
            // SAFETY: the ring is this thread's, and lies within the mapping.
            unsafe { unread::give_up(header, &ring) };
            Some(ring)
        })
    }

    fn claim_new(&self, header: &ArenaHeader) -> Option<Ring<'_>> {
        loop {
            let count = header.rings.load(Ordering::Acquire);
            if count as usize >= MAX_RINGS {
                return None;
            }
            let next = header.rings.compare_exchange(
                count,
                count + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if next.is_ok()
                && let Some(ring) = self.claim(count as usize, RingState::Free)
            {
                return Some(ring);
            }
            // Another thread was faster, or took the new ring as a free one.
            self.header()?;
        }
    }

    /// Takes that ring if it is in that state.
    fn claim(&self, number: usize, state: RingState) -> Option<Ring<'_>> {
        let (items, header) = (self.ring_items(number)?, self.ring_header(number)?);
        if header.state.load(Ordering::Relaxed) != state as u32 {
            return None;
        }
        let (free, used) = (state as u32, RingState::Used as u32);
        header.state.compare_exchange(free, used, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // SAFETY: no preconditions.
        header.tid.store(unsafe { libc::gettid() } as u32, Ordering::Relaxed);
        header.owner.fetch_add(1, Ordering::Release);
        self.header()?.claims.fetch_add(1, Ordering::Release);
        Some(Ring { number: number as u32, items, header })
    }

    fn ring_header(&self, number: usize) -> Option<&RingHeader> {
        let header = self.place(number, HEADERS_OFFSET, HEADER_STRIDE)?.cast::<RingHeader>();
        // SAFETY: within the mapping, which begins on a page; the header is all atomics.
        Some(unsafe { header.as_ref() })
    }

    fn ring_items(&self, number: usize) -> Option<NonNull<u8>> {
        self.place(number, RINGS_OFFSET, RING_STRIDE)
    }

    /// What belongs to that ring where such things lie one behind the other.
    fn place(&self, number: usize, offset: usize, stride: usize) -> Option<NonNull<u8>> {
        if number >= MAX_RINGS {
            return None;
        }
        // SAFETY: within the mapping of ARENA_BYTES.
        NonNull::new(self.base).map(|base| unsafe { base.add(offset + number * stride) })
    }

    /// Whether a collector holds the arena's lock.
    fn has_reader(&self) -> bool {
        // SAFETY: plain numbers, for which zero is valid.
        let mut lock: libc::flock = unsafe { core::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        // SAFETY: `lock` is a flock and may be written.
        let asked = unsafe { libc::fcntl(self.descriptor, libc::F_OFD_GETLK, &raw mut lock) };
        // A reader that cannot be ruled out is one.
        asked != 0 || lock.l_type != libc::F_UNLCK as libc::c_short
    }
}

/// A ring that a thread has taken.
pub(crate) struct Ring<'a> {
    pub(crate) number: u32,
    /// The first byte of its items.
    pub(crate) items: NonNull<u8>,
    pub(crate) header: &'a RingHeader,
}

/// Device and inode of what a descriptor refers to.
pub(crate) fn identity(descriptor: i32) -> Option<(u64, u64)> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `status` may be written.
    (unsafe { libc::fstat(descriptor, &raw mut status) } == 0)
        .then_some((status.st_dev, status.st_ino))
}

/// The memfd, sealed, and its mapped header and log.
fn make_shared() -> Option<(i32, NonNull<u8>)> {
    if REFUSE_MEMORY.load(Ordering::Relaxed) || !may_have_size(ARENA_BYTES as u64) {
        return None;
    }
    let descriptor = create_memory_file()?;
    let prepared =
        size_and_seal(descriptor).then(|| memory::map_shared(descriptor, ARENA_BYTES)).flatten();
    let Some(base) = prepared else {
        // SAFETY: opened above, and nobody else knows of it.
        unsafe { libc::close(descriptor) };
        return None;
    };
    // SAFETY: the mapping is large enough, zeroed, and nobody else's yet.
    let header = unsafe { base.cast::<ArenaHeader>().as_ref() };
    header.version.store(VERSION, Ordering::Relaxed);
    header.pid.store(std::process::id(), Ordering::Relaxed);
    header.clock.store(clock::kind() as u32, Ordering::Relaxed);
    header.magic.store(ARENA_MAGIC, Ordering::Release);
    Some((descriptor, base))
}

/// A file beyond this limit would not fail but kill the process by SIGXFSZ.
fn may_have_size(bytes: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` may be written.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) == 0 && limit.rlim_cur >= bytes }
}

fn create_memory_file() -> Option<i32> {
    let mut shown = [0_u8; ARENA_NAME.len() + 1];
    shown[..ARENA_NAME.len()].copy_from_slice(ARENA_NAME.as_bytes());
    let name = match HIDDEN.load(Ordering::Relaxed) {
        true => HIDDEN_NAME.as_ptr(),
        false => shown.as_ptr().cast(),
    };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Systems may refuse memory that could be executed; older kernels do not know the flag.
    [flags | libc::MFD_NOEXEC_SEAL, flags].into_iter().find_map(|flags| {
        // SAFETY: the name ends with a zero.
        let descriptor = unsafe { libc::memfd_create(name, flags) };
        (descriptor >= 0).then_some(descriptor)
    })
}

fn size_and_seal(descriptor: i32) -> bool {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: calls on a descriptor that was just opened.
    unsafe {
        libc::ftruncate(descriptor, ARENA_BYTES as libc::off_t) == 0
            && libc::fcntl(descriptor, libc::F_ADD_SEALS, seals) == 0
    }
}
