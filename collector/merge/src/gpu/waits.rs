//! Threads that wait for fences, and who signals what they wait for.

use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Fence, Field, FieldRole, Scope, Slice, SliceRole, SliceUpdate, ThreadId, Track, TrackId,
    TrackKind, TrackRole, Value,
};

use super::decoder::{Gpu, QUEUES};
use super::record::DescribedRecord;
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

/// A fence that threads wait for.
#[derive(Debug, Default)]
struct Awaited {
    waits: u32,
    signaler: Option<Signaler>,
}

/// The waits that are open.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// By thread: its track, and the fences, the innermost wait last.
    threads: FxHashMap<ThreadId, (TrackId, Vec<Fence>)>,
    awaited: FxHashMap<Fence, Awaited>,
}

impl Waits {
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
    pub(super) fn is_for(&self, thread: ThreadId, fence: Fence) -> bool {
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

impl Gpu {
    pub(super) fn wait_begins(
        &mut self,
        engine: &mut Engine<'_>,
        fence: Fence,
        waited_for: &str,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let Some(thread) = self.current(engine, reading) else { return Ok(()) };
        let [track, name, category, context, sequence, timeline] =
            ["GPU waits", "waits for a fence", "fence wait", "context", "sequence", "timeline"]
                .map(|text| engine.tables.strings.intern(text));
        let track = engine.track(
            Track {
                scope: Scope::Thread(thread),
                name: track,
                kind: TrackKind::Slices(TrackRole::Named),
            },
            QUEUES,
        );
        if !self.waits.begin(thread, track, fence) {
            engine.sink.tally.unmatched_ends += 1;
            return Ok(());
        }
        let fields = vec![
            Field::new(FieldRole::FenceTimeline, timeline, Value::Text(waited_for.into())),
            Field::new(FieldRole::FenceContext, context, Value::Unsigned(fence.context)),
            Field::new(FieldRole::FenceSequence, sequence, Value::Unsigned(fence.sequence)),
        ];
        let (role, category) = (SliceRole::FenceWait, Some(category));
        let slice = Slice { role, category, fields, ..Slice::named(name) };
        engine.emit(&Event::SliceBegin(track, slice))
    }

    pub(super) fn wait_ends(
        &mut self,
        engine: &mut Engine<'_>,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let Some(thread) = self.current(engine, reading) else { return Ok(()) };
        let Some((track, signaler)) = self.waits.end(thread) else {
            engine.sink.tally.unmatched_ends += 1;
            return Ok(());
        };
        if let Some(signaler) = signaler {
            let field = self.signaler(engine, signaler);
            engine.emit(&Event::SliceUpdate(
                track,
                SliceUpdate { fields: vec![field], ..SliceUpdate::default() },
            ))?;
        }
        engine.emit(&Event::SliceEnd(track))
    }

    /// A fence is signaled: whoever waits for it learns by whom.
    pub(super) fn fence_signaled(
        &mut self,
        engine: &mut Engine<'_>,
        fence: Fence,
        reading: &DescribedRecord<'_>,
    ) {
        let signaler = self.current(engine, reading).map_or(Signaler::Interrupt, Signaler::Thread);
        self.waits.signaled(fence, signaler);
    }

    fn signaler(&mut self, engine: &mut Engine<'_>, signaler: Signaler) -> Field {
        let text = match signaler {
            Signaler::Thread(id) => {
                let row = engine.tables.thread(id);
                format!("{} ({})", engine.tables.strings.get(row.name), row.tid)
            }
            Signaler::Interrupt => "an interrupt".to_owned(),
        };
        let name = engine.tables.strings.intern("signaled by");
        Field::new(FieldRole::FenceSignaler, name, Value::Text(text.into()))
    }

    /// The recording is over, and what waits still waits.
    pub(super) fn close_waits(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        for track in self.waits.finish() {
            engine.unfinished(track, 1)?;
        }
        Ok(())
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
        let mut waits = Waits::default();
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
        let mut waits = Waits::default();
        waits.begin(ThreadId(1), TRACK, FENCE);
        waits.signaled(FENCE, Signaler::Interrupt);
        waits.end(ThreadId(1));
        waits.begin(ThreadId(1), TRACK, FENCE);
        assert_eq!(waits.end(ThreadId(1)), Some((TRACK, None)));
    }

    #[test]
    fn a_thread_that_only_begins_to_wait_takes_bounded_memory() {
        let mut waits = Waits::default();
        let begun = (0..1000).filter(|_| waits.begin(ThreadId(1), TRACK, FENCE)).count();
        assert_eq!((begun, waits.finish().len()), (MOST_OPEN, MOST_OPEN));
    }
}
