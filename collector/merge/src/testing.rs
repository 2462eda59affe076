//! An engine for the tests of decoders: one CPU's lane of each kind, and what was told.

use crate::engine::{AddedRows, Engine, Shared};
use crate::losses::Losses;
use crate::stacks::Resolver;
use std::sync::Arc;
use syscollect_model::{
    ClockMap, ClockPair, Event, Exporter, Lane, LaneKind, Loss, MachineId, RecorderSummary,
    SessionInfo, Tables, Ticks, Time,
};
use syscollect_playback::{Output, Stopped};

/// The lanes' indices.
pub(crate) const SCHED: usize = 0;
pub(crate) const SAMPLE: usize = 1;
pub(crate) const COUNTER: usize = 2;

/// Keeps all events.
struct KeptEvents(Vec<Event>);

impl Exporter for KeptEvents {
    type Error = Stopped;

    fn begin(&mut self, _: &SessionInfo, _: &Tables) -> Result<(), Stopped> {
        Ok(())
    }

    fn event(&mut self, _: Time, event: &Event, _: &Tables) -> Result<(), Stopped> {
        self.0.push(event.clone());
        Ok(())
    }

    fn end(&mut self, _: &[Loss], _: Option<&RecorderSummary>, _: &Tables) -> Result<(), Stopped> {
        Ok(())
    }
}

/// What `decode` tells of these tables; a tick is a nanosecond.
pub(crate) fn events_of(tables: &mut Tables, decode: impl FnOnce(&mut Engine<'_>)) -> Vec<Event> {
    let reading = |ns: u64| ClockPair {
        ticks: Ticks(ns),
        monotonic: ns,
        monotonic_raw: ns,
        boottime: ns,
        realtime: ns,
        uncertainty: 0,
    };
    let clock = ClockMap::new(vec![reading(0), reading(1_000_000)]).unwrap();
    let mut kept = KeptEvents(Vec::new());
    let shared = Shared {
        machine: MachineId::FIRST,
        clock: Arc::new(clock),
        tables: std::mem::take(tables),
        resolver: Resolver::default(),
        added: AddedRows::default(),
        losses: Losses::default(),
        definition_records: 0,
    };
    let mut engine = Engine::new(shared, &[], Output::of_part(&mut kept, None, None));
    for kind in [LaneKind::Sched, LaneKind::Sample, LaneKind::Counter] {
        let lane = engine.lane_state(Lane::new(kind, 0));
        engine.lanes.push(lane);
    }
    decode(&mut engine);
    *tables = engine.tables;
    kept.0
}
