//! One record of a trace: its header understood, its payload where it lies.

use crate::Guid;

/// A record, whatever header it had on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Raw clock, in the unit of the logfile header's clock.
    pub timestamp: u64,
    /// Who says what.
    pub class: Class,
    /// The CPU whose buffer it lay in.
    pub cpu: u16,
    /// Who ran when it was written; `None` where the header does not say (PERFINFO).
    pub task: Option<Task>,
    /// Version of the payload's layout.
    pub version: u16,
    /// The payload has 64-bit pointers: the record's own bitness, not the logger's.
    pub is_64_bit: bool,
    /// What it says.
    pub payload: &'a [u8],
    /// Extended items, undecoded.
    pub extended: ExtendedItems<'a>,
}

/// A thread as headers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}

/// Who wrote a record, and what kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The kernel logger, by the group and the opcode on disk. Records that name
    /// the same event by its class's GUID (FULL headers of merged and live
    /// files) come as this, too.
    Kernel {
        /// Event group: 5 is threads, 15 (0x0f) is profiling.
        group: u8,
        /// The kind within its group.
        opcode: u8,
    },
    /// A provider with a manifest, or TraceLogging.
    Provider {
        /// Its GUID.
        provider: Guid,
        /// The event's id in the manifest.
        id: u16,
        /// Start, stop, info, ...
        opcode: u8,
        /// 1 critical to 5 verbose.
        level: u8,
        /// The manifest's task.
        task: u16,
        /// The groups it belongs to.
        keyword: u64,
    },
    /// A classic (MOF) event of a class that is none of the kernel's own.
    Classic {
        /// The class's GUID.
        class: Guid,
        /// Its type.
        opcode: u8,
    },
    /// A WPP trace message; needs the program's symbols to read, so it is only counted.
    Wpp,
}

/// The extended items of a record, as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedItems<'a>(pub &'a [u8]);

/// One extended item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedItem<'a> {
    /// Its type: 6 is a stack, 11 a TraceLogging schema, 18 the key of a stack.
    pub kind: u16,
    /// Its bytes.
    pub data: &'a [u8],
}

impl<'a> Iterator for ExtendedItems<'a> {
    type Item = ExtendedItem<'a>;

    /// Items that do not fit into the bytes end the list.
    fn next(&mut self) -> Option<ExtendedItem<'a>> {
        let (header, rest) = self.0.split_first_chunk::<8>()?;
        let [_, _, kind_low, kind_high, linkage, _, size_low, size_high] = *header;
        let size = usize::from(u16::from_le_bytes([size_low, size_high]));
        let data = rest.get(..size)?;
        let padded = size.next_multiple_of(8).min(rest.len());
        self.0 = if linkage & 1 == 1 { &rest[padded..] } else { &[] };
        Some(ExtendedItem { kind: u16::from_le_bytes([kind_low, kind_high]), data })
    }
}
