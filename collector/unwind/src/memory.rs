//! Stacks as they lay in memory, for code whose tables came too late.

use crate::pieces::StackPieces;
use crate::walk::lookup_address;
use crate::{
    GeneralRegisters, Registers, UnwindRow, WalkEnd, interrupted_registers, running_registers, step,
};
use syscollect_records::MAX_FRAMES;
use syscollect_records::stack_ending;
use syscollect_records::unwind::{StackMemoryHeader, cfa_rule, frame_reached};

/// A frame is at most this far above the one it called, bytes, where frame pointers say so: what
/// the kernel programs take for one, too.
const FRAME_BYTES_MAX: u64 = 1 << 20;
const WORD: u64 = 8;

/// A stack as it lay in memory, from the last frame on that a walk had found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackMemory {
    /// That frame's.
    pub registers: Registers,
    /// How the walk came to it.
    pub reached: FrameReached,
    /// What lay at its stack pointer and above.
    pub stack: StackPieces,
}

/// How a walk came to a frame, which says what is known of it: [`frame_reached`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameReached {
    /// It called, as unwind information says.
    #[default]
    Called,
    /// It called, as a frame pointer says: whose rbp is 0 now is the thread's first function.
    Linked,
    /// Its ip is where it stood, see [`lookup_address`].
    Stands {
        /// Its registers.
        general: GeneralRegisters,
        /// Whether the word at its stack pointer is where it returns to, if its code has no unwind
        /// information; `None` if nobody has looked at its code.
        returns_at_sp: Option<bool>,
    },
}

impl FrameReached {
    /// What the kernel programs say of a walk's last frame.
    pub fn of(header: &StackMemoryHeader) -> Self {
        let StackMemoryHeader { registers: saved, returns_at_sp, .. } = header;
        let general = match header.reached {
            frame_reached::LINKED => return Self::Linked,
            frame_reached::RUNNING => running_registers(saved),
            frame_reached::INTERRUPTED => interrupted_registers(saved),
            _ => return Self::Called,
        };
        Self::Stands { general, returns_at_sp: Some(*returns_at_sp != 0) }
    }

    fn stands(&self) -> bool {
        matches!(self, Self::Stands { .. })
    }

    fn general(&self) -> Option<&GeneralRegisters> {
        match self {
            Self::Stands { general, .. } => Some(general),
            Self::Called | Self::Linked => None,
        }
    }
}

/// What is known of the code at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeAt {
    /// How its caller is found, or that nothing is known of that ([`cfa_rule::NONE`]).
    Row(UnwindRow),
    /// Its file cannot be asked.
    Unknown,
    /// There is no code.
    Nothing,
}

/// The callers of a stack's last known frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// Their addresses, the innermost first; the last known frame's is not among them. The byte
    /// before each lies in the caller's code: the address is where a call returns to, or one more
    /// than where a signal interrupted it.
    pub addresses: Vec<u64>,
    /// Why there may be more, one of [`stack_ending`]; 0 where the thread's first function is the
    /// last.
    pub truncated: u32,
}

