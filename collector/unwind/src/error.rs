//! Why there are no tables of a file.

use std::io;

/// Why a file has no unwind tables.
#[derive(Debug, thiserror::Error)]
pub enum UnwindError {
    /// Its headers are none of ELF, or contradict each other.
    #[error("it is not an ELF file, or a damaged one: {0}")]
    Damaged(#[from] object::Error),
    /// Its segments lie where no file and no memory is.
    #[error("its ELF segments lie outside of what can be addressed")]
    BadSegment,
    /// Made for another CPU architecture, or in 32 bits.
    #[error("its code is not 64-bit code of x86-64")]
    OtherMachine,
    /// More segments or sections than any linker makes.
    #[error("its ELF headers count more than an executable has")]
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
