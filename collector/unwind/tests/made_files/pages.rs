//! Which row holds where: pages, gaps, overlaps, and where unwind information is found.

use crate::image::*;
use std::time::{Duration, Instant};
use syscollect_elf::ElfError;
use syscollect_records::unwind::{PAGE_BYTES, ROWS_MAX, UnwindRow, cfa_rule};
use syscollect_unwind::{UnwindError, UnwindFile};

/// A function whose rule is rsp + `words`.
fn known(start: i64, length: u32, words: u8) -> Function {
    function(start, length, &[DEF_CFA_OFFSET, words * 8])
}

/// Addresses and offsets of rules; 0 words are no rule.
fn addresses_and_offsets(rows: &[UnwindRow]) -> Vec<(u16, i16)> {
    for row in rows {
        let says_where = ![cfa_rule::NONE, cfa_rule::INEXPRESSIBLE].contains(&row.cfa);
        assert_eq!(says_where, row.cfa_offset != 0, "{row:?}");
    }
    rows.iter().map(|row| (row.address, row.cfa_offset)).collect()
}

#[test]
fn padding_goes_on_and_gaps_are_unknown() {
    let functions = vec![known(0, 17, 2), known(32, 16, 3), known(64, 16, 4)];
    let rows = Image::new(functions).rows();
    assert_eq!(addresses_and_offsets(&rows), [(0, 2), (32, 3), (48, 0), (64, 4), (80, 0)]);
}

#[test]
fn equal_neighbours_are_one_row() {
    let functions = vec![known(0, 16, 2), known(16, 10, 2), known(32, 16, 2)];
    assert_eq!(addresses_and_offsets(&Image::new(functions).rows()), [(0, 2), (48, 0)]);
}

#[test]
fn of_functions_that_overlap_the_later_one_wins_from_its_beginning_on() {
    let functions = vec![known(0, 64, 2), known(16, 16, 3), known(100, 8, 4)];
    assert_eq!(
        addresses_and_offsets(&Image::new(functions).rows()),
        [(0, 2), (16, 3), (32, 0), (100, 4), (108, 0)]
    );
}

#[test]
fn functions_that_cross_pages_hold_in_both() {
    let long = function(0xfff0, 0x1_0020, &[DEF_CFA_OFFSET, 16, advance(8), DEF_CFA_OFFSET, 24]);
    let image = Image::new(vec![long]);
    let pages = image.pages(0..3).unwrap();
    assert_eq!(addresses_and_offsets(&pages[0]), [(0, 0), (0xfff0, 2), (0xfff8, 3)]);
    assert_eq!(addresses_and_offsets(&pages[1]), [(0, 3)]);
    assert_eq!(addresses_and_offsets(&pages[2]), [(0, 3), (0x10, 0)]);
    for (number, page) in pages.iter().enumerate() {
        assert_eq!(image.pages(number as u32..number as u32 + 1).unwrap()[0], *page);
    }
}

#[test]
fn a_long_function_with_one_rule_is_not_believed_where_it_moves_its_stack_pointer() {
    // jmp $; push rbp; push rbx; sub rsp, 56; jmp $
    let makes_its_frame = vec![0xeb, 0xfe, 0x55, 0x53, 0x48, 0x83, 0xec, 56, 0xeb, 0xfe];
    // jmp $; push rax; push rcx; jmp $
    let pushes = vec![0xeb, 0xfe, 0x50, 0x51, 0xeb, 0xfe];
    let functions = vec![known(0, 0x100, 10), known(0xf000, 0x2000, 10)];
    let mut image = Image::new(functions);
    image.machine_code = vec![(0x10, pushes.clone()), (0xf100, makes_its_frame), (0xfffc, pushes)];
    let pages = image.pages(0..2).unwrap();
    let short = [(0, 10), (0x100, 0)];
    let long = [(0xf000, 10), (0xf102, 1), (0xf103, 2), (0xf104, 3), (0xf108, 10), (0xfffe, 0)];
    assert_eq!(addresses_and_offsets(&pages[0]), [&short[..], &long].concat());
    assert_eq!(addresses_and_offsets(&pages[1]), [(0, 0), (2, 10), (0x1000, 0)]);
    assert_eq!([pages[0].last().unwrap().cfa, pages[1][0].cfa], [cfa_rule::INEXPRESSIBLE; 2]);
    for (number, page) in pages.iter().enumerate() {
        assert_eq!(image.pages(number as u32..number as u32 + 1).unwrap()[0], *page);
    }
}

