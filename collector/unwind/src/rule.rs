//! What a row says, made of what DWARF's rules say.

use crate::UnwindRow;
use crate::arch::{FRAME_POINTER, GENERAL_REGISTERS, PLT_ENTRY, RETURN_ADDRESS, STACK_POINTER};
use gimli::{Encoding, EndianSlice, Expression, Format, LittleEndian, Operation, Register};
use syscollect_records::unwind::{WORD_BYTES, cfa_rule, frame_pointer_rule};

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Operations of the longest expression that a row can say.
const OPERATIONS_MAX: usize = 9;

/// A rule of a row and its offset in words, if it has one.
pub(crate) type RuleAndOffset = (u8, i16);

/// A row without its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    cfa: u8,
    cfa_offset: i16,
    frame_pointer: u8,
    saved_offset: i16,
}

impl Rule {
    pub(crate) const NONE: Self = Self::bare(cfa_rule::NONE);
    pub(crate) const INEXPRESSIBLE: Self = Self::bare(cfa_rule::INEXPRESSIBLE);
    pub(crate) const SIGNAL: Self = Self::bare(cfa_rule::SIGNAL);
    pub(crate) const END: Self = Self::bare(cfa_rule::END);

    /// A rule that uses no offsets. They are 0, so that equal rules are equal rows.
    const fn bare(cfa: u8) -> Self {
        Self { cfa, cfa_offset: 0, frame_pointer: frame_pointer_rule::SAME, saved_offset: 0 }
    }

    pub(crate) fn new(cfa: RuleAndOffset, frame_pointer: RuleAndOffset) -> Self {
        let ((cfa, cfa_offset), (frame_pointer, saved_offset)) = (cfa, frame_pointer);
        Self { cfa, cfa_offset, frame_pointer, saved_offset }
    }

    /// Where the CFA is.
    pub(crate) fn cfa(self) -> RuleAndOffset {
        (self.cfa, self.cfa_offset)
    }

    /// Where the caller's rbp is.
    pub(crate) fn frame_pointer(self) -> RuleAndOffset {
        (self.frame_pointer, self.saved_offset)
    }

    pub(crate) fn of_row(row: UnwindRow) -> Self {
        let UnwindRow { address: _, cfa, frame_pointer, cfa_offset, saved_offset } = row;
        Self { cfa, cfa_offset, frame_pointer, saved_offset }
    }

    pub(crate) fn at(self, address: u16) -> UnwindRow {
        let Self { cfa, cfa_offset, frame_pointer, saved_offset } = self;
        UnwindRow { address, cfa, frame_pointer, cfa_offset, saved_offset }
    }
}

/// A CFA that is `register + offset`; `None` if a row cannot express it.
pub(crate) fn cfa_at_register(register: Register, offset: i64) -> Option<RuleAndOffset> {
    let rule = match register {
        STACK_POINTER if offset > FAR => return cfa_far(offset),
        STACK_POINTER => cfa_rule::RSP,
        FRAME_POINTER => cfa_rule::RBP,
        Register(number) if number < GENERAL_REGISTERS => cfa_rule::REGISTER | number as u8,
        _ => return None,
    };
    Some((rule, words(offset)?))
}

/// The same of a function that keeps its return address in `returns`: where it does, its CFA is
/// beside rsp.
pub(crate) fn cfa_of_return_register(
    (rule, offset): RuleAndOffset,
    returns: Register,
) -> Option<RuleAndOffset> {
    let is_known = returns.0 < GENERAL_REGISTERS && returns != STACK_POINTER;
    (is_known && rule == cfa_rule::RSP)
        .then_some((cfa_rule::RETURN_REGISTER | returns.0 as u8, offset))
}

/// What a row says in words, bytes.
const FAR: i64 = i16::MAX as i64 * WORD_BYTES;

/// A CFA that is so far above rsp. Where functions with such frames call, both are multiples of 16.
fn cfa_far(offset: i64) -> Option<RuleAndOffset> {
    const PAIR: i64 = 2 * WORD_BYTES;
    let pairs = (offset % PAIR == 0).then(|| u16::try_from(offset / PAIR).ok())??;
    Some((cfa_rule::RSP_FAR, pairs.cast_signed()))
}

/// A CFA that is what `expression` evaluates to.
pub(crate) fn cfa_by_expression(expression: Expression<Slice<'_>>) -> Option<RuleAndOffset> {
    let operations = operations(expression)?;
    cfa_at_word(&operations).or_else(|| plt(&operations)).or_else(|| linked_frame(&operations))
}

