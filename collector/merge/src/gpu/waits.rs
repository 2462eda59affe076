//! Threads that wait for fences, and who signals what they wait for.

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{
    Event, Fence, Field, FieldRole, Forgotten, Scope, Slice, SliceRole, SliceUpdate, ThreadId,
    Track, TrackId, TrackKind, TrackRole, Value,
};

use super::record::{DescribedRecord, TRACEPOINTS};
use crate::engine::Engine;
use syscollect_playback::Stopped;

/// Waits of one thread that may be open at once. Drivers wait for one fence
/// after the other, so that more are only made by damage.
const MOST_OPEN: usize = 16;

/// Who signaled a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signaler {
    Thread(ThreadId),
    Interrupt,
}

impl Signaler {
    fn field(self, engine: &mut Engine<'_>) -> Field {
        let text = match self {
            Self::Thread(id) => {
                let row = engine.tables.thread(id);
                format!("{} ({})", engine.tables.strings.get(row.name), row.tid)
            }
            Self::Interrupt => "an interrupt".to_owned(),
        };
        let name = engine.tables.strings.intern("signaled by");
        Field::new(FieldRole::FenceSignaler, name, Value::Text(text.into()))
    }
}

/// A fence that threads wait for.
#[derive(Debug, Default)]
struct Awaited {
    waits: u32,
    signaler: Option<Signaler>,
}

/// The waits that are open.
#[derive(Debug, Default)]
struct OpenWaits {
    /// By thread: its track, and the fences, the innermost wait last.
    threads: FxHashMap<ThreadId, (TrackId, Vec<Fence>)>,
    awaited: FxHashMap<Fence, Awaited>,
}

impl OpenWaits {
    /// Whether there was room.
    fn begin(&mut self, thread: ThreadId, track: TrackId, fence: Fence) -> bool {
        let (_, open) = self.threads.entry(thread).or_insert((track, Vec::new()));
        if open.len() >= MOST_OPEN {
            return false;
        }
        open.push(fence);
        self.awaited.entry(fence).or_default().waits += 1;
        true
    }

    /// The innermost wait of a thread ends.
    fn end(&mut self, thread: ThreadId) -> Option<(TrackId, Option<Signaler>)> {
        let (track, open) = self.threads.get_mut(&thread)?;
        let fence = open.pop()?;
        let awaited = self.awaited.get_mut(&fence)?;
        let signaler = awaited.signaler;
        awaited.waits -= 1;
        if awaited.waits == 0 {
            self.awaited.remove(&fence);
        }
        Some((*track, signaler))
    }

    /// Whether the innermost wait of a thread is for this fence.
    fn is_for(&self, thread: ThreadId, fence: Fence) -> bool {
        self.threads.get(&thread).is_some_and(|(_, open)| open.last() == Some(&fence))
    }

    fn signaled(&mut self, fence: Fence, signaler: Signaler) {
        if let Some(awaited) = self.awaited.get_mut(&fence) {
            awaited.signaler.get_or_insert(signaler);
        }
    }

    /// The tracks of waits that never ended, in their order.
    fn finish(&mut self) -> Vec<TrackId> {
        self.awaited.clear();
        let rest = self
            .threads
            .drain()
            .flat_map(|(_, (track, open))| open.into_iter().map(move |_| track));
        let mut rest: Vec<_> = rest.collect();
        rest.sort_unstable();
        rest
    }
}

/// Threads that wait for fences, as tracepoints tell of them.
#[derive(Debug, Default)]
pub(super) struct FenceWaits {
    open: OpenWaits,
    /// Threads in a wait for a request within the kernel's own wait for its fence.
    within: FxHashSet<ThreadId>,
}

impl FenceWaits {
    /// Forgets threads that are gone; fences for which they waited go with the next wait.
    pub(super) fn forget(&mut self, forgotten: &Forgotten) {
        for thread in &forgotten.threads {
            while self.open.end(*thread).is_some() {}
            self.open.threads.remove(thread);
            self.within.remove(thread);
        }
    }

