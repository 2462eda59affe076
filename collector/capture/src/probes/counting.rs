//! Counting who has a file mapped: in the kernel's [tree](super::mapping_tree) of its mappings, and
//! where that tells nothing in the lists of mappings of all processes.
//!
//! The tree tells nothing on old kernels, and where somebody has the file mapped so often that all
//! of it cannot be walked in a time that others can wait for. Then lists tell of those who have it
//! mapped as usual. The kernel makes such a list under the lock of the process's memory, which the
//! process can keep busy for seconds, and a list can have 65,530 lines. So lists are read on
//! threads that are given up when they do not come back, the processes of one user after those of
//! another, and each user has so much time. What was counted by then holds, and whose processes
//! were not is known.

use std::fs;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_untrusted_files::{OpenError, Patience, data_of_program, in_process, payer};

use super::cost::{Census, Mapper, map_key};
use super::files::{FileKey, MapKey, key};
use super::mapping_tree::{FindMappers, LoadingTree};
use crate::fair_queue::payer_below;
use crate::hexadecimal::hexadecimal;
use crate::snapshot;

/// A list is cut that takes longer, and no more is begun in a piece that took so long.
const LONGEST_OF_ONE: Duration = Duration::from_millis(60);
const PIECE: Duration = Duration::from_millis(30);
/// Where a piece takes longer than both, the kernel waits for somebody.
const LIMIT: Duration = Duration::from_millis(100);
/// What the processes of a user may take, those of users on whom the file's owner need not be
/// asked, and those of all others together.
const LONGEST_OF_USER: Duration = Duration::from_millis(100);
const LONGEST_OF_TRUSTED: Duration = Duration::from_millis(300);
const LONGEST_OF_OTHERS: Duration = Duration::from_millis(300);
/// What it may take to find out whose processes are that hide that.
const LONGEST_OF_OWNERS: Duration = Duration::from_millis(200);
/// Whose processes could not all be counted is left out for so long: a part of a CPU at most goes
/// into lists that come to nothing.
const REST: Duration = Duration::from_secs(2);
/// Users who are remembered for that.
const RESTING_MAX: usize = 4096;
/// What is read of a list at once.
const BLOCK: usize = 64 << 10;

/// What is counted.
#[derive(Clone, Debug)]
pub(super) struct CountRequest {
    pub(super) file: FileKey,
    /// Where in the file places are, in bytes.
    pub(super) bytes: Range<u64>,
    /// Who owns it.
    pub(super) owner: u32,
}

/// What is counted in lists.
#[derive(Clone, Debug)]
struct ListedFile {
    wanted: CountRequest,
    /// The file as lists name it.
    key: MapKey,
}

/// Counts.
pub(super) struct Counting {
    /// Until it is needed.
    loading: Option<LoadingTree>,
    /// `None` where this kernel has no such thing.
    tree: Option<Box<dyn FindMappers>>,
    lists: MappingLists,
}

impl Counting {
    pub(super) fn new(loading: Option<LoadingTree>, asked_by: Option<u32>) -> Self {
        Self { loading, tree: None, lists: MappingLists::new(asked_by) }
    }

    /// Of a kernel that says this.
    #[cfg(test)]
    pub(super) fn of_tree(tree: Box<dyn FindMappers>) -> Self {
        Self { tree: Some(tree), ..Self::new(None, None) }
    }

    /// Counts in all processes; in that of `first` whatever else its user has.
    pub(super) fn all(
        &mut self,
        wanted: &CountRequest,
        file: &fs::File,
        first: Option<u32>,
    ) -> Census {
        self.count(wanted, file, |lists, listed| lists.all(listed, first))
    }

    /// Counts in one process.
    pub(super) fn one(&mut self, wanted: &CountRequest, file: &fs::File, pid: u32) -> Census {
        let mut census = self.count(wanted, file, |lists, listed| lists.one(listed, pid));
        census.mappers.retain(|mapper| mapper.pid == pid);
        census
    }

