//! Unwind tables as the kernel programs read them: where a function's caller is found.
//!
//! A table is a list of [`UnwindRow`]s for each 64 KiB of a file's code ([`PAGE_BYTES`]), sorted by
//! address. A row holds from its address up to the next row's. Offsets within files and not
//! addresses are looked up, so that every process that maps a file shares its tables.

use crate::arch;
use crate::{FieldLayout, Plain, StructLayout, bytes_of, read};

/// Bytes of code that have a list of rows of their own.
pub const PAGE_BYTES: u64 = 65_536;
/// Rows of one page at most; a page of ordinary code has about 1,000, of the densest code 5,000.
pub const ROWS_MAX: usize = 16_384;
/// Offsets in rows count words of so many bytes.
pub const WORD_BYTES: i64 = 8;

/// Bytes of a stack that one [`StackMemoryHeader`] announces, at most; parts begin at multiples of
/// it, so that none crosses a page.
pub const MEMORY_PART_BYTES: usize = 2048;
/// Parts that are sent of one stack at most: at least 62 KiB. Of threads that block, three of four
/// stacks need 5 KiB and nine of ten 11 KiB; compilers need 30 to 60, and are over before long.
pub const MEMORY_PARTS: usize = 32;
/// Parts that are sent of its outermost frames besides, where it is known where the stack begins: a
/// function of which one frame takes all that is sent (rustc's has 540 KB) is not far from there:
/// its own callers take up to 80 KB.
pub const MEMORY_TOP_PARTS: usize = 44;

/// How a frame's canonical frame address (CFA) is found, which is what the stack pointer was before
/// the call: [`UnwindRow::cfa`].
pub mod cfa_rule {
    /// There is no unwind information for this code.
    pub const NONE: u8 = 0;
    /// rsp + `cfa_offset` words.
    pub const RSP: u8 = 1;
    /// rbp + `cfa_offset` words.
    pub const RBP: u8 = 2;
    /// The word at rsp + `cfa_offset` words.
    pub const AT_RSP: u8 = 3;
    /// The same, plus one word.
    pub const AT_RSP_PLUS_WORD: u8 = 4;
    /// The word at rbp + `cfa_offset` words.
    pub const AT_RBP: u8 = 5;
    /// The same, plus one word.
    pub const AT_RBP_PLUS_WORD: u8 = 6;
    /// An entry of a procedure linkage table, 16 bytes: rsp + one word, and one more from byte
    /// `cfa_offset` of the entry on.
    pub const PLT: u8 = 7;
    /// The frame that the kernel makes for a signal handler: all registers lie there.
    pub const SIGNAL: u8 = 8;
    /// There is no caller: the thread begins here.
    pub const END: u8 = 9;
    /// rsp + `cfa_offset` pairs of words, without a sign: frames of 256 KiB to 1 MiB, such as that
    /// of the function below which all of rustc runs.
    pub const RSP_FAR: u8 = 10;
    /// There is unwind information that no row can express, or that cannot be read. Whoever guesses
    /// by frame pointers here leaves out the caller of a function that keeps none.
    pub const INEXPRESSIBLE: u8 = 11;
    /// Of Go's runtime on its thread's stack: the goroutine that this thread (m) runs says where its
    /// stack pointer was, at which lies where it goes on. It is `cfa_offset` words behind the
    /// thread's beginning.
    pub const GO_SYSTEM_STACK: u8 = 12;
    /// The same, where the goroutine keeps both, and its rbp `saved_offset` words behind its
    /// beginning. Where the thread runs none any more, its stack begins here.
    pub const GO_MORE_STACK: u8 = 13;
    /// Of Go's runtime where it has called C: the word at rsp + `cfa_offset` words is the goroutine,
    /// and that at rsp + `saved_offset` words how far below its stack's upper end the stack pointer
    /// was, at which lies where it goes on.
    pub const GO_C_STACK: u8 = 14;
    /// Plus a register's number (DWARF's): that register + `cfa_offset` words. Known only of code
    /// that did not call ([`frame_reached`](super::frame_reached)).
    pub const REGISTER: u8 = 0x10;
    /// Plus a register's number: rsp + `cfa_offset` words, and the return address is in that
    /// register. Known as `REGISTER` is.
    pub const RETURN_REGISTER: u8 = 0x20;
}

/// Where the caller's rbp is: [`UnwindRow::frame_pointer`].
pub mod frame_pointer_rule {
    /// Still in rbp.
    pub const SAME: u8 = 0;
    /// At CFA + `saved_offset` words.
    pub const AT_CFA: u8 = 1;
    /// At rbp + `saved_offset` words.
    pub const AT_RBP: u8 = 2;
    /// It cannot be found: [`LOST_FRAME_POINTER`](super::LOST_FRAME_POINTER) stands for it.
    pub const LOST: u8 = 3;
}

/// What stands for an rbp that is lost: no address, and not 0, with which chains of frame pointers
/// end.
pub const LOST_FRAME_POINTER: u64 = 1;

