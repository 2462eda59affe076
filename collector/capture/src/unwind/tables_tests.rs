use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use proptest::prelude::*;
use syscollect_records::unwind::cfa_rule;

const ROWS: usize = 0;
const PAGES: usize = 1;
const FILES: usize = 2;

/// The programs' three arrays, and every store that was made to them, in its order: array, index,
/// word.
#[derive(Debug, Default)]
struct Machine {
    arrays: [Vec<u64>; 3],
    stores: Vec<(usize, usize, u64)>,
}

/// One of the arrays.
#[derive(Clone, Debug)]
struct Memory {
    machine: Rc<RefCell<Machine>>,
    array: usize,
}

impl Words for Memory {
    fn length(&self) -> usize {
        self.machine.borrow().arrays[self.array].len()
    }

    fn load(&self, index: usize) -> u64 {
        self.machine.borrow().arrays[self.array].get(index).copied().unwrap_or(0)
    }

    fn store(&self, index: usize, word: u64) {
        let Machine { arrays, stores } = &mut *self.machine.borrow_mut();
        arrays[self.array][index] = word;
        stores.push((self.array, index, word));
    }
}

fn tables_of(rows: usize, pages: usize, files: usize) -> Tables<Memory> {
    let arrays = [rows, pages * WORDS_OF_PAGE, files].map(|words| vec![0; words]);
    let machine = Rc::new(RefCell::new(Machine { arrays, stores: Vec::new() }));
    let [rows, pages, files] =
        [ROWS, PAGES, FILES].map(|array| Memory { machine: machine.clone(), array });
    Tables::new(rows, pages, files)
}

fn tables(rows: usize) -> Tables<Memory> {
    tables_of(rows, 64, 8)
}

fn row(address: u16) -> UnwindRow {
    UnwindRow { address, cfa: cfa_rule::RSP, cfa_offset: 2, ..UnwindRow::default() }
}

/// What a walk through a program of `user` does that finds no rows.
fn ask(tables: &Tables<Memory>, file: FileId, page: u32, user: u32) {
    tables.set(tables.index(file, page).unwrap(), PageState::Wanted { user });
}

/// What a walk does that uses a page's rows in this epoch.
fn walk_by(tables: &Tables<Memory>, file: FileId, page: u32) {
    let index = tables.index(file, page).unwrap() as usize;
    tables.pages.store(index * WORDS_OF_PAGE + 1, tables.epoch);
}

fn wants(file: FileId, user: u32, pages: &[u32]) -> WantedPages {
    WantedPages { file, user, pages: pages.to_vec() }
}

/// A walk as the programs make it (`row_of_offset` in `bpf/include/unwind.h`), each of whose loads
/// sees memory as it is then.
struct Walk<F> {
    /// An array's word at the next moment.
    load: F,
    /// Whether it looks once more whether what led to the rows is the same; the programs do.
    looks_again: bool,
}

impl<F: FnMut(usize, usize) -> u64> Walk<F> {
    /// The row that holds at an address of a page, or `None` if there is no table yet.
    fn row(&mut self, id: FileId, page: u32, address: u16) -> Option<u64> {
        let file_word = (self.load)(FILES, id.number() as usize);
        if file_word >> 50 & 0x1fff != u64::from(id.for_programs() >> 12) {
            return None;
        }
        if u64::from(page) >= file_word >> 32 & 0x3ffff {
            return None;
        }
        let index = (file_word as u32 + page) as usize;
        let entry = (self.load)(PAGES, index * WORDS_OF_PAGE);
        if entry >> 62 != 2 {
            return None;
        }
        let (mut low, mut high) = (entry as u32 as usize, 0);
        high += low + (entry >> 32 & 0x7fff) as usize;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match (self.load)(ROWS, middle) as u16 <= address {
                true => low = middle,
                false => high = middle,
            }
        }
        let row = (self.load)(ROWS, low);
        let is_same = (self.load)(PAGES, index * WORDS_OF_PAGE) == entry
            && (self.load)(FILES, id.number() as usize) == file_word;
        (is_same || !self.looks_again).then_some(row)
    }
}

