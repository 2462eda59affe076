//! Where arenas and threads are, as /proc tells.

#![expect(clippy::disallowed_methods, reason = "what the kernel has below /proc/PID")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use syscollect_untrusted_files::{in_map_files, in_process, living_other, status_at};
use syscollect_zone_protocol::arena::ARENA_NAME;

use super::arena::{Arena, ArenaId, FoundArena};

/// Links, tasks and mappings of one process that are looked at, at most. Arenas are made early:
/// their descriptors are among the first.
const MOST_ENTRIES: usize = 4096;

/// Where a descriptor of a process may be found: a process whose first thread
/// has ended shows its files only below its other threads.
pub(super) fn descriptor_paths(root: &Path, pid: u32, tid: u32, descriptor: u64) -> [PathBuf; 2] {
    let proc = root.join("proc");
    [
        proc.join(format!("{pid}/fd/{descriptor}")),
        proc.join(format!("{pid}/task/{tid}/fd/{descriptor}")),
    ]
}

/// The descriptors of a process that link to arenas.
pub(super) fn arena_descriptors(root: &Path, pid: u32) -> Vec<PathBuf> {
    in_process(&root.join(format!("proc/{pid}")), |folder| links_to_arenas(&folder.join("fd")))
        .unwrap_or_default()
}

/// The mappings of a process that are arenas: they can be opened there, also
/// when the program has closed its descriptor.
pub(super) fn arena_mappings(root: &Path, pid: u32) -> Vec<PathBuf> {
    in_map_files(&root.join(format!("proc/{pid}")), links_to_arenas).unwrap_or_default()
}

/// Those in that folder; nothing where it is empty.
fn links_to_arenas(folder: &Path) -> Result<Vec<PathBuf>, ()> {
    let target = format!("/memfd:{ARENA_NAME} (deleted)");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
    let mut paths = entries.map(|entry| entry.path()).peekable();
    paths.peek().ok_or(())?;
    Ok(paths
        .filter(|path| fs::read_link(path).is_ok_and(|link| link.as_os_str() == target.as_str()))
        .collect())
}

/// Where an arena was found, and which program was running there.
#[derive(Clone)]
pub(super) struct ArenaLocation {
    /// The process.
    pub(super) pid: u32,
    /// The path that led to the arena.
    pub(super) path: PathBuf,
    id: ArenaId,
    program: Option<RunningProgram>,
}

/// What tells one program that a process runs from the next: when the process
/// began, and where the program's code and stack begin. Programs are put to
/// other addresses each time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RunningProgram {
    began: u64,
    code: u64,
    stack: u64,
}

impl ArenaLocation {
    /// The arena of that process that was found there.
    pub(super) fn of(root: &Path, pid: u32, path: &Path, id: ArenaId) -> Self {
        Self { pid, path: path.to_path_buf(), id, program: RunningProgram::of(root, pid) }
    }
}

impl ArenaLocation {
    /// Whether this path leads to the arena.
    fn is_at(&self, path: &Path) -> bool {
        Arena::identify(path) == Some(self.id)
    }

    /// Whether it was found among the process's mappings.
    pub(super) fn is_mapping(&self) -> bool {
        self.path.components().any(|part| part.as_os_str() == "map_files")
    }
}

impl RunningProgram {
    /// `None` when the process is gone, or this program may not look.
    fn of(root: &Path, pid: u32) -> Option<Self> {
        let process = root.join(format!("proc/{pid}"));
        let own = Self::shown_in(&process)?;
        // Of a thread that has ended, and for those who may not look, there are zeros.
        if own.stack != 0 {
            return Some(own);
        }
        // What the others began at is another time.
        let other = process.join(format!("task/{}", living_other(&process)?));
        Some(Self { began: own.began, ..Self::shown_in(&other)? }).filter(|it| it.stack != 0)
    }

    /// As the folder of a process or of a thread shows it.
    fn shown_in(folder: &Path) -> Option<Self> {
        let stat = fs::read(folder.join("stat")).ok()?;
        // The name, which may hold anything, stands between brackets; what follows begins with the
        // third field.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let fields: Vec<&str> =
            std::str::from_utf8(stat.get(end + 1..)?).ok()?.split_ascii_whitespace().collect();
        let [began, code, stack] = [22, 26, 28].map(|number| fields.get(number - 3)?.parse().ok());
        Some(Self { began: began?, code: code?, stack: stack? })
    }
}

