//! Books of queries of a GPU: `struct syscollect_gpu_queries`.

use super::gpu::{CGpuContext, made};
use crate::gpu::{GpuZoneId, QueryBooks, Slot};
use core::ffi::{c_int, c_void};

/// What tells books that were made from memory that holds none.
const OPENED: u64 = 0x7379_7363_7175_6572;
/// The value of both, where a zone gets no pair.
const NO_QUERY: u64 = u64::MAX;

/// `struct syscollect_gpu_queries`.
#[repr(C)]
pub struct CQueries {
    /// [`OPENED`], or anything; 0 while queries are read, so that whoever reads them changes
    /// nothing here.
    state: u64,
    slots: *mut Slot<ZoneQueries>,
    pairs: u32,
    /// The first of the pool.
    first: u64,
    books: QueryBooks,
}

/// A zone, and the two queries that are written for it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ZoneQueries {
    begin: u64,
    end: u64,
    zone: u32,
}

const _: () = assert!(size_of::<CQueries>() <= 8 * 8 && align_of::<CQueries>() <= 8);
const _: () =
    assert!(size_of::<Slot<ZoneQueries>>() <= 4 * 8 && align_of::<Slot<ZoneQueries>>() <= 8);

/// Reads a pair without waiting: not 0 where both values were there.
pub type Read = Option<unsafe extern "C" fn(*mut c_void, u64, u64, *mut u64) -> c_int>;

/// Books that are open, taken out of the caller's memory until they are closed.
struct OpenBooks<'a> {
    memory: *mut CQueries,
    books: QueryBooks,
    slots: &'a mut [Slot<ZoneQueries>],
    first: u64,
}

impl Drop for OpenBooks<'_> {
    fn drop(&mut self) {
        // SAFETY: the memory is there as long as the call that opened the books.
        unsafe {
            (&raw mut (*self.memory).books).write(self.books);
            (&raw mut (*self.memory).state).write(OPENED);
        }
    }
}

/// The books, where there are any and nobody reads for them right now.
///
/// # Safety
/// Null, or memory of a `struct syscollect_gpu_queries` that no other thread uses meanwhile.
unsafe fn open<'a>(memory: *mut CQueries) -> Option<OpenBooks<'a>> {
    // SAFETY: as the caller says; all that is in it are numbers, and the slots are those that
    // `syscollect_gpu_queries_init` has made, for these books alone.
    unsafe {
        if memory.is_null() || (&raw const (*memory).state).read() != OPENED {
            return None;
        }
        (&raw mut (*memory).state).write(0);
        let CQueries { slots, pairs, first, books, .. } = memory.read();
        let slots = core::slice::from_raw_parts_mut(slots, pairs as usize);
        Some(OpenBooks { memory, books, slots, first })
    }
}

/// Opens books of a pool.
///
/// # Safety
/// `queries` and `slots` are null, or memory of their types that nobody else uses; of `slots` there
/// are so many as `pairs` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_queries_init(
    queries: *mut CQueries,
    slots: *mut [u64; 4],
    pairs: u32,
    first_query: u64,
) {
    if queries.is_null() {
        return;
    }
    let pairs = pairs.min(u32::MAX / 2);
    let state = if slots.is_null() || pairs == 0 { 0 } else { OPENED };
    let slots = slots.cast::<Slot<ZoneQueries>>();
    if state == OPENED {
        for index in 0..pairs as usize {
            // SAFETY: as the caller says; a slot is no larger than what is there, and they lie one
            // behind the other.
            unsafe { slots.add(index).write(Slot::Free) };
        }
    }
    let books = QueryBooks::default();
    // SAFETY: as the caller says.
    unsafe { queries.write(CQueries { state, slots, pairs, first: first_query, books }) };
}

/// Takes a pair of the pool for a zone; 0 where there is none.
///
/// # Safety
/// `queries` as for `open`; `begin` and `end` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_queries_take(
    queries: *mut CQueries,
    zone: u32,
    begin: *mut u64,
    end: *mut u64,
) -> c_int {
    let mut taken = ZoneQueries { begin: NO_QUERY, end: NO_QUERY, zone };
    let found = GpuZoneId::from_number(zone).is_active() && {
        // SAFETY: as the caller says.
        unsafe { open(queries) }.is_some_and(|mut opened| {
            let first = opened.first;
            let pair = opened.books.take(opened.slots, |pair| {
                taken.begin = first.wrapping_add(u64::from(pair.begin()));
                taken.end = first.wrapping_add(u64::from(pair.end()));
                taken
            });
            pair.is_some()
        })
    };
    for (place, query) in [(begin, taken.begin), (end, taken.end)] {
        if !place.is_null() {
            // SAFETY: as the caller says.
            unsafe { place.write(query) };
        }
    }
    c_int::from(found)
}

/// Enters the program's own queries for a zone; 0 where there is no room.
///
/// # Safety
/// As for `open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_queries_add(
    queries: *mut CQueries,
    zone: u32,
    begin: u64,
    end: u64,
) -> c_int {
    if !GpuZoneId::from_number(zone).is_active() {
        return 0;
    }
    // SAFETY: as the caller says.
    let Some(mut opened) = (unsafe { open(queries) }) else { return 0 };
    let added = opened.books.take(opened.slots, |_| ZoneQueries { begin, end, zone });
    c_int::from(added.is_some())
}

/// Reads what is there, tells the zones' times, and returns of how many.
///
/// # Safety
/// As for `open`; the context is null or memory of one; `read` may be called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_queries_resolve(
    queries: *mut CQueries,
    context: *const CGpuContext,
    read: Read,
    user: *mut c_void,
) -> u32 {
    // SAFETY: as the caller says.
    let (opened, context) = unsafe { (open(queries), made(context)) };
    let (Some(mut opened), Some(read)) = (opened, read) else { return 0 };
    let mut resolved = 0;
    opened.books.resolve(
        opened.slots,
        |batch, values| {
            let (pairs, _) = values.as_chunks_mut::<2>();
            for (slot, pair) in batch.slots.iter().zip(pairs) {
                let Slot::Taken(taken) = slot else { continue };
                let mut times = [0; 2];
                // SAFETY: as the caller says.
                if unsafe { read(user, taken.begin, taken.end, times.as_mut_ptr()) } != 0 {
                    *pair = times.map(Some);
                }
            }
        },
        |taken, times| {
            resolved += 1;
            if let Some(context) = context {
                context.resolve(GpuZoneId::from_number(taken.zone), times.began, times.ended);
            }
        },
    );
    resolved
}

/// No value comes any more: tells so of all zones, and gives all queries back.
///
/// # Safety
/// As for `open`; the context is null or memory of one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_queries_abandon(
    queries: *mut CQueries,
    context: *const CGpuContext,
) {
    // SAFETY: as the caller says.
    let (opened, context) = unsafe { (open(queries), made(context)) };
    let Some(mut opened) = opened else { return };
    opened.books.abandon(opened.slots, |taken| {
        if let Some(context) = context {
            context.resolve_without_times(GpuZoneId::from_number(taken.zone));
        }
    });
}

/// Zones that found no room.
///
/// # Safety
/// As for `open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_gpu_queries_refused(queries: *mut CQueries) -> u64 {
    // SAFETY: as the caller says.
    unsafe { open(queries) }.map_or(0, |opened| opened.books.refused())
}
