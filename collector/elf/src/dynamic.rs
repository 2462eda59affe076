//! What a file is linked with.

use crate::bytes::FileBytes;
use crate::{Elf, ElfError};
use object::elf::{self, Dyn32, Dyn64, DynamicTag};
use object::pod::{Pod, slice_from_bytes};
use object::read::elf::Dyn;
use object::{Endianness, ReadRef};

/// Bytes; more than any table of what a file is linked with has.
const TABLE_MAX: u64 = 64 << 10;

/// What a file says to the loader: what it is called, what it needs, where that is looked for.
#[derive(Debug)]
pub struct Dynamic<R> {
    entries: Vec<(DynamicTag, u64)>,
    file: FileBytes<R>,
    /// Where the strings lie in the file, if that has them.
    strings: Option<u64>,
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    /// The loader's table; `None` where there is none, as in a program that needs nothing.
    ///
    /// # Errors
    ///
    /// When the table lies outside of the file, or has more than 64 KiB.
    pub fn dynamic(&self) -> Result<Option<Dynamic<R>>, ElfError> {
        let Some(segment) = self.segments_of(elf::PT_DYNAMIC).next() else { return Ok(None) };
        let part = "table of what it is linked with";
        let bytes = self.bytes(segment.offset, segment.size, part, TABLE_MAX)?;
        let endian = self.header.endian;
        let entries = match self.header.is_64 {
            true => entries::<Dyn64<Endianness>>(bytes, endian),
            false => entries::<Dyn32<Endianness>>(bytes, endian),
        };
        let strings = entries.iter().find(|(tag, _)| *tag == elf::DT_STRTAB);
        let strings = strings.and_then(|(_, address)| self.data_offset(*address, 1));
        Ok(Some(Dynamic { entries, file: self.file, strings }))
    }
}

/// The entries up to the end that the table marks.
fn entries<D: Dyn<Endian = Endianness> + Pod>(
    bytes: &[u8],
    endian: Endianness,
) -> Vec<(DynamicTag, u64)> {
    let entries = slice_from_bytes::<D>(bytes, bytes.len() / size_of::<D>());
    let entries = entries.map_or(&[][..], |(entries, _)| entries).iter();
    let entries = entries.map(|entry| (entry.tag(endian), entry.val(endian)));
    entries.take_while(|(tag, _)| *tag != elf::DT_NULL).collect()
}

impl<'data, R: ReadRef<'data>> Dynamic<R> {
    /// The entries in their order, up to the end that the table marks: what each is of, and its
    /// number. There are at most 8192.
    pub fn entries(&self) -> impl Iterator<Item = (DynamicTag, u64)> {
        self.entries.iter().copied()
    }

    /// The string that an entry's number means: a library's name, a list of folders. `None` if it
    /// does not end within `limit` bytes of the file.
    pub fn string(&self, number: u64, limit: u64) -> Option<&'data [u8]> {
        self.file.string(self.strings?.checked_add(number)?, limit)
    }
}
