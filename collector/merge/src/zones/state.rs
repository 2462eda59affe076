//! What is remembered of instrumented programs while they are played.

use crate::open::OpenZones;
use crate::zones::InstrumentedPrograms;
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};
use syscollect_model::{ProcessId, StackId, StringId, Strings, ThreadId, TrackId};
use syscollect_playback::Validity;

/// Names that events get here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZoneStrings {
    pub(crate) zones: StringId,
    pub(crate) message: StringId,
    pub(crate) frames: StringId,
    pub(crate) frame: StringId,
    pub(crate) text: StringId,
    pub(crate) value: StringId,
    pub(crate) began_before: StringId,
    pub(crate) unreadable: StringId,
    /// What stands for the text of a message that has none.
    pub(crate) empty: StringId,
}

impl ZoneStrings {
    pub(crate) fn new(strings: &mut Strings) -> Self {
        Self {
            zones: strings.intern("Zones"),
            message: strings.intern("message"),
            frames: strings.intern("Frames"),
            frame: strings.intern("Frame"),
            text: strings.intern("text"),
            value: strings.intern("value"),
            began_before: strings.intern("began_before"),
            unreadable: strings.intern("(unreadable)"),
            empty: strings.intern("(empty)"),
        }
    }
}

/// The client of programs that have no shared memory.
pub(crate) const NO_CLIENT: u32 = u32::MAX;

/// A zone that is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    /// The program's ticks at its beginning, and its location's number: these
    /// two tell whether a zone that is restated is this one.
    pub(crate) began: u64,
    pub(crate) location: u32,
    /// What was said of it, if more may be added.
    pub(crate) text: Option<String>,
}

/// A thread of a program.
#[derive(Debug)]
pub(crate) struct ThreadMarks {
    pub(crate) track: TrackId,
    pub(crate) zones: OpenZones<Zone>,
    /// Markers of which only the first half was seen, by track.
    pub(crate) halves: Vec<(TrackId, u32)>,
    /// How many zones are open, known or not, of programs that do not say it at
    /// each beginning; certain once an end was seen.
    pub(crate) depth: u32,
    pub(crate) depth_known: bool,
}

/// A set of frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSet {
    pub(crate) track: TrackId,
    pub(crate) count: u64,
    pub(crate) open: bool,
}

/// The rows of a track whose slices overlap.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    free: BTreeSet<u32>,
    used: u32,
}

impl Rows {
    /// The lowest row that is free.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        })
    }

    /// The row is free again.
    pub(crate) fn give_back(&mut self, row: u32) {
        self.free.insert(row);
    }
}

/// Names of tasks, of which only so many are remembered: a program may have a
/// task for each of its requests.
#[derive(Debug, Default)]
pub(crate) struct TaskNames {
    names: FxHashMap<u64, StringId>,
    order: VecDeque<u64>,
}

impl TaskNames {
    const MOST: usize = 1 << 16;

    pub(crate) fn get(&self, task: u64) -> Option<StringId> {
        self.names.get(&task).copied()
    }

    pub(crate) fn insert(&mut self, task: u64, name: StringId) {
        if self.names.insert(task, name).is_none() {
            self.order.push_back(task);
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }
}

/// An async zone that is open: the track of its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsyncZone {
    pub(crate) track: TrackId,
    pub(crate) name: StringId,
    pub(crate) row: u32,
    /// It was open when the recorder came, and its beginning was not seen.
    pub(crate) restated: bool,
}

/// A program: what belongs to no thread.
#[derive(Debug, Default)]
pub(crate) struct ProgramMarks {
    /// By name, and whether frames of the set follow each other without gaps.
    pub(crate) frames: FxHashMap<(Option<StringId>, bool), FrameSet>,
    pub(crate) async_zones: FxHashMap<u64, AsyncZone>,
    pub(crate) rows: FxHashMap<StringId, Rows>,
    pub(crate) tasks: TaskNames,
    pub(crate) plots: FxHashMap<u32, TrackId>,
}

/// Decodes lanes of zones: what instrumented programs tell.
#[derive(Debug)]
pub(crate) struct Zones {
    pub(crate) known: InstrumentedPrograms,
    pub(crate) words: ZoneStrings,
    pub(crate) threads: Vec<ThreadMarks>,
    /// Places in `threads` by thread and client.
    slots: FxHashMap<(ThreadId, u32), usize>,
    by_thread: FxHashMap<ThreadId, Vec<usize>>,
    by_process: FxHashMap<ProcessId, BTreeSet<ThreadId>>,
    pub(crate) programs: FxHashMap<(ProcessId, u32), ProgramMarks>,
    /// Stacks that were made of those that are known, by number.
    pub(crate) stacks: FxHashMap<u32, (Option<StackId>, Validity)>,
}

impl Zones {
    pub(crate) fn new(known: InstrumentedPrograms, strings: &mut Strings) -> Self {
        Self {
            known,
            words: ZoneStrings::new(strings),
            threads: Vec::new(),
            slots: FxHashMap::default(),
            by_thread: FxHashMap::default(),
            by_process: FxHashMap::default(),
            programs: FxHashMap::default(),
            stacks: FxHashMap::default(),
        }
    }

    pub(crate) fn known_slot(&self, thread: ThreadId, client: u32) -> Option<usize> {
        self.slots.get(&(thread, client)).copied()
    }

    pub(crate) fn add_thread(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        client: u32,
        track: TrackId,
    ) -> usize {
        let slot = self.threads.len();
        let zones = OpenZones::default();
        self.threads.push(ThreadMarks {
            track,
            zones,
            halves: Vec::new(),
            depth: 0,
            depth_known: false,
        });
        self.slots.insert((thread, client), slot);
        self.by_thread.entry(thread).or_default().push(slot);
        self.by_process.entry(process).or_default().insert(thread);
        slot
    }

    /// The threads of the process of which something was told; of all processes without one.
    pub(crate) fn threads_of(&self, process: Option<ProcessId>) -> BTreeSet<ThreadId> {
        match process {
            Some(process) => self.by_process.get(&process).cloned().unwrap_or_default(),
            None => self.by_process.values().flatten().copied().collect(),
        }
    }

    /// The thread's places in `threads`.
    pub(crate) fn slots_of(&self, thread: ThreadId) -> &[usize] {
        self.by_thread.get(&thread).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn program(&mut self, process: ProcessId, client: u32) -> &mut ProgramMarks {
        self.programs.entry((process, client)).or_default()
    }
}
