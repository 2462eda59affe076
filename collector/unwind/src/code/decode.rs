//! What instructions do to the stack pointer and the frame pointer, and where they lead.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};

/// Where an instruction leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// To the next one.
    Next,
    /// There, and back to the next one; `None` where a register or the memory says where.
    Call(Option<u64>),
    /// There or to the next one.
    Branch(u64),
    /// There.
    Jump(u64),
    /// To where a register or a table says.
    Anywhere,
    /// To the caller.
    Return,
    /// Nowhere.
    Stop,
}

/// What an instruction does to the depth of the stack: how many bytes below the return address the
/// stack pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StackChange {
    /// It grows by so much.
    By(i64),
    /// The stack pointer is the frame pointer plus so much.
    ToFramePointer(i64),
    /// It is something that cannot be told.
    Lost,
}

/// What it does to the frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramePointerChange {
    Kept,
    /// It is the stack pointer plus so much.
    ToStackPointer(i64),
    /// It is kept, and stored at the stack pointer plus so much, by what that was before.
    Stored(i64),
    /// It is what lies there.
    Loaded(i64),
    /// It is what `leave` loads: it lies where the frame pointer leads.
    Left,
    /// It is something else.
    Lost,
}

/// An instruction, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstructionEffects {
    pub(super) at: u64,
    pub(super) length: u8,
    pub(super) flow: Flow,
    pub(super) stack: StackChange,
    pub(super) frame_pointer: FramePointerChange,
    pub(super) kind: InstructionKind,
}

/// Instructions that mean something beside what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstructionKind {
    Other,
    /// It fills a gap.
    Padding,
    /// It puts the number of `rt_sigreturn` into eax.
    SignalReturnNumber,
    SystemCall,
    /// It makes the frame pointer 0, as the first function of a thread does (System V ABI, AMD64,
    /// 3.4.1).
    ZeroesFramePointer,
}

impl InstructionEffects {
    pub(super) fn end(&self) -> u64 {
        self.at.wrapping_add(u64::from(self.length))
    }
}

const WORD: i64 = 8;
/// `rt_sigreturn` of x86-64.
const SIGNAL_RETURN: u64 = 15;

/// The instructions of code at `address`, one behind the other; what is none is passed over byte by
/// byte.
pub(super) fn decode(code: &[u8], address: u64) -> Vec<InstructionEffects> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut info = InstructionInfoFactory::new();
    let mut instruction = Instruction::default();
    let mut decoded = Vec::new();
    while decoder.can_decode() {
        let position = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            let next = position + 1;
            if decoder.set_position(next).is_err() {
                break;
            }
            decoder.set_ip(address.wrapping_add(next as u64));
            continue;
        }
        decoded.push(effects(&instruction, &mut info));
    }
    decoded
}

fn effects(instruction: &Instruction, info: &mut InstructionInfoFactory) -> InstructionEffects {
    let written = WrittenRegisters::by(instruction, info);
    InstructionEffects {
        at: instruction.ip(),
        length: instruction.len() as u8,
        flow: flow(instruction),
        stack: stack_change(instruction, written.stack_pointer),
        frame_pointer: frame_pointer_change(instruction, written.frame_pointer),
        kind: kind(instruction),
    }
}

/// Which of the two registers an instruction may write.
struct WrittenRegisters {
    stack_pointer: bool,
    frame_pointer: bool,
}

impl WrittenRegisters {
    fn by(instruction: &Instruction, info: &mut InstructionInfoFactory) -> Self {
        let mut written = Self { stack_pointer: false, frame_pointer: false };
        for used in info.info(instruction).used_registers() {
            if matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
            {
                continue;
            }
            match used.register().full_register() {
                Register::RSP => written.stack_pointer = true,
                Register::RBP => written.frame_pointer = true,
                _ => {}
            }
        }
        written
    }
}

fn flow(instruction: &Instruction) -> Flow {
    let is_near = instruction.op0_kind() == OpKind::NearBranch64;
    let target = instruction.near_branch64();
    match instruction.flow_control() {
        // It goes on behind itself, which iced takes for a call.
        _ if instruction.mnemonic() == Mnemonic::Syscall => Flow::Next,
        // Programs may not halt the CPU.
        _ if instruction.mnemonic() == Mnemonic::Hlt => Flow::Stop,
        FlowControl::Next => Flow::Next,
        FlowControl::Call | FlowControl::IndirectCall => Flow::Call(is_near.then_some(target)),
        FlowControl::ConditionalBranch => Flow::Branch(target),
        FlowControl::UnconditionalBranch if is_near => Flow::Jump(target),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Flow::Anywhere,
        FlowControl::Return if is_near_return(instruction) => Flow::Return,
        _ => Flow::Stop,
    }
}

fn is_near_return(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16)
}