#[test]
fn padding_at_a_page_boundary_goes_on() {
    let image = Image::new(vec![known(0xffe0, 0x18, 2), known(0x1_0004, 16, 3)]);
    let alone = image.pages(1..2).unwrap();
    assert_eq!(addresses_and_offsets(&alone[0]), [(0, 2), (4, 3), (20, 0)]);
    assert_eq!(alone[0], image.pages(0..2).unwrap()[1]);
}

#[test]
fn pages_without_code_have_one_row_and_each_page_is_there_once() {
    let file = Image::new(vec![known(0, 64, 2)]).file();
    let tables = file.pages(&[u32::MAX, 2, 0, 2, 7]).unwrap();
    assert_eq!(tables.iter().map(|(page, _)| *page).collect::<Vec<_>>(), [0, 2, 7, u32::MAX]);
    let none = vec![UnwindRow::default()];
    assert_eq!((&tables[0].1, &tables[2].1, &tables[3].1), (&none, &none, &none));
    assert_eq!(addresses_and_offsets(&tables[1].1), [(0, 2), (64, 0)]);
    assert!(file.pages(&[]).unwrap().is_empty());
}

#[test]
fn code_is_where_segments_are_executable() {
    let file = Image::new(Vec::new()).file();
    assert_eq!(file.code().len(), 1);
    assert_eq!(file.code()[0], CODE..CODE + 0x3_0000);
}

#[test]
fn functions_outside_of_code_are_passed_over() {
    // One at address 0, as linkers leave those that they removed, which claims everything.
    let removed = known(-((CODE + BIAS) as i64), u32::MAX, 9);
    let beyond = known(0x3_0000, 64, 9);
    let image = Image::new(vec![removed, known(32, 64, 2), beyond]);
    let pages = image.pages(0..3).unwrap();
    assert_eq!(addresses_and_offsets(&pages[0]), [(0, 0), (32, 2), (96, 0)]);
    assert_eq!(addresses_and_offsets(&pages[2]), [(0, 0)]);
}

#[test]
fn code_that_begins_and_ends_within_a_page_is_unknown_outside() {
    let mut image = Image::new(vec![known(0, 0x1_8100, 2)]);
    image.code = 0x1_8000;
    let pages = image.pages(0..3).unwrap();
    assert_eq!(addresses_and_offsets(&pages[1]), [(0, 2), (0x8000, 0)]);
    assert_eq!(addresses_and_offsets(&pages[2]), [(0, 0)]);
}

#[test]
fn what_does_not_fit_a_page_is_unknown() {
    // A row for each byte of code.
    let each: Vec<u8> = (0..0x1_0000)
        .flat_map(|byte| [advance(1), DEF_CFA_OFFSET, if byte % 2 == 0 { 16 } else { 24 }])
        .collect();
    let mut image = Image::new(vec![function(0, 0x1_0010, &each)]);
    image.repeats = 2;
    let pages = image.pages(0..2).unwrap();
    assert_eq!(pages[0].len(), ROWS_MAX);
    assert_eq!(pages[0][ROWS_MAX - 1].cfa, cfa_rule::INEXPRESSIBLE);
    assert_eq!(pages[0][ROWS_MAX - 2].cfa, cfa_rule::RSP);
    assert_eq!(addresses_and_offsets(&pages[1])[0].1, 3, "what holds there is known again");
}

#[test]
fn the_same_rows_are_found_in_every_way() {
    let functions = vec![known(64, 16, 4), known(0, 17, 2), known(32, 16, 3)];
    let image = Image::new(functions);
    let expected = image.rows();
    for found in [
        UnwindSource::ByHeader,
        UnwindSource::ByName(".eh_frame"),
        UnwindSource::ByName(".debug_frame"),
    ] {
        let image = Image { found, ..image.clone() };
        assert_eq!(image.rows(), expected, "{found:?}");
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, &image.bytes()).unwrap();
        let file = UnwindFile::read(syscollect_untrusted_files::Reader::of(&file).unwrap());
        assert_eq!(file.unwrap().pages(&[2]).unwrap()[0].1, expected, "{found:?}");
    }
}

