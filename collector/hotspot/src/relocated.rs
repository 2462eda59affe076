//! Words of a file as they are once it is loaded, at addresses of the file.

use crate::HotspotFileError;
use syscollect_elf::{Elf, ReadRef, Sections, abi};

/// Bytes of a table of relocations at most: that of OpenJDK 25 has 3 MB.
const TABLE_MAX: u64 = 16 << 20;
/// Bytes of a row: where, of what kind, and what is put there.
const ROW: usize = 24;
/// Longer names are none of the list's.
const NAME_MAX: u64 = 64;

/// A file's data, with the addresses that the loader puts into it.
pub(crate) struct Relocated<'elf, 'd, R> {
    elf: &'elf Elf<'d, R>,
    /// Where the loader puts an address, and which; in the order of the first.
    addresses: Vec<(u64, u64)>,
}

impl<'elf, 'd, R: ReadRef<'d>> Relocated<'elf, 'd, R> {
    pub(crate) fn read(
        elf: &'elf Elf<'d, R>,
        sections: &Sections<'_, 'd, R>,
    ) -> Result<Self, HotspotFileError> {
        let mut addresses = Vec::new();
        if let Some(table) = sections.named(".rela.dyn").next() {
            let bytes = sections.bytes(table, "table of relocations", TABLE_MAX)?;
            addresses.extend(bytes.as_chunks::<ROW>().0.iter().filter_map(address_of));
        }
        addresses.sort_unstable();
        Ok(Self { elf, addresses })
    }

    /// The word at an address.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        match self.addresses.binary_search_by_key(&address, |(at, _)| *at) {
            Ok(found) => Some(self.addresses[found].1),
            Err(_) => Some(u64::from_le_bytes(self.bytes(address)?)),
        }
    }

    /// The number of four bytes at an address.
    pub(crate) fn number(&self, address: u64) -> Option<u32> {
        self.bytes(address).map(u32::from_le_bytes)
    }

    /// The text that begins at an address, and ends before a zero.
    pub(crate) fn text(&self, address: u64) -> Option<&'d [u8]> {
        let bytes = self.elf.loaded_bytes(address, NAME_MAX)?;
        Some(&bytes[..bytes.iter().position(|byte| *byte == 0)?])
    }

    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        self.elf.loaded_bytes(address, N as u64)?.try_into().ok()
    }
}

/// What the loader does by a row, if it puts an address of this file somewhere.
fn address_of(row: &[u8; ROW]) -> Option<(u64, u64)> {
    let (words, _) = row.as_chunks::<8>();
    let [at, kind, address] = [0, 1, 2].map(|word| u64::from_le_bytes(words[word]));
    (kind == u64::from(abi::R_X86_64_RELATIVE.0)).then_some((at, address))
}
