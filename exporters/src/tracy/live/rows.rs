//! Which of the viewer's threads stands for what.

use crate::tracy::FirstThreads;
use crate::tracy::rows::{self, RowOwner};
use crate::tracy::strings::clean;
use rustc_hash::FxHashMap;
use syscollect_model::{ProcessId, Scope, Tables, ThreadId, TrackId, TrackKind, TrackRole};
use syscollect_tracy_protocol::{Catalogue, ThreadRow};

/// The row of what syscollect says itself; others that are no thread follow. No thread of a machine
/// has such an id.
pub(super) const OWN_ROW: u32 = 0xf000_0000;

/// All of them.
#[derive(Debug)]
pub(super) struct LiveRows {
    /// Threads that have names, by [`ThreadId`].
    named: Vec<bool>,
    others: FxHashMap<RowOwner, u32>,
    /// The track that is on its thread's own row.
    on_threads: FxHashMap<ThreadId, TrackId>,
    tracks: FxHashMap<TrackId, u32>,
    first: FirstThreads,
}

impl LiveRows {
    pub(super) fn new(catalogue: &mut Catalogue) -> Self {
        let name: Box<str> = "syscollect".into();
        let row = ThreadRow { label: name.clone(), name: name.clone(), process: name, pid: 0 };
        catalogue.name_thread(OWN_ROW, row);
        Self {
            named: Vec::new(),
            others: FxHashMap::default(),
            on_threads: FxHashMap::default(),
            tracks: FxHashMap::default(),
            first: FirstThreads::default(),
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
        if self.named.get(thread.index()) != Some(&true) {
            self.renamed(thread, catalogue, tables);
        }
        Some(tables.thread(thread).tid)
    }

    /// A thread has another name, or is another one.
    #[cold]
    pub(super) fn renamed(&mut self, thread: ThreadId, catalogue: &mut Catalogue, tables: &Tables) {
        if thread.index() >= self.named.len() {
            self.named.resize(thread.index() + 1, false);
        }
        self.named[thread.index()] = true;
        let row = thread_row(RowOwner::Thread(thread), tables);
        catalogue.name_thread(tables.thread(thread).tid, row);
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
        let next = OWN_ROW + 1 + self.others.len() as u32;
        *self.others.entry(owner).or_insert_with(|| {
            catalogue.name_thread(next, thread_row(owner, tables));
            next
        })
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
    ThreadRow { label, name, process, pid }
}
