//! Rows of this very program and its C library, compared with what gimli says of the same addresses
//! in its own way, and of damaged copies of both.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, Encoding, EndianSlice, EvaluationResult,
    Format, LittleEndian, Location, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, UnwindTableRow, Value, X86_64,
};
use object::{Object, ObjectSection, ObjectSegment};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use syscollect_records::unwind::{LOST_FRAME_POINTER, PAGE_BYTES, ROWS_MAX, UnwindRow, cfa_rule};
use syscollect_unwind::{Caller, Registers, UnwindFile, WalkEnd, row_at, step};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// This program and its C library.
fn files() -> Vec<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let libc = paths.filter(|path| path.contains("libc.so") || path.contains("libc-")).take(1);
    let paths = ["/proc/self/exe"].into_iter().chain(libc);
    paths.map(|path| std::fs::read(path).unwrap()).collect()
}

fn all_pages(file: &UnwindFile) -> Vec<u32> {
    file.code()
        .iter()
        .flat_map(|code| code.start / PAGE_BYTES..=(code.end - 1) / PAGE_BYTES)
        .map(|page| page as u32)
        .collect()
}

/// A file as gimli and object read it.
struct Oracle<'a> {
    object: object::File<'a>,
    frames: EhFrame<Slice<'a>>,
    header: &'a [u8],
    bases: BaseAddresses,
}

impl<'a> Oracle<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let object = object::File::parse(bytes).unwrap();
        let [frames, header] =
            [".eh_frame", ".eh_frame_hdr"].map(|name| object.section_by_name(name).unwrap());
        let bases = BaseAddresses::default()
            .set_eh_frame(frames.address())
            .set_eh_frame_hdr(header.address());
        let frames = EhFrame::new(frames.data().unwrap(), LittleEndian);
        Self { frames, header: header.data().unwrap(), bases, object }
    }

    fn offset(&self, address: u64) -> Option<u64> {
        self.object.segments().find_map(|segment| {
            let (offset, size) = segment.file_range();
            let at = address.checked_sub(segment.address())?;
            (at < size).then_some(offset + at)
        })
    }

    /// Addresses of functions, sorted.
    fn functions(&self) -> Vec<Range<u64>> {
        let mut entries = self.frames.entries(&self.bases);
        let mut functions = Vec::new();
        while let Some(entry) = entries.next().unwrap() {
            if let CieOrFde::Fde(partial) = entry {
                let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
                functions.push(fde.initial_address()..fde.end_address());
            }
        }
        functions.sort_by_key(|function| function.start);
        functions
    }
}

/// Registers and memory that are made up, so that two ways to say the same are the same.
const SP: u64 = 0x7000_0000_0000;
const GENERAL: [u64; 16] = {
    let mut registers = [0; 16];
    let mut number = 0;
    while number < 16 {
        registers[number] = SP + 0x1000_0000 * (number as u64 + 1);
        number += 1;
    }
    registers[7] = SP;
    registers
};

/// Words of memory are addresses above the stack pointer.
fn word(address: u64) -> u64 {
    SP + 0x10_0000_0000 + (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 << 3)
}

/// The caller as DWARF has it; `None` if it has none that three registers describe.
fn expected(oracle: &Oracle<'_>, row: &UnwindTableRow<usize>, address: u64) -> Option<Registers> {
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register: Register(number), offset } => {
            GENERAL[usize::from(*number)].wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => evaluate(oracle, expression, None, address)?,
    };
    let ip = match row.register(X86_64::RA)? {
        RegisterRule::Offset(offset) => word(cfa.wrapping_add_signed(offset)),
        RegisterRule::Register(Register(number)) => *GENERAL.get(usize::from(number))?,
        _ => return None,
    };
    let bp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue) => GENERAL[6],
        Some(RegisterRule::Offset(offset)) => word(cfa.wrapping_add_signed(offset)),
        Some(RegisterRule::Expression(expression)) => {
            word(evaluate(oracle, &expression, Some(cfa), address)?)
        }
        _ => LOST_FRAME_POINTER,
    };
    Some(Registers { ip, sp: cfa, bp })
}