/// The addresses of the rows that a walk finds, or none if there are none yet.
fn found(tables: &Tables<Memory>, file: FileId, page: u32) -> Option<Vec<u16>> {
    let machine = tables.rows.machine.borrow();
    let mut walk =
        Walk { load: |array: usize, index: usize| machine.arrays[array][index], looks_again: true };
    let mut rows: Vec<u16> = Vec::new();
    for address in 0..100 {
        let row = walk.row(file, page, address)? as u16;
        if rows.last() != Some(&row) {
            rows.push(row);
        }
    }
    Some(rows)
}

#[test]
fn a_page_that_a_walk_asked_for_is_wanted_until_its_rows_are_there() {
    let mut tables = tables(100);
    let (libc, program) = (tables.add(20, 0).unwrap(), tables.add(3, 1000).unwrap());
    ask(&tables, libc, 7, 1000);
    ask(&tables, program, 0, 1000);
    ask(&tables, program, 2, 1000);
    ask(&tables, libc, 8, 0);
    let expected = [wants(libc, 0, &[8]), wants(libc, 1000, &[7]), wants(program, 1000, &[0, 2])];
    assert_eq!(tables.wanted(), expected);
    assert!(tables.publish(libc, 7, &[row(0), row(16)], 1000));
    assert!(tables.publish(program, 2, &[row(32)], 1000));
    assert_eq!(found(&tables, libc, 7), Some(vec![0, 16]));
    assert_eq!(found(&tables, program, 2), Some(vec![32]));
    assert_eq!((found(&tables, program, 0), tables.rows()), (None, 3));
    assert_eq!(tables.wanted(), [wants(libc, 0, &[8]), wants(program, 1000, &[0])]);
}

#[test]
fn a_page_that_two_users_ask_for_is_made_once() {
    let mut tables = tables(100);
    let libc = tables.add(20, 0).unwrap();
    ask(&tables, libc, 7, 1000);
    assert!(tables.publish(libc, 7, &[row(0), row(16)], 1000));
    // This walk came by before the rows were there, and marks the page only now.
    ask(&tables, libc, 7, 1001);
    assert_eq!(found(&tables, libc, 7), None);
    assert_eq!(tables.wanted(), Vec::new());
    assert_eq!(found(&tables, libc, 7), Some(vec![0, 16]));
    // Or marks it while its rows are made for the second time.
    ask(&tables, libc, 7, 1001);
    assert!(tables.publish(libc, 7, &[row(0), row(16)], 1001));
    assert_eq!((found(&tables, libc, 7), tables.rows()), (Some(vec![0, 16]), 2));
}

#[test]
fn pages_can_be_asked_for_before_a_walk_comes_by() {
    let mut tables = tables(100);
    let (libc, program) = (tables.add(20, 0).unwrap(), tables.add(3, 1000).unwrap());
    assert!(tables.publish(libc, 7, &[row(0)], 1000));
    ask(&tables, libc, 8, 1001);
    // Those that are there, or asked for, or beyond the file's end, stay as they are.
    tables.expect(&wants(libc, 1000, &[6, 7, 8, 20]));
    let gone = program;
    tables.remove(gone);
    tables.expect(&wants(gone, 1000, &[0]));
    // What a walk has missed comes first, whatever lies before it.
    let expected = [wants(libc, 1001, &[8]), wants(libc, 1000, &[6])];
    assert_eq!(tables.wanted(), expected);
    ask(&tables, libc, 6, 1000);
    let expected = [wants(libc, 1000, &[6]), wants(libc, 1001, &[8])];
    assert_eq!(tables.wanted(), expected);
    assert_eq!(found(&tables, libc, 7), Some(vec![0]));
}