    fn count(
        &mut self,
        wanted: &CountRequest,
        file: &fs::File,
        in_lists: impl FnOnce(&mut MappingLists, &Arc<ListedFile>) -> Census,
    ) -> Census {
        if let Some(loaded) = self.loading.take().and_then(LoadingTree::loaded) {
            self.tree = Some(Box::new(loaded));
        }
        let began = Instant::now();
        let found = self.tree.as_ref().map(|tree| tree.mappers(file, &wanted.bytes));
        let is_whole = match found {
            Some(Ok(Some(mappers))) => {
                // What others have mapped is nothing that the file's owner could do anything about.
                let is_own = mappers.iter().all(|of| self.lists.is_trusted(of.user, wanted));
                let took = if is_own { began.elapsed() } else { Duration::ZERO };
                return Census { mappers, took, ..Census::new(true) };
            }
            // Lists may hide what the tree knows.
            Some(Ok(None)) => false,
            Some(Err(_)) | None => true,
        };
        // What lists do not name cannot be mapped.
        let Some(key) = map_key(file) else { return Census::new(is_whole) };
        let listed = Arc::new(ListedFile { wanted: wanted.clone(), key });
        let census = in_lists(&mut self.lists, &listed);
        Census { is_whole: is_whole && census.is_whole, by_lists: true, ..census }
    }
}

/// Counts in lists.
#[derive(Debug)]
struct MappingLists {
    root: PathBuf,
    patience: Patience,
    asked_by: Option<u32>,
    /// Since when nobody counts in the processes of these users.
    resting: FxHashMap<u32, Instant>,
    /// Who owns a folder.
    folder_owner: fn(&Path) -> io::Result<u32>,
}

/// Processes of a user.
struct UserProcesses {
    /// Who pays for them.
    user: u32,
    pids: Vec<u32>,
}

impl MappingLists {
    fn new(asked_by: Option<u32>) -> Self {
        Self {
            root: PathBuf::from("/"),
            patience: Patience::new(LIMIT),
            asked_by,
            resting: FxHashMap::default(),
            folder_owner: |folder| Ok(fs::metadata(folder)?.uid()),
        }
    }

    /// Counts in all processes; in that of `first` whatever else its user has.
    fn all(&mut self, listed: &Arc<ListedFile>, first: Option<u32>) -> Census {
        let pids = snapshot::pids(&self.root);
        self.count(listed, pids, first)
    }

    /// Counts in one process.
    fn one(&mut self, listed: &Arc<ListedFile>, pid: u32) -> Census {
        self.count(listed, Vec::new(), Some(pid))
    }

    fn count(&mut self, listed: &Arc<ListedFile>, pids: Vec<u32>, first: Option<u32>) -> Census {
        let (began, wanted) = (Instant::now(), &listed.wanted);
        let mut census = Census::new(true);
        let mut of_others = Duration::ZERO;
        if let Some(pid) = first
            && let Some(user) = payer_below(&self.root, pid)
        {
            let alone = UserProcesses { user, pids: vec![pid] };
            census.is_whole &= self.user(alone, LONGEST_OF_USER, listed, &mut census);
            if !self.is_trusted(user, wanted) {
                of_others += began.elapsed();
            }
        }
        let (users, are_all) =
            self.by_user(pids.into_iter().filter(|pid| Some(*pid) != first), wanted);
        census.is_whole &= are_all;
        for of in users {
            let (user, is_trusted) = (of.user, self.is_trusted(of.user, wanted));
            let limit = match is_trusted {
                true => LONGEST_OF_TRUSTED,
                false => LONGEST_OF_USER.min(LONGEST_OF_OTHERS.saturating_sub(of_others)),
            };
            let began = Instant::now();
            let rests = self.resting.get(&user).is_some_and(|since| since.elapsed() < REST);
            if limit.is_zero() || (rests && !is_trusted) {
                census.is_whole = false;
                continue;
            }
            let is_whole = self.user(of, limit, listed, &mut census);
            census.is_whole &= is_whole;
            if !is_trusted {
                of_others += began.elapsed();
                if !is_whole {
                    self.rest(user);
                }
            }
        }
        // What others have mapped is nothing that the file's owner could do anything about.
        census.took = began.elapsed().saturating_sub(of_others);
        census
    }

    /// Whether this user's lists are read as long as that takes: they are root's, or those of whom
    /// it helps.
    fn is_trusted(&self, user: u32, wanted: &CountRequest) -> bool {
        user == 0 || user == payer(wanted.owner) || Some(user) == self.asked_by.map(payer)
    }

    fn rest(&mut self, user: u32) {
        if self.resting.len() >= RESTING_MAX {
            self.resting.retain(|_, since| since.elapsed() < REST);
        }
        if self.resting.len() < RESTING_MAX || self.resting.contains_key(&user) {
            self.resting.insert(user, Instant::now());
        }
    }

