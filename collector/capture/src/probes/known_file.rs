//! What is remembered of a file that was looked into.

use std::time::{Duration, Instant};

use super::files::{FileChangeTime, FileKey};
use crate::fair_queue::TurnOutcome;

/// For how long a look into a file makes the next one more expensive to its user, and how much.
const LOOKS_COUNT: Duration = Duration::from_secs(60);
const LOOKS_MAX: u32 = 8;

/// What became of what was to be attached in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AttachOutcome {
    /// Something is attached, or will be.
    Begun,
    Nothing,
    /// Its owner has more than there is room and time for now.
    NoRoom,
}

impl AttachOutcome {
    pub(super) fn of_begin(is_begun: bool) -> Self {
        if is_begun { Self::Begun } else { Self::Nothing }
    }
}

/// What a look into a file found.
#[derive(Clone, Copy)]
pub(super) struct KnownFile {
    /// It belongs to an instrumented program.
    pub(super) is_client: bool,
    /// It is held in place by what is attached, so that no other gets its number.
    pub(super) attached: bool,
    /// It was attached to just now: who ran it before was not recorded until then.
    pub(super) is_new: bool,
    /// Which file it is.
    pub(super) key: FileKey,
    /// It is root's, and nobody else can write to it.
    pub(super) of_root: bool,
    /// How often it changed and was looked into again within [`LOOKS_COUNT`], this time included; 1
    /// where no look was needed.
    pub(super) looks: u32,
    pub(super) looked: Instant,
    pub(super) changed: FileChangeTime,
    /// There was no room to attach to it, which there may be when it is mapped next.
    pub(super) had_no_room: bool,
}

impl KnownFile {
    /// Whether this tells of the file what a look would.
    pub(super) fn holds(&self, changed: FileChangeTime) -> bool {
        !self.had_no_room && (self.attached || self.changed == changed)
    }

    /// How often the file that this is known of will have been looked into with the next look.
    pub(super) fn next_looks(known: Option<&Self>) -> u32 {
        let recent = known.filter(|known| known.looked.elapsed() < LOOKS_COUNT);
        recent.map_or(1, |known| LOOKS_MAX.min(known.looks + 1))
    }

    /// What came of the look.
    pub(super) fn outcome(self) -> TurnOutcome {
        TurnOutcome { times: self.looks, tells_if_late: self.is_new }
    }

    /// As somebody who comes later is told.
    pub(super) fn later(self) -> Self {
        Self { is_new: false, looks: 1, ..self }
    }
}
