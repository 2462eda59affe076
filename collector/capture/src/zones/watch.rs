//! The watcher: a thread that takes arenas over as they are announced, finds
//! out whose rings are whose, and notices programs that are gone.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use syscollect_model::ClockSource;
use syscollect_usdt_client::protocol::{MAX_RINGS, RingState};

use super::ZoneNotice;
use super::arena::{Arena, NotTaken};
use super::counters::Subject;
use super::departed::Departed;
use super::find::{self, Numbering};
use super::memory::SharedMemory;
use crate::worker::Worker;

/// Rings that nobody announced are looked for this often.
const SURVEY_INTERVAL: Duration = Duration::from_millis(100);
/// Programs that are gone, and arenas that another recorder held, are looked at this often.
const ROLL_CALL_INTERVAL: Duration = Duration::from_secs(1);
/// Most programs that are read at one time.
pub(super) const MOST_CLIENTS: usize = 4096;
/// Most arenas of one process: each plugin may bring one.
const MOST_OF_A_PROCESS: usize = 16;
/// Arenas that another recorder holds, of which it is remembered to try again.
const MOST_HELD: usize = 256;

/// Rings that could not be had, of which it is remembered that they are counted.
const MOST_REFUSED: usize = 65_536;

/// What the watcher has found.
pub(super) enum Found {
    /// An arena was taken.
    Client {
        /// Its number.
        number: u32,
        /// The arena.
        arena: Box<Arena>,
        /// Its process.
        subject: Box<Subject>,
    },
    /// A ring of it was mapped.
    Ring {
        /// The client.
        client: u32,
        /// The ring's number.
        ring: u32,
        /// Its memory.
        memory: Arc<SharedMemory>,
    },
    /// A ring is this thread's; `None` where nobody knows it any more.
    Thread {
        /// The client.
        client: u32,
        /// The ring's number.
        ring: u32,
        /// Which of the ring's threads.
        owner: u32,
        /// In the initial pid namespace.
        tid: Option<u32>,
    },
    /// The program has ended, or runs another one.
    Gone {
        /// The client.
        client: u32,
    },
    /// A ring was announced that could not be had: how it is to be told, once for each process.
    NotTaken {
        /// In words.
        why: String,
    },
    /// Another recorder has the arena.
    Held {
        /// The process.
        pid: u32,
    },
}

/// What the watcher knows.
pub(super) struct Watcher {
    root: PathBuf,
    found: Sender<Found>,
    next_number: u32,
    arenas: Vec<Watched>,
    departed: Departed,
    held: Vec<(u32, PathBuf)>,
    /// Process, thread and ring that could not be had, and why: a thread announces its ring several times.
    refused: HashSet<(u32, u32, u64, String)>,
    last_survey: Instant,
    last_roll_call: Instant,
}

/// An arena that was taken.
struct Watched {
    client: u32,
    pid: u32,
    arena: Arena,
    descriptor: PathBuf,
    /// Whether its threads are numbered as in this recorder's namespace.
    same_numbers: bool,
    rings: HashMap<u32, WatchedRing>,
}

/// A ring that was mapped, and the last of its owners who was told.
struct WatchedRing {
    memory: Arc<SharedMemory>,
    told: u32,
}

/// The running thread.
pub(super) struct Handle {
    notices: Sender<ZoneNotice>,
    worker: Worker<()>,
}

impl Handle {
    /// Starts it.
    pub(super) fn start(mut watcher: Watcher) -> std::io::Result<Self> {
        let (notices, received) = channel();
        let work = move || {
            // A program may end within a millisecond of its first zone, on a busy machine.
            crate::collector::go_first();
            watcher.run(&received);
        };
        let worker = Worker::start("zones", work)?;
        Ok(Self { notices, worker })
    }

    /// Where notices go.
    pub(super) fn notices(&self) -> Sender<ZoneNotice> {
        self.notices.clone()
    }

    /// Ends it, after what was told until now. Does not wait for ever: it may
    /// stand in a read of /proc that a program holds up.
    pub(super) fn stop(self) {
        if self.notices.send(ZoneNotice::Stop).is_ok() {
            // A panic there has been printed.
            let _ = self.worker.wait(Duration::from_secs(1));
        }
    }
}

impl Watcher {
    /// Watches processes as /proc below `root` shows them; `clock` is that of announcements.
    pub(super) fn new(root: &Path, clock: ClockSource, found: Sender<Found>) -> Self {
        let now = Instant::now();
        Self {
            root: root.to_path_buf(),
            found,
            next_number: 1,
            arenas: Vec::new(),
            departed: Departed::new(clock),
            held: Vec::new(),
            refused: HashSet::new(),
            last_survey: now,
            last_roll_call: now,
        }
    }