    /// Processes by their users, those that are trusted first, then who has few; and whether these
    /// are all.
    fn by_user(
        &self,
        pids: impl Iterator<Item = u32>,
        wanted: &CountRequest,
    ) -> (Vec<UserProcesses>, bool) {
        let (mut users, mut is_whole) = (FxHashMap::<u32, Vec<u32>>::default(), true);
        let until = Instant::now() + LONGEST_OF_OWNERS;
        for pid in pids {
            // The folder is its user's, where it hides nothing from that one; a look at it takes a
            // tenth of the time that reading takes.
            let user = match (self.folder_owner)(&self.root.join(format!("proc/{pid}"))) {
                Ok(user @ 1..) => Some(payer(user)),
                Ok(0) if Instant::now() >= until => {
                    is_whole = false;
                    None
                }
                Ok(0) => payer_below(&self.root, pid),
                // It has ended.
                Err(_) => None,
            };
            if let Some(user) = user {
                users.entry(user).or_default().push(pid);
            }
        }
        let users = users.into_iter().map(|(user, pids)| UserProcesses { user, pids });
        let mut users: Vec<UserProcesses> = users.collect();
        users.sort_by_key(|of| (!self.is_trusted(of.user, wanted), of.pids.len(), of.user));
        (users, is_whole)
    }

    /// Counts in the processes of a user for so long; whether those were all.
    fn user(
        &self,
        UserProcesses { user, pids }: UserProcesses,
        limit: Duration,
        listed: &Arc<ListedFile>,
        census: &mut Census,
    ) -> bool {
        let (pids, until) = (Arc::<[u32]>::from(pids), Instant::now() + limit);
        let (mut next, mut is_whole) = (0, true);
        while next < pids.len() {
            if Instant::now() >= until {
                return false;
            }
            let piece = Arc::new(ListBatch {
                root: self.root.clone(),
                pids: pids.clone(),
                listed: listed.clone(),
                ends: until.min(Instant::now() + PIECE),
                until,
                counted: Mutex::new(BatchProgress { next, mappers: Vec::new(), is_whole: true }),
            });
            let reads = piece.clone();
            let read = self.patience.within(Some(user), move || reads.read());
            let mut counted = piece.counted();
            census
                .mappers
                .extend(counted.mappers.drain(..).map(|mapper| Mapper { user, ..mapper }));
            is_whole &= counted.is_whole && read.is_ok();
            next = counted.next;
            match read {
                Ok(()) => {}
                // Whose list it waits for is not counted; others may be.
                Err(OpenError::Hangs) => next += 1,
                Err(_) => return false,
            }
        }
        is_whole
    }
}

/// Lists that are read one after the other.
struct ListBatch {
    root: PathBuf,
    pids: Arc<[u32]>,
    listed: Arc<ListedFile>,
    /// No list is begun from then on, and none is read on.
    ends: Instant,
    until: Instant,
    counted: Mutex<BatchProgress>,
}

/// How far a piece has come.
struct BatchProgress {
    /// What is read now, or was to be read next.
    next: usize,
    mappers: Vec<Mapper>,
    is_whole: bool,
}

impl ListBatch {
    fn counted(&self) -> MutexGuard<'_, BatchProgress> {
        // Whole between any two statements that can panic.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) {
        let mut block = vec![0; BLOCK];
        let first = self.counted().next;
        for (index, pid) in self.pids.iter().enumerate().skip(first) {
            let (mapper, is_whole) = self.list(*pid, &mut block);
            // Of a part of a list it is known that there are too many, not that there are few.
            let is_known = if is_whole { mapper.mappings > 0 } else { !mapper.is_modest() };
            let mut counted = self.counted();
            counted.next = index + 1;
            counted.is_whole &= is_whole;
            counted.mappers.extend(is_known.then_some(mapper));
            if Instant::now() >= self.ends {
                break;
            }
        }
    }

    /// Counts in a list, and whether that was all of it.
    fn list(&self, pid: u32, block: &mut [u8]) -> (Mapper, bool) {
        let folder = self.root.join(format!("proc/{pid}"));
        let mut mapper = Mapper { pid, user: 0, runs_it: false, mappings: 0, all: 0 };
        let until = self.until.min(Instant::now() + LONGEST_OF_ONE);
        // Who ended before has nothing mapped.
        let Ok((mut maps, mut bytes)) =
            in_process(&folder, |folder| open_mappings(folder, block).ok_or(()))
        else {
            return (mapper, true);
        };
        // The begin of a line whose rest is still to come.
        let mut kept = 0;
        while bytes > 0 {
            let text = &block[..kept + bytes];
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for line in text[..whole].split_inclusive(|byte| *byte == b'\n') {
                mapper.all += 1;
                mapper.mappings += u64::from(holds(line, &self.listed));
            }
            kept = text.len() - whole;
            block.copy_within(whole..whole + kept, 0);
            if kept == BLOCK || Instant::now() >= until {
                return (mapper, false);
            }
            bytes = maps.read(&mut block[kept..]).unwrap_or(0);
        }
        mapper.runs_it = mapper.mappings > 0
            && data_of_program(&folder)
                .is_ok_and(|program| key(&program) == self.listed.wanted.file);
        (mapper, true)
    }
}