#[test]
fn of_a_file_of_which_many_pages_were_asked_for_the_others_are_known_while_there_is_room() {
    let mut tables = tables(100);
    let (compiler, program) = (tables.add(20, 1000).unwrap(), tables.add(10, 0).unwrap());
    assert!((1..16).all(|page| tables.publish(compiler, page, &[row(0)], 1000)));
    assert!((0..8).all(|page| tables.publish(program, page, &[row(0)], 1000)));
    assert_eq!(tables.unasked(), Vec::new());
    ask(&tables, compiler, 0, 1000);
    assert!(tables.publish(compiler, 16, &[row(0)], 1000));
    assert_eq!(tables.unasked(), [wants(compiler, 1000, &[17, 18, 19])]);
    assert!(tables.publish(compiler, 17, &[], 1000));
    assert_eq!(tables.unasked(), [wants(compiler, 1000, &[18, 19])]);
    // Another's rows leave half of the room, and not that much of it to this user.
    assert!(tables.publish(program, 8, &[row(0); 10], 0));
    assert_eq!(tables.unasked(), Vec::new());
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
    assert_eq!((found(&tables, libc, 2), is_asked_for), (None, false), "nor is it asked for again");
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
}

#[test]
fn what_one_user_maps_does_not_take_the_numbers_that_others_need() {
    let mut tables = tables_of(100, 64, 101);
    assert_eq!((0..100).filter(|_| tables.add(0, 1001).is_some()).count(), 50);
    assert!(tables.add(1, 1002).is_some());
    assert_eq!((0..100).filter(|_| tables.add(0, 0).is_some()).count(), 49);
}

#[test]
fn there_are_as_many_files_and_pages_as_the_programs_have() {
    let mut tables = tables(100);
    assert_eq!(tables.add(65, 0), None);
    assert!(tables.add(64, 0).is_some());
    assert_eq!((2..8).filter(|_| tables.add(0, 0).is_some()).count(), 6);
    assert_eq!(tables.add(0, 0), None);
}

/// Full of a user's pages of so many rows each, from page 0 of a file of root's on: how many.
fn fill(tables: &mut Tables<Memory>, rows: usize, user: u32) -> (FileId, u32) {
    let file = tables.add(30, 0).unwrap();
    let rows = vec![row(0); rows];
    let pages = (0..30).take_while(|page| tables.publish(file, *page, &rows, user)).count();
    (file, pages as u32)
}

#[test]
fn rows_that_were_used_longest_ago_give_way_and_those_in_use_do_not() {
    let mut tables = tables(100);
    let (file, pages) = fill(&mut tables, 10, 0);
    assert_eq!(pages, 10);
    tables.begin_epoch();
    (1..10).for_each(|page| walk_by(&tables, file, page));
    assert!(!tables.publish(file, 20, &[row(0); 10], 0), "all were used a moment ago");
    tables.begin_epoch();
    (2..10).for_each(|page| walk_by(&tables, file, page));
    assert!(tables.publish(file, 20, &[row(7); 10], 0));
    assert_eq!((found(&tables, file, 0), found(&tables, file, 20)), (None, Some(vec![7])));
    assert!(found(&tables, file, 1).is_some(), "it was used in the epoch before");
    // Of those that are idle the oldest goes first, and no more than have to.
    tables.begin_epoch();
    tables.begin_epoch();
    assert!(tables.publish(file, 21, &[row(0); 10], 0));
    assert!(found(&tables, file, 1).is_none());
    assert!((2..10).all(|page| found(&tables, file, page).is_some()));
    assert_eq!((tables.evicted(), tables.rows()), (2, 100));
    // What gave way is there again when it is asked for.
    ask(&tables, file, 0, 0);
    assert_eq!(tables.wanted(), [wants(file, 0, &[0])]);
    assert!(tables.publish(file, 0, &[row(3)], 0));
    assert_eq!(found(&tables, file, 0), Some(vec![3]));
}

#[test]
fn pieces_that_are_too_small_are_joined_by_more_that_gives_way() {
    let mut tables = tables(100);
    let (file, _) = fill(&mut tables, 10, 0);
    tables.begin_epoch();
    tables.begin_epoch();
    assert!(tables.publish(file, 20, &[row(0); 35], 0));
    assert_eq!((tables.evicted(), tables.rows()), (4, 95));
    assert!(!tables.publish(file, 21, &[row(0); 101], 0), "there are not so many");
}

