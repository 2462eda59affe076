//! What the metadata thread takes in turns.

use syscollect_model::Mapping;

use crate::fair_queue::QueuedWork;
use crate::sleepers::UnreadSleepers;

/// What is to be noted.
pub(super) enum MetadataTask {
    /// Processes that ran when the file began and are not described yet, the first last.
    Running(Vec<u32>),
    /// Those whose command lines are not read yet.
    CommandLines(Vec<u32>),
    /// Those whose mappings are not read yet.
    Processes(Vec<u32>),
    /// Those whose mappings are read again, because records of some were lost.
    ProcessesAgain(Vec<u32>),
    /// Such a process's mappings, from the next one on that is to be held.
    Mappings { all: Vec<Mapping>, next: usize },
    /// A file that was mapped while the recording went on.
    Mapped(Mapping),
    /// A program that began.
    Exec(u32),
    /// Where the code of a process that makes code may have names.
    PerfMap(u32),
    /// Threads of a user's processes that may be asleep.
    Sleepers(UnreadSleepers),
}

impl MetadataTask {
    /// Whether nothing is left of it.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Running(pids)
            | Self::CommandLines(pids)
            | Self::Processes(pids)
            | Self::ProcessesAgain(pids) => pids.is_empty(),
            Self::Mappings { all, next } => *next >= all.len(),
            Self::Sleepers(unread) => unread.is_empty(),
            Self::Mapped(_) | Self::Exec(_) | Self::PerfMap(_) => false,
        }
    }
}

impl QueuedWork for MetadataTask {
    fn count(&self) -> u64 {
        match self {
            Self::Running(pids) | Self::CommandLines(pids) | Self::Processes(pids) => {
                pids.len() as u64
            }
            Self::Mappings { all, next } => (all.len() - next) as u64,
            // Of these it is said apart, as are the records that were lost.
            Self::Sleepers(_) | Self::ProcessesAgain(_) => 0,
            Self::Mapped(_) | Self::Exec(_) | Self::PerfMap(_) => 1,
        }
    }
}
