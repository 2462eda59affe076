//! CPython: where the kernel programs find a thread's Python frames, and what they send of them.
//!
//! A stack's words (behind [`StackHeader`](crate::StackHeader)) are addresses; a Python frame is
//! one, too, which no code has: [`FRAME`] is set in it. They come behind the addresses of machine
//! code, innermost first. What a frame's code object is called is sent once, before, in the same
//! lane: a record with the header of a stack, without an id, of the space
//! [`PYTHON_CODE`](crate::stack_space::PYTHON_CODE).

use crate::{FieldLayout, Plain, StructLayout, bytes_of, read};

/// Files with an interpreter that the programs know at most.
pub const FILES_MAX: usize = 64;

/// The word is a Python frame: bits 24 to 47 are the code object's id ([`CodeHeader::id`]), the
/// lower ones which instruction it has reached, bytes from its first.
pub const FRAME: u64 = 1 << 63;
/// The interpreter was called from C for this frame: its caller is in another call of the
/// interpreter's loop.
pub const ENTRY: u64 = 1 << 62;
/// Where the id begins, bits.
pub const ID_SHIFT: u32 = 24;
/// Ids and instructions, as far as they have room.
pub const PLACE_MASK: u64 = (1 << ID_SHIFT) - 1;

/// Bytes that are read of a frame and of a code object at most.
pub const FRAME_BYTES: usize = 128;
/// The same of a code object.
pub const CODE_BYTES: usize = 256;
/// Bytes of a function's name, of a file's and of a line table that are sent at most.
pub const NAME_BYTES: usize = 256;
/// The same of a file's name.
pub const FILE_BYTES: usize = 512;
/// The same of a line table.
pub const LINES_BYTES: usize = 2048;

/// How an outermost frame of one call of the interpreter's loop is known: [`PythonFile::entry`].
pub mod entry_rule {
    /// Each is one (to 3.10).
    pub const EACH: u8 = 0;
    /// The byte at `frame_entry` is 1 (3.11).
    pub const FLAG: u8 = 1;
    /// A frame that is no function's lies above it: its byte at `frame_entry` is 3 or more (from
    /// 3.12 on).
    pub const OWNER: u8 = 2;
}

/// How a frame says which instruction it has reached: [`PythonFile::instruction`].
pub mod instruction_rule {
    /// A number, bytes (to 3.9).
    pub const BYTES: u8 = 0;
    /// A number, words of 2 bytes (3.10).
    pub const WORDS: u8 = 1;
    /// An address within the code object (from 3.11 on).
    pub const ADDRESS: u8 = 2;
}

record! {
    /// A file with an interpreter: its structures, as its version lays them out. Offsets are bytes
    /// within the structure that the name says.
    PythonFile, 104 {
        /// `_PyRuntime`, as if all of the file were mapped like its code: bytes from its beginning.
        runtime: u64 as "__u64 runtime",
        /// `PyCode_Type`, in the same way.
        code_type: u64 as "__u64 code_type",
        /// The interpreter's loop: offsets in the file, two ranges of first and end; (0, 0) for
        /// none.
        loops: [u64; 4] as "__u64 loops[4]",
        /// The runtime's pointer to the main interpreter.
        interpreter: u32 as "__u32 interpreter",
        /// The interpreter's pointer to its threads.
        threads: u32 as "__u32 threads",
        /// A thread's pointer to the next,
        thread_next: u16 as "__u16 thread_next",
        /// its number, which is where its thread-local memory lies,
        thread_id: u16 as "__u16 thread_id",
        /// and its frame, or where that is kept (3.11, 3.12):
        thread_frame: u16 as "__u16 thread_frame",
        /// there; 0xffff if it is the frame.
        kept_frame: u16 as "__u16 kept_frame",
        /// Bytes to read of a frame.
        frame_bytes: u16 as "__u16 frame_bytes",
        /// A frame's code object,
        frame_code: u16 as "__u16 frame_code",
        /// its caller,
        frame_previous: u16 as "__u16 frame_previous",
        /// its instruction, see [`instruction_rule`],
        frame_instruction: u16 as "__u16 frame_instruction",
        /// and what [`entry_rule`] needs.
        frame_entry: u16 as "__u16 frame_entry",
        /// Bytes to read of a code object.
        code_bytes: u16 as "__u16 code_bytes",
        /// A code object's first line,
        code_first_line: u16 as "__u16 code_first_line",
        /// its file,
        code_file: u16 as "__u16 code_file",
        /// its name,
        code_name: u16 as "__u16 code_name",
        /// its line table,
        code_lines: u16 as "__u16 code_lines",
        /// and its instructions.
        code_instructions: u16 as "__u16 code_instructions",
        /// A string's number of characters,
        text_length: u16 as "__u16 text_length",
        /// what it is made of,
        text_state: u16 as "__u16 text_state",
        /// its characters if they are ASCII,
        text_ascii: u16 as "__u16 text_ascii",
        /// and if they are not.
        text_other: u16 as "__u16 text_other",
        /// A bytes object's length,
        bytes_length: u16 as "__u16 bytes_length",
        /// and its bytes.
        bytes_data: u16 as "__u16 bytes_data",
        /// An object's type.
        object_type: u16 as "__u16 object_type",
        /// The minor version: 11 of Python 3.11.
        version: u8 as "__u8 version",
        /// One of [`entry_rule`].
        entry: u8 as "__u8 entry",
        /// One of [`instruction_rule`].
        instruction: u8 as "__u8 instruction",
        /// Where in a string's state the size of its characters begins, bits: three of them, then
        /// one that says whether the characters lie behind it, and one for ASCII.
        text_kind: u8 as "__u8 text_kind",
    }
}

record! {
    /// What a code object is called. Its name follows, its file, and its line table, each filled up
    /// to a multiple of 8 bytes.
    CodeHeader, 56 {
        /// By which frames of the same lane refer to it, from 1 on.
        id: u32 as "__u32 id",
        /// The line where its source begins.
        first_line: u32 as "__u32 first_line",
        /// Addresses of the interpreter's loop in this process, two ranges of first and end.
        loops: [u64; 4] as "__u64 loops[4]",
        /// Bytes of the name,
        name_bytes: u16 as "__u16 name_bytes",
        /// of the file,
        file_bytes: u16 as "__u16 file_bytes",
        /// and of the line table.
        lines_bytes: u16 as "__u16 lines_bytes",
        /// Bytes of each character of the name: 1 (Latin-1), 2 or 4,
        name_kind: u8 as "__u8 name_kind",
        /// and of the file.
        file_kind: u8 as "__u8 file_kind",
        /// The minor version of Python, which says how the line table is read.
        version: u8 as "__u8 version",
        /// 0.
        unused: [u8; 7] as "__u8 unused[7]",
    }
}
