//! Items of a thread: zones, messages, what is lost, its name and its end.

use crate::chunk_queue::Missing;
use crate::play::Player;
use crate::zones::attributes::{About, Attributes, EventAttributes, FieldNames, joined};
use crate::zones::cursor::ZoneRecord;
use crate::zones::log::{SourceLocation, color_of};
use crate::zones::open::{End, MAX_DEPTH};
use crate::zones::stacks::return_addresses;
use crate::zones::state::{Mark, Writer, Zone};
use syscollect_model::{
    Event, Field, FieldRole, Fields, Message, MessageText, ProcessId, Scope, Slice, SliceUpdate,
    StackId, StringId, ThreadId, Ticks, TrackId, TrackKind, TrackRole, Value,
};
use syscollect_playback::Stopped;
use syscollect_records::ZoneChunk;
use syscollect_zone_protocol::{self as zone_protocol, Item, is_stamped, item_words};

/// Names that events may bring along and that become strings: more are not
/// kept, so that memory does not grow with events.
const MOST_NEW_NAMES: usize = 1 << 18;

impl Player<'_> {
    /// A record of a zone lane; `words` are those of a group.
    pub(crate) fn zones(
        &mut self,
        lane: usize,
        record: ZoneRecord,
        words: &[u64],
    ) -> Result<(), Stopped> {
        match record {
            ZoneRecord::Chunk(start) => self.zone_chunk(lane, &start.0, start.1)?,
            ZoneRecord::Group(items) => {
                if let Some(writer) = self.lanes[lane].writer {
                    self.records += u64::from(items);
                    self.zone_group(lane, writer, words)?;
                }
            }
        }
        self.lanes[lane].last = Some(self.now);
        Ok(())
    }

    fn zone_chunk(
        &mut self,
        lane: usize,
        chunk: &ZoneChunk,
        missing: Missing,
    ) -> Result<(), Stopped> {
        self.missing(lane, missing.at_least())?;
        let before = self.lanes[lane].writer;
        let writer = self.writer(chunk);
        self.lanes[lane].writer = Some(writer);
        match before.filter(|before| before.slot != writer.slot || before.owner != writer.owner) {
            // The lane went to another thread: the one before has ended.
            Some(before) => self.close_slot(before.slot),
            None => Ok(()),
        }
    }

    /// Who wrote this chunk.
    pub(crate) fn writer(&mut self, chunk: &ZoneChunk) -> Writer {
        let ZoneChunk { client, tid, owner, .. } = *chunk;
        let pid = self.marked.programs.pid(client);
        let thread = self.thread_of(tid, pid);
        let process = self.tables.thread(thread).process;
        let slot = self.slot(thread, process, client);
        Writer { client, tid, owner, thread, process, slot }
    }

    /// Where the thread's zones are remembered.
    pub(crate) fn slot(&mut self, thread: ThreadId, process: ProcessId, client: u32) -> usize {
        match self.marks.slot(thread, client) {
            Some(slot) => slot,
            None => {
                let name = self.marks.words.zones;
                let track = self.track(
                    Scope::Thread(thread),
                    name,
                    TrackKind::Slices(TrackRole::Zones),
                    client.into(),
                );
                self.marks.add_thread(thread, process, client, track)
            }
        }
    }

    #[inline]
    fn zone_group(&mut self, lane: usize, writer: Writer, words: &[u64]) -> Result<(), Stopped> {
        let Some(first) = words.first() else { return Ok(()) };
        let (item, more) = words.split_at(item_words(*first).unwrap_or(0).min(words.len()));
        match Item::decode(item) {
            Some(Item::Stamped { ticks, event }) => {
                self.zone_event(lane, writer, ticks, event, more)
            }
            // No event: it says more of what came before.
            _ if !is_stamped(*first) => self.more(lane, writer, words),
            _ => {
                self.unknown(lane);
                self.more(lane, writer, more)
            }
        }
    }

    #[inline]
    fn zone_event(
        &mut self,
        lane: usize,
        writer: Writer,
        stamp: u64,
        event: zone_protocol::Event,
        more: &[u64],
    ) -> Result<(), Stopped> {
        use zone_protocol::Event as ZoneEvent;
        match event {
            ZoneEvent::ZoneBegin { location, depth } => {
                self.zone_begin(lane, writer, (stamp, location, depth), more)
            }
            ZoneEvent::ZoneEnd { depth } => {
                self.zone_end(writer.slot, depth)?;
                self.more(lane, writer, more)
            }
            ZoneEvent::OpenZone { location, depth, began } => {
                self.open_zone(lane, writer, (began, location, depth), more)
            }
            ZoneEvent::Attached { depth } => {
                self.leave(writer.slot, depth)?;
                self.more(lane, writer, more)
            }
            ZoneEvent::Lost { events } => {
                self.told(lane, events)?;
                self.more(lane, writer, more)
            }
            ZoneEvent::ThreadEnd => {
                self.more(lane, writer, more)?;
                self.close_slot(writer.slot)
            }
            ZoneEvent::Message { string, color } => {
                self.message(lane, writer, (string, color), more)
            }
            ZoneEvent::Plot { plot, value } => self.plot(lane, writer, plot, value, more),
            ZoneEvent::Frame { set, phase } => self.frame_item(lane, writer, set, phase, more),
            ZoneEvent::AsyncBegin { location, zone, task } => {
                self.async_begin(lane, writer, (location, zone, task), more)
            }
            ZoneEvent::AsyncOpen { location, zone, began } => {
                self.async_open(lane, writer, (location, zone, began), more)
            }
            ZoneEvent::AsyncEnd { zone } => self.async_end(lane, writer, zone, more),
            ZoneEvent::Lock { lock, action, location } => {
                self.lock(lane, writer, (lock, action, location), more)
            }
            ZoneEvent::Alloc { address, bytes, pool } => {
                self.memory(lane, writer, (address, Some(bytes), pool), more)
            }
            ZoneEvent::Free { address, pool } => {
                self.memory(lane, writer, (address, None, pool), more)
            }
            ZoneEvent::Crash { signal, address, instruction, .. } => {
                self.crash(lane, writer, (signal, address, instruction), more)
            }
            ZoneEvent::Marker { schema, phase } => self.marker(lane, writer, (schema, phase), more),
            // It comes from the survey, at its own time.
            ZoneEvent::MarkerAt { .. } => Ok(()),
        }
    }

    fn zone_begin(
        &mut self,
        lane: usize,
        writer: Writer,
        (began, location, depth): (u64, u32, u32),
        more: &[u64],
    ) -> Result<(), Stopped> {
        let place =
            self.marked.logs.get(writer.client).location(location).filter(|_| depth < MAX_DEPTH);
        let Some(place) = place else {
            self.unknown(lane);
            return Ok(());
        };
        self.mark(Mark::Zone);
        self.begin_at(lane, writer, (began, location, depth), place, more, None)
    }

    /// A zone that is restated: if it is not known, it begins here.
    fn open_zone(
        &mut self,
        lane: usize,
        writer: Writer,
        (began, location, depth): (u64, u32, u32),
        more: &[u64],
    ) -> Result<(), Stopped> {
        const STAMP: u64 = u64::MAX >> 8;
        let marked = self.marked;
        let place = marked.logs.get(writer.client).location(location).filter(|_| depth < MAX_DEPTH);
        let Some(place) = place else {
            self.unknown(lane);
            return Ok(());
        };
        let known = self.marks.threads[writer.slot].zones.at(depth);
        if known.is_some_and(|zone| zone.began == began & STAMP && zone.location == location) {
            return self.more(lane, writer, more);
        }
        let ticks = marked.programs.clock(writer.client, self.map).anywhere(began);
        let before = ticks.map(|ticks| self.now.0.saturating_sub(self.clock.time(Ticks(ticks)).0));
        self.begin_at(lane, writer, (began & STAMP, location, depth), place, more, before)
    }

    fn begin_at(
        &mut self,
        lane: usize,
        writer: Writer,
        (began, location, depth): (u64, u32, u32),
        place: SourceLocation,
        more: &[u64],
        before: Option<u64>,
    ) -> Result<(), Stopped> {
        let mut slice =
            Slice { location: place.location, color: place.color, ..Slice::named(place.name) };
        let mut text = None;
        if !more.is_empty() {
            let attributes = self.decode_attributes(lane, writer, more, About::Zone)?;
            text.clone_from(&attributes.own.text);
            slice.stack = self.zone_stack(writer, self.ticks, None, attributes.stack);
            self.apply(&mut slice, attributes.own);
        }
        if let Some(nanoseconds) = before {
            let (name, value) = (self.marks.words.began_before, Value::Duration(nanoseconds));
            slice.fields.push(Field::named(name, value));
        }
        let thread = &mut self.marks.threads[writer.slot];
        let track = thread.track;
        let left = thread.zones.begin(depth, Zone { began, location, text });
        self.unfinished(track, left)?;
        self.emit(&Event::SliceBegin(track, slice))
    }

    #[inline]
    fn zone_end(&mut self, slot: usize, left: u8) -> Result<(), Stopped> {
        let thread = &mut self.marks.threads[slot];
        let (track, end) = (thread.track, thread.zones.end(left));
        self.end_zones(track, end)
    }

    #[inline]
    pub(crate) fn end_zones(&mut self, track: TrackId, end: End) -> Result<(), Stopped> {
        if end.unfinished > 0 {
            self.unfinished(track, end.unfinished)?;
        }
        if end.ended { self.emit(&Event::SliceEnd(track)) } else { Ok(()) }
    }

    /// Zones at that depth or deeper have ended, it is not known when.
    fn leave(&mut self, slot: usize, depth: u32) -> Result<(), Stopped> {
        let thread = &mut self.marks.threads[slot];
        let (track, left) = (thread.track, thread.zones.leave(depth));
        self.unfinished(track, left)
    }

    /// Closes what the program did not end.
    pub(crate) fn unfinished(&mut self, track: TrackId, count: usize) -> Result<(), Stopped> {
        for _ in 0..count {
            self.emit(&Event::SliceUpdate(
                track,
                SliceUpdate { unfinished: true, ..SliceUpdate::default() },
            ))?;
            self.emit(&Event::SliceEnd(track))?;
        }
        Ok(())
    }

    /// Closes all that is open of a thread.
    pub(crate) fn close_slot(&mut self, slot: usize) -> Result<(), Stopped> {
        self.leave(slot, 0)?;
        let halves = std::mem::take(&mut self.marks.threads[slot].halves);
        halves.into_iter().try_for_each(|(track, count)| self.unfinished(track, count as usize))
    }

    fn message(
        &mut self,
        lane: usize,
        writer: Writer,
        (string, color): (u32, u32),
        more: &[u64],
    ) -> Result<(), Stopped> {
        let interned = self.marked.logs.get(writer.client).string(string);
        if interned.is_none() && string != 0 {
            self.unknown(lane);
            return Ok(());
        }
        let attributes = self.decode_attributes(lane, writer, more, About::Message)?;
        self.mark(Mark::Message);
        let message = Message {
            category: self.marks.words.message,
            text: self.message_text(interned, &attributes.own),
            color: color_of(color),
            stack: self.zone_stack(writer, self.ticks, None, attributes.stack),
            fields: Fields::new(),
        };
        self.emit(&Event::Message(self.marks.threads[writer.slot].track, message))
    }

    /// The text of a message: what it says at length, else a string with a number, else the string
    /// alone. One that is empty is replaced: a marker without any words looks like a fault.
    fn message_text(
        &self,
        interned: Option<StringId>,
        attributes: &Attributes,
    ) -> Option<MessageText> {
        let empty = self.marks.words.empty;
        if let Some(text) = &attributes.text {
            let text = if text.is_empty() { self.tables.strings.get(empty) } else { text };
            return Some(MessageText::Written(text.into()));
        }
        if let Some((string, number)) = attributes.name {
            return Some(MessageText::Interned { string, number });
        }
        let string = interned?;
        let is_empty = self.tables.strings.get(string).is_empty();
        let string = if is_empty { empty } else { string };
        Some(MessageText::Interned { string, number: None })
    }

    /// What is said behind an item, and of other things than that item at once.
    pub(crate) fn decode_attributes(
        &mut self,
        lane: usize,
        writer: Writer,
        words: &[u64],
        about: About,
    ) -> Result<EventAttributes, Stopped> {
        let names = FieldNames { value: self.marks.words.value };
        let mut attributes = EventAttributes::read(
            words,
            about,
            self.marked.logs.get(writer.client),
            names,
            self.tables,
        );
        if words.is_empty() {
            return Ok(attributes);
        }
        self.losses.undecodable(self.lanes[lane].lane, std::mem::take(&mut attributes.unknown));
        if let Some(name) = attributes.thread_name.take()
            && let Some(name) = self.new_name(&name)
        {
            self.emit(&Event::ThreadName(writer.thread, name))?;
        }
        for &(task, name) in &attributes.tasks {
            self.marks.program(writer.process, writer.client).tasks.insert(task, name);
        }
        self.zone_more(writer.slot, std::mem::take(&mut attributes.zone))?;
        Ok(attributes)
    }

    /// Items that say more of what is open.
    pub(crate) fn more(
        &mut self,
        lane: usize,
        writer: Writer,
        words: &[u64],
    ) -> Result<(), Stopped> {
        if words.is_empty() {
            Ok(())
        } else {
            self.decode_attributes(lane, writer, words, About::Other).map(|_| ())
        }
    }

    /// More of the innermost zone.
    fn zone_more(&mut self, slot: usize, mut attributes: Attributes) -> Result<(), Stopped> {
        if attributes.is_empty() {
            return Ok(());
        }
        let thread = &mut self.marks.threads[slot];
        let track = thread.track;
        let Some((_, zone)) = thread.zones.innermost() else { return Ok(()) };
        if let Some(more) = attributes.text.take() {
            let text = joined(zone.text.take(), &more);
            zone.text = Some(text.clone());
            attributes.text = Some(text);
        }
        let more = self.slice_more(attributes);
        self.emit(&Event::SliceUpdate(track, more))
    }

    /// What is said, as an addition to a slice.
    pub(crate) fn slice_more(&mut self, attributes: Attributes) -> SliceUpdate {
        let new_name = attributes.new_name.and_then(|name| self.new_name(&name));
        let mut fields = attributes.fields;
        if let Some(text) = attributes.text {
            let (name, value) = (self.marks.words.text, Value::Text(text.into()));
            fields.insert(0, Field::new(FieldRole::Text, name, value));
        }
        let name = new_name.map(|name| (name, None)).or(attributes.name);
        SliceUpdate { name, color: attributes.color, fields, unfinished: false }
    }

    /// Puts what is said into a slice that is not told yet.
    pub(crate) fn apply(&mut self, slice: &mut Slice, attributes: Attributes) {
        let more = self.slice_more(attributes);
        if let Some((name, number)) = more.name {
            (slice.name, slice.number) = (name, number);
        }
        slice.color = more.color.or(slice.color);
        slice.fields = more.fields;
    }

    /// A stack that the program wrote; one that the survey did not find is missing.
    pub(crate) fn zone_stack(
        &mut self,
        writer: Writer,
        at: u64,
        crash: Option<u64>,
        stack: Vec<u64>,
    ) -> Option<StackId> {
        let addresses = return_addresses(crash, stack);
        if addresses.is_empty() {
            return None;
        }
        let pid = self.marked.programs.pid(writer.client)?;
        let Some(known) = self.marked.prescan.stacks.get((pid, Ticks(at)), &addresses) else {
            self.missing_stacks += 1;
            return None;
        };
        if let Some(stack) = self.marks.stacks.get(&known.number) {
            return *stack;
        }
        let stack = self.resolver.stack_at(known.defined, self.tables);
        self.marks.stacks.insert(known.number, stack);
        stack
    }

    /// A name that came with an event, as a string, unless there are too many.
    pub(crate) fn new_name(&mut self, name: &str) -> Option<StringId> {
        if self.marks.new_names >= MOST_NEW_NAMES {
            return None;
        }
        let before = self.tables.strings.len();
        let id = self.tables.strings.intern(name);
        self.marks.new_names += self.tables.strings.len() - before;
        Some(id)
    }
}