/// Whether the process may still have that arena: it lives, and runs the same program.
pub(super) fn still_has(root: &Path, place: &ArenaLocation) -> bool {
    if place.is_at(&place.path) {
        return true;
    }
    if let Some(program) = RunningProgram::of(root, place.pid) {
        // It may have closed the descriptor and still write.
        return place.program.as_ref() == Some(&program);
    }
    let Some(name) = place.path.file_name() else { return false };
    threads(root, place.pid)
        .into_iter()
        .any(|tid| place.is_at(&root.join(format!("proc/{}/task/{tid}/fd", place.pid)).join(name)))
}

/// Who runs that process; nobody where it is gone.
pub(super) fn user_of(root: &Path, pid: u32) -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(root.join(format!("proc/{pid}"))).map_or(u32::MAX, |data| data.uid())
}

/// Whether there is a process of that number.
pub(super) fn is_there(root: &Path, pid: u32) -> bool {
    root.join(format!("proc/{pid}")).exists()
}

fn threads(root: &Path, pid: u32) -> Vec<u32> {
    let entries =
        fs::read_dir(root.join(format!("proc/{pid}/task"))).into_iter().flatten().flatten();
    entries
        .take(MOST_ENTRIES)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// How the threads of a process are numbered.
pub(super) enum Numbering {
    /// As in the namespace of this recorder.
    Same,
    /// In a namespace of its own: threads by the number that they have there.
    Own(HashMap<u32, u32>),
}

impl Numbering {
    /// Reads it from /proc/PID/task/TID/status. `None` when the process is gone.
    pub(super) fn of(root: &Path, pid: u32) -> Option<Self> {
        if namespace_ids(&root.join(format!("proc/{pid}/status")))?.len() < 2 {
            return Some(Self::Same);
        }
        let ids = threads(root, pid).into_iter().filter_map(|tid| {
            let status = root.join(format!("proc/{pid}/task/{tid}/status"));
            Some((*namespace_ids(&status)?.last()?, tid))
        });
        Some(Self::Own(ids.collect()))
    }

    /// The thread that calls itself `tid`. One that is gone keeps its number
    /// where that can only have been its own; never a thread of another process.
    pub(super) fn host_tid(&self, root: &Path, pid: u32, tid: u32) -> Option<u32> {
        match self {
            Self::Own(threads) => threads.get(&tid).copied(),
            Self::Same => {
                let taken = process_of(&root.join(format!("proc/{tid}/status")));
                (tid != 0 && taken.is_none_or(|process| process == pid)).then_some(tid)
            }
        }
    }
}

/// The ids of a thread, from this recorder's namespace to its own: `NSpid` of its status.
fn namespace_ids(status: &Path) -> Option<Vec<u32>> {
    let status = status_at(status)?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect())
}

