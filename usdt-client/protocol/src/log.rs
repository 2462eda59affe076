//! The log of definitions: what items refer to by a number is written here once.
//!
//! An entry is an [`EntryHeader`] and the bytes of a [`Definition`], padded with zeros to whole
//! words. Its position in the log, in units of 8 bytes and plus 1, is the number by which items
//! name it (0 is "none"). Texts within are `u16` bytes and the bytes, without padding.

use crate::numbers::numbered;
use crate::{FieldFormat, GpuApi, ValueType};
use core::sync::atomic::AtomicU32;

/// Bytes of an entry's header.
pub const ENTRY_HEADER_BYTES: usize = size_of::<EntryHeader>();
/// Bytes of the longest entry with its header that a reader takes.
pub const MAX_ENTRY_BYTES: usize = 64 << 10;
/// Words of the longest entry that is written, without its header.
const MAX_WORDS: usize = 512;

/// Most bytes of a text of which an entry has several: one long text must not push out the others.
const LONG_TEXT: usize = 1000;
/// Most bytes of a text of which an entry has many.
const SHORT_TEXT: usize = 100;
/// Most bytes of a string of its own.
const STRING: usize = 4000;

numbered! {
    /// What an entry of the log is.
    EntryKind: u32 {
        /// A text: its bytes, padded with zeros.
        String = 1,
        /// line u32, color u32 (0xRRGGBB, 0 is none), then texts: name, function, file.
        Location = 2,
        /// ValueType u32, 0 u32, then texts: name, unit.
        Plot = 3,
        /// 0 for a mutex, 1 for a lock with readers u32; location's number u32; then text: name.
        Lock = 4,
        /// fields u32, 0 u32, texts: name, category, and for each field: name, label, then a text
        /// of one byte: FieldFormat.
        Schema = 5,
        /// ValueType u32, 0 u32, address u64 of the atomic in the process, then texts: name, unit.
        Counter = 6,
        /// GpuApi u32, bits u32, femtoseconds of a tick u64, tid u32, serial u32, then text: name.
        GpuContext = 7,
    }
}

/// Begins an entry of the log.
#[repr(C)]
pub struct EntryHeader {
    /// Bytes of the entry with this header, a multiple of 8, at most [`MAX_ENTRY_BYTES`];
    /// written last, 0 until then.
    pub size: AtomicU32,
    /// An [`EntryKind`].
    pub kind: AtomicU32,
}

/// What an entry defines. Texts are bytes: whoever reads them makes of them what can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition<'a> {
    /// A string.
    String(&'a [u8]),
    /// A place in the source.
    Location(Location<'a>),
    /// A plot.
    Plot {
        /// What its first value was.
        value_type: ValueType,
        /// What it is called.
        name: &'a [u8],
        /// What its values count.
        unit: &'a [u8],
    },
    /// A lock.
    Lock {
        /// Whether several readers may have it.
        shared: bool,
        /// The location where it was made; 0 is unknown.
        location: u32,
        /// What it is called.
        name: &'a [u8],
    },
    /// What markers of one kind look like.
    Schema {
        /// What they are called.
        name: &'a [u8],
        /// Their category; may be empty.
        category: &'a [u8],
        /// Their fields.
        fields: SchemaFields<'a>,
    },
    /// A number in the program's memory that the collector reads now and then.
    Counter {
        /// How its bits are read.
        value_type: ValueType,
        /// Where it lies in the process.
        address: u64,
        /// What it is called.
        name: &'a [u8],
        /// What it counts.
        unit: &'a [u8],
    },
    /// A queue of a GPU, or a context of a programming interface.
    GpuContext(GpuContext<'a>),
}

/// A queue of a GPU, or a context of a programming interface: what has a clock and zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuContext<'a> {
    /// Whose interface it is.
    pub api: GpuApi,
    /// Bits of its ticks, which wrap behind them: 1 to 64.
    pub tick_bits: u32,
    /// How long a tick takes, femtoseconds.
    pub tick_femtoseconds: u64,
    /// The thread it belongs to, as its pid namespace numbers it; 0 is none.
    pub owner: u32,
    /// Tells contexts apart of which all else is the same.
    pub serial: u32,
    /// What it is called.
    pub name: &'a [u8],
}

/// A place in the source with what a zone there is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// The line, from 1; 0 is unknown.
    pub line: u32,
    /// 0xRRGGBB; 0 is none.
    pub color: u32,
    /// What a zone there is called.
    pub name: &'a [u8],
    /// The function.
    pub function: &'a [u8],
    /// The file.
    pub file: &'a [u8],
}

/// A field of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaField<'a> {
    /// The field's name.
    pub name: &'a [u8],
    /// What is shown to people.
    pub label: &'a [u8],
    /// How it is shown.
    pub format: FieldFormat,
}

