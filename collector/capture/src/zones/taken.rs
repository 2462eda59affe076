//! The arenas that this recorder has: what the two threads that look for them share.
//!
//! One takes over what is announced and goes before everything else on its
//! CPU, the other takes its time. What they share is locked for as long as a
//! number is looked up, and never while the system is asked for something.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::ClockSource;
use syscollect_untrusted_files::FixedPath;
use syscollect_zone_protocol::arena::MAX_RINGS;

use super::Announcement;
use super::arena::{Arena, ArenaId, ArenaRefusal, FoundArena};
use super::counters::PolledProgram;
use super::exited::Exited;
use super::find::{ArenaLocation, Numbering};
use super::watch::{WatchEvent, announced_ring};
use crate::shares::Pool;

/// Arenas that are read at one time, where the system has room for their mappings and descriptors.
pub(super) const MOST_ARENAS: u64 = 4096;
/// An arena is one mapping; of those that a process may have it takes at most one part in so many.
const PART_OF_MAPPINGS: u64 = 16;
/// The same of descriptors.
const PART_OF_DESCRIPTORS: u64 = 4;
/// Arenas of one process: each plugin may bring one.
pub(super) const MOST_OF_A_PROCESS: u32 = 16;
/// Rings that are read at one time: half of the lanes that a capture can number.
const MOST_RINGS: u64 = 32_768;
/// Rings of one process.
const MOST_RINGS_OF_A_PROCESS: u32 = 4 * MAX_RINGS as u32;
/// Rings that could not be had, of which it is remembered that they are counted.
const MOST_REFUSED: usize = 16_384;

/// An arena that was taken.
pub(super) struct TakenArena {
    /// Its number.
    pub(super) client: u32,
    /// Its process.
    pub(super) pid: u32,
    /// The arena.
    pub(super) arena: Arena,
    /// Where it was found.
    pub(super) place: ArenaLocation,
    /// Whether its threads are numbered as in this recorder's namespace.
    pub(super) same_numbers: bool,
    /// Whether its rings, or whether its program is still there, wait to be looked at.
    pub(super) rings_wait: AtomicBool,
    pub(super) roll_call_waits: AtomicBool,
    /// The rings that were heard of.
    rings: Mutex<FxHashMap<u32, AnnouncedRing>>,
}

/// A ring that was heard of.
#[derive(Clone, Copy)]
struct AnnouncedRing {
    /// The last of its owners who was told to the collector.
    owner: u32,
    /// Whether it is read: it is within the shares.
    is_read: bool,
}

/// All of them.
pub(super) struct Arenas {
    /// Below which /proc is found.
    root: Mutex<PathBuf>,
    found: Sender<WatchEvent>,
    state: Mutex<TakenState>,
    /// Held by who takes an arena: each is taken once.
    taking: Mutex<()>,
}

struct TakenState {
    next_number: u32,
    by_id: FxHashMap<ArenaId, Arc<TakenArena>>,
    /// Taken and not seen yet by who watches them.
    new: Vec<Arc<TakenArena>>,
    arenas: Pool,
    rings: Pool,
    of_process: FxHashMap<u32, ProcessShare>,
    exited: Exited,
    /// Process, thread and ring that could not be had, and why: a thread announces its ring several
    /// times.
    refused: FxHashSet<(u32, u32, u64, String)>,
}

#[derive(Clone, Copy, Default)]
struct ProcessShare {
    arenas: u32,
    rings: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole between any two statements that can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arenas {
    /// None yet. `clock` is that of announcements.
    pub(super) fn new(root: &Path, clock: ClockSource, found: Sender<WatchEvent>) -> Self {
        let state = TakenState {
            next_number: 1,
            by_id: FxHashMap::default(),
            new: Vec::new(),
            arenas: Pool::new(room_for_arenas()),
            rings: Pool::new(MOST_RINGS),
            of_process: FxHashMap::default(),
            exited: Exited::new(clock),
            refused: FxHashSet::default(),
        };
        let root = Mutex::new(root.to_path_buf());
        Self { root, found, state: Mutex::new(state), taking: Mutex::new(()) }
    }

    /// Below which /proc is found.
    pub(super) fn root(&self) -> PathBuf {
        lock(&self.root).clone()
    }

    /// Looks below another root from now on.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn set_root(&self, root: &Path) {
        *lock(&self.root) = root.to_path_buf();
    }

