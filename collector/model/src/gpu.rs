//! Work of GPUs, the same for every driver and system that tells of it.

use crate::{Fields, LocationId, StackId, StringId, ThreadId, Time, TrackId};

/// A job of a GPU that came to its end; the event's time is that end, or
/// [later](GpuZone::ended).
///
/// A job is told once, with all that is known of its way, because drivers tell
/// the parts in any order and some never. It lies on a track of the kind
/// [`TrackKind::GpuQueue`](crate::TrackKind::GpuQueue); jobs of one track never
/// overlap between [`Self::began`] and their end: a queue that holds several at
/// once has several tracks of one name, as async zones have.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuJob {
    /// What it is: `"Render"`, `"Paging"`, the name of the driver's fence.
    pub name: StringId,
    /// Its context: what the driver keeps for one program, by its number or address.
    pub context: Option<u64>,
    /// The thread that handed it over, where that is known.
    pub thread: Option<ThreadId>,
    /// The thread handed it over.
    pub submitted: Option<Time>,
    /// The scheduler or the driver took it: what it waited for before was other work.
    pub queued: Option<Time>,
    /// The GPU began with it, as far as the driver can tell.
    pub started: Option<Time>,
    /// How it ended.
    pub end: GpuJobEnd,
    /// The fence that its end signals.
    pub fence: Option<Fence>,
    /// The fences that it waited for.
    pub waited_for: Vec<Fence>,
    /// What else is said.
    pub fields: Fields,
    /// What is said of a zone that a program marked; of a driver's job, nothing.
    pub zone: Option<GpuZone>,
}

/// A piece of a GPU's work that a program marked and submitted: what it has beside other
/// [jobs](GpuJob). Zones lie within each other, each in another row of its queue, so on a track of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuZone {
    /// The track of its queue's first row, which tells queues of one name apart.
    pub queue: TrackId,
    /// How many zones of its queue it lies in.
    pub depth: u32,
    /// Its row of the queue: its depth, or a later one where zones overlap that do not lie in each
    /// other. Those whose row is their depth all lie in each other or apart.
    pub row: u32,
    /// A number that belongs to the name: "Frame" and 1234.
    pub number: Option<u64>,
    /// Where in the source it was submitted.
    pub location: Option<LocationId>,
    /// 0xRRGGBB.
    pub color: Option<u32>,
    /// Where in the code it was submitted.
    pub stack: Option<StackId>,
    /// How wrong the times of the GPU may be, nanoseconds.
    pub clock_error: u64,
    /// The thread was done with submitting it.
    pub submission_ended: Option<Time>,
    /// When it ended, where that is told later: a recording that goes on hears of times when they
    /// are read. Of one track they are told in order.
    pub ended: Option<Time>,
}

impl GpuJob {
    /// A job of which only the name is known.
    pub fn named(name: StringId) -> Self {
        Self {
            name,
            context: None,
            thread: None,
            submitted: None,
            queued: None,
            started: None,
            end: GpuJobEnd::Finished,
            fence: None,
            waited_for: Vec::new(),
            fields: Fields::new(),
            zone: None,
        }
    }

    /// When it ended, if it was told at that time.
    pub fn ended(&self, told: Time) -> Time {
        self.zone.and_then(|zone| zone.ended).unwrap_or(told)
    }

    /// When its slice begins on its track: when it started, or the last stage
    /// known before that; `None` where only the end is known, or nothing of what the GPU did.
    pub fn began(&self) -> Option<Time> {
        if self.end == GpuJobEnd::Untimed {
            return None;
        }
        self.started.or(self.queued).or(self.submitted)
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GpuJobEnd {
    /// The GPU is done with it.
    Finished,
    /// The driver gave it up: a timeout, a reset. Its field
    /// [`FieldRole::JobError`](crate::FieldRole::JobError) says why, where that is known.
    Failed,
    /// It had not ended when the recording did, or its end was lost.
    Unfinished,
    /// Its end came before its beginning, or the beginning was lost.
    WithoutBeginning,
    /// A program submitted it and nobody told when the GPU did it: the device was lost, the query
    /// was not read. The event's time is the end of its submission.
    Untimed,
}

/// A fence: a moment in the work of a GPU that can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence {
    /// The timeline it belongs to.
    pub context: u64,
    /// Its place on that timeline.
    pub sequence: u64,
}
