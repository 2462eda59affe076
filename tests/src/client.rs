//! An instrumented program that never was: its log and what its threads write.

use crate::FakeMachine;
use crate::machine::ticks;
use syscollect_model::{Lane, LaneKind, ProgramTicks, Ticks};
use syscollect_records::{ZoneChunk, ZoneLogChunk};
use syscollect_store::{ClientDefinition, Definition};
use syscollect_zone_protocol::log::{
    ENTRY_HEADER_BYTES, EntryKind, EntryWords, GpuContext, SchemaField,
};
use syscollect_zone_protocol::{
    Attribute, Event, FieldFormat, GpuApi, GpuEvent, ITEM_BLOCKS, ImageBlocks, Item, ItemKind,
    StackEnding, TextRole, Value, ValueType,
};

/// An instrumented program. Its definitions are written when it is
/// [finished](Self::finish), its items as they are told.
///
/// ```
/// use syscollect_tests::{FakeMachine, FakeProgram, golden};
///
/// let mut machine = FakeMachine::new(1);
/// let mut program = FakeProgram::new(&mut machine, 1, 100);
/// let work = program.location("work", "main", "main.rs", 7, 0);
/// let mut thread = program.thread(0, 100);
/// thread.begin(&mut machine, 10, work, &[]);
/// thread.end(&mut machine, 20);
/// program.finish(&mut machine);
/// let (lines, played) = golden::text(&mut golden::open(machine.finish()));
/// assert!(lines.contains("Zones BEGIN work"), "{lines}");
/// assert_eq!(played.events_by_type["zone"], 1);
/// ```
pub struct FakeProgram {
    client: u32,
    log: Vec<u8>,
}

impl FakeProgram {
    /// The program with that number, of that process.
    pub fn new(machine: &mut FakeMachine, client: u32, pid: u32) -> Self {
        Self::with_clock(machine, client, pid, ProgramTicks::Tsc)
    }

    /// The same with ticks of that kind.
    pub fn with_clock(
        machine: &mut FakeMachine,
        client: u32,
        pid: u32,
        clock: ProgramTicks,
    ) -> Self {
        let definition =
            ClientDefinition { client, pid, clock, since: Ticks(ticks(0)), user: None };
        machine.define(&Definition::Clients(vec![definition]));
        Self { client, log: Vec::new() }
    }

    /// A thread that writes to that lane.
    pub fn thread(&self, lane: u16, tid: u32) -> FakeThread {
        FakeThread {
            lane,
            chunk: ZoneChunk { client: self.client, tid, owner: 1, reserved: 0 },
            depth: 0,
        }
    }

    /// Adds an entry of any content to the log; its number.
    pub fn entry(&mut self, kind: u32, numbers: &[u32], strings: &[&str]) -> u32 {
        let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        for text in strings {
            body.extend((text.len() as u16).to_le_bytes());
            body.extend(text.as_bytes());
        }
        self.raw_entry(kind, &body)
    }

    fn raw_entry(&mut self, kind: u32, body: &[u8]) -> u32 {
        let size = (ENTRY_HEADER_BYTES + body.len()).next_multiple_of(8) as u64;
        let body = body.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        self.append(std::iter::once(size | u64::from(kind) << 32).chain(body))
    }

    fn define(&mut self, entry: &EntryWords) -> u32 {
        self.append(std::iter::once(entry.header()).chain(entry.body().iter().copied()))
    }

    fn append(&mut self, words: impl Iterator<Item = u64>) -> u32 {
        let number = (self.log.len() / 8) as u32 + 1;
        self.log.extend(words.flat_map(u64::to_le_bytes));
        number
    }

    /// A string, which may be longer than a client would write it.
    pub fn string(&mut self, text: &str) -> u32 {
        self.raw_entry(EntryKind::String as u32, text.as_bytes())
    }

    /// A place in the source, with texts that may be longer than a client would write them.
    pub fn location(
        &mut self,
        name: &str,
        function: &str,
        file: &str,
        line: u32,
        color: u32,
    ) -> u32 {
        self.entry(EntryKind::Location as u32, &[line, color], &[name, function, file])
    }

    /// A plot.
    pub fn plot(&mut self, name: &str, unit: &str) -> u32 {
        self.define(EntryWords::new().plot(ValueType::Float, name, unit))
    }

    /// A lock that was made at that location.
    pub fn lock(&mut self, name: &str, readers: bool, location: u32) -> u32 {
        self.define(EntryWords::new().lock(readers, location, name))
    }

    /// A kind of marker; fields have a name and a format, and their label is their name.
    pub fn schema(&mut self, name: &str, category: &str, fields: &[(&str, FieldFormat)]) -> u32 {
        let fields = fields.iter().map(|(name, format)| SchemaField {
            name: name.as_bytes(),
            label: name.as_bytes(),
            format: *format,
        });
        self.define(EntryWords::new().schema(name, category, fields))
    }

    /// A context of a GPU, of any clock.
    pub fn gpu_context(&mut self, name: &str, tick_femtoseconds: u64, tick_bits: u32) -> u32 {
        let context = GpuContext {
            api: GpuApi::Vulkan,
            tick_bits,
            tick_femtoseconds,
            owner: 0,
            serial: self.log.len() as u32,
            name: name.as_bytes(),
        };
        self.define(EntryWords::new().gpu_context(context))
    }