#[test]
fn who_was_refused_may_ask_again_in_the_next_epoch() {
    let mut tables = tables(100);
    let (file, pages) = fill(&mut tables, 10, 1001);
    assert_eq!(pages, 5, "a half is left to others");
    assert!(tables.is_short());
    // The sixth was refused; a walk would not ask for it.
    tables.ask(&wants(file, 1001, &[5]));
    assert_eq!(tables.wanted(), Vec::new());
    tables.begin_epoch();
    assert!(!tables.is_short(), "nothing was asked for in this epoch");
    tables.ask(&wants(file, 1001, &[5]));
    assert_eq!(tables.wanted(), [wants(file, 1001, &[5])]);
}

#[test]
fn who_has_its_share_takes_nothing_from_others_even_if_they_do_not_use_it() {
    let mut tables = tables(100);
    let (hostile, honest) = (1001, 1002);
    let libc = tables.add(30, 0).unwrap();
    assert!((0..2).all(|page| tables.publish(libc, page, &[row(0); 10], honest)));
    assert!((10..14).all(|page| tables.publish(libc, page, &[row(0); 10], hostile)));
    tables.begin_epoch();
    tables.begin_epoch();
    // Only the honest user's are idle.
    (10..14).for_each(|page| walk_by(&tables, libc, page));
    assert!(!tables.publish(libc, 14, &[row(0); 20], hostile));
    assert_eq!(tables.evicted(), 0);
    assert!((0..2).all(|page| found(&tables, libc, page).is_some()));
    // Its own are another matter.
    tables.begin_epoch();
    tables.begin_epoch();
    (0..2).for_each(|page| walk_by(&tables, libc, page));
    let made = (15..25).filter(|page| tables.publish(libc, *page, &[row(0); 20], hostile)).count();
    assert_eq!((made, tables.evicted()), (2, 4), "they have room for two of these");
    assert!((0..2).all(|page| found(&tables, libc, page).is_some()));
}

#[test]
fn who_has_less_than_its_share_takes_from_who_has_more_though_it_is_in_use() {
    let mut tables = tables(1000);
    let (file, pages) = fill(&mut tables, 100, 0);
    assert_eq!(pages, 10);
    tables.begin_epoch();
    tables.begin_epoch();
    (0..10).for_each(|page| walk_by(&tables, file, page));
    // Of what root leaves, the user has what it leaves to others.
    let of_user = (20..30).filter(|page| tables.publish(file, *page, &[row(0); 100], 1001));
    assert_eq!(of_user.count(), 2);
    assert_eq!(count_found(&tables, file, 0..10), 5, "root has an equal share");
    assert_eq!(count_found(&tables, file, 20..30), 2);
    // Root has what is free, and nothing that the user has in use.
    assert_eq!(tables.evicted(), 5);
    (20..30).filter(|page| found(&tables, file, *page).is_some()).for_each(|page| {
        walk_by(&tables, file, page);
    });
    for page in 0..10 {
        tables.publish(file, page, &[row(0); 100], 0);
    }
    assert_eq!((count_found(&tables, file, 0..10), count_found(&tables, file, 20..30)), (8, 2));
}

fn count_found(tables: &Tables<Memory>, file: FileId, pages: std::ops::Range<u32>) -> usize {
    pages.filter(|page| found(tables, file, *page).is_some()).count()
}

