//! Code that GHC compiles to: it has no unwind information, and its functions neither call nor
//! return, but jump.
//!
//! Its own stack is in rbp. The machine's stack pointer stays where the runtime system's function
//! that enters Haskell (`StgRun`) has put it, with rbp and the address to return to at fixed places
//! above; that function's unwind information says where. So a stack goes on from any Haskell
//! function as from there. Which other Haskell functions wait for it is on the other stack only.

use crate::rule::{Rule, saved_at_cfa};
use std::ops::Range;
use syscollect_records::unwind::{WORD_BYTES, cfa_rule};

/// Bytes that `StgRun` puts on the stack: six registers, room for what functions spill, and where
/// it returns to. So it is in all releases for x86-64.
const FRAME_BYTES: i64 = 16_440;
/// Of these, the bytes above the place of the caller's rbp.
const ABOVE_FRAME_POINTER: i64 = 48;
/// What that function's unwind information says of the caller's stack pointer, as bytes of DWARF:
/// `DW_CFA_val_expression` of register 7, which is `DW_OP_breg7` of [`FRAME_BYTES`].
const ENTRY: [u8; 7] = [0x16, 7, 4, 0x77, 0xb8, 0x80, 0x01];

/// `sub $N, %rsp` and `add $N, %rsp`, without the byte N.
const PUSH: [u8; 3] = [0x48, 0x83, 0xec];
const POP: [u8; 3] = [0x48, 0x83, 0xc4];
/// Bytes between the two, around a call to C: its arguments are put into registers.
const CALL_BYTES_MAX: usize = 192;

/// Whether `frames`, unwind information of a file, has that of the function that enters Haskell.
pub(crate) fn enters_haskell(frames: &[u8]) -> bool {
    frames.windows(ENTRY.len()).any(|bytes| bytes == ENTRY)
}

/// The rules of `code`, which begins at `address`.
pub(crate) fn rules(code: &[u8], address: u64) -> Vec<(u64, Rule)> {
    let of_calls = calls(code, address)
        .into_iter()
        .flat_map(|call| [(call.code.start, below(call.bytes)), (call.code.end, below(0))]);
    [(address, below(0))].into_iter().chain(of_calls).collect()
}

/// The rule where the stack pointer is so many bytes below where `StgRun` has put it.
fn below(bytes: i64) -> Rule {
    let words = i16::try_from((FRAME_BYTES + bytes) / WORD_BYTES).unwrap_or(i16::MAX);
    Rule::new((cfa_rule::RSP, words), saved_at_cfa(-ABOVE_FRAME_POINTER))
}

/// Where a function calls C, for which it aligns its stack.
struct AlignedCall {
    code: Range<u64>,
    bytes: i64,
}

fn calls(code: &[u8], address: u64) -> Vec<AlignedCall> {
    let mut calls = Vec::new();
    let mut at = 0;
    while let Some(found) = find(code, at, &PUSH) {
        at = found + PUSH.len() + 1;
        let Some(bytes) = code.get(at - 1).copied() else { break };
        let near = &code[..code.len().min(at + CALL_BYTES_MAX)];
        let end = find(near, at, &[POP[0], POP[1], POP[2], bytes]);
        let is_words = i64::from(bytes) % WORD_BYTES == 0;
        if let Some(end) = end.filter(|_| is_words) {
            let code = address + at as u64..address + end as u64 + 1;
            calls.push(AlignedCall { code, bytes: bytes.into() });
            at = end;
        }
    }
    calls
}

/// Where `wanted` begins in `code`, from byte `from` on.
fn find(code: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    let rest = code.get(from..)?;
    rest.windows(wanted.len()).position(|bytes| bytes == wanted).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rules: &[(u64, Rule)], address: u64) -> (i16, i16) {
        let known = rules.partition_point(|(start, _)| *start <= address);
        let row = rules[known - 1].1.at(0);
        assert_eq!(row.cfa, cfa_rule::RSP);
        (row.cfa_offset, row.saved_offset)
    }

    #[test]
    fn a_haskell_function_goes_on_where_the_runtime_system_has_entered_haskell() {
        // mov %rbx,%rsi; sub $8,%rsp; call; add $8,%rsp; jmp *(%rbp)
        let code = [
            &[0x48, 0x89, 0xde][..],
            &[0x48, 0x83, 0xec, 8],
            &[0xe8, 1, 2, 3, 4],
            &[0x48, 0x83, 0xc4, 8],
            &[0xff, 0x65, 0],
        ]
        .concat();
        let rules = rules(&code, 0x1000);
        assert_eq!([0x1000, 0x1006].map(|at| row(&rules, at)), [(2055, -6); 2]);
        // The call, what it returns to, and the last byte of what is done then.
        assert_eq!([0x1007, 0x100b, 0x100c].map(|at| row(&rules, at)), [(2056, -6); 3]);
        assert_eq!(row(&rules, 0x1010), (2055, -6));
        assert!(rules.is_sorted_by_key(|(start, _)| *start));
    }

    #[test]
    fn a_file_is_told_by_what_is_said_of_its_entry() {
        let frames = [&[0; 9][..], &ENTRY, &[0; 3]].concat();
        assert!(enters_haskell(&frames) && !enters_haskell(&frames[..15]));
    }
}
