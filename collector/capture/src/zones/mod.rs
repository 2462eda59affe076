//! Instrumented programs: taking over the memory that they share, and draining it.
//!
//! **Duties.** A program that links `syscollect-usdt-client` puts its zones
//! into an *arena*, a memfd (`syscollect_zone_protocol`). Here arenas
//! are found, checked, locked for this recorder, mapped, and drained into
//! chunks of [`LaneKind::Zone`](syscollect_model::LaneKind::Zone) and
//! [`LaneKind::ZoneLog`](syscollect_model::LaneKind::ZoneLog).
//!
//! **Non-goals.** Uprobes (`crate::probes` tells of announced rings by
//! [`ZoneNotice`]); the meaning of items, which waits for `syscollect-merge`.
//!
//! Three threads share the work. `watch.rs` takes over what is announced: it
//! goes first, for a program may end right after, and does nothing else.
//! `discovery.rs` does what takes its time, behind everybody else: it finds out
//! which thread writes to which ring where nobody said so, and notices programs
//! that are gone. The collector thread (`source.rs`) only copies bytes out of
//! rings that it knows already, so many in a turn (`turn.rs`). Nothing here ever
//! waits for a program, and no program for this: the shared memory holds no lock.
//!
//! # What is trusted
//!
//! Nothing. Memory that another process writes is copied first and then looked
//! at. A position, a size or a kind that cannot be makes its ring (or log) be
//! given up: that is counted, said, and of no effect on any other.
//!
//! Nor that there is little of it. Any user may make any number of programs that
//! share memory, each with as much in it as can be. What that costs is bounded
//! for each program, for each user (who made the arena's file, which no program
//! can lie about) and for all (`shares.rs`: who comes later finds some):
//!
//! | what | bound |
//! |---|---|
//! | mappings | one of 260 KiB for an arena; 4,096 arenas, or a sixteenth of `vm.max_map_count`; 16 of a process |
//! | rings that are read | 32,768; 4,096 of a process |
//! | memory | pages that the program wrote, headers of rings aside; 64 KiB are copied at a time, 1 MiB of what a ring held before; what waits for company an eighth of `--buffer` |
//! | definitions | in ten minutes `--buffer`, of a process 16 MiB; beyond that they are counted |
//! | time of the collector thread | 4,096 rings and 2 MiB (and a ring) a turn, users in turn, of each the programs in turn |
//! | announcements | the kernel program sees whether the descriptor can be an arena, and passes on 512 of a user in 100 ms, of others 16; then 512 of all users, of a process 128, of a user as many as are left to others; of each, processes younger than a second leave some to older ones |
//! | time of taking over | 128 arenas in 100 ms, of a user 64; for announcements of a user that lead to none 5 ms of a second, and as much for those of young processes; what is beyond waits for discovery |
//! | time of discovery | a sixtieth of a CPU, users in turn; of an arena in which nothing happens one word is read |
//!
//! What is refused is counted by user, and said once for a process, of a few processes of each
//! user. A user whose programs do harm may lose zones of that user's other programs, and no one
//! else's.
//!
//! # What a reader of the capture finds
//!
//! - `Definition::Clients` once for each arena: two instrumented programs in one
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
//! - For a thread that wrote nothing for half a second since it could see this
//!   collector, `Attached` and `OpenZone` are told here (`history.rs`), of what its
//!   ring still holds: it may hang in these zones.
//! - Losses of lane "zones": `lane-full` (items that found their ring full,
//!   events of threads without a ring), `undecodable` (rings and logs given up),
//!   `not-taken` (announced rings whose process had ended, or which were beyond a
//!   share; one each, for nobody knows how much was in them; rings and logs that
//!   were not read to their end within the recording's last second); of lane
//!   "zone definitions": `lane-full`, and `not-taken` beyond a share.

mod arena;
mod client;
mod counters;
mod definitions;
mod discovery;
mod exited;
mod find;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod history;
mod items;
mod lanes;
mod log;
mod losses;
mod mapped;
mod memory;
mod refusals;
mod ring;
mod source;
mod taken;
mod thread_ring;
mod turn;
mod watch;

#[cfg(any(test, feature = "fuzzing"))]
mod fake;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod silent;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod two_recorders;

pub(crate) use arena::memfd_device;
#[cfg(feature = "fuzzing")]
pub use fuzzing::hostile_programs;
pub(crate) use source::ZoneSource;

/// What an announced descriptor was when the kernel program looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnnouncedFile {
    /// Nobody looked.
    Unknown,
    /// A memfd of an arena's size, with that inode.
    Arena(u64),
    /// Closed, or another file: the program may have closed all its descriptors, or it lies.
    Other,
}

/// A thread hit the probe `syscollect:ring`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// When.
    pub(crate) ticks: u64,
    /// Its process.
    pub(crate) pid: u32,
    /// The thread.
    pub(crate) tid: u32,
    /// The arena's file descriptor in the process.
    pub(crate) descriptor: u64,
    /// The ring's number.
    pub(crate) ring: u64,
    /// Whose the thread is: its real user id.
    pub(crate) user: u32,
    /// What the descriptor was.
    pub(crate) file: AnnouncedFile,
    /// Whether the process had only just begun.
    pub(crate) is_young: bool,
}

/// What the rest of the collector tells of instrumented programs, those alone that
/// are recorded. Process and thread ids are those of the initial pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneNotice {
    /// A ring was announced.
    Announcement(Announcement),
    /// A process has mapped a file with the provider `syscollect`: it may have
    /// an arena from an earlier recording.
    ClientFile {
        /// The process.
        pid: u32,
        /// Whose it is, as far as that is known.
        user: Option<u32>,
    },
    /// Nothing more comes. What was told before is still seen to.
    Stop,
}
