//! Files of mapped code, pinned (held open) from when they are observed until they are named.

use crate::code_lists::{
    CodeLists, ListLookup, PerfMapOutcome, PerfMapOwner, dump_number, find_dump, find_list,
    find_list_afterwards,
};
use crate::elf::{build_id_in, is_elf};
use crate::os::raise_descriptor_limit;
use crate::path::{is_of_file, names_a_memory_file, plain_path};
use crate::{build_id_of, vdso};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use syscollect_model::{BuildId, Mapping, Ticks};
use syscollect_untrusted_files::{
    FileData, FileLocation, OpenError, OpenedFile, Owner, find, payer,
};

/// At most so many files are pinned; a desktop has about 1,500 executable files mapped.
const HELD_MAX: usize = 4096;
/// Files whose build ids are remembered: who changes a file makes another of it.
const SEEN_MAX: usize = 65_536;
/// Descriptors left to everything else in the process.
const OTHERS: u64 = 512;

/// Bytes of files without names that are kept for one user's programs. Only the open file keeps
/// them from being freed: memory of the machine (tmpfs), or its disk, which no limit of that user
/// counts.
const NAMELESS_MAX: u64 = 256 << 20;

/// Files that are not pinned any more, of one user's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleasedFiles {
    /// Whose.
    pub user: u32,
    /// How many.
    pub files: usize,
}

/// Files of mapped modules, pinned, by path and build id.
///
/// [`new`](Self::new) raises this process's limit of open files (RLIMIT_NOFILE);
/// programs that are started afterwards inherit that, unless the starter resets it.
/// A copy shares the open files.
#[derive(Clone, Debug, Default)]
pub struct PinnedFiles {
    modules: FxHashMap<String, Vec<(BuildId, PinnedPath)>>,
    /// What is known of files observed before: most mappings show the same few libraries.
    known: FxHashMap<FileIdentity, BuildId>,
    /// A file that was opened because none of its identity had been observed.
    new: Option<OpenedFile>,
    /// Files whose next mapping is as that of one that was never observed.
    new_again: FxHashSet<FileIdentity>,
    /// Files in memory that are no modules: programs make code in them.
    of_made_code: FxHashSet<FileIdentity>,
    /// Processes whose file of that kind was looked for; each has one.
    makers: FxHashSet<u32>,
    perf_maps: CodeLists,
    dumps: CodeLists,
    room: FileQuota,
}

/// A file by what never changes with its name: device, inode, size, time of last write.
type FileIdentity = (u64, u64, u64, (i64, u32));

/// Adds to what is remembered, which is forgotten where it is too much.
fn insert_bounded<T: Eq + std::hash::Hash>(remembered: &mut FxHashSet<T>, one: T) {
    if remembered.len() >= SEEN_MAX {
        remembered.clear();
    }
    remembered.insert(one);
}

fn identity(data: &FileData) -> FileIdentity {
    (data.device, data.inode, data.size, data.written)
}

#[derive(Clone, Debug)]
enum PinnedPath {
    File(PinnedFile),
    /// Two files had this path and build id: whose offsets are whose cannot be told.
    Ambiguous,
}

#[derive(Clone, Debug)]
struct PinnedFile {
    file: OpenedFile,
    identity: FileIdentity,
    /// Users whose processes were observed to map this very file. A build id is a claim, and in a mount
    /// namespace of their own everybody has the path they like: what one user shows says nothing of
    /// what another's process maps.
    shown_by: Vec<u32>,
}

impl PinnedFile {
    /// Whether it is what a process of this user maps under its path and build id. Root's files
    /// are not forged; of a process that has ended nothing can be told.
    fn is_known_of(&self, user: Option<u32>) -> bool {
        self.file.data().uid == 0 || user.is_none_or(|user| self.shown_by.contains(&user))
    }
}

/// What to do about another file of the same path and build id.
#[derive(Debug, PartialEq, Eq)]
enum RivalFile {
    /// The one that is pinned is as good.
    Ignored,
    /// It is the better one.
    Taken,
    /// Nobody can say which is meant.
    Equal,
}