#[test]
fn a_file_that_is_removed_leaves_its_number_and_room_to_others() {
    let mut tables = tables_of(100, 64, 2);
    let first = tables.add(60, 1001);
    assert_eq!(first, None, "a user has half of the pages");
    let first = tables.add(30, 0).unwrap();
    assert!(tables.publish(first, 29, &[row(0); 50], 0));
    assert_eq!(tables.add(1, 0), None, "there is one number");
    tables.remove(first);
    assert_eq!((tables.rows(), tables.wanted()), (0, Vec::new()));
    let second = tables.add(64, 0).unwrap();
    assert_eq!(second.number(), first.number());
    assert!(tables.publish(second, 29, &[row(8)], 0));
    assert_eq!(found(&tables, first, 29), None, "who still knows the first one finds nothing");
    assert_eq!(found(&tables, second, 29), Some(vec![8]));
    // What is late of the first one does nothing.
    tables.remove(first);
    assert!(!tables.publish(first, 29, &[row(0)], 0) && !tables.mark_interpreter(first));
    assert_eq!(found(&tables, second, 29), Some(vec![8]));
}

#[test]
fn files_of_which_nothing_was_used_lately_are_idle() {
    let mut tables = tables(100);
    let files = [0, 1, 2].map(|_| tables.add(5, 0).unwrap());
    files.iter().take(2).for_each(|file| assert!(tables.publish(*file, 3, &[row(0)], 0)));
    assert!(tables.idle_files().is_empty());
    tables.begin_epoch();
    walk_by(&tables, files[1], 3);
    tables.begin_epoch();
    let new = tables.add(1, 0).unwrap();
    assert_eq!(tables.idle_files(), [files[0], files[2]]);
    assert!(!tables.idle_files().contains(&new));
}

/// Whose a row is: of which file and page, as its offsets say.
fn owned_rows(file: u16, page: u32, count: usize) -> Vec<UnwindRow> {
    let offsets = (file.cast_signed(), page as i16);
    let rows = (0..count as u16).map(|number| UnwindRow {
        address: number * 10,
        cfa: cfa_rule::RSP,
        cfa_offset: offsets.0,
        saved_offset: offsets.1,
        ..UnwindRow::default()
    });
    rows.collect()
}

#[derive(Clone, Copy, Debug)]
enum TableChange {
    Add {
        pages: u32,
    },
    Remove {
        which: usize,
    },
    Publish {
        which: usize,
        page: u32,
        rows: usize,
        user: u32,
    },
    NextEpoch,
    /// A walk marks a page that was another's, or had no rows, when it looked.
    LateMark {
        index: usize,
    },
    WalkBy {
        index: usize,
    },
    Look,
}

fn steps() -> impl Strategy<Value = Vec<TableChange>> {
    let one = prop_oneof![
        2 => (1_u32..4).prop_map(|pages| TableChange::Add { pages }),
        2 => any::<usize>().prop_map(|which| TableChange::Remove { which }),
        8 => (any::<usize>(), 0_u32..4, 1_usize..7, 0_u32..2)
            .prop_map(|(which, page, rows, user)| TableChange::Publish { which, page, rows, user }),
        3 => Just(TableChange::NextEpoch),
        1 => (0_usize..6).prop_map(|index| TableChange::LateMark { index }),
        1 => (0_usize..6).prop_map(|index| TableChange::WalkBy { index }),
        1 => Just(TableChange::Look),
    ];
    proptest::collection::vec(one, 1..60)
}

/// What all these steps stored, and the files that there were: ids, and what their rows are marked
/// with is the index.
fn run(steps: &[TableChange]) -> (Vec<(usize, usize, u64)>, Vec<FileId>) {
    let mut tables = tables_of(12, 6, 4);
    let mut files = Vec::new();
    for step in steps {
        match *step {
            TableChange::Add { pages } => files.extend(tables.add(pages, 0)),
            TableChange::Remove { which } if !files.is_empty() => {
                tables.remove(files[which % files.len()]);
            }
            TableChange::Publish { which, page, rows, user } if !files.is_empty() => {
                let which = which % files.len();
                let rows = owned_rows(which as u16, page, rows);
                tables.publish(files[which], page, &rows, user);
            }
            TableChange::NextEpoch => drop(tables.begin_epoch()),
            TableChange::LateMark { index } => {
                tables.set(index as u32, PageState::Wanted { user: 7 });
            }
            TableChange::WalkBy { index } => {
                tables.pages.store(index * WORDS_OF_PAGE + 1, tables.epoch);
            }
            TableChange::Look => drop(tables.wanted()),
            TableChange::Remove { .. } | TableChange::Publish { .. } => {}
        }
    }
    let stores = std::mem::take(&mut tables.rows.machine.borrow_mut().stores);
    (stores, files)
}

