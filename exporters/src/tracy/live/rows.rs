//! Which of the viewer's threads stands for what.

use super::room::{Owner, SharedRoom, UserOf};
use crate::tracy::FirstThreads;
use crate::tracy::rows::{self, RowOwner};
use crate::tracy::strings::clean;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use syscollect_model::{
    Forgotten, ProcessId, Scope, Tables, ThreadId, TrackId, TrackKind, TrackRole,
};
use syscollect_tracy_protocol::{Catalogue, ThreadRow};

/// Rows of what is no thread, at a time.
const MOST_OTHERS: usize = 1 << 14;
/// Threads that have ended and whose names are kept.
const MOST_ENDED: usize = 1 << 16;
/// The row of what syscollect says itself; others that are no thread follow. No thread of a machine
/// has such an id.
pub(super) const OWN_ROW: u32 = 0xf000_0000;

/// All of them.
#[derive(Debug)]
pub(super) struct LiveRows {
    /// Threads that have names.
    named: FxHashSet<ThreadId>,
    others: SharedRoom<RowOwner, u32>,
    /// The number of the next of these.
    next: u32,
    /// Rows that gave way to others, and were not told so.
    pub(super) gave_way: Vec<u32>,
    /// The track that is on its thread's own row.
    on_threads: FxHashMap<ThreadId, TrackId>,
    tracks: FxHashMap<TrackId, u32>,
    first: FirstThreads,
    /// The recorder's process.
    pub(super) recorder: Option<u32>,
    /// Who has an id, or had it last.
    of_ids: FxHashMap<u32, ThreadId>,
    /// Threads that have ended and whose names a viewer may still ask for, the earliest first.
    ended: VecDeque<EndedThread>,
}

/// A thread that has ended, and its id.
#[derive(Clone, Copy, Debug)]
struct EndedThread {
    thread: ThreadId,
    tid: u32,
}

impl LiveRows {
    pub(super) fn new(catalogue: &mut Catalogue) -> Self {
        let name: Box<str> = "syscollect".into();
        let (label, process) = (name.clone(), name.clone());
        let row = ThreadRow { label, name, process, pid: 0, is_quiet: false };
        catalogue.name_thread(OWN_ROW, row);
        Self {
            named: FxHashSet::default(),
            others: SharedRoom::new(MOST_OTHERS),
            next: OWN_ROW + 1,
            gave_way: Vec::new(),
            on_threads: FxHashMap::default(),
            tracks: FxHashMap::default(),
            first: FirstThreads::default(),
            recorder: None,
            of_ids: FxHashMap::default(),
            ended: VecDeque::new(),
        }
    }