impl StackMemory {
    /// Walks on from the last known frame, by what `code` says of addresses; a stack that has
    /// `known` frames goes on up to as many as are recorded.
    ///
    /// ```
    /// use syscollect_records::unwind::{UnwindRow, cfa_rule};
    /// use syscollect_unwind::{CodeAt, FrameReached, Registers, StackMemory, StackPieces};
    ///
    /// // A function with nothing on the stack but where it returns to, which is a thread's first.
    /// let memory = StackMemory {
    ///     registers: Registers { ip: 0x1000, sp: 0x7f00, bp: 0 },
    ///     reached: FrameReached::Stands { general: [0; 16], returns_at_sp: Some(false) },
    ///     stack: StackPieces::from(0x7f00, 0x2000_u64.to_ne_bytes().to_vec()),
    /// };
    /// fn row(cfa: u8) -> CodeAt {
    ///     CodeAt::Row(UnwindRow { cfa, cfa_offset: 1, ..UnwindRow::default() })
    /// }
    /// let callers = memory.callers(1, |address| match address {
    ///     0x1000 => row(cfa_rule::RSP),
    ///     _ => row(cfa_rule::END),
    /// });
    /// assert_eq!((callers.addresses, callers.truncated), (vec![0x2000], 0));
    /// ```
    pub fn callers(&self, known: usize, mut code: impl FnMut(u64) -> CodeAt) -> Callers {
        let (mut registers, mut reached) = (self.registers, self.reached);
        let mut addresses = Vec::new();
        let truncated = loop {
            if known + addresses.len() >= MAX_FRAMES {
                break stack_ending::TOO_DEEP;
            }
            let (caller, without) = match code(lookup_address(registers.ip, reached.stands())) {
                CodeAt::Row(row) if row.cfa == cfa_rule::NONE => {
                    let caller = self.by_frame_pointer(&registers, &reached);
                    (caller, stack_ending::NO_UNWIND_INFORMATION)
                }
                CodeAt::Row(row) => {
                    let caller = self.by_row(row, &registers, &reached);
                    (caller, stack_ending::UNUSABLE_INFORMATION)
                }
                CodeAt::Unknown => break stack_ending::NO_TABLE_YET,
                // What led here was no caller's address.
                CodeAt::Nothing => {
                    addresses.pop();
                    break stack_ending::NO_UNWIND_INFORMATION;
                }
            };
            match caller {
                // Where a library makes a stack of its own, nothing has called its first function.
                Ok((Registers { ip: 0, .. }, _)) | Err(WalkEnd::End) => break 0,
                Ok((caller, how)) => {
                    (registers, reached) = (caller, how);
                    addresses.push(caller.ip.wrapping_add(u64::from(how.stands())));
                }
                // It lies where nothing was sent of: a table would have found it.
                Err(WalkEnd::Unreadable) => break stack_ending::BEYOND_MEMORY,
                Err(_) => break without,
            }
        };
        Callers { addresses, truncated }
    }

    fn by_row(
        &self,
        row: UnwindRow,
        registers: &Registers,
        reached: &FrameReached,
    ) -> Result<(Registers, FrameReached), WalkEnd> {
        let caller = step(registers, row, reached.general(), |address| self.word(address))?;
        let reached = caller.interrupted.map_or(FrameReached::Called, |general| {
            FrameReached::Stands { general, returns_at_sp: None }
        });
        Ok((caller.registers, reached))
    }

    fn read(&self, at: Option<u64>) -> Result<u64, WalkEnd> {
        at.and_then(|at| self.word(at)).ok_or(WalkEnd::Unreadable)
    }

    /// Frames of code that no table describes have their frame pointers, if anything.
    fn by_frame_pointer(
        &self,
        registers: &Registers,
        reached: &FrameReached,
    ) -> Result<(Registers, FrameReached), WalkEnd> {
        let Registers { sp, bp, .. } = *registers;
        match (bp, reached) {
            (_, FrameReached::Stands { returns_at_sp: Some(true), .. }) => {
                let (ip, sp) = (self.read(Some(sp))?, above(sp, 1).ok_or(WalkEnd::Unreadable)?);
                return Ok((Registers { ip, sp, bp }, FrameReached::Called));
            }
            // If it has no frame of its own, its frame pointer leads past its caller.
            (_, FrameReached::Stands { returns_at_sp: None, .. }) => {
                return Err(WalkEnd::Unusable);
            }
            (0, FrameReached::Linked) => return Err(WalkEnd::End),
            _ if bp < sp || bp - sp > FRAME_BYTES_MAX => return Err(WalkEnd::Unusable),
            _ => {}
        }
        let (caller_bp, ip) = (self.read(Some(bp))?, self.read(above(bp, 1))?);
        // Nor does a 0 say anything that lies behind where some other register's value leads.
        if ip == 0 && *reached != FrameReached::Linked {
            return Err(WalkEnd::Unusable);
        }
        let sp = above(bp, 2).ok_or(WalkEnd::Unreadable)?;
        Ok((Registers { ip, sp, bp: caller_bp }, FrameReached::Linked))
    }

    /// The word at an address, if it was sent.
    pub fn word(&self, address: u64) -> Option<u64> {
        self.stack.word(address)
    }
}

