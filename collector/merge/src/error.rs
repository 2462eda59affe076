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
        "{0}; the recording ended before its clocks were read a second time, or that part of the \
         file is lost"
    )]
    Clock(#[from] ClockError),
    /// Two recordings of one machine, whose CPUs' events would be told twice or with a gap that
    /// nobody sees.
    #[error(
        "recordings {} and {} are of one boot of {hostname}, and only those of different machines \
         are shown together: read each by itself", numbers.0, numbers.1
    )]
    SameBoot {
        /// The machine.
        hostname: String,
        /// Which of those that were given, from 1.
        numbers: (usize, usize),
    },
    /// The clocks of the day of two machines cannot both be right.
    #[error(
        "recordings {} and {} began {days} days apart, as the machines' clocks of the day say: one \
         of them was not set; read each by itself", numbers.0, numbers.1
    )]
    FarApart {
        /// How far.
        days: u64,
        /// Which of those that were given, from 1.
        numbers: (usize, usize),
    },
    /// One of several recordings cannot be opened.
    #[error("recording {number}: {error}")]
    Of {
        /// Which of those that were given, from 1.
        number: usize,
        /// Why.
        error: Box<MergeError>,
    },
    /// Nobody waits for it any more.
    #[error("nobody waits for it any more")]
    Unwanted,
}

impl MergeError {
    /// Of one of several recordings.
    pub(crate) fn of(self, number: usize) -> Self {
        Self::Of { number, error: Box::new(self) }
    }
}
