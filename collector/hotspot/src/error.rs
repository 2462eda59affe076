//! Why a file's virtual machine cannot be read.

use syscollect_elf::ElfError;

/// Why a file's virtual machine cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HotspotFileError {
    /// It is no ELF file for x86-64, or a damaged one.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// Its list of structures lacks one that is needed.
    #[error("its list of structures has no {0}")]
    Lacks(&'static str),
    /// What it says of its structures is not possible.
    #[error("what it says of its own structures is not possible")]
    BadList,
}
