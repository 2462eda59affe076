//! What the items of a marked program refer to: its log of definitions.

use rustc_hash::FxHashMap;
use syscollect_model::{
    FieldFormat, Location, LocationId, Schema, SchemaField, SchemaId, StringId, Tables,
};
use syscollect_records::ZoneLogChunk;
use syscollect_usdt_client::protocol::{self, EntryKind, LOG_BYTES};

/// Bytes before an entry's own: its size and its kind.
const HEADER: usize = size_of::<protocol::EntryHeader>();
/// Bytes of the longest entry.
const LONGEST: usize = 64 << 10;

/// A place in the source with what a zone there is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) name: StringId,
    /// `None` where the program says neither function nor file nor line.
    pub(crate) location: Option<LocationId>,
    pub(crate) color: Option<u32>,
}

/// An entry that items refer to by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    String(StringId),
    Location(Marked),
    /// A plot, or a counter that the collector samples.
    Plot {
        name: StringId,
        unit: StringId,
    },
    Lock {
        name: StringId,
        shared: bool,
        location: u32,
    },
    Schema(SchemaId),
}

/// A lock as the program defined it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DefinedLock {
    pub(crate) name: StringId,
    pub(crate) shared: bool,
    pub(crate) location: Option<LocationId>,
}

/// The log of one program.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: FxHashMap<u32, Entry>,
}

impl Log {
    /// The string of that number; 0 is none.
    pub(crate) fn string(&self, number: u32) -> Option<StringId> {
        match self.entries.get(&number) {
            Some(Entry::String(id)) => Some(*id),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn location(&self, number: u32) -> Option<Marked> {
        match self.entries.get(&number) {
            Some(Entry::Location(marked)) => Some(*marked),
            _ => None,
        }
    }

    /// Name and unit of a plot.
    pub(crate) fn plot(&self, number: u32) -> Option<(StringId, StringId)> {
        match self.entries.get(&number) {
            Some(Entry::Plot { name, unit }) => Some((*name, *unit)),
            _ => None,
        }
    }

    pub(crate) fn lock(&self, number: u32) -> Option<DefinedLock> {
        match self.entries.get(&number) {
            Some(Entry::Lock { name, shared, location }) => {
                let location = self.location(*location).and_then(|marked| marked.location);
                Some(DefinedLock { name: *name, shared: *shared, location })
            }
            _ => None,
        }
    }

    pub(crate) fn schema(&self, number: u32) -> Option<SchemaId> {
        match self.entries.get(&number) {
            Some(Entry::Schema(id)) => Some(*id),
            _ => None,
        }
    }
}

/// The logs of all programs, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    programs: FxHashMap<u32, Log>,
    locations: FxHashMap<Location, LocationId>,
    schemas: FxHashMap<Schema, SchemaId>,
    nothing: Log,
}

impl Logs {
    /// The program's log; an empty one where it wrote none.
    #[inline]
    pub(crate) fn get(&self, client: u32) -> &Log {
        self.programs.get(&client).unwrap_or(&self.nothing)
    }

    /// The row of a place.
    pub(crate) fn intern_location(
        &mut self,
        location: Location,
        tables: &mut Tables,
    ) -> LocationId {
        *self.locations.entry(location).or_insert_with(|| {
            tables.locations.push(location);
            LocationId(tables.locations.len() as u32 - 1)
        })
    }

    fn intern_schema(&mut self, schema: Schema, tables: &mut Tables) -> SchemaId {
        if let Some(id) = self.schemas.get(&schema) {
            return *id;
        }
        let id = SchemaId(tables.schemas.len() as u32);
        tables.schemas.push(schema.clone());
        self.schemas.insert(schema, id);
        id
    }

    /// Reads a chunk of a log: how many entries it held, and how many of these
    /// cannot be read. Of two entries with one number the first counts.
    pub(crate) fn read(&mut self, data: &[u8], tables: &mut Tables) -> (u64, u64) {
        let Some(chunk) = ZoneLogChunk::from_bytes(data) else { return (0, 1) };
        let (mut at, mut read, mut bad) = (ZoneLogChunk::SIZE, 0, 0);
        while at < data.len() {
            let position = chunk.position as usize + (at - ZoneLogChunk::SIZE);
            let Some((kind, body, size)) = entry(&data[at..]).filter(|_| position < LOG_BYTES)
            else {
                // Without a size there is no way to what follows.
                return (read, bad + 1);
            };
            at += size;
            match self.parse(kind, body, tables) {
                Some(entry) => {
                    let log = self.programs.entry(chunk.client).or_default();
                    log.entries.entry((position / 8) as u32 + 1).or_insert(entry);
                    read += 1;
                }
                None => bad += 1,
            }
        }
        (read, bad)
    }

