//! Displays: when they begin to scan out a frame, and what they are told to show.

use super::topology::Topology;
use crate::payload::dxgkrnl::VSync;
use crate::session::context::Context;
use rustc_hash::FxHashMap;
use syscollect_model::{Event, Field, Scope, Slice, TrackKind, TrackRole, Value};
use syscollect_playback::EventType;

/// Displays with tracks of their own; what is more is left out.
const MOST_DISPLAYS: usize = 256;

/// All displays, by GPU and source.
#[derive(Debug, Default)]
pub(super) struct Displays {
    /// The frame that was told last, and whether by the event for several planes.
    last: FxHashMap<(u64, u32), Option<(u32, bool)>>,
    /// What displays without room did.
    pub(super) left_out: u64,
}

impl Displays {
    /// A display syncs. Two events may tell of one sync; the second is left out.
    pub(super) fn vsync(&mut self, at: &mut Context<'_>, topology: &mut Topology, sync: VSync) {
        let Some(last) = self.last(sync.adapter, sync.source) else { return };
        if *last == Some((sync.frame, !sync.multi_plane)) {
            *last = None;
            return;
        }
        *last = Some((sync.frame, sync.multi_plane));
        let name = at.tables.strings.intern("VSync");
        let mut slice = Slice { number: Some(sync.frame.into()), ..Slice::named(name) };
        if let Some(address) = sync.address {
            let name = at.tables.strings.intern("address");
            slice.fields.push(Field::named(name, Value::Address(address)));
        }
        instant(at, topology, (sync.adapter, sync.source, "VSync"), (EventType::Vsync, slice));
    }

    /// A display is told the address of what to show next.
    pub(super) fn flip(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        (adapter, source): (u64, u32),
        (layer, sequence): (Option<u32>, u64),
    ) {
        if self.last(adapter, source).is_none() {
            return;
        }
        let mut slice = Slice::named(at.tables.strings.intern("Flip"));
        let name = at.tables.strings.intern("sequence");
        slice.fields.push(Field::named(name, Value::Unsigned(sequence)));
        if let Some(layer) = layer {
            let name = at.tables.strings.intern("layer");
            slice.fields.push(Field::named(name, Value::Unsigned(layer.into())));
        }
        instant(at, topology, (adapter, source, "flips"), (EventType::Flip, slice));
    }

    fn last(&mut self, adapter: u64, source: u32) -> Option<&mut Option<(u32, bool)>> {
        let key = (adapter, source);
        if self.last.len() >= MOST_DISPLAYS && !self.last.contains_key(&key) {
            self.left_out += 1;
            return None;
        }
        Some(self.last.entry(key).or_default())
    }
}

fn instant(
    at: &mut Context<'_>,
    topology: &mut Topology,
    (adapter, source, what): (u64, u32, &str),
    (kind, slice): (EventType, Slice),
) {
    let gpu = topology.gpu(adapter);
    let name = at.tables.strings.intern(&format!("GPU {gpu} display {source} {what}"));
    let track = at.track(Scope::Machine, name, TrackKind::Slices(TrackRole::Named), 0);
    at.tell(kind, at.now, Event::Instant(track, slice));
}
