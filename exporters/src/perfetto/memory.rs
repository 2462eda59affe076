//! Memory that programs allocate: a counter of bytes for each pool, below the
//! process's track "Memory".

use super::context::Context;
use super::tracks::{Shape, TrackEventType, TrackSubject, Tracks};
use crate::ExportError;
use crate::heap::Heap;
use std::io::Write;
use syscollect_model::{MemoryEvent, Unit};

/// What the heap is called, which has no name.
const HEAP: &str = "heap";

/// Writes what an event makes of its pool.
pub(crate) fn event<W: Write>(
    heap: &mut Heap,
    tracks: &mut Tracks,
    at: &mut Context<'_, W>,
    event: &MemoryEvent,
) -> Result<(), ExportError> {
    let Some(((process, pool), totals)) = heap.event(event, at.tables) else { return Ok(()) };
    let name = pool.map_or(HEAP, |name| at.tables.strings.get(name));
    let group = tracks.of_process(at, process, "Memory")?;
    let uuid = tracks.uuid_of(
        at,
        TrackSubject::Pool(process, pool),
        Some(group),
        Some(name),
        Shape::Counter(Unit::Bytes),
    )?;
    tracks.details.value(totals.live_bytes as f64);
    tracks.event(at, TrackEventType::Counter, uuid)
}
