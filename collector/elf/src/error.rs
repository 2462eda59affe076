//! What can be wrong with a file.

/// Why a file, or a part of one, cannot be read. The file's name is the caller's to add.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// It does not begin as ELF files do.
    #[error("it is not an ELF file")]
    NotElf,
    /// It is for other processors, or no file that is loaded to be run.
    #[error(
        "it is not a program or library for x86-64 (ELF class {class}, machine {machine}, type \
         {kind})"
    )]
    OtherMachine {
        /// `e_ident[EI_CLASS]`.
        class: u8,
        /// `e_machine`.
        machine: u16,
        /// `e_type`.
        kind: u16,
    },
    /// The part lies outside of the file, or does not hold what it must.
    #[error("its {part} cannot be read at byte {at:#x}, so it is damaged or cut short")]
    Damaged {
        /// The part.
        part: &'static str,
        /// Where it lies in the file.
        at: u64,
    },
    /// The part is larger than a linker makes it.
    #[error("its {part} at byte {at:#x} is larger than {limit}, which no linker writes")]
    TooLarge {
        /// The part.
        part: &'static str,
        /// Where it lies in the file.
        at: u64,
        /// The limit, in bytes where the part has bytes.
        limit: u64,
    },
    /// A segment ends where no file and no memory is.
    #[error("its loaded ELF segment {number} lies outside of what can be addressed")]
    BadSegment {
        /// Its number among those that are loaded.
        number: usize,
    },
}