impl RivalFile {
    /// By who owns the file that is pinned, and the other one. Copies of one owner's are told apart
    /// by nobody but this owner.
    fn of(pinned: u32, other: u32) -> Self {
        match (pinned, other) {
            (0, _) => Self::Ignored,
            (_, 0) => Self::Taken,
            _ if pinned == other => Self::Ignored,
            _ => Self::Equal,
        }
    }
}

impl PinnedFiles {
    /// Holds nothing yet.
    pub fn new() -> Self {
        let capacity = raise_descriptor_limit(HELD_MAX as u64 + OTHERS).saturating_sub(OTHERS);
        Self { room: FileQuota::new(HELD_MAX.min(capacity as usize)), ..Self::default() }
    }

    /// Opens and keeps the file of `mapping` and fills in its build id, if that is missing.
    ///
    /// To be called while the process lives: `/proc/PID/map_files` leads to the
    /// very file that is mapped, even if it was deleted or replaced (needs
    /// CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE); next best is the path in the
    /// process's root. After the process has ended, the path on the host is
    /// taken if its build id is the recorded one. `false` if there is a file and it is not pinned:
    /// its process was gone, or too many files were open.
    /// The process's user is asked for who else shows such a file, see
    /// [`is_to_pin`](Self::is_to_pin).
    pub fn pin(&mut self, mapping: &mut Mapping, user: Option<u32>) -> bool {
        if !self.is_to_pin(mapping, user) {
            return true;
        }
        if mapping.is_generated() {
            insert_bounded(&mut self.makers, mapping.pid);
        }
        if mapping.path == vdso::PATH { self.hold_vdso(mapping) } else { self.hold_file(mapping) }
    }

    /// The file that the last [`pin`](Self::pin) opened, if nothing was known of it before: once
    /// for each file, whether it is pinned or another one with its build id, or has only what a
    /// program made in it.
    pub fn take_new(&mut self) -> Option<OpenedFile> {
        self.new.take()
    }

    /// Whoever [took](Self::take_new) this file does not know it any more: when it is mapped again
    /// it is new.
    pub fn is_new_again(&mut self, file: &FileData) {
        let identity = identity(file);
        self.known.remove(&identity);
        self.of_made_code.remove(&identity);
        insert_bounded(&mut self.new_again, identity);
    }

    /// Whether [`pin`](Self::pin) has something to do for a process of this user, or of one who
    /// is not known any more: it does not where there is no file, or where that is known to be
    /// held, which takes no call of the system.
    pub fn is_to_pin(&self, mapping: &Mapping, user: Option<u32>) -> bool {
        // A program that makes code maps its file for each piece of it.
        if mapping.is_generated() {
            return names_a_memory_file(&mapping.path) && !self.makers.contains(&mapping.pid);
        }
        (is_of_file(&mapping.path) || mapping.path == vdso::PATH) && !self.is_held(mapping, user)
    }

    fn is_held(&self, mapping: &Mapping, user: Option<u32>) -> bool {
        match self.entry(&mapping.path, &mapping.build_id) {
            _ if mapping.build_id.is_empty() => false,
            Some(PinnedPath::File(pinned)) => {
                pinned.is_known_of(user) && !self.new_again.contains(&pinned.identity)
            }
            Some(PinnedPath::Ambiguous) => true,
            None => false,
        }
    }

    /// The file that `path` named when it had this build id, if it is pinned and was not overwritten
    /// since.
    pub fn file(&self, path: &str, build_id: &BuildId) -> Option<&File> {
        self.opened(path, build_id).map(OpenedFile::file)
    }

    /// As [`file`](Self::file), as it was opened.
    pub fn opened(&self, path: &str, build_id: &BuildId) -> Option<&OpenedFile> {
        let PinnedPath::File(PinnedFile { file, identity: then, .. }) =
            self.entry(path, build_id)?
        else {
            return None;
        };
        // A build id stays with its bytes; without one, a write since then is all that can be seen.
        let same = match build_id_in(file.reader()) {
            Some(now) => now == *build_id,
            None => {
                build_id.is_empty() && file.data_now().is_ok_and(|data| identity(&data) == *then)
            }
        };
        same.then_some(file)
    }

