//! Why a file's interpreter cannot be read.

use syscollect_elf::ElfError;

/// Why a file's interpreter cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PythonFileError {
    /// It is no ELF file for x86-64, or a damaged one.
    #[error(transparent)]
    Elf(ElfError),
    /// Its tables are larger than those of any interpreter.
    #[error("its tables are too large")]
    TooLarge,
    /// What it says of its structures is not possible.
    #[error("what it says of its own structures is not possible")]
    BadOffsets,
    /// A version whose structures are not known.
    #[error("Python 3.{0} is not known")]
    UnknownVersion(u8),
}

impl From<ElfError> for PythonFileError {
    fn from(error: ElfError) -> Self {
        match error {
            ElfError::TooLarge { .. } => Self::TooLarge,
            other => Self::Elf(other),
        }
    }
}
