//! Markers that have a schema: instants, and slices made of two halves.

use crate::engine::{Engine, Writer};
use crate::open::MAX_DEPTH;
use crate::zones::attributes::{About, Attributes};
use crate::zones::prescan::PlacedMarker;
use crate::zones::state::Zones;
use syscollect_model::{
    Event, SchemaId, Scope, Slice, StackId, Track, TrackId, TrackKind, TrackRole,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::ZoneChunk;
use syscollect_zone_protocol::MarkerPhase;

/// Where a program places a marker: when, by its clock, and on which thread of its process; 0 is
/// the one that places it.
pub(crate) struct MarkerPlacement {
    pub(crate) schema: u32,
    pub(crate) phase: MarkerPhase,
    pub(crate) at: u64,
    pub(crate) tid: u32,
}

/// Keeps the rows of halves apart from those of zones.
const HALVES: u64 = 1 << 63;

impl Zones {
    pub(crate) fn marker(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        (schema, phase): (u32, MarkerPhase),
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let Some(schema) = self.known.logs.get(writer.client).schema(schema) else {
            engine.source.losses.undecodable(writer.lane, 1);
            return Ok(());
        };
        let attributes =
            self.decode_attributes(engine, writer, attribute_words, About::Marker(schema))?;
        let stack = self.zone_stack(engine, writer, engine.present.ticks(), None, attributes.stack);
        self.marker_of(engine, writer, (schema, phase), attributes.own, stack)
    }

    /// A marker at another time, or of another thread. Where all lanes were passed over it is known
    /// and comes at its time; else it comes now, if its time is over.
    pub(crate) fn place_marker(
        &mut self,
        engine: &mut Engine<'_>,
        by: Writer,
        placed: MarkerPlacement,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        if self.known.prescan.is_whole {
            return Ok(());
        }
        let clock = self.known.programs.clock(by.client, engine.present.map());
        let Some(ticks) = clock.within(placed.at) else { return Ok(()) };
        let stamped = engine.present.ticks();
        let chunk =
            ZoneChunk { client: by.client, tid: by.tid, owner: by.owner, ..Default::default() };
        let marker = PlacedMarker {
            ticks: self.known.lifetimes.at(by.tid, stamped).limit(ticks),
            lane: by.lane,
            stamped,
            chunk,
            tid: placed.tid,
            schema: placed.schema,
            phase: placed.phase,
            attribute_words: attribute_words.into(),
        };
        if marker.ticks <= stamped {
            return self.placed_marker(engine, &marker);
        }
        self.known.prescan.markers.push(marker);
        Ok(())
    }

    /// A marker whose time has come.
    pub(crate) fn placed_marker(
        &mut self,
        engine: &mut Engine<'_>,
        placed: &PlacedMarker,
    ) -> Result<(), Stopped> {
        let by = self.writer(engine, placed.lane, &placed.chunk);
        let Some(schema) = self.known.logs.get(by.client).schema(placed.schema) else {
            engine.source.losses.undecodable(placed.lane, 1);
            return Ok(());
        };
        let attributes =
            self.decode_attributes(engine, by, &placed.attribute_words, About::Marker(schema))?;
        let stack = self.zone_stack(engine, by, placed.stamped, None, attributes.stack);
        let on = self.placed_on(engine, by, placed.tid);
        self.marker_of(engine, on, (schema, placed.phase), attributes.own, stack)
    }

    /// The thread a marker is placed on, where that is one of the same process.
    fn placed_on(&mut self, engine: &mut Engine<'_>, by: Writer, tid: u32) -> Writer {
        // One that nothing announced may be known or not when its time comes.
        let announced = tid != 0 && engine.threads.is_announced(tid);
        let thread = if announced { engine.threads.get(tid) } else { None };
        match thread.filter(|thread| engine.tables.thread(*thread).process == by.process) {
            Some(thread) => {
                Writer { thread, tid, slot: self.slot(engine, thread, by.process, by.client), ..by }
            }
            None => by,
        }
    }

    fn marker_of(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        (schema, phase): (SchemaId, MarkerPhase),
        attributes: Attributes,
        stack: Option<StackId>,
    ) -> Result<(), Stopped> {
        let row = engine.tables.schema(schema);
        let (name, category) = (row.name, row.category);
        if phase == MarkerPhase::End {
            let track = self.half_track(engine, writer, schema);
            return self.second_half(engine, writer, track, attributes);
        }
        engine.occurred(EventType::Marker);
        let mut slice = Slice { category, schema: Some(schema), stack, ..Slice::named(name) };
        self.apply(engine, &mut slice, attributes);
        if phase == MarkerPhase::Instant {
            return engine.emit(&Event::Instant(self.threads[writer.slot].track, slice));
        }
        let track = self.half_track(engine, writer, schema);
        if self.first_half(writer, track) {
            engine.emit(&Event::SliceBegin(track, slice))
        } else {
            Ok(())
        }
    }

    fn half_track(&mut self, engine: &mut Engine<'_>, writer: Writer, schema: SchemaId) -> TrackId {
        let name = engine.tables.schema(schema).name;
        let row = HALVES | u64::from(writer.client) << 32 | u64::from(schema.0);
        engine.track(
            Track {
                scope: Scope::Thread(writer.thread),
                name,
                kind: TrackKind::Slices(TrackRole::Named),
            },
            row,
        )
    }

    /// Notes a first half; `false` where too many are without a second.
    fn first_half(&mut self, writer: Writer, track: TrackId) -> bool {
        let halves = &mut self.threads[writer.slot].halves;
        match halves.iter_mut().find(|(of, _)| *of == track) {
            Some((_, count)) if *count >= MAX_DEPTH => return false,
            Some((_, count)) => *count += 1,
            None => halves.push((track, 1)),
        }
        true
    }

    fn second_half(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        track: TrackId,
        attributes: Attributes,
    ) -> Result<(), Stopped> {
        let halves = &mut self.threads[writer.slot].halves;
        let open = halves.iter_mut().find(|(of, count)| *of == track && *count > 0);
        let Some((_, count)) = open else { return Ok(()) };
        *count -= 1;
        self.emit_update(engine, track, attributes)?;
        engine.emit(&Event::SliceEnd(track))
    }
}
