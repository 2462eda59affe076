//! Lists of code that are pinned open, from when they are found until their processes' code is named.
//!
//! Whoever runs a program decides what lies in its `/tmp`, and files stay there after their
//! processes. So a list counts for a process only if it belongs to the process's user and was
//! written since the process began.

use crate::path::plain_path;
use rustc_hash::FxHashMap;
use std::path::Path;
use syscollect_model::{Mapping, ProgramMemory, Ticks};
use syscollect_untrusted_files::{FileData, FileLocation, OpenError, OpenedFile, Owner, find};

/// What is said of a list in which some names, or all, were not looked for.
pub(crate) const NOT_READ: &str = "not read";

/// Processes of which is known why they have no map.
const REFUSED_MAX: usize = 4096;
/// Lists that are pinned of one process number: programs that had it one after the other.
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
    /// It is pinned.
    Held,
    /// There is none that counts, as far as is known now.
    Missing,
    /// The process has ended.
    Gone,
}

/// A list of code that is pinned.
#[derive(Clone, Debug)]
pub(crate) struct CodeList {
    pub(crate) file: OpenedFile,
    /// When it was found to be the list of the process.
    pub(crate) taken: Ticks,
}

impl CodeList {
    fn is(&self, data: &FileData) -> bool {
        let known = self.file.data();
        (known.device, known.inode) == (data.device, data.inode)
    }
}

/// Lists of one kind, by process.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodeLists {
    /// In order of `taken`.
    lists: FxHashMap<u32, Vec<CodeList>>,
    /// Why a process's list was refused last.
    refused: FxHashMap<u32, String>,
}

/// A list that may be pinned.
pub(crate) enum ListLookup {
    Opened(OpenedFile),
    Missing,
    Gone,
    Refused(String),
}

impl CodeLists {
    /// The list of what a process ran then.
    pub(crate) fn of(&self, memory: &ProgramMemory) -> Option<&CodeList> {
        let mut lists = self.lists.get(&memory.pid)?.iter().rev();
        lists.find(|list| memory.was_of(memory.pid, list.taken))
    }

    /// Why a process's list was refused last.
    pub(crate) fn refusal(&self, pid: u32) -> Option<&str> {
        self.refused.get(&pid).map(String::as_str)
    }

    /// Whether taking a list of the process would need another place.
    pub(crate) fn is_new(&self, pid: u32) -> bool {
        !self.lists.contains_key(&pid)
    }

    /// Keeps a list that was found at `taken`.
    pub(crate) fn keep(&mut self, pid: u32, file: OpenedFile, taken: Ticks) {
        self.refused.remove(&pid);
        let maps = self.lists.entry(pid).or_default();
        // What is in the same file by now is the later program's.
        maps.retain(|map| !map.is(file.data()));
        if maps.len() >= HELD_OF_ONE {
            maps.remove(0);
        }
        maps.push(CodeList { file, taken });
    }

    /// The lists of all processes, by their ids.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &OpenedFile)> {
        self.lists.iter().flat_map(|(pid, lists)| lists.iter().map(|list| (*pid, &list.file)))
    }

    /// Notes why a list is not pinned.
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
        let maps = self.lists.remove(&pid)?;
        maps.first().map(|map| map.file.data().uid)
    }
}

/// Looks for the perf map of a process that lives.
pub(crate) fn find_list(process: &PerfMapOwner) -> ListLookup {
    let path = path_of(process);
    let place = FileLocation::InRootOf { pid: process.pid, path: Path::new(&path) };
    while_it_lives(process, open(process, &place, &path))
}

/// Looks for the perf map of a process that has ended.
pub(crate) fn find_list_afterwards(process: &PerfMapOwner) -> ListLookup {
    let path = path_of(process);
    match process.shares_files {
        true => open(process, &FileLocation::Mapped(Path::new(&path)), &path),
        false => ListLookup::Gone,
    }
}

/// Opens the jitdump that a process has mapped.
pub(crate) fn find_dump(process: &PerfMapOwner, mapping: &Mapping) -> ListLookup {
    let Mapping { pid, path, .. } = mapping;
    // A fork has its parent's mapped.
    if dump_number(path) != Some(process.own_pid) {
        return ListLookup::Missing;
    }
    let path = plain_path(path);
    let place = FileLocation::InRootOf { pid: *pid, path: Path::new(path) };
    while_it_lives(process, open(process, &place, path))
}

/// The number in the name of a jitdump, by which its process knows itself.
pub(crate) fn dump_number(path: &str) -> Option<u32> {
    let (_, name) = plain_path(path).rsplit_once('/')?;
    let digits = name.strip_prefix("jit-")?.strip_suffix(".dump")?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// What was found, if it was found by the process: another one may have the number by now.
fn while_it_lives(process: &PerfMapOwner, found: ListLookup) -> ListLookup {
    let is_alive = Owner::of_process(process.pid).as_ref() == Some(&process.user);
    if is_alive { found } else { ListLookup::Gone }
}

fn path_of(process: &PerfMapOwner) -> String {
    format!("/tmp/perf-{}.map", process.own_pid)
}

fn open(process: &PerfMapOwner, place: &FileLocation<'_>, path: &str) -> ListLookup {
    let found = match find(place, Some(&process.user)) {
        Ok(found) => found,
        Err(OpenError::System(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return ListLookup::Missing;
        }
        Err(error) => return refused(path, &error.to_string()),
    };
    let data = found.data();
    if data.uid != process.user.uid() {
        return refused(path, "it belongs to another user than the process");
    }
    if data.written < process.began {
        return refused(
            path,
            "it was written before the process began, by an older one of its number",
        );
    }
    found.open().map_or_else(|error| refused(path, &error.to_string()), ListLookup::Opened)
}

fn refused(path: &str, why: &str) -> ListLookup {
    ListLookup::Refused(format!("{path} is {NOT_READ}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::dump_number;

    #[test]
    fn a_jitdump_is_known_by_its_name() {
        assert_eq!(dump_number("/home/a/jit-123.dump"), Some(123));
        assert_eq!(dump_number("/tmp/jit-7.dump (deleted)"), Some(7));
        for other in ["/tmp/jit-.dump", "/tmp/jit-+7.dump", "jit-7.dump", "/jit-7.dump/lib.so"] {
            assert_eq!(dump_number(other), None, "{other}");
        }
    }
}