    /// Looks for the file in which a process lists the code that it makes (its perf map), and
    /// holds it; `now` says when. To be called while the process lives, and once more when the
    /// recording ends: the file grows, and may be made at any time.
    pub fn pin_perf_map(&mut self, process: &PerfMapOwner, now: Ticks) -> PerfMapOutcome {
        self.hold_found_map(process, find_list(process), now)
    }

    /// The same for a process that has ended, and that lived `then`: some write their list when
    /// they end.
    pub fn pin_perf_map_of_ended(&mut self, process: &PerfMapOwner, then: Ticks) {
        if self.perf_maps.is_new(process.pid) {
            self.hold_found_map(process, find_list_afterwards(process), then);
        }
    }

    /// Holds the file of a mapping, if that is a jitdump: a file in which a process lists the code
    /// that it makes, and which it maps for others to find. To be called while the process lives.
    pub fn pin_jit_dump(&mut self, process: &PerfMapOwner, mapping: &Mapping, now: Ticks) {
        let found = find_dump(process, mapping);
        hold_list(&mut self.dumps, &mut self.room, process, found, now);
    }

    fn hold_found_map(
        &mut self,
        process: &PerfMapOwner,
        found: ListLookup,
        taken: Ticks,
    ) -> PerfMapOutcome {
        hold_list(&mut self.perf_maps, &mut self.room, process, found, taken)
    }

    /// A process runs another program: what is pinned as its list of code may be that one's by now.
    pub fn forget_code_lists(&mut self, pid: u32) {
        self.makers.remove(&pid);
        let users = [self.perf_maps.forget(pid), self.dumps.forget(pid)];
        users.into_iter().flatten().for_each(|user| self.room.give_back(user));
    }

    /// Releases files to which no name leads any more, where those of one user's programs are more
    /// than may be kept: as many as can be stay, so that the largest go first. To be called now and
    /// then; it asks for what is known of each file, which takes a microsecond.
    pub fn release_nameless(&mut self) -> Vec<ReleasedFiles> {
        let mut released = Vec::<ReleasedFiles>::new();
        for NamelessFile { user, place, .. } in beyond(self.nameless(), NAMELESS_MAX) {
            match place {
                PinnedKey::Module(path, build_id) => self.release(&path, &build_id),
                PinnedKey::CodeLists(pid) => self.forget_code_lists(pid),
            }
            match released.iter_mut().find(|known| known.user == user) {
                Some(known) => known.files += 1,
                None => released.push(ReleasedFiles { user, files: 1 }),
            }
        }
        released
    }

    /// Files without names, but for root's, which no user makes.
    fn nameless(&self) -> Vec<NamelessFile> {
        let modules = self.modules.iter().flat_map(|(path, files)| {
            files.iter().filter_map(move |(build_id, pinned)| {
                let PinnedPath::File(PinnedFile { file, shown_by, .. }) = pinned else {
                    return None;
                };
                let (user, bytes) = (payer(*shown_by.first()?), nameless_bytes(file)?);
                let place = PinnedKey::Module(path.clone(), build_id.clone());
                Some(NamelessFile { user, bytes, place })
            })
        });
        let lists = self.perf_maps.all().chain(self.dumps.all());
        let lists = lists.filter_map(|(pid, file)| {
            let (user, place) = (payer(file.data().uid), PinnedKey::CodeLists(pid));
            Some(NamelessFile { user, bytes: nameless_bytes(file)?, place })
        });
        modules.chain(lists).collect()
    }

    fn release(&mut self, path: &str, build_id: &BuildId) {
        let Some(files) = self.modules.get_mut(path) else { return };
        let Some(place) = files.iter().position(|(id, _)| id == build_id) else { return };
        let (_, released) = files.swap_remove(place);
        // Whoever makes files without end gives each another name.
        if files.is_empty() {
            self.modules.remove(path);
        }
        if let PinnedPath::File(pinned) = released
            && let Some(user) = pinned.shown_by.first()
        {
            self.room.give_back(*user);
        }
    }

