//! Lifecycle events of processes and threads while they are played, among the other events.

use super::engine::Engine;
use super::lifetimes::{Life, LifecycleEvent};
use syscollect_model::{Event, Scope, Slice, StringId, Strings, ThreadId};
use syscollect_playback::EventType;

/// What the first pass found, as far as it was not played.
#[derive(Debug)]
pub(super) struct Lifecycle<'a> {
    /// By raw time.
    events: &'a [(u64, LifecycleEvent)],
    /// What a process that is there is shown as.
    process: StringId,
}

impl<'a> Lifecycle<'a> {
    /// `events` are in order of time.
    pub(super) fn new(events: &'a [(u64, LifecycleEvent)], strings: &mut Strings) -> Self {
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
    fn on(&self, engine: &mut Engine<'_>, at: u64, event: LifecycleEvent) {
        engine.advance(at);
        let (event_type, event) = match event {
            LifecycleEvent::Bind(tid, thread) => return engine.threads.bind(tid, thread),
            LifecycleEvent::StandIn(thread, life) => return self.stand_in(engine, thread, life),
            LifecycleEvent::ProcessStart(id) => (EventType::ProcessStart, Event::ProcessStart(id)),
            LifecycleEvent::ProcessEnd(id) => (EventType::ProcessEnd, Event::ProcessEnd(id)),
            LifecycleEvent::ThreadStart(id) => (EventType::ThreadStart, Event::ThreadStart(id)),
            LifecycleEvent::ThreadName(id, name) => {
                (EventType::Rename, Event::ThreadName(id, name))
            }
            LifecycleEvent::ThreadEnd(id) => (EventType::ThreadEnd, Event::ThreadEnd(id)),
        };
        engine.push_event(event_type, event);
    }

    /// The trace tells of a process and of none of its threads. What stands for them is no
    /// occurrence of its own.
    fn stand_in(&self, engine: &mut Engine<'_>, thread: ThreadId, life: Life) {
        let event = match life {
            Life::Start => Event::ThreadStart(thread),
            Life::End => Event::ThreadEnd(thread),
            Life::Rundown | Life::Defunct => {
                let track = engine.events_track(Scope::Thread(thread));
                Event::Instant(track, Slice::named(self.process))
            }
        };
        engine.push_uncounted(event);
    }
}
