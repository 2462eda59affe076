//! What can be wrong with a file.

/// Why a file's probes or functions cannot be told. The file's name is the caller's to add.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It does not begin as ELF files do.
    #[error("it is not an ELF file, so it has no probes")]
    NotElf,
    /// It is for other processors than this program.
    #[error(
        "it is not a program or library for x86-64 (ELF class {class}, machine {machine}, type {kind})"
    )]
    OtherMachine {
        /// `e_ident[EI_CLASS]`.
        class: u8,
        /// `e_machine`.
        machine: u16,
        /// `e_type`.
        kind: u16,
    },
    /// Its headers point outside of it.
    #[error("its {what} cannot be read, so it is damaged or cut short")]
    Damaged {
        /// The part.
        what: &'static str,
    },
    /// A part of it is larger than a linker makes it.
    #[error("its {what} is larger than {limit}, which no linker writes")]
    TooLarge {
        /// The part.
        what: &'static str,
        /// The limit, in bytes where the part has bytes.
        limit: u64,
    },
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
        "{pattern:?} matches {found} functions, more than {limit}: name fewer, or raise the limit with --max-functions {found}"
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
