//! Addresses to functions, files and lines.
//!
//! **Duties.** Hold the files of mapped code open while their processes live ([`PinnedFiles`]), so
//! that what was deleted, replaced or only visible in a container can still be read when recording
//! stops; read build ids ([`build_id_of`]); name file offsets of user code and addresses of kernel
//! code ([`Symbolizer`]): function with start and size, inlined callers, file and line, demangled;
//! functions of stripped Go programs, by the table that these carry;
//! the same for modules of Windows traces ([`windows`]); name addresses of code that a program made
//! while it ran, from the lists of it that programs write (perf maps, jitdumps). A function that
//! nothing names is told from others by its range
//! ([`Symbol::range_only`](syscollect_model::Symbol::range_only)). A file whose build id is not the
//! mapping's is never asked: no name is better than a wrong one, and the table's note says why.
//!
//! **Non-goals.** No captures, no events, no processes' address spaces: who asks
//! has turned addresses into modules and offsets. No unwinding. No
//! downloads, but of symbol files from servers that the user named ([`windows`], [`debuginfod`]).
//!
//! ```
//! use syscollect_model::BuildId;
//! use syscollect_symbolize::{PinnedFiles, Symbolizer, build_id_of};
//!
//! let path = std::env::current_exe().unwrap();
//! let build_id = build_id_of(&std::fs::File::open(&path).unwrap()).unwrap_or_default();
//! let mut symbolizer = Symbolizer::new(PinnedFiles::new());
//! let table = symbolizer.name_module(path.to_str().unwrap(), &build_id, &[0]);
//! assert!(table.symbols.is_empty(), "the ELF header is not code");
//! let other = symbolizer.name_module(path.to_str().unwrap(), &BuildId::from_bytes(&[1; 20]), &[0]);
//! assert!(other.note.contains("build id"), "{}", other.note);
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod aliases;
mod apart;
mod code_lists;
pub mod debuginfod;
mod download;
mod elf;
mod go_functions;
mod image;
mod jit;
mod kallsyms;
mod kept_files;
mod kept_parts;
mod kernel;
mod link_sections;
mod links;
mod memory;
mod mini_debug;
mod module;
mod naming;
#[cfg(test)]
mod object_in_tests;
mod os;
mod own_file;
mod path;
mod pinned;
mod ranges;
mod reader;
mod request;
mod shared;
mod source;
mod symbol_files;
mod symbolizer;
mod turn;
mod vdso;
pub mod windows;

pub use code_lists::{PerfMapOutcome, PerfMapOwner};
#[doc(hidden)]
pub use elf::place_debug_file;
pub use elf::{build_id_in, build_id_of};
pub use jit::refused_lists;
#[doc(hidden)]
pub use jit::{read_jit_dump, read_perf_map};
#[doc(hidden)]
pub use kallsyms::read_kallsyms;
pub use kept_files::{KeptFileError, KeptFiles, KeptModule};
#[doc(hidden)]
pub use kept_parts::kept_again;
pub use kept_parts::{FileParts, owner_of_module, parts_of_module};
pub use memory::NamingMemory;
#[doc(hidden)]
pub use mini_debug::read_mini_debug;
pub use pinned::{PinnedFiles, ReleasedFiles, is_jit_dump};
pub use request::{ModuleRequest, Options};
pub use symbol_files::{SearchError, SearchLimits, SymbolFiles};
pub use symbolizer::Symbolizer;
pub use vdso::own as own_vdso;
