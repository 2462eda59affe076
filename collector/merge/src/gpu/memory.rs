//! GPU memory, as drivers tell it when it changes (include/trace/events/gpu_mem.h).

use syscollect_model::{Event, Scope, Track, TrackKind, Unit};

use super::decoder::{Gpu, QUEUES};
use super::record::DescribedRecord;
use crate::engine::Engine;
use syscollect_playback::Stopped;

impl Gpu {
    /// All that a process has of a GPU's memory from now on, or everybody.
    pub(super) fn memory_total(
        &mut self,
        engine: &mut Engine<'_>,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let (Some(gpu), Some(pid), Some(bytes)) =
            (reading.number("gpu_id"), reading.number("pid"), reading.number("size"))
        else {
            return self.plain(engine, reading);
        };
        // The kernel has no id for what belongs to nobody in particular.
        let scope = match pid as u32 {
            0 => Scope::Machine(engine.machine),
            pid => Scope::Process(engine.process_of(pid)),
        };
        let name = engine.tables.strings.intern(&format!("GPU {gpu} memory"));
        let kind = TrackKind::Counter { unit: Unit::Bytes };
        let track = engine.track(Track { scope, name, kind }, QUEUES);
        engine.emit(&Event::Counter(track, bytes as f64))
    }
}
