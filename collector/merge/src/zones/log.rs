//! What the items of an instrumented program refer to: its log of definitions.

use crate::zones::held_shares::HeldShares;
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{
    self as model, FieldFormat, Forgotten, Location, LocationId, Schema, SchemaId, Slice, StringId,
    Strings, Tables, Unit,
};
use syscollect_records::ZoneLogChunk;
use syscollect_store::Producer;
use syscollect_zone_protocol as protocol;
use syscollect_zone_protocol::arena::LOG_BYTES;
use syscollect_zone_protocol::log::{Definition, split_entry};

/// A place in the source with what a zone there is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceLocation {
    pub(crate) name: StringId,
    /// `None` where the program says neither function nor file nor line.
    pub(crate) location: Option<LocationId>,
    pub(crate) color: Option<u32>,
}

impl SourceLocation {
    /// A slice that begins there.
    #[inline]
    pub(crate) fn slice(self) -> Slice {
        Slice { location: self.location, color: self.color, ..Slice::named(self.name) }
    }
}

/// An entry that items refer to by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogEntry {
    String(StringId),
    Location(SourceLocation),
    /// A plot, or a counter that the collector samples.
    Plot {
        name: StringId,
        unit: Unit,
    },
    Lock {
        name: StringId,
        shared: bool,
        location: u32,
    },
    Schema(SchemaId),
    GpuContext(GpuContext),
}

/// A queue of a GPU, or a context of a programming interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpuContext {
    /// What it is called, or what its interface is.
    pub(crate) name: StringId,
    /// Bits behind which its ticks wrap, 1 to 64.
    pub(crate) tick_bits: u32,
    /// How long a tick takes, more than 0.
    pub(crate) tick_femtoseconds: u64,
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
    entries: FxHashMap<u32, LogEntry>,
}

impl LogEntry {
    /// Says what an entry that stays needs.
    fn needs(self, forgotten: &mut Forgotten) {
        match self {
            Self::String(text) => forgotten.uses(text),
            Self::Location(SourceLocation { name, location, .. }) => {
                forgotten.uses(name);
                location.into_iter().for_each(|location| forgotten.uses_location(location));
            }
            Self::Plot { name, unit } => {
                forgotten.uses(name);
                forgotten.uses_unit(unit);
            }
            Self::Lock { name, .. } | Self::GpuContext(GpuContext { name, .. }) => {
                forgotten.uses(name);
            }
            Self::Schema(schema) => forgotten.uses_schema(schema),
        }
    }
}