#[test]
fn what_cannot_be_used_is_an_error_by_name() {
    let image = Image::new(vec![known(0, 64, 2)]);
    // Go's code is not read where nothing is known of it.
    let found = UnwindSource::ByName(".gopclntab");
    assert_eq!(addresses_and_offsets(&Image { found, ..image.clone() }.rows()), [(0, 0)]);

    let bytes = image.bytes();
    assert!(matches!(refused_with(&bytes, 0, &[0]), UnwindError::Elf(ElfError::NotElf)));
    assert!(
        matches!(refused_with(&bytes, 4, &[1]), UnwindError::Elf(ElfError::OtherMachine { .. })),
        "32 bits"
    );
    assert!(
        matches!(refused_with(&bytes, 18, &[183]), UnwindError::Elf(ElfError::OtherMachine { .. })),
        "aarch64"
    );
    let address_of_code = 64 + 56 + 16;
    assert!(matches!(
        refused_with(&bytes, address_of_code, &[0xff; 8]),
        UnwindError::Elf(ElfError::BadSegment { .. })
    ));
    let cut_off = UnwindFile::from_bytes(bytes[..300].to_vec()).unwrap();
    assert!(matches!(cut_off.pages(&[2]), Err(UnwindError::Unreadable(_))));
}

/// Why a file is refused that has these bytes there.
fn refused_with(file: &[u8], at: usize, patch: &[u8]) -> UnwindError {
    let mut bytes = file.to_vec();
    bytes[at..at + patch.len()].copy_from_slice(patch);
    UnwindFile::from_bytes(bytes).unwrap_err()
}

#[test]
fn what_is_compressed_is_as_nothing() {
    let image = Image::new(vec![known(0, 64, 2)]);
    let compressed = Image { found: UnwindSource::Compressed(".debug_frame"), ..image };
    // The code of these files is instructions that do nothing, of which nothing is known.
    assert_eq!(addresses_and_offsets(&compressed.rows()), [(0, 0)]);
}

#[test]
fn a_damaged_fde_takes_nothing_from_others() {
    let functions = vec![known(0, 16, 2), known(16, 16, 3), known(32, 16, 4)];
    let image = Image::new(functions);
    let mut bytes = image.bytes();
    let table = 64 + 3 * 56 + 12;
    // The second entry leads to the third's FDE, whose code is another.
    let third = bytes[table + 20..table + 24].to_vec();
    bytes[table + 12..table + 16].copy_from_slice(&third);
    let rows = UnwindFile::from_bytes(bytes).unwrap().pages(&[2]).unwrap().remove(0).1;
    assert_eq!(addresses_and_offsets(&rows), [(0, 2), (16, 0), (32, 4), (48, 0)]);
    // Its function is described, if not to be understood; of what comes behind all nothing is said.
    assert_eq!([rows[1].cfa, rows[3].cfa], [cfa_rule::INEXPRESSIBLE, cfa_rule::NONE]);
}

/// Makes rows of one page, in bounded time.
fn timed(image: &Image) -> Vec<UnwindRow> {
    let file = image.file();
    let page = (file.code()[0].start / PAGE_BYTES) as u32;
    let start = Instant::now();
    let rows = file.pages(&[page]).unwrap().remove(0).1;
    // Debug builds of busy machines are ten times slower than what users have.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    rows
}

#[test]
fn a_table_that_names_a_function_a_million_times_costs_little() {
    let work: Vec<u8> = [REMEMBER_STATE, RESTORE_STATE].repeat(1000);
    let mut image = Image::new(vec![function(0, 64, &work), known(64, 16, 2)]);
    image.repeats = 1_000_000;
    assert_eq!(
        addresses_and_offsets(&timed(&image)),
        [(0, 1), (64, 0)],
        "what comes after is not looked for"
    );
    image.is_unsorted = true;
    let rows = timed(&image);
    assert!(rows.is_sorted_by_key(|row| row.address), "{rows:?}");
}

#[test]
fn functions_that_take_long_to_evaluate_are_unknown_beyond_a_bound() {
    // Each is a page of its own to evaluate: many registers, saved with every byte.
    let registers: Vec<u8> = (17..49).flat_map(|register| [offset(register), 1]).collect();
    let work = [registers, [REMEMBER_STATE, RESTORE_STATE].repeat(30_000)].concat();
    let functions = (0..100).map(|number| function(number * 64, 64, &work)).collect();
    let mut image = Image::new(functions);
    image.repeats = 2;
    let rows = timed(&image);
    assert_eq!(addresses_and_offsets(&rows)[0], (0, 1));
    assert_eq!(rows.last().unwrap().cfa, cfa_rule::INEXPRESSIBLE);
    assert!(rows.last().unwrap().address < 64 * 60, "{rows:?}");
}