fn above(at: u64, words: u64) -> Option<u64> {
    at.checked_add(words * WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syscollect_records::unwind::{SAVED_REGISTERS, frame_pointer_rule};

    const STACK: u64 = 0x7fff_0000;
    /// What the functions of these tests push before they call.
    const FRAME: i16 = 4;

    fn row(cfa: u8, cfa_offset: i16) -> CodeAt {
        CodeAt::Row(UnwindRow { cfa, cfa_offset, ..UnwindRow::default() })
    }

    /// A stack of functions that each push three words and call the next; the first one is the
    /// thread's, at 0x1000.
    fn stack(callers: &[u64]) -> StackMemory {
        let mut words = Vec::new();
        for caller in callers {
            words.extend([1, 2, 3, *caller]);
        }
        let registers = Registers { ip: 0x5000, sp: STACK, bp: 0 };
        let reached = FrameReached::Stands { general: [0; 16], returns_at_sp: Some(false) };
        StackMemory { registers, reached, stack: of_words(STACK, &words) }
    }

    fn of_words(start: u64, words: &[u64]) -> StackPieces {
        StackPieces::from(start, words.iter().flat_map(|word| word.to_ne_bytes()).collect())
    }

    fn code(address: u64) -> CodeAt {
        match address {
            0x1000..0x1100 => row(cfa_rule::END, 0),
            0x2000..0x6000 => row(cfa_rule::RSP, FRAME),
            0x6000..0x7000 => CodeAt::Unknown,
            0x7000..0x8000 => row(cfa_rule::NONE, 0),
            0x9000..0x9100 => row(cfa_rule::INEXPRESSIBLE, 0),
            _ => CodeAt::Nothing,
        }
    }

    #[test]
    fn a_stack_is_walked_up_to_its_threads_first_function() {
        let callers = stack(&[0x4010, 0x3010, 0x1010]).callers(1, code);
        assert_eq!(callers.addresses, [0x4010, 0x3010, 0x1010]);
        assert_eq!(callers.truncated, 0);
    }

    #[test]
    fn a_call_at_the_end_of_a_function_is_this_functions() {
        // The byte behind it belongs to code of which nothing is known.
        let callers = stack(&[0x6000, 0x1010]).callers(1, code);
        assert_eq!(callers.addresses, [0x6000, 0x1010]);
        assert_eq!(callers.truncated, 0);
    }

    #[test]
    fn what_ends_a_walk_is_told() {
        let unknown = stack(&[0x4010, 0x6010, 0x1010]).callers(1, code);
        assert_eq!(unknown.addresses, [0x4010, 0x6010]);
        assert_eq!(unknown.truncated, stack_ending::NO_TABLE_YET);
        let beyond = stack(&[0x4010]).callers(1, code);
        assert_eq!(
            (beyond.addresses, beyond.truncated),
            (vec![0x4010], stack_ending::BEYOND_MEMORY)
        );
        let damaged = stack(&[0x4010, 0x99]).callers(1, code);
        assert_eq!(damaged.addresses, [0x4010], "what is no code is no caller");
        assert_eq!(damaged.truncated, stack_ending::NO_UNWIND_INFORMATION);
        let nobody = stack(&[0x4010, 0]).callers(1, code);
        assert_eq!((nobody.addresses, nobody.truncated), (vec![0x4010], 0));
    }

    #[test]
    fn a_frame_larger_than_what_is_sent_is_passed_where_its_end_was_sent() {
        // The second function keeps half a megabyte, of which nothing is known.
        let far = UnwindRow { cfa: cfa_rule::RSP_FAR, cfa_offset: 0x7fff, ..UnwindRow::default() };
        let large = |address| match address {
            0x4000..0x5000 => CodeAt::Row(far),
            address => code(address),
        };
        let mut memory = stack(&[0x4010]);
        assert_eq!(memory.callers(1, large).truncated, stack_ending::BEYOND_MEMORY);
        let end = STACK + 4 * WORD + 0x7fff * 16;
        let outer: Vec<u8> = [0x3010_u64, 1, 2, 3, 0x1010].map(u64::to_ne_bytes).concat();
        assert!(memory.stack.add(end - WORD, &outer));
        let callers = memory.callers(1, large);
        assert_eq!((callers.addresses, callers.truncated), (vec![0x4010, 0x3010, 0x1010], 0));
    }

    #[test]
    fn what_a_signal_interrupted_is_found_a_byte_before_its_address() {
        // The handler returns to 0x8000, above which the kernel has kept registers: ip, which is
        // the first byte of a function, and the stack pointer.
        let mut words = [0; 0x40];
        words[3] = 0x8000;
        let kept = usize::from(FRAME.unsigned_abs());
        (words[kept + 20], words[kept + 21], words[0x33]) = (STACK + 0x180, 0x2000, 0x1010);
        let memory = StackMemory { stack: of_words(STACK, &words), ..stack(&[]) };
        let callers = memory.callers(1, |address| match address {
            0x7fff => row(cfa_rule::SIGNAL, 0),
            address => code(address),
        });
        assert_eq!(callers.addresses, [0x8000, 0x2001, 0x1010]);
        assert_eq!(callers.truncated, 0);
    }

    #[test]
    fn code_without_rows_is_walked_by_frame_pointers() {
        let mut memory = stack(&[0x4010, 0x1010]);
        memory.registers = Registers { ip: 0x7010, bp: STACK + 16, ..memory.registers };
        // rbp leads to the third word, 3; the next one is where that returns to.
        let callers = memory.callers(1, code);
        assert_eq!(callers.addresses, [0x4010, 0x1010]);
        memory.registers.bp = STACK - 8;
        assert_eq!(memory.callers(1, code).truncated, stack_ending::NO_UNWIND_INFORMATION);
    }

    #[test]
    fn what_is_said_but_not_understood_ends_a_stack_though_rbp_leads_on() {
        let mut memory = stack(&[0x4010, 0x1010]);
        memory.registers = Registers { ip: 0x9010, bp: STACK + 16, ..memory.registers };
        let callers = memory.callers(1, code);
        let unusable = stack_ending::UNUSABLE_INFORMATION;
        assert_eq!((callers.addresses, callers.truncated), (vec![], unusable));
    }

    #[test]
    fn a_lost_frame_pointer_is_no_threads_beginning() {
        let callers = stack(&[0x7010, 0x1010]).callers(1, |address| match address {
            0x5000 => CodeAt::Row(UnwindRow {
                cfa: cfa_rule::RSP,
                cfa_offset: FRAME,
                frame_pointer: frame_pointer_rule::LOST,
                ..UnwindRow::default()
            }),
            address => code(address),
        });
        let cut = stack_ending::NO_UNWIND_INFORMATION;
        assert_eq!((callers.addresses, callers.truncated), (vec![0x7010], cut));
    }

    #[test]
    fn rbp_is_0_at_a_threads_beginning_only_where_frame_pointers_led() {
        // Two functions of code without rows, of which the second was called with an rbp of 0.
        let words = [STACK + 16, 5, 0, 0x7020];
        let mut memory = stack(&[]);
        memory.stack = of_words(STACK, &words);
        memory.registers = Registers { ip: 0x7010, bp: STACK + 16, ..memory.registers };
        let callers = memory.callers(1, code);
        assert_eq!((callers.addresses, callers.truncated), (vec![0x7020], 0));
        // To a function that keeps none it is a register like any other.
        memory.registers.bp = 0;
        let cut = stack_ending::NO_UNWIND_INFORMATION;
        assert_eq!(memory.callers(1, code).truncated, cut);
        memory.reached = FrameReached::Called;
        assert_eq!(memory.callers(1, code).truncated, cut);
        memory.reached = FrameReached::Linked;
        assert_eq!(memory.callers(1, code).truncated, 0);
        // Nor does the 0 end a stack that lies behind where rbp leads: Haskell's is one of numbers.
        memory.stack = of_words(STACK, &[7, 0]);
        memory.registers.bp = STACK;
        assert_eq!(memory.callers(1, code).truncated, 0);
        memory.reached = FrameReached::Called;
        assert_eq!(memory.callers(1, code).truncated, cut);
        memory.reached = FrameReached::Stands { general: [0; 16], returns_at_sp: Some(false) };
        assert_eq!(memory.callers(1, code).truncated, cut);
    }

    #[test]
    fn a_function_without_frame_and_rows_returns_where_the_programs_say() {
        let mut memory = stack(&[0x4010, 0x1010]);
        let (ip, sp) = (0x7010, STACK + 3 * WORD);
        // rbp is of the caller's caller.
        memory.registers = Registers { ip, sp, bp: STACK + 48 };
        let skipped = memory.callers(1, code);
        assert_eq!(skipped.addresses, [0x1010]);
        memory.reached = FrameReached::Stands { general: [0; 16], returns_at_sp: Some(true) };
        let callers = memory.callers(1, code);
        assert_eq!((callers.addresses, callers.truncated), (vec![0x4010, 0x1010], 0));
        // As below the frame of a signal, where the programs have not looked.
        memory.reached = FrameReached::Stands { general: [0; 16], returns_at_sp: None };
        let callers = memory.callers(1, code);
        let cut = stack_ending::NO_UNWIND_INFORMATION;
        assert_eq!((callers.addresses, callers.truncated), (vec![], cut));
    }

    #[test]
    fn registers_of_the_innermost_frame_lead_on_and_those_of_callers_do_not() {
        let mut general = GeneralRegisters::default();
        (general[10], general[5]) = (STACK + 32, 0x2010);
        let mut memory = stack(&[0x4010, 0x1010]);
        memory.registers.ip = 0x9000;
        memory.reached = FrameReached::Stands { general, returns_at_sp: Some(false) };
        assert_eq!(memory.callers(1, by_r10).addresses, [0x4010, 0x1010]);
        memory.registers.ip = 0x9100;
        assert_eq!(memory.callers(1, by_r10).addresses, [0x2010, 0x4010, 0x1010]);
        (memory.registers.ip, memory.reached) = (0x9001, FrameReached::Called);
        let callers = memory.callers(1, by_r10);
        let unusable = stack_ending::UNUSABLE_INFORMATION;
        assert_eq!((callers.addresses, callers.truncated), (vec![], unusable));
    }

    fn by_r10(address: u64) -> CodeAt {
        match address {
            0x9000 => row(cfa_rule::REGISTER | 10, 0),
            0x9100 => row(cfa_rule::RETURN_REGISTER | 5, 0),
            address => code(address),
        }
    }

    #[test]
    fn what_the_programs_say_of_the_last_frame_is_understood() {
        assert_eq!(header(frame_reached::CALLED), FrameReached::Called);
        assert_eq!(header(frame_reached::LINKED), FrameReached::Linked);
        let running = general(frame_reached::RUNNING);
        assert_eq!((running[15], running[5]), (15, 5));
        let interrupted = general(frame_reached::INTERRUPTED);
        assert_eq!((interrupted[8], interrupted[2]), (15, 5));
    }

    fn general(reached: u16) -> [u64; 16] {
        header(reached).general().copied().unwrap()
    }

    fn header(reached: u16) -> FrameReached {
        let mut registers = [0; SAVED_REGISTERS];
        (registers[0], registers[14]) = (15, 5);
        FrameReached::of(&StackMemoryHeader { reached, registers, ..Default::default() })
    }

    #[test]
    fn no_stack_has_more_frames_than_are_recorded() {
        let callers = stack(&[0x4010; 300]).callers(100, code);
        assert_eq!(callers.addresses.len(), MAX_FRAMES - 100);
        assert_eq!(callers.truncated, stack_ending::TOO_DEEP);
    }

    proptest! {
        #[test]
        fn any_memory_is_walked_to_an_end(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
            registers in any::<[u64; 3]>(),
            rules in proptest::collection::vec(any::<(u8, u8, i16, i16)>(), 1..5),
            general in any::<GeneralRegisters>(),
            returns_at_sp in any::<Option<bool>>(),
        ) {
            let [ip, sp, bp] = registers;
            let registers = Registers { ip, sp, bp };
            let reached = FrameReached::Stands { general, returns_at_sp };
            let memory = StackMemory { registers, reached, stack: StackPieces::from(sp, bytes) };
            let mut asked = 0;
            let callers = memory.callers(1, |address| {
                asked += 1;
                let (cfa, frame_pointer, cfa_offset, saved_offset) =
                    rules[address as usize % rules.len()];
                CodeAt::Row(UnwindRow { address: 0, cfa, frame_pointer, cfa_offset, saved_offset })
            });
            prop_assert!(callers.addresses.len() < MAX_FRAMES && asked <= MAX_FRAMES);
        }
    }
}
