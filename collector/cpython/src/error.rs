//! Why a file's interpreter cannot be read.

/// Why a file's interpreter cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PythonFileError {
    /// It cannot be read as an ELF file.
    #[error("it cannot be read as an ELF file: {0}")]
    Elf(#[from] object::Error),
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