/// `*(rsp + n)` or `*(rbp + n)`, and one word more: of functions that align their stack.
fn cfa_at_word(operations: &[Operation<Slice<'_>>]) -> Option<RuleAndOffset> {
    const WORD: u64 = WORD_BYTES as u64;
    let [first, Operation::Deref { size: 8, space: false, .. }, rest @ ..] = operations else {
        return None;
    };
    let plus_word = match rest {
        [] => false,
        [Operation::PlusConstant { value: WORD }]
        | [Operation::UnsignedConstant { value: WORD }, Operation::Plus] => true,
        _ => return None,
    };
    let (register, offset) = register_offset(first)?;
    let rule = match (register, plus_word) {
        (STACK_POINTER, false) => cfa_rule::AT_RSP,
        (STACK_POINTER, true) => cfa_rule::AT_RSP_PLUS_WORD,
        (FRAME_POINTER, false) => cfa_rule::AT_RBP,
        (FRAME_POINTER, true) => cfa_rule::AT_RBP_PLUS_WORD,
        _ => return None,
    };
    Some((rule, words(offset)?))
}

/// `rsp + 8 + (((rip & 15) >= n) << 3)`: linkers write it for all entries of a procedure linkage
/// table, which push a word before their n-th byte.
fn plt(operations: &[Operation<Slice<'_>>]) -> Option<RuleAndOffset> {
    let [
        sp,
        ip,
        Operation::UnsignedConstant { value: 15 },
        Operation::And,
        Operation::UnsignedConstant { value: threshold @ 0..PLT_ENTRY },
        Operation::Ge,
        Operation::UnsignedConstant { value: 3 },
        Operation::Shl,
        Operation::Plus,
    ] = operations
    else {
        return None;
    };
    let is_plt = register_offset(sp)? == (STACK_POINTER, WORD_BYTES)
        && register_offset(ip)? == (RETURN_ADDRESS, 0);
    is_plt.then_some((cfa_rule::PLT, *threshold as i16))
}

/// `*rbp + 16`: SBCL's entry into Lisp, whose rbp leads to the frame of what it calls, where its
/// own rbp lies. That takes it back before it returns, as a walk by frame pointers does that comes
/// from there, and so it is a frame pointer like any. Where the entry itself stands, for the two
/// instructions before its call, this rule leads to no code.
fn linked_frame(operations: &[Operation<Slice<'_>>]) -> Option<RuleAndOffset> {
    const FRAME: u64 = 2 * WORD_BYTES as u64;
    let [first, Operation::Deref { size: 8, space: false, .. }, rest @ ..] = operations else {
        return None;
    };
    let [Operation::UnsignedConstant { value: FRAME }, Operation::Plus] = rest else {
        return None;
    };
    (register_offset(first)? == (FRAME_POINTER, 0)).then_some((cfa_rule::RBP, 2))
}

/// The caller's rbp lies at CFA + `offset`.
pub(crate) fn saved_at_cfa(offset: i64) -> RuleAndOffset {
    words(offset).map_or(LOST, |words| (frame_pointer_rule::AT_CFA, words))
}

/// The caller's rbp lies where `expression` says, of which rows know `rbp + n`.
pub(crate) fn saved_by_expression(expression: Expression<Slice<'_>>) -> RuleAndOffset {
    let operations = operations(expression).unwrap_or_default();
    let place = match &operations[..] {
        [operation] => register_offset(operation),
        _ => None,
    };
    match place {
        Some((FRAME_POINTER, offset)) => {
            words(offset).map_or(LOST, |words| (frame_pointer_rule::AT_RBP, words))
        }
        _ => LOST,
    }
}

/// The caller's rbp is still in rbp.
pub(crate) const SAME: RuleAndOffset = (frame_pointer_rule::SAME, 0);
/// The caller's rbp is where no row can say.
pub(crate) const LOST: RuleAndOffset = (frame_pointer_rule::LOST, 0);

fn register_offset(operation: &Operation<Slice<'_>>) -> Option<(Register, i64)> {
    match operation {
        Operation::RegisterOffset { register, offset, base_type } if base_type.0 == 0 => {
            Some((*register, *offset))
        }
        _ => None,
    }
}

/// What `expression` does; `None` if that is more than a row can say.
fn operations(expression: Expression<Slice<'_>>) -> Option<Vec<Operation<Slice<'_>>>> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
    let mut iterator = expression.operations(encoding);
    let mut operations = Vec::new();
    while let Some(operation) = iterator.next().ok()? {
        if operations.len() == OPERATIONS_MAX {
            return None;
        }
        operations.push(operation);
    }
    Some(operations)
}

/// Bytes as words, as far as a row has room.
fn words(bytes: i64) -> Option<i16> {
    (bytes % WORD_BYTES == 0).then(|| i16::try_from(bytes / WORD_BYTES).ok())?
}