    /// Writes the log as it is now into the capture, in one chunk.
    pub fn finish(&self, machine: &mut FakeMachine) {
        let prefix = ZoneLogChunk { client: self.client, position: 0, reserved: 0 };
        let lane = Lane::new(LaneKind::ZoneLog, 0);
        machine.push_after(lane, 0, prefix.as_bytes(), &self.log);
        machine.end_chunk(lane);
    }
}

/// A thread of a [`FakeProgram`].
#[derive(Clone, Debug)]
pub struct FakeThread {
    /// The lane that it writes to.
    pub lane: u16,
    /// How its chunks begin.
    pub chunk: ZoneChunk,
    /// Zones that it has open.
    pub depth: u32,
}

impl FakeThread {
    /// Writes an event and its attributes.
    pub fn event(&self, machine: &mut FakeMachine, us: u64, event: Event, attributes: &[Vec<u64>]) {
        let item = Item::Stamped { ticks: ticks(us), event }.encode();
        self.words(machine, us, &[&item, &attributes.concat()[..]].concat());
    }

    /// Writes an event of any kind and content, and its attributes.
    pub fn item(
        &self,
        machine: &mut FakeMachine,
        us: u64,
        kind: ItemKind,
        words: &[u64],
        attributes: &[Vec<u64>],
    ) {
        let first = ticks(us) << 8 | kind as u64;
        self.words(machine, us, &[&[first], words, &attributes.concat()].concat());
    }

    /// Writes words of any content.
    pub fn words(&self, machine: &mut FakeMachine, us: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        machine.push_after(self.to(), us, self.chunk.as_bytes(), &bytes);
    }

    /// Its lane.
    pub fn to(&self) -> Lane {
        Lane::new(LaneKind::Zone, self.lane)
    }

    /// A zone begins.
    pub fn begin(
        &mut self,
        machine: &mut FakeMachine,
        us: u64,
        location: u32,
        attributes: &[Vec<u64>],
    ) {
        self.event(machine, us, Event::ZoneBegin { location, depth: self.depth }, attributes);
        self.depth += 1;
    }

    /// The innermost zone ends.
    pub fn end(&mut self, machine: &mut FakeMachine, us: u64) {
        self.depth = self.depth.saturating_sub(1);
        self.event(machine, us, Event::ZoneEnd { depth: (self.depth % 64) as u8 }, &[]);
    }

    /// Says how many zones are open, and its name.
    pub fn attached(&self, machine: &mut FakeMachine, us: u64, name: &str) {
        let name = if name.is_empty() { Vec::new() } else { text(TextRole::ThreadName, 0, name) };
        self.event(machine, us, Event::Attached { depth: self.depth }, &[name]);
    }

    /// Writes what is said of a GPU.
    pub fn gpu(
        &self,
        machine: &mut FakeMachine,
        us: u64,
        event: GpuEvent,
        attributes: &[Vec<u64>],
    ) {
        self.event(machine, us, Event::Gpu(event), attributes);
    }

    /// Says that a zone at that depth is open since `since`.
    pub fn open_zone(
        &self,
        machine: &mut FakeMachine,
        us: u64,
        location: u32,
        depth: u32,
        since: u64,
    ) {
        let event = Event::OpenZone { location, depth, began: ticks(since) };
        self.event(machine, us, event, &[]);
    }
}

/// The items of a text, of any bytes.
pub fn text(role: TextRole, field: u32, text: impl AsRef<[u8]>) -> Vec<u64> {
    words(Attribute::text_pieces(role, field, text.as_ref()))
}

/// An item's first word: a number of the log, and what is done with it.
pub fn first_word(number: u32, what: u32) -> u64 {
    u64::from(number) | u64::from(what) << 32
}

/// A counted tag.
pub fn tag(role: TextRole, string: u32, number: u64) -> Vec<u64> {
    words([Attribute::Tag { role, string, number }])
}

/// A value; field [`ZONE_VALUE`](syscollect_zone_protocol::ZONE_VALUE) is the zone's own.
pub fn value(field: u32, value: Value) -> Vec<u64> {
    words([Attribute::Value { field, value }])
}

/// The zone's colour, 0xRRGGBB.
pub fn color(color: u32) -> Vec<u64> {
    words([Attribute::Color(color)])
}

/// The name of a task.
pub fn task_name(string: u32, task: u64) -> Vec<u64> {
    words([Attribute::TaskName { string, task }])
}

/// A stack of return addresses, innermost first.
pub fn stack(addresses: &[u64]) -> Vec<u64> {
    words(Attribute::stacks(addresses, StackEnding::Unsaid))
}

/// A stack whose walk ended so.
pub fn ended_stack(addresses: &[u64], ending: StackEnding) -> Vec<u64> {
    words(Attribute::stacks(addresses, ending))
}

/// Blocks of an image, the first of which has this place in it.
pub fn image_blocks(image: u16, first: u32, blocks: &[u64]) -> Vec<u64> {
    let pieces = blocks.chunks(ITEM_BLOCKS).zip((first..).step_by(ITEM_BLOCKS));
    words(pieces.map(|(blocks, at)| Attribute::ImageBlocks(ImageBlocks::new(image, at, blocks))))
}

fn words(attributes: impl IntoIterator<Item = Attribute>) -> Vec<u64> {
    attributes.into_iter().flat_map(|one| Item::Attribute(one).encode().to_vec()).collect()
}
