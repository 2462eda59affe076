//! The tables as the kernel programs read them (`bpf/include/unwind.h`): numbered files, their
//! pages, and the rows of those pages that a walk has asked for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use syscollect_records::unwind::UnwindRow;

use crate::mapped_map::MappedWords;
use crate::shares::Pool;

/// States of a page, in its upper 16 bits.
const WANTED: u64 = 1;
const READY: u64 = 2;

/// Memory that the programs read and write meanwhile.
pub(super) trait Words {
    /// All of it.
    fn words(&self) -> &[AtomicU64];
}

impl Words for MappedWords {
    fn words(&self) -> &[AtomicU64] {
        self.words()
    }
}

/// A file's place among the pages.
#[derive(Debug)]
struct FilePages {
    pages: Range<u32>,
    owner: u32,
}

/// What was written into the programs' arrays.
#[derive(Debug)]
pub(super) struct Tables<W> {
    rows: W,
    pages: W,
    files: W,
    /// By number less one: programs take 0 for a file without tables.
    known: Vec<FilePages>,
    free_pages: Pool,
    free_rows: Pool,
    /// Where the next rows go.
    next_row: usize,
}

impl<W: Words> Tables<W> {
    /// Empty ones.
    pub(super) fn new(rows: W, pages: W, files: W) -> Self {
        let (free_rows, free_pages) = (rows.words().len(), pages.words().len());
        Self {
            rows,
            pages,
            files,
            known: Vec::new(),
            free_pages: Pool::new(free_pages as u64),
            free_rows: Pool::new(free_rows as u64),
            next_row: 0,
        }
    }

    /// Gives a file of `owner` a number and so many pages, which nobody has asked for yet; `None`
    /// where there is no room.
    pub(super) fn add(&mut self, pages: u32, owner: u32) -> Option<u32> {
        let number = self.known.len() + 1;
        let word = self.files.words().get(number)?;
        if !self.free_pages.take(owner, u64::from(pages)) {
            return None;
        }
        let first = self.known.last().map_or(0, |file| file.pages.end);
        word.store(u64::from(pages) << 32 | u64::from(first), Ordering::Release);
        self.known.push(FilePages { pages: first..first + pages, owner });
        u32::try_from(number).ok()
    }

    /// The pages that walks have asked for, by the file's number.
    pub(super) fn wanted(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut wanted = BTreeMap::<u32, Vec<u32>>::new();
        for (number, file) in (1..).zip(&self.known) {
            let range = file.pages.start as usize..file.pages.end as usize;
            let words = self.pages.words().get(range).unwrap_or_default();
            for (page, word) in (0..).zip(words) {
                if word.load(Ordering::Relaxed) >> 48 == WANTED {
                    wanted.entry(number).or_default().push(page);
                }
            }
        }
        wanted
    }

    /// Puts a page's rows where walks find them. Where there is no room for them it has none from
    /// now on, and `false` is returned.
    pub(super) fn publish(&mut self, number: u32, page: u32, rows: &[UnwindRow]) -> bool {
        let Some(file) = (number as usize).checked_sub(1).and_then(|at| self.known.get(at)) else {
            return false;
        };
        let index = file.pages.start as usize + page as usize;
        let fits = self.free_rows.take(file.owner, rows.len() as u64);
        let rows = if fits { rows } else { &[] };
        let places = self.rows.words().get(self.next_row..).unwrap_or_default();
        for (place, row) in places.iter().zip(rows) {
            place.store(word_of(*row), Ordering::Relaxed);
        }
        let entry = READY << 48 | (rows.len() as u64) << 32 | self.next_row as u64;
        if let Some(word) = self.pages.words().get(index) {
            // Whoever sees this sees the rows.
            word.store(entry, Ordering::Release);
        }
        self.next_row += rows.len();
        fits
    }

    /// Rows in use.
    pub(super) fn rows(&self) -> usize {
        self.next_row
    }
}