impl Log {
    /// The string of that number; 0 is none.
    pub(crate) fn string(&self, number: u32) -> Option<StringId> {
        match self.entries.get(&number) {
            Some(LogEntry::String(id)) => Some(*id),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn location(&self, number: u32) -> Option<SourceLocation> {
        match self.entries.get(&number) {
            Some(LogEntry::Location(location)) => Some(*location),
            _ => None,
        }
    }

    /// Name and unit of a plot.
    pub(crate) fn plot(&self, number: u32) -> Option<(StringId, Unit)> {
        match self.entries.get(&number) {
            Some(LogEntry::Plot { name, unit }) => Some((*name, *unit)),
            _ => None,
        }
    }

    pub(crate) fn lock(&self, number: u32) -> Option<DefinedLock> {
        match self.entries.get(&number) {
            Some(LogEntry::Lock { name, shared, location }) => {
                let location = self.location(*location).and_then(|location| location.location);
                Some(DefinedLock { name: *name, shared: *shared, location })
            }
            _ => None,
        }
    }

    pub(crate) fn gpu_context(&self, number: u32) -> Option<GpuContext> {
        match self.entries.get(&number) {
            Some(LogEntry::GpuContext(context)) => Some(*context),
            _ => None,
        }
    }

    pub(crate) fn schema(&self, number: u32) -> Option<SchemaId> {
        match self.entries.get(&number) {
            Some(LogEntry::Schema(id)) => Some(*id),
            _ => None,
        }
    }
}

/// Bytes of logs that are kept while recording. What is made of them takes some five times as much.
const MOST_LOG_BYTES: usize = 64 << 20;

/// What programs have of that.
#[derive(Debug)]
struct LogShares {
    held: HeldShares,
    of_programs: FxHashMap<u32, (Producer, usize)>,
    /// Programs that had to give up their logs.
    without: FxHashSet<u32>,
}

impl Default for LogShares {
    fn default() -> Self {
        let (of_programs, without) = Default::default();
        Self { held: HeldShares::new(MOST_LOG_BYTES), of_programs, without }
    }
}

/// The logs of all programs, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    programs: FxHashMap<u32, Log>,
    /// While recording: how much each may have.
    shares: Option<LogShares>,
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

    /// From now on programs have shares of a bound.
    pub(crate) fn share(&mut self) {
        self.shares = Some(LogShares::default());
    }

    /// Whether there is room for another chunk of a program's log. The program with most of the
    /// user with most gives up its own for it: what it writes then has no names.
    pub(crate) fn has_room(&mut self, producer: Producer, bytes: usize) -> bool {
        let Self { programs, shares: Some(shares), .. } = self else { return true };
        let LogShares { held, of_programs, without } = shares;
        if without.contains(&producer.program) {
            return false;
        }
        let fits = held.take(producer, bytes, |most| {
            programs.remove(&most.program);
            without.insert(most.program);
            of_programs.remove(&most.program).map_or(0, |(_, bytes)| bytes)
        });
        match fits {
            true => of_programs.entry(producer.program).or_insert((producer, 0)).1 += bytes,
            false => _ = without.insert(producer.program),
        }
        fits
    }

    /// Forgets the logs of programs that are gone, and says what the others need.
    pub(crate) fn forget(&mut self, gone: &FxHashSet<u32>, forgotten: &mut Forgotten) {
        self.programs.retain(|client, _| !gone.contains(client));
        if let Some(shares) = &mut self.shares {
            shares.without.retain(|client| !gone.contains(client));
            for client in gone {
                if let Some((producer, bytes)) = shares.of_programs.remove(client) {
                    shares.held.give_back(producer, bytes);
                }
            }
        }
        let entries = self.programs.values().flat_map(|log| log.entries.values());
        entries.for_each(|entry| entry.needs(forgotten));
    }

    /// Forgets rows that nothing needs.
    pub(crate) fn forget_rows(&mut self, forgotten: &Forgotten) {
        self.locations.retain(|_, location| !forgotten.has_location(*location));
        self.schemas.retain(|_, schema| !forgotten.has_schema(*schema));
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
            let Some((kind, body, size)) =
                split_entry(&data[at..]).filter(|_| position < LOG_BYTES)
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

    fn parse(&mut self, kind: u32, body: &[u8], tables: &mut Tables) -> Option<LogEntry> {
        let strings = &mut tables.strings;
        Some(match Definition::decode(kind, body)? {
            Definition::String(text) => LogEntry::String(intern(text, strings)),
            Definition::Location(place) => {
                let [name, function, file] =
                    [place.name, place.function, place.file].map(|text| intern(text, strings));
                let is_known =
                    place.line != 0 || !place.function.is_empty() || !place.file.is_empty();
                let location = Location { function, file, line: place.line };
                let location = is_known.then(|| self.intern_location(location, tables));
                LogEntry::Location(SourceLocation { name, location, color: color_of(place.color) })
            }
            // The collector reads a counter's values at its address, and gives them as a plot's.
            Definition::Plot { name, unit, .. } | Definition::Counter { name, unit, .. } => {
                let name = intern(name, strings);
                let unit = Unit::from_passing_text(&String::from_utf8_lossy(unit), strings);
                LogEntry::Plot { name, unit }
            }
            Definition::Lock { shared, location, name } => {
                LogEntry::Lock { name: intern(name, strings), shared, location }
            }
            Definition::GpuContext(protocol::log::GpuContext {
                api,
                tick_bits,
                tick_femtoseconds,
                name,
                ..
            }) => {
                let name = intern(gpu_context_name(api, name), strings);
                LogEntry::GpuContext(GpuContext { name, tick_bits, tick_femtoseconds })
            }
            Definition::Schema { name, category, fields } => {
                let name = intern(name, strings);
                let category = (!category.is_empty()).then(|| intern(category, strings));
                let fields = fields.map(|field| model::SchemaField {
                    name: intern(field.name, strings),
                    label: intern(field.label, strings),
                    format: format_of(field.format),
                });
                let schema = Schema { name, category, fields: fields.collect() };
                LogEntry::Schema(self.intern_schema(schema, tables))
            }
        })
    }
}

/// 0xRRGGBB; 0 is none.
pub(crate) fn color_of(number: u32) -> Option<u32> {
    Some(number & 0xff_ffff).filter(|color| *color != 0)
}

/// What a context of a GPU is called: as its interface where it has no name.
pub fn gpu_context_name(api: protocol::GpuApi, name: &[u8]) -> &[u8] {
    if !name.is_empty() {
        return name;
    }
    match api {
        protocol::GpuApi::Custom => b"GPU",
        protocol::GpuApi::OpenGl => b"OpenGL",
        protocol::GpuApi::Vulkan => b"Vulkan",
        protocol::GpuApi::OpenCl => b"OpenCL",
        protocol::GpuApi::Direct3d12 => b"Direct3D 12",
        protocol::GpuApi::Direct3d11 => b"Direct3D 11",
        protocol::GpuApi::Metal => b"Metal",
        protocol::GpuApi::Cuda => b"CUDA",
    }
}

fn intern(text: &[u8], strings: &mut Strings) -> StringId {
    strings.intern_passing(&String::from_utf8_lossy(text))
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

/// Tells what a chunk of a program's log defines: the program's number, the definition's, and that.
/// Those of kinds that are not known are passed over. For whoever follows a recording that goes on.
pub fn each_definition(data: &[u8], mut on: impl FnMut(u32, u32, &Definition<'_>)) {
    let Some(chunk) = ZoneLogChunk::from_bytes(data) else { return };
    let mut at = ZoneLogChunk::SIZE;
    // Without a size there is no way to what follows.
    while let Some((kind, body, size)) = data.get(at..).and_then(split_entry) {
        let position = u64::from(chunk.position) + (at - ZoneLogChunk::SIZE) as u64;
        at += size;
        let Ok(number) = u32::try_from(position / 8 + 1) else { return };
        if let Some(definition) = Definition::decode(kind, body) {
            on(chunk.client, number, &definition);
        }
    }
}
