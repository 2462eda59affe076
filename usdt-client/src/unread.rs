//! Rings of threads that ended before anybody read them.
//!
//! Between the moment at which the semaphore is raised and the one at which a
//! collector takes the arena lie some milliseconds, in which many a short thread
//! comes and goes: its ring waits for the collector. But the semaphore may also
//! be up without any collector that will come: another tool listens to the
//! probes, or the recording is of other processes. So that the memory of such a
//! program does not grow with every thread, rings that have waited for
//! [`PATIENCE_NS`] are given to new threads, and what they held is counted.

use crate::arena::Ring;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use syscollect_zone_protocol::arena::{ArenaHeader, RING_BYTES};
use syscollect_zone_protocol::{ItemKind, is_stamped, item_words};

/// How long the ring of a thread that has ended waits for a collector.
pub(crate) const PATIENCE_NS: u64 = 1_000_000_000;

/// Empties a ring that the calling thread has just taken, and counts what it held as unread.
///
/// # Safety
/// The ring lies within its arena's mapping, and no other thread writes to it.
pub(crate) unsafe fn give_up(arena: &ArenaHeader, ring: &Ring<'_>) {
    let header = ring.header;
    let head = header.head.load(Ordering::Relaxed);
    // SAFETY: the items between tail and head are whole ones, of a thread that has ended.
    let events = unsafe { events(ring.items, header.tail.load(Ordering::Acquire), head) };
    arena
        .events_unread
        .fetch_add(events + header.lost.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    arena.unread_until.fetch_max(header.ended.load(Ordering::Relaxed), Ordering::Relaxed);
    // A reader that came just now at worst stores the same.
    header.tail.store(head, Ordering::Release);
}

/// The events among the items from one position to the other.
///
/// # Safety
/// At `items` a ring's items begin, and whole items lie from `position` to `head`.
unsafe fn events(items: NonNull<u8>, mut position: u64, head: u64) -> u64 {
    let mut events = 0;
    while position < head {
        let offset = position as usize % RING_BYTES;
        // SAFETY: below the end of the ring's data, whose words are aligned.
        let first = unsafe { items.add(offset).cast::<u64>().read_volatile() };
        let Some(words) = item_words(first) else { break };
        events += u64::from(is_event(first));
        position += words as u64 * 8;
    }
    events
}

/// Whether an item is the first of an event, and not what is told of a thread to each collector.
fn is_event(first: u64) -> bool {
    use ItemKind::{AsyncOpen, Attached, Lost, OpenZone};
    let kind = ItemKind::from_number(first as u8);
    is_stamped(first) && !matches!(kind, Some(Attached | OpenZone | AsyncOpen | Lost))
}
