//! Why a trace cannot be read at all.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A trace cannot be opened. What is damaged further on is a loss, not an error.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not begin as an event trace log does.
    #[error("{path} is not an event trace log (.etl): {what}")]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// Two files count time differently, or from another moment on, so there is no order between
    /// them.
    #[error(
        "{path} counts time by another clock than {first}: only files of one recording can be read \
         together; export them one by one"
    )]
    OtherClock {
        /// The file.
        path: PathBuf,
        /// The one it was compared with.
        first: PathBuf,
    },
    /// No file was named.
    #[error("no event trace log (.etl) was named")]
    NoFile,
}
