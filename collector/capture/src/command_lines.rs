//! Command lines of the processes that run when a file of the recording begins.
//!
//! They lie in the memory of processes, and are read under the lock of a process's mappings, which
//! its user can keep others from for long, for thousands of processes at once. So they are read in
//! turns of users, for each process and each user a limited time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use syscollect_untrusted_files::{OpenError, Patience};

use crate::snapshot;
use crate::turns::Whose;

/// How long one is waited for. Another user's notes may wait as long for it.
const LONGEST_READ: Duration = Duration::from_millis(50);
/// How long all those of one user are waited for: some thousand, where nobody holds them up.
const LONGEST_OF_USER: Duration = Duration::from_millis(300);

/// Reads command lines.
#[derive(Debug)]
pub(crate) struct CommandLines {
    patience: Patience,
}

impl CommandLines {
    pub(crate) fn new() -> Self {
        Self { patience: Patience::new(LONGEST_READ) }
    }

    /// The arguments of that user's process, below `root`/proc. None if it has ended or is a kernel
    /// thread.
    ///
    /// # Errors
    ///
    /// They cannot be read in time.
    pub(crate) fn read(
        &self,
        root: &Path,
        pid: u32,
        whose: Whose,
    ) -> Result<Vec<String>, OpenError> {
        let root = root.to_path_buf();
        self.patience.within(whose.uid(), move || snapshot::command_line(&root, pid))
    }
}

/// Processes of one user whose command lines are still to be read.
#[derive(Debug)]
pub(crate) struct UnreadCommandLines {
    /// The next one last.
    pids: Vec<u32>,
    /// How long these may still take.
    left: Duration,
}

impl UnreadCommandLines {
    /// Those of each of these users, in the order of the processes.
    pub(crate) fn by_user(processes: impl Iterator<Item = (Whose, u32)>) -> BTreeMap<Whose, Self> {
        let mut users = BTreeMap::new();
        for (whose, pid) in processes {
            let new = || Self { pids: Vec::new(), left: LONGEST_OF_USER };
            users.entry(whose).or_insert_with(new).pids.push(pid);
        }
        users.values_mut().for_each(|unread| unread.pids.reverse());
        users
    }

    /// How many they are.
    pub(crate) fn count(&self) -> u64 {
        self.pids.len() as u64
    }

    /// The process whose turn it is.
    pub(crate) fn next(&mut self) -> Option<u32> {
        self.pids.pop()
    }

    /// Reading one took so long. The rest, if there is one and it may be read; otherwise how many
    /// have no command line.
    pub(crate) fn after(mut self, took: Duration) -> Result<Self, u64> {
        self.left = self.left.saturating_sub(took);
        match self.left.is_zero() || self.pids.is_empty() {
            true => Err(self.count()),
            false => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_user_have_a_limited_time_together() {
        let processes =
            [(Whose::Of(7), 1), (Whose::Of(8), 2), (Whose::Of(7), 3), (Whose::Of(7), 4)];
        let mut users = UnreadCommandLines::by_user(processes.into_iter());
        let mut slow = users.remove(&Whose::Of(7)).unwrap();
        assert_eq!((slow.count(), slow.next()), (3, Some(1)));
        let mut slow = slow.after(LONGEST_OF_USER / 2).unwrap();
        assert_eq!(slow.next(), Some(3));
        assert_eq!(slow.after(LONGEST_OF_USER / 2).unwrap_err(), 1);
        let mut quick = users.remove(&Whose::Of(8)).unwrap();
        assert_eq!(quick.next(), Some(2));
        assert_eq!(quick.after(Duration::ZERO).unwrap_err(), 0);
    }
}
