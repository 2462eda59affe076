//! Rules read from code, compared with what the same code's unwind information says.

use std::collections::BTreeMap;
use std::ops::Range;

use super::*;
use crate::{UnwindFile, UnwindRow, row_at};
use syscollect_elf::LoadedPart;
use syscollect_records::unwind::{PAGE_BYTES, cfa_rule, frame_pointer_rule};

/// This program, and its C library.
fn files() -> Vec<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let libc = paths.filter(|path| path.contains("libc.so") || path.contains("libc-")).take(1);
    let paths = ["/proc/self/exe"].into_iter().chain(libc);
    paths.map(|path| std::fs::read(path).unwrap()).collect()
}

/// What became of instructions.
#[derive(Debug, Default)]
struct Comparison {
    same: usize,
    /// The code says less.
    unsaid: usize,
    /// By another register.
    otherwise: usize,
    different: Vec<(u64, UnwindRow, UnwindRow)>,
}

impl Comparison {
    fn add(&mut self, address: u64, rule: Rule, row: UnwindRow) {
        let rule = rule.at(row.address);
        let is_same_cfa = (rule.cfa, rule.cfa_offset) == (row.cfa, row.cfa_offset);
        let is_same_frame = (rule.frame_pointer, rule.saved_offset)
            == (row.frame_pointer, row.saved_offset)
            || rule.frame_pointer == frame_pointer_rule::LOST
            || is_saved_in_one(rule, row) && -row.saved_offset > row.cfa_offset
            || is_saved_in_one(row, rule) && -rule.saved_offset <= rule.cfa_offset;
        match () {
            () if !is_by_register(row) => {}
            () if !is_by_register(rule) => self.unsaid += 1,
            () if rule.cfa != row.cfa => self.otherwise += 1,
            () if is_same_cfa && is_same_frame => self.same += 1,
            () => self.different.push((address, rule, row)),
        }
    }
}

/// Compilers say where the caller's rbp lies when it has been restored already, and do not when it
/// is stored and not changed yet.
fn is_saved_in_one(one: UnwindRow, other: UnwindRow) -> bool {
    one.frame_pointer == frame_pointer_rule::SAME
        && other.frame_pointer == frame_pointer_rule::AT_CFA
}

fn is_by_register(row: UnwindRow) -> bool {
    [cfa_rule::RSP, cfa_rule::RBP].contains(&row.cfa)
}

/// Code that has unwind information, as if it had none.
fn compare(file: &UnwindFile, bytes: &[u8], part: LoadedPart) -> Comparison {
    let mut comparison = Comparison::default();
    let mut pages = BTreeMap::<u32, Vec<UnwindRow>>::new();
    let Range { start, end } = part.addresses();
    for wanted in (start..end).step_by(PAGE_BYTES as usize) {
        let around = start.max(wanted.saturating_sub(CODE_AROUND))
            ..end.min(wanted + PAGE_BYTES + CODE_AROUND);
        let offset = (around.start - part.address + part.offset) as usize;
        let code = BareCode {
            bytes: &bytes[offset..offset + (around.end - around.start) as usize],
            address: around.start,
            without_information: part.addresses(),
            entry: 0,
        };
        let rules = rules(&code);
        let wanted = wanted..wanted + PAGE_BYTES;
        let mut instructions = decode(code.bytes, code.address);
        instructions.retain(|one| wanted.contains(&one.at) && one.kind != InstructionKind::Padding);
        for instruction in instructions {
            let after = rules.partition_point(|(address, _)| *address <= instruction.at);
            let Some((_, rule)) = after.checked_sub(1).map(|at| rules[at]) else { continue };
            let offset = instruction.at - part.address + part.offset;
            let page = (offset / PAGE_BYTES) as u32;
            let rows =
                pages.entry(page).or_insert_with(|| file.pages(&[page]).unwrap().remove(0).1);
            if let Some(row) = row_at(rows, (offset % PAGE_BYTES) as u16) {
                comparison.add(instruction.at, rule, row);
            }
        }
    }
    comparison
}

/// Some of a C library's own assembly moves the stack pointer and does not say so, and where a call
/// does not return, what follows may be taken for its function's.
const DIFFERENT_MAX: usize = 1_000;

#[test]
fn what_code_says_is_what_its_unwind_information_says() {
    for bytes in files() {
        let file = UnwindFile::from_bytes(bytes.clone()).unwrap();
        for part in file.layout().code.clone() {
            let compared = compare(&file, &bytes, part);
            let different = compared.different.len();
            assert!(compared.same > 10_000, "{compared:x?}");
            assert!(different * DIFFERENT_MAX < compared.same, "{compared:x?}");
        }
    }
}

#[test]
fn what_is_said_of_functions_that_keep_frame_pointers_is_so() {
    for bytes in files() {
        let file = UnwindFile::from_bytes(bytes.clone()).unwrap();
        let mut comparison = Comparison::default();
        for part in file.layout().code.clone() {
            let code = &bytes[part.offset as usize..][..part.size as usize];
            let instructions = decode(code, part.address);
            let mut rows = BTreeMap::<u32, Vec<UnwindRow>>::new();
            for (one, rule) in instructions.iter().zip(linked::all_rules(&instructions)) {
                let Some(rule) = rule else { continue };
                let offset = one.at - part.address + part.offset;
                let page = (offset / PAGE_BYTES) as u32;
                let rows =
                    rows.entry(page).or_insert_with(|| file.pages(&[page]).unwrap().remove(0).1);
                if let Some(row) = row_at(rows, (offset % PAGE_BYTES) as u16) {
                    comparison.add(one.at, rule, row);
                }
            }
        }
        assert_eq!(comparison.different, [], "{} are the same", comparison.same);
    }
}
