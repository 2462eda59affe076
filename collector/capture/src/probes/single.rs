//! Files that are attached to in single processes, for too many have them mapped, or nobody can
//! count those who do.
//!
//! That may end: so who has them mapped is counted again and again, one file at a time, and of that
//! user's for whom it was longest ago, within a small part of a CPU.

use std::path::Path;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_untrusted_files::{payer, status_at};

use super::attach::Point;
use super::attaching::{AttachJob, Progress};
use super::cost::Mapper;
use super::counting::CountRequest;
use super::files::{FileKey, OpenFile};
use super::keeper::OneProcess;
use super::process_slots::{ProcessSlots, SlotHolder};
use crate::shares::Pool;

/// Such files, each of which is open, of all users together.
const FILES_MAX: u64 = 256;
/// A file is counted again after so long, at the earliest; and none before so many times as long as
/// the last count took.
const RECOUNT: Duration = Duration::from_secs(1);
const PART: u32 = 30;

/// A file with what is to be attached in it.
#[derive(Clone, Debug)]
pub(super) struct FileToAttach {
    pub(super) file: OpenFile,
    pub(super) path: String,
    /// Who owns it.
    pub(super) owner: u32,
    pub(super) rings: Vec<Point>,
    pub(super) hits: Vec<Point>,
    /// As jobs have it.
    pub(super) is_asked_for: bool,
}

impl FileToAttach {
    /// The same in all processes or in one, of whom `payer` pays for it; `None` where there are no
    /// more descriptors.
    pub(super) fn job(&self, payer: u32, process: Option<OneProcess>) -> Option<AttachJob> {
        Some(AttachJob {
            file: self.file.file.file().try_clone().ok()?.into(),
            path: self.path.clone(),
            owner: self.owner,
            payer,
            process,
            replaces: Vec::new(),
            rings: self.rings.clone(),
            hits: self.hits.clone(),
            is_asked_for: self.is_asked_for,
            progress: Progress::default(),
        })
    }
}

/// A file that is attached to in single processes.
#[derive(Debug)]
pub(super) struct SingleFile {
    pub(super) what: FileToAttach,
    pub(super) wanted: CountRequest,
    pub(super) with_semaphore: bool,
    slots: ProcessSlots,
    counted: Instant,
}

/// All of them.
pub(super) struct SingleFiles {
    files: FxHashMap<FileKey, SingleFile>,
    /// Each owner has a share.
    room: Pool,
    last_lease: u64,
    not_before: Instant,
    /// When files of an owner were counted last.
    counted: FxHashMap<u32, Instant>,
}

/// There is no room for one more file.
#[derive(Debug)]
pub(super) struct NoRoom;

/// What became of processes that want slots.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    pub(super) new: Vec<SlotHolder>,
    /// Leases of those whose slots are others' now, or nobody's.
    pub(super) over: Vec<u64>,
}

impl SingleFiles {
    pub(super) fn new() -> Self {
        Self {
            files: FxHashMap::default(),
            room: Pool::new(FILES_MAX),
            last_lease: 0,
            not_before: Instant::now(),
            counted: FxHashMap::default(),
        }
    }

    /// A lease that nobody has.
    pub(super) fn lease(&mut self) -> u64 {
        self.last_lease += 1;
        self.last_lease
    }

    pub(super) fn get(&self, key: FileKey) -> Option<&SingleFile> {
        self.files.get(&key)
    }

    /// Whether the file is attached to so, and not yet in this process.
    pub(super) fn lacks(&self, key: FileKey, pid: u32) -> bool {
        self.files.get(&key).is_some_and(|single| match single.slots.of(pid) {
            Some(holder) => begin_of(pid) != Some(holder.began),
            None => true,
        })
    }

    /// One more file, without processes. Where its owner has no room for it, another one goes that
    /// no process has which is attached to: its key, and the leases of those that had it. `Err`
    /// where there is none.
    pub(super) fn add(
        &mut self,
        what: FileToAttach,
        wanted: CountRequest,
        with_semaphore: bool,
    ) -> Result<Option<(FileKey, Vec<u64>)>, NoRoom> {
        let mut idle = None;
        if !self.room.take(what.owner, 1) {
            let key = self.idle_of(what.owner).ok_or(NoRoom)?;
            idle = self.remove(key).map(|(_, leases)| (key, leases));
            if !self.room.take(what.owner, 1) {
                return Err(NoRoom);
            }
        }
        let (slots, counted) = (ProcessSlots::default(), Instant::now());
        let key = what.file.key;
        self.files.insert(key, SingleFile { what, wanted, with_semaphore, slots, counted });
        Ok(idle)
    }

    fn idle_of(&self, owner: u32) -> Option<FileKey> {
        self.files
            .iter()
            .find(|(_, single)| {
                self.room.is_same(single.what.owner, owner) && single.slots.are_all(has_ended)
            })
            .map(|(key, _)| *key)
    }

    /// The file is attached to in all processes; what it is, and the leases of the single ones.
    pub(super) fn remove(&mut self, key: FileKey) -> Option<(FileToAttach, Vec<u64>)> {
        let mut single = self.files.remove(&key)?;
        self.room.give_back(single.what.owner, 1);
        let leases = single.slots.remove(|_| true).iter().map(|holder| holder.lease).collect();
        Some((single.what, leases))
    }