    /// A thread's row; the idle thread has none: it is on all CPUs at once.
    #[inline]
    pub(super) fn thread(
        &mut self,
        thread: ThreadId,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> Option<u32> {
        if thread == Tables::IDLE_THREAD {
            return None;
        }
        if !self.named.contains(&thread) {
            // Nothing is known of one that was forgotten.
            if tables.thread(thread).tid == 0 {
                return None;
            }
            self.renamed(thread, catalogue, tables);
        }
        Some(tables.thread(thread).tid)
    }

    /// Forgets threads, processes and tracks that are gone: the viewer's names of them stay as long
    /// as there is room.
    pub(super) fn forget(&mut self, forgotten: &Forgotten) {
        let Forgotten { threads, tracks, .. } = forgotten;
        // What others are called by now is looked up when something of them comes.
        self.named.clear();
        self.on_threads.retain(|thread, _| !threads.contains(thread));
        self.tracks.retain(|track, _| !tracks.contains(track));
        self.first.forget(forgotten);
    }

    /// A thread has another name, or is another one.
    #[cold]
    pub(super) fn renamed(&mut self, thread: ThreadId, catalogue: &mut Catalogue, tables: &Tables) {
        self.named.insert(thread);
        let tid = tables.thread(thread).tid;
        let row = thread_row(RowOwner::Thread(thread), tables);
        let row = ThreadRow { is_quiet: self.is_quiet(thread, tables), ..row };
        self.of_ids.insert(tid, thread);
        catalogue.name_thread(tid, row);
    }

    /// Asks this for who runs a process.
    pub(super) fn ask(&mut self, user_of: UserOf) {
        self.others.ask(user_of);
    }

    /// Whether the thread is one of those of the recorder that help the first.
    pub(super) fn is_quiet(&self, thread: ThreadId, tables: &Tables) -> bool {
        let row = tables.thread(thread);
        let pid = tables.process(row.process).pid;
        self.recorder == Some(pid) && row.tid != pid
    }

    /// A thread has ended; the number of an earlier one whose names are forgotten now.
    pub(super) fn ended(&mut self, thread: ThreadId, tables: &Tables) -> Option<u32> {
        self.ended.push_back(EndedThread { thread, tid: tables.thread(thread).tid });
        if self.ended.len() <= MOST_ENDED {
            return None;
        }
        let EndedThread { thread: earliest, tid } = self.ended.pop_front()?;
        self.named.remove(&earliest);
        if let Some(track) = self.on_threads.remove(&earliest) {
            self.tracks.remove(&track);
        }
        // Its id may be another's by now.
        (self.of_ids.get(&tid) == Some(&earliest)).then(|| {
            self.of_ids.remove(&tid);
            tid
        })
    }

    /// The first thread of a process.
    pub(super) fn first_of(&mut self, process: ProcessId, tables: &Tables) -> Option<ThreadId> {
        self.first.of(process, tables)
    }

    /// The row of something that is no thread.
    pub(super) fn other(
        &mut self,
        owner: RowOwner,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> u32 {
        if let Some(row) = self.others.get(owner) {
            return row;
        }
        let row = self.next;
        // Behind the last number the first are of long ago.
        self.next = row.checked_add(1).unwrap_or(OWN_ROW + 1);
        catalogue.name_thread(row, thread_row(owner, tables));
        let process = rows::process(owner, tables).unwrap_or(Tables::IDLE_PROCESS);
        let gave_way = self.others.add(owner, row, Owner::new(process, tables));
        if !gave_way.is_empty() {
            self.tracks.retain(|_, row| !gave_way.contains(row));
            self.gave_way.extend(gave_way);
        }
        row
    }

    /// A process has ended: its rows go first.
    pub(super) fn process_ended(&mut self, process: ProcessId) {
        self.others.ended(process);
    }

    /// How many rows gave way since the last call.
    pub(super) fn take_gave_way(&mut self) -> u64 {
        self.others.take_gave_way()
    }

    /// The row of what lies on a track.
    pub(super) fn of_track(
        &mut self,
        track: TrackId,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> u32 {
        if let Some(row) = self.tracks.get(&track) {
            return *row;
        }
        let is_own = tables.track(track).kind == TrackKind::Slices(TrackRole::Zones);
        let thread = match tables.track(track).scope {
            Scope::Thread(thread) if is_own => {
                let first = *self.on_threads.entry(thread).or_insert(track);
                (first == track).then_some(thread)
            }
            _ => None,
        };
        let thread = thread.and_then(|thread| self.thread(thread, catalogue, tables));
        let row = thread.unwrap_or_else(|| self.other(RowOwner::Track(track), catalogue, tables));
        self.tracks.insert(track, row);
        row
    }
}

fn thread_row(owner: RowOwner, tables: &Tables) -> ThreadRow {
    let (process, name) = rows::names(owner, tables);
    let pid = rows::process(owner, tables).map_or(0, |process| tables.process(process).pid);
    let label = format!("{process} / {name}");
    let [label, name, process] = [label, name, process].map(|text| clean(&text).into());
    ThreadRow { label, name, process, pid, is_quiet: false }
}
