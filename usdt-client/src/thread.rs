//! What a thread knows: its ring, and the zones it has open.
//!
//! The state lies in private pages that a fork wipes, and is found through one
//! pointer in thread-local storage. The pointer has no destructor, so it is good
//! before main and in the destructors of other thread-local values. A key of
//! pthreads tells of the thread's end: its destructor runs after those of
//! thread-local values, so that zones there are recorded, and needs no heap.

use crate::arena::{self, Arena};
use crate::handler_stack::HandlerStack;
use crate::ring::{Producer, Shared};
use crate::{clock, memory};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use syscollect_zone_protocol::arena::{
    ARENA_BYTES, ArenaHeader, ClockKind, PAGE, RING_BYTES, RingHeader, RingState,
};

/// Zones that are restated to a collector that comes later.
pub(crate) const OPEN_ZONES: usize = 64;

/// A zone that is open.
#[derive(Clone, Copy)]
pub(crate) struct OpenZone {
    /// The location's number in the log.
    pub(crate) location: u32,
    /// When it began.
    pub(crate) ticks: u64,
}

/// A thread's state. All zeros is valid: a thread that has no ring yet.
#[repr(C, align(64))]
pub(crate) struct ThreadState {
    pub(crate) producer: Producer,
    /// Where the ring's items lie.
    items: Cell<*mut u8>,
    /// The ring's header.
    ring: Cell<*const RingHeader>,
    header: Cell<*const ArenaHeader>,
    /// The value of `ArenaHeader::attached` to which all was stated.
    pub(crate) attached: Cell<u32>,
    /// The arena's, for which numbers of the log are good.
    pub(crate) generation: Cell<u32>,
    /// Zones that are open, those included that did not fit.
    pub(crate) depth: Cell<u32>,
    /// Whether ticks are CLOCK_MONOTONIC.
    pub(crate) monotonic: Cell<bool>,
    /// Whether items were lost since the last that fit.
    pub(crate) lossy: Cell<bool>,
    /// The ring's number in the arena.
    number: Cell<u32>,
    arena: Cell<*const Arena>,
    /// How many items were lost since the last that fit.
    pub(crate) lost: AtomicU64,
    /// Counts events of a thread without a ring, to ask for one now and then.
    pub(crate) refused: Cell<u32>,
    /// How often the ring was announced without an answer.
    pub(crate) announced: Cell<u32>,
    /// Numbers for zones of GPUs that are this thread's.
    pub(crate) gpu_numbers: GpuNumbers,
    handler_stack: HandlerStack,
    pub(crate) open: [Cell<OpenZone>; OPEN_ZONES],
}

/// Numbers that a thread gives away before it needs more: an operation that other CPUs see costs
/// as much as all the rest of a zone.
const GPU_NUMBERS: u32 = 1024;
/// The first number that no thread has.
static NEXT_GPU_NUMBERS: AtomicU32 = AtomicU32::new(GPU_NUMBERS);

/// Numbers for zones of GPUs, which no other thread gives away.
pub(crate) struct GpuNumbers {
    /// The next one; at the end of a block of them there is none.
    next: Cell<u32>,
}

impl GpuNumbers {
    const fn new() -> Self {
        Self { next: Cell::new(0) }
    }

    /// A number that no other zone of the process has, until they wrap; never 0.
    #[inline(always)]
    pub(crate) fn take(&self) -> u32 {
        let mut number = self.next.get();
        if number.is_multiple_of(GPU_NUMBERS) {
            number = Self::block();
        }
        self.next.set(number.wrapping_add(1));
        number
    }

    /// The first of a block that is this thread's: of each block the first number is given to
    /// nobody, so that it stands for the end of the one before.
    #[cold]
    fn block() -> u32 {
        NEXT_GPU_NUMBERS.fetch_add(GPU_NUMBERS, Ordering::Relaxed) + 1
    }
}

/// Pages of a thread's state.
const STATE_BYTES: usize = size_of::<ThreadState>().next_multiple_of(PAGE);

