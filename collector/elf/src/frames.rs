//! Where the tables for unwinding lie.
//!
//! `.eh_frame` has an entry for the code of each function, `.eh_frame_hdr` an index of them by
//! address. A program header leads to the index ([`Elf::frame_index`](crate::Elf::frame_index)),
//! and that to the entries. Sections have both, too ([`Section::part`](crate::Section::part)).

/// The version of all of them.
const VERSION: u8 = 1;
/// Pointers as all linkers write them: 4 bytes, seen from the pointer itself (DW_EH_PE_pcrel |
/// DW_EH_PE_sdata4).
const ENTRIES_POINTER: u8 = 0x1b;
/// DW_EH_PE_udata4.
const COUNT: u8 = 0x03;
/// Seen from the index (DW_EH_PE_datarel | DW_EH_PE_sdata4).
const ROW_POINTERS: u8 = 0x3b;

/// The beginning of `.eh_frame_hdr`, as all linkers write it for x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameIndex {
    /// The address of `.eh_frame`.
    pub entries: u64,
    /// The rows that the table claims; 0 if it has none, or some of another form.
    pub rows: u32,
    address: u64,
}

/// A row of the index, which is sorted by address unless a stranger wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// The address of the code.
    pub code: u64,
    /// The address of its entry.
    pub entry: u64,
}

impl FrameIndex {
    /// Bytes before its table.
    pub const HEADER: usize = 12;
    /// Bytes of a row of the table.
    pub const ROW: usize = 8;

    /// The index that begins with `bytes` and is loaded at `address`; `None` if it has another
    /// form.
    pub fn parse(bytes: &[u8], address: u64) -> Option<Self> {
        let &[VERSION, ENTRIES_POINTER, count, pointers, a, b, c, d, ref rest @ ..] = bytes else {
            return None;
        };
        let entries = relative(address.wrapping_add(4), [a, b, c, d]);
        let is_usual = (count, pointers) == (COUNT, ROW_POINTERS);
        let rows =
            rest.first_chunk().filter(|_| is_usual).map_or(0, |rows| u32::from_le_bytes(*rows));
        Some(Self { entries, rows, address })
    }

    /// What a row says.
    pub fn row(&self, row: &[u8; Self::ROW]) -> FrameRow {
        let &[a, b, c, d, e, f, g, h] = row;
        FrameRow {
            code: relative(self.address, [a, b, c, d]),
            entry: relative(self.address, [e, f, g, h]),
        }
    }
}

/// An address that is told by how far it is from another.
fn relative(from: u64, distance: [u8; 4]) -> u64 {
    from.wrapping_add_signed(i32::from_le_bytes(distance).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_seen_from_the_index_and_the_entries_from_their_pointer() {
        let mut index = [1, 0x1b, 0x03, 0x3b, 0xfc, 0x0f, 0, 0, 2, 0, 0, 0];
        let parsed = FrameIndex::parse(&index, 0x3000).unwrap();
        assert_eq!((parsed.entries, parsed.rows), (0x4000, 2));
        let row = parsed.row(&[0, 0xf0, 0xff, 0xff, 0x18, 0x10, 0, 0]);
        assert_eq!(row, FrameRow { code: 0x2000, entry: 0x4018 });
        // Rows of another form are none, but the entries are found.
        index[3] = 0x1b;
        let parsed = FrameIndex::parse(&index, 0x3000).unwrap();
        assert_eq!((parsed.entries, parsed.rows), (0x4000, 0));
        assert_eq!(FrameIndex::parse(&index[..7], 0x3000), None);
        assert_eq!(FrameIndex::parse(&[2, 0x1b, 3, 0x3b, 0, 0, 0, 0], 0x3000), None);
    }
}