    /// `queue` is where the fence's work is done.
    pub(super) fn begin(
        &mut self,
        engine: &mut Engine<'_>,
        record: &DescribedRecord<'_>,
        fence: Fence,
        queue: &str,
    ) -> Result<(), Stopped> {
        let Some(thread) = record.thread(engine) else { return Ok(()) };
        let [track, name, category, context, sequence, timeline] =
            ["GPU waits", "waits for a fence", "fence wait", "context", "sequence", "timeline"]
                .map(|text| engine.tables.strings.intern(text));
        let track = engine.track(
            Track {
                scope: Scope::Thread(thread),
                name: track,
                kind: TrackKind::Slices(TrackRole::Named),
            },
            TRACEPOINTS,
        );
        if !self.open.begin(thread, track, fence) {
            engine.sink.tally.unmatched_ends += 1;
            return Ok(());
        }
        let fields = vec![
            Field::new(FieldRole::FenceTimeline, timeline, Value::Text(queue.into())),
            Field::new(FieldRole::FenceContext, context, Value::Unsigned(fence.context)),
            Field::new(FieldRole::FenceSequence, sequence, Value::Unsigned(fence.sequence)),
        ];
        let (role, category) = (SliceRole::FenceWait, Some(category));
        let slice = Slice { role, category, fields, ..Slice::named(name) };
        engine.emit(&Event::SliceBegin(track, slice))
    }

    pub(super) fn end(
        &mut self,
        engine: &mut Engine<'_>,
        record: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let Some(thread) = record.thread(engine) else { return Ok(()) };
        let Some((track, signaler)) = self.open.end(thread) else {
            engine.sink.tally.unmatched_ends += 1;
            return Ok(());
        };
        if let Some(signaler) = signaler {
            let fields = vec![signaler.field(engine)];
            let update = SliceUpdate { fields, ..SliceUpdate::default() };
            engine.emit(&Event::SliceUpdate(track, update))?;
        }
        engine.emit(&Event::SliceEnd(track))
    }

    /// A driver tells of a wait within the kernel's own of the same fence, or alone.
    pub(super) fn request_begins(
        &mut self,
        engine: &mut Engine<'_>,
        record: &DescribedRecord<'_>,
        fence: Fence,
        queue: &str,
    ) -> Result<(), Stopped> {
        let Some(thread) = record.thread(engine) else { return Ok(()) };
        if self.open.is_for(thread, fence) {
            self.within.insert(thread);
            return Ok(());
        }
        self.begin(engine, record, fence, queue)
    }

    pub(super) fn request_ends(
        &mut self,
        engine: &mut Engine<'_>,
        record: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let is_within = record.thread(engine).is_some_and(|thread| self.within.remove(&thread));
        if is_within { Ok(()) } else { self.end(engine, record) }
    }

    /// A fence is signaled: whoever waits for it learns by whom.
    pub(super) fn signaled(
        &mut self,
        engine: &mut Engine<'_>,
        record: &DescribedRecord<'_>,
        fence: Fence,
    ) {
        let signaler = record.thread(engine).map_or(Signaler::Interrupt, Signaler::Thread);
        self.open.signaled(fence, signaler);
    }

    /// The recording is over, and what waits still waits.
    pub(super) fn close(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        self.open.finish().into_iter().try_for_each(|track| engine.unfinished(track, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FENCE: Fence = Fence { context: 5, sequence: 1 };
    const OTHER: Fence = Fence { context: 5, sequence: 2 };
    const TRACK: TrackId = TrackId(3);

    #[test]
    fn all_who_wait_for_a_fence_learn_who_signaled_it_first() {
        let mut waits = OpenWaits::default();
        let [a, b, signaler] = [1, 2, 9].map(ThreadId);
        assert!(waits.begin(a, TRACK, FENCE) && waits.begin(b, TRACK, FENCE));
        waits.signaled(OTHER, Signaler::Interrupt);
        waits.signaled(FENCE, Signaler::Thread(signaler));
        waits.signaled(FENCE, Signaler::Interrupt);
        let reported = Some((TRACK, Some(Signaler::Thread(signaler))));
        assert_eq!([a, b, a].map(|thread| waits.end(thread)), [reported, reported, None]);
        assert!(waits.awaited.is_empty());
    }

    #[test]
    fn a_fence_that_is_waited_for_again_was_not_signaled_yet() {
        let mut waits = OpenWaits::default();
        waits.begin(ThreadId(1), TRACK, FENCE);
        waits.signaled(FENCE, Signaler::Interrupt);
        waits.end(ThreadId(1));
        waits.begin(ThreadId(1), TRACK, FENCE);
        assert_eq!(waits.end(ThreadId(1)), Some((TRACK, None)));
    }

    #[test]
    fn a_thread_that_only_begins_to_wait_takes_bounded_memory() {
        let mut waits = OpenWaits::default();
        let begun = (0..1000).filter(|_| waits.begin(ThreadId(1), TRACK, FENCE)).count();
        assert_eq!((begun, waits.finish().len()), (MOST_OPEN, MOST_OPEN));
    }
}