/// How a walk came to a frame, which says what is known of it: [`StackMemoryHeader::reached`]. Of
/// the last two ip is where the code stands, and all registers are known; of the others ip is where
/// a call returns to.
pub mod frame_reached {
    /// It called, as unwind information says.
    pub const CALLED: u16 = 0;
    /// It called, as a frame pointer says. The function that it called keeps frame pointers, and
    /// has saved its rbp: only here does an rbp of 0 say that the thread begins.
    pub const LINKED: u16 = 1;
    /// It is the innermost; the kernel has saved its registers, in the order of `struct pt_regs`.
    pub const RUNNING: u16 = 2;
    /// A signal interrupted it; its registers lie in the order of `struct sigcontext`.
    pub const INTERRUPTED: u16 = 3;
}

record! {
    /// A thread of a program that was asleep when all tasks were looked at. The addresses of its
    /// kernel stack follow.
    SleepingTask, 160 {
        /// The thread,
        tid: u32 as "__u32 tid",
        /// and its process.
        tgid: u32 as "__u32 tgid",
        /// 1 where it waits for I/O.
        io_wait: u32 as "__u32 io_wait",
        /// Addresses that follow, 8 bytes each, the innermost first.
        kernel_frames: u32 as "__u32 kernel_frames",
        /// How often it has left a CPU so far: another number says that it ran meanwhile.
        switches: u64 as "__u64 switches",
        /// Where it entered the kernel,
        ip: u64 as "__u64 ip",
        /// and its stack pointer there.
        sp: u64 as "__u64 sp",
        /// All its other registers there, in the order of `struct pt_regs`, as
        /// [`StackMemoryHeader::registers`] has them.
        registers: [u64; SAVED_REGISTERS] as "__u64 registers[15]",
    }
}

/// Registers in [`StackMemoryHeader::registers`].
pub const SAVED_REGISTERS: usize = arch::SAVED_REGISTERS;
/// Where the registers of DWARF's numbers 0 to 15 lie among those that the kernel has saved, four
/// bits for each, the lowest for the first.
pub const RUNNING_ORDER: u64 = arch::RUNNING_ORDER;
/// And among those of an interrupted frame.
pub const INTERRUPTED_ORDER: u64 = arch::INTERRUPTED_ORDER;

record! {
    /// From `address` on, the caller is found in this way. The return address is the word below the
    /// CFA.
    UnwindRow, 8 {
        /// Bytes from the page's beginning.
        address: u16 as "__u16 address",
        /// One of [`cfa_rule`].
        cfa: u8 as "__u8 cfa",
        /// One of [`frame_pointer_rule`].
        frame_pointer: u8 as "__u8 frame_pointer",
        /// In words, but for `PLT`, see [`cfa_rule`].
        cfa_offset: i16 as "__s16 cfa_offset",
        /// In words, see [`frame_pointer_rule`].
        saved_offset: i16 as "__s16 saved_offset",
    }
}

/// What the stack is of that was sent as it lay in memory: [`StackMemoryHeader::of`].
pub mod memory_of {
    /// A scheduling event.
    pub const SCHED: u32 = 0;
    /// A sample.
    pub const SAMPLE: u32 = 1;
    /// A hit of a probe.
    pub const PROBE: u32 = 2;
}

record! {
    /// A part of a stack that could not be unwound, because the table for the code of its last
    /// frame was not made yet. [`MEMORY_PART_BYTES`] bytes follow, of which the first `bytes` are
    /// the program's.
    StackMemoryHeader, 208 {
        /// The lane of the stack's definition: its CPU,
        cpu: u32 as "__u32 cpu",
        /// and whose stacks lie there, one of [`memory_of`].
        of: u32 as "__u32 of",
        /// The definition's id.
        id: u32 as "__u32 id",
        /// Whose program it is.
        uid: u32 as "__u32 uid",
        /// How the walk came to the last frame, one of [`frame_reached`].
        reached: u16 as "__u16 reached",
        /// 1 if the word at its stack pointer is where it returns to, should its code have no
        /// unwind information: a call of this very function lies before that address.
        returns_at_sp: u16 as "__u16 returns_at_sp",
        /// Bytes of this part that the program has.
        bytes: u32 as "__u32 bytes",
        /// Of the last frame: where its code is,
        ip: u64 as "__u64 ip",
        /// its stack pointer, where the first part begins (of the others some may be missing),
        sp: u64 as "__u64 sp",
        /// and rbp.
        bp: u64 as "__u64 bp",
        /// Where this part begins.
        start: u64 as "__u64 start",
        /// The code whose table was missing, as the programs know it: its file's number, 0 where
        /// the file is not known yet,
        file: u64 as "__u64 file",
        /// where it is mapped,
        code_start: u64 as "__u64 code_start",
        /// up to where,
        code_end: u64 as "__u64 code_end",
        /// and what to add to an address for its offset in the file.
        code_bias: u64 as "__u64 code_bias",
        /// All registers of the last frame but for ip and sp, in the order that `reached` says; 0
        /// where they are not known.
        registers: [u64; SAVED_REGISTERS] as "__u64 registers[15]",
    }
}