/// A state that is in read-only memory or at least never written.
struct Fixed(ThreadState);
// SAFETY: it is never changed: every way to an event finds no room in it, and the slow way knows
// its address.
unsafe impl Sync for Fixed {}

/// The state of a thread that has none yet.
static NONE: Fixed = Fixed(ThreadState::new());
/// The state of a thread that has ended.
static ENDED: Fixed = Fixed(ThreadState::new());

thread_local! {
    static STATE: Cell<*const ThreadState> = const { Cell::new(&raw const NONE.0) };
    /// Set while the state is being made: events in between are lost.
    static STARTING: Cell<bool> = const { Cell::new(false) };
    static NAME: Cell<Name> = const { Cell::new(Name { length: 0, bytes: [0; 63] }) };
}

/// A thread's name, kept here so that a collector that comes later can be told.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    length: u8,
    bytes: [u8; 63],
}

impl Name {
    /// The name; empty if none was given.
    pub(crate) fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.length as usize).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// The name that was given to the calling thread.
pub(crate) fn name() -> Name {
    NAME.get()
}

/// Remembers the calling thread's name, at most 63 bytes of it.
pub(crate) fn remember_name(text: &str) {
    let text = crate::log::cut(text, 63);
    let mut name = Name { length: text.len() as u8, bytes: [0; 63] };
    name.bytes[..text.len()].copy_from_slice(text.as_bytes());
    NAME.set(name);
}

/// The calling thread's state; one without room if it has none.
#[inline(always)]
pub(crate) fn state() -> &'static ThreadState {
    // SAFETY: a static or a mapping that is taken away only when the thread has ended.
    unsafe { &*STATE.get() }
}

/// What [`prepare`] found.
pub(crate) enum Prepared {
    /// The thread has a ring.
    Ring(&'static ThreadState),
    /// It has a state but no ring: no shared memory, or all rings are taken.
    NoRing(&'static ThreadState),
    /// It has nothing: it has ended, is just starting, or nobody records.
    Nothing,
}

/// Gives the calling thread a state and a ring if it has none.
#[cold]
pub(crate) fn prepare() -> Prepared {
    let state = state();
    if state.has_ring() {
        return Prepared::Ring(state);
    }
    if core::ptr::eq(state, &raw const ENDED.0) || !crate::enabled() || STARTING.replace(true) {
        return Prepared::Nothing;
    }
    let prepared = start();
    STARTING.set(false);
    prepared
}

/// Gives the calling thread a stack for handlers, if it has a state already.
pub(crate) fn provide_handler_stack() {
    let state = state();
    if !core::ptr::eq(state, &raw const NONE.0) && !core::ptr::eq(state, &raw const ENDED.0) {
        state.handler_stack.provide();
    }
}

fn start() -> Prepared {
    let mut current = state();
    if core::ptr::eq(current, &raw const NONE.0) {
        let Some(memory) = memory::map_private(STATE_BYTES) else { return Prepared::Nothing };
        // SAFETY: large enough, zeroed, and unmapped only at the thread's end.
        current = unsafe { memory.cast::<ThreadState>().as_ref() };
        STATE.set(current);
        end_with_thread(current);
        current.handler_stack.provide();
    }
    if current.refuses_for_now() {
        return Prepared::NoRing(current);
    }
    let Some(arena) = arena::get() else { return Prepared::NoRing(current) };
    current.claim(arena)
}

impl ThreadState {
    const fn new() -> Self {
        Self {
            producer: Producer::new(),
            items: Cell::new(core::ptr::null_mut()),
            ring: Cell::new(core::ptr::null()),
            header: Cell::new(core::ptr::null()),
            attached: Cell::new(0),
            generation: Cell::new(0),
            depth: Cell::new(0),
            monotonic: Cell::new(false),
            lossy: Cell::new(false),
            number: Cell::new(0),
            arena: Cell::new(core::ptr::null()),
            lost: AtomicU64::new(0),
            refused: Cell::new(0),
            announced: Cell::new(0),
            gpu_numbers: GpuNumbers::new(),
            handler_stack: HandlerStack::new(),
            open: [const { Cell::new(OpenZone { location: 0, ticks: 0 }) }; OPEN_ZONES],
        }
    }

    /// Whether this thread can write at all.
    pub(crate) fn has_ring(&self) -> bool {
        !self.items.get().is_null()
    }

    /// The ring's memory.
    ///
    /// # Safety
    /// The thread has a ring.
    #[inline(always)]
    pub(crate) unsafe fn ring(&self) -> RingMemory {
        RingMemory { items: self.items.get(), header: self.ring.get() }
    }

    /// The arena's shared header.
    ///
    /// # Safety
    /// The thread has a ring.
    #[inline(always)]
    pub(crate) unsafe fn header(&self) -> &'static ArenaHeader {
        // SAFETY: as for the ring.
        unsafe { &*self.header.get() }
    }

    /// The arena that this thread writes to.
    pub(crate) fn arena(&self) -> Option<&'static Arena> {
        // SAFETY: null, or an arena, which lasts as long as the process.
        unsafe { self.arena.get().as_ref() }
    }

