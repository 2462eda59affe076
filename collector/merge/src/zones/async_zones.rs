//! Zones that belong to a task: they overlap, and may end on another thread.

use crate::engine::{Engine, Writer};
use crate::zones::attributes::{About, EventAttributes};
use crate::zones::state::{AsyncZone, Zones};
use syscollect_model::{Event, Field, Scope, Slice, StringId, Track, TrackKind, TrackRole, Value};
use syscollect_playback::{EventType, Stopped};

/// Async zones of a program that may be open at one time: more would let
/// memory grow with events.
const MOST_ASYNC: usize = 1 << 16;

/// How an async zone begins.
#[derive(Clone, Copy)]
pub(crate) struct AsyncStart {
    /// Its location's number.
    pub(crate) location: u32,
    /// Its own number.
    pub(crate) zone: u64,
    /// The number of its task's name.
    pub(crate) task: u64,
}

/// An async zone that was open before somebody listened.
#[derive(Clone, Copy)]
pub(crate) struct RestatedAsyncZone {
    /// Its location's number.
    pub(crate) location: u32,
    /// Its own number.
    pub(crate) zone: u64,
    /// The program's ticks when it began.
    pub(crate) began: u64,
}

/// An async zone that gets a slice.
#[derive(Clone, Copy)]
struct NewAsyncZone {
    location: u32,
    number: u64,
    /// Its task, if it has a name.
    task: Option<StringId>,
}

impl Zones {
    pub(crate) fn async_begin(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        AsyncStart { location, zone: number, task }: AsyncStart,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let attributes =
            self.decode_attributes(engine, writer, attribute_words, About::AsyncZone)?;
        let program = self.program(writer.process, writer.client);
        let restated = program.async_zones.get_mut(&number).filter(|zone| zone.restated);
        if let Some(zone) = restated {
            // Another thread was quicker to restate it than this one to begin it.
            zone.restated = false;
            let track = zone.track;
            engine.occurred(EventType::AsyncZone);
            return self.emit_update(engine, track, attributes.own);
        }
        let task = program.tasks.get(task).filter(|_| task != 0);
        if self.begin_async(
            engine,
            writer,
            NewAsyncZone { location, number, task },
            attributes,
            None,
        )? {
            engine.occurred(EventType::AsyncZone);
        }
        Ok(())
    }

    /// A zone that is restated: if it is not known, it begins here.
    pub(crate) fn async_open(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        RestatedAsyncZone { location, zone: number, began }: RestatedAsyncZone,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let attributes =
            self.decode_attributes(engine, writer, attribute_words, About::AsyncZone)?;
        if self.program(writer.process, writer.client).async_zones.contains_key(&number) {
            return Ok(());
        }
        let task = attributes.tasks.first().map(|(_, name)| *name);
        let ticks = self.known.programs.clock(writer.client, engine.present.map()).anywhere(began);
        let before = ticks.map_or(0, |ticks| engine.now().0.saturating_sub(engine.time(ticks).0));
        self.begin_async(
            engine,
            writer,
            NewAsyncZone { location, number, task },
            attributes,
            Some(before),
        )
        .map(|_| ())
    }

    /// Begins a zone on the track of its task, or on one of its own name; of
    /// one that is restated, `before` says how long ago it began. Returns
    /// whether it could be begun.
    fn begin_async(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        NewAsyncZone { location, number, task }: NewAsyncZone,
        attributes: EventAttributes,
        before: Option<u64>,
    ) -> Result<bool, Stopped> {
        let place = self.known.logs.get(writer.client).location(location);
        let program = self.program(writer.process, writer.client);
        let room =
            program.async_zones.len() < MOST_ASYNC && !program.async_zones.contains_key(&number);
        let Some(place) = place.filter(|_| room) else {
            engine.source.losses.undecodable(writer.lane, 1);
            return Ok(false);
        };
        let name = task.unwrap_or(place.name);
        let row = program.rows.entry(name).or_default().take();
        // Two clients of one process must not share a row.
        let key = u64::from(writer.client) << 32 | u64::from(row);
        let track = engine.track(
            Track {
                scope: Scope::Process(writer.process),
                name,
                kind: TrackKind::Slices(TrackRole::Named),
            },
            key,
        );
        let zone = AsyncZone { track, name, row, restated: before.is_some() };
        self.program(writer.process, writer.client).async_zones.insert(number, zone);
        let mut slice =
            Slice { location: place.location, color: place.color, ..Slice::named(place.name) };
        slice.stack =
            self.zone_stack(engine, writer, engine.present.ticks(), None, attributes.stack);
        self.apply(engine, &mut slice, attributes.own);
        if let Some(nanoseconds) = before {
            let (name, value) = (self.words.began_before, Value::Duration(nanoseconds));
            slice.fields.push(Field::named(name, value));
        }
        engine.emit(&Event::SliceBegin(track, slice))?;
        Ok(true)
    }

    pub(crate) fn async_end(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        number: u64,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let attributes =
            self.decode_attributes(engine, writer, attribute_words, About::AsyncZone)?;
        let program = self.program(writer.process, writer.client);
        let Some(zone) = program.async_zones.remove(&number) else { return Ok(()) };
        program.rows.entry(zone.name).or_default().give_back(zone.row);
        self.emit_update(engine, zone.track, attributes.own)?;
        engine.emit(&Event::SliceEnd(zone.track))
    }
}
