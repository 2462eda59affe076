//! What can go wrong while a session is written.

use std::io;

/// Why a session could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The output refused to take bytes: a full disk, a closed pipe, ...
    #[error("the export could not be written: {0}")]
    Write(#[from] io::Error),
    /// The thread that compresses and writes ended before its time.
    #[error(
        "the export stopped: the thread that compresses and writes it ended early; export the \
         capture again"
    )]
    WriterGone,
}