fn evaluate(
    oracle: &Oracle<'_>,
    expression: &UnwindExpression<usize>,
    initial: Option<u64>,
    address: u64,
) -> Option<u64> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
    let mut evaluation = expression.get(&oracle.frames).unwrap().evaluation(encoding);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let number = usize::from(register.0);
                let value = GENERAL.get(number).copied().unwrap_or(address);
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            EvaluationResult::RequiresMemory { address, .. } => {
                evaluation.resume_with_memory(Value::Generic(word(address))).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result() {
        [piece] => match piece.location {
            Location::Address { address } => Some(address),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a row must be able to say it: what nearly all code has.
fn is_plain(row: &UnwindTableRow<usize>) -> bool {
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register: Register(0..16), offset } => fits(*offset),
        _ => false,
    };
    cfa && row.register(X86_64::RA) == Some(RegisterRule::Offset(-8))
}

fn fits(offset: i64) -> bool {
    offset % 8 == 0 && i16::try_from(offset / 8).is_ok()
}

#[derive(Debug, Default)]
struct Figures {
    compared: usize,
    ends: usize,
    signal_frames: usize,
    unsaid: usize,
    /// Addresses of functions that `.eh_frame_hdr` does not list.
    unlisted: usize,
}

fn row_of(
    oracle: &Oracle<'_>,
    tables: &BTreeMap<u32, Vec<UnwindRow>>,
    address: u64,
) -> Option<UnwindRow> {
    let offset = oracle.offset(address)?;
    row_at(tables.get(&((offset / PAGE_BYTES) as u32))?, (offset % PAGE_BYTES) as u16)
}

fn compare(bytes: &[u8]) -> Figures {
    let oracle = Oracle::new(bytes);
    let file = UnwindFile::from_bytes(bytes.to_vec()).unwrap();
    let tables: BTreeMap<u32, Vec<UnwindRow>> =
        file.pages(&all_pages(&file)).unwrap().into_iter().collect();
    let header = EhFrameHdr::new(oracle.header, LittleEndian).parse(&oracle.bases, 8).unwrap();
    let table = header.table().unwrap();
    let mut context = UnwindContext::new();
    let mut figures = Figures::default();
    let functions = oracle.functions();
    for function in &functions {
        let middle = function.start + (function.end - function.start) / 2;
        let addresses = [function.start, function.start + 1, middle, function.end - 1];
        for address in addresses.into_iter().filter(|address| function.contains(address)) {
            let (frames, bases, cie) = (&oracle.frames, &oracle.bases, EhFrame::cie_from_offset);
            let Ok(fde) = table.fde_for_address(frames, bases, address, cie) else {
                figures.unlisted += 1;
                continue;
            };
            let theirs =
                table.unwind_info_for_address(frames, bases, &mut context, address, cie).unwrap();
            let ours = row_of(&oracle, &tables, address).unwrap();
            let here = Registers { ip: address, sp: SP, bp: GENERAL[6] };
            let step = step(&here, ours, Some(&GENERAL), |address| Some(word(address)));
            let about = format!("{address:#x}: {ours:?} {theirs:?}");
            figures.compared += 1;
            match step {
                _ if fde.is_signal_trampoline() => {
                    assert_eq!(ours.cfa, cfa_rule::SIGNAL, "{about}");
                    figures.signal_frames += 1;
                }
                Ok(Caller { registers, interrupted }) => {
                    let expected = expected(&oracle, theirs, address).expect(&about);
                    assert_eq!((registers, interrupted), (expected, None), "{about}");
                }
                Err(WalkEnd::End) => {
                    let is_undefined =
                        matches!(theirs.register(X86_64::RA), Some(RegisterRule::Undefined));
                    assert!(is_undefined, "{about}");
                    figures.ends += 1;
                }
                Err(WalkEnd::Unusable) => {
                    assert!(!is_plain(theirs), "{about}");
                    figures.unsaid += 1;
                }
                Err(WalkEnd::Unreadable) => panic!("{about}"),
            }
        }
    }
    for both in functions.windows(2).filter(|both| both[1].start >= both[0].end + 16) {
        // The end of one may be the end of code.
        let is_unknown =
            row_of(&oracle, &tables, both[0].end).is_none_or(|row| row.cfa == cfa_rule::NONE);
        assert!(is_unknown, "{both:x?}");
    }
    figures
}

#[test]
fn rows_say_what_gimli_says_of_each_function() {
    let mut all = Figures::default();
    for bytes in files() {
        let figures = compare(&bytes);
        println!("{figures:?}");
        assert!(figures.compared > 1000 && figures.unsaid * 100 < figures.compared);
        assert_eq!(figures.unlisted, 0);
        all.ends += figures.ends;
        all.signal_frames += figures.signal_frames;
    }
    // `_start` is in the program.
    assert!(all.ends > 0, "{all:?}");
}

#[test]
fn a_page_alone_has_the_rows_that_it_has_among_others() {
    for bytes in files() {
        let file = UnwindFile::from_bytes(bytes).unwrap();
        for (page, rows) in file.pages(&all_pages(&file)).unwrap() {
            check(&rows);
            assert_eq!(file.pages(&[page]).unwrap(), [(page, rows)]);
        }
    }
}

#[test]
fn the_vdso_has_tables() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else { return };
    let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
    let mut bytes = vec![0; (end - start) as usize];
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, start).unwrap();
    let tables = UnwindFile::from_bytes(bytes).unwrap().pages(&[0]).unwrap();
    assert!(tables[0].1.iter().any(|row| row.cfa == cfa_rule::RSP), "{tables:?}");
}