fn process_of(status: &Path) -> Option<u32> {
    let status = status_at(status)?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// What the process calls itself: the innermost of its ids.
pub(super) fn own_id(root: &Path, pid: u32) -> Option<u32> {
    namespace_ids(&root.join(format!("proc/{pid}/status")))?.last().copied()
}

/// By what an arena that a process made is told from one that somebody sent it.
pub(super) struct ArenaMaker {
    /// What the process calls itself, which the arena says.
    id: u32,
    /// Whose files it makes now, or did before it gave up rights: root's, and in a namespace of
    /// users whoever is root there.
    users: Vec<u32>,
}

impl ArenaMaker {
    /// `None` where the process is gone.
    pub(super) fn of(root: &Path, pid: u32) -> Option<Self> {
        let process = root.join(format!("proc/{pid}"));
        let status = status_at(&process.join("status"))?;
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        let mut users: Vec<u32> = ids.split_ascii_whitespace().filter_map(number).collect();
        users.push(0);
        let map = status_at(&process.join("uid_map")).unwrap_or_default();
        users.extend(map.lines().filter_map(|line| {
            let mut fields = line.split_ascii_whitespace().filter_map(number);
            (fields.next()? == 0).then(|| fields.next())?
        }));
        Some(Self { id: own_id(root, pid)?, users })
    }

    pub(super) fn made(&self, found: &FoundArena) -> bool {
        self.users.contains(&found.user) && found.owner() == Some(self.id)
    }
}

fn number(field: &str) -> Option<u32> {
    field.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc_of(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("proc").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn threads_in_a_container_are_found_by_the_number_they_have_there() {
        let root = proc_of(&[
            ("70/status", "Name:\tx\nTgid:\t70\nNSpid:\t70\t1\n"),
            ("70/task/70/status", "NSpid:\t70\t1\n"),
            ("70/task/75/status", "NSpid:\t75\t6\n"),
        ]);
        let numbering = Numbering::of(root.path(), 70).unwrap();
        assert_eq!(numbering.host_tid(root.path(), 70, 6), Some(75));
        assert_eq!(numbering.host_tid(root.path(), 70, 75), None, "75 is nobody's number in there");
        assert_eq!(own_id(root.path(), 70), Some(1));
    }

    #[test]
    fn a_process_makes_files_of_its_users_of_root_and_of_its_namespaces_root() {
        let root = proc_of(&[
            ("70/status", "Uid:\t1000\t1001\t1001\t1001\nNSpid:\t70\t1\n"),
            ("70/uid_map", "         0     100000      65536\n"),
            ("71/status", "Uid:\t1000\t1000\t1000\t1000\nNSpid:\t71\n"),
        ]);
        let maker = ArenaMaker::of(root.path(), 70).unwrap();
        assert_eq!((maker.id, maker.users), (1, vec![1000, 1001, 1001, 1001, 0, 100_000]));
        assert_eq!(ArenaMaker::of(root.path(), 71).unwrap().users, [1000, 1000, 1000, 1000, 0]);
        assert!(ArenaMaker::of(root.path(), 72).is_none());
    }

    #[test]
    fn arenas_of_a_process_whose_first_thread_has_ended_are_found() {
        let root = proc_of(&[("70/stat", "70 (a) Z 1"), ("70/task/75/stat", "75 (a) S 1")]);
        let process = root.path().join("proc/70");
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::create_dir_all(root.path().join("proc/75/map_files")).unwrap();
        fs::create_dir_all(process.join("task/75/fd")).unwrap();
        let paths = [process.join("task/75/fd/3"), root.path().join("proc/75/map_files/1-2")];
        for path in &paths {
            let arena = format!("/memfd:{ARENA_NAME} (deleted)");
            std::os::unix::fs::symlink(arena, path).unwrap();
        }
        assert_eq!(arena_descriptors(root.path(), 70), paths[..1]);
        assert_eq!(arena_mappings(root.path(), 70), paths[1..]);
    }

    #[test]
    fn a_program_is_told_from_the_next_that_its_process_runs() {
        let one = running(&stat(500, "a")).unwrap();
        assert_eq!((one.began, one.code, one.stack), (99, 500, 7000));
        assert_eq!(running(&stat(500, ") 1 2 (")), Some(one.clone()), "names do not matter");
        assert_ne!(running(&stat(600, "a")), Some(one.clone()));
        assert_eq!(running("70 (a) Z 1"), None);
        let ended = format!("70 (a) Z {} 99 0 0 0 0 0 0", ["0"; 18].join(" "));
        let other = stat(500, "b").replace(" 99 ", " 120 ");
        let proc = proc_of(&[("70/stat", &ended), ("70/task/70/stat", &ended)]);
        assert_eq!(RunningProgram::of(proc.path(), 70), None, "no thread lives");
        let proc = proc_of(&[("70/stat", &ended), ("70/task/75/stat", &other)]);
        assert_eq!(RunningProgram::of(proc.path(), 70), Some(one), "another thread tells");
        let own = RunningProgram::of(Path::new("/"), std::process::id()).unwrap();
        assert!(own.code > 0 && own.stack > own.code);
    }

    fn stat(code: i32, name: &str) -> String {
        format!("70 ({name}) S {} 99 0 0 0 {code} 4 7000", ["0"; 18].join(" "))
    }

    fn running(text: &str) -> Option<RunningProgram> {
        RunningProgram::of(proc_of(&[("70/stat", text)]).path(), 70)
    }

    #[test]
    fn a_thread_may_claim_to_be_one_that_is_gone_but_not_one_of_another_process() {
        let root = proc_of(&[
            ("70/status", "Tgid:\t70\nNSpid:\t70\n"),
            ("80/status", "Tgid:\t80\nNSpid:\t80\n"),
        ]);
        let numbering = Numbering::of(root.path(), 70).unwrap();
        assert_eq!(numbering.host_tid(root.path(), 70, 80), None);
        assert_eq!(numbering.host_tid(root.path(), 70, 79), Some(79));
        assert_eq!(numbering.host_tid(root.path(), 70, 70), Some(70));
        assert!(Numbering::of(root.path(), 90).is_none());
    }
}
