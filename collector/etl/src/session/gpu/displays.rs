//! Displays: when they begin to scan out a frame, and what they are told to show.

use super::topology::Topology;
use crate::payload::dxgkrnl::VSync;
use crate::session::engine::{Engine, TraceEngine, slices};
use rustc_hash::FxHashMap;
use syscollect_model::{Event, Field, MachineId, Scope, Slice, TrackId, Value};
use syscollect_playback::EventType;

/// Displays with tracks of their own; what is more is left out.
const MOST_DISPLAYS: usize = 256;

/// A display, by its GPU and source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Display {
    pub(super) adapter: u64,
    pub(super) source: u32,
}

/// The frame that was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastSync {
    frame: u32,
    /// By the event for several planes.
    multi_plane: bool,
}

/// All displays.
#[derive(Debug, Default)]
pub(super) struct Displays {
    last: FxHashMap<Display, Option<LastSync>>,
    /// What displays without room did.
    pub(super) left_out: u64,
}

impl Displays {
    /// A display syncs. Two events may tell of one sync; the second is left out.
    pub(super) fn vsync(&mut self, engine: &mut Engine<'_>, topology: &mut Topology, sync: VSync) {
        let VSync { adapter, source, frame, address, multi_plane } = sync;
        let display = Display { adapter, source };
        let Some(last) = self.last(display) else { return };
        if *last == Some(LastSync { frame, multi_plane: !multi_plane }) {
            *last = None;
            return;
        }
        *last = Some(LastSync { frame, multi_plane });
        let name = engine.tables.strings.intern("VSync");
        let mut slice = Slice { number: Some(frame.into()), ..Slice::named(name) };
        if let Some(address) = address {
            let name = engine.tables.strings.intern("address");
            slice.fields.push(Field::named(name, Value::Address(address)));
        }
        let track = display.track(engine, topology, "VSync");
        engine.push_event(EventType::Vsync, Event::Instant(track, slice));
    }

    /// A display is told the address of what to show next, on a plane where it has several.
    pub(super) fn flip(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        display: Display,
        layer: Option<u32>,
        sequence: u64,
    ) {
        if self.last(display).is_none() {
            return;
        }
        let mut slice = Slice::named(engine.tables.strings.intern("Flip"));
        let name = engine.tables.strings.intern("sequence");
        slice.fields.push(Field::named(name, Value::Unsigned(sequence)));
        if let Some(layer) = layer {
            let name = engine.tables.strings.intern("layer");
            slice.fields.push(Field::named(name, Value::Unsigned(layer.into())));
        }
        let track = display.track(engine, topology, "flips");
        engine.push_event(EventType::Flip, Event::Instant(track, slice));
    }

    fn last(&mut self, display: Display) -> Option<&mut Option<LastSync>> {
        if self.last.len() >= MOST_DISPLAYS && !self.last.contains_key(&display) {
            self.left_out += 1;
            return None;
        }
        Some(self.last.entry(display).or_default())
    }
}

impl Display {
    fn track(self, engine: &mut Engine<'_>, topology: &mut Topology, what: &str) -> TrackId {
        let (gpu, source) = (topology.gpu(self.adapter), self.source);
        let name = format!("GPU {gpu} display {source} {what}");
        let name = engine.tables.strings.intern(&name);
        engine.track(slices(Scope::Machine(MachineId::FIRST), name), 0)
    }
}
