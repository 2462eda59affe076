//! What a file says for whoever unwinds the stack: which code belongs
//! together, also where no symbol tells.

use std::ops::Range;
use syscollect_elf::{Elf, FrameIndex, LoadedPart, ReadRef, Sections};

/// More than any known program has.
const FRAMES_MAX: u64 = 256 << 20;

/// The code that has an entry in `.eh_frame`.
#[derive(Debug)]
pub(crate) struct Frames<'data> {
    /// Where code lies in the file, and by how much its addresses differ from that.
    code: Vec<(Range<u64>, u64)>,
    index: FrameIndex,
    /// The rows of the index.
    rows: &'data [[u8; FrameIndex::ROW]],
    /// `.eh_frame`, with its address.
    entries: (u64, &'data [u8]),
}

impl<'data> Frames<'data> {
    /// `None` where the file has none, or damaged ones.
    pub(crate) fn read<R: ReadRef<'data>>(
        elf: &Elf<'data, R>,
        sections: &Sections<'_, 'data, R>,
    ) -> Option<Self> {
        let index = bytes_of(elf, elf.frame_index()?, ".eh_frame_hdr")?;
        let entries = bytes_of(elf, sections.frame_entries()?, ".eh_frame")?;
        Self::new(elf.code().collect(), index, entries)
    }

    fn new(
        code: Vec<(Range<u64>, u64)>,
        (address, index): (u64, &'data [u8]),
        entries: (u64, &'data [u8]),
    ) -> Option<Self> {
        let parsed = FrameIndex::parse(index, address)?;
        let (rows, _) = index.get(FrameIndex::HEADER..)?.as_chunks();
        let rows = &rows[..rows.len().min(parsed.rows as usize)];
        Some(Self { code, index: parsed, rows, entries })
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
        let row =
            self.rows.partition_point(|row| self.index.row(row).code <= address).checked_sub(1)?;
        let row = self.index.row(&self.rows[row]);
        let (entries_at, entries) = self.entries;
        let entry = usize::try_from(row.entry.checked_sub(entries_at)?).ok()?;
        // Its length, where what is common to several lies, the address of the code and the code's
        // size: of an entry of another form the address is not that of the table.
        let code_at = entry.checked_add(8)?;
        let code = entries.get(code_at..)?;
        let distance = i32::from_le_bytes(*code.first_chunk()?);
        let size = u32::from_le_bytes(*code.get(4..)?.first_chunk()?);
        let code_address =
            entries_at.wrapping_add(code_at as u64).wrapping_add_signed(distance.into());
        (code_address == row.code).then_some(row.code..row.code.checked_add(size.into())?)
    }
}

/// A part's address and bytes.
fn bytes_of<'data, R: ReadRef<'data>>(
    elf: &Elf<'data, R>,
    part: LoadedPart,
    name: &'static str,
) -> Option<(u64, &'data [u8])> {
    Some((part.address, elf.bytes(part.offset, part.size, name, FRAMES_MAX).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODE: Range<u64> = 0x400..0x800;

    fn around(index: &[u8], entries: &[u8], place: u64) -> Option<Range<u64>> {
        let frames = Frames::new(vec![(CODE, 0x1000)], (0x3000, index), (0x4000, entries));
        frames?.around(place)
    }

    /// A table of one entry: from an address 0x40 bytes on.
    fn one_entry(address: u64) -> (Vec<u8>, Vec<u8>) {
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

    fn relative(to: u64, from: u64) -> [u8; 4] {
        (to.wrapping_sub(from) as u32).to_le_bytes()
    }

    #[test]
    fn code_that_lies_together_is_told_by_any_place_in_it() {
        let (header, own) = one_entry(0x1500);
        for place in [0x500, 0x53f] {
            assert_eq!(around(&header, &own, place), Some(0x500..0x540), "{place:#x}");
        }
        for place in [0x4ff, 0x540, 0x900] {
            assert_eq!(around(&header, &own, place), None, "{place:#x}");
        }
    }

    #[test]
    fn what_reaches_beyond_the_code_is_none() {
        let (header, own) = one_entry(0x17f0);
        assert_eq!(around(&header, &own, 0x7f8), None);
    }

    proptest! {
        #[test]
        fn a_damaged_table_tells_something_within_the_code_or_nothing(
            damage in prop::collection::vec((0usize..72, any::<u8>()), 1..8),
            cut in 0usize..72,
            place in CODE,
        ) {
            let (mut header, mut own) = one_entry(0x1500);
            for (at, byte) in damage {
                let all = header.len() + own.len();
                *header.iter_mut().chain(&mut own).nth(at % all).unwrap() = byte;
            }
            own.truncate(own.len().saturating_sub(cut / 2));
            if let Some(found) = around(&header, &own, place) {
                prop_assert!(
                    found.contains(&place) && found.start >= CODE.start && found.end <= CODE.end
                );
            }
        }
    }
}
