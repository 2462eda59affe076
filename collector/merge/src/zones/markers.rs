//! Markers that have a schema: instants, and slices made of two halves.

use crate::play::Player;
use crate::zones::attributes::{About, Attributes};
use crate::zones::open::MAX_DEPTH;
use crate::zones::prescan::PlacedMarker;
use crate::zones::state::{Mark, Writer};
use syscollect_model::{Event, SchemaId, Scope, Slice, StackId, TrackId, TrackKind, TrackRole};
use syscollect_playback::Stopped;
use syscollect_zone_protocol::MarkerPhase;

/// Keeps the rows of halves apart from those of zones.
const HALVES: u64 = 1 << 63;

impl Player<'_> {
    pub(crate) fn marker(
        &mut self,
        lane: usize,
        writer: Writer,
        (schema, phase): (u32, MarkerPhase),
        more: &[u64],
    ) -> Result<(), Stopped> {
        let Some(schema) = self.marked.logs.get(writer.client).schema(schema) else {
            self.unknown(lane);
            return Ok(());
        };
        let attributes = self.decode_attributes(lane, writer, more, About::Marker(schema))?;
        let stack = self.zone_stack(writer, self.ticks, None, attributes.stack);
        self.marker_of(writer, (schema, phase), attributes.own, stack)
    }

    /// A marker whose time has come.
    pub(crate) fn placed_marker(&mut self, placed: &PlacedMarker) -> Result<(), Stopped> {
        let by = self.writer(&placed.chunk);
        let schema = self.marked.logs.get(by.client).schema(placed.schema);
        let lane = self.zone_lane_of(by);
        let (Some(schema), Some(lane)) = (schema, lane) else {
            lane.into_iter().for_each(|lane| self.unknown(lane));
            return Ok(());
        };
        let attributes = self.decode_attributes(lane, by, &placed.more, About::Marker(schema))?;
        let stack = self.zone_stack(by, placed.stamped, None, attributes.stack);
        let on = self.placed_on(by, placed.tid);
        self.marker_of(on, (schema, placed.phase), attributes.own, stack)
    }

    /// The thread a marker is placed on, where that is one of the same process.
    fn placed_on(&mut self, by: Writer, tid: u32) -> Writer {
        // One that nothing announced may be known or not when its time comes.
        let announced = tid != 0 && !self.found.threads.contains_key(&tid);
        let thread = if announced { self.threads.get(tid) } else { None };
        match thread.filter(|thread| self.tables.thread(*thread).process == by.process) {
            Some(thread) => {
                Writer { thread, tid, slot: self.slot(thread, by.process, by.client), ..by }
            }
            None => by,
        }
    }

    /// A lane of the program, to count on what cannot be understood.
    fn zone_lane_of(&self, writer: Writer) -> Option<usize> {
        let of = |other: &Writer| other.client == writer.client;
        let same =
            |lane: &crate::play::LaneState| lane.lane.kind == syscollect_model::LaneKind::Zone;
        let by_client = self.lanes.iter().position(|lane| lane.writer.as_ref().is_some_and(of));
        by_client.or_else(|| self.lanes.iter().position(same))
    }

    fn marker_of(
        &mut self,
        writer: Writer,
        (schema, phase): (SchemaId, MarkerPhase),
        attributes: Attributes,
        stack: Option<StackId>,
    ) -> Result<(), Stopped> {
        let row = self.tables.schema(schema);
        let (name, category) = (row.name, row.category);
        if phase == MarkerPhase::End {
            let track = self.half_track(writer, schema);
            return self.second_half(writer, track, attributes);
        }
        self.mark(Mark::Marker);
        let mut slice = Slice { category, schema: Some(schema), stack, ..Slice::named(name) };
        self.apply(&mut slice, attributes);
        if phase == MarkerPhase::Instant {
            return self.emit(&Event::Instant(self.marks.threads[writer.slot].track, slice));
        }
        let track = self.half_track(writer, schema);
        if self.first_half(writer, track) {
            self.emit(&Event::SliceBegin(track, slice))
        } else {
            Ok(())
        }
    }

    fn half_track(&mut self, writer: Writer, schema: SchemaId) -> TrackId {
        let name = self.tables.schema(schema).name;
        let row = HALVES | u64::from(writer.client) << 32 | u64::from(schema.0);
        self.track(Scope::Thread(writer.thread), name, TrackKind::Slices(TrackRole::Named), row)
    }

    /// Notes a first half; `false` where too many are without a second.
    fn first_half(&mut self, writer: Writer, track: TrackId) -> bool {
        let halves = &mut self.marks.threads[writer.slot].halves;
        match halves.iter_mut().find(|(of, _)| *of == track) {
            Some((_, count)) if *count >= MAX_DEPTH => return false,
            Some((_, count)) => *count += 1,
            None => halves.push((track, 1)),
        }
        true
    }

    fn second_half(
        &mut self,
        writer: Writer,
        track: TrackId,
        attributes: Attributes,
    ) -> Result<(), Stopped> {
        let halves = &mut self.marks.threads[writer.slot].halves;
        let open = halves.iter_mut().find(|(of, count)| *of == track && *count > 0);
        let Some((_, count)) = open else { return Ok(()) };
        *count -= 1;
        self.say_more(track, attributes)?;
        self.emit(&Event::SliceEnd(track))
    }
}
