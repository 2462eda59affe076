//! Files that the tests write: what is read of a sound one, and that nothing is trusted in others.

use proptest::prelude::*;
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::rc::Rc;
use syscollect_elf::{
    BUILD_ID_MAX, Elf, ElfError, FrameIndex, Notes, ReadCache, ReadRef, Sections, SymbolLimits, abi,
};
use syscollect_fixtures::elf::{CODE, CODE_OFFSET, DATA, DATA_OFFSET, File, raw_note};

const LIMITS: SymbolLimits = SymbolLimits { table: 1 << 20, names: 1 << 20 };
/// Bytes of parts that are read of the files here at most.
const PART_MAX: u64 = 1 << 20;

/// With a table of symbols, a build id, what it is linked with, and an index for unwinding.
fn whole() -> File {
    let mut file = File::with_symbols(&[("main", 2, 1, CODE), ("counter", 1, 1, DATA + 8)]);
    let id = raw_note(b"GNU\0", 3, &[7; 20]);
    let entries = [1, 1, 14, 5, 5, DATA, 0, 0].map(u64::to_le_bytes).concat();
    let index = [&[1, 0x1b, 3, 0x3b][..], &[0; 4], &[1, 0, 0, 0], &[0; 8]].concat();
    let frame_index = abi::PT_GNU_EH_FRAME.0;
    file.segments = vec![(4, id.clone()), (2, entries), (frame_index, index)];
    file.sections.push((".eh_frame", 1, DATA, 0, vec![0; 24]));
    file.sections.push((".note.gnu.build-id", 7, 0, 0, id));
    file
}

/// All that can be asked of a file, in words.
fn all_of<'d, R: ReadRef<'d>>(data: R) -> String {
    let mut text = String::new();
    let elf = match Elf::open(data) {
        Ok(elf) => elf,
        Err(error) => return error.to_string(),
    };
    for segment in elf.loaded().iter() {
        for address in [segment.address, segment.address.wrapping_add(segment.size)] {
            let offset = elf.loaded().code_offset(address);
            let back = offset.map(|offset| elf.loaded().code_address(offset));
            let bytes = elf.loaded_bytes(address, 16);
            let offsets = (elf.code_offset(address), elf.data_offset(address, 8));
            let part = elf.loaded().part_from(address);
            let part = part.map(|part| (part.offsets(), part.addresses()));
            let _ =
                writeln!(text, "{segment:?} {offset:?} {back:?} {bytes:?} {offsets:?} {part:?}");
        }
    }
    let index = elf.frame_index().map(|part| {
        let bytes = elf.bytes(part.offset, part.size, "index", PART_MAX);
        bytes.map(|bytes| FrameIndex::parse(bytes, part.address))
    });
    let code: Vec<_> = elf.code().collect();
    let _ = writeln!(text, "{:?} {index:?} {code:?}", (elf.build_id(), elf.code_start()));
    if let Ok(Some(dynamic)) = elf.dynamic() {
        for (tag, number) in dynamic.entries() {
            let _ = writeln!(text, "{tag:?} {:?}", dynamic.string(number, 256));
        }
    }
    match elf.sections() {
        Ok(sections) => all_sections(&sections, &mut text),
        Err(error) => text.push_str(&error.to_string()),
    }
    text
}

fn all_sections<'d, R: ReadRef<'d>>(sections: &Sections<'_, 'd, R>, text: &mut String) {
    for section in sections.iter() {
        let bytes = sections.bytes(section, "section", PART_MAX);
        let inflated = sections.inflated_size(section);
        let notes: Option<Vec<_>> = bytes
            .as_ref()
            .ok()
            .and_then(|bytes| Notes::new(bytes, section.alignment))
            .map(Iterator::collect);
        let row = sections.row(section).len();
        let name = sections.name(section);
        let _ = writeln!(text, "{name:?} {section:?} {row} {bytes:?} {inflated:?} {notes:?}");
    }
    for kind in [abi::SHT_SYMTAB, abi::SHT_DYNSYM] {
        if let Ok(Some(table)) = sections.symbols(kind, &LIMITS) {
            let named: Vec<_> = table.named().collect();
            let _ = writeln!(text, "{named:?} {:?}", table.find(b"main"));
        }
    }
    let _ = writeln!(text, "{:?}", sections.frame_entries());
}

/// Counts the bytes that are read of a file.
struct Counted<T> {
    file: T,
    bytes: Rc<Cell<u64>>,
}

impl<T: Read> Read for Counted<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.set(self.bytes.get() + buffer.len() as u64);
        self.file.read(buffer)
    }
}

impl<T: Seek> Seek for Counted<T> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

