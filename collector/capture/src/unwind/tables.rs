//! The tables as the kernel programs read them (`bpf/include/unwind.h`): numbered files, their
//! pages, and the rows of those pages that a walk has asked for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use syscollect_records::unwind::UnwindRow;

use crate::mapped_map::MappedWords;
use crate::shares::Pool;

/// States of a page, in its upper 16 bits; of one that is wanted the lower half is the user whose
/// program a walk went through.
const WANTED: u64 = 1;
const READY: u64 = 2;
/// The user had no room for its rows: stacks through it are unwound later, or end there, until a
/// program of another user comes by.
const REFUSED: u64 = 3;

/// A file has an interpreter in it.
const INTERPRETER: u64 = 1 << 63;
/// Who has room for fewer rows has none.
const ROWS_OF_SMALL_PAGE: u64 = 64;

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

/// Pages of one file that walks through programs of one user have asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedPages {
    /// The file's number.
    pub(super) number: u32,
    /// Whose programs: the file may be anybody's.
    pub(super) user: u32,
    pub(super) pages: Vec<u32>,
}

/// What was written into the programs' arrays.
#[derive(Debug)]
pub(super) struct Tables<W> {
    rows: W,
    pages: W,
    files: W,
    /// By number less one: programs take 0 for a file without tables.
    known: Vec<Range<u32>>,
    free_files: Pool,
    free_pages: Pool,
    free_rows: Pool,
    /// Where the next rows go.
    next_row: usize,
}

impl<W: Words> Tables<W> {
    /// Empty ones.
    pub(super) fn new(rows: W, pages: W, files: W) -> Self {
        let (free_rows, free_pages) = (rows.words().len(), pages.words().len());
        // Number 0 is none.
        let free_files = files.words().len().saturating_sub(1);
        Self {
            rows,
            pages,
            files,
            known: Vec::new(),
            free_files: Pool::new(free_files as u64),
            free_pages: Pool::new(free_pages as u64),
            free_rows: Pool::new(free_rows as u64),
            next_row: 0,
        }
    }

    /// Gives a file that `user`'s program has mapped a number and so many pages, which nobody has
    /// asked for yet; `None` where there is no room, or such files have their share.
    pub(super) fn add(&mut self, pages: u32, user: u32) -> Option<u32> {
        let number = self.known.len() + 1;
        let word = self.files.words().get(number)?;
        if !self.free_files.take(user, 1) {
            return None;
        }
        if !self.free_pages.take(user, u64::from(pages)) {
            self.free_files.give_back(user, 1);
            return None;
        }
        let first = self.known.last().map_or(0, |pages| pages.end);
        word.store(u64::from(pages) << 32 | u64::from(first), Ordering::Release);
        self.known.push(first..first + pages);
        u32::try_from(number).ok()
    }

    /// Tells the programs that a file has an interpreter in it; `false` if there is no such file.
    pub(super) fn mark_interpreter(&self, number: u32) -> bool {
        let word = self.files.words().get(number as usize);
        word.is_some_and(|word| word.fetch_or(INTERPRETER, Ordering::Release) != 0)
    }

    /// The pages that walks have asked for, by file and user.
    pub(super) fn wanted(&self) -> Vec<WantedPages> {
        let mut wanted = BTreeMap::<(u32, u32), Vec<u32>>::new();
        for (number, pages) in (1..).zip(&self.known) {
            let range = pages.start as usize..pages.end as usize;
            let words = self.pages.words().get(range).unwrap_or_default();
            for (page, word) in (0..).zip(words) {
                let word = word.load(Ordering::Relaxed);
                if word >> 48 == WANTED {
                    wanted.entry((number, word as u32)).or_default().push(page);
                }
            }
        }
        let each = wanted.into_iter();
        each.map(|((number, user), pages)| WantedPages { number, user, pages }).collect()
    }

