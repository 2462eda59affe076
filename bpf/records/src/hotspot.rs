//! HotSpot, the virtual machine of OpenJDK: where the kernel programs find what it says of the code
//! that it compiles.
//!
//! Its library lists members of its structures by name, for debuggers. Where they lie in these it
//! fills in when it is loaded; so the file says in which words of a process that is written.

use crate::{FieldLayout, Plain, StructLayout, bytes_of, read};

/// Members of structures of a virtual machine: the places in [`HotspotFile::members`].
pub mod member {
    /// How many code heaps a list has,
    pub const LENGTH: usize = 0;
    /// and where they are.
    pub const DATA: usize = 1;
    /// A code heap's memory,
    pub const MEMORY: usize = 2;
    /// its map of segments,
    pub const SEGMENTS: usize = 3;
    /// and how large one is.
    pub const SEGMENT_SIZE: usize = 4;
    /// Where a range of memory begins,
    pub const LOW_BOUNDARY: usize = 5;
    /// where it ends,
    pub const HIGH_BOUNDARY: usize = 6;
    /// and where what is used of it begins.
    pub const LOW: usize = 7;
    /// The size of a piece of code, with all that lies before it and behind,
    pub const SIZE: usize = 8;
    /// that of its frame,
    pub const FRAME_SIZE: usize = 9;
    /// from where on it has that frame,
    pub const FRAME_COMPLETE: usize = 10;
    /// and where its instructions begin.
    pub const CODE: usize = 11;
    /// Where the interpreter begins,
    pub const INTERPRETER_BEGIN: usize = 12;
    /// and how large it is.
    pub const INTERPRETER_SIZE: usize = 13;
    /// How many there are.
    pub const COUNT: usize = 14;
}

/// What says where the outer frames of virtual threads lie (OpenJDK 21 and newer): the places in
/// [`HotspotFile::continuation`].
pub mod continuation {
    /// The pointer to where a frame returns to whose caller is still in the heap.
    pub const BARRIER: usize = 0;
    /// At which byte of a continuation its last chunk of frames is, a number of 4 bytes;
    pub const TAIL: usize = 1;
    /// and of a chunk where its innermost frame goes on,
    pub const CHUNK_PC: usize = 2;
    /// which word that frame's stack pointer is,
    pub const CHUNK_SP: usize = 3;
    /// and which word its outermost frame ends before;
    pub const CHUNK_BOTTOM: usize = 4;
    /// the chunk with the frames that called these,
    pub const CHUNK_PARENT: usize = 5;
    /// and where its words begin.
    pub const CHUNK_STACK: usize = 6;
    /// What to add to a compressed pointer,
    pub const NARROW_BASE: usize = 7;
    /// by how many bits to shift it first (4 bytes),
    pub const NARROW_SHIFT: usize = 8;
    /// and whether pointers in the heap are compressed (1 byte).
    pub const COMPRESSED: usize = 9;
    /// How many there are.
    pub const COUNT: usize = 10;
}

record! {
    /// A file with a virtual machine. Places in it are as if all of the file were mapped like its
    /// code: bytes from its beginning.
    HotspotFile, 224 {
        /// The pointer to the list of code heaps.
        heaps: u64 as "__u64 heaps",
        /// The pointer to the interpreter's code.
        interpreter: u64 as "__u64 interpreter",
        /// The pointer to where methods return to that native code called.
        call_stub: u64 as "__u64 call_stub",
        /// Where it is written at which byte of its structure each [`member`] lies.
        members: [u64; member::COUNT] as "__u64 members[14]",
        /// Where what [`continuation`] names is; all 0 where the file does not say.
        continuation: [u64; continuation::COUNT] as "__u64 continuation[10]",
        /// Bytes before each piece of code.
        block_header: u32 as "__u32 block_header",
        /// Bytes of `FRAME_COMPLETE`: 4, or 2 (newer ones).
        frame_complete_bytes: u16 as "__u16 frame_complete_bytes",
        /// 0 if `CODE` is an address, else its bytes, and it counts from the piece's beginning
        /// (newer ones).
        code_offset_bytes: u16 as "__u16 code_offset_bytes",
    }
}

/// Files with a virtual machine that the programs know at most.
pub const FILES_MAX: usize = 64;
