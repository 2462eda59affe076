//! The headers that records have on disk.
//!
//! Reading a record has two steps, because the merge needs the time stamp of
//! a record long before its content: [`peek`] finds length and time stamp by a
//! table, [`Head::record`] understands the rest when it is the record's turn.

use super::bytes::{u16_at, u32_at, u64_at};
use super::classes::kernel_group;
use super::wpp;
use crate::{Class, ExtendedItems, Guid, Record, Task};

/// The header a record has on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HeaderKind {
    /// The kernel logger's, with the thread and its times, 32-bit payload.
    System32,
    /// The same, 64-bit payload.
    System64,
    /// As `System32`, without the times.
    Compact32,
    /// As `System64`, without the times.
    Compact64,
    /// The kernel logger's shortest: no thread, 32-bit payload.
    PerfInfo32,
    /// The same, 64-bit payload.
    PerfInfo64,
    /// A classic event with its class's GUID, 32-bit payload.
    Full32,
    /// The same, 64-bit payload.
    Full64,
    /// A provider's event, 32-bit payload.
    Event32,
    /// The same, 64-bit payload.
    Event64,
    /// A WPP message.
    Wpp,
}

impl HeaderKind {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All of them, in the order of [`Self::index`].
    pub const ALL: [Self; 11] = [
        Self::System32,
        Self::System64,
        Self::Compact32,
        Self::Compact64,
        Self::PerfInfo32,
        Self::PerfInfo64,
        Self::Full32,
        Self::Full64,
        Self::Event32,
        Self::Event64,
        Self::Wpp,
    ];

    /// Its place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Where the header of one type says what the merge has to know.
#[derive(Clone, Copy)]
struct Layout {
    kind: Option<HeaderKind>,
    /// Bytes of the header; a record is never shorter.
    length: u8,
    /// Where the size of the whole record is, a u16.
    size_at: u8,
    /// Where the time stamp is, a u64.
    timestamp_at: u8,
}

const SYSTEM_LENGTH: u8 = 32;
const COMPACT_LENGTH: u8 = 24;
const PERF_INFO_LENGTH: u8 = 16;
const FULL_LENGTH: u8 = 48;
const EVENT_LENGTH: u8 = 80;

/// By the header type on disk. What is not listed has its size in front, like
/// all headers that are not the kernel's own.
const LAYOUTS: [Layout; 32] = {
    let mut table = [Layout { kind: None, length: 8, size_at: 0, timestamp_at: 0 }; 32];
    table[1] = layout(HeaderKind::System32, SYSTEM_LENGTH, 4, 16);
    table[2] = layout(HeaderKind::System64, SYSTEM_LENGTH, 4, 16);
    table[3] = layout(HeaderKind::Compact32, COMPACT_LENGTH, 4, 16);
    table[4] = layout(HeaderKind::Compact64, COMPACT_LENGTH, 4, 16);
    table[10] = layout(HeaderKind::Full32, FULL_LENGTH, 0, 16);
    table[16] = layout(HeaderKind::PerfInfo32, PERF_INFO_LENGTH, 4, 8);
    table[17] = layout(HeaderKind::PerfInfo64, PERF_INFO_LENGTH, 4, 8);
    table[18] = layout(HeaderKind::Event32, EVENT_LENGTH, 0, 16);
    table[19] = layout(HeaderKind::Event64, EVENT_LENGTH, 0, 16);
    table[20] = layout(HeaderKind::Full64, FULL_LENGTH, 0, 16);
    table
};

const fn layout(kind: HeaderKind, length: u8, size_at: u8, timestamp_at: u8) -> Layout {
    Layout { kind: Some(kind), length, size_at, timestamp_at }
}

/// Byte 3 of events' headers has both of these bits.
const EVENT_BITS: u8 = 0xc0;
/// Byte 3 of WPP messages' headers has both of these bits.
const WPP_BITS: u8 = 0x90;
/// In place of a record: nothing.
const FILLER: u32 = 0xffff_ffff;
/// Records begin at multiples of this.
pub(super) const ALIGNMENT: usize = 8;

/// What lies at a place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BufferPart {
    /// A record.
    Record(Head),
    /// A record of this size, of a kind that is passed over.
    Other(usize),
    /// [`ALIGNMENT`] bytes of nothing.
    Filler,
    /// Nothing that makes sense: all that follows in the buffer is unknown.
    Damage,
}