fn counted<T: Read + Seek>(file: T) -> (ReadCache<Counted<T>>, Rc<Cell<u64>>) {
    let bytes = Rc::new(Cell::new(0));
    (ReadCache::new(Counted { file, bytes: bytes.clone() }), bytes)
}

/// Puts `value` where the header or a table has a number.
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[test]
fn addresses_and_offsets_lead_to_each_other() {
    let bytes = whole().bytes();
    let elf = Elf::of_x86_64(&*bytes).unwrap();
    assert_eq!(elf.code_offset(CODE + 4), Some(CODE_OFFSET + 4));
    assert_eq!(elf.loaded().code_address(CODE_OFFSET + 4), Some(CODE + 4));
    assert_eq!((elf.code_offset(DATA), elf.data_offset(DATA, 8)), (None, Some(DATA_OFFSET)));
    assert_eq!(
        (elf.data_offset(DATA + 0x3fc, 8), elf.loaded().code_address(DATA_OFFSET)),
        (None, None)
    );
    let rest = elf.loaded().part_from(CODE + 0x10).unwrap();
    assert_eq!((rest.offset, rest.size), (CODE_OFFSET + 0x10, 0x3f0));
    assert_eq!(elf.loaded_bytes(CODE + 0x3ff, 16), Some(&[0x90][..]), "to the segment's end");
    assert_eq!(elf.code().collect::<Vec<_>>(), [(CODE_OFFSET..DATA_OFFSET, CODE - CODE_OFFSET)]);
    // Of a file that is cut off within the code there is what is left.
    let cut = Elf::of_x86_64(&bytes[..CODE_OFFSET as usize + 0x10]).unwrap();
    assert_eq!(cut.code_offset(CODE + 0xf), Some(CODE_OFFSET + 0xf));
    assert_eq!((cut.code_offset(CODE + 0x10), cut.data_offset(CODE + 0xc, 8)), (None, None));
    assert_eq!(cut.code().next().unwrap().0, CODE_OFFSET..CODE_OFFSET + 0x10);
    assert_eq!(cut.loaded_bytes(CODE + 8, 16), None);
}

#[test]
fn a_compressed_section_says_how_large_it_is_unless_it_has_not_even_that() {
    assert_eq!(inflated(24), Ok(Some(1 << 40)));
    assert!(matches!(inflated(23), Err(ElfError::Damaged { part: "compressed section", .. })));
}

fn inflated(size: usize) -> Result<Option<u64>, ElfError> {
    let header = [1_u64, 1 << 40, 1].map(u64::to_le_bytes).concat();
    let contents = header[..size].to_vec();
    let file = File { sections: vec![(".debug_info", 1, 0, 0, contents)], ..File::default() };
    let mut bytes = file.bytes();
    let table = u64::from_le_bytes(*bytes[40..].first_chunk().expect("a header")) as usize;
    put(&mut bytes, table + 64 + 8, &[0, 8]);
    let elf = Elf::open(&*bytes).expect("a file");
    let sections = elf.sections().expect("its sections");
    let section = sections.named(".debug_info").next().expect("the one above");
    assert_eq!(section.part(), None, "it is not loaded");
    sections.inflated_size(section)
}

#[test]
fn a_build_id_behind_more_tables_of_notes_than_linkers_write_is_none() {
    assert_eq!((among_others(31), among_others(32)), (Some(20), None));
}

fn among_others(others: usize) -> Option<usize> {
    let mut sections = vec![(".note", 7, 0, 0, raw_note(b"GNU\0", 1, &[0; 16])); others];
    sections.push((".note.gnu.build-id", 7, 0, 0, raw_note(b"GNU\0", 3, &[7; 20])));
    let bytes = File { sections, ..File::default() }.bytes();
    Elf::open(&*bytes).expect("a file").build_id().map(<[u8]>::len)
}

#[test]
fn sections_symbols_and_the_build_id_are_found() {
    let bytes = whole().bytes();
    let elf = Elf::open(&*bytes).unwrap();
    let sections = elf.sections().unwrap();
    let entries = sections.frame_entries().unwrap();
    assert_eq!((entries.address, entries.size), (DATA, 24));
    let table = sections.symbols(abi::SHT_SYMTAB, &LIMITS).unwrap().unwrap();
    assert_eq!(table.find(b"counter").unwrap().address, DATA + 8);
    assert_eq!(table.find(b"count"), None);
    let names: Vec<_> = table.named().map(|symbol| symbol.unwrap().name).collect();
    assert_eq!(names, [&b"main"[..], b"counter"]);
    assert_eq!(elf.build_id(), Some(&[7; 20][..]));
    // A debug file has the section alone.
    let file = File { segments: Vec::new(), ..whole() };
    assert_eq!(Elf::open(&*file.bytes()).unwrap().build_id(), Some(&[7; 20][..]));
    let long = File::with_notes(Vec::new());
    let long = File { segments: vec![(4, raw_note(b"GNU\0", 3, &[7; BUILD_ID_MAX + 1]))], ..long };
    assert_eq!(Elf::open(&*long.bytes()).unwrap().build_id(), None);
}

