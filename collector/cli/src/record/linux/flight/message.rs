//! What is asked of a flight recorder, and what it answers: JSON, one message each.

use serde::{Deserialize, Serialize};
use syscollect_triggers::TriggerStatus;

/// Where it listens, unless another place is asked for.
pub(super) const SOCKET: &str = "/run/syscollect.sock";
/// Most bytes of a request.
pub(super) const MOST_BYTES: usize = 4096;
/// Most bytes of the words for why a snapshot is taken.
pub(super) const MOST_REASON: usize = 1024;

/// A request. With it come two descriptors: a socket for the answer, and for a snapshot the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(super) enum Request {
    /// How it is.
    Status,
    /// What it holds is to go to the file.
    Snapshot {
        /// Only events of so many nanoseconds before now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_ns: Option<u64>,
        /// Why, in words.
        #[serde(default)]
        reason: String,
    },
    /// It is to end.
    Stop,
}

/// An answer.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(super) enum Answer {
    Status(Box<Status>),
    /// The file has what was recorded.
    Snapshot {
        /// How long the part of the recording is that it has, nanoseconds.
        duration_ns: u64,
        /// What is missing at its end (a full disk), if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        incomplete: Option<String>,
        /// Why names of functions are missing that could have been found, if so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unnamed: Option<String>,
    },
    Stopping,
    /// It is not done, and why.
    Refused {
        why: String,
    },
}

/// How a flight recorder is.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// Of this JSON.
    pub(super) schema_version: u32,
    /// `syscollect 0.1.0`.
    pub(super) recorder: String,
    pub(super) pid: u32,
    /// For how long it records, nanoseconds.
    pub(super) running_ns: u64,
    /// How far back what it holds reaches, nanoseconds.
    pub(super) reach_ns: u64,
    /// Bytes that it holds, and that the buffer may have.
    pub(super) held_bytes: u64,
    pub(super) buffer_bytes: u64,
    /// Events since it began, and records lost since then.
    pub(super) events: u64,
    pub(super) lost: u64,
    /// CPU time of the recorder, nanoseconds, and the most that it had in memory, bytes.
    pub(super) cpu_ns: u64,
    pub(super) peak_bytes: u64,
    /// Bytes that it may have in memory, if that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_bytes: Option<u64>,
    /// Snapshots that were taken, that are being written, and that failed.
    pub(super) snapshots: u64,
    pub(super) writing: u64,
    pub(super) failed: u64,
    /// What this machine lacks.
    pub(super) missing: Vec<String>,
    /// What its triggers saw.
    pub(super) triggers: TriggerReport,
}

/// Chunks of a user's programs that nobody could look at in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnwatchedChunks {
    pub(super) user: u32,
    pub(super) chunks: u64,
}

/// What triggers saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TriggerReport {
    /// Each as it is now.
    pub(super) triggers: Vec<TriggerStatus>,
    /// Snapshots that wait for their time, or for a place.
    pub(super) waiting: u64,
    /// Chunks of records that nobody could look at in time,
    pub(super) unwatched_chunks: u64,
    /// and those of them that programs wrote, by user: those of the users with most.
    pub(super) unwatched_of_users: Vec<UnwatchedChunks>,
    /// Threads, zones, calls and names that were more than are followed at a time.
    pub(super) unfollowed: u64,
}
