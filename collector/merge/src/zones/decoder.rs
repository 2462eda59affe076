//! Items of instrumented programs on their way into the model: whose they are, and what is said of
//! them.

use crate::chunk_queue::LaneGap;
use crate::engine::{CaptureEngine, Engine, NO_CLIENT, ProgramId, Writer};
use crate::zones::InstrumentedPrograms;
use crate::zones::async_zones::{AsyncEvent, AsyncStart, AsyncZones, RestatedAsyncZone};
use crate::zones::attributes::{About, EventAttributes, FieldNames};
use crate::zones::client_event::ClientEvent;
use crate::zones::crashes::{CrashShares, CrashSite};
use crate::zones::cursor::ZoneRecord;
use crate::zones::frames::FrameSets;
use crate::zones::gpu::live::LiveGpuWork;
use crate::zones::heap::HeapChange;
use crate::zones::images::FrameImages;
use crate::zones::locks::LockUse;
use crate::zones::log::SourceLocation;
use crate::zones::markers::{Marker, MarkerPlacement, WrittenMarker};
use crate::zones::messages::{Messages, WrittenMessage};
use crate::zones::plots::{Plots, plot_track};
use crate::zones::prescan::PlacedMarker;
use crate::zones::references::ZoneReferences;
use crate::zones::threads::{OpenZone, ZoneStart, ZoneThreads};
use syscollect_model::{
    Event, Field, Fields, Forgotten, Lane, LoopMark, Message, ProcessId, Slice, StringId, Strings,
    ThreadId, Unit, Value,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::ZoneChunk;
use syscollect_store::Producer;
use syscollect_zone_protocol::{
    self as zone_protocol, FramePhase, ImageBlocks, Item, LoopPhase, is_stamped, item_words,
};

/// Decodes lanes of zones: what instrumented programs tell. Each part keeps what is open of its
/// own.
#[derive(Debug)]
pub(crate) struct Zones {
    pub(crate) references: ZoneReferences,
    pub(crate) threads: ZoneThreads,
    pub(crate) frames: FrameSets,
    images: FrameImages,
    async_zones: AsyncZones,
    plots: Plots,
    messages: Messages,
    crashes: CrashShares,
    /// Of a recording that goes on.
    pub(crate) gpu: LiveGpuWork,
    /// What stands for a name that could not be read.
    unreadable: StringId,
}

impl Zones {
    pub(crate) fn new(known: InstrumentedPrograms, strings: &mut Strings) -> Self {
        let [zones, message, main, frame, text, value, began_before, unreadable, empty] = [
            "Zones",
            "message",
            "Frames",
            "Frame",
            "text",
            "value",
            "began_before",
            "(unreadable)",
            "(empty)",
        ]
        .map(|string| strings.intern(string));
        Self {
            references: ZoneReferences::new(known, FieldNames { text, value, began_before }),
            threads: ZoneThreads::new(zones),
            frames: FrameSets::new(main, frame),
            images: FrameImages::new(strings),
            async_zones: AsyncZones::default(),
            plots: Plots::default(),
            messages: Messages { category: message, empty },
            crashes: CrashShares::default(),
            gpu: LiveGpuWork::default(),
            unreadable,
        }
    }

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

    fn zone_chunk(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        chunk: &ZoneChunk,
        missing: LaneGap,
    ) -> Result<(), Stopped> {
        engine.missing(lane, missing.at_least())?;
        if missing.at_least() > 0 {
            self.images.pass_over(engine.source.lanes[lane].lane);
        }
        let before = engine.source.lanes[lane].writer;
        let writer = self.writer(engine, engine.source.lanes[lane].lane, chunk);
        engine.source.lanes[lane].writer = Some(writer);
        match before.filter(|before| before.slot != writer.slot || before.owner != writer.owner) {
            // The lane went to another thread: the one before has ended.
            Some(before) => self.threads[before.slot].close(engine),
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
        let programs = &self.references.known.programs;
        let (pid, user) = (programs.pid(client), programs.user(client));
        let thread = engine.claimed_thread(tid, pid);
        let program = ProgramId { process: engine.tables.thread(thread).process, client };
        let slot = self.threads.slot(engine, thread, program);
        Writer { lane, program, user, tid, owner, thread, slot }
    }

    #[inline]
    fn zone_group(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        words: &[u64],
    ) -> Result<(), Stopped> {
        let Some(first) = words.first() else { return Ok(()) };
        let user = writer.user.unwrap_or(u32::MAX);
        engine.source.new_rows.producer = Producer { user, program: writer.program.client };
        let (item, attribute_words) =
            words.split_at(item_words(*first).unwrap_or(0).min(words.len()));
        match Item::decode(item) {
            Some(Item::Stamped { ticks, event }) => {
                self.zone_event(engine, writer, ticks, event, attribute_words)
            }
            // No event: it says more of what came before.
            _ if !is_stamped(*first) => self.update_open(engine, writer, words),
            _ => {
                writer.refuse(engine, 1);
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
        let client = writer.program.client;
        match event {
            ZoneEvent::ZoneBegin { location, depth } => {
                let zone = ZoneStart { began: stamp, location, depth };
                return self.zone_begin(engine, writer, zone, attribute_words);
            }
            ZoneEvent::ZoneEnd { depth } => self.threads[writer.slot].end(engine, depth)?,
            ZoneEvent::OpenZone { location, depth, began } => {
                let zone = ZoneStart { began, location, depth };
                return self.restated_zone(engine, writer, zone, attribute_words);
            }
            ZoneEvent::Attached { depth } => self.threads[writer.slot].leave(engine, depth)?,
            ZoneEvent::Lost { events } => {
                self.images.pass_over(writer.lane);
                if let Ok(lane) = engine.index_of(writer.lane) {
                    engine.loss_before(lane, events)?;
                }
            }
            ZoneEvent::ThreadEnd => {
                self.update_open(engine, writer, attribute_words)?;
                return self.threads[writer.slot].close(engine);
            }
            ZoneEvent::Message { string, color } => {
                return self.message(engine, writer, string, color, attribute_words);
            }
            ZoneEvent::Plot { plot, value } => {
                self.plots.on(engine, writer, &self.references.known.logs, plot, value)?;
            }
            ZoneEvent::Frame { set, phase } => {
                let log = self.references.known.logs.get(client);
                self.frames.on(engine, writer, log, set, phase)?;
            }
            ZoneEvent::Loop { phase } => {
                let mark = match phase {
                    LoopPhase::Waits => LoopMark::Waits,
                    LoopPhase::Turns => LoopMark::Turns,
                };
                engine.occurred(EventType::LoopMark);
                engine.emit(&Event::LoopMark(writer.thread, mark))?;
            }
            ZoneEvent::FrameImage(image) => self.images.begin(engine, writer, image),
            ZoneEvent::AsyncBegin { location, zone, task } => {
                let begin = AsyncEvent::Begin(AsyncStart { location, zone, task });
                return self.async_event(engine, writer, begin, attribute_words);
            }
            ZoneEvent::AsyncOpen { location, zone, began } => {
                let restated = AsyncEvent::Restated(RestatedAsyncZone { location, zone, began });
                return self.async_event(engine, writer, restated, attribute_words);
            }
            ZoneEvent::AsyncEnd { zone } => {
                let end = AsyncEvent::End(zone);
                return self.async_event(engine, writer, end, attribute_words);
            }
            ZoneEvent::Lock { lock, action, location } => {
                let log = self.references.known.logs.get(client);
                LockUse { lock, action, location }.emit(engine, writer, log)?;
            }
            ZoneEvent::Alloc { address, bytes, pool } => {
                let change = HeapChange { address, allocated: Some(bytes), pool };
                return self.heap_change(engine, writer, change, attribute_words);
            }
            ZoneEvent::Free { address, pool } => {
                let change = HeapChange { address, allocated: None, pool };
                return self.heap_change(engine, writer, change, attribute_words);
            }
            ZoneEvent::Crash { signal, code, address, instruction } => {
                let attributes =
                    self.decode_attributes(engine, writer, attribute_words, About::Other)?;
                if !self.crashes.has_share(engine, writer) {
                    return Ok(());
                }
                let crash = CrashSite { signal, code: code as i32, address, instruction };
                return crash.emit(engine, writer, &mut self.references, attributes.stack);
            }
            ZoneEvent::Marker { schema, phase } => {
                let stamped = engine.present.ticks();
                let marker = WrittenMarker { schema, phase, stamped, tid: 0, attribute_words };
                return self.marker(engine, writer, marker);
            }
            // In a file they have their times since the pass before playing.
            ZoneEvent::Gpu(_) if self.references.known.prescan.is_whole => return Ok(()),
            ZoneEvent::Gpu(event) => {
                // What becomes known of GPUs is told in order, however late the thread is.
                let own = engine.now();
                engine.present.return_to_latest();
                self.gpu.on(engine, &mut self.references, writer, event, attribute_words)?;
                engine.present.step_back(own);
                return Ok(());
            }
            ZoneEvent::MarkerAt { schema, phase, at, tid } => {
                let placement = MarkerPlacement { schema, phase, at, tid };
                return self.place_marker(engine, writer, placement, attribute_words);
            }
        }
        self.update_open(engine, writer, attribute_words)
    }

    fn zone_begin(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        zone: ZoneStart,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let Some(place) = self.references.location(engine, writer, zone) else { return Ok(()) };
        engine.occurred(EventType::Zone);
        self.begin_at(engine, writer, zone, place, None, attribute_words)
    }

    /// A zone that is restated: if it is not known, it begins here.
    fn restated_zone(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        zone: ZoneStart,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        const STAMP: u64 = u64::MAX >> 8;
        let Some(place) = self.references.location(engine, writer, zone) else { return Ok(()) };
        let began = zone.began;
        let zone = ZoneStart { began: began & STAMP, ..zone };
        if self.threads[writer.slot].is_open(zone) {
            return self.update_open(engine, writer, attribute_words);
        }
        let before = self.references.nanoseconds_since(engine, writer.program.client, began);
        self.begin_at(engine, writer, zone, place, before, attribute_words)
    }

    /// `before` says how many nanoseconds ago a zone began that is restated.
    fn begin_at(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        ZoneStart { began, location, depth }: ZoneStart,
        place: SourceLocation,
        before: Option<u64>,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let (mut slice, mut text) = (place.slice(), None);
        if !attribute_words.is_empty() {
            let attributes =
                self.decode_attributes(engine, writer, attribute_words, About::Zone)?;
            text.clone_from(&attributes.own.text);
            self.references.describe(engine, writer.program.client, &mut slice, attributes);
        }
        if let Some(nanoseconds) = before {
            let name = self.references.names.began_before;
            slice.fields.push(Field::named(name, Value::Duration(nanoseconds)));
        }
        let zone = OpenZone { began, location, text };
        self.threads[writer.slot].begin(engine, depth, zone, slice)
    }

    fn async_event(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        event: AsyncEvent,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let attributes =
            self.decode_attributes(engine, writer, attribute_words, About::AsyncZone)?;
        self.async_zones.on(engine, writer, &mut self.references, event, attributes)
    }

    fn heap_change(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        change: HeapChange,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let attributes = self.decode_attributes(engine, writer, attribute_words, About::Other)?;
        change.emit(engine, writer, &mut self.references, &attributes.stack)
    }

    fn message(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        string: u32,
        color: u32,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let client = writer.program.client;
        let interned = self.references.known.logs.get(client).string(string);
        if interned.is_none() && string != 0 {
            writer.refuse(engine, 1);
            return Ok(());
        }
        let attributes = self.decode_attributes(engine, writer, attribute_words, About::Message)?;
        let stack =
            self.references.stack(engine, client, engine.present.ticks(), &attributes.stack);
        let message = WrittenMessage { string: interned, color, attributes: attributes.own, stack };
        self.messages.emit(engine, self.threads[writer.slot].track, message)
    }

    fn marker(
        &mut self,
        engine: &mut Engine<'_>,
        by: Writer,
        WrittenMarker { schema, phase, stamped, tid, attribute_words }: WrittenMarker<'_>,
    ) -> Result<(), Stopped> {
        let client = by.program.client;
        let Some(schema) = self.references.known.logs.get(client).schema(schema) else {
            by.refuse(engine, 1);
            return Ok(());
        };
        let attributes =
            self.decode_attributes(engine, by, attribute_words, About::Marker(schema))?;
        let stack = self.references.stack(engine, client, stamped, &attributes.stack);
        let on = self.placed_on(engine, by, tid);
        let marker = Marker { schema, phase, attributes: attributes.own, stack };
        marker.emit(engine, on, &mut self.threads[on.slot], self.references.names)
    }

    /// A marker at another time, or of another thread. Where all lanes were passed over it is known
    /// and comes at its time; else it comes now, if its time is over.
    fn place_marker(
        &mut self,
        engine: &mut Engine<'_>,
        by: Writer,
        placement: MarkerPlacement,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let known = &mut self.references.known;
        if known.prescan.is_whole {
            return Ok(());
        }
        match placement.place(engine, known, by, attribute_words) {
            Some(marker) if marker.ticks <= marker.stamped => self.placed_marker(engine, &marker),
            later => {
                known.prescan.markers.extend(later);
                Ok(())
            }
        }
    }

    /// A marker whose time has come.
    pub(crate) fn placed_marker(
        &mut self,
        engine: &mut Engine<'_>,
        placed: &PlacedMarker,
    ) -> Result<(), Stopped> {
        let by = self.writer(engine, placed.lane, &placed.chunk);
        let PlacedMarker { schema, phase, stamped, tid, attribute_words, .. } = placed;
        let (schema, phase, stamped, tid) = (*schema, *phase, *stamped, *tid);
        self.marker(engine, by, WrittenMarker { schema, phase, stamped, tid, attribute_words })
    }

    /// The thread a marker is placed on, where that is one of the same process.
    fn placed_on(&mut self, engine: &mut Engine<'_>, by: Writer, tid: u32) -> Writer {
        // One that nothing announced may be known or not when its time comes.
        let announced = tid != 0 && engine.threads.is_announced(tid);
        let thread = if announced { engine.threads.get(tid) } else { None };
        match thread.filter(|thread| engine.tables.thread(*thread).process == by.program.process) {
            Some(thread) => {
                Writer { thread, tid, slot: self.threads.slot(engine, thread, by.program), ..by }
            }
            None => by,
        }
    }

    /// Attributes behind an item. Those of other things than the item are applied at once.
    fn decode_attributes(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        words: &[u64],
        about: About,
    ) -> Result<EventAttributes, Stopped> {
        let ZoneReferences { known, names, .. } = &self.references;
        let (log, names) = (known.logs.get(writer.program.client), *names);
        let mut attributes = EventAttributes::read(words, about, log, names, &engine.tables);
        if words.is_empty() {
            return Ok(attributes);
        }
        writer.refuse(engine, std::mem::take(&mut attributes.unknown));
        if let Some(name) = attributes.thread_name.take()
            && let Some(name) = engine.new_name(&name)
        {
            engine.rename(writer.thread, name)?;
        }
        self.async_zones.name_tasks(writer.program, &attributes.tasks);
        let image_blocks = std::mem::take(&mut attributes.image_blocks);
        if !image_blocks.is_empty() {
            self.image_blocks(engine, writer, &image_blocks)?;
        }
        let zone = std::mem::take(&mut attributes.zone);
        if !zone.is_empty() {
            self.threads[writer.slot].update_innermost(engine, zone, names)?;
        }
        Ok(attributes)
    }

    /// More of the image that the thread writes.
    fn image_blocks(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        blocks: &[ImageBlocks],
    ) -> Result<(), Stopped> {
        let programs = &self.references.known.programs;
        let taken = |engine: &mut Engine<'_>, ticks| {
            let clock = programs.clock(writer.program.client, engine.present.map());
            Some(engine.time(clock.limit(clock.anywhere(ticks)?)))
        };
        self.images.add(engine, writer, &mut self.frames, taken, blocks)
    }

    /// Applies attributes of what is open.
    fn update_open(
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

    /// A probe of the client library: a program that could not share memory. What could not be
    /// understood is counted.
    pub(crate) fn on_client_event(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        thread: ThreadId,
        event: Option<ClientEvent>,
    ) -> Result<(), Stopped> {
        let process = engine.tables.thread(thread).process;
        let program = ProgramId { process, client: NO_CLIENT };
        let slot = self.threads.slot(engine, thread, program);
        let thread = &mut self.threads[slot];
        match event {
            Some(ClientEvent::ZoneBegin { name, location, color }) => {
                let name = name.unwrap_or(self.unreadable);
                let slice = Slice { location, color, ..Slice::named(name) };
                if !thread.begin_counted(engine, slice)? {
                    engine.unknown(lane);
                }
                Ok(())
            }
            Some(ClientEvent::ZoneEnd { left }) => thread.end_counted(engine, left),
            Some(ClientEvent::Message { text, color }) => {
                let (category, fields) = (self.messages.category, Fields::new());
                let message = Message { category, text: Some(text), color, stack: None, fields };
                engine.occurred(EventType::Message);
                engine.emit(&Event::Message(thread.track, message))
            }
            Some(ClientEvent::Plot { name, value }) => {
                engine.occurred(EventType::Plot);
                let track = plot_track(engine, process, name, Unit::Number);
                engine.emit(&Event::Counter(track, value))
            }
            Some(ClientEvent::Frame { set }) => {
                self.frames.frame(engine, program, set, FramePhase::Mark)
            }
            None => {
                engine.unknown(lane);
                Ok(())
            }
        }
    }

    /// Forgets what is of threads and processes that are gone, and needs the names of the others.
    pub(crate) fn forget(&mut self, forgotten: &mut Forgotten) {
        self.threads.forget(forgotten);
        self.frames.forget(forgotten);
        self.images.forget(forgotten);
        self.async_zones.forget(forgotten);
        self.plots.forget(forgotten);
        if forgotten.code {
            self.references.forget_code();
        }
    }

    /// The process is over, or runs another program: closes what belongs to no thread. Without a
    /// process: those of all.
    pub(crate) fn close_programs(
        &mut self,
        engine: &mut Engine<'_>,
        process: Option<ProcessId>,
    ) -> Result<(), Stopped> {
        self.gpu.close(engine, &mut self.references, process)?;
        self.images.close(process);
        let mut tracks = self.frames.close(process);
        tracks.append(&mut self.async_zones.close(process));
        tracks.sort_unstable();
        tracks.into_iter().try_for_each(|track| engine.unfinished(track, 1))
    }
}
