//! GPU memory, as drivers tell it when it changes (include/trace/events/gpu_mem.h).

use syscollect_model::{Event, Scope, Track, TrackKind, Unit};

use super::record::{DescribedRecord, TRACEPOINTS};
use crate::engine::Engine;
use syscollect_playback::Stopped;

/// All that a process has of a GPU's memory from now on, or everybody.
pub(super) fn total(engine: &mut Engine<'_>, record: &DescribedRecord<'_>) -> Result<(), Stopped> {
    let (Some(gpu), Some(pid), Some(bytes)) =
        (record.number("gpu_id"), record.number("pid"), record.number("size"))
    else {
        return record.emit_as_instant(engine);
    };
    // The kernel has no id for what belongs to nobody in particular.
    let scope = match pid as u32 {
        0 => Scope::Machine(engine.machine),
        pid => Scope::Process(engine.process_of(pid)),
    };
    let name = engine.tables.strings.intern(&format!("GPU {gpu} memory"));
    let kind = TrackKind::Counter { unit: Unit::Bytes };
    let track = engine.track(Track { scope, name, kind }, TRACEPOINTS);
    engine.emit(&Event::Counter(track, bytes as f64))
}
