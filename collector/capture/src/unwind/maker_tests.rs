use std::cell::{Cell, RefCell};
use std::fs::File;
use std::rc::Rc;

use syscollect_untrusted_files::MemoryFile;

use super::words::WORDS_OF_PAGE;
use super::*;

const HOSTILE: ProcessUser = ProcessUser::Of(1001);
const HONEST: ProcessUser = ProcessUser::Of(1002);
/// Places for files that wait, of which a user has up to half.
const PLACES_OF_ONE: usize = 512;
const PYTHON: &str = "/dev/shm/libpython3.so";

/// The kernel, to which every file that is asked for is another one.
#[derive(Debug, Default)]
struct Kernel {
    inodes: Cell<u64>,
    /// In the order in which they were told.
    known: RefCell<Vec<FileId>>,
    wanted: Cell<u64>,
}

impl Names for Rc<Kernel> {
    fn wanted(&self) -> u64 {
        self.wanted.get()
    }

    fn set_epoch(&self, _: u64) {}

    fn inode(&self, _: &PinnedPage) -> io::Result<u64> {
        self.inodes.set(self.inodes.get() + 1);
        Ok(self.inodes.get())
    }

    fn is_unmapped(&self, _: &PinnedPage) -> bool {
        false
    }

    fn set(&self, _: u64, id: FileId) -> io::Result<()> {
        self.known.borrow_mut().push(id);
        Ok(())
    }

    fn forget(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_interpreter(&self, _: FileId, _: &Interpreter) -> io::Result<()> {
        Ok(())
    }

    fn forget_interpreter(&self, _: FileId) -> io::Result<()> {
        Ok(())
    }
}

/// The programs' memory, which no program changes.
struct Memory(Vec<Cell<u64>>);

impl Memory {
    fn of(words: usize) -> Self {
        Self(vec![Cell::new(0); words])
    }
}

impl Words for Memory {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn load(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, Cell::get)
    }

    fn store(&self, index: usize, word: u64) {
        self.0[index].set(word);
    }
}

struct World {
    kernel: Rc<Kernel>,
    maker: TableMaker<Rc<Kernel>, Memory>,
    tables: UnwindTables,
    boost: SharedBoost,
    _messages: Receiver<MakerMessage>,
}

impl World {
    fn new() -> Self {
        let (kernel, counts) = (Rc::new(Kernel::default()), Arc::new(UnwindCounts::default()));
        let waiting = Arc::new(WaitingFiles::new(None));
        let memory = [1 << 20, (1 << 16) * WORDS_OF_PAGE, 4096].map(Memory::of);
        let [rows, pages, files] = memory;
        let tables = Tables::new(rows, pages, files);
        let refused = RefusedTables::default();
        let shared = (counts.clone(), refused.clone());
        let maker = TableMaker::new(kernel.clone(), tables, shared, waiting.clone());
        let (reported, _messages) = sync_channel(WANTED_MAX);
        let tables = UnwindTables { reported, waiting, counts, refused };
        Self { kernel, maker, tables, boost: SharedBoost::begin(), _messages }
    }

    fn map(&self, file: &OpenedFile, path: &str, whose: ProcessUser) {
        self.tables.mapped(file.clone(), path, whose);
    }

    fn work(&mut self) -> Worked {
        self.maker.work(&mut self.boost)
    }

    /// How many files the programs know.
    fn known(&self) -> usize {
        self.kernel.known.borrow().len()
    }

    /// A walk comes by the first page of a file's code.
    fn walk_by(&self, file: FileId, whose: ProcessUser) {
        let unwind = self.maker.files[&file].unwind.as_ref().unwrap();
        let page = u32::try_from(unwind.code()[0].start / PAGE_BYTES).unwrap();
        self.maker.tables.ask(&WantedPages { file, user: uid_of(whose), pages: vec![page] });
        self.kernel.wanted.set(self.kernel.wanted.get() + 1);
    }

    fn count(&self, name: &str) -> u64 {
        let counts = self.tables.counts.named();
        counts.into_iter().find(|(known, _)| *known == name).unwrap().1
    }
}

/// Bytes of whole symbols.
const TABLE: u64 = (16 << 20) / 24 * 24;

/// A library of which nothing is there but where its code and its two tables of symbols are, which
/// have as many as are looked through.
fn slow_file() -> OpenedFile {
    let mut bytes = elf_header(4);
    // A null section, SHT_DYNSYM, SHT_SYMTAB, SHT_STRTAB.
    [0, 11, 2, 3].into_iter().for_each(|kind| bytes.extend(section(kind)));
    file_of(&bytes, 4096 + TABLE)
}

fn section(kind: u32) -> Vec<u8> {
    let mut bytes = [0, kind].map(u32::to_le_bytes).concat();
    bytes.extend([0, 0, 4096, TABLE].map(u64::to_le_bytes).concat());
    bytes.extend([3u32, 0].map(u32::to_le_bytes).concat());
    bytes.extend([8, 24].map(u64::to_le_bytes).concat());
    bytes
}