    /// Gives slots to processes that have the file mapped.
    pub(super) fn admit(&mut self, key: FileKey, mappers: &[Mapper]) -> Admitted {
        self.admit_as(key, mappers, begin_of)
    }

    fn admit_as(
        &mut self,
        key: FileKey,
        mappers: &[Mapper],
        begin_of: impl Fn(u32) -> Option<u64>,
    ) -> Admitted {
        let mut admitted = Admitted::default();
        let Some(single) = self.files.get_mut(&key) else { return admitted };
        let has_ended = |holder: &SlotHolder| begin_of(holder.pid) != Some(holder.began);
        let mut is_swept = false;
        for Mapper { pid, user, runs_it, .. } in mappers.iter().copied() {
            // Its number may have been another's.
            let mut over = single.slots.remove(|holder| holder.pid == pid && has_ended(holder));
            if single.slots.are_full() && !is_swept {
                is_swept = true;
                over.extend(single.slots.remove(has_ended));
            }
            admitted.over.extend(over.iter().map(|holder| holder.lease));
            let is_new = single.slots.of(pid).is_none();
            let Some(began) = begin_of(pid).filter(|_| is_new) else { continue };
            self.last_lease += 1;
            let new = SlotHolder { pid, user, runs_it, began, lease: self.last_lease };
            if let Ok(gave_way) = single.slots.admit(new) {
                admitted.new.push(new);
                admitted.over.extend(gave_way.map(|holder| holder.lease));
            }
        }
        // Some gave way before anything was attached.
        let Admitted { new, over } = &mut admitted;
        let (never, new_ones): (Vec<SlotHolder>, Vec<SlotHolder>) =
            new.drain(..).partition(|holder| over.contains(&holder.lease));
        over.retain(|lease| never.iter().all(|holder| holder.lease != *lease));
        *new = new_ones;
        admitted
    }

    /// Nothing was attached under this lease.
    pub(super) fn take_back(&mut self, key: FileKey, lease: u64) {
        if let Some(single) = self.files.get_mut(&key) {
            single.slots.remove(|holder| holder.lease == lease);
        }
    }

    /// Processes that have the file mapped no more, as all were counted, need no slots; their
    /// leases.
    pub(super) fn keep_only(&mut self, key: FileKey, mappers: &[Mapper]) -> Vec<u64> {
        let Some(single) = self.files.get_mut(&key) else { return Vec::new() };
        let pids: FxHashSet<u32> = mappers.iter().map(|mapper| mapper.pid).collect();
        let over = single.slots.remove(|holder| !pids.contains(&holder.pid));
        over.iter().map(|holder| holder.lease).collect()
    }

    /// How long until one of them is counted; `None` where there are none.
    pub(super) fn next_count(&self, now: Instant) -> Option<Duration> {
        let first = self.files.values().map(|single| single.counted + RECOUNT).min()?;
        Some(first.max(self.not_before).saturating_duration_since(now))
    }

    /// The file whose processes are to be counted again, if it is time.
    pub(super) fn next(&mut self, now: Instant) -> Option<FileKey> {
        if now < self.not_before {
            return None;
        }
        let Self { files, counted, .. } = self;
        let due = files
            .iter_mut()
            .filter(|(_, single)| now.saturating_duration_since(single.counted) >= RECOUNT);
        let (key, single) = due.min_by_key(|(_, single)| {
            (counted.get(&payer(single.what.owner)).copied(), single.counted)
        })?;
        single.counted = now;
        let (key, owner) = (*key, payer(single.what.owner));
        counted.insert(owner, now);
        // Owners without such files need not be remembered.
        if counted.len() > FILES_MAX as usize {
            counted.retain(|owner, _| files.values().any(|of| payer(of.what.owner) == *owner));
        }
        Some(key)
    }

    /// The count took so long.
    pub(super) fn took(&mut self, took: Duration) {
        self.not_before = self.not_before.max(Instant::now() + took * PART);
    }
}

fn has_ended(holder: &SlotHolder) -> bool {
    begin_of(holder.pid) != Some(holder.began)
}

/// When a process began, in ticks since the machine did; `None` if it has ended.
pub(super) fn begin_of(pid: u32) -> Option<u64> {
    parse_begin(&status_at(Path::new(&format!("/proc/{pid}/stat")))?)
}

