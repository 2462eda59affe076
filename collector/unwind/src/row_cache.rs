//! Rows of a file's code, made when they are asked for and kept.

use crate::{UnwindFile, UnwindRow, row_at};
use rustc_hash::FxHashMap;
use syscollect_records::unwind::PAGE_BYTES;

/// A file and the pages of its tables that were asked for so far.
#[derive(Debug)]
pub struct RowCache {
    file: UnwindFile,
    /// No rows where the file says nothing of the page, or something damaged.
    pages: FxHashMap<u32, Vec<UnwindRow>>,
}

impl RowCache {
    /// With nothing made yet.
    pub fn new(file: UnwindFile) -> Self {
        Self { file, pages: FxHashMap::default() }
    }

    /// Whether the rows for this offset in the file are there: making them takes its time.
    pub fn has(&self, offset: u64) -> bool {
        page(offset).is_some_and(|page| self.pages.contains_key(&page))
    }

    /// The row for an offset in the file; one that says nothing where the file does not.
    pub fn row(&mut self, offset: u64) -> UnwindRow {
        let Some(page) = page(offset) else { return UnwindRow::default() };
        let Self { file, pages } = self;
        let rows = pages.entry(page).or_insert_with(|| {
            let made = file.pages(&[page]).unwrap_or_default();
            made.into_iter().next().map(|(_, rows)| rows).unwrap_or_default()
        });
        row_at(rows, (offset % PAGE_BYTES) as u16).unwrap_or_default()
    }

    /// How many rows are kept.
    pub fn rows(&self) -> usize {
        self.pages.values().map(Vec::len).sum()
    }

    /// Forgets the rows.
    pub fn clear(&mut self) {
        self.pages.clear();
    }
}

fn page(offset: u64) -> Option<u32> {
    u32::try_from(offset / PAGE_BYTES).ok()
}
