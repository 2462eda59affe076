//! What this program gives up on its way: on Windows nothing, where it runs with what its user has.

use crate::owner::Owner;

/// Rights of root that files of others need: there are none to take.
pub(crate) struct WritingFiles;

impl WritingFiles {
    /// Nothing changes.
    pub(crate) fn begin() -> Self {
        Self
    }
}

/// A sub-command that reads a recording.
pub(crate) fn to_reading(_runs_programs: bool) {}

/// A file is written.
pub(crate) fn to_exporting(_owner_of_folder: Option<Owner>) {}

/// A thread that only waits.
pub(crate) fn to_waiting() {}
