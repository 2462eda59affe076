//! Why a session cannot be opened or played.

use syscollect_model::ClockError;
use syscollect_store::StoreError;

/// Why a capture cannot be opened as a session.
///
/// Damage is no such reason: what can be read is read, and what is missing is
/// counted among the losses of the [`crate::Session`].
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The capture cannot be read at all.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The events have no place in time.
    #[error(
        "{0}; the recording ended before its clocks were read a second time, or that part of the file is lost"
    )]
    Clock(#[from] ClockError),
    /// Two recordings of one machine, whose CPUs' events would be told twice or with a gap that
    /// nobody sees.
    #[error(
        "two of the recordings are of one boot of {hostname}, and only those of different machines are shown together: \
         export each by itself"
    )]
    SameBoot {
        /// The machine.
        hostname: String,
    },
    /// Nobody waits for it any more.
    #[error("nobody waits for it any more")]
    Unwanted,
}
