//! Segments: what is loaded, and where it lies in the file and in memory.

use crate::elf::ENDIAN;
use object::LittleEndian;
use object::elf::{self, ProgramFlags, ProgramType};
use object::read::elf::ProgramHeader;
use std::ops::Range;

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What it is for.
    pub kind: ProgramType,
    /// How it is mapped.
    pub flags: ProgramFlags,
    /// Its first byte in the file.
    pub offset: u64,
    /// Its first virtual address.
    pub address: u64,
    /// Bytes in the file.
    pub size: u64,
    /// Bytes in memory.
    pub loaded_size: u64,
    /// What its address is a multiple of.
    pub alignment: u64,
}

impl Segment {
    pub(crate) fn of<H: ProgramHeader<Endian = LittleEndian>>(header: &H) -> Self {
        Self {
            kind: header.p_type(ENDIAN),
            flags: header.p_flags(ENDIAN),
            offset: header.p_offset(ENDIAN).into(),
            address: header.p_vaddr(ENDIAN).into(),
            size: header.p_filesz(ENDIAN).into(),
            loaded_size: header.p_memsz(ENDIAN).into(),
            alignment: header.p_align(ENDIAN).into(),
        }
    }

    /// Whether it is mapped to be run.
    pub fn is_code(&self) -> bool {
        self.flags.contains(elf::PF_X)
    }

    /// Where `size` bytes at an address lie in the file; `None` unless the segment has all of them.
    pub fn offset_of(&self, address: u64, size: u64) -> Option<u64> {
        let into = address.checked_sub(self.address)?;
        (into.checked_add(size)? <= self.size).then(|| self.offset.checked_add(into))?
    }

    /// The address of a byte of the file that it has.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let into = offset.checked_sub(self.offset).filter(|into| *into < self.size)?;
        self.address.checked_add(into)
    }

    /// Its bytes in the file; `None` if it goes beyond what a number holds.
    pub fn part(&self) -> Option<LoadedPart> {
        LoadedPart::new(self.address, self.offset, self.size)
    }
}

/// Bytes of the file, and the address at which they are loaded. Neither ends beyond what a number
/// holds; the file may have fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedPart {
    /// The first address.
    pub address: u64,
    /// Where it lies in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

impl LoadedPart {
    /// `None` if it goes beyond what a number holds.
    pub fn new(address: u64, offset: u64, size: u64) -> Option<Self> {
        let is_possible = address.checked_add(size).is_some() && offset.checked_add(size).is_some();
        is_possible.then_some(Self { address, offset, size })
    }

    /// Its bytes in the file.
    pub fn offsets(&self) -> Range<u64> {
        self.offset..self.offset + self.size
    }

    /// Its addresses.
    pub fn addresses(&self) -> Range<u64> {
        self.address..self.address + self.size
    }

    /// What is left of it from its byte `by` on, which it has.
    #[must_use]
    pub fn without_first(self, by: u64) -> Self {
        Self { offset: self.offset + by, address: self.address + by, size: self.size - by }
    }
}

/// The segments that are loaded, in the order of the file's table.
///
/// They may overlap in a file that somebody made so: the first that holds an address or an offset
/// counts.
#[derive(Clone, Debug, Default)]
pub struct LoadedSegments(pub(crate) Vec<Segment>);

impl LoadedSegments {
    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Segment> {
        self.0.iter()
    }

    /// All of them, for who knows better than the file where they lie.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Segment> {
        self.0.iter_mut()
    }

    /// Those of code.
    pub fn code(&self) -> impl Iterator<Item = &Segment> {
        self.iter().filter(|segment| segment.is_code())
    }

    /// The one that has the byte of the file that an address is loaded from.
    pub fn holding(&self, address: u64) -> Option<&Segment> {
        self.iter().find(|segment| segment.offset_of(address, 1).is_some())
    }

    /// The address of the code at a byte of the file; `None` for data.
    pub fn code_address(&self, offset: u64) -> Option<u64> {
        self.code().find_map(|segment| segment.address_of(offset))
    }

    /// The reverse of [`code_address`](Self::code_address).
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        self.code().find_map(|segment| segment.offset_of(address, 1))
    }

    /// What is loaded at an address and behind it, to the end of its segment.
    pub fn part_from(&self, address: u64) -> Option<LoadedPart> {
        let segment = self.holding(address)?;
        Some(segment.part()?.without_first(address - segment.address))
    }
}