    /// Asks for pages that nobody has asked for, as walks do.
    pub(super) fn ask(&self, wanted: &WantedPages) {
        let WantedPages { number, user, ref pages } = *wanted;
        let file = (number as usize).checked_sub(1).and_then(|file| self.known.get(file));
        let Some(file) = file else { return };
        for page in pages.iter().filter(|page| file.len() > **page as usize) {
            let word = self.pages.words().get(file.start as usize + *page as usize);
            let asked = WANTED << 48 | u64::from(user);
            // A walk may have come by meanwhile.
            word.map(|word| word.compare_exchange(0, asked, Ordering::Relaxed, Ordering::Relaxed));
        }
    }

    /// Puts a page's rows where walks find them; `user`'s programs have asked for them. Where there
    /// is no room for them that user does not ask again, and `false` is returned.
    pub(super) fn publish(
        &mut self,
        number: u32,
        page: u32,
        rows: &[UnwindRow],
        user: u32,
    ) -> bool {
        let Some(index) = self.index(number, page) else { return false };
        if !self.free_rows.take(user, rows.len() as u64) {
            self.refuse(number, page, user);
            return false;
        }
        let Some(word) = self.pages.words().get(index) else { return false };
        let places = self.rows.words().get(self.next_row..).unwrap_or_default();
        for (place, row) in places.iter().zip(rows) {
            place.store(word_of(*row), Ordering::Relaxed);
        }
        let entry = READY << 48 | (rows.len() as u64) << 32 | self.next_row as u64;
        // Whoever sees this sees the rows.
        word.store(entry, Ordering::Release);
        self.next_row += rows.len();
        true
    }

    /// Whether there is room for a user's rows. If not, tables need not be made to find that out:
    /// a page of code that was compiled takes some hundred.
    pub(super) fn has_room(&self, user: u32) -> bool {
        self.free_rows.room(user) >= ROWS_OF_SMALL_PAGE
    }

    /// A page for which there is no room: that user does not ask for it again.
    pub(super) fn refuse(&self, number: u32, page: u32, user: u32) {
        let word = self.index(number, page).and_then(|index| self.pages.words().get(index));
        if let Some(word) = word {
            word.store(REFUSED << 48 | u64::from(user), Ordering::Relaxed);
        }
    }

