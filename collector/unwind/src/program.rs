//! Runs the instructions of call frame information.
//!
//! Of the registers' rules those are kept that rows need, so that an instruction costs as much as
//! its bytes: gimli's own tables keep all, and copy them where an instruction of one byte says so.

use crate::arch::{FRAME_POINTER, RETURN_ADDRESS};
use crate::rule::{
    LOST, Rule, RuleAndOffset, SAME, Slice, cfa_at_register, cfa_by_expression,
    cfa_of_return_register, saved_at_cfa, saved_by_expression,
};
use gimli::{CallFrameInstruction, CommonInformationEntry, Register, UnwindSection};
use syscollect_records::unwind::WORD_BYTES;

/// Saved states that wait to be restored, at most; compilers nest no more than two.
const SAVED_MAX: usize = 32;

/// What the instructions have said so far.
#[derive(Clone, Copy, Debug)]
struct CfaState {
    cfa: Cfa,
    return_address: ReturnAddress,
    frame_pointer: RuleAndOffset,
}

#[derive(Clone, Copy, Debug)]
enum Cfa {
    Register(Register, i64),
    /// By an expression, if rows know it, or not said.
    Other(Option<RuleAndOffset>),
}

#[derive(Clone, Copy, Debug)]
enum ReturnAddress {
    /// The word below the CFA, where a call leaves it.
    BelowCfa,
    /// Said to be nowhere: the code has no caller (`_start`). A CIE says where it is, so this is
    /// said on purpose.
    Nowhere,
    /// In a register of the function's own (vfork).
    In(Register),
    /// Not said, or elsewhere.
    Other,
}

impl CfaState {
    const UNSAID: Self =
        Self { cfa: Cfa::Other(None), return_address: ReturnAddress::Other, frame_pointer: SAME };

    fn rule(&self) -> Rule {
        let cfa = match self.cfa {
            Cfa::Register(register, offset) => cfa_at_register(register, offset),
            Cfa::Other(rule) => rule,
        };
        let cfa = match self.return_address {
            ReturnAddress::Nowhere => return Rule::END,
            ReturnAddress::BelowCfa => cfa,
            ReturnAddress::In(register) => {
                cfa.and_then(|cfa| cfa_of_return_register(cfa, register))
            }
            ReturnAddress::Other => None,
        };
        cfa.map_or(Rule::INEXPRESSIBLE, |cfa| Rule::new(cfa, self.frame_pointer))
    }
}

/// An instruction makes no sense where it is.
#[derive(Debug)]
pub(crate) struct Damaged;

/// The state of a table while its instructions are run.
pub(crate) struct Program<'s, S> {
    section: &'s S,
    code_factor: u64,
    data_factor: i64,
    state: CfaState,
    /// What a CIE says of all its FDEs, once that is known.
    initial: Option<CfaState>,
    saved: Vec<CfaState>,
}

impl<'s, 'a, S: UnwindSection<Slice<'a>>> Program<'s, S> {
    pub(crate) fn new(section: &'s S, cie: &CommonInformationEntry<Slice<'a>>) -> Self {
        Self {
            section,
            code_factor: cie.code_alignment_factor(),
            data_factor: cie.data_alignment_factor(),
            state: CfaState::UNSAID,
            initial: None,
            saved: Vec::new(),
        }
    }

    /// What has been said so far is true of all FDEs of the CIE.
    pub(crate) fn is_initial(&mut self) {
        self.initial = Some(self.state);
    }

    /// The rule that holds now.
    pub(crate) fn rule(&self) -> Rule {
        self.state.rule()
    }

    /// Runs an instruction, which belongs to code at `address`; where the next belongs to, if that
    /// is elsewhere.
    pub(crate) fn run(
        &mut self,
        instruction: CallFrameInstruction<usize>,
        address: u64,
    ) -> Result<Option<u64>, Damaged> {
        use CallFrameInstruction::{AdvanceLoc, RememberState, RestoreState, SetLoc};
        match instruction {
            SetLoc { address: next } => {
                return if next >= address { Ok(Some(next)) } else { Err(Damaged) };
            }
            AdvanceLoc { delta } => {
                let bytes = u64::from(delta).checked_mul(self.code_factor);
                let next = bytes.and_then(|bytes| address.checked_add(bytes));
                return next.map(Some).ok_or(Damaged);
            }
            RememberState if self.saved.len() == SAVED_MAX => return Err(Damaged),
            RememberState => self.saved.push(self.state),
            RestoreState => self.state = self.saved.pop().ok_or(Damaged)?,
            _ if self.run_cfa(&instruction)? => {}
            _ => self.run_register(instruction)?,
        }
        Ok(None)
    }

