//! What ELF files say of themselves: the one reader of their headers in the workspace.
//!
//! **Duties.** Read the headers of an ELF file ([`Elf`]): its segments, and by them where an
//! address lies in the file and the other way round ([`LoadedSegments`]), its sections
//! ([`Sections`]), its tables of symbols ([`SymbolTable`]), its notes and its build id ([`Notes`]),
//! what it is linked with ([`Dynamic`]), and where its tables for unwinding lie ([`FrameIndex`]).
//!
//! Files belong to any user of the machine, so nothing in one is trusted. A part has a bound before
//! memory is set aside for it, and lies in the file; sums that no address holds are errors; counts
//! that do not fit the header, which may be any number, are refused. An error says which part it is
//! and where that lies in the file ([`ElfError`]).
//!
//! **Non-goals.** Opening files: `syscollect-untrusted-files` does, whose reader behind a
//! [`ReadCache`] reads what is needed and nothing else. A file is never mapped. What parts mean:
//! notes of probes are for `syscollect-probes`, rules for unwinding for `syscollect-unwind`,
//! structures of an interpreter for `syscollect-cpython`, names for `syscollect-symbolize`.
//! Inflating compressed sections: only what they will hold is read. Relocations. Other formats.
//!
//! ```
//! use syscollect_elf::{Elf, ElfError, ReadCache};
//!
//! let own = std::fs::File::open(std::env::current_exe()?)?;
//! let cache = ReadCache::new(own);
//! # #[cfg(all(target_os = "linux", target_arch = "x86_64"))] {
//! let elf = Elf::of_x86_64(&cache).unwrap();
//! let code = elf.loaded().iter().find(|segment| segment.is_code()).unwrap();
//! assert_eq!(elf.code_offset(code.address), Some(code.offset));
//! assert_eq!(elf.sections().unwrap().named(".text").count(), 1);
//! # }
//! assert_eq!(Elf::open(&b"#!/bin/sh"[..]).err(), Some(ElfError::NotElf));
//! # std::io::Result::Ok(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod dynamic;
mod elf;
mod error;
mod frames;
mod note;
mod section;
mod segment;
mod symbol;

pub use dynamic::Dynamic;
pub use elf::Elf;
pub use error::ElfError;
pub use frames::{FrameIndex, FrameRow};
pub use note::{BUILD_ID_MAX, Note, NoteTableCutOff, Notes, build_id_in};
/// The format's own numbers.
pub use object::elf as abi;
pub use object::{ReadCache, ReadRef};
pub use section::{Section, Sections};
pub use segment::{LoadedPart, LoadedSegments, Segment};
pub use symbol::{NamedSymbol, Symbol, SymbolLimits, SymbolTable};

/// The bytes before the first zero, or all.
fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}
