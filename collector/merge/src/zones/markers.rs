//! Markers that have a schema: instants, and slices made of two halves.

use crate::engine::{Engine, Writer};
use crate::open::MAX_DEPTH;
use crate::zones::InstrumentedPrograms;
use crate::zones::attributes::{Attributes, FieldNames};
use crate::zones::prescan::PlacedMarker;
use crate::zones::threads::ZoneThread;
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

impl MarkerPlacement {
    /// The marker at its time; `None` if that is not of the recording.
    pub(crate) fn place(
        self,
        engine: &Engine<'_>,
        known: &InstrumentedPrograms,
        by: Writer,
        attribute_words: &[u64],
    ) -> Option<PlacedMarker> {
        let Self { schema, phase, at, tid } = self;
        let client = by.program.client;
        let ticks = known.programs.clock(client, engine.present.map()).within(at)?;
        let stamped = engine.present.ticks();
        Some(PlacedMarker {
            ticks: known.lifetimes.at(by.tid, stamped).limit(ticks),
            lane: by.lane,
            stamped,
            chunk: ZoneChunk { client, tid: by.tid, owner: by.owner, ..Default::default() },
            tid,
            schema,
            phase,
            attribute_words: attribute_words.into(),
        })
    }
}

/// A marker as its program wrote it.
#[derive(Clone, Copy)]
pub(crate) struct WrittenMarker<'a> {
    /// The number of its schema in the program's log.
    pub(crate) schema: u32,
    pub(crate) phase: MarkerPhase,
    /// When it was written, which may be another time than its own.
    pub(crate) stamped: u64,
    /// The thread it is placed on; 0 is the one that wrote it.
    pub(crate) tid: u32,
    pub(crate) attribute_words: &'a [u64],
}

/// Keeps the rows of halves apart from those of zones.
const HALVES: u64 = 1 << 63;

/// Markers of which only the first half was seen.
#[derive(Debug, Default)]
pub(crate) struct MarkerHalves {
    /// How many there are, by track.
    open: Vec<(TrackId, u32)>,
}

impl MarkerHalves {
    /// Notes a first half; `false` where too many are without a second.
    fn begin(&mut self, track: TrackId) -> bool {
        match self.open.iter_mut().find(|(of, _)| *of == track) {
            Some((_, count)) if *count >= MAX_DEPTH => return false,
            Some((_, count)) => *count += 1,
            None => self.open.push((track, 1)),
        }
        true
    }

    /// A second half; whether its first was seen.
    fn end(&mut self, track: TrackId) -> bool {
        let open = self.open.iter_mut().find(|(of, count)| *of == track && *count > 0);
        open.map(|(_, count)| *count -= 1).is_some()
    }

    /// No second half comes any more.
    pub(crate) fn close(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        let mut open = std::mem::take(&mut self.open).into_iter();
        open.try_for_each(|(track, count)| engine.unfinished(track, count as usize))
    }
}

/// A marker whose time has come.
pub(crate) struct Marker {
    pub(crate) schema: SchemaId,
    pub(crate) phase: MarkerPhase,
    pub(crate) attributes: Attributes,
    pub(crate) stack: Option<StackId>,
}

impl Marker {
    /// Emits it as one of the thread, which is that of `on`.
    pub(crate) fn emit(
        self,
        engine: &mut Engine<'_>,
        on: Writer,
        thread: &mut ZoneThread,
        names: FieldNames,
    ) -> Result<(), Stopped> {
        let row = engine.tables.schema(self.schema);
        let (name, category) = (row.name, row.category);
        if self.phase == MarkerPhase::End {
            let track = self.half_track(engine, on);
            if !thread.halves.end(track) {
                return Ok(());
            }
            self.attributes.emit(engine, names, track)?;
            return engine.emit(&Event::SliceEnd(track));
        }
        engine.occurred(EventType::Marker);
        let schema = Some(self.schema);
        let mut slice = Slice { category, schema, stack: self.stack, ..Slice::named(name) };
        let half = (self.phase == MarkerPhase::Begin).then(|| self.half_track(engine, on));
        self.attributes.apply_to(engine, names, &mut slice);
        match half {
            None => engine.emit(&Event::Instant(thread.track, slice)),
            Some(track) if thread.halves.begin(track) => {
                engine.emit(&Event::SliceBegin(track, slice))
            }
            Some(_) => Ok(()),
        }
    }

    /// The track of those of its schema that are slices.
    fn half_track(&self, engine: &mut Engine<'_>, on: Writer) -> TrackId {
        let name = engine.tables.schema(self.schema).name;
        let row = HALVES | u64::from(on.program.client) << 32 | u64::from(self.schema.0);
        let (scope, kind) = (Scope::Thread(on.thread), TrackKind::Slices(TrackRole::Named));
        engine.track(Track { scope, name, kind }, row)
    }
}