    /// Runs an instruction that says where the CFA is; whether it is one.
    fn run_cfa(&mut self, instruction: &CallFrameInstruction<usize>) -> Result<bool, Damaged> {
        use CallFrameInstruction::{
            DefCfa, DefCfaExpression, DefCfaOffset, DefCfaOffsetSf, DefCfaRegister, DefCfaSf,
        };
        self.state.cfa = match (instruction, self.state.cfa) {
            (DefCfa { register, offset }, _) => Cfa::Register(*register, *offset as i64),
            (DefCfaSf { register, factored_offset }, _) => {
                Cfa::Register(*register, self.factored(*factored_offset))
            }
            (DefCfaExpression { expression }, _) => {
                let expression = expression.get(self.section).map_err(|_| Damaged)?;
                Cfa::Other(cfa_by_expression(expression))
            }
            (DefCfaRegister { register }, Cfa::Register(_, offset)) => {
                Cfa::Register(*register, offset)
            }
            (DefCfaOffset { offset }, Cfa::Register(register, _)) => {
                Cfa::Register(register, *offset as i64)
            }
            (DefCfaOffsetSf { factored_offset }, Cfa::Register(register, _)) => {
                Cfa::Register(register, self.factored(*factored_offset))
            }
            (DefCfaRegister { .. } | DefCfaOffset { .. } | DefCfaOffsetSf { .. }, _) => {
                return Err(Damaged);
            }
            _ => return Ok(false),
        };
        Ok(true)
    }

    /// Runs an instruction that says where a register of the caller is.
    fn run_register(&mut self, instruction: CallFrameInstruction<usize>) -> Result<(), Damaged> {
        use CallFrameInstruction::{
            Expression, Offset, OffsetExtendedSf, Register, Restore, SameValue, Undefined,
            ValExpression, ValOffset, ValOffsetSf,
        };
        match instruction {
            Offset { register, factored_offset } => {
                self.set_saved(register, self.factored(factored_offset as i64));
            }
            OffsetExtendedSf { register, factored_offset } => {
                self.set_saved(register, self.factored(factored_offset));
            }
            Undefined { register } => self.set(register, ReturnAddress::Nowhere, LOST),
            SameValue { register } => self.set(register, ReturnAddress::Other, SAME),
            Expression { register, expression } => {
                let expression = expression.get(self.section).map_err(|_| Damaged)?;
                if register == FRAME_POINTER {
                    self.state.frame_pointer = saved_by_expression(expression);
                } else {
                    self.set(register, ReturnAddress::Other, LOST);
                }
            }
            Restore { register } => {
                let initial = self.initial.ok_or(Damaged)?;
                self.set(register, initial.return_address, initial.frame_pointer);
            }
            Register { dest_register, src_register } => {
                self.set(dest_register, ReturnAddress::In(src_register), LOST);
            }
            ValOffset { register, .. }
            | ValOffsetSf { register, .. }
            | ValExpression { register, .. } => {
                self.set(register, ReturnAddress::Other, LOST);
            }
            _ => {}
        }
        Ok(())
    }

    /// The caller's `register` lies at CFA + `offset`.
    fn set_saved(&mut self, register: Register, offset: i64) {
        let is_below = offset == -WORD_BYTES;
        let below = if is_below { ReturnAddress::BelowCfa } else { ReturnAddress::Other };
        self.set(register, below, saved_at_cfa(offset));
    }

    /// Says where `register` is, in the words of whichever it is.
    fn set(
        &mut self,
        register: Register,
        return_address: ReturnAddress,
        frame_pointer: RuleAndOffset,
    ) {
        match register {
            RETURN_ADDRESS => self.state.return_address = return_address,
            FRAME_POINTER => self.state.frame_pointer = frame_pointer,
            _ => {}
        }
    }

    fn factored(&self, offset: i64) -> i64 {
        offset.wrapping_mul(self.data_factor)
    }
}
