//! Which code has unwind information, by address.

use crate::UnwindError;
use crate::partial::PartialBytes;
use crate::run::Run;
use syscollect_elf::FrameIndex;
use syscollect_records::unwind::PAGE_BYTES;

/// Entries that are looked at for a page at most: one for each byte, and as many that are not in
/// order.
const ENTRIES_OF_PAGE: usize = 2 * PAGE_BYTES as usize;

/// Frame description entries (FDE), each of which describes the code of one function.
pub(crate) enum Index<'a> {
    /// The table of `.eh_frame_hdr`.
    Table(SearchTable<'a>),
    /// Found by reading all of the section; sorted by address.
    List(Vec<FdePosition>),
}

/// The table of `.eh_frame_hdr`, which is sorted by address, unless a stranger wrote it.
pub(crate) struct SearchTable<'a> {
    pub(crate) bytes: PartialBytes<'a>,
    pub(crate) index: FrameIndex,
    /// Rows that it has.
    pub(crate) rows: usize,
}

/// An FDE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FdePosition {
    /// Of the first instruction.
    pub(crate) address: u64,
    /// Of the FDE within its section, which is read up to less than 4 GiB.
    pub(crate) offset: u32,
}

impl Index<'_> {
    /// The entries that decide in `run`: the last that begins before it, those that begin in it,
    /// and the first after it. Each begins later than the one before; of several at one address,
    /// and of what is not in order, the first counts.
    pub(crate) fn entries(&mut self, run: &Run) -> Result<Vec<FdePosition>, UnwindError> {
        let addresses = run.addresses();
        let first = self.find(addresses.start)?;
        let most = run.pages().saturating_mul(ENTRIES_OF_PAGE);
        let mut entries = Vec::<FdePosition>::new();
        for number in first..first.saturating_add(most) {
            let Some(entry) = self.entry(number)? else { break };
            if entries.last().is_none_or(|last| entry.address > last.address) {
                entries.push(entry);
            }
            if entry.address >= addresses.end {
                break;
            }
        }
        Ok(entries)
    }

    fn length(&self) -> usize {
        match self {
            Self::Table(table) => table.rows,
            Self::List(entries) => entries.len(),
        }
    }

    /// The entry of that number; `None` if there are fewer.
    fn entry(&mut self, number: usize) -> Result<Option<FdePosition>, UnwindError> {
        match self {
            Self::Table(table) => table.entry(number),
            Self::List(entries) => Ok(entries.get(number).copied()),
        }
    }

    /// The first entry of those with the last beginning up to `address`; 0 if all begin later.
    fn find(&mut self, address: u64) -> Result<usize, UnwindError> {
        let after = self.first_where(|begins| begins > address)?;
        let Some(last) = after.checked_sub(1) else { return Ok(0) };
        match self.entry(last)? {
            Some(last) => self.first_where(|begins| begins >= last.address),
            None => Ok(0),
        }
    }

    /// The first entry whose beginning is as `is_it` says, as are all after it.
    fn first_where(&mut self, is_it: impl Fn(u64) -> bool) -> Result<usize, UnwindError> {
        let (mut low, mut high) = (0, self.length());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)?.is_some_and(|entry| is_it(entry.address)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }
}

impl SearchTable<'_> {
    fn entry(&mut self, number: usize) -> Result<Option<FdePosition>, UnwindError> {
        if number >= self.rows {
            return Ok(None);
        }
        let start = FrameIndex::HEADER + number * FrameIndex::ROW;
        let row = self.bytes.get(start, FrameIndex::ROW)?;
        let Some(row) = row.first_chunk().map(|row| self.index.row(row)) else { return Ok(None) };
        // One that lies outside of the section is found to be none when it is read.
        let offset = u32::try_from(row.entry.wrapping_sub(self.index.entries)).unwrap_or(u32::MAX);
        Ok(Some(FdePosition { address: row.code, offset }))
    }
}
