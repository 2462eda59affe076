//! What can go wrong with a capture file.

use std::{io, path::PathBuf};
use syscollect_model::Lane;

/// Why a capture cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be opened.
    #[error("cannot open the capture {path}: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read {capture} at byte {offset}: {source}")]
    Read {
        /// The capture, as messages name it.
        capture: String,
        /// Where.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// The output refuses more bytes: a full disk, a quota, a closed pipe.
    #[error(
        "cannot write the capture after {written} bytes: {source}{}",
        if *written > 0 { "; what was written stays readable" } else { "" }
    )]
    Write {
        /// Bytes that were written whole before.
        written: u64,
        /// What the system says.
        source: io::Error,
    },
    /// The file is something else.
    #[error(
        "{capture} is not a syscollect capture: {reason}; give a file that `syscollect record` \
         wrote"
    )]
    NotACapture {
        /// The file, as messages name it.
        capture: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file was written by a later version of the format.
    #[error(
        "{capture} has capture format {found}, and this syscollect reads up to {known}: use a \
         newer syscollect"
    )]
    NewerFormat {
        /// The capture, as messages name it.
        capture: String,
        /// Its major version.
        found: u16,
        /// The newest major version that is known here.
        known: u16,
    },
    /// A chunk is larger than the format allows.
    #[error(
        "a chunk of lane {lane} has {length} bytes, and a capture takes at most {limit}: drain the \
         lane more often"
    )]
    ChunkTooLarge {
        /// Its lane.
        lane: Lane,
        /// Its bytes.
        length: usize,
        /// [`crate::MAX_CHUNK`].
        limit: usize,
    },
    /// No copy of a chunk verifies.
    #[error("chunk {sequence} of lane {lane} at byte {offset} of {capture} is damaged: {reason}")]
    Damaged {
        /// The capture, as messages name it.
        capture: String,
        /// The chunk's lane.
        lane: Lane,
        /// Its number in the lane.
        sequence: u64,
        /// Where it lies.
        offset: u64,
        /// What does not fit.
        reason: &'static str,
    },
    /// A definition is no JSON of a shape that is known here.
    #[error("definition {sequence} of {capture} cannot be read: {source}")]
    Definition {
        /// The capture, as messages name it.
        capture: String,
        /// Its number.
        sequence: u64,
        /// What the JSON reader says.
        source: serde_json::Error,
    },
    /// A definition cannot be written as JSON.
    #[error("a definition cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}
