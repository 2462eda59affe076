//! What can be probed in a file, and what was asked for.
//!
//! **Duties.** List the USDT probes of an ELF file ([`usdt_probes`]) with where they lie and how
//! their [`Argument`]s are read, and its functions ([`Functions`]); understand what a user wants
//! probed ([`Spec`], [`parse_file`]); name what is [`nearest()`] where nothing matches; know the
//! functions by which programs use their GPUs ([`library_presets`]).
//!
//! **Non-goals.** No kernel interface, no processes, no files: bytes and text come in, types
//! go out. What is attached where, and what a hit then means, is for `syscollect-capture`.
//!
//! Files belong to any user of the machine, so nothing in one is trusted: whatever it holds,
//! the answer is a list, a warning or an error, in bounded time and memory.
//!
//! ```
//! use syscollect_elf::ElfError;
//! use syscollect_probes::{ProbeError, usdt_probes};
//!
//! let own = std::fs::read("/proc/self/exe").unwrap();
//! assert!(usdt_probes(&own[..]).unwrap().probes.is_empty());
//! assert!(matches!(usdt_probes(&b"#!/bin/sh"[..]), Err(ProbeError::Elf(ElfError::NotElf))));
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod arch;
mod argument;
mod error;
mod exits;
mod frames;
mod functions;
mod glob;
mod nearest;
mod note;
mod operand;
mod preset;
mod presets;
mod spec;
mod spec_parse;
mod symbols;
mod usdt;

pub use arch::Register;
pub use argument::{ARGUMENTS_MAX, Argument, ArgumentLocation, Unreadable, evaluate};
pub use error::ProbeError;
pub use functions::{Function, Functions, Returns, soname};
pub use glob::{Glob, GlobError};
pub use nearest::{did_you_mean, nearest};
pub use presets::{FunctionPreset, LibraryPreset, Parameter, library_presets};
pub use spec::{
    ArgumentKind, ArgumentSpec, FUNCTIONS_MAX_DEFAULT, FileSelector, FunctionSpec, ProbeSelector,
    Spec, ZoneSpec,
};
pub use spec_parse::{LineError, SpecError, parse_file};
pub use usdt::{UsdtProbe, UsdtProbes, usdt_probes, usdt_probes_of};