    /// Tells the collector.
    pub(super) fn send(&self, found: WatchEvent) {
        // The collector ends later than this.
        let _ = self.found.send(found);
    }

    /// The arena, if it was taken.
    pub(super) fn known(&self, id: ArenaId) -> Option<Arc<TakenArena>> {
        lock(&self.state).by_id.get(&id).cloned()
    }

    /// The arena that this process had at one of these paths, of one that is gone.
    fn known_at(&self, pid: u32, paths: &[PathBuf]) -> Option<Arc<TakenArena>> {
        let state = lock(&self.state);
        state
            .by_id
            .values()
            .find(|taken| taken.pid == pid && paths.contains(&taken.place.path))
            .cloned()
    }

    /// Whether an arena that the process had at one of these paths at that time was read to its
    /// end.
    fn had(&self, pid: u32, paths: &[PathBuf], ticks: u64) -> bool {
        lock(&self.state).exited.had(pid, paths, ticks)
    }

    /// Whether an arena that was announced at one of these paths is read, though it is there no
    /// more, or was read to its end.
    pub(super) fn knew(&self, paths: &[PathBuf], announcement: Announcement) -> bool {
        let Announcement { pid, ticks, .. } = announcement;
        match self.known_at(pid, paths) {
            Some(taken) => {
                announced_ring(self, &taken, announcement);
                true
            }
            None => self.had(pid, paths, ticks),
        }
    }

    /// Those that were taken since the last call.
    pub(super) fn take_new(&self) -> Vec<Arc<TakenArena>> {
        std::mem::take(&mut lock(&self.state).new)
    }

    /// Those of a process.
    pub(super) fn of_process(&self, pid: u32) -> Vec<Arc<TakenArena>> {
        lock(&self.state).by_id.values().filter(|taken| taken.pid == pid).cloned().collect()
    }

    /// Takes an arena over, or observes it, unless there is no room for it. `announced` is the ring
    /// whose thread has led there.
    pub(super) fn take(
        &self,
        pid: u32,
        path: &Path,
        found: &FoundArena,
        announced: Option<u64>,
    ) -> Result<Arc<TakenArena>, ArenaRefusal> {
        lock(&self.state).reserve(pid, found.user)?;
        let root = self.root();
        let same_numbers = !matches!(Numbering::of(&root, pid), Some(Numbering::Own(_)));
        let place = ArenaLocation::of(&root, pid, path, found.id);
        // Who hears of rings and who looks for arenas may both have found it: the second would take
        // the first one's lock for another recorder's, and read beside it.
        let _alone = lock(&self.taking);
        if let Some(taken) = self.known(found.id) {
            lock(&self.state).give_back(pid, found.user, 0);
            return Ok(taken);
        }
        let arena = found
            .take(announced)
            .inspect_err(|_| lock(&self.state).give_back(pid, found.user, 0))?;
        let mut state = lock(&self.state);
        let client = state.next_number;
        state.next_number += 1;
        let taken = Arc::new(TakenArena {
            client,
            pid,
            arena,
            place,
            same_numbers,
            rings_wait: AtomicBool::new(false),
            roll_call_waits: AtomicBool::new(false),
            rings: Mutex::default(),
        });
        state.by_id.insert(taken.arena.id, taken.clone());
        state.new.push(taken.clone());
        drop(state);
        let arena = &taken.arena;
        let subject = PolledProgram {
            root,
            place: taken.place.clone(),
            user: arena.user,
            clock: arena.clock,
        };
        self.send(WatchEvent::Client {
            number: client,
            arena: Box::new(arena.clone()),
            subject: Box::new(subject),
        });
        Ok(taken)
    }

    /// The program is gone: its arena is read to its end and forgotten.
    pub(super) fn forget(&self, taken: &TakenArena) {
        let mut state = lock(&self.state);
        if state.by_id.remove(&taken.arena.id).is_none() {
            return;
        }
        let rings = lock(&taken.rings).values().filter(|ring| ring.is_read).count() as u32;
        state.give_back(taken.pid, taken.arena.user, rings);
        state.exited.add(taken.pid, taken.place.path.clone());
        drop(state);
        self.send(WatchEvent::Gone { client: taken.client });
    }