#[test]
fn the_loaders_table_ends_where_it_says() {
    let mut bytes = whole().bytes();
    put(&mut bytes, DATA_OFFSET as usize, b"\0lib.so\0");
    let elf = Elf::open(&*bytes).unwrap();
    let dynamic = elf.dynamic().unwrap().unwrap();
    let entries: Vec<_> = dynamic.entries().collect();
    assert_eq!(entries, [(abi::DT_NEEDED, 1), (abi::DT_SONAME, 5), (abi::DT_STRTAB, DATA)]);
    assert_eq!(dynamic.string(1, 16), Some(&b"lib.so"[..]));
    assert_eq!((dynamic.string(1, 6), dynamic.string(u64::MAX, 16)), (None, None));
}

#[test]
fn a_file_of_32_bits_is_read_and_is_not_of_this_machine() {
    let bytes = of_32_bits();
    let elf = Elf::open(&*bytes).unwrap();
    assert!(elf.is_fixed() && elf.header_bytes().len() == 52);
    assert_eq!(elf.build_id(), Some(&[1, 2, 3, 4][..]));
    assert_eq!(elf.code_offset(0x40_0004), Some(0x78));
    let other = ElfError::OtherMachine { class: 1, machine: 3, kind: 2 };
    assert_eq!(Elf::of_x86_64(&*bytes).unwrap_err(), other);
    let mut first_byte_first = bytes;
    first_byte_first[5] = 2;
    assert!(matches!(Elf::open(&*first_byte_first), Err(ElfError::OtherMachine { .. })));
}

/// A program for i386: a note with a build id, which is loaded as code.
fn of_32_bits() -> Vec<u8> {
    let ident = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let head: [Vec<u8>; 4] =
        [ident, halves(&[2, 3]), words(&[1, 0, 52, 0, 0]), halves(&[52, 32, 2, 40, 0, 0])];
    let loaded: Vec<u8> = words(&[1, 0x74, 0x40_0000, 0, 20, 20, 5, 4]);
    let notes = words(&[4, 0x74, 0, 0, 20, 20, 4, 4]);
    [head.concat(), loaded, notes, raw_note(b"GNU\0", 3, &[1, 2, 3, 4])].concat()
}

fn halves(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|half| half.to_le_bytes()).collect()
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn an_error_names_the_part_and_where_it_lies() {
    let bytes = whole().bytes();
    let far = u64::MAX / 2;
    for (at, part) in [(32, "table of segments"), (40, "table of sections")] {
        let opened = opened_with(&bytes, at, &far.to_le_bytes());
        assert_eq!(opened, Err(ElfError::Damaged { part, at: far }));
    }
    let counted_elsewhere = opened_with(&bytes, 56, &[0xff, 0xff]);
    let is_too_large = matches!(counted_elsewhere, Err(ElfError::TooLarge { at: 64, .. }));
    assert!(is_too_large, "{counted_elsewhere:?}");
    // The second segment's address: it would end behind the last one.
    let bad_segment = Err(ElfError::BadSegment { number: 1 });
    assert_eq!(opened_with(&bytes, 64 + 56 + 16, &[0xff; 8]), bad_segment);
    let other_machine = Err(ElfError::OtherMachine { class: 2, machine: 62, kind: 3 });
    assert_eq!(opened_with(&bytes, 5, &[3]), other_machine);
    let cut = Elf::open(&bytes[..40]).unwrap_err().to_string();
    assert_eq!(cut, "its header cannot be read at byte 0x0, so it is damaged or cut short");
}

/// Opens a file that has these bytes there.
fn opened_with(file: &[u8], at: usize, value: &[u8]) -> Result<(), ElfError> {
    let mut bytes = file.to_vec();
    put(&mut bytes, at, value);
    Elf::open(&*bytes)?.sections().map(drop)
}

#[test]
fn more_loaded_segments_than_any_linker_makes_are_refused() {
    assert!(of_segments(128).is_ok());
    assert!(matches!(of_segments(129), Err(ElfError::TooLarge { limit: 128, .. })));
}

fn of_segments(count: u16) -> Result<(), ElfError> {
    let mut bytes = File::default().bytes();
    let (table, row) = (bytes.len() as u64, bytes[64..64 + 56].to_vec());
    (0..count).for_each(|_| bytes.extend(&row));
    put(&mut bytes, 32, &table.to_le_bytes());
    put(&mut bytes, 56, &count.to_le_bytes());
    Elf::open(&*bytes).map(drop)
}