/// The headers of a library and of its code.
fn elf_header(sections: u16) -> Vec<u8> {
    // The last one has the names of all.
    let names = sections.saturating_sub(1);
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([3u16, 62].map(u16::to_le_bytes).concat());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([0u64, 64, 64 + 56].map(u64::to_le_bytes).concat());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend([64, 56, 1, 64, sections, names].map(u16::to_le_bytes).concat());
    // PT_LOAD, readable and executable.
    bytes.extend([1u32, 5].map(u32::to_le_bytes).concat());
    bytes.extend([0u64, 0, 0, 4096, 4096, 4096].map(u64::to_le_bytes).concat());
    bytes
}

fn file_of(bytes: &[u8], length: u64) -> OpenedFile {
    let file = MemoryFile::new("library", length).unwrap();
    file.write_at(bytes, 0).unwrap();
    OpenedFile::made(file.seal().unwrap()).unwrap()
}

fn own_program() -> OpenedFile {
    OpenedFile::made(File::open("/proc/self/exe").unwrap()).unwrap()
}

#[test]
fn who_maps_thousands_of_slow_files_has_others_wait_for_a_few_of_them() {
    let mut world = World::new();
    let slow = slow_file();
    (0..2_000).for_each(|_| world.map(&slow, PYTHON, HOSTILE));
    assert!(world.work().has_more);
    let before = world.known();
    world.map(&own_program(), "/usr/bin/honest", HONEST);
    world.work();
    // It comes before any other of the hostile ones.
    let honest = world.kernel.known.borrow()[before];
    let data = world.maker.files[&honest].held.as_ref().unwrap().file.data();
    assert_eq!(data, own_program().data());
    world.walk_by(honest, HONEST);
    world.work();
    assert_eq!(world.count("unwind_pages"), 1);
    assert!(world.known() < 100, "{} files came first", world.known());
}

#[test]
fn files_that_find_no_room_to_wait_are_let_go_and_said_of_their_user() {
    let world = World::new();
    let slow = slow_file();
    (0..2_000).for_each(|_| world.map(&slow, PYTHON, HOSTILE));
    world.map(&own_program(), "/usr/bin/honest", HONEST);
    let let_go = world.tables.take_let_go();
    assert_eq!(let_go.len(), 2_000 - PLACES_OF_ONE);
    assert!(let_go.iter().all(|file| file == slow.data()));
    let notes = world.tables.notes();
    let [note] = &notes[..] else { panic!("nothing is said of the honest: {notes:?}") };
    assert!(note.contains("user 1001") && note.contains(": 1488 not read"), "{note}");
}

#[test]
fn a_user_without_place_for_interpreters_has_no_files_looked_into_for_them() {
    let mut world = World::new();
    // No sections: an interpreter that cannot be read.
    let (file, user) = (file_of(&elf_header(0), 4096), uid_of(HOSTILE));
    world.map(&file, PYTHON, HOSTILE);
    world.work();
    assert_eq!((world.known(), world.count("python_unknown")), (1, 1));
    assert_eq!(world.maker.free_interpreters.held(user), 0, "it takes no place");
    while world.maker.free_interpreters.take(user, 1) {}
    world.map(&file, PYTHON, HOSTILE);
    world.map(&file, PYTHON, HONEST);
    world.work();
    assert_eq!((world.known(), world.count("python_unknown")), (3, 2));
}

#[test]
fn files_of_one_user_are_told_at_once_and_make_no_words() {
    let mut world = World::new();
    let own = own_program();
    (0..20).for_each(|_| world.map(&own, "/usr/bin/honest", HONEST));
    while world.work().has_more {}
    assert_eq!(world.known(), 20);
    assert_eq!(world.tables.notes(), Vec::<String>::new());
}

#[test]
fn why_a_file_has_no_table_is_kept_under_its_name() {
    let mut world = World::new();
    world.map(&file_of(b"#!/bin/sh", 4096), "/home/a/script", HOSTILE);
    // ELF, without sections or an index.
    let empty = file_of(&elf_header(0), 4096);
    world.map(&empty, "/usr/bin/empty", HONEST);
    world.map(&own_program(), "/usr/bin/honest", HONEST);
    world.work();
    let refused = world.tables.refused().all();
    let [script] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(script.path, "/home/a/script");
    assert!(!script.reason.is_empty());
    assert_eq!((world.known(), world.count("unwind_damaged")), (3, 1));
}

#[test]
fn what_nobody_asked_for_is_made_behind_all_that_was() {
    let mut world = World::new();
    world.map(&own_program(), "/usr/bin/honest", HONEST);
    world.map(&slow_file(), "/usr/lib/other.so", HONEST);
    while world.work().has_more {}
    let [file, other] = world.kernel.known.borrow()[..] else { panic!("they are not known") };
    let asked = WantedPages { file, user: uid_of(HONEST), pages: (0..16).collect() };
    world.maker.tables.ask(&asked);
    world.walk_by(other, HONEST);
    world.work();
    assert_eq!(world.maker.tables.wanted(), Vec::new());
    while world.work().has_more {}
    assert!(world.count("unwind_pages") > 17, "{}", world.count("unwind_pages"));
    // Who took its time does not go on.
    let made = world.count("unwind_pages");
    world.maker.ahead.took(Duration::from_secs(60));
    world.walk_by(other, HONEST);
    while world.work().has_more {}
    assert_eq!(world.count("unwind_pages"), made);
}