/// What holds of the rows of any page.
fn check(rows: &[UnwindRow]) {
    assert!((1..=ROWS_MAX).contains(&rows.len()));
    assert_eq!(rows[0].address, 0);
    for both in rows.windows(2) {
        assert!(both[0].address < both[1].address, "{both:?}");
        assert_ne!(UnwindRow { address: 0, ..both[0] }, UnwindRow { address: 0, ..both[1] });
    }
}

/// Parts of a file that say something about unwinding.
type Parts = [Range<usize>; 3];

static FILES: LazyLock<Vec<(Vec<u8>, Parts)>> = LazyLock::new(|| {
    files().into_iter().map(|bytes| (parts(&bytes), bytes)).map(|(at, bytes)| (bytes, at)).collect()
});

fn parts(bytes: &[u8]) -> [Range<usize>; 3] {
    let object = object::File::parse(bytes).unwrap();
    let [header, frames] = [".eh_frame_hdr", ".eh_frame"].map(|name| {
        let (at, size) = object.section_by_name(name).unwrap().file_range().unwrap();
        at as usize..(at + size) as usize
    });
    [0..0x400, header, frames]
}

/// Makes rows of a damaged file, in bounded time.
fn try_damaged(bytes: Vec<u8>, first: prop::sample::Index) {
    let Ok(file) = UnwindFile::from_bytes(bytes) else { return };
    let pages = all_pages_bounded(&file);
    if pages.is_empty() {
        return;
    }
    let first = first.index(pages.len());
    let start = Instant::now();
    if let Ok(tables) = file.pages(&pages[first..pages.len().min(first + 3)]) {
        tables.iter().for_each(|(_, rows)| check(rows));
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Pages of code, of which a damaged file may claim 2^48.
fn all_pages_bounded(file: &UnwindFile) -> Vec<u32> {
    file.code().iter().flat_map(|code| pages(code).take(1000)).map(|page| page as u32).collect()
}

fn pages(code: &Range<u64>) -> std::ops::RangeInclusive<u64> {
    code.start / PAGE_BYTES..=(code.end - 1) / PAGE_BYTES
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_files_make_sorted_rows_in_bounded_time(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(
            (0..3_usize, any::<prop::sample::Index>(), any::<u8>(), 1..5_usize),
            1..12,
        ),
        first in any::<prop::sample::Index>(),
    ) {
        let (bytes, parts) = which.get(&FILES);
        let mut bytes = bytes.clone();
        for (part, at, value, length) in changes {
            let start = parts[part].start + at.index(parts[part].len());
            let end = (start + length).min(bytes.len());
            bytes[start..end].fill(value);
        }
        try_damaged(bytes, first);
    }

    #[test]
    fn files_that_are_cut_off_are_no_harm(
        which in any::<prop::sample::Index>(),
        length in any::<prop::sample::Index>(),
        first in any::<prop::sample::Index>(),
    ) {
        let (bytes, _) = which.get(&FILES);
        try_damaged(bytes[..length.index(bytes.len())].to_vec(), first);
    }
}