/// A sparse file, in which each part in turn claims to have more than any part may have, and has
/// it.
#[test]
fn parts_that_claim_to_be_huge_are_refused_before_they_are_read() {
    const HUGE: u64 = 1 << 26;
    let whole = whole().bytes();
    let table = u64::from_le_bytes(*whole[40..].first_chunk().unwrap()) as usize;
    let segments = (2..5).map(|number| 64 + 56 * number);
    let sections = (1..6).map(|number| table + 64 * number);
    let sizes = segments.flat_map(|row| [(row + 8, row + 32)]);
    for (at, size) in sizes.chain(sections.map(|row| (row + 24, row + 32))) {
        let mut bytes = whole.clone();
        put(&mut bytes, at, &4096_u64.to_le_bytes());
        put(&mut bytes, size, &HUGE.to_le_bytes());
        let file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut &file, &bytes).unwrap();
        file.set_len(2 * HUGE).unwrap();
        let (cache, read) = counted(&file);
        assert!(!all_of(&cache).is_empty());
        // Of section names 1 MiB.
        assert!(read.get() < (1 << 20) + 16384, "byte {size}: {} were read", read.get());
    }
}

#[test]
fn of_a_huge_table_of_section_names_the_beginning_is_read() {
    let mut bytes = whole().bytes();
    let table = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap()) as usize;
    let names = table + 64 * usize::from(bytes[62]);
    put(&mut bytes, names + 32, &(1_u64 << 26).to_le_bytes());
    let file = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut &file, &bytes).unwrap();
    file.set_len(1 << 27).unwrap();
    let (cache, read) = counted(&file);
    let elf = Elf::open(&cache).unwrap();
    assert_eq!(elf.sections().unwrap().named(".symtab").count(), 1);
    assert!(read.get() < (1 << 20) + 4096, "{} were read", read.get());
}

#[test]
fn of_a_large_file_only_what_says_its_build_id_is_read() {
    let mut file = whole();
    file.sections.push((".debug_info", 1, 0, 0, vec![0; 1 << 20]));
    let (cache, read) = counted(Cursor::new(file.bytes()));
    assert!(Elf::open(&cache).unwrap().build_id().is_some());
    assert!(read.get() < 1024, "{} were read", read.get());
}

#[test]
fn symbols_that_share_one_long_name_are_refused() {
    let long = "x".repeat(1000);
    let mut file = File::with_symbols(&[(&long, 2, 1, CODE)]);
    let row = file.sections[0].4[24..].to_vec();
    (0..1000).for_each(|_| file.sections[0].4.extend(&row));
    let bytes = file.bytes();
    let elf = Elf::open(&*bytes).unwrap();
    let table = elf.sections().unwrap().symbols(abi::SHT_SYMTAB, &LIMITS).unwrap().unwrap();
    let named: Vec<_> = table.named().collect();
    assert!(named.len() < 20 && named.last().unwrap().is_err(), "{}", named.len());
}

/// Each byte of the headers and tables is changed, not one among millions by chance.
fn damage() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let byte = prop_oneof![Just(0), Just(1), Just(0x7f), Just(0xff), any::<u8>()];
    prop::collection::vec((any::<usize>(), byte), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_damaged_file_is_read_or_refused_and_alike_from_memory_and_where_needed(
        damage in damage(),
        in_head in any::<bool>(),
        cut in 0..4096_usize,
    ) {
        let mut bytes = whole().bytes();
        let table = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap()) as usize;
        for (at, byte) in damage {
            let place =
                if in_head { at % (64 + 56 * 5) } else { table + at % (bytes.len() - table) };
            bytes[place] = byte;
        }
        if cut < bytes.len() {
            bytes.truncate(bytes.len() - cut / 2);
        }
        let (cache, read) = counted(Cursor::new(bytes.clone()));
        prop_assert_eq!(all_of(&*bytes), all_of(&cache));
        // Parts may lie in parts, of which there are a dozen.
        prop_assert!(read.get() < 64 * bytes.len() as u64, "{} were read", read.get());
    }

    #[test]
    fn any_bytes_behind_an_ident_are_read_or_refused(
        class in 1..3_u8,
        rest in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let ident = [b"\x7fELF".as_slice(), &[class, 1, 1], &[0; 9]].concat();
        let bytes = [ident, rest].concat();
        prop_assert_eq!(all_of(&*bytes), all_of(&ReadCache::new(Cursor::new(bytes.clone()))));
    }
}
