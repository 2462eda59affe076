//! What a file is linked with.

use crate::elf::ENDIAN;
use crate::{Elf, ElfError, until_zero};
use object::elf::{self, Dyn64, DynamicTag};
use object::read::elf::Dyn;
use object::{LittleEndian, ReadRef};

/// Bytes; more than any table of what a file is linked with has.
const TABLE_MAX: u64 = 64 << 10;

/// What a file says to the loader: what it is called, what it needs, where that is looked for.
#[derive(Debug)]
pub struct Dynamic<'elf, 'data, R> {
    elf: &'elf Elf<'data, R>,
    entries: &'data [Dyn64<LittleEndian>],
    /// Where the strings lie in the file, if that has them.
    strings: Option<u64>,
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    /// The loader's table; `None` where there is none, as in a program that needs nothing, and in
    /// any file of 32 bits.
    ///
    /// # Errors
    ///
    /// When the table lies outside of the file, or has more than 64 KiB.
    pub fn dynamic(&self) -> Result<Option<Dynamic<'_, 'data, R>>, ElfError> {
        let segment = self.segments_of(elf::PT_DYNAMIC).next().filter(|_| self.is_64());
        let Some(segment) = segment else { return Ok(None) };
        let part = "table of what it is linked with";
        let bytes = self.bytes(segment.offset, segment.size, part, TABLE_MAX)?;
        let count = bytes.len() / size_of::<Dyn64<LittleEndian>>();
        let entries = object::pod::slice_from_bytes(bytes, count).map_or(&[][..], |(all, _)| all);
        let mut dynamic = Dynamic { elf: self, entries, strings: None };
        let strings = dynamic.entries().find(|(tag, _)| *tag == elf::DT_STRTAB);
        dynamic.strings = strings.and_then(|(_, address)| self.data_offset(address, 1));
        Ok(Some(dynamic))
    }
}

impl<'data, R: ReadRef<'data>> Dynamic<'_, 'data, R> {
    /// The entries in their order, up to the end that the table marks: what each is of, and its
    /// number. There are at most 4096.
    pub fn entries(&self) -> impl Iterator<Item = (DynamicTag, u64)> + use<'data, R> {
        let entries = self.entries.iter().map(|entry| (entry.tag(ENDIAN), entry.val(ENDIAN)));
        entries.take_while(|(tag, _)| *tag != elf::DT_NULL)
    }

    /// The string that an entry's number means: a library's name, a list of folders. `None` if it
    /// does not end within `limit` bytes of the file.
    pub fn string(&self, number: u64, limit: u64) -> Option<&'data [u8]> {
        let bytes = self.elf.bytes_up_to(self.strings?.checked_add(number)?, limit);
        Some(until_zero(bytes)).filter(|string| string.len() < bytes.len())
    }
}