    /// A ring has an owner of whom the collector has not heard: has it read, and tells whose it is.
    pub(super) fn report_owner(&self, taken: &TakenArena, ring: u32, owner: u32, tid: Option<u32>) {
        let client = taken.client;
        let mut rings = lock(&taken.rings);
        let known = rings.get(&ring).copied();
        let is_read = match known {
            Some(known) => known.is_read,
            None => lock(&self.state).reserve_ring(taken.pid, taken.arena.user),
        };
        rings.insert(ring, AnnouncedRing { owner, is_read });
        drop(rings);
        if !is_read {
            return self.refuse(
                taken.arena.user,
                taken.pid,
                (0, u64::from(taken.client) << 32 | u64::from(ring)),
                &ArenaRefusal::TooMany(RINGS),
            );
        }
        if known.is_none() {
            self.send(WatchEvent::Ring { client, ring });
        }
        self.send(WatchEvent::Thread { client, ring, owner, tid });
    }

    /// What was announced could not be had.
    pub(super) fn refuse_announced(&self, announcement: Announcement, why: &ArenaRefusal) {
        let Announcement { user, pid, tid, ring, .. } = announcement;
        self.refuse(user, pid, (tid, ring), why);
    }

    /// A ring or an arena of a user's process could not be had: counts it, once for each ring.
    pub(super) fn refuse(&self, user: u32, pid: u32, (tid, ring): (u32, u64), why: &ArenaRefusal) {
        let mut state = lock(&self.state);
        if state.refused.len() >= MOST_REFUSED {
            state.refused.clear();
        }
        let is_first = state.refused.insert((pid, tid, ring, why.to_string()));
        drop(state);
        if is_first {
            self.send(WatchEvent::NotTaken {
                user,
                why: format!("process {pid}: its zones are not recorded: {why}"),
            });
        }
    }
}

/// What is refused, in words.
const RINGS: &str = "it, or its user, has threads with rings,";
const ARENAS: &str = "it, or its user, has arenas,";

impl TakenState {
    fn reserve(&mut self, pid: u32, user: u32) -> Result<(), ArenaRefusal> {
        let of_process = self.of_process.entry(pid).or_default();
        if of_process.arenas >= MOST_OF_A_PROCESS || !self.arenas.take(user, 1) {
            return Err(ArenaRefusal::TooMany(ARENAS));
        }
        of_process.arenas += 1;
        Ok(())
    }

    fn reserve_ring(&mut self, pid: u32, user: u32) -> bool {
        let of_process = self.of_process.entry(pid).or_default();
        let may = of_process.rings < MOST_RINGS_OF_A_PROCESS && self.rings.take(user, 1);
        of_process.rings += u32::from(may);
        may
    }

    /// An arena with so many rings.
    fn give_back(&mut self, pid: u32, user: u32, rings: u32) {
        self.arenas.give_back(user, 1);
        let Some(of_process) = self.of_process.get_mut(&pid) else { return };
        self.rings.give_back(user, u64::from(rings));
        of_process.rings = of_process.rings.saturating_sub(rings);
        of_process.arenas = of_process.arenas.saturating_sub(1);
        if of_process.arenas == 0 {
            self.of_process.remove(&pid);
        }
    }
}

impl TakenArena {
    /// Whether the collector has not heard of this owner of a ring.
    pub(super) fn is_untold(&self, ring: u32, owner: u32) -> bool {
        lock(&self.rings).get(&ring).is_none_or(|known| known.owner != owner)
    }

    /// The last owner of a ring of whom the collector has heard; 0 where there is none.
    pub(super) fn last_told(&self, ring: u32) -> u32 {
        lock(&self.rings).get(&ring).map_or(0, |known| known.owner)
    }

    /// How often threads have taken rings, as the program counts it.
    pub(super) fn claims(&self) -> u32 {
        self.arena.memory.header().claims.load(Ordering::Acquire)
    }
}

/// Arenas for which the kernel gives this process mappings and descriptors.
fn room_for_arenas() -> u64 {
    let mappings = FixedPath::new("/proc/sys/vm/max_map_count")
        .read_to_string()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` may be written.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    // Who names addresses raises the limit to what is possible.
    let descriptors = if known { limit.rlim_max } else { 1024 };
    let mappings: u64 = mappings.unwrap_or(65_530);
    MOST_ARENAS.min(mappings / PART_OF_MAPPINGS).min(descriptors / PART_OF_DESCRIPTORS).max(1)
}
