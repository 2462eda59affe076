//! Processes from their beginnings to their ends: their numbers are given again.

use rustc_hash::FxHashMap;

/// A process that has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum LifeOwner {
    /// By its place in [`ProcessLives`].
    Life(usize),
    /// One that was there before the recording, and of which no record tells.
    Unrecorded(u32),
}

/// From a process's beginning to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessLife {
    pid: u32,
    /// Ticks; 0 where that was not seen.
    began: u64,
    /// Which process forked it, if that was seen.
    parent: Option<LifeOwner>,
    /// The last record of it.
    pub(super) last: u64,
    /// Whether a thread of it runs.
    is_running: bool,
}

/// All processes that records tell of.
#[derive(Debug, Default)]
pub(super) struct ProcessLives {
    lives: Vec<ProcessLife>,
    /// Which of these had a number, the last one last.
    of_pid: FxHashMap<u32, Vec<usize>>,
}

impl ProcessLives {
    /// A process of that number begins, which another forked; its place.
    pub(super) fn begin(&mut self, pid: u32, parent: u32, ticks: u64) -> usize {
        let parent = Some(self.last_of(parent));
        self.add(ProcessLife { pid, began: ticks, parent, last: ticks, is_running: false })
    }

    /// Something happens in the process of that number, all before being told; its place.
    pub(super) fn go_on(&mut self, pid: u32, ticks: u64) -> usize {
        match self.last_of(pid) {
            LifeOwner::Life(life) => {
                self.lives[life].last = ticks;
                life
            }
            LifeOwner::Unrecorded(_) => {
                let (began, parent) = (0, None);
                self.add(ProcessLife { pid, began, parent, last: ticks, is_running: false })
            }
        }
    }

    fn add(&mut self, life: ProcessLife) -> usize {
        let place = self.lives.len();
        self.of_pid.entry(life.pid).or_default().push(place);
        self.lives.push(life);
        place
    }

    /// A thread of the process there runs.
    pub(super) fn set_running(&mut self, place: usize) {
        self.lives[place].is_running = true;
    }

    /// The last process that had the number.
    pub(super) fn last_of(&self, pid: u32) -> LifeOwner {
        let life = self.of_pid.get(&pid).and_then(|lives| lives.last());
        life.map_or(LifeOwner::Unrecorded(pid), |life| LifeOwner::Life(*life))
    }

    /// The process that had the number at that time.
    pub(super) fn at(&self, pid: u32, ticks: u64) -> LifeOwner {
        let lives = self.of_pid.get(&pid).map_or(&[][..], Vec::as_slice);
        let had = lives.partition_point(|life| self.lives[*life].began <= ticks);
        let life = had.checked_sub(1).map(|had| lives[had]);
        life.map_or(LifeOwner::Unrecorded(pid), LifeOwner::Life)
    }

    /// What is known of a process, if none of its threads runs any more.
    pub(super) fn ended(&self, owner: LifeOwner) -> Option<&ProcessLife> {
        match owner {
            LifeOwner::Life(life) => Some(&self.lives[life]).filter(|life| !life.is_running),
            LifeOwner::Unrecorded(_) => None,
        }
    }

    /// Who has what belongs to a process, instead of itself: who forked it when it has ended and
    /// that is known.
    pub(super) fn heir(&self, owner: LifeOwner) -> Option<LifeOwner> {
        match owner {
            LifeOwner::Life(_) => self.ended(owner)?.parent,
            // Something was recorded of it later.
            LifeOwner::Unrecorded(pid) => {
                let first = *self.of_pid.get(&pid)?.first()?;
                (self.lives[first].began == 0).then_some(LifeOwner::Life(first))
            }
        }
    }

    pub(super) fn pid(&self, owner: LifeOwner) -> u32 {
        match owner {
            LifeOwner::Life(life) => self.lives[life].pid,
            LifeOwner::Unrecorded(pid) => pid,
        }
    }
}