/// The fields of a schema that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFields<'a> {
    left: u32,
    body: Body<'a>,
}

impl<'a> Iterator for SchemaFields<'a> {
    type Item = SchemaField<'a>;

    fn next(&mut self) -> Option<SchemaField<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.body.field()
    }
}

impl<'a> Definition<'a> {
    /// The definition in the bytes behind an entry's header; `None` where they are none.
    pub fn decode(kind: u32, body: &'a [u8]) -> Option<Self> {
        let mut body = Body(body);
        Some(match EntryKind::from_number(kind)? {
            EntryKind::String => Self::String(body.unpadded()),
            EntryKind::Location => Self::Location(Location {
                line: body.number()?,
                color: body.number()?,
                name: body.text()?,
                function: body.text()?,
                file: body.text()?,
            }),
            EntryKind::Plot => {
                let value_type = body.value_type()?;
                Self::Plot { value_type, name: body.text()?, unit: body.text()? }
            }
            EntryKind::Lock => Self::Lock {
                shared: body.number()? != 0,
                location: body.number()?,
                name: body.text()?,
            },
            EntryKind::Schema => {
                let (left, _) = (body.number()?, body.number()?);
                let (name, category) = (body.text()?, body.text()?);
                // All of them can be read, or it is no schema.
                let fields = SchemaFields { left, body };
                let mut all = fields.clone();
                let readable = all.by_ref().count();
                if readable as u64 != u64::from(left) {
                    return None;
                }
                Self::Schema { name, category, fields }
            }
            EntryKind::Counter => {
                let value_type = body.value_type()?;
                let (low, high) = (body.number()?, body.number()?);
                let address = u64::from(low) | u64::from(high) << 32;
                Self::Counter { value_type, address, name: body.text()?, unit: body.text()? }
            }
            EntryKind::GpuContext => {
                let api = GpuApi::from_number(body.number()?).unwrap_or(GpuApi::Custom);
                let tick_bits = body.number()?;
                let (low, high) = (body.number()?, body.number()?);
                let (owner, serial) = (body.number()?, body.number()?);
                let tick_femtoseconds = u64::from(low) | u64::from(high) << 32;
                let name = body.text()?;
                let is_clock = (1..=64).contains(&tick_bits) && tick_femtoseconds > 0;
                let context = GpuContext { api, tick_bits, tick_femtoseconds, owner, serial, name };
                return is_clock.then_some(Self::GpuContext(context));
            }
        })
    }
}

/// Kind and bytes, with the header, of the entry that begins with this word; `None` where there is
/// none that is complete.
pub fn read_header(word: u64) -> Option<(EntryKind, usize)> {
    let size = word as u32 as usize;
    let is_size = (ENTRY_HEADER_BYTES..=MAX_ENTRY_BYTES).contains(&size) && size.is_multiple_of(8);
    EntryKind::from_number((word >> 32) as u32).filter(|_| is_size).map(|kind| (kind, size))
}

/// Kind, body and whole size of the entry at the start of these bytes, whatever its kind; `None`
/// where there is none that is complete.
pub fn split_entry(bytes: &[u8]) -> Option<(u32, &[u8], usize)> {
    let mut header = Body(bytes);
    let (size, kind) = (header.number()? as usize, header.number()?);
    if !(ENTRY_HEADER_BYTES..=MAX_ENTRY_BYTES).contains(&size) || !size.is_multiple_of(8) {
        return None;
    }
    Some((kind, bytes.get(ENTRY_HEADER_BYTES..size)?, size))
}

/// An entry's own bytes, read from the front.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    /// The number of a type, and the 0 behind it.
    fn value_type(&mut self) -> Option<ValueType> {
        let (value_type, _) = (self.number()?, self.number()?);
        ValueType::from_number(u8::try_from(value_type).ok()?)
    }

    /// A text with its length in front.
    fn text(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        self.0 = rest;
        Some(text)
    }

    fn field(&mut self) -> Option<SchemaField<'a>> {
        let (name, label) = (self.text()?, self.text()?);
        let format = FieldFormat::from_number(*self.text()?.first()?)?;
        Some(SchemaField { name, label, format })
    }

    /// All that is left, without the zeros that fill up the last word.
    fn unpadded(&self) -> &'a [u8] {
        let end = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        &self.0[..end]
    }
}

/// The words of one entry, as they are put together: [made](Self::new) and then given its content,
/// once. They need no heap. Texts are cut between letters where they are too long.
pub struct EntryWords {
    kind: EntryKind,
    bytes: usize,
    words: [u64; MAX_WORDS],
}

