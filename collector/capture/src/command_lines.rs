//! Command lines of the processes that run when a file of the recording begins.
//!
//! They lie in the memory of processes, and are read under the lock of a process's mappings, which
//! its user can keep others from for long, for thousands of processes at once. So they are read in
//! turns of users, for each process and each user a limited time.

use std::path::Path;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_untrusted_files::{OpenError, Patience};

use crate::fair_queue::ProcessUser;
use crate::snapshot;

/// How long one is waited for. Another user's notes may wait as long for it.
const LONGEST_READ: Duration = Duration::from_millis(50);
/// How long all those of one user are waited for: some thousand, where nobody holds them up.
const LONGEST_OF_USER: Duration = Duration::from_millis(300);

/// Reads command lines.
#[derive(Debug)]
pub(crate) struct CommandLines {
    patience: Patience,
    /// How long those of processes that ran when the file began took, by who pays for it.
    took: FxHashMap<ProcessUser, Duration>,
}

impl CommandLines {
    pub(crate) fn new() -> Self {
        Self { patience: Patience::new(LONGEST_READ), took: FxHashMap::default() }
    }

    /// Another file begins, with all that runs then.
    pub(crate) fn begin_file(&mut self) {
        self.took.clear();
    }

    /// Whether that user's processes that ran when the file began had their time.
    pub(crate) fn took_all(&self, whose: ProcessUser) -> bool {
        self.took.get(&whose.payer()).is_some_and(|took| *took >= LONGEST_OF_USER)
    }

    /// The arguments of a process that ran when the file began, read in the time of all those of
    /// its user.
    ///
    /// # Errors
    ///
    /// They cannot be read in time.
    pub(crate) fn read_known(
        &mut self,
        root: &Path,
        pid: u32,
        whose: ProcessUser,
    ) -> Result<Vec<String>, OpenError> {
        let began = Instant::now();
        let read = self.read(root, pid, whose);
        *self.took.entry(whose.payer()).or_default() += began.elapsed();
        read
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
        whose: ProcessUser,
    ) -> Result<Vec<String>, OpenError> {
        let root = root.to_path_buf();
        self.patience.within(whose.uid(), move || snapshot::command_line(&root, pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_user_have_a_limited_time_together() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/7");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cmdline"), b"honest\0").unwrap();
        let mut command_lines = CommandLines::new();
        let [hostile, honest] = [ProcessUser::Of(1007), ProcessUser::Of(1008)];
        let read = command_lines.read_known(root.path(), 7, hostile);
        assert_eq!(read.unwrap(), ["honest"]);
        assert!(command_lines.took[&hostile] > Duration::ZERO);
        command_lines.took.insert(hostile, LONGEST_OF_USER);
        assert!(command_lines.took_all(hostile) && !command_lines.took_all(honest));
        command_lines.begin_file();
        assert!(!command_lines.took_all(hostile));
    }
}
