//! A marked program that never was: its log and what its threads write.

use crate::FakeMachine;
use crate::machine::ticks;
use syscollect_model::Ticks;
use syscollect_records::{ZoneChunk, ZoneLogChunk};
use syscollect_store::{ClientDefinition, Definition, Lane, LaneKind};
use syscollect_usdt_client::protocol::{
    EntryKind, FieldFormat, ItemKind, STACK_ADDRESSES, TEXT_BYTES, TextRole, ValueType, ZONE_END,
};

/// A marked program. Its definitions are written when it is
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
        Self::with_clock(machine, client, pid, "tsc")
    }

    /// The same with ticks of that kind.
    pub fn with_clock(machine: &mut FakeMachine, client: u32, pid: u32, clock: &str) -> Self {
        let definition =
            ClientDefinition { client, pid, clock: clock.into(), since: Ticks(ticks(0)) };
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
    pub fn entry(&mut self, kind: u32, numbers: &[u32], texts: &[&str]) -> u32 {
        let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        for text in texts {
            body.extend((text.len() as u16).to_le_bytes());
            body.extend(text.as_bytes());
        }
        self.raw_entry(kind, &body)
    }

    fn raw_entry(&mut self, kind: u32, body: &[u8]) -> u32 {
        let number = (self.log.len() / 8) as u32 + 1;
        let size = (8 + body.len()).next_multiple_of(8);
        self.log.extend((size as u32).to_le_bytes());
        self.log.extend(kind.to_le_bytes());
        self.log.extend(body);
        self.log.resize(self.log.len().next_multiple_of(8), 0);
        number
    }

    /// A string.
    pub fn string(&mut self, text: &str) -> u32 {
        self.raw_entry(EntryKind::String as u32, text.as_bytes())
    }

    /// A place in the source.
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
        self.entry(EntryKind::Plot as u32, &[ValueType::Float as u32, 0], &[name, unit])
    }

    /// A lock that was made at that location.
    pub fn lock(&mut self, name: &str, readers: bool, location: u32) -> u32 {
        self.entry(EntryKind::Lock as u32, &[readers.into(), location], &[name])
    }

    /// A kind of marker; fields have a name and a format, and their label is their name.
    pub fn schema(&mut self, name: &str, category: &str, fields: &[(&str, FieldFormat)]) -> u32 {
        let formats: Vec<String> =
            fields.iter().map(|(_, format)| (*format as u8 as char).to_string()).collect();
        let mut texts = vec![name, category];
        for ((name, _), format) in fields.iter().zip(&formats) {
            texts.extend([*name, *name, format.as_str()]);
        }
        self.entry(EntryKind::Schema as u32, &[fields.len() as u32, 0], &texts)
    }

    /// Writes the log as it is now into the capture, in one chunk.
    pub fn finish(&self, machine: &mut FakeMachine) {
        let prefix = ZoneLogChunk { client: self.client, position: 0, reserved: 0 };
        let lane = Lane { kind: LaneKind::ZoneLog, cpu: 0 };
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
    /// Writes a stamped item of any kind, and items that belong to it.
    pub fn item(
        &self,
        machine: &mut FakeMachine,
        us: u64,
        kind: ItemKind,
        words: &[u64],
        more: &[Vec<u64>],
    ) {
        let first = ticks(us) << 8 | kind as u64;
        self.words(machine, us, &[&[first], words, &more.concat()].concat());
    }

    /// Writes words of any content.
    pub fn words(&self, machine: &mut FakeMachine, us: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        machine.push_after(self.to(), us, self.chunk.as_bytes(), &bytes);
    }

    /// Its lane.
    pub fn to(&self) -> Lane {
        Lane { kind: LaneKind::Zone, cpu: self.lane }
    }

    /// A zone begins.
    pub fn begin(&mut self, machine: &mut FakeMachine, us: u64, location: u32, more: &[Vec<u64>]) {
        let word = u64::from(location) | u64::from(self.depth) << 32;
        self.item(machine, us, ItemKind::ZoneBegin, &[word], more);
        self.depth += 1;
    }

    /// The innermost zone ends.
    pub fn end(&mut self, machine: &mut FakeMachine, us: u64) {
        self.depth = self.depth.saturating_sub(1);
        self.words(
            machine,
            us,
            &[ticks(us) << 8 | u64::from(ZONE_END) | u64::from(self.depth % 64)],
        );
    }

    /// Says how many zones are open, and its name.
    pub fn attached(&self, machine: &mut FakeMachine, us: u64, name: &str) {
        let name = if name.is_empty() { Vec::new() } else { text(TextRole::ThreadName, 0, name) };
        self.item(machine, us, ItemKind::Attached, &[self.depth.into()], &[name]);
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
        let word = u64::from(location) | u64::from(depth) << 32;
        self.item(machine, us, ItemKind::OpenZone, &[word, ticks(since)], &[]);
    }
}

/// The items of a text, of any bytes.
pub fn text(role: TextRole, field: u32, text: impl AsRef<[u8]>) -> Vec<u64> {
    let pieces: Vec<&[u8]> = text.as_ref().chunks(TEXT_BYTES).collect();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let item = |(index, piece): (usize, &&[u8])| {
        let more = u64::from(index + 1 < pieces.len());
        let header =
            ItemKind::Text as u64 | (role as u64) << 8 | (piece.len() as u64) << 16 | more << 24;
        [vec![header | u64::from(field) << 32], piece.chunks(8).map(word).collect()].concat()
    };
    pieces.iter().enumerate().flat_map(item).collect()
}

/// A counted tag.
pub fn tag(role: TextRole, string: u32, number: u64) -> Vec<u64> {
    vec![ItemKind::Tag as u64 | (role as u64) << 8 | u64::from(string) << 32, number]
}

/// A value; field `u32::MAX` is the zone's own.
pub fn value(kind: ValueType, field: u32, bits: u64) -> Vec<u64> {
    vec![ItemKind::Value as u64 | (kind as u64) << 8 | u64::from(field) << 32, bits]
}

/// The zone's colour, 0xRRGGBB.
pub fn color(color: u32) -> Vec<u64> {
    vec![ItemKind::Color as u64 | u64::from(color) << 8]
}

/// The name of a task.
pub fn task_name(string: u32, task: u64) -> Vec<u64> {
    vec![ItemKind::TaskName as u64 | u64::from(string) << 32, task]
}

/// A stack of return addresses, innermost first.
pub fn stack(addresses: &[u64]) -> Vec<u64> {
    let count = addresses.len().div_ceil(STACK_ADDRESSES);
    let item = |(index, here): (usize, &[u64])| {
        let more = u64::from(index + 1 < count);
        [&[ItemKind::Stack as u64 | (here.len() as u64) << 8 | more << 16], here].concat()
    };
    addresses.chunks(STACK_ADDRESSES).enumerate().flat_map(item).collect()
}