fn parse_begin(stat: &str) -> Option<u64> {
    // Its name may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let is_there = !matches!(state, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: u32 = 1001;
    const HONEST: u32 = 1002;

    fn file(owner: u32) -> FileToAttach {
        let mut all = super::super::files::mapped_files(Path::new("/"), std::process::id());
        let mut file = all.remove(0).1.open().unwrap();
        file.key = FileKey::of_test(u64::from(owner));
        let (path, rings, hits) = ("/a".to_owned(), Vec::new(), Vec::new());
        FileToAttach { file, path, owner, rings, hits, is_asked_for: false }
    }

    fn of(owners: impl IntoIterator<Item = u32>) -> SingleFiles {
        let mut single = SingleFiles::new();
        for owner in owners {
            let wanted = CountRequest { file: file(owner).file.key, bytes: 0..1, owner };
            single.add(file(owner), wanted, false).unwrap();
        }
        single
    }

    /// Whether there was room for a file of the owner's.
    fn add(single: &mut SingleFiles, key: FileKey, owner: u32) -> bool {
        let mut what = file(owner);
        what.file.key = key;
        single.add(what, CountRequest { file: key, bytes: 0..1, owner }, false).is_ok()
    }

    fn mappers(user: u32, pids: std::ops::Range<u32>, runs_it: bool) -> Vec<Mapper> {
        pids.map(|pid| Mapper { pid, user, runs_it, mappings: 1, all: 1 }).collect()
    }

    #[test]
    fn programs_are_attached_to_however_many_have_ended_before() {
        let mut single = of([HONEST]);
        let key = file(HONEST).file.key;
        // Of all of these the last ten are alive at a time.
        let mut leases = Vec::new();
        for pid in 0..1_000 {
            let mapper = mappers(HONEST, pid..pid + 1, true);
            let admitted = single.admit_as(key, &mapper, |of| (of + 10 > pid).then_some(1));
            assert_eq!(admitted.new.len(), 1, "process {pid}");
            leases.push(admitted.new[0].lease);
            leases.retain(|lease| !admitted.over.contains(lease));
        }
        assert!(leases.len() <= 64, "what is attached to those that ended is let go");
    }

    #[test]
    fn a_process_with_the_number_of_another_that_ended_has_a_place_of_its_own() {
        let mut single = of([HONEST]);
        let (key, one) = (file(HONEST).file.key, mappers(HONEST, 7..8, true));
        let first = single.admit_as(key, &one, |_| Some(1));
        assert!(single.admit_as(key, &one, |_| Some(1)).new.is_empty());
        let second = single.admit_as(key, &one, |_| Some(2));
        assert_eq!((second.new.len(), second.over), (1, vec![first.new[0].lease]));
    }

    #[test]
    fn files_whose_programs_have_ended_give_way_to_those_that_run() {
        let mut single = SingleFiles::new();
        let own = mappers(HOSTILE, std::process::id()..std::process::id() + 1, true);
        let mut run = 0;
        for key in (0..1_000).map(FileKey::of_test) {
            if add(&mut single, key, HOSTILE) {
                single.admit(key, &own);
                run += 1;
            }
        }
        assert_eq!(run, 128);
        let mut idle = (1_000..2_000).map(FileKey::of_test);
        assert!(idle.all(|key| add(&mut single, key, HONEST)), "its own idle ones go");
    }

    #[test]
    fn who_gives_way_at_once_is_never_attached_to() {
        let mut single = of([HONEST]);
        let mut all = mappers(HOSTILE, 0..500, false);
        all.extend(mappers(HONEST, 1_000..1_040, true));
        let admitted = single.admit_as(file(HONEST).file.key, &all, |_| Some(1));
        let honest = admitted.new.iter().filter(|holder| holder.user == HONEST).count();
        assert_eq!((honest, admitted.new.len(), admitted.over.len()), (32, 64, 0));
    }

    #[test]
    fn each_owner_s_files_are_counted_in_turn_and_within_a_part_of_all_time() {
        let mut single = of([HONEST, HOSTILE]);
        let mut now = Instant::now() + RECOUNT;
        let both = [single.next(now), single.next(now)];
        assert!([HONEST, HOSTILE].iter().all(|of| both.contains(&Some(file(*of).file.key))));
        assert_eq!(single.next(now), None, "each once in that time");
        single.remove(file(HOSTILE).file.key).unwrap();
        now += RECOUNT;
        assert_eq!(single.next(now), Some(file(HONEST).file.key));
        single.took(RECOUNT);
        assert!(single.next_count(Instant::now()).unwrap() > RECOUNT * (PART - 1));
        let (what, leases) = single.remove(file(HONEST).file.key).unwrap();
        assert_eq!((what.owner, leases.len(), single.next_count(now)), (HONEST, 0, None));
    }

    #[test]
    fn who_has_the_file_mapped_no_more_leaves_its_place() {
        let mut single = of([HONEST]);
        let key = file(HONEST).file.key;
        let first = single.admit_as(key, &mappers(HONEST, 0..10, true), |_| Some(1)).new;
        let mut over = single.keep_only(key, &mappers(HONEST, 7..20, true));
        over.sort_unstable();
        assert_eq!(over, first[..7].iter().map(|holder| holder.lease).collect::<Vec<_>>());
        let again = single.admit_as(key, &mappers(HONEST, 0..1, true), |_| Some(1));
        assert_eq!(again.new.len(), 1, "it may come back");
    }

    #[test]
    fn a_process_begins_whatever_its_name_is() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0";
        assert_eq!(parse_begin(stat), Some(12345));
        assert_eq!(parse_begin(&stat.replace(" S ", " Z ")), None, "it has ended");
        assert!(begin_of(std::process::id()).is_some());
    }
}
