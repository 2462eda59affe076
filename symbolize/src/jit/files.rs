//! Perf maps that are held open, from when they are found until their processes' code is named.
//!
//! Whoever runs a program decides what lies in its `/tmp`, and files stay there after their
//! processes. So a map counts for a process only if it belongs to the process's user and was written
//! since the process began.

use rustc_hash::FxHashMap;
use std::path::Path;
use syscollect_model::{ProgramMemory, Ticks};
use syscollect_untrusted_files::{FileData, FileLocation, OpenError, OpenedFile, Owner, find};

/// Processes of which is known why they have no map.
const REFUSED_MAX: usize = 4096;
/// Maps that are held of one process number: programs that had it one after the other.
const HELD_OF_ONE: usize = 4;

/// A process that may have a perf map, as it was while it lived.
#[derive(Clone, Debug)]
pub struct PerfMapOwner {
    /// Its id in the initial pid namespace.
    pub pid: u32,
    /// Its id as itself sees it, by which its map is called.
    pub own_pid: u32,
    /// When it began at the latest, in seconds and nanoseconds of CLOCK_REALTIME; a file that was
    /// last written before then is an older process's.
    pub began: (i64, u32),
    /// Its user.
    pub user: Owner,
    /// Whether its `/tmp` is this program's, too: then its map can be found after its end.
    pub shares_files: bool,
}

/// What came of looking for a process's perf map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfMapOutcome {
    /// It is held.
    Held,
    /// There is none that counts, as far as is known now.
    Missing,
    /// The process has ended.
    Gone,
}

/// A perf map that is held.
#[derive(Debug)]
pub(crate) struct PerfMap {
    pub(crate) file: OpenedFile,
    /// When it was found to be the map of the process.
    pub(crate) taken: Ticks,
}

impl PerfMap {
    fn is(&self, data: &FileData) -> bool {
        let held = self.file.data();
        (held.device, held.inode) == (data.device, data.inode)
    }
}

/// Perf maps by process.
#[derive(Debug, Default)]
pub(crate) struct PerfMaps {
    /// In order of `taken`.
    held: FxHashMap<u32, Vec<PerfMap>>,
    /// Why a process's map was refused last.
    refused: FxHashMap<u32, String>,
}

/// A perf map that may be held.
pub(crate) enum FoundMap {
    Opened(OpenedFile),
    Missing,
    Gone,
    Refused(String),
}

impl PerfMaps {
    /// The map of what a process ran then; in words why there is none.
    pub(crate) fn of(&self, memory: &ProgramMemory) -> Result<&PerfMap, String> {
        let maps = self.held.get(&memory.pid).map_or(&[][..], Vec::as_slice);
        let mut maps = maps.iter().rev();
        maps.find(|map| memory.was_of(memory.pid, map.taken)).ok_or_else(|| {
            let refused = self.refused.get(&memory.pid).cloned();
            refused.unwrap_or_else(|| "its process had no perf map".to_owned())
        })
    }

    /// Whether taking a map of the process would need another place.
    pub(crate) fn is_new(&self, pid: u32) -> bool {
        !self.held.contains_key(&pid)
    }

    /// Keeps a map that was found at `taken`.
    pub(crate) fn keep(&mut self, pid: u32, file: OpenedFile, taken: Ticks) {
        self.refused.remove(&pid);
        let maps = self.held.entry(pid).or_default();
        // What is in the same file by now is the later program's.
        maps.retain(|map| !map.is(file.data()));
        if maps.len() >= HELD_OF_ONE {
            maps.remove(0);
        }
        maps.push(PerfMap { file, taken });
    }

    /// Notes why a map is not held.
    pub(crate) fn refuse(&mut self, pid: u32, reason: String) {
        if self.refused.len() >= REFUSED_MAX {
            self.refused.clear();
        }
        self.refused.insert(pid, reason);
    }

    /// The process runs another program, which may write what it likes into the file of the one
    /// before.
    ///
    /// Whose place is free again, if one was taken.
    pub(crate) fn forget(&mut self, pid: u32) -> Option<u32> {
        self.refused.remove(&pid);
        let maps = self.held.remove(&pid)?;
        maps.first().map(|map| map.file.data().uid)
    }

    /// Who owns the map of what a process ran then.
    pub(crate) fn owner_of(&self, memory: &ProgramMemory) -> Option<u32> {
        self.of(memory).ok().map(|map| map.file.data().uid)
    }
}

/// Looks for the perf map of a process that lives.
pub(crate) fn look(process: &PerfMapOwner) -> FoundMap {
    let path = path_of(process);
    let found = open(process, &FileLocation::InRootOf { pid: process.pid, path: Path::new(&path) });
    // Another process may have the number by now.
    let lives = Owner::of_process(process.pid).as_ref() == Some(&process.user);
    if lives { found } else { FoundMap::Gone }
}

/// Looks for the perf map of a process that has ended.
pub(crate) fn look_afterwards(process: &PerfMapOwner) -> FoundMap {
    if !process.shares_files {
        return FoundMap::Gone;
    }
    open(process, &FileLocation::Mapped(Path::new(&path_of(process))))
}

fn path_of(process: &PerfMapOwner) -> String {
    format!("/tmp/perf-{}.map", process.own_pid)
}

fn open(process: &PerfMapOwner, place: &FileLocation<'_>) -> FoundMap {
    let refused = |why: &str| {
        FoundMap::Refused(format!("the perf map {} is not read: {why}", path_of(process)))
    };
    let found = match find(place, Some(&process.user)) {
        Ok(found) => found,
        Err(OpenError::System(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return FoundMap::Missing;
        }
        Err(error) => return refused(&error.to_string()),
    };
    let data = found.data();
    if data.uid != process.user.uid() {
        return refused("it belongs to another user than the process");
    }
    if data.written < process.began {
        return refused("it was written before the process began, by an older one of its number");
    }
    found.open().map_or_else(|error| refused(&error.to_string()), FoundMap::Opened)
}
