//! What a file says for whoever unwinds the stack: which code belongs
//! together, also where no symbol tells.

use crate::elf::{ENDIAN, Elf, Section};
use object::ReadRef;
use object::read::elf::SectionHeader as _;
use std::ops::Range;

/// How `.eh_frame_hdr` begins as linkers write it for x86-64: version 1, the address of
/// `.eh_frame` relative to its own place in 4 bytes, a count in 4 bytes, and a sorted table of
/// pairs of 4 bytes each, relative to the section: the address of code, and that of its entry.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// Where the table lies in it.
const TABLE: usize = 12;
/// More than any known program has.
const FRAMES_MAX: u64 = 256 << 20;

/// The code that has an entry in `.eh_frame`.
#[derive(Debug)]
pub(crate) struct Frames<'data> {
    /// Where code lies in the file, and by how much its addresses differ from that.
    code: Vec<(Range<u64>, u64)>,
    /// `.eh_frame_hdr` and `.eh_frame`, with their addresses.
    sections: [(u64, &'data [u8]); 2],
}

impl<'data> Frames<'data> {
    /// `None` where the file has none, or damaged ones.
    pub(crate) fn read<R: ReadRef<'data>>(elf: &Elf<'data, R>) -> Option<Self> {
        let named = |name: &'static str| {
            let section: &Section = elf.sections_named(name).next()?;
            Some((section.sh_addr(ENDIAN), elf.section_data(section, name, FRAMES_MAX).ok()?))
        };
        Some(Self {
            code: elf.code().collect(),
            sections: [named(".eh_frame_hdr")?, named(".eh_frame")?],
        })
    }

    /// All of what lies together with the instruction at a place in the file.
    pub(crate) fn around(&self, offset: u64) -> Option<Range<u64>> {
        let (code, difference) = self.code.iter().find(|(code, _)| code.contains(&offset))?;
        let Range { start, end } = self.around_address(offset.wrapping_add(*difference))?;
        let found = start.wrapping_sub(*difference)..end.wrapping_sub(*difference);
        (found.contains(&offset) && found.start >= code.start && found.end <= code.end)
            .then_some(found)
    }

    fn around_address(&self, address: u64) -> Option<Range<u64>> {
        let [(header_at, header), (entries_at, entries)] = self.sections;
        let table = header.strip_prefix(&HEADER)?.get(TABLE - HEADER.len()..)?;
        let (rows, _) = table.as_chunks::<8>();
        let start = |row: &[u8; 8]| relative(header_at, row);
        let row = &rows[rows.partition_point(|row| start(row) <= address).checked_sub(1)?];
        let entry =
            usize::try_from(relative(header_at, &row[4..]).checked_sub(entries_at)?).ok()?;
        // Its length, where what is common to several lies, the address of the code and the code's
        // size: of an entry of another form the address is not that of the table.
        let code_at = entry.checked_add(8)?;
        let code = entries.get(code_at..)?.get(..8)?;
        let code_address = relative(entries_at.wrapping_add(code_at as u64), code);
        let size = u64::from(u32::from_le_bytes(*code[4..].first_chunk()?));
        (code_address == start(row)).then_some(start(row)..start(row).checked_add(size)?)
    }
}

/// An address that is told by how far it is from another.
fn relative(from: u64, bytes: &[u8]) -> u64 {
    let distance = bytes.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
    from.wrapping_add_signed(distance.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODE: Range<u64> = 0x400..0x800;

    fn frames<'data>(header: &'data [u8], frames: &'data [u8]) -> Frames<'data> {
        Frames { code: vec![(CODE, 0x1000)], sections: [(0x3000, header), (0x4000, frames)] }
    }

    /// A table of one entry: from an address 0x40 bytes on.
    fn one_entry(address: u64) -> (Vec<u8>, Vec<u8>) {
        let relative = |to: u64, from: u64| (to.wrapping_sub(from) as u32).to_le_bytes();
        let header = [
            &[1, 0x1b, 0x03, 0x3b][..],
            &relative(0x4000, 0x3004),
            &[1, 0, 0, 0],
            &relative(address, 0x3000),
        ];
        let header = [&header.concat()[..], &relative(0x4018, 0x3000)].concat();
        // The common part: length, 0, version, "zR", alignments, return address, addresses relative
        // to their place.
        let common =
            [&20u32.to_le_bytes()[..], &[0; 4], b"\x01zR\0\x01\x78\x10\x01\x1b", &[0; 7]].concat();
        let own = [
            &20u32.to_le_bytes()[..],
            &28u32.to_le_bytes(),
            &relative(address, 0x4020),
            &[0x40, 0, 0, 0],
            &[0; 8],
        ];
        (header, [&common[..], &own.concat(), &[0; 4]].concat())
    }

    #[test]
    fn code_that_lies_together_is_told_by_any_place_in_it() {
        let (header, own) = one_entry(0x1500);
        let around = |place| frames(&header, &own).around(place);
        assert_eq!([0x500, 0x53f].map(around), [Some(0x500..0x540), Some(0x500..0x540)]);
        assert_eq!([0x4ff, 0x540, 0x900].map(around), [None, None, None]);
    }

    #[test]
    fn what_reaches_beyond_the_code_is_none() {
        let (header, own) = one_entry(0x17f0);
        assert_eq!(frames(&header, &own).around(0x7f8), None);
    }

    proptest! {
        #[test]
        fn a_damaged_table_tells_something_within_the_code_or_nothing(
            damage in prop::collection::vec((0usize..72, any::<u8>()), 1..8), cut in 0usize..72, place in CODE,
        ) {
            let (mut header, mut own) = one_entry(0x1500);
            for (at, byte) in damage {
                let all = header.len() + own.len();
                *header.iter_mut().chain(&mut own).nth(at % all).unwrap() = byte;
            }
            own.truncate(own.len().saturating_sub(cut / 2));
            if let Some(found) = frames(&header, &own).around(place) {
                prop_assert!(found.contains(&place) && found.start >= CODE.start && found.end <= CODE.end);
            }
        }
    }
}