    /// The time, as this thread's arena says that it is stamped.
    #[inline(always)]
    pub(crate) fn ticks(&self) -> u64 {
        if self.monotonic.get() { clock::monotonic() } else { clock::counter() }
    }

    /// Remembers a zone that begins, and returns the depth before it.
    #[inline(always)]
    pub(crate) fn push(&self, location: u32, ticks: u64) -> u32 {
        let depth = self.depth.get();
        if let Some(open) = self.open.get(depth as usize) {
            open.set(OpenZone { location, ticks });
        }
        self.depth.set(depth + 1);
        depth
    }

    /// A thread without a ring asks for one at its first event and at every 1024th.
    fn refuses_for_now(&self) -> bool {
        let refused = self.refused.get();
        self.refused.set(refused.wrapping_add(1));
        !refused.is_multiple_of(1024)
    }

    fn claim(&'static self, arena: &'static Arena) -> Prepared {
        let arena = if arena.is_fallback() || arena.has_descriptor() {
            arena
        } else {
            // The program closed it: no collector could find this thread's ring.
            arena::renew(arena).unwrap_or(arena)
        };
        self.arena.set(arena);
        self.generation.set(arena.generation());
        self.monotonic.set(clock::kind() == ClockKind::Monotonic);
        let Some(header) = arena.header() else { return Prepared::NoRing(self) };
        let Some(ring) = arena.claim_ring() else {
            if self.refused.get() == 1 {
                header.threads_without_ring.fetch_add(1, Ordering::Relaxed);
            }
            return Prepared::NoRing(self);
        };
        self.header.set(header);
        self.items.set(ring.items.as_ptr());
        self.ring.set(ring.header);
        self.number.set(ring.number);
        self.attached.set(header.attached.load(Ordering::Acquire));
        let memory = RingMemory { items: ring.items.as_ptr(), header: ring.header };
        self.producer.start(&memory, ring.header.head.load(Ordering::Relaxed));
        crate::emit::state_all(self);
        self.announce();
        Prepared::Ring(self)
    }

    /// Tells whoever attached to the probe where this thread's ring is.
    pub(crate) fn announce(&self) {
        if arena::HIDDEN.load(Ordering::Relaxed) {
            return;
        }
        if let Some(arena) = self.arena() {
            crate::arch::probe_site::ring(
                arena.descriptor(),
                self.number.get(),
                ARENA_BYTES as u64,
            );
        }
    }

    /// Counts an event within another one of the same thread.
    pub(crate) fn count_nested(&self) {
        // SAFETY: who writes has a ring.
        unsafe { self.ring() }.count_lost(1);
    }

    /// Counts an event that found no room in the ring; returns how many did since the last that
    /// fit.
    pub(crate) fn count_lost(&self) -> u64 {
        // SAFETY: who finds no room has a ring.
        unsafe { self.ring() }.count_lost(1);
        1 + self.lost.fetch_add(1, Ordering::Relaxed)
    }
}