/// Memory as a walk sees it on x86-64: stores in the order in which they were made, and each load
/// later than the one before.
struct ObservedStores<'a> {
    stores: &'a [(usize, usize, u64)],
    arrays: [Vec<u64>; 3],
    now: usize,
    /// How many stores are made before each load.
    pauses: Box<dyn Iterator<Item = usize> + 'a>,
}

impl<'a> ObservedStores<'a> {
    fn new(
        stores: &'a [(usize, usize, u64)],
        start: usize,
        pauses: impl Iterator<Item = usize> + 'a,
    ) -> Self {
        let mut seen = Self {
            stores,
            arrays: [(); 3].map(|()| vec![0; 64]),
            now: 0,
            pauses: Box::new(pauses),
        };
        seen.pass(start);
        seen
    }

    fn pass(&mut self, stores: usize) {
        for (array, index, word) in self.stores.iter().skip(self.now).take(stores) {
            self.arrays[*array][*index] = *word;
        }
        self.now = (self.now + stores).min(self.stores.len());
    }

    fn load(&mut self, array: usize, index: usize) -> u64 {
        let pause = self.pauses.next().unwrap_or(0);
        self.pass(pause);
        self.arrays[array][index]
    }
}

/// Whether a walk that found this row was led astray.
fn is_wrong(found: u64, file: usize, page: u32, address: u16) -> bool {
    let expected = word_of(owned_rows(file as u16, page, 7)[usize::from(address / 10)]);
    // The page may have fewer rows; its last one holds up to its end.
    let last = found as u16;
    found >> 16 != expected >> 16 || last > address
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_walk_finds_the_rows_of_the_page_that_it_is_in_or_none_whatever_happens_meanwhile(
        steps in steps(),
        walks in proptest::collection::vec(
            (any::<usize>(), 0_u32..4, 0_u16..70, any::<usize>(),
             proptest::collection::vec(0_usize..6, 8)),
            200,
        ),
    ) {
        let (stores, files) = run(&steps);
        prop_assume!(!files.is_empty());
        for (which, page, address, start, pauses) in walks {
            let which = which % files.len();
            let mut seen = ObservedStores::new(&stores, start % (stores.len() + 1), pauses.into_iter());
            let load = |array, index| seen.load(array, index);
            let mut walk = Walk { load, looks_again: true };
            if let Some(found) = walk.row(files[which], page, address) {
                prop_assert!(!is_wrong(found, which, page, address), "{:x}", found);
            }
        }
    }
}

#[test]
fn walks_have_to_look_again() {
    // Rows of the first page give way to those of a second, while a walk is between its page's word
    // and its rows.
    let steps = [
        TableChange::Add { pages: 4 },
        publish(0),
        publish(1),
        TableChange::NextEpoch,
        TableChange::NextEpoch,
        publish(2),
    ];
    let (stores, files) = run(&steps);
    assert!(count_wrong(&stores, files[0], false) > 0, "this is no test of anything");
    assert_eq!(count_wrong(&stores, files[0], true), 0);
}

/// How many walks go astray, begun and paused at each of these stores.
fn count_wrong(stores: &[(usize, usize, u64)], file: FileId, looks_again: bool) -> usize {
    let each = (0..=stores.len()).flat_map(|start| (0..40).map(move |pause| (start, pause)));
    each.filter(|&(start, pause)| {
        let mut seen = ObservedStores::new(stores, start, [0, 0, pause].into_iter());
        let load = |array, index| seen.load(array, index);
        let found = Walk { load, looks_again }.row(file, 0, 35);
        found.is_some_and(|found| is_wrong(found, 0, 0, 35))
    })
    .count()
}

fn publish(page: u32) -> TableChange {
    TableChange::Publish { which: 0, page, rows: 6, user: 0 }
}
