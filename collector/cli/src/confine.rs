//! What this program gives up on its way: see [`privileges`] and docs/security.md.
//!
//! Nothing here is needed for a right result, so a kernel or a sandbox that refuses it ends
//! nothing.

use crate::owner::{Owner, is_root};
use std::io;
use syscollect_capture::privileges::{self, Stage};

pub(crate) use syscollect_capture::privileges::WritingFiles;

/// A sub-command that reads a recording, whoever made that. With `runs_programs` it may still run
/// the one that asks symbol servers.
pub(crate) fn to_reading(runs_programs: bool) {
    give_up(Stage::Naming);
    if !runs_programs {
        report_missing_filter(privileges::allow_only_naming_and_exporting());
    }
}

/// The recording is over; names come next.
pub(crate) fn to_naming() {
    to_reading(false);
}

/// The calling thread names parts of a recording that goes on. It shares threads that open files
/// with the recorder, so it has what the recorder has.
pub(crate) fn to_naming_a_part() {
    give_up(Stage::Recording);
}

/// Names are there, and a file is written: by the user behind sudo, if the folder is this user's.
pub(crate) fn to_exporting(owner_of_folder: Option<Owner>) {
    if let Some(owner) = owner_of_folder
        && let Err(error) = privileges::become_user(owner.uid, owner.gid)
    {
        eprint_line!("syscollect: goes on as root: {error}");
    }
    give_up(Stage::Exporting);
}

/// A thread that only waits.
pub(crate) fn to_waiting() {
    give_up(Stage::Waiting);
}

fn give_up(stage: Stage) {
    if let Err(error) = privileges::keep(stage) {
        eprint_line!("syscollect: goes on with capabilities that it does not need: {error}");
    }
}

/// What protects root is worth a line where it is missing; others have less to protect.
pub(crate) fn report_missing_filter(filtered: io::Result<()>) {
    if let (true, Err(error)) = (is_root(), filtered) {
        eprint_line!("syscollect: goes on without a filter of its system calls: {error}");
    }
}
