//! Unwind tables of files, and walking stacks by them.
//!
//! Code that keeps no frame pointer says in `.eh_frame` where a function's caller is found. The
//! kernel programs cannot read that; they read rows of 8 bytes ([`UnwindRow`]), which are made
//! here. Assembly that was written by hand says nothing, nor do libraries that were built without
//! unwind information, as musl is: there the code is read itself, and where that leaves a doubt,
//! there is no rule.
//!
//! **Duties.** Find what an ELF file of x86-64 offers for unwinding, and make rows of it for the
//! pages of its code that are asked for ([`UnwindFile`]). Files come from any user: what is read of
//! them, how long it takes, and how much memory it needs are bounded, and what is damaged or cannot
//! be expressed has [a rule that says so](syscollect_records::unwind::cfa_rule::INEXPRESSIBLE),
//! never a guess. Walk a stack by these rows as the kernel programs do ([`step`]), over whatever
//! holds its words.
//!
//! **Non-goals.** Opening files (`syscollect-untrusted-files`). Which file is mapped where. Code
//! that programs make while they run. Go's, which keeps frame pointers, but for where its runtime
//! goes to another stack. Exceptions. Other
//! architectures.
//!
//! ```
//! # #[cfg(all(target_os = "linux", target_arch = "x86_64"))] {
//! use syscollect_records::unwind::cfa_rule;
//! use syscollect_unwind::UnwindFile;
//!
//! let own = UnwindFile::from_bytes(std::fs::read("/proc/self/exe").unwrap()).unwrap();
//! let page = (own.code()[0].start / syscollect_records::unwind::PAGE_BYTES) as u32;
//! let tables = own.pages(&[page]).unwrap();
//! assert_eq!(tables[0].0, page);
//! assert!(tables[0].1.iter().any(|row| row.cfa == cfa_rule::RSP));
//! # }
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod arch;
mod code;
mod error;
mod fde;
mod file;
mod frames;
mod go;
mod haskell;
mod index;
mod memory;
mod partial;
mod pieces;
mod program;
mod row_cache;
mod rule;
mod run;
mod table;
mod walk;
mod writer;

pub use error::UnwindError;
pub use file::UnwindFile;
pub use memory::{Callers, CodeAt, FrameReached, StackMemory};
pub use pieces::StackPieces;
pub use row_cache::RowCache;
pub use syscollect_records::unwind::{PAGE_BYTES, UnwindRow};
pub use walk::{
    Caller, GeneralRegisters, Registers, WalkEnd, interrupted_registers, lookup_address, row_at,
    running_registers, step,
};