    fn parse(&mut self, kind: u32, body: &[u8], tables: &mut Tables) -> Option<Entry> {
        let mut body = Body(body);
        Some(match EntryKind::from_number(kind)? {
            EntryKind::String => {
                Entry::String(tables.strings.intern(&String::from_utf8_lossy(body.rest())))
            }
            EntryKind::Location => {
                let (line, color) = (body.number()?, body.number()?);
                let mut text = || body.text(tables);
                let (name, function, file) = (text()?, text()?, text()?);
                let location = Location { function, file, line };
                let empty = |id| tables.strings.get(id).is_empty();
                let known = line != 0 || !empty(function) || !empty(file);
                let location = known.then(|| self.intern_location(location, tables));
                Entry::Location(Marked { name, location, color: color_of(color) })
            }
            EntryKind::Plot => {
                let _ = (body.number()?, body.number()?);
                Entry::Plot { name: body.text(tables)?, unit: body.text(tables)? }
            }
            EntryKind::Lock => {
                let (readers, location) = (body.number()?, body.number()?);
                Entry::Lock { name: body.text(tables)?, shared: readers != 0, location }
            }
            EntryKind::Schema => {
                let schema = schema(&mut body, tables)?;
                Entry::Schema(self.intern_schema(schema, tables))
            }
            EntryKind::Counter => {
                // The collector reads its values at an address, and gives them as a plot's.
                let _ = (body.number()?, body.number()?, body.number()?, body.number()?);
                Entry::Plot { name: body.text(tables)?, unit: body.text(tables)? }
            }
        })
    }
}

/// 0xRRGGBB; 0 is none.
pub(crate) fn color_of(number: u32) -> Option<u32> {
    Some(number & 0xff_ffff).filter(|color| *color != 0)
}

fn schema(body: &mut Body<'_>, tables: &mut Tables) -> Option<Schema> {
    let (count, _) = (body.number()?, body.number()?);
    let (name, category) = (body.text(tables)?, body.text(tables)?);
    let category = Some(category).filter(|id| !tables.strings.get(*id).is_empty());
    let mut fields = Vec::new();
    for _ in 0..count {
        let (name, label) = (body.text(tables)?, body.text(tables)?);
        let format =
            body.bytes()?.first().and_then(|number| protocol::FieldFormat::from_number(*number));
        fields.push(SchemaField { name, label, format: format_of(format?) });
    }
    Some(Schema { name, category, fields })
}

fn format_of(format: protocol::FieldFormat) -> FieldFormat {
    match format {
        protocol::FieldFormat::Text => FieldFormat::Text,
        protocol::FieldFormat::Integer => FieldFormat::Integer,
        protocol::FieldFormat::Decimal => FieldFormat::Decimal,
        protocol::FieldFormat::Duration => FieldFormat::Duration,
        protocol::FieldFormat::Bytes => FieldFormat::Bytes,
        protocol::FieldFormat::Percentage => FieldFormat::Percentage,
        protocol::FieldFormat::Address => FieldFormat::Address,
    }
}

/// Kind, own bytes and whole size of the entry at the start of `data`.
fn entry(data: &[u8]) -> Option<(u32, &[u8], usize)> {
    let mut header = Body(data);
    let (size, kind) = (header.number()? as usize, header.number()?);
    if !(HEADER..=LONGEST).contains(&size) || !size.is_multiple_of(8) {
        return None;
    }
    Some((kind, data.get(HEADER..size)?, size))
}

/// An entry's own bytes, read from the front.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    /// A text with its length in front.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        self.0 = rest;
        Some(text)
    }

    fn text(&mut self, tables: &mut Tables) -> Option<StringId> {
        self.bytes().map(|bytes| tables.strings.intern(&String::from_utf8_lossy(bytes)))
    }

    /// All that is left, without the zeros that fill up the last word.
    fn rest(&self) -> &'a [u8] {
        let end = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        &self.0[..end]
    }
}
