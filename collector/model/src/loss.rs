//! What is missing, counted by place and cause.

use crate::Time;
use serde::{Deserialize, Serialize};

/// A number of records that were produced and are not in the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The lane they were lost from: `"sched"`, `"samples"`, ...
    pub lane: String,
    /// Its CPU, if it has one.
    pub cpu: Option<u32>,
    /// Why.
    pub cause: LossCause,
    /// How many records.
    pub count: u64,
    /// When, as far as it is known: the last event before, the first after.
    pub between: Option<(Time, Time)>,
}

/// Why records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossCause {
    /// The lane was full: the collector came too late.
    LaneFull,
    /// An event happened inside the recording of another.
    Nested,
    /// The clock of a CPU that was just coming up could not be read.
    ClockUnreadable,
    /// The trace buffer was full: the disk came too late.
    BufferFull,
    /// Overwritten by newer events, as `--overwrite` asks.
    Overwritten,
    /// The disk was full or refused to write.
    DiskFull,
    /// A chunk of the file is damaged or missing.
    Damaged,
    /// The records could not be decoded.
    Undecodable,
    /// A program's memory could not be taken over: it ended before that.
    NotTaken,
}

impl LossCause {
    /// The cause in words, as messages and `info --json` print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LaneFull => "lane-full",
            Self::Nested => "nested",
            Self::ClockUnreadable => "clock-unreadable",
            Self::BufferFull => "buffer-full",
            Self::Overwritten => "overwritten",
            Self::DiskFull => "disk-full",
            Self::Damaged => "damaged",
            Self::Undecodable => "undecodable",
            Self::NotTaken => "not-taken",
        }
    }
}
