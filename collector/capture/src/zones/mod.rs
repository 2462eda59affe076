//! Marked programs: taking over the memory that they share, and draining it.
//!
//! **Duties.** A program that links `syscollect-usdt-client` puts its zones
//! into an *arena*, a memfd (`syscollect_usdt_client::protocol`). Here arenas
//! are found, checked, locked for this recorder, mapped, and drained into
//! chunks of [`LaneKind::Zone`](syscollect_store::LaneKind::Zone) and
//! [`LaneKind::ZoneLog`](syscollect_store::LaneKind::ZoneLog).
//!
//! **Non-goals.** Uprobes (`crate::probes` tells of announced rings by
//! [`ZoneNotice`]); the meaning of items, which waits for `syscollect-merge`.
//!
//! Two threads share the work. The *watcher* (`watch.rs`) does what takes its
//! time and must come soon: it opens arenas as they are announced, for a
//! program may end right after; finds out which thread writes to which ring;
//! notices programs that are gone. The collector thread (`source.rs`) only
//! copies bytes out of rings that are mapped already. Nothing here ever waits
//! for a program, and no program for this: the shared memory holds no lock.
//!
//! # What is trusted
//!
//! Nothing. Memory that another process writes is copied first and then looked
//! at. A position, a size or a kind that cannot be makes its ring (or log) be
//! given up: that is counted, said, and of no effect on any other.
//!
//! # What a reader of the capture finds
//!
//! - `Definition::Clients` once for each arena: two marked programs in one
//!   process (an executable and a plugin) are two clients of one pid.
//! - Chunks of `Zone`: the prefix `ZoneChunk`, then whole items. What a thread
//!   published at once lies in one chunk; an item at the beginning that has no
//!   stamp tells of what went before. The lane's number is the collector's; when
//!   a thread has ended another may get it, which `ZoneChunk::owner` tells.
//!   `current_tid` in the header is the thread.
//!   The ticks in the chunk's header are the client's own clock, as its
//!   definition names it: usually that of the session.
//! - Chunks of `ZoneLog`, all with lane number 0: the prefix `ZoneLogChunk`,
//!   then whole entries in the order of the log, without gaps.
//! - Sampled counters of an application (`EntryKind::Counter`) lie in a lane of
//!   their own for each client, in chunks whose tid is the client's pid, as
//!   `ItemKind::Plot` items: the plot's number is that of the `Counter` entry,
//!   the ticks are when the collector read the value. Nothing else lies there.
//! - Items whose stamp is older than the recording are left out: what an
//!   earlier collector did not fetch. After that, the items before a thread's
//!   first `Attached` have no context but what they carry themselves.
//! - Losses of lane "zones": `lane-full` (items that found their ring full,
//!   events of threads without a ring), `undecodable` (rings and logs given up),
//!   `not-taken` (announced rings whose process had ended; one each, for nobody
//!   knows how much was in them); of lane "zone definitions": `lane-full`.

mod arena;
mod client;
mod counters;
mod definitions;
mod departed;
mod find;
mod items;
mod lanes;
mod log;
mod memory;
mod ring;
mod shares;
mod source;
mod survey;
mod taken;
mod turn;
mod watch;

#[cfg(any(test, fuzzing))]
mod fake;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

pub(crate) use source::ZoneSource;

/// What the rest of the collector tells of marked programs, those alone that
/// are recorded. Process and thread ids are those of the initial pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneNotice {
    /// A thread hit the probe `syscollect:ring`.
    Announcement {
        /// When.
        ticks: u64,
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The arena's file descriptor in the process.
        descriptor: u64,
        /// The ring's number.
        ring: u64,
    },
    /// A process has mapped a file with the provider `syscollect`: it may have
    /// an arena from an earlier recording.
    ClientFile {
        /// The process.
        pid: u32,
    },
    /// Nothing more comes. What was told before is still seen to.
    Stop,
}
