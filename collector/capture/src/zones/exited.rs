//! Arenas that were read to their end. What was announced of one before that,
//! and is heard only now because the recorder stood still, is no loss.

use std::collections::VecDeque;
use std::path::PathBuf;

use syscollect_model::{ClockSource, Ticks};

use crate::clock::ticks_now;

/// Arenas that are remembered, at most.
const MOST: usize = 4096;

/// The last arenas whose programs were found gone.
pub(super) struct Exited {
    /// The clock of announcements.
    clock: ClockSource,
    arenas: VecDeque<ExitedProcess>,
}

struct ExitedProcess {
    pid: u32,
    descriptor: PathBuf,
    /// When it was found gone.
    at: Ticks,
}

impl Exited {
    /// None yet.
    pub(super) fn new(clock: ClockSource) -> Self {
        Self { clock, arenas: VecDeque::new() }
    }

    /// The arena that this process had there is gone, and was read.
    pub(super) fn add(&mut self, pid: u32, descriptor: PathBuf) {
        if self.arenas.len() >= MOST {
            self.arenas.pop_front();
        }
        self.arenas.push_back(ExitedProcess { pid, descriptor, at: ticks_now(self.clock) });
    }

    /// Whether an arena that the process had at one of these paths at that time was read.
    pub(super) fn had(&self, pid: u32, paths: &[PathBuf], ticks: u64) -> bool {
        self.arenas
            .iter()
            .any(|one| one.pid == pid && ticks <= one.at.0 && paths.contains(&one.descriptor))
    }
}