    pub(crate) fn jit_dumps(&self) -> &CodeLists {
        &self.dumps
    }

    pub(crate) fn perf_maps(&self) -> &CodeLists {
        &self.perf_maps
    }

    /// Who owns the file of a module, if that is pinned.
    pub(crate) fn owner_of(&self, path: &str, build_id: &BuildId) -> Option<u32> {
        let PinnedPath::File(pinned) = self.entry(path, build_id)? else { return None };
        Some(pinned.file.data().uid)
    }

    /// Whether different files, which nobody can tell apart, had this path and build id.
    pub(crate) fn is_ambiguous(&self, path: &str, build_id: &BuildId) -> bool {
        matches!(self.entry(path, build_id), Some(PinnedPath::Ambiguous))
    }

    fn entry(&self, path: &str, build_id: &BuildId) -> Option<&PinnedPath> {
        self.modules.get(path)?.iter().find(|(id, _)| id == build_id).map(|(_, pinned)| pinned)
    }

    fn hold_vdso(&mut self, mapping: &mut Mapping) -> bool {
        if !vdso::is_ours(mapping.start) {
            return false;
        }
        let Ok(file) = vdso::own() else { return false };
        mapping.build_id = build_id_of(&file).unwrap_or_default();
        if self.entry(&mapping.path, &mapping.build_id).is_some() {
            return true;
        }
        let Ok(file) = OpenedFile::made(file) else { return false };
        let identity = identity(file.data());
        self.keep(mapping, file, identity, 0)
    }

    fn hold_file(&mut self, mapping: &mut Mapping) -> bool {
        let owner = Owner::of_process(mapping.pid);
        let path = PathBuf::from(plain_path(&mapping.path));
        let candidates = candidates(mapping, &path, owner.is_some());
        for candidate in &candidates {
            match self.hold_candidate(mapping, candidate, owner.as_ref()) {
                // The other ways lead to the same file system.
                Err(
                    OpenError::Served
                    | OpenError::TooManyMounts
                    | OpenError::Hangs
                    | OpenError::OthersHang,
                ) => return false,
                Ok(true) => return true,
                Ok(false) | Err(_) => {}
            }
        }
        false
    }

    /// Takes `candidate` if it is the file of `mapping`; whether the module is pinned now.
    fn hold_candidate(
        &mut self,
        mapping: &mut Mapping,
        candidate: &Candidate<'_>,
        owner: Option<&Owner>,
    ) -> Result<bool, OpenError> {
        let found = find(&candidate.place, owner)?;
        if candidate.may_be_another
            && !found
                .shown_path()
                .is_some_and(|shown| same_name(&shown, Path::new(plain_path(&mapping.path))))
        {
            return Ok(false);
        }
        let identity = identity(found.data());
        if self.of_made_code.contains(&identity) {
            return Ok(true);
        }
        let mut file = None;
        let build_id = match self.known.get(&identity) {
            Some(build_id) => build_id.clone(),
            None => {
                let is_memory = names_a_memory_file(&mapping.path);
                let (opened, (build_id, is_code)) =
                    found.open_and(move |file| (build_id_of(file), !is_memory || is_elf(file)))?;
                // What a program makes in a file like that, to map it twice, need not be kept here.
                if !is_code {
                    insert_bounded(&mut self.of_made_code, identity);
                    self.new = Some(opened);
                    return Ok(true);
                }
                let build_id = build_id.unwrap_or_default();
                if self.known.len() >= SEEN_MAX {
                    self.known.clear();
                }
                self.known.insert(identity, build_id.clone());
                self.new_again.remove(&identity);
                self.new = Some(opened.clone());
                file = Some(opened);
                build_id
            }
        };
        let recorded = !mapping.build_id.is_empty();
        if (recorded && build_id != mapping.build_id) || (!recorded && candidate.only_by_build_id) {
            return Ok(false);
        }
        mapping.build_id = build_id;
        let user = owner.map_or(NOBODY, Owner::uid);
        let open = |file: Option<OpenedFile>| file.map_or_else(|| found.open(), Ok);
        let has_id = !mapping.build_id.is_empty();
        let Some(entry) = self.entry_mut(mapping) else {
            return Ok(self.keep(mapping, open(file)?, identity, user));
        };
        let PinnedPath::File(pinned) = entry else { return Ok(true) };
        let rival = match pinned.identity == identity {
            true => RivalFile::Ignored,
            false if !has_id => RivalFile::Equal,
            // A guess is no rival: it is what lies on the host at that path now.
            false if candidate.only_by_build_id => RivalFile::Ignored,
            false => RivalFile::of(pinned.file.data().uid, found.data().uid),
        };
        match rival {
            RivalFile::Ignored if pinned.shown_by.contains(&user) => {}
            RivalFile::Ignored => pinned.shown_by.push(user),
            RivalFile::Taken => {
                *pinned = PinnedFile { file: open(file)?, identity, shown_by: vec![user] };
            }
            // It keeps its place: who makes such files has room for fewer others.
            RivalFile::Equal => *entry = PinnedPath::Ambiguous,
        }
        Ok(true)
    }

