//! Items of a thread: zones, messages, what is lost, its name and its end.

use crate::chunk_queue::LaneGap;
use crate::engine::{CaptureEngine, Engine, Writer};
use crate::open::MAX_DEPTH;
use crate::zones::async_zones::{AsyncStart, RestatedAsyncZone};
use crate::zones::attributes::{About, Attributes, EventAttributes, FieldNames, joined};
use crate::zones::cursor::ZoneRecord;
use crate::zones::log::{SourceLocation, color_of};
use crate::zones::markers::MarkerPlacement;
use crate::zones::processes::{CrashSite, HeapChange, LockUse};
use crate::zones::stacks::return_addresses;
use crate::zones::state::{Zone, Zones};
use syscollect_model::{
    Event, Field, FieldRole, Fields, Lane, Message, MessageText, ProcessId, Scope, Slice,
    SliceUpdate, StackId, StringId, ThreadId, Ticks, Track, TrackKind, TrackRole, Value,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::ZoneChunk;
use syscollect_zone_protocol::{self as zone_protocol, Item, is_stamped, item_words};

/// How a zone of a thread begins, or began.
#[derive(Clone, Copy)]
struct ZoneStart {
    /// The program's ticks then.
    began: u64,
    /// Its location's number.
    location: u32,
    /// Zones that were open before it.
    depth: u32,
}

impl Zones {
    /// A record of a zone lane; `words` are those of a group.
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        record: ZoneRecord,
        words: &[u64],
    ) -> Result<(), Stopped> {
        match record {
            ZoneRecord::Chunk(start) => self.zone_chunk(engine, lane, &start.0, start.1),
            ZoneRecord::Group(items) => match engine.source.lanes[lane].writer {
                Some(writer) => {
                    engine.sink.tally.records += u64::from(items);
                    self.zone_group(engine, writer, words)
                }
                None => Ok(()),
            },
        }
    }

    /// The thread ends: closes its zones and markers.
    pub(crate) fn close_thread(
        &mut self,
        engine: &mut Engine<'_>,
        thread: ThreadId,
    ) -> Result<(), Stopped> {
        for index in 0..self.slots_of(thread).len() {
            let slot = self.slots_of(thread)[index];
            self.close_slot(engine, slot)?;
        }
        Ok(())
    }

    fn zone_chunk(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        chunk: &ZoneChunk,
        missing: LaneGap,
    ) -> Result<(), Stopped> {
        engine.missing(lane, missing.at_least())?;
        let before = engine.source.lanes[lane].writer;
        let writer = self.writer(engine, engine.source.lanes[lane].lane, chunk);
        engine.source.lanes[lane].writer = Some(writer);
        match before.filter(|before| before.slot != writer.slot || before.owner != writer.owner) {
            // The lane went to another thread: the one before has ended.
            Some(before) => self.close_slot(engine, before.slot),
            None => Ok(()),
        }
    }

    /// Who wrote this chunk.
    pub(crate) fn writer(
        &mut self,
        engine: &mut Engine<'_>,
        lane: Lane,
        chunk: &ZoneChunk,
    ) -> Writer {
        let ZoneChunk { client, tid, owner, .. } = *chunk;
        let pid = self.known.programs.pid(client);
        let thread = engine.claimed_thread(tid, pid);
        let process = engine.tables.thread(thread).process;
        let slot = self.slot(engine, thread, process, client);
        Writer { lane, client, tid, owner, thread, process, slot }
    }

    /// Where the thread's zones are remembered.
    pub(crate) fn slot(
        &mut self,
        engine: &mut Engine<'_>,
        thread: ThreadId,
        process: ProcessId,
        client: u32,
    ) -> usize {
        match self.known_slot(thread, client) {
            Some(slot) => slot,
            None => {
                let name = self.words.zones;
                let track = engine.track(
                    Track {
                        scope: Scope::Thread(thread),
                        name,
                        kind: TrackKind::Slices(TrackRole::Zones),
                    },
                    client.into(),
                );
                self.add_thread(thread, process, client, track)
            }
        }
    }

    #[inline]
    fn zone_group(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        words: &[u64],
    ) -> Result<(), Stopped> {
        let Some(first) = words.first() else { return Ok(()) };
        let (item, attribute_words) =
            words.split_at(item_words(*first).unwrap_or(0).min(words.len()));
        match Item::decode(item) {
            Some(Item::Stamped { ticks, event }) => {
                self.zone_event(engine, writer, ticks, event, attribute_words)
            }
            // No event: it says more of what came before.
            _ if !is_stamped(*first) => self.update_open(engine, writer, words),
            _ => {
                engine.source.losses.undecodable(writer.lane, 1);
                self.update_open(engine, writer, attribute_words)
            }
        }
    }

    #[inline]
    fn zone_event(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        stamp: u64,
        event: zone_protocol::Event,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        use zone_protocol::Event as ZoneEvent;
        match event {
            ZoneEvent::ZoneBegin { location, depth } => self.zone_begin(
                engine,
                writer,
                ZoneStart { began: stamp, location, depth },
                attribute_words,
            ),
            ZoneEvent::ZoneEnd { depth } => {
                self.zone_end(engine, writer.slot, depth)?;
                self.update_open(engine, writer, attribute_words)
            }
            ZoneEvent::OpenZone { location, depth, began } => self.open_zone(
                engine,
                writer,
                ZoneStart { began, location, depth },
                attribute_words,
            ),
            ZoneEvent::Attached { depth } => {
                self.leave(engine, writer.slot, depth)?;
                self.update_open(engine, writer, attribute_words)
            }
            ZoneEvent::Lost { events } => {
                if let Ok(lane) = engine.index_of(writer.lane) {
                    engine.loss_before(lane, events)?;
                }
                self.update_open(engine, writer, attribute_words)
            }
            ZoneEvent::ThreadEnd => {
                self.update_open(engine, writer, attribute_words)?;
                self.close_slot(engine, writer.slot)
            }
            ZoneEvent::Message { string, color } => {
                self.message(engine, writer, (string, color), attribute_words)
            }
            ZoneEvent::Plot { plot, value } => {
                self.plot(engine, writer, plot, value, attribute_words)
            }
            ZoneEvent::Frame { set, phase } => {
                self.frame_item(engine, writer, set, phase, attribute_words)
            }
            ZoneEvent::AsyncBegin { location, zone, task } => self.async_begin(
                engine,
                writer,
                AsyncStart { location, zone, task },
                attribute_words,
            ),
            ZoneEvent::AsyncOpen { location, zone, began } => self.async_open(
                engine,
                writer,
                RestatedAsyncZone { location, zone, began },
                attribute_words,
            ),
            ZoneEvent::AsyncEnd { zone } => self.async_end(engine, writer, zone, attribute_words),
            ZoneEvent::Lock { lock, action, location } => {
                self.lock(engine, writer, LockUse { lock, action, location }, attribute_words)
            }
            ZoneEvent::Alloc { address, bytes, pool } => self.memory(
                engine,
                writer,
                HeapChange { address, allocated: Some(bytes), pool },
                attribute_words,
            ),
            ZoneEvent::Free { address, pool } => self.memory(
                engine,
                writer,
                HeapChange { address, allocated: None, pool },
                attribute_words,
            ),
            ZoneEvent::Crash { signal, address, instruction, .. } => self.crash(
                engine,
                writer,
                CrashSite { signal, address, instruction },
                attribute_words,
            ),
            ZoneEvent::Marker { schema, phase } => {
                self.marker(engine, writer, (schema, phase), attribute_words)
            }
            ZoneEvent::MarkerAt { schema, phase, at, tid } => {
                let placed = MarkerPlacement { schema, phase, at, tid };
                self.place_marker(engine, writer, placed, attribute_words)
            }
        }
    }

    /// Where a zone begins; one of which that is not known, or that lies too deep, is counted.
    fn location(
        &self,
        engine: &mut Engine<'_>,
        writer: Writer,
        location: u32,
        depth: u32,
    ) -> Option<SourceLocation> {
        let place = self.known.logs.get(writer.client).location(location);
        let place = place.filter(|_| depth < MAX_DEPTH);
        if place.is_none() {
            engine.source.losses.undecodable(writer.lane, 1);
        }
        place
    }

    fn zone_begin(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        ZoneStart { began, location, depth }: ZoneStart,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let Some(place) = self.location(engine, writer, location, depth) else { return Ok(()) };
        engine.occurred(EventType::Zone);
        self.begin_at(
            engine,
            writer,
            ZoneStart { began, location, depth },
            place,
            attribute_words,
            None,
        )
    }

    /// A zone that is restated: if it is not known, it begins here.
    fn open_zone(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        ZoneStart { began, location, depth }: ZoneStart,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        const STAMP: u64 = u64::MAX >> 8;
        let Some(place) = self.location(engine, writer, location, depth) else { return Ok(()) };
        let known = self.threads[writer.slot].zones.at(depth);
        if known.is_some_and(|zone| zone.began == began & STAMP && zone.location == location) {
            return self.update_open(engine, writer, attribute_words);
        }
        let ticks = self.known.programs.clock(writer.client, engine.present.map()).anywhere(began);
        let before = ticks.map(|ticks| engine.now().0.saturating_sub(engine.time(ticks).0));
        let start = ZoneStart { began: began & STAMP, location, depth };
        self.begin_at(engine, writer, start, place, attribute_words, before)
    }

    fn begin_at(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        ZoneStart { began, location, depth }: ZoneStart,
        place: SourceLocation,
        attribute_words: &[u64],
        before: Option<u64>,
    ) -> Result<(), Stopped> {
        let mut slice =
            Slice { location: place.location, color: place.color, ..Slice::named(place.name) };
        let mut text = None;
        if !attribute_words.is_empty() {
            let attributes =
                self.decode_attributes(engine, writer, attribute_words, About::Zone)?;
            text.clone_from(&attributes.own.text);
            slice.stack =
                self.zone_stack(engine, writer, engine.present.ticks(), None, attributes.stack);
            self.apply(engine, &mut slice, attributes.own);
        }
        if let Some(nanoseconds) = before {
            let (name, value) = (self.words.began_before, Value::Duration(nanoseconds));
            slice.fields.push(Field::named(name, value));
        }
        let thread = &mut self.threads[writer.slot];
        let track = thread.track;
        let left = thread.zones.begin(depth, Zone { began, location, text });
        engine.unfinished(track, left)?;
        engine.emit(&Event::SliceBegin(track, slice))
    }

    #[inline]
    fn zone_end(&mut self, engine: &mut Engine<'_>, slot: usize, left: u8) -> Result<(), Stopped> {
        let thread = &mut self.threads[slot];
        let (track, end) = (thread.track, thread.zones.end(left));
        engine.end_zones(track, end)
    }

    /// Zones at that depth or deeper have ended, it is not known when.
    fn leave(&mut self, engine: &mut Engine<'_>, slot: usize, depth: u32) -> Result<(), Stopped> {
        let thread = &mut self.threads[slot];
        let (track, left) = (thread.track, thread.zones.leave(depth));
        engine.unfinished(track, left)
    }

    /// Closes all that is open of a thread.
    fn close_slot(&mut self, engine: &mut Engine<'_>, slot: usize) -> Result<(), Stopped> {
        self.leave(engine, slot, 0)?;
        let halves = std::mem::take(&mut self.threads[slot].halves);
        halves.into_iter().try_for_each(|(track, count)| engine.unfinished(track, count as usize))
    }

    fn message(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        (string, color): (u32, u32),
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let interned = self.known.logs.get(writer.client).string(string);
        if interned.is_none() && string != 0 {
            engine.source.losses.undecodable(writer.lane, 1);
            return Ok(());
        }
        let attributes = self.decode_attributes(engine, writer, attribute_words, About::Message)?;
        engine.occurred(EventType::Message);
        let message = Message {
            category: self.words.message,
            text: self.message_text(engine, interned, &attributes.own),
            color: color_of(color),
            stack: self.zone_stack(engine, writer, engine.present.ticks(), None, attributes.stack),
            fields: Fields::new(),
        };
        engine.emit(&Event::Message(self.threads[writer.slot].track, message))
    }

    /// The text of a message: what it says at length, else a string with a number, else the string
    /// alone. One that is empty is replaced: a marker without any words looks like a fault.
    fn message_text(
        &self,
        engine: &mut Engine<'_>,
        interned: Option<StringId>,
        attributes: &Attributes,
    ) -> Option<MessageText> {
        let empty = self.words.empty;
        if let Some(text) = &attributes.text {
            let text = if text.is_empty() { engine.tables.strings.get(empty) } else { text };
            return Some(MessageText::Written(text.into()));
        }
        if let Some((string, number)) = attributes.name {
            return Some(MessageText::Interned { string, number });
        }
        let string = interned?;
        let is_empty = engine.tables.strings.get(string).is_empty();
        let string = if is_empty { empty } else { string };
        Some(MessageText::Interned { string, number: None })
    }

    /// What is said behind an item, and of other things than that item at once.
    pub(crate) fn decode_attributes(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        words: &[u64],
        about: About,
    ) -> Result<EventAttributes, Stopped> {
        let names = FieldNames { value: self.words.value };
        let mut attributes = EventAttributes::read(
            words,
            about,
            self.known.logs.get(writer.client),
            names,
            &engine.tables,
        );
        if words.is_empty() {
            return Ok(attributes);
        }
        engine.source.losses.undecodable(writer.lane, std::mem::take(&mut attributes.unknown));
        if let Some(name) = attributes.thread_name.take()
            && let Some(name) = engine.new_name(&name)
        {
            engine.rename(writer.thread, name)?;
        }
        for &(task, name) in &attributes.tasks {
            self.program(writer.process, writer.client).tasks.insert(task, name);
        }
        self.update_zone(engine, writer.slot, std::mem::take(&mut attributes.zone))?;
        Ok(attributes)
    }

    /// Applies attributes of what is open.
    pub(crate) fn update_open(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        words: &[u64],
    ) -> Result<(), Stopped> {
        if words.is_empty() {
            Ok(())
        } else {
            self.decode_attributes(engine, writer, words, About::Other).map(|_| ())
        }
    }

    /// Changes the innermost zone.
    fn update_zone(
        &mut self,
        engine: &mut Engine<'_>,
        slot: usize,
        mut attributes: Attributes,
    ) -> Result<(), Stopped> {
        if attributes.is_empty() {
            return Ok(());
        }
        let thread = &mut self.threads[slot];
        let track = thread.track;
        let Some((_, zone)) = thread.zones.innermost() else { return Ok(()) };
        if let Some(update) = attributes.text.take() {
            let text = joined(zone.text.take(), &update);
            zone.text = Some(text.clone());
            attributes.text = Some(text);
        }
        let update = self.slice_update(engine, attributes);
        engine.emit(&Event::SliceUpdate(track, update))
    }

    /// Attributes as a change of a slice.
    pub(crate) fn slice_update(
        &mut self,
        engine: &mut Engine<'_>,
        attributes: Attributes,
    ) -> SliceUpdate {
        let new_name = attributes.new_name.and_then(|name| engine.new_name(&name));
        let mut fields = attributes.fields;
        if let Some(text) = attributes.text {
            let (name, value) = (self.words.text, Value::Text(text.into()));
            fields.insert(0, Field::new(FieldRole::Text, name, value));
        }
        let name = new_name.map(|name| (name, None)).or(attributes.name);
        SliceUpdate { name, color: attributes.color, fields, unfinished: false }
    }

    /// Applies attributes to a slice that was not emitted yet.
    pub(crate) fn apply(
        &mut self,
        engine: &mut Engine<'_>,
        slice: &mut Slice,
        attributes: Attributes,
    ) {
        let update = self.slice_update(engine, attributes);
        if let Some((name, number)) = update.name {
            (slice.name, slice.number) = (name, number);
        }
        slice.color = update.color.or(slice.color);
        slice.fields = update.fields;
    }

    /// A stack that the program wrote; one of a program that has had its share is missing.
    pub(crate) fn zone_stack(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        at: u64,
        crash: Option<u64>,
        stack: Vec<u64>,
    ) -> Option<StackId> {
        let addresses = return_addresses(crash, stack);
        if addresses.is_empty() {
            return None;
        }
        let pid = self.known.programs.pid(writer.client)?;
        let known = self.known.prescan.stacks.known_or_new(
            &mut engine.source.resolver.stacks,
            (pid, Ticks(at)),
            &addresses,
        );
        let Some(known) = known else {
            engine.sink.tally.missing_stacks += 1;
            return None;
        };
        if let Some((stack, holds)) = self.stacks.get(&known.number)
            && holds.at(Ticks(at))
        {
            return *stack;
        }
        let resolver = &mut engine.source.resolver;
        let (stack, holds) = resolver.stack_at(known.defined, Ticks(at), &mut engine.tables);
        self.stacks.insert(known.number, (stack, holds));
        stack
    }
}