    /// Where a page's word lies.
    fn index(&self, number: u32, page: u32) -> Option<usize> {
        let pages = self.known.get((number as usize).checked_sub(1)?)?;
        Some(pages.start as usize + page as usize)
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
    fn ask(tables: &Tables<Memory>, number: u32, page: u32, user: u32) {
        let first = tables.files.words()[number as usize].load(Ordering::Relaxed) as u32;
        tables.pages.words()[(first + page) as usize]
            .store(WANTED << 48 | u64::from(user), Ordering::Relaxed);
    }

    /// The addresses of the rows that a walk finds, or none if there are none yet.
    fn found(tables: &Tables<Memory>, number: u32, page: u32) -> Option<Vec<u16>> {
        let first = tables.files.words()[number as usize].load(Ordering::Relaxed) as u32;
        let entry = tables.pages.words()[(first + page) as usize].load(Ordering::Relaxed);
        let rows = || {
            let rows = tables.rows.words()[entry as u32 as usize..].iter();
            rows.take((entry >> 32 & 0xffff) as usize)
        };
        let address = |row: &AtomicU64| row.load(Ordering::Relaxed) as u16;
        (entry >> 48 == READY).then(|| rows().map(address).collect())
    }

    #[test]
    fn a_page_that_a_walk_asked_for_is_wanted_until_its_rows_are_there() {
        let mut tables = tables(100);
        let (libc, program) = (tables.add(20, 0).unwrap(), tables.add(3, 1000).unwrap());
        ask(&tables, libc, 7, 1000);
        ask(&tables, program, 0, 1000);
        ask(&tables, program, 2, 1000);
        ask(&tables, libc, 8, 0);
        let wanted = |number, user, pages: &[u32]| {
            let pages = pages.to_vec();
            WantedPages { number, user, pages }
        };
        let expected =
            [wanted(libc, 0, &[8]), wanted(libc, 1000, &[7]), wanted(program, 1000, &[0, 2])];
        assert_eq!(tables.wanted(), expected);
        assert!(tables.publish(libc, 7, &[row(0), row(16)], 1000));
        assert!(tables.publish(program, 2, &[row(32)], 1000));
        assert_eq!(found(&tables, libc, 7), Some(vec![0, 16]));
        assert_eq!(found(&tables, program, 2), Some(vec![32]));
        assert_eq!((found(&tables, program, 0), tables.rows()), (None, 3));
        assert_eq!(tables.wanted(), [wanted(libc, 0, &[8]), wanted(program, 1000, &[0])]);
    }

    #[test]
    fn pages_can_be_asked_for_before_a_walk_comes_by() {
        let mut tables = tables(100);
        let (libc, program) = (tables.add(20, 0).unwrap(), tables.add(3, 1000).unwrap());
        assert!(tables.publish(libc, 7, &[row(0)], 1000));
        ask(&tables, libc, 8, 1001);
        let wants = |number, user, pages: &[u32]| {
            let pages = pages.to_vec();
            WantedPages { number, user, pages }
        };
        // Those that are there, or asked for, or beyond the file's end, stay as they are.
        tables.ask(&wants(libc, 1000, &[6, 7, 8, 20]));
        tables.ask(&wants(program + 1, 1000, &[0]));
        let expected = [wants(libc, 1000, &[6]), wants(libc, 1001, &[8])];
        assert_eq!(tables.wanted(), expected);
        assert_eq!(found(&tables, libc, 7), Some(vec![0]));
    }

    #[test]
    fn no_users_programs_take_the_rows_that_others_need() {
        let mut tables = tables(100);
        // Whose programs it is that ask counts: a file of root's may be mapped by anybody.
        let (hostile, honest, root) = (1001, 1002, 0);
        let libc = tables.add(20, root).unwrap();
        let rows = [row(0); 20];
        assert!(tables.publish(libc, 0, &rows, hostile) && tables.publish(libc, 1, &rows, hostile));
        assert!(!tables.publish(libc, 2, &rows, hostile), "it would have more than is left");
        let is_asked_for = tables.wanted().iter().any(|wanted| wanted.pages.contains(&2));
        assert_eq!(
            (found(&tables, libc, 2), is_asked_for),
            (None, false),
            "nor is it asked for again"
        );
        assert!(tables.publish(libc, 3, &rows, honest));
        assert!(tables.publish(libc, 4, &rows, root), "root's have what there is");
        assert!(!tables.publish(libc, 5, &[row(0); 30], root), "and no more");
    }

    #[test]
    fn who_has_no_room_is_refused_before_anything_is_made() {
        let mut tables = tables(400);
        let libc = tables.add(20, 0).unwrap();
        let (hostile, honest) = (1001, 1002);
        assert!(tables.has_room(hostile));
        assert!(tables.publish(libc, 0, &[row(0); 180], hostile));
        assert_eq!([hostile, honest, 0].map(|user| tables.has_room(user)), [false, true, true]);
        ask(&tables, libc, 1, hostile);
        tables.refuse(libc, 1, hostile);
        assert_eq!((found(&tables, libc, 1), tables.wanted()), (None, Vec::new()));
        tables.refuse(libc, 999, hostile);
        tables.refuse(7, 0, hostile);
    }

    #[test]
    fn what_one_user_maps_does_not_take_the_numbers_that_others_need() {
        let mut tables = Tables::new(memory(100), memory(64), memory(101));
        assert_eq!((0..100).filter(|_| tables.add(0, 1001).is_some()).count(), 50);
        assert!(tables.add(1, 1002).is_some());
        assert_eq!((0..100).filter(|_| tables.add(0, 0).is_some()).count(), 49);
    }

    #[test]
    fn there_are_as_many_files_and_pages_as_the_programs_have() {
        let mut tables = tables(100);
        assert_eq!((tables.add(65, 0), tables.add(64, 0)), (None, Some(1)));
        assert_eq!((2..8).map(|_| tables.add(0, 0)).last().flatten(), Some(7));
        assert_eq!(tables.add(0, 0), None);
    }
}
