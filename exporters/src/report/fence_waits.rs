//! The longest waits of threads for fences.

use super::data::{FenceWaitRow, Table};
use super::longest::Longest;
use super::row_maker::RowMaker;
use crate::labels;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Fence, FieldRole, GpuJob, Nesting, Slice, SliceRole, SliceUpdate, StringId, Tables, ThreadId,
    TrackId, Value,
};

/// Waits of one thread that are open at once and told apart.
const MAX_DEPTH: usize = 64;

/// A thread waited for a fence. Times are nanoseconds.
#[derive(Clone, Debug)]
struct FenceWait {
    waited: u64,
    since: u64,
    thread: ThreadId,
    fence: Option<Fence>,
    /// What the driver calls it.
    timeline: Box<str>,
    /// Who signaled it, in words; empty where that is not known.
    signaled_by: Box<str>,
    /// The queue of the job whose end it is, and who handed that over.
    job: Option<(StringId, Option<ThreadId>)>,
    /// It had not ended when the recording did.
    unfinished: bool,
}

/// All waits.
#[derive(Debug)]
pub(super) struct FenceWaits {
    open: FxHashMap<TrackId, Nesting<FenceWait, MAX_DEPTH>>,
    /// Of fences that are waited for: the tracks.
    awaited: FxHashMap<Fence, Vec<TrackId>>,
    longest: Longest<FenceWait>,
}

impl FenceWaits {
    pub(super) fn new(kept: usize) -> Self {
        Self {
            open: FxHashMap::default(),
            awaited: FxHashMap::default(),
            longest: Longest::new(kept),
        }
    }

    /// A slice begins on a track of a thread.
    pub(super) fn begin(&mut self, now: u64, track: TrackId, thread: ThreadId, slice: &Slice) {
        if slice.role != SliceRole::FenceWait {
            return;
        }
        let open = self.open.entry(track).or_default();
        if !open.begin() {
            return;
        }
        let mut wait = FenceWait {
            waited: 0,
            since: now,
            thread,
            fence: None,
            timeline: Box::default(),
            signaled_by: Box::default(),
            job: None,
            unfinished: false,
        };
        let (mut context, mut sequence) = (None, None);
        for field in &slice.fields {
            match (field.role, &field.value) {
                (FieldRole::FenceContext, Value::Unsigned(number)) => context = Some(*number),
                (FieldRole::FenceSequence, Value::Unsigned(number)) => sequence = Some(*number),
                (FieldRole::FenceTimeline, Value::Text(text)) => wait.timeline.clone_from(text),
                _ => {}
            }
        }
        wait.fence = context.zip(sequence).map(|(context, sequence)| Fence { context, sequence });
        if let Some(fence) = wait.fence {
            self.awaited.entry(fence).or_default().push(track);
        }
        open.push(wait);
    }

    pub(super) fn update(&mut self, track: TrackId, update: &SliceUpdate) {
        let Some(wait) = self.open.get_mut(&track).and_then(Nesting::innermost) else { return };
        wait.unfinished |= update.unfinished;
        for field in &update.fields {
            if let (FieldRole::FenceSignaler, Value::Text(text)) = (field.role, &field.value) {
                wait.signaled_by.clone_from(text);
            }
        }
    }

    /// Whoever waits for the fence of a job that ends learns which job that was.
    pub(super) fn job(&mut self, track: TrackId, job: &GpuJob, tables: &Tables) {
        let Some(fence) = job.fence else { return };
        for waiting in self.awaited.get(&fence).into_iter().flatten() {
            let waits = self.open.get_mut(waiting).into_iter().flat_map(Nesting::iter_mut);
            for wait in waits.filter(|wait| wait.fence == Some(fence)) {
                wait.job.get_or_insert((tables.track(track).name, job.thread));
            }
        }
    }

    /// The innermost slice of a track ends.
    pub(super) fn end(&mut self, now: u64, track: TrackId) {
        // Most recordings have none.
        if self.open.is_empty() {
            return;
        }
        let Some(mut wait) = self.open.get_mut(&track).and_then(Nesting::end) else { return };
        if let Some(fence) = wait.fence
            && let Some(tracks) = self.awaited.get_mut(&fence)
        {
            if let Some(index) = tracks.iter().position(|waiting| *waiting == track) {
                tracks.swap_remove(index);
            }
            if tracks.is_empty() {
                self.awaited.remove(&fence);
            }
        }
        wait.waited = now.saturating_sub(wait.since);
        self.longest.add(wait.waited, wait.since, || wait);
    }

    /// The longest.
    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<FenceWaitRow> {
        let rows = self.longest.sorted().into_iter().map(|(.., wait)| wait.row(maker));
        Table { total: self.longest.count, rows: rows.collect() }
    }
}

impl FenceWait {
    fn row(&self, maker: RowMaker<'_>) -> FenceWaitRow {
        let thread = maker.tables.thread(self.thread);
        let process = maker.process(thread.process);
        FenceWaitRow {
            at_ns: self.since.saturating_sub(maker.first),
            waited_ns: self.waited,
            unfinished: self.unfinished,
            tid: thread.tid,
            thread: maker.string(thread.name),
            pid: process.pid,
            process: process.name,
            timeline: self.timeline.to_string(),
            fence: self.fence.map(labels::fence).unwrap_or_default(),
            signaled_by: (!self.signaled_by.is_empty()).then(|| self.signaled_by.to_string()),
            queue: self.job.map(|(queue, _)| maker.string(queue)),
            submitted_by: self.job.and_then(|(_, thread)| thread).map(|id| maker.thread_label(id)),
        }
    }
}