    fn keep(
        &mut self,
        mapping: &Mapping,
        file: OpenedFile,
        identity: FileIdentity,
        user: u32,
    ) -> bool {
        if !self.room.take(user) {
            return false;
        }
        let module = self.modules.entry(mapping.path.clone()).or_default();
        let pinned = PinnedFile { file, identity, shown_by: vec![user] };
        module.push((mapping.build_id.clone(), PinnedPath::File(pinned)));
        true
    }

    fn entry_mut(&mut self, mapping: &Mapping) -> Option<&mut PinnedPath> {
        let files = self.modules.get_mut(&mapping.path)?;
        files.iter_mut().find(|(id, _)| *id == mapping.build_id).map(|(_, pinned)| pinned)
    }
}

fn nameless_bytes(file: &OpenedFile) -> Option<u64> {
    match file.data().uid {
        0 => None,
        _ => file.bytes_without_name().ok().filter(|bytes| *bytes > 0),
    }
}

/// A pinned file without a name.
#[derive(Debug)]
struct NamelessFile {
    /// Who pays for it.
    user: u32,
    bytes: u64,
    place: PinnedKey,
}

/// Where a pinned file is kept.
#[derive(Debug)]
enum PinnedKey {
    Module(String, BuildId),
    /// All lists of a process.
    CodeLists(u32),
}

/// Those of each user beyond so many bytes together.
fn beyond(mut nameless: Vec<NamelessFile>, max: u64) -> Vec<NamelessFile> {
    nameless.sort_by_key(|file| (file.user, file.bytes));
    let (mut user, mut sum) = (None, 0);
    nameless.retain(|file| {
        if user.replace(file.user) != Some(file.user) {
            sum = 0;
        }
        sum += file.bytes;
        sum > max
    });
    nameless
}

/// Whether a path is that of a jitdump, in which a process lists the code that it makes.
pub fn is_jit_dump(path: &str) -> bool {
    dump_number(path).is_some()
}

/// Keeps a list that was found, if there is room; says why where it is not kept.
fn hold_list(
    lists: &mut CodeLists,
    room: &mut FileQuota,
    process: &PerfMapOwner,
    found: ListLookup,
    taken: Ticks,
) -> PerfMapOutcome {
    let pid = process.pid;
    let reason = match found {
        ListLookup::Gone => return PerfMapOutcome::Gone,
        ListLookup::Missing => return PerfMapOutcome::Missing,
        ListLookup::Refused(reason) => reason,
        ListLookup::Opened(file) if !lists.is_new(pid) || room.take(process.user.uid()) => {
            lists.keep(pid, file, taken);
            return PerfMapOutcome::Held;
        }
        ListLookup::Opened(_) => {
            "its list of code is not read: too many files of its user are held".to_owned()
        }
    };
    lists.refuse(pid, reason);
    PerfMapOutcome::Missing
}

/// Stands for the user of a process that was gone.
const NOBODY: u32 = u32::MAX;

