//! The lists that the machine has for debuggers (`vmStructs.hpp`): what each row says did not change
//! since OpenJDK 8, though the file has numbers that could say otherwise.

use crate::HotspotFileError;
use crate::relocated::Relocated;
use syscollect_elf::{ReadRef, SymbolTable};

/// Rows at most: OpenJDK 17 has 788 members and 1,000 types.
const ROWS_MAX: u64 = 8192;

/// A row of the members: the structure's name, the member's, its type's, whether it is static, at
/// which byte of the structure it lies, and where it is if it is static.
const MEMBER_ROW: u64 = 48;
const MEMBER_NAME: u64 = 8;
const MEMBER_TYPE: u64 = 16;
const MEMBER_OFFSET: u64 = 32;
const MEMBER_ADDRESS: u64 = 40;
/// A row of the types: its name, the name of the one that it extends, three numbers, and its size.
const TYPE_ROW: u64 = 40;
const TYPE_SIZE: u64 = 32;

/// A member of a structure.
#[derive(Clone, Copy)]
pub(crate) struct Member<'d> {
    /// What its type is called.
    pub(crate) type_name: &'d [u8],
    /// The word that will say at which byte of its structure it lies.
    pub(crate) offset_at: u64,
    /// Where it is, if it is static.
    pub(crate) address: u64,
}

/// The machine's lists.
pub(crate) struct Lists<'a, 'elf, 'd, R> {
    data: &'a Relocated<'elf, 'd, R>,
    members: u64,
    types: u64,
}

impl<'a, 'elf, 'd, R: ReadRef<'d>> Lists<'a, 'elf, 'd, R> {
    /// `None` if the file has none.
    pub(crate) fn find(
        data: &'a Relocated<'elf, 'd, R>,
        symbols: &SymbolTable<'_>,
    ) -> Option<Self> {
        let list = |name: &[u8]| data.word(symbols.find(name)?.address);
        let members = list(b"gHotSpotVMStructs")?;
        Some(Self { data, members, types: list(b"gHotSpotVMTypes")? })
    }

    /// The first member of these that there is; each is a structure's name and the member's.
    pub(crate) fn member(
        &self,
        names: &[(&'static str, &'static str)],
    ) -> Result<Member<'d>, HotspotFileError> {
        let found = names.iter().find_map(|(structure, member)| {
            self.rows(self.members, MEMBER_ROW).find_map(|(row, name)| {
                let data = self.data;
                if name != structure.as_bytes()
                    || data.text(data.word(row + MEMBER_NAME)?)? != member.as_bytes()
                {
                    return None;
                }
                let type_name = data.text(data.word(row + MEMBER_TYPE)?)?;
                let address = data.word(row + MEMBER_ADDRESS)?;
                Some(Member { type_name, offset_at: row + MEMBER_OFFSET, address })
            })
        });
        let lacks = names.last().map_or("", |(_, member)| member);
        found.ok_or(HotspotFileError::Lacks(lacks))
    }

    /// Bytes that a type has.
    pub(crate) fn size_of(&self, name: &'static str) -> Result<u32, HotspotFileError> {
        let mut rows = self.rows(self.types, TYPE_ROW);
        let row = rows.find(|(_, found)| *found == name.as_bytes());
        let size = row.and_then(|(row, _)| self.data.number(row + TYPE_SIZE));
        size.ok_or(HotspotFileError::Lacks(name))
    }

    /// The rows of a list, and whose name each begins with.
    fn rows(&self, list: u64, size: u64) -> impl Iterator<Item = (u64, &'d [u8])> {
        let rows = (0..ROWS_MAX).map_while(move |number| list.checked_add(number * size));
        let in_memory = move |row: &u64| row.checked_add(size).is_some();
        rows.take_while(in_memory)
            .map_while(|row| Some((row, self.data.text(self.data.word(row)?)?)))
    }
}