/// Counts an event of a thread that has no ring (yet or any more).
#[cold]
pub(crate) fn count_without_ring() {
    match arena::existing().and_then(Arena::header) {
        Some(header) => header.events_without_ring.fetch_add(1, Ordering::Relaxed),
        None => arena::LOST_BEFORE_ARENA.fetch_add(1, Ordering::Relaxed),
    };
}

/// The ring's memory as the producer sees it. Only ever made of a ring in the
/// arena's mapping, which lasts as long as the process.
pub(crate) struct RingMemory {
    items: *mut u8,
    header: *const RingHeader,
}

impl RingMemory {
    /// The ring's shared header.
    #[inline(always)]
    pub(crate) fn header(&self) -> &'static RingHeader {
        // SAFETY: in the arena's mapping, and all atomics.
        unsafe { &*self.header }
    }
}

impl Shared for RingMemory {
    #[inline(always)]
    fn capacity(&self) -> u64 {
        RING_BYTES as u64
    }

    #[inline(always)]
    fn tail(&self) -> u64 {
        self.header().tail.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn publish_head(&self, head: u64) {
        self.header().head.store(head, Ordering::Release);
    }

    fn count_lost(&self, items: u64) {
        self.header().lost.fetch_add(items, Ordering::Relaxed);
    }

    #[inline(always)]
    unsafe fn write(&self, offset: u64, word: u64) {
        // SAFETY: the caller keeps the offset below data and slack.
        unsafe { self.items.add(offset as usize).cast::<u64>().write(word) };
    }
}

/// 0: not asked for, 1: there is none, else 2 + the key's number.
static END_KEY: AtomicU32 = AtomicU32::new(0);

/// Has [`ended`] called when this thread ends.
fn end_with_thread(state: &'static ThreadState) {
    let mut key = END_KEY.load(Ordering::Relaxed);
    if key == 0 {
        let mut made: libc::pthread_key_t = 0;
        // SAFETY: `made` may be written; the destructor is removed with the code (`remove_key`).
        let made = if unsafe { libc::pthread_key_create(&raw mut made, Some(ended)) } == 0 {
            2 + made
        } else {
            1
        };
        key = match END_KEY.compare_exchange(0, made, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => made,
            Err(other) => {
                if made > 1 {
                    // SAFETY: made above and not used.
                    unsafe { libc::pthread_key_delete(made - 2) };
                }
                other
            }
        };
    }
    if key > 1 {
        // SAFETY: the key exists. For the first 32 keys of a process this takes no memory.
        unsafe { libc::pthread_setspecific(key - 2, core::ptr::from_ref(state).cast()) };
    }
}

/// The thread ends: says so in the ring, and gives back ring and state.
unsafe extern "C" fn ended(state: *mut core::ffi::c_void) {
    // SAFETY: the value is only ever set to the thread's state.
    let state = unsafe { &*state.cast::<ThreadState>() };
    if state.has_ring() {
        crate::emit::thread_end();
        // SAFETY: it has a ring.
        let ring = unsafe { state.ring() };
        STATE.set(&raw const ENDED.0);
        ring.header().ended.store(clock::monotonic(), Ordering::Relaxed);
        ring.header().state.store(RingState::Ended as u32, Ordering::Release);
    } else {
        STATE.set(&raw const ENDED.0);
    }
    state.handler_stack.take_back();
    // SAFETY: nobody finds it any more.
    unsafe { memory::unmap(core::ptr::from_ref(state).cast_mut().cast(), STATE_BYTES) };
}

/// Before a library with this code is unloaded: no thread that ends later may call into it.
extern "C" fn remove_key() {
    let key = END_KEY.swap(1, Ordering::Relaxed);
    if key > 1 {
        // SAFETY: the key exists.
        unsafe { libc::pthread_key_delete(key - 2) };
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static REMOVE_KEY: extern "C" fn() = remove_key;