/// How many files are pinned, and for whom.
#[derive(Clone, Debug, Default)]
struct FileQuota {
    free: usize,
    by_user: FxHashMap<u32, usize>,
}

impl FileQuota {
    fn new(free: usize) -> Self {
        Self { free, by_user: FxHashMap::default() }
    }

    /// Takes one for a process of `user`. No user's programs have more than they leave to all
    /// others, so that nobody's files take what another's need; root's may have all.
    fn take(&mut self, user: u32) -> bool {
        let user = payer(user);
        let own = self.by_user.entry(user).or_default();
        let fits = self.free > 0 && (user == 0 || *own < self.free);
        if fits {
            (self.free, *own) = (self.free - 1, *own + 1);
        }
        fits
    }

    /// One that a process of `user` had is free again.
    fn give_back(&mut self, user: u32) {
        if let Some(own) = self.by_user.get_mut(&payer(user)).filter(|own| **own > 0) {
            (self.free, *own) = (self.free + 1, *own - 1);
        }
    }
}

/// A way to a mapping's file.
struct Candidate<'m> {
    place: FileLocation<'m>,
    /// It may be another file of that name, so only the build id can tell.
    only_by_build_id: bool,
    /// It may be another file by now, of whatever name.
    may_be_another: bool,
}

fn candidates<'m>(mapping: &Mapping, path: &'m Path, is_alive: bool) -> Vec<Candidate<'m>> {
    let Mapping { pid, start, end, .. } = *mapping;
    let mut found = Vec::with_capacity(3);
    if is_alive {
        let exact = candidate(FileLocation::Range { pid, start, end }, false);
        found.push(Candidate { may_be_another: true, ..exact });
    }
    // No name leads to it.
    if names_a_memory_file(&mapping.path) {
        return found;
    }
    if is_alive {
        let deleted = path.as_os_str().len() != mapping.path.len();
        found.push(candidate(FileLocation::InRootOf { pid, path }, deleted));
    }
    found.push(candidate(FileLocation::Mapped(path), true));
    found
}

fn candidate(place: FileLocation<'_>, only_by_build_id: bool) -> Candidate<'_> {
    Candidate { place, only_by_build_id, may_be_another: false }
}

/// Whether two paths end in the same name, which is the same in every mount namespace.
fn same_name(shown: &Path, path: &Path) -> bool {
    let shown = shown.to_string_lossy();
    Path::new(plain_path(&shown)).file_name() == path.file_name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_files_come_first_and_of_two_users_files_neither_stands_for_the_other() {
        assert_eq!(RivalFile::of(0, 1001), RivalFile::Ignored);
        assert_eq!(RivalFile::of(1001, 0), RivalFile::Taken);
        assert_eq!(RivalFile::of(1001, 1001), RivalFile::Ignored);
        assert_eq!(RivalFile::of(1001, 1002), RivalFile::Equal);
    }

    #[test]
    fn of_files_without_names_each_user_keeps_as_many_as_have_room() {
        let all = vec![
            nameless_file(2, 60),
            nameless_file(1, 90),
            nameless_file(2, 50),
            nameless_file(1, 20),
            nameless_file(2, 40),
        ];
        let gone = beyond(all, 100);
        let gone: Vec<_> = gone.iter().map(|file| (file.user, file.bytes)).collect();
        assert_eq!(gone, [(1, 90), (2, 60)]);
    }

    fn nameless_file(user: u32, bytes: u64) -> NamelessFile {
        NamelessFile { user, bytes, place: PinnedKey::CodeLists(user) }
    }

    #[test]
    fn no_users_programs_hold_more_files_than_they_leave() {
        let mut room = FileQuota::new(100);
        assert_eq!((0..1000).filter(|_| room.take(1000)).count(), 50);
        assert_eq!((0..1000).filter(|_| room.take(1001)).count(), 25);
        assert_eq!((0..1000).filter(|_| room.take(0)).count(), 25);
        assert!(!room.take(1002));
        (0..60).for_each(|_| room.give_back(1000));
        assert_eq!((0..1000).filter(|_| room.take(1002)).count(), 25, "what one had, others share");
    }
}