impl EntryWords {
    /// An empty string.
    pub fn new() -> Self {
        Self { kind: EntryKind::String, bytes: 0, words: [0; MAX_WORDS] }
    }

    /// Makes it a string.
    pub fn string(&mut self, text: &str) -> &mut Self {
        self.kind = EntryKind::String;
        self.append(cut(text.as_bytes(), STRING));
        self
    }

    /// Makes it a place in the source.
    pub fn location(&mut self, location: Location<'_>) -> &mut Self {
        self.kind = EntryKind::Location;
        self.numbers([location.line, location.color]);
        for text in [location.name, location.function, location.file] {
            self.text(text, LONG_TEXT);
        }
        self
    }

    /// Makes it a plot of values of that type.
    pub fn plot(&mut self, value_type: ValueType, name: &str, unit: &str) -> &mut Self {
        self.kind = EntryKind::Plot;
        self.numbers([value_type as u32, 0]);
        self.text(name.as_bytes(), LONG_TEXT);
        self.text(unit.as_bytes(), LONG_TEXT);
        self
    }

    /// Makes it a lock, which several readers may have if it is shared, made at that location.
    pub fn lock(&mut self, shared: bool, location: u32, name: &str) -> &mut Self {
        self.kind = EntryKind::Lock;
        self.numbers([shared.into(), location]);
        self.text(name.as_bytes(), LONG_TEXT);
        self
    }

    /// Makes it a kind of markers with these fields.
    pub fn schema<'a>(
        &mut self,
        name: &str,
        category: &str,
        fields: impl ExactSizeIterator<Item = SchemaField<'a>>,
    ) -> &mut Self {
        self.kind = EntryKind::Schema;
        self.numbers([fields.len() as u32, 0]);
        self.text(name.as_bytes(), LONG_TEXT);
        self.text(category.as_bytes(), LONG_TEXT);
        for field in fields {
            self.text(field.name, SHORT_TEXT);
            self.text(field.label, SHORT_TEXT);
            self.text(&[field.format as u8], 1);
        }
        self
    }

    /// Makes it a number of that type at an address of the process.
    pub fn counter(
        &mut self,
        value_type: ValueType,
        address: u64,
        name: &str,
        unit: &str,
    ) -> &mut Self {
        self.kind = EntryKind::Counter;
        self.numbers([value_type as u32, 0, address as u32, (address >> 32) as u32]);
        self.text(name.as_bytes(), LONG_TEXT);
        self.text(unit.as_bytes(), LONG_TEXT);
        self
    }

    /// Makes it a context of a GPU.
    pub fn gpu_context(&mut self, context: GpuContext<'_>) -> &mut Self {
        let GpuContext { api, tick_bits, tick_femtoseconds, owner, serial, name } = context;
        let [low, high] = [tick_femtoseconds as u32, (tick_femtoseconds >> 32) as u32];
        self.kind = EntryKind::GpuContext;
        self.numbers([api as u32, tick_bits, low, high, owner, serial]);
        self.text(name, LONG_TEXT);
        self
    }

    /// What the entry is.
    pub fn kind(&self) -> EntryKind {
        self.kind
    }

    /// The words of its body.
    pub fn body(&self) -> &[u64] {
        &self.words[..self.bytes.div_ceil(8)]
    }

    /// Bytes of the entry with its header.
    pub fn size(&self) -> usize {
        ENTRY_HEADER_BYTES + self.body().len() * 8
    }

    /// The header's word as it is when the entry is complete.
    pub fn header(&self) -> u64 {
        self.size() as u64 | (self.kind as u64) << 32
    }

    fn numbers<const COUNT: usize>(&mut self, numbers: [u32; COUNT]) {
        numbers.iter().for_each(|number| self.append(&number.to_le_bytes()));
    }

    /// Appends a text after its length; cut where the entry is full.
    fn text(&mut self, text: &[u8], most: usize) {
        let room = (MAX_WORDS * 8 - self.bytes).saturating_sub(2);
        let text = cut(text, room.min(most));
        self.append(&(text.len() as u16).to_le_bytes());
        self.append(text);
    }

    fn append(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(word) = self.words.get_mut(self.bytes / 8) {
                *word |= u64::from(*byte) << (self.bytes % 8 * 8);
                self.bytes += 1;
            }
        }
    }
}

impl Default for EntryWords {
    fn default() -> Self {
        Self::new()
    }
}

/// The longest beginning with at most so many bytes that does not end within a letter of UTF-8.
#[inline]
pub fn cut(text: &[u8], bytes: usize) -> &[u8] {
    let mut end = bytes.min(text.len());
    // A letter goes on with bytes of the form 10xxxxxx.
    while end > 0 && text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests;