/// A row as the programs take it: the bytes of the structure as one number.
fn word_of(row: UnwindRow) -> u64 {
    let mut bytes = [0; UnwindRow::SIZE];
    bytes.copy_from_slice(row.as_bytes());
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_records::unwind::cfa_rule;

    struct Memory(Vec<AtomicU64>);

    impl Words for Memory {
        fn words(&self) -> &[AtomicU64] {
            &self.0
        }
    }

    fn memory(words: usize) -> Memory {
        Memory((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    fn tables(rows: usize) -> Tables<Memory> {
        Tables::new(memory(rows), memory(64), memory(8))
    }

    fn row(address: u16) -> UnwindRow {
        UnwindRow { address, cfa: cfa_rule::RSP, cfa_offset: 2, ..UnwindRow::default() }
    }

    /// What a walk does that finds no rows.
    fn ask(tables: &Tables<Memory>, number: u32, page: u32) {
        let first = tables.files.words()[number as usize].load(Ordering::Relaxed) as u32;
        tables.pages.words()[(first + page) as usize].store(WANTED << 48, Ordering::Relaxed);
    }

    /// The addresses of the rows that a walk finds, or none if there are none yet.
    fn found(tables: &Tables<Memory>, number: u32, page: u32) -> Option<Vec<u16>> {
        let first = tables.files.words()[number as usize].load(Ordering::Relaxed) as u32;
        let entry = tables.pages.words()[(first + page) as usize].load(Ordering::Relaxed);
        let rows = (entry as u32 as usize)..;
        let rows = tables.rows.words()[rows].iter().take((entry >> 32 & 0xffff) as usize);
        (entry >> 48 == READY).then(|| rows.map(|row| row.load(Ordering::Relaxed) as u16).collect())
    }

    #[test]
    fn a_page_that_a_walk_asked_for_is_wanted_until_its_rows_are_there() {
        let mut tables = tables(100);
        let (libc, program) = (tables.add(20, 0).unwrap(), tables.add(3, 1000).unwrap());
        ask(&tables, libc, 7);
        ask(&tables, program, 0);
        ask(&tables, program, 2);
        let wanted: Vec<_> = tables.wanted().into_iter().collect();
        assert_eq!(wanted, [(libc, vec![7]), (program, vec![0, 2])]);
        assert!(tables.publish(libc, 7, &[row(0), row(16)]));
        assert!(tables.publish(program, 2, &[row(32)]));
        assert_eq!(found(&tables, libc, 7), Some(vec![0, 16]));
        assert_eq!(found(&tables, program, 2), Some(vec![32]));
        assert_eq!((found(&tables, program, 0), tables.rows()), (None, 3));
        assert_eq!(tables.wanted().into_values().flatten().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn no_users_files_take_the_rows_that_others_need() {
        let mut tables = tables(100);
        let (hostile, honest) = (tables.add(20, 1001).unwrap(), tables.add(20, 1002).unwrap());
        let rows = [row(0); 20];
        assert!(tables.publish(hostile, 0, &rows) && tables.publish(hostile, 1, &rows));
        assert!(!tables.publish(hostile, 2, &rows), "it would have more than is left");
        assert_eq!(found(&tables, hostile, 2), Some(vec![]), "and is not asked for for ever");
        assert!(tables.publish(honest, 0, &rows));
        let system = tables.add(1, 0).unwrap();
        assert!(tables.publish(system, 0, &rows), "root's have what there is");
        assert!(!tables.publish(system, 0, &[row(0); 30]), "and no more");
    }

    #[test]
    fn there_are_as_many_files_and_pages_as_the_programs_have() {
        let mut tables = tables(100);
        assert_eq!((tables.add(65, 0), tables.add(64, 0)), (None, Some(1)));
        assert_eq!((2..8).map(|_| tables.add(0, 0)).last().flatten(), Some(7));
        assert_eq!(tables.add(0, 0), None);
    }
}
