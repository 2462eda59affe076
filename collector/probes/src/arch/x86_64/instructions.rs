//! Machine code as far as it matters for where a function ends: where each
//! instruction leads, and what it does to the stack pointer.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

/// Where an instruction leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// To the next one.
    Next,
    /// To the next one, if what it calls returns.
    Call,
    /// There or to the next one.
    Branch(u64),
    /// There.
    Jump(u64),
    /// To where a register or the memory says.
    Indirect {
        /// It may be the jump of a `switch`, by what its target was made of.
        is_table: bool,
    },
    /// To the caller.
    Return,
    /// NullExporter.
    Stop,
}

/// What an instruction does to the depth of the stack: how far below its place
/// at the function's entry the stack pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    /// It grows by so much.
    By(i64),
    /// It becomes this.
    To(i64),
    /// It becomes something that cannot be told.
    Lost,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodedInstruction {
    /// Where it lies.
    pub(crate) at: u64,
    /// Its bytes.
    pub(crate) length: u8,
    pub(crate) flow: Flow,
    pub(crate) stack: Stack,
    /// It fills a gap.
    pub(crate) is_padding: bool,
    /// The kernel takes no probe on it.
    pub(crate) is_unprobed: bool,
}

impl DecodedInstruction {
    pub(crate) fn next(&self) -> u64 {
        self.at.wrapping_add(u64::from(self.length))
    }
}

/// Depth where the frame pointer points to, which is pushed first.
const FRAME_POINTER: i64 = 8;
/// Prefixes with which the kernel takes no probe: LOCK, and those of segments that are none.
const PREFIXES_REFUSED: [u8; 5] = [0xf0, 0x26, 0x2e, 0x36, 0x3e];

/// The instructions of code that lies at `at`; `None` where it holds something
/// that is none, or the last one is cut.
pub(crate) fn decode_instructions(code: &[u8], at: u64) -> Option<Vec<DecodedInstruction>> {
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    let (mut instructions, mut sources) = (Vec::new(), Sources::default());
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let from = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        let bytes = &code[from..from + instruction.len()];
        let notrack = bytes[0] == 0x3e;
        instructions.push(DecodedInstruction {
            at: instruction.ip(),
            length: instruction.len() as u8,
            flow: flow(&instruction, notrack, &sources),
            stack: stack(&instruction),
            is_padding: matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
                || is_zeros(bytes),
            is_unprobed: bytes
                .iter()
                .take_while(|byte| is_prefix(**byte))
                .any(|byte| PREFIXES_REFUSED.contains(byte)),
        });
        sources.note(&instruction);
    }
    Some(instructions)
}

fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x66 | 0x67 | 0xf2 | 0xf3 | 0x64 | 0x65 | 0x40..=0x4f)
        || PREFIXES_REFUSED.contains(&byte)
}

/// Zeros are an instruction too, one that nobody writes.
fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn flow(instruction: &Instruction, notrack: bool, sources: &Sources) -> Flow {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch if is_near(instruction) => {
            Flow::Jump(instruction.near_branch_target())
        }
        FlowControl::ConditionalBranch if is_near(instruction) => {
            Flow::Branch(instruction.near_branch_target())
        }
        FlowControl::IndirectBranch => {
            Flow::Indirect { is_table: notrack || sources.may_be_table(instruction) }
        }
        FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
        FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => Flow::Return,
        FlowControl::Return | FlowControl::Exception | FlowControl::UnconditionalBranch => {
            Flow::Stop
        }
        FlowControl::Interrupt if instruction.code() == Code::Int3 => Flow::Stop,
        _ if instruction.mnemonic() == Mnemonic::Hlt => Flow::Stop,
        _ => Flow::Next,
    }
}

fn is_near(instruction: &Instruction) -> bool {
    matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    )
}

fn stack(instruction: &Instruction) -> Stack {
    match instruction.mnemonic() {
        // What is called takes its return address away again; what returns is not of interest.
        Mnemonic::Call | Mnemonic::Ret => Stack::By(0),
        Mnemonic::Leave => Stack::To(FRAME_POINTER - 8),
        Mnemonic::Enter => Stack::Lost,
        _ if instruction.op_count() == 0 || !writes_stack_pointer(instruction) => {
            Stack::By(-i64::from(instruction.stack_pointer_increment()))
        }
        Mnemonic::Add => {
            immediate(instruction).map_or(Stack::Lost, |value| Stack::By(value.wrapping_neg()))
        }
        Mnemonic::Sub => immediate(instruction).map_or(Stack::Lost, Stack::By),
        Mnemonic::Mov if instruction.op1_register() == Register::RBP => Stack::To(FRAME_POINTER),
        Mnemonic::Lea => moved_stack(instruction),
        Mnemonic::Cmp | Mnemonic::Test => Stack::By(0),
        _ => Stack::Lost,
    }
}

/// The second operand, a number.
fn immediate(instruction: &Instruction) -> Option<i64> {
    instruction.try_immediate(1).ok().map(|value| value as i64)
}

fn writes_stack_pointer(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && matches!(instruction.op0_register(), Register::RSP | Register::ESP | Register::SP)
        && instruction.mnemonic() != Mnemonic::Push
}

/// The stack pointer becomes an address by another register.
fn moved_stack(instruction: &Instruction) -> Stack {
    let displacement = instruction.memory_displacement64() as i64;
    match (instruction.memory_base(), instruction.memory_index()) {
        (Register::RSP, Register::None) => Stack::By(displacement.wrapping_neg()),
        (Register::RBP, Register::None) => Stack::To(FRAME_POINTER.wrapping_sub(displacement)),
        // So compilers align the stack: another register keeps what was above the return address.
        (_, Register::None) => Stack::To(displacement.wrapping_neg().wrapping_sub(8)),
        _ => Stack::Lost,
    }
}

/// Which registers hold a sum or an entry of a table, by the instructions
/// above in the order in which they lie.
#[derive(Default)]
struct Sources {
    of_tables: [bool; 16],
}

impl Sources {
    /// Whether an indirect jump may be that of a `switch`: to an entry of a table, or to the sum of
    /// one and a place.
    fn may_be_table(&self, instruction: &Instruction) -> bool {
        match instruction.op0_kind() {
            OpKind::Register => self.holds(instruction.op0_register()),
            _ => instruction.memory_index() != Register::None,
        }
    }

    fn holds(&self, register: Register) -> bool {
        register.is_gpr() && self.of_tables[register.full_register().number()]
    }

    fn note(&mut self, instruction: &Instruction) {
        if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register {
            return;
        }
        let written = instruction.op0_register();
        if !written.is_gpr() {
            return;
        }
        let of_table = match instruction.mnemonic() {
            Mnemonic::Add | Mnemonic::Sub => true,
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                self.holds(instruction.op1_register())
            }
            // The entries of a table of addresses have 8 bytes; what is not scaled is a field of an
            // object.
            Mnemonic::Mov => {
                instruction.memory_index() != Register::None
                    && instruction.memory_index_scale() == 8
            }
            Mnemonic::Movsxd | Mnemonic::Lea => instruction.memory_index() != Register::None,
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push | Mnemonic::Jmp | Mnemonic::Call => {
                return;
            }
            _ => false,
        };
        self.of_tables[written.full_register().number()] = of_table;
    }
}
