//! Code for which tables are wanted.

use crate::file::Layout;
use std::ops::Range;
use syscollect_elf::LoadedPart;
use syscollect_records::unwind::PAGE_BYTES;

/// Code that lies in neighbouring pages that are wanted, and in one segment.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) segment: LoadedPart,
    /// Offsets within the file.
    pub(crate) offsets: Range<u64>,
}

impl Run {
    /// The runs of `pages`, which are sorted; by offset.
    pub(crate) fn all(layout: &Layout, pages: &[u32]) -> Vec<Self> {
        let mut runs = Vec::<Self>::new();
        for &segment in &layout.code {
            for page in pages.iter().map(|page| u64::from(*page) * PAGE_BYTES) {
                let start = page.max(segment.offset);
                let end = (page + PAGE_BYTES).min(segment.offsets().end);
                if start >= end {
                    continue;
                }
                match runs.last_mut() {
                    Some(run) if run.goes_on(segment, start) => run.offsets.end = end,
                    _ => runs.push(Self { segment, offsets: start..end }),
                }
            }
        }
        runs
    }

    fn goes_on(&self, segment: LoadedPart, start: u64) -> bool {
        self.segment.offset == segment.offset && self.offsets.end == start
    }

    pub(crate) fn addresses(&self) -> Range<u64> {
        self.address(self.offsets.start)..self.address(self.offsets.end)
    }

    fn address(&self, offset: u64) -> u64 {
        offset - self.segment.offset + self.segment.address
    }

    /// Where `address` lies in the file; addresses before the run are its beginning.
    pub(crate) fn offset(&self, address: u64) -> u64 {
        let address = address.max(self.addresses().start);
        address - self.segment.address + self.segment.offset
    }

    /// Pages that it touches.
    pub(crate) fn pages(&self) -> usize {
        let pages = (self.offsets.end - 1) / PAGE_BYTES - self.offsets.start / PAGE_BYTES + 1;
        usize::try_from(pages).unwrap_or(usize::MAX)
    }
}
