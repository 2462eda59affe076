//! An engine for the tests of decoders: one CPU's lane of each kind, and what was told.

use crate::engine::{CaptureEngine, CaptureState, Engine, no_added_rows};
use std::sync::Arc;
use syscollect_model::{Event, Lane, LaneKind, MachineId, Tables};
use syscollect_playback::testing::{KeptEvents, nanosecond_clock};
use syscollect_playback::{EngineParts, Output};

/// The lanes' numbers.
pub(crate) const SCHED: usize = 0;
pub(crate) const SAMPLE: usize = 1;
pub(crate) const COUNTER: usize = 2;
pub(crate) const ZONE: usize = 3;
pub(crate) const PROBE: usize = 4;
pub(crate) const TRACEPOINT: usize = 5;

/// What `decode` tells of these tables; a tick is a nanosecond.
pub(crate) fn events_of(tables: &mut Tables, decode: impl FnOnce(&mut Engine<'_>)) -> Vec<Event> {
    let mut kept = KeptEvents::default();
    let parts = EngineParts {
        machine: MachineId::FIRST,
        clock: Arc::new(nanosecond_clock()),
        tables: std::mem::take(tables),
        added: no_added_rows(),
        source: CaptureState::default(),
    };
    let mut engine = Engine::new(parts, &[], Output::of_part(&mut kept, None, None));
    let kinds = [
        LaneKind::Sched,
        LaneKind::Sample,
        LaneKind::Counter,
        LaneKind::Zone,
        LaneKind::Probe,
        LaneKind::Tracepoint,
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        engine.insert_lane(number, Lane::new(kind, 0));
    }
    decode(&mut engine);
    *tables = engine.into_parts().tables;
    kept.events.into_iter().map(|(_, event)| event).collect()
}