/// The mappings of the process with this folder, and how many bytes of them `block` holds.
#[expect(clippy::disallowed_methods, reason = "/proc/PID/maps")]
fn open_mappings(folder: &Path, block: &mut [u8]) -> Option<(fs::File, usize)> {
    let mut maps = fs::File::open(folder.join("maps")).ok()?;
    let bytes = maps.read(block).ok().filter(|bytes| *bytes > 0)?;
    Some((maps, bytes))
}

/// Whether a line of /proc/PID/maps is a mapping of the file that holds some of these bytes of it,
/// and that the kernel would put a breakpoint into: a private one that cannot be written.
fn holds(line: &[u8], wanted: &ListedFile) -> bool {
    is_probed(line, wanted).unwrap_or(false)
}

/// `None` for a line that is none of such a list.
fn is_probed(
    line: &[u8],
    ListedFile { key: (device, inode), wanted }: &ListedFile,
) -> Option<bool> {
    let fields = line.splitn(6, |byte| *byte == b' ');
    let mut fields = fields.map_while(|field| std::str::from_utf8(field).ok());
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let offset = hexadecimal(fields.next()?)?;
    let is_file = fields.next()? == device && fields.next()?.trim().parse() == Ok(*inode);
    let bytes = hexadecimal(end)?.checked_sub(hexadecimal(start)?)?;
    let may_be_probed = rights.get(3) == Some(&b'p') && rights.get(1) != Some(&b'w');
    let is_there = offset < wanted.bytes.end && offset.saturating_add(bytes) > wanted.bytes.start;
    Some(is_file && may_be_probed && is_there)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const HOSTILE: u32 = 1001;
    const HONEST: u32 = 1002;

    fn wanted(owner: u32) -> Arc<ListedFile> {
        let file = key(&data_of_program(std::path::Path::new("/proc/self")).unwrap());
        let wanted = CountRequest { file, bytes: 0x1000..0x2000, owner };
        Arc::new(ListedFile { wanted, key: ("fe:00".to_owned(), 123) })
    }

    /// What runs on a machine.
    struct Machine {
        root: tempfile::TempDir,
        counting: MappingLists,
    }

    impl Machine {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let counting = MappingLists {
                root: root.path().to_owned(),
                folder_owner: |_| Ok(0),
                ..MappingLists::new(None)
            };
            Self { root, counting }
        }

        fn process(&self, user: u32, pid: u32) -> PathBuf {
            let of = self.root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&of).unwrap();
            fs::write(of.join("status"), format!("Uid:\t{user}\t0\t0\t0\n")).unwrap();
            of.join("maps")
        }

        /// A process that has the file mapped so often.
        fn runs(&self, user: u32, pid: u32, lines: usize) {
            let line = "7f0000000-7f0001000 r-xp 00001000 fe:00 123    /opt/a\n";
            fs::write(self.process(user, pid), line.repeat(lines)).unwrap();
        }

        /// A process whose list nobody gets.
        fn holds(&self, user: u32, pid: u32) {
            assert!(
                Command::new("mkfifo").arg(self.process(user, pid)).status().unwrap().success()
            );
        }

        fn counts(&mut self, owner: u32) -> (Vec<u32>, bool) {
            let census = self.counting.all(&wanted(owner), None);
            let mut pids: Vec<u32> = census.mappers.iter().map(|mapper| mapper.pid).collect();
            pids.sort_unstable();
            (pids, census.is_whole)
        }
    }

    #[test]
    fn who_goes_on_without_their_first_thread_is_counted() {
        let mut machine = Machine::new();
        let process = machine.root.path().join("proc/70");
        machine.runs(HONEST, 72, 2);
        fs::write(machine.process(HONEST, 70), "").unwrap();
        fs::write(process.join("stat"), "70 (a) Z 1").unwrap();
        fs::create_dir(process.join("task")).unwrap();
        fs::rename(machine.root.path().join("proc/72"), process.join("task/72")).unwrap();
        assert_eq!(machine.counts(0), (vec![70], true));
    }

    #[test]
    fn who_holds_the_lock_of_their_mappings_keeps_nobody_else_from_being_counted() {
        let mut machine = Machine::new();
        (0..400).for_each(|pid| machine.holds(HOSTILE, 1_000 + pid));
        machine.runs(HOSTILE, 900, 1);
        (0..6).for_each(|pid| machine.runs(HONEST, 2_000 + pid, 1));
        (0..3).for_each(|pid| machine.runs(0, 1 + pid, 1));
        let began = Instant::now();
        let (pids, is_whole) = machine.counts(0);
        let took = began.elapsed();
        let honest = [1, 2, 3, 2_000, 2_001, 2_002, 2_003, 2_004, 2_005];
        assert!(honest.iter().all(|pid| pids.contains(pid)), "{pids:?}");
        assert!(!is_whole && took < Duration::from_secs(1), "{took:?}");
        let (again, is_whole) = machine.counts(HONEST);
        assert_eq!((again.as_slice(), is_whole), (&honest[..], false), "it rests");
    }

    #[test]
    fn a_process_of_whose_user_nobody_counts_is_counted_where_it_is_the_first() {
        let mut machine = Machine::new();
        machine.holds(HOSTILE, 1_000);
        machine.runs(HOSTILE, 1_001, 1);
        assert!(!machine.counts(0).1);
        let census = machine.counting.all(&wanted(0), Some(1_001));
        assert_eq!(census.mappers.iter().map(|of| of.pid).collect::<Vec<_>>(), [1_001]);
        let census = machine.counting.one(&wanted(0), 1_001);
        assert!(census.is_whole && census.mappers.len() == 1);
        assert_eq!(census.mappers[0].user, HOSTILE);
    }

    #[test]
    fn whose_processes_are_is_only_read_where_their_folders_do_not_tell() {
        let mut machine = Machine::new();
        machine.counting.folder_owner = |folder| Ok(if folder.ends_with("7") { HONEST } else { 0 });
        [7, 8].into_iter().for_each(|pid| machine.runs(HOSTILE, pid, 1));
        let census = machine.counting.all(&wanted(0), None);
        let mut users: Vec<u32> = census.mappers.iter().map(|of| of.user).collect();
        users.sort_unstable();
        assert_eq!((users, census.is_whole), (vec![HOSTILE, HONEST], true));
    }

    #[test]
    fn who_has_long_lists_pays_for_them() {
        let mut machine = Machine::new();
        let line = "7f0000000-7f0001000 rw-p 00000000 00:00 0\n".repeat(65_000);
        (0..100).for_each(|pid| fs::write(machine.process(HOSTILE, 1_000 + pid), &line).unwrap());
        machine.runs(HONEST, 2_000, 1);
        let census = machine.counting.all(&wanted(0), None);
        assert_eq!(census.mappers.iter().map(|of| of.pid).collect::<Vec<_>>(), [2_000]);
        assert!(!census.is_whole && census.took < LONGEST_OF_USER, "{census:?}");
    }

    #[test]
    fn what_the_kernel_would_not_touch_does_not_count() {
        let wanted = wanted(0);
        for line in [
            "7f00000-7f01000 r-xp 00001000 fe:00 123       /opt/a b (deleted)",
            "7f00000-7f05000 r--p 00000000 fe:00 123 /opt/a",
        ] {
            assert!(holds(line.as_bytes(), &wanted), "{line}");
        }
        for line in [
            "7f00000-7f01000 r--p 00000000 fe:00 123 /opt/a",
            "7f00000-7f01000 r--p 00002000 fe:00 123 /opt/a",
            "7f00000-7f05000 rw-p 00000000 fe:00 123 /opt/a",
            "7f00000-7f05000 r-xs 00000000 fe:00 123 /opt/a",
            "7f00000-7f05000 r-xp 00000000 fe:00 124 /opt/a",
            "7f00000-7f05000 r-xp 00000000 fe:01 123 /opt/a",
            "7f00000-7f05000 r-xp 00000000 00:00 0",
            "garbage",
        ] {
            assert!(!holds(line.as_bytes(), &wanted), "{line}");
        }
    }

    #[test]
    fn lists_are_counted_across_the_pieces_they_are_read_in_and_not_without_end() {
        let mut machine = Machine::new();
        machine.runs(0, 1, 5_000);
        machine.runs(0, 2, 1);
        let found = machine.counting.all(&wanted(0), Some(9));
        let mut each = mapped(&found);
        each.sort_unstable();
        assert_eq!((each, found.is_whole), (vec![(1, 5_000, 5_000), (2, 1, 1)], true));
        machine.runs(0, 1, 4_000_000);
        let found = machine.counting.one(&wanted(0), 1);
        assert!(!found.is_whole && found.mappers.len() == 1, "too many, whatever is behind");
    }

    fn mapped(census: &Census) -> Vec<(u32, u64, u64)> {
        let each = census.mappers.iter().map(|of| (of.pid, of.mappings, of.all));
        each.collect::<Vec<_>>()
    }

    #[test]
    fn this_program_has_its_own_file_mapped_and_runs_it() {
        let own = fs::File::open("/proc/self/exe").unwrap();
        let wanted = CountRequest { bytes: 0..u64::MAX, ..wanted(0).wanted.clone() };
        let mut counting = Counting::new(None, None);
        let found = counting.one(&wanted, &own, std::process::id());
        assert!(found.is_whole && found.mappers.len() == 1, "{found:?}");
        let mapper = found.mappers[0];
        assert!(mapper.is_modest() && mapper.all > mapper.mappings && mapper.runs_it);
    }

    /// A kernel that says this of every file.
    struct Tree(fn() -> io::Result<Option<Vec<Mapper>>>);

    impl FindMappers for Tree {
        fn mappers(&self, _: &fs::File, _: &Range<u64>) -> io::Result<Option<Vec<Mapper>>> {
            self.0()
        }
    }

    fn with_tree(machine: Machine, tree: fn() -> io::Result<Option<Vec<Mapper>>>) -> Counting {
        Counting { loading: None, tree: Some(Box::new(Tree(tree))), lists: machine.counting }
    }

    #[test]
    fn what_the_kernel_knows_is_counted_whatever_lists_hide() {
        let machine = Machine::new();
        (0..400).for_each(|pid| machine.holds(HOSTILE, 1_000 + pid));
        let mut counting = with_tree(machine, || {
            Ok(Some(vec![mapper(7, HONEST, 1), mapper(1_000, HOSTILE, 20_000)]))
        });
        let own = fs::File::open("/proc/self/exe").unwrap();
        let (began, wanted) = (Instant::now(), &wanted(HONEST).wanted);
        let census = counting.all(wanted, &own, None);
        assert!(census.is_whole && !census.by_lists && began.elapsed() < LIMIT);
        assert_eq!(census.mappers.iter().map(|of| of.mappings).sum::<u64>(), 20_001);
        assert_eq!(census.took, Duration::ZERO, "the owner does not pay for others");
        let one = counting.one(wanted, &own, 7);
        assert_eq!(one.mappers.iter().map(|of| of.pid).collect::<Vec<_>>(), [7]);
    }

    fn mapper(pid: u32, user: u32, mappings: u64) -> Mapper {
        Mapper { pid, user, runs_it: false, mappings, all: 1 }
    }

    #[test]
    fn where_the_kernel_knows_of_too_many_lists_tell_of_some_and_never_of_all() {
        let own = fs::File::open("/proc/self/exe").unwrap();
        let wanted = CountRequest { bytes: 0..u64::MAX, ..wanted(0).wanted.clone() };
        let mut of_too_many = with_tree(Machine::new(), || Ok(None));
        assert!(!of_too_many.all(&wanted, &own, None).is_whole);
        let mut of_lists = with_tree(Machine::new(), || Err(io::ErrorKind::Unsupported.into()));
        assert!(of_lists.all(&wanted, &own, None).is_whole, "nobody runs there");
    }
}