/// A record whose length and time stamp are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: HeaderKind,
    /// Bytes of the record, its header included. They are there.
    pub(super) size: u16,
    /// Raw clock; `None` for messages that have none.
    pub(super) timestamp: Option<u64>,
}

/// What the bytes begin with.
#[inline]
pub(super) fn peek(bytes: &[u8]) -> BufferPart {
    let Some(&[first, second, kind, flags]) = bytes.first_chunk::<4>() else {
        return BufferPart::Damage;
    };
    if flags & EVENT_BITS != EVENT_BITS {
        return peek_message(bytes);
    }
    let Some(layout) = LAYOUTS.get(usize::from(kind)) else {
        return peek_rare(bytes, u16::from_le_bytes([first, second]));
    };
    let Some(size) = u16_at(bytes, layout.size_at.into()) else { return BufferPart::Damage };
    if size < u16::from(layout.length) || usize::from(size) > bytes.len() {
        return peek_rare(bytes, 0);
    }
    match (layout.kind, u64_at(bytes, layout.timestamp_at.into())) {
        (Some(kind), Some(timestamp)) => {
            BufferPart::Record(Head { kind, size, timestamp: Some(timestamp) })
        }
        _ => BufferPart::Other(size.into()),
    }
}

/// The time stamp of the record that the bytes begin with, which need not hold all of it.
pub(super) fn first_timestamp(bytes: &[u8]) -> Option<u64> {
    let &[_, _, kind, flags] = bytes.first_chunk::<4>()?;
    if flags & EVENT_BITS != EVENT_BITS {
        return wpp::peek(bytes)?.timestamp;
    }
    let layout = LAYOUTS.get(usize::from(kind)).filter(|layout| layout.kind.is_some())?;
    u64_at(bytes, layout.timestamp_at.into())
}

/// What is seldom there: filler, and sizes that cannot be.
#[cold]
fn peek_rare(bytes: &[u8], size: u16) -> BufferPart {
    match u32_at(bytes, 0) {
        Some(FILLER) => BufferPart::Filler,
        _ if usize::from(size) >= ALIGNMENT && usize::from(size) <= bytes.len() => {
            BufferPart::Other(size.into())
        }
        _ => BufferPart::Damage,
    }
}

fn peek_message(bytes: &[u8]) -> BufferPart {
    if bytes[3] & WPP_BITS != WPP_BITS {
        return BufferPart::Damage;
    }
    wpp::peek(bytes).map_or(BufferPart::Damage, BufferPart::Record)
}

/// Bits of the version that are none: how many counters lie behind the header
/// (three bits from 8 on), and whether one more value does.
const COUNTERS: u16 = 0x0700;
const COUNTERS_SHIFT: u16 = 8;
const PEBS: u16 = 0x8000;

impl Head {
    /// The record itself. `bytes` begin with it; `timestamp` stands in where it has none.
    #[inline]
    pub(super) fn record<'a>(&self, bytes: &'a [u8], cpu: u16, timestamp: u64) -> Record<'a> {
        let bytes = &bytes[..usize::from(self.size)];
        let timestamp = self.timestamp.unwrap_or(timestamp);
        let record = match self.kind {
            HeaderKind::System32 | HeaderKind::System64 => kernel(bytes, SYSTEM_LENGTH, true),
            HeaderKind::Compact32 | HeaderKind::Compact64 => kernel(bytes, COMPACT_LENGTH, true),
            HeaderKind::PerfInfo32 | HeaderKind::PerfInfo64 => {
                kernel(bytes, PERF_INFO_LENGTH, false)
            }
            HeaderKind::Full32 | HeaderKind::Full64 => full(bytes),
            HeaderKind::Event32 | HeaderKind::Event64 => event(bytes),
            HeaderKind::Wpp => wpp::record(bytes),
        };
        let is_64_bit = !matches!(
            self.kind,
            HeaderKind::System32
                | HeaderKind::Compact32
                | HeaderKind::PerfInfo32
                | HeaderKind::Full32
                | HeaderKind::Event32
        );
        Record { timestamp, cpu, is_64_bit, ..record }
    }
}

