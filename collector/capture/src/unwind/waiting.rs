//! Files of code that wait to be told to the kernel programs, in turns of the users whose programs
//! mapped them: reading what a file is takes as long as its owner makes it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syscollect_untrusted_files::{FileData, OpenedFile};

use super::uid_of;
use crate::fair_queue::{Account, FairQueue, ProcessUser, QueuedWork, Turn, TurnOutcome};
use crate::shares::Pool;

/// Files that wait: each is held open.
const WAITING_MAX: u64 = 1024;
/// How much of a second is spent on the files of one user. A usual one takes a fraction of a
/// millisecond, a large interpreter some 20.
const SHARE: Duration = Duration::from_millis(250);

/// A file that is mapped as code, where, and by whose program.
#[derive(Debug)]
pub(super) struct MappedFile {
    pub(super) file: OpenedFile,
    pub(super) path: String,
    pub(super) whose: ProcessUser,
    /// There was no number for it, which is counted.
    pub(super) was_refused: bool,
}

impl QueuedWork for MappedFile {
    fn count(&self) -> u64 {
        1
    }
}

/// What became of a file that was to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It waits, and whoever takes them out has to be told.
    WakeNeeded,
    /// It waits, and that was told.
    WakeSent,
    /// It was let go.
    NoRoom,
}

/// Shared by who tells of files and who takes them out; neither has the other wait for more than a
/// look at who waits.
pub(super) struct WaitingFiles {
    queue: Mutex<Queue>,
    wake_sent: AtomicBool,
    pub(super) let_go: DroppedFiles,
}

struct Queue {
    turns: FairQueue<MappedFile>,
    room: Pool,
}

impl std::fmt::Debug for WaitingFiles {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("WaitingFiles").field("let_go", &self.let_go).finish_non_exhaustive()
    }
}

impl WaitingFiles {
    /// None. The user who asked for the recording has no share of the time.
    pub(super) fn new(asked_by: Option<u32>) -> Self {
        let (turns, room) = (FairQueue::new(asked_by, SHARE), Pool::new(WAITING_MAX));
        let (wake_sent, let_go) = (AtomicBool::default(), DroppedFiles::default());
        Self { queue: Mutex::new(Queue { turns, room }), wake_sent, let_go }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file waits, since then. It is let go if its user has no room: when it is mapped once more,
    /// there may be some.
    pub(super) fn add(&self, file: MappedFile, since: Instant) -> Added {
        let mut queue = self.queue();
        let Queue { turns, room } = &mut *queue;
        let (whose, user, data) = (file.whose, uid_of(file.whose), *file.file.data());
        if !room.take(user, 1) {
            turns.refuse(whose, &file);
        } else if !turns.add(whose, file, since) {
            room.give_back(user, 1);
        } else {
            drop(queue);
            let wake_sent = self.wake_sent.swap(true, Ordering::AcqRel);
            return if wake_sent { Added::WakeSent } else { Added::WakeNeeded };
        }
        drop(queue);
        self.let_go.add(data);
        Added::NoRoom
    }

    /// What is [added](Self::add) from now on has to be told.
    pub(super) fn hear(&self) {
        self.wake_sent.store(false, Ordering::Release);
    }

    /// The file whose turn it is; `None` if none waits, or all who wait have had their share.
    pub(super) fn next(&self, now: Instant) -> Option<Turn<MappedFile>> {
        let mut queue = self.queue();
        let turn = queue.turns.next(now)?;
        queue.room.give_back(uid_of(turn.whose), 1);
        Some(turn)
    }

    /// A turn that began then is over; whether walks know a file since then.
    pub(super) fn took(&self, turn: &Turn<()>, began: Instant, is_new: bool) {
        let outcome = TurnOutcome { times: 1, tells_if_late: is_new };
        self.queue().turns.took(turn, began, began.elapsed(), outcome);
    }

    /// Tables were made for a user, which took so long.
    pub(super) fn took_besides(&self, whose: ProcessUser, took: Duration) {
        self.queue().turns.took_besides(whose, took);
    }

    /// What is of the user who took the least time.
    pub(super) fn least<T>(
        &self,
        all: impl Iterator<Item = T>,
        whose: impl Fn(&T) -> ProcessUser,
    ) -> Option<T> {
        let queue = self.queue();
        all.min_by_key(|one| queue.turns.had(whose(one)))
    }

    /// What to tell the user of files that came late, or not at all.
    pub(super) fn notes(&self, now: Instant) -> Vec<String> {
        self.queue().turns.notes(now, words)
    }
}

/// What was not told to the programs in time, and of whose programs.
fn words(account: &Account, whose: &str) -> String {
    let missing = account.shortcomings("not read");
    format!(
        "programs {whose} mapped files of code faster than these were read for unwind tables: {missing}; stacks \
         through them were cut meanwhile"
    )
}

/// Files that were let go: whoever notices that they are mapped again has to say so.
#[derive(Debug, Default)]
pub(super) struct DroppedFiles {
    files: Mutex<Vec<FileData>>,
    /// How many there are, so that nobody asks in vain.
    count: AtomicU64,
}

impl DroppedFiles {
    pub(super) fn add(&self, file: FileData) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        self.count.fetch_add(1, Ordering::Release);
    }

    pub(super) fn take(&self) -> Vec<FileData> {
        if self.is_empty() {
            return Vec::new();
        }
        let taken = std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner));
        self.count.fetch_sub(taken.len() as u64, Ordering::Release);
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}
