//! Why there are no tables of a file.

use std::io;
use syscollect_elf::ElfError;

/// Why a file has no unwind tables.
#[derive(Debug, thiserror::Error)]
pub enum UnwindError {
    /// Its headers are none of an ELF file for x86-64, or contradict each other.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// More sections than any linker makes.
    #[error("its ELF headers count more sections than an executable has")]
    TooMany,
    /// Neither `.eh_frame` nor `.debug_frame`.
    #[error("it has no unwind information")]
    Missing,
    /// Debug information that some linkers and compilers compress.
    #[error("its unwind information is in {0}, which is compressed")]
    Compressed(&'static str),
    /// Larger than is read of a file that anybody may have made.
    #[error("its {name} has {bytes} bytes, which is more than is read")]
    TooLarge {
        /// Of the section.
        name: &'static str,
        /// How many it claims.
        bytes: u64,
    },
    /// The system refuses, or it was cut off.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}