    fn run(&mut self, notices: &Receiver<ZoneNotice>) {
        loop {
            match notices.recv_timeout(SURVEY_INTERVAL) {
                Ok(ZoneNotice::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(notice) => self.notice(notice),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.last_survey.elapsed() >= SURVEY_INTERVAL {
                self.last_survey = Instant::now();
                self.survey();
            }
            if self.last_roll_call.elapsed() >= ROLL_CALL_INTERVAL {
                self.last_roll_call = Instant::now();
                self.roll_call();
            }
        }
        self.survey();
    }

    /// Sees to one notice.
    pub(super) fn notice(&mut self, notice: ZoneNotice) {
        match notice {
            ZoneNotice::Announcement { ticks, pid, tid, descriptor, ring } => {
                self.announced(ticks, pid, tid, descriptor, ring);
            }
            ZoneNotice::ClientFile { pid } => self.look_for_arenas(pid),
            ZoneNotice::Stop => {}
        }
    }

    fn announced(&mut self, ticks: u64, pid: u32, tid: u32, descriptor: u64, ring: u64) {
        let paths = find::descriptor_paths(&self.root, pid, tid, descriptor);
        let index = match self.known(pid, &paths) {
            Some(index) => index,
            None => match self.take_first(pid, &paths) {
                Ok(index) => index,
                Err(NotTaken::Gone) if self.departed.had(pid, &paths, ticks) => return,
                Err(why) => {
                    if self.is_first_refusal((pid, tid, ring, why.to_string())) {
                        self.refused(pid, &paths[0], &why);
                    }
                    return;
                }
            },
        };
        if let Some(ring) = u32::try_from(ring).ok().filter(|ring| *ring < MAX_RINGS as u32) {
            self.announced_ring(index, ring, tid);
        }
    }

    /// The arena that was announced, if it was taken already. A process that
    /// is gone is known by where its arena was.
    fn known(&self, pid: u32, paths: &[PathBuf]) -> Option<usize> {
        if let Some(id) = paths.iter().find_map(|path| Arena::identify(path)) {
            return self.arenas.iter().position(|watched| watched.arena.id == id);
        }
        self.arenas.iter().position(|watched| watched.pid == pid && paths.contains(&watched.descriptor))
    }

    /// Takes the arena at the first of these paths where one is, or one that
    /// the process has mapped although its descriptor is closed.
    fn take_first(&mut self, pid: u32, paths: &[PathBuf]) -> Result<usize, NotTaken> {
        let mapped = || find::arena_mappings(&self.root, pid).into_iter().find(|path| self.is_new(path));
        let there = paths.iter().find(|path| Arena::identify(path).is_some()).cloned().or_else(mapped);
        self.take(pid, &there.ok_or(NotTaken::Gone)?)
    }

    fn is_new(&self, path: &Path) -> bool {
        Arena::identify(path).is_some_and(|id| self.arenas.iter().all(|watched| watched.arena.id != id))
    }

    /// Takes an arena over; returns its place among them.
    fn take(&mut self, pid: u32, path: &Path) -> Result<usize, NotTaken> {
        if self.arenas.len() >= MOST_CLIENTS || self.of_process(pid) >= MOST_OF_A_PROCESS {
            // Of a program that ran others in its place within a second most are gone.
            self.roll_call_of(|watched| watched.pid == pid);
        }
        if self.arenas.len() >= MOST_CLIENTS || self.of_process(pid) >= MOST_OF_A_PROCESS {
            return Err(NotTaken::Wrong("so many programs are recorded that it would be one too many"));
        }
        let arena = Arena::take(path)?;
        let client = self.next_number;
        self.next_number += 1;
        let subject =
            Subject { root: self.root.clone(), pid, descriptor: path.to_path_buf(), id: arena.id, clock: arena.clock };
        self.send(Found::Client { number: client, arena: Box::new(arena.clone()), subject: Box::new(subject) });
        let same_numbers = !matches!(Numbering::of(&self.root, pid), Some(Numbering::Own(_)));
        let (descriptor, rings) = (path.to_path_buf(), HashMap::new());
        self.arenas.push(Watched { client, pid, arena, descriptor, same_numbers, rings });
        let index = self.arenas.len() - 1;
        self.survey_one(index);
        Ok(index)
    }

    /// Whether that ring was not refused before.
    fn is_first_refusal(&mut self, ring: (u32, u32, u64, String)) -> bool {
        if self.refused.len() >= MOST_REFUSED {
            self.refused.clear();
        }
        self.refused.insert(ring)
    }

    fn of_process(&self, pid: u32) -> usize {
        self.arenas.iter().filter(|watched| watched.pid == pid).count()
    }

    /// An arena could not be had.
    fn refused(&mut self, pid: u32, path: &Path, why: &NotTaken) {
        if !matches!(why, NotTaken::Held) {
            return self.send(Found::NotTaken { why: format!("process {pid}: its zones are not recorded: {why}") });
        }
        if self.held.len() < MOST_HELD && !self.held.iter().any(|(_, held)| held == path) {
            self.held.push((pid, path.to_path_buf()));
            self.send(Found::Held { pid });
        }
    }

    /// Arenas that a process made before this recording began. A descriptor
    /// that a child has inherited is not its own.
    fn look_for_arenas(&mut self, pid: u32) {
        let mut paths = find::arena_descriptors(&self.root, pid);
        if paths.is_empty() {
            paths = find::arena_mappings(&self.root, pid);
        }
        let own_id = find::own_id(&self.root, pid);
        for path in paths.iter().take(MOST_OF_A_PROCESS) {
            if !self.is_new(path) || Arena::owner(path) != own_id {
                continue;
            }
            match self.take(pid, path) {
                // Nothing of it was announced to this recording.
                Ok(_) | Err(NotTaken::Gone) => {}
                Err(why) => self.refused(pid, path, &why),
            }
        }
    }

    /// A thread has announced its ring; it still has it, for a ring is given to
    /// another only when it was emptied, which waits for this.
    fn announced_ring(&mut self, index: usize, ring: u32, tid: u32) {
        let Some(memory) = self.map(index, ring) else { return };
        let owner = memory.ring().owner.load(Ordering::Acquire);
        self.tell(index, ring, owner, Some(tid));
    }

    /// The ring's memory, mapped now if it was not.
    fn map(&mut self, index: usize, ring: u32) -> Option<Arc<SharedMemory>> {
        let watched = self.arenas.get_mut(index)?;
        if let Some(known) = watched.rings.get(&ring) {
            return Some(known.memory.clone());
        }
        let (client, pid) = (watched.client, watched.pid);
        match watched.arena.map_ring(ring) {
            Ok(memory) => {
                watched.rings.insert(ring, WatchedRing { memory: memory.clone(), told: 0 });
                self.send(Found::Ring { client, ring, memory: memory.clone() });
                Some(memory)
            }
            Err(why) => {
                self.send(Found::NotTaken { why: format!("process {pid}: a ring cannot be mapped: {why}") });
                None
            }
        }
    }

    fn tell(&mut self, index: usize, ring: u32, owner: u32, tid: Option<u32>) {
        let Some(watched) = self.arenas.get_mut(index) else { return };
        let Some(known) = watched.rings.get_mut(&ring) else { return };
        known.told = owner;
        let client = watched.client;
        self.send(Found::Thread { client, ring, owner, tid });
    }

    /// Looks for rings in use that nobody announced: those of a program that
    /// was marked and recorded before, or whose announcement was lost.
    pub(super) fn survey(&mut self) {
        (0..self.arenas.len()).for_each(|index| self.survey_one(index));
    }

    fn survey_one(&mut self, index: usize) {
        let Some(watched) = self.arenas.get(index) else { return };
        let (pid, same_numbers, mut numbering) = (watched.pid, watched.same_numbers, None);
        let untold: Vec<u32> = (0..watched.arena.rings()).filter(|ring| watched.is_untold(*ring)).collect();
        for ring in untold {
            let Some(memory) = self.map(index, ring) else { continue };
            let owner = memory.ring().owner.load(Ordering::Acquire);
            let tid = memory.ring().tid.load(Ordering::Relaxed);
            let numbering = numbering.get_or_insert_with(|| match same_numbers {
                true => Some(Numbering::Same),
                false => Numbering::of(&self.root, pid),
            });
            let tid = numbering.as_ref().and_then(|numbering| numbering.host_tid(&self.root, pid, tid));
            self.tell(index, ring, owner, tid);
        }
    }

    /// Finds programs that are gone, and takes what another recorder has left.
    pub(super) fn roll_call(&mut self) {
        self.roll_call_of(|_| true);
        for (pid, path) in std::mem::take(&mut self.held) {
            if matches!(self.take(pid, &path), Err(NotTaken::Held)) {
                self.held.push((pid, path));
            }
        }
    }

    fn roll_call_of(&mut self, is_asked: impl Fn(&Watched) -> bool) {
        let is_gone = |watched: &Watched| {
            is_asked(watched) && !find::still_has(&self.root, watched.pid, &watched.descriptor, watched.arena.id)
        };
        let all = self.arenas.iter().enumerate();
        let gone: Vec<usize> = all.filter(|(_, watched)| is_gone(watched)).map(|(index, _)| index).collect();
        for index in gone.into_iter().rev() {
            self.survey_one(index);
            let Watched { client, pid, descriptor, .. } = self.arenas.remove(index);
            self.departed.add(pid, descriptor);
            self.send(Found::Gone { client });
        }
    }

    /// As if it had found this: this process, which plays the programs in
    /// tests, has the recorder's own mappings of them, too.
    #[cfg(test)]
    pub(super) fn found_for_tests(&self, found: Found) {
        self.send(found);
    }

    /// Looks below another root from now on.
    #[cfg(test)]
    pub(super) fn look_below(&mut self, root: &Path) {
        self.root = root.to_path_buf();
    }

    fn send(&self, found: Found) {
        // The collector ends later than this.
        let _ = self.found.send(found);
    }
}

impl Watched {
    /// Whether the ring has a thread that was not told of.
    fn is_untold(&self, ring: u32) -> bool {
        if let Some(known) = self.rings.get(&ring) {
            return known.memory.ring().owner.load(Ordering::Acquire) != known.told;
        }
        let identity = self.arena.ring_identity(ring);
        identity.is_ok_and(|identity| identity.state != RingState::Free as u32 && identity.owner != 0)
    }
}
