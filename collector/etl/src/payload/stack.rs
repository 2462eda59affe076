//! Stacks: MOF class `StackWalk`, and the extended items of providers' events
//! (`EVENT_EXTENDED_ITEM_STACK_TRACE32` and its like).
//!
//! The kernel writes a stack as a record of its own, after the event it belongs
//! to, which is found by its time and thread; kernel and user part may be two
//! records. With stack caching it writes a key instead, and tells later what the
//! key stands for.

use super::reader::Reader;
use crate::{ExtendedItem, ExtendedItems, Record, Task};

/// Addresses of a stack, innermost first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    is_64_bit: bool,
}

/// A stack, or its kernel or user part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    /// Raw time stamp of the event it belongs to.
    pub event_timestamp: u64,
    /// Who ran.
    pub task: Task,
    /// Its addresses.
    pub frames: Frames<'a>,
}

/// A stack that was seen before, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackKeyReference {
    /// It is the kernel's part rather than the user's.
    pub is_kernel: bool,
    /// Raw time stamp of the event it belongs to.
    pub event_timestamp: u64,
    /// Who ran.
    pub task: Task,
    /// The key; keys of kernel and user parts do not collide.
    pub key: u64,
}

/// What a key stands for. It comes after the references to it, and the key may then be given anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackKeyDefinition<'a> {
    /// The key.
    pub key: u64,
    /// Its addresses.
    pub frames: Frames<'a>,
    /// The key is given up here and may stand for another stack later; otherwise it is told at the
    /// trace's end.
    pub is_deleted: bool,
}

/// A stack in an event's extended items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemStack<'a> {
    /// Its addresses.
    Frames {
        /// Equal in the parts of one stack that was split; 0 where it was not.
        match_id: u64,
        /// Addresses.
        frames: Frames<'a>,
    },
    /// Its key.
    Key {
        /// Equal in the parts of one stack that was split; 0 where it was not.
        match_id: u64,
        /// The key, as [`StackKeyDefinition`] has it.
        key: u64,
    },
}

impl<'a> Frames<'a> {
    /// Of bytes that hold nothing but addresses. What is less than an address is left out.
    #[inline]
    pub fn new(bytes: &'a [u8], is_64_bit: bool) -> Self {
        Self { bytes, is_64_bit }
    }

    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.bytes.len() / if self.is_64_bit { 8 } else { 4 }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The addresses, innermost first.
    #[inline]
    pub fn iter(self) -> FrameAddresses<'a> {
        FrameAddresses { reader: Reader::new(self.bytes, self.is_64_bit) }
    }
}

impl<'a> IntoIterator for Frames<'a> {
    type Item = u64;
    type IntoIter = FrameAddresses<'a>;

    #[inline]
    fn into_iter(self) -> FrameAddresses<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Frames<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

/// The addresses of a stack, see [`Frames`].
#[derive(Clone, Debug)]
pub struct FrameAddresses<'a> {
    reader: Reader<'a>,
}

impl Iterator for FrameAddresses<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.reader.pointer()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.reader.rest().len() / self.reader.pointer_size();
        (count, Some(count))
    }
}

impl ExactSizeIterator for FrameAddresses<'_> {}

/// What all records about a stack of an event begin with: the event's time stamp, process, thread.
#[inline]
fn event(reader: &mut Reader<'_>) -> Option<(u64, Task)> {
    Some((reader.u64()?, Task { pid: reader.u32()?, tid: reader.u32()? }))
}

impl<'a> Stack<'a> {
    #[inline]
    pub(super) fn decode(record: &Record<'a>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let (event_timestamp, task) = event(&mut reader)?;
        Some(Self { event_timestamp, task, frames: Frames::new(reader.rest(), record.is_64_bit) })
    }
}

impl StackKeyReference {
    #[inline]
    pub(super) fn decode(record: &Record<'_>, is_kernel: bool) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let (event_timestamp, task) = event(&mut reader)?;
        Some(Self { is_kernel, event_timestamp, task, key: reader.pointer()? })
    }
}

impl<'a> StackKeyDefinition<'a> {
    #[inline]
    pub(super) fn decode(record: &Record<'a>, is_deleted: bool) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let key = reader.pointer()?;
        Some(Self { key, frames: Frames::new(reader.rest(), record.is_64_bit), is_deleted })
    }
}

/// Types of extended items that hold a stack.
const STACK_TRACE32: u16 = 5;
const STACK_TRACE64: u16 = 6;
const STACK_KEY32: u16 = 17;
const STACK_KEY64: u16 = 18;

impl<'a> ItemStack<'a> {
    /// What an item says; `None` where it is no stack, or too short for one.
    #[inline]
    pub fn decode(item: ExtendedItem<'a>) -> Option<Self> {
        let is_64_bit = matches!(item.kind, STACK_TRACE64 | STACK_KEY64);
        let mut reader = Reader::new(item.data, is_64_bit);
        match item.kind {
            STACK_TRACE32 | STACK_TRACE64 => {
                let match_id = reader.u64()?;
                Some(Self::Frames { match_id, frames: Frames::new(reader.rest(), is_64_bit) })
            }
            STACK_KEY32 | STACK_KEY64 => {
                Some(Self::Key { match_id: reader.u64()?, key: reader.pointer()? })
            }
            _ => None,
        }
    }
}

/// The stacks among an event's extended items.
#[inline]
pub fn item_stacks<'a>(items: ExtendedItems<'a>) -> impl Iterator<Item = ItemStack<'a>> {
    items.filter_map(ItemStack::decode)
}
