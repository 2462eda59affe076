//! What programs report of themselves, and counters, which machines have, too.

use super::callers::Callers;
use super::crashes::{BeforeCrash, Crashes};
use super::gpu::{GpuAccounts, process_of};
use super::instants::InstantCounts;
use super::locks::LockAccounts;
use super::plots::Plots;
use super::recent::{RecentEvent, RecentEvents, ThreadEvent};
use super::slices::Slices;
use super::thread_accounts::ThreadAccounts;
use crate::heap::Heap;
use crate::labels;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Crash, Event, Scope, Slice, SnapshotMark, StackId, StringId, Tables, ThreadId, Track, TrackId,
};

/// What threads have not finished at the end, as their programs report.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnfinishedWork<'a> {
    /// The innermost slices that are open.
    pub(super) slices: &'a FxHashMap<ThreadId, StringId>,
    /// Who holds a lock that others wait for, and how many do.
    pub(super) holding_up: &'a FxHashMap<ThreadId, usize>,
}

/// The books of all that programs report.
#[derive(Debug)]
pub(super) struct ProgramAccounts {
    pub(super) slices: Slices,
    pub(super) instants: InstantCounts,
    pub(super) callers: Callers,
    pub(super) locks: LockAccounts,
    pub(super) heap: Heap,
    pub(super) gpu: GpuAccounts,
    pub(super) plots: Plots,
    pub(super) crashes: Crashes,
    recent: RecentEvents,
}

impl ProgramAccounts {
    /// The session ends.
    pub(super) fn finish(&mut self, now: u64, tables: &Tables) {
        self.slices.finish(now, tables);
        self.locks.finish(now, tables);
    }

    /// What threads had not finished then.
    pub(super) fn unfinished_work(&self) -> UnfinishedWork<'_> {
        let (slices, holding_up) = (&self.slices.open_at_end, &self.locks.holding_up);
        UnfinishedWork { slices, holding_up }
    }

    pub(super) fn new(locks: LockAccounts, gpu: GpuAccounts) -> Self {
        Self {
            slices: Slices::default(),
            instants: InstantCounts::default(),
            callers: Callers::default(),
            locks,
            heap: Heap::default(),
            gpu,
            plots: Plots::default(),
            crashes: Crashes::default(),
            recent: RecentEvents::default(),
        }
    }

    /// An event of the session, of whomever it is.
    #[inline]
    pub(super) fn event(
        &mut self,
        now: u64,
        event: &Event,
        accounts: &mut ThreadAccounts,
        tables: &Tables,
    ) {
        match event {
            Event::SliceBegin(track, slice) if accounts.is_chosen_track(*track, tables) => {
                self.slice_begins(now, *track, slice, accounts, tables);
            }
            Event::SliceUpdate(track, update) => {
                self.gpu.waits.update(*track, update);
                self.slices.update(*track, update);
            }
            Event::SliceEnd(track) => {
                self.gpu.waits.end(now, *track);
                let times = accounts.times_on_track(now, *track, tables);
                self.slices.end(now, *track, times, tables);
            }
            Event::Instant(track, slice) if accounts.is_chosen_track(*track, tables) => {
                report_owner(*track, accounts, tables);
                if !is_told_again(event, tables) {
                    self.instant(slice.name, slice.stack);
                    self.on_track(now, *track, ThreadEvent::Instant(slice.name), tables);
                }
            }
            Event::Message(track, message) if accounts.is_chosen_track(*track, tables) => {
                report_owner(*track, accounts, tables);
                self.instant(labels::message_name(message), message.stack);
                self.on_track(now, *track, ThreadEvent::message(message, tables), tables);
            }
            Event::Counter(track, value) if accounts.is_chosen_track(*track, tables) => {
                self.plots.add(*track, *value);
            }
            Event::Lock(event) if accounts.is_chosen(event.thread, tables) => {
                self.locks.event(now, event, tables);
            }
            Event::ThreadEnd(thread) => self.locks.thread_ended(now, *thread, tables),
            Event::Memory(event) if accounts.is_chosen(event.thread, tables) => {
                self.heap.event(event, tables);
            }
            Event::GpuJob(track, job) => {
                // Whose job it was that somebody waited for is told of all.
                self.gpu.waits.job(*track, job, tables);
                if accounts.is_chosen_owner(process_of(*track, job, tables), tables) {
                    self.gpu.job(now, *track, job, tables);
                }
            }
            Event::Crash(crash) if accounts.is_chosen(crash.thread, tables) => {
                self.crash(now, crash, tables);
            }
            Event::SignalExit(exit) if accounts.is_chosen_process(exit.process, tables) => {
                self.crashes.exit(now, exit, tables);
            }
            _ => {}
        }
    }

    fn slice_begins(
        &mut self,
        now: u64,
        track: TrackId,
        slice: &Slice,
        accounts: &mut ThreadAccounts,
        tables: &Tables,
    ) {
        let times = accounts.times_on_track(now, track, tables);
        if let Some(of_thread) = times {
            self.gpu.waits.begin(now, track, of_thread.thread, slice);
            let what = ThreadEvent::Slice(slice.name);
            self.recent.add(of_thread.thread, RecentEvent { at: now, what });
        }
        self.slices.begin(now, track, slice, times, tables);
        self.callers.add(slice.name, slice.stack);
    }

    /// Something happens on a track, which is remembered where it is a thread's.
    fn on_track(&mut self, at: u64, track: TrackId, what: ThreadEvent, tables: &Tables) {
        if let Scope::Thread(thread) = tables.track(track).scope {
            self.recent.add(thread, RecentEvent { at, what });
        }
    }

    fn crash(&mut self, now: u64, crash: &Crash, tables: &Tables) {
        let before = BeforeCrash {
            open: self.slices.open_on(crash.thread),
            events: self.recent.of(crash.thread),
        };
        self.crashes.tell(now, crash, before, tables);
    }

    /// An instant, or a message, which counts as one.
    fn instant(&mut self, name: StringId, stack: Option<StackId>) {
        self.instants.add(name);
        self.callers.add(name, stack);
    }
}

/// The mark of a snapshot lies on the machine's track and, where a thread was the cause, once more
/// on that one's.
pub(super) fn is_told_again(event: &Event, tables: &Tables) -> bool {
    let Event::Instant(track, _) = event else { return false };
    let Track { scope, name, .. } = tables.track(*track);
    matches!(scope, Scope::Thread(_)) && tables.strings.get(*name) == SnapshotMark::TRACK
}

/// A thread that reports something was there, whatever else is known of it.
fn report_owner(track: TrackId, accounts: &mut ThreadAccounts, tables: &Tables) {
    if let Scope::Thread(thread) = tables.track(track).scope {
        accounts.get(thread, tables).reported = true;
    }
}
