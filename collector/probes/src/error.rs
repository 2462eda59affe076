//! What can be wrong with a file.

use syscollect_elf::ElfError;

/// Why a file's probes or functions cannot be told. The file's name is the caller's to add.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It is no ELF file for x86-64, or a damaged one.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// It has no function symbols at all.
    #[error(
        "it is stripped: it has no symbols of functions, so a version of it with symbols is needed"
    )]
    Stripped,
    /// Return probes would break it.
    #[error("it is a Go program, whose stacks move: a probe on a function's return would crash it")]
    Go,
    /// No function is so called.
    #[error("no function matches {pattern:?}{}", crate::nearest::did_you_mean(nearest))]
    NoFunction {
        /// The pattern.
        pattern: String,
        /// What is called nearly so.
        nearest: Vec<String>,
    },
    /// Only functions that cannot be probed are so called.
    #[error("{name} cannot be made a zone: {why}")]
    Unsuitable {
        /// The function.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// Too many functions are so called.
    #[error(
        "{pattern:?} matches {found} functions, more than {limit}: name fewer, or raise the limit \
         with --max-functions {found}"
    )]
    TooManyFunctions {
        /// The pattern.
        pattern: String,
        /// How many.
        found: usize,
        /// The limit.
        limit: usize,
    },
}