fn stack_change(instruction: &Instruction, is_written: bool) -> StackChange {
    if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
        return StackChange::By(0);
    }
    if instruction.mnemonic() == Mnemonic::Leave {
        return StackChange::ToFramePointer(WORD);
    }
    let is_to_stack_pointer =
        instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP;
    if is_to_stack_pointer {
        return match instruction.mnemonic() {
            Mnemonic::Add => immediate(instruction)
                .map_or(StackChange::Lost, |by| StackChange::By(by.wrapping_neg())),
            Mnemonic::Sub => immediate(instruction).map_or(StackChange::Lost, StackChange::By),
            Mnemonic::Lea => match memory_beside(instruction) {
                Some((Register::RSP, by)) => StackChange::By(by.wrapping_neg()),
                Some((Register::RBP, by)) => StackChange::ToFramePointer(by),
                _ => StackChange::Lost,
            },
            Mnemonic::Mov if is_register(instruction, 1, Register::RBP) => {
                StackChange::ToFramePointer(0)
            }
            // It is read only: `push rsp`, `test rsp, rsp`.
            _ if !is_written => StackChange::By(0),
            Mnemonic::Push => StackChange::By(WORD),
            _ => StackChange::Lost,
        };
    }
    match instruction.stack_pointer_increment() {
        0 if is_written => StackChange::Lost,
        by => StackChange::By(-i64::from(by)),
    }
}

fn frame_pointer_change(instruction: &Instruction, is_written: bool) -> FramePointerChange {
    let mnemonic = instruction.mnemonic();
    match mnemonic {
        Mnemonic::Leave => return FramePointerChange::Left,
        Mnemonic::Push if is_frame_pointer(instruction, 0) => {
            return FramePointerChange::Stored(-WORD);
        }
        Mnemonic::Pop if is_frame_pointer(instruction, 0) => return FramePointerChange::Loaded(0),
        Mnemonic::Mov
            if is_frame_pointer(instruction, 0) && is_register(instruction, 1, Register::RSP) =>
        {
            return FramePointerChange::ToStackPointer(0);
        }
        Mnemonic::Mov | Mnemonic::Lea => {
            if let Some((Register::RSP, at)) = memory_beside(instruction) {
                match mnemonic {
                    Mnemonic::Lea if is_frame_pointer(instruction, 0) => {
                        return FramePointerChange::ToStackPointer(at);
                    }
                    Mnemonic::Mov if is_frame_pointer(instruction, 0) => {
                        return FramePointerChange::Loaded(at);
                    }
                    Mnemonic::Mov if is_frame_pointer(instruction, 1) => {
                        return FramePointerChange::Stored(at);
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
    if is_written { FramePointerChange::Lost } else { FramePointerChange::Kept }
}

fn is_frame_pointer(instruction: &Instruction, operand: u32) -> bool {
    is_register(instruction, operand, Register::RBP)
}

fn is_register(instruction: &Instruction, operand: u32, register: Register) -> bool {
    operand < instruction.op_count()
        && instruction.op_kind(operand) == OpKind::Register
        && instruction.op_register(operand) == register
}

/// The second operand, a number.
fn immediate(instruction: &Instruction) -> Option<i64> {
    match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => {
            Some(instruction.immediate(1).cast_signed())
        }
        _ => None,
    }
}

/// The register and the distance of a memory operand that has no other parts.
fn memory_beside(instruction: &Instruction) -> Option<(Register, i64)> {
    let has_memory =
        (0..instruction.op_count()).any(|number| instruction.op_kind(number) == OpKind::Memory);
    let is_plain = instruction.memory_index() == Register::None
        && instruction.segment_prefix() == Register::None;
    (has_memory && is_plain)
        .then(|| (instruction.memory_base(), instruction.memory_displacement64().cast_signed()))
}

fn kind(instruction: &Instruction) -> InstructionKind {
    match instruction.mnemonic() {
        Mnemonic::Nop | Mnemonic::Int3 => InstructionKind::Padding,
        // Two bytes of 0, as linkers put between sections.
        Mnemonic::Add if is_zeros(instruction) => InstructionKind::Padding,
        Mnemonic::Syscall => InstructionKind::SystemCall,
        Mnemonic::Mov if puts_into(instruction, Register::RAX) => {
            let is_number = matches!(
                instruction.op1_kind(),
                OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64
            );
            match is_number && instruction.immediate(1) == SIGNAL_RETURN {
                true => InstructionKind::SignalReturnNumber,
                false => InstructionKind::Other,
            }
        }
        Mnemonic::Xor
            if puts_into(instruction, Register::RBP)
                && instruction.op1_kind() == OpKind::Register
                && instruction.op1_register() == instruction.op0_register() =>
        {
            InstructionKind::ZeroesFramePointer
        }
        _ => InstructionKind::Other,
    }
}

/// Whether the first operand is the register, or a part of it.
fn puts_into(instruction: &Instruction, register: Register) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == register
}

fn is_zeros(instruction: &Instruction) -> bool {
    instruction.code() == Code::Add_rm8_r8
        && instruction.len() == 2
        && instruction.memory_base() == Register::RAX
        && instruction.op1_register() == Register::AL
        && instruction.memory_index() == Register::None
}