/// A record of which only some is filled in.
pub(super) fn unfinished<'a>(class: Class, task: Option<Task>, payload: &'a [u8]) -> Record<'a> {
    let extended = ExtendedItems::default();
    Record { timestamp: 0, class, cpu: 0, task, version: 0, is_64_bit: true, payload, extended }
}

/// A thread, unless the header says that it does not know.
pub(super) fn task(tid: Option<u32>, pid: Option<u32>) -> Option<Task> {
    const UNKNOWN: u32 = u32::MAX;
    let (tid, pid) = (tid?, pid?);
    (tid != UNKNOWN).then_some(Task { pid, tid })
}

fn guid_at(bytes: &[u8], at: usize) -> Guid {
    Guid(bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default())
}

/// SYSTEM, COMPACT and PERFINFO: event group and opcode; counters may lie before the payload.
#[inline]
fn kernel(bytes: &[u8], length: u8, has_task: bool) -> Record<'_> {
    let version = u16_at(bytes, 0).unwrap_or_default();
    let extra =
        usize::from((version & COUNTERS) >> COUNTERS_SHIFT) + usize::from(version & PEBS != 0);
    let payload = bytes.get(usize::from(length) + extra * 8..).unwrap_or_default();
    let class = Class::Kernel { group: bytes[7], opcode: bytes[6] };
    let task = if has_task { task(u32_at(bytes, 8), u32_at(bytes, 12)) } else { None };
    Record { version: version & !(COUNTERS | PEBS), ..unfinished(class, task, payload) }
}

/// A classic event: of a class, which may be one of the kernel's.
fn full(bytes: &[u8]) -> Record<'_> {
    let class = classic(guid_at(bytes, 24), bytes[4]);
    let payload = &bytes[usize::from(FULL_LENGTH)..];
    let version = u16_at(bytes, 6).unwrap_or_default();
    Record { version, ..unfinished(class, task(u32_at(bytes, 8), u32_at(bytes, 12)), payload) }
}

fn classic(class: Guid, opcode: u8) -> Class {
    match kernel_group(class) {
        Some(group) => Class::Kernel { group, opcode },
        None => Class::Classic { class, opcode },
    }
}

/// Flags of a provider's event.
const HAS_EXTENDED_ITEMS: u16 = 0x1;
const IS_WPP: u16 = 0x8;
const IS_CLASSIC: u16 = 0x100;

/// A provider's event: with extended items, or a classic event in new clothes.
#[inline]
fn event(bytes: &[u8]) -> Record<'_> {
    let flags = u16_at(bytes, 4).unwrap_or_default();
    let behind = &bytes[usize::from(EVENT_LENGTH)..];
    let (extended, payload) = match flags & HAS_EXTENDED_ITEMS {
        0 => behind.split_at(0),
        _ => behind.split_at(extended_length(behind)),
    };
    let (guid, opcode) = (guid_at(bytes, 24), bytes[45]);
    let class = match flags & (IS_WPP | IS_CLASSIC) {
        0 => Class::Provider {
            provider: guid,
            id: u16_at(bytes, 40).unwrap_or_default(),
            opcode,
            level: bytes[44],
            task: u16_at(bytes, 46).unwrap_or_default(),
            keyword: u64_at(bytes, 48).unwrap_or_default(),
        },
        IS_CLASSIC => classic(guid, opcode),
        _ => Class::Wpp,
    };
    let task = task(u32_at(bytes, 8), u32_at(bytes, 12));
    Record {
        version: bytes[42].into(),
        extended: ExtendedItems(extended),
        ..unfinished(class, task, payload)
    }
}

/// How many bytes the extended items take. Items that do not fit take all there is.
fn extended_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let (Some(linkage), Some(size)) = (u16_at(bytes, at + 4), u16_at(bytes, at + 6)) {
        at += (8 + usize::from(size)).next_multiple_of(ALIGNMENT);
        if linkage & 1 == 0 {
            break;
        }
    }
    at.min(bytes.len())
}
