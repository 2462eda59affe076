//! Lifecycle events of processes and threads while they are played, among the other events.

use super::engine::{Engine, TraceEngine};
use super::lifetimes::{LifecycleKind, TaskEvent};
use syscollect_model::{Event, Scope, Slice, StringId, Strings, ThreadId};
use syscollect_playback::{EventType, LifecycleEvent};

/// What the first pass found, as far as it was not played.
#[derive(Debug)]
pub(super) struct Lifecycle<'a> {
    /// By raw time.
    events: &'a [(u64, TaskEvent)],
    /// What a process that is there is shown as.
    process: StringId,
}

impl<'a> Lifecycle<'a> {
    /// `events` are in order of time.
    pub(super) fn new(events: &'a [(u64, TaskEvent)], strings: &mut Strings) -> Self {
        Self { events, process: strings.intern("Process") }
    }

    /// Plays what happened up to a raw time.
    #[inline]
    pub(super) fn play_until(&mut self, engine: &mut Engine<'_>, until: u64) {
        while let Some(((at, event), rest)) = self.events.split_first()
            && *at <= until
        {
            self.events = rest;
            self.on(engine, *at, *event);
        }
    }

    /// The recording ends: plays the rest.
    pub(super) fn close(&mut self, engine: &mut Engine<'_>) {
        self.play_until(engine, u64::MAX);
    }

    #[cold]
    fn on(&self, engine: &mut Engine<'_>, at: u64, event: TaskEvent) {
        engine.advance(at);
        match event {
            TaskEvent::StandIn(thread, kind) => self.stand_in(engine, thread, kind),
            TaskEvent::Lifecycle(event) => {
                if let Some((event_type, event)) = event_type(event).zip(engine.apply(event)) {
                    engine.push_event(event_type, event);
                }
            }
        }
    }

    /// The trace tells of a process and of none of its threads. What stands for them is no
    /// occurrence of its own.
    fn stand_in(&self, engine: &mut Engine<'_>, thread: ThreadId, kind: LifecycleKind) {
        let event = match kind {
            LifecycleKind::Start => Event::ThreadStart(thread),
            LifecycleKind::End => Event::ThreadEnd(thread),
            LifecycleKind::Rundown | LifecycleKind::Defunct => {
                let track = engine.events_track(Scope::Thread(thread));
                Event::Instant(track, Slice::named(self.process))
            }
        };
        engine.push_uncounted(event);
    }
}

/// What it is counted as; `None` for what is not told.
fn event_type(event: LifecycleEvent) -> Option<EventType> {
    Some(match event {
        LifecycleEvent::Bind(..) => return None,
        LifecycleEvent::ProcessStart(_) => EventType::ProcessStart,
        LifecycleEvent::ProcessExec(..) => EventType::Exec,
        LifecycleEvent::ProcessEnd(_) => EventType::ProcessEnd,
        LifecycleEvent::ThreadStart(_) => EventType::ThreadStart,
        LifecycleEvent::ThreadName(..) => EventType::Rename,
        LifecycleEvent::ThreadEnd(_) => EventType::ThreadEnd,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::KeptEvents;
    use syscollect_model::Time;

    #[test]
    fn what_happens_up_to_a_record_comes_before_it_and_the_rest_at_the_end() {
        let mut reported = KeptEvents::default();
        let thread = ThreadId(3);
        let events = [
            (5, LifecycleEvent::Bind(7, thread).into()),
            (5, LifecycleEvent::ThreadStart(thread).into()),
            (9, TaskEvent::StandIn(thread, LifecycleKind::Rundown)),
            (20, LifecycleEvent::ThreadEnd(thread).into()),
        ];
        let mut lifecycle = Lifecycle::new(&events, &mut reported.tables.strings);
        reported.by(|engine| {
            lifecycle.play_until(engine, 9);
            assert_eq!((engine.now(), engine.thread(7)), (Time(9), thread));
            engine.advance(10);
            lifecycle.close(engine);
        });
        let [(Time(5), start), (Time(9), Event::Instant(track, slice)), (Time(20), end)] =
            &reported.events[..]
        else {
            panic!("{:?}", reported.events);
        };
        assert_eq!((start, end), (&Event::ThreadStart(thread), &Event::ThreadEnd(thread)));
        assert_eq!(reported.tables.track(*track).scope, Scope::Thread(thread));
        assert_eq!(reported.tables.strings.get(slice.name), "Process");
    }
}
