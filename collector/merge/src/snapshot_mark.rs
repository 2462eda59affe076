//! Why a snapshot of a recording was taken, as instants where that happened: of the machine, and of
//! the thread that it is about.

use crate::engine::Engine;
use syscollect_model::{
    Event, Field, Scope, SessionInfo, Slice, SnapshotMark, StringId, Track, TrackKind, TrackRole,
    Value,
};
use syscollect_playback::Stopped;

/// The mark of a snapshot until it was emitted.
#[derive(Debug)]
pub(crate) struct PendingMark {
    mark: Option<SnapshotMark>,
    /// Ticks; the last there are where there is none.
    at: u64,
}

impl PendingMark {
    /// That of this recording, if it is a snapshot.
    pub(crate) fn of(recording: &SessionInfo) -> Self {
        let mark = recording.snapshot.clone();
        Self { at: mark.as_ref().map_or(u64::MAX, |mark| mark.at.0), mark }
    }

    /// Whether it belongs before what happens at these ticks.
    #[inline]
    pub(crate) fn is_due(&self, ticks: u64) -> bool {
        ticks >= self.at
    }

    /// Emits it, unless that was done. To be called at the end, too: of a snapshot that somebody
    /// asked for all that was recorded lies before it.
    #[cold]
    pub(crate) fn emit(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        self.at = u64::MAX;
        let Some(mark) = self.mark.take() else { return Ok(()) };
        engine.present.advance(mark.at.0);
        let machine = Scope::Machine(engine.machine);
        let thread = (mark.tid != 0).then(|| Scope::Thread(engine.thread(mark.tid)));
        let strings = &mut engine.tables.strings;
        let name = strings.intern("Snapshot");
        let mut slice = Slice::named(strings.intern("snapshot taken"));
        for (label, string) in [("reason", &mark.reason), ("trigger", &mark.trigger)] {
            if !string.is_empty() {
                let (label, string) = (strings.intern(label), strings.intern(string));
                slice.fields.push(Field::named(label, Value::String(string)));
            }
        }
        [Some(machine), thread].into_iter().flatten().try_for_each(|scope| {
            let track = engine.track(track(scope, name), 0);
            engine.emit(&Event::Instant(track, slice.clone()))
        })
    }
}

fn track(scope: Scope, name: StringId) -> Track {
    Track { scope, name, kind: TrackKind::Slices(TrackRole::Named) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::events_of;
    use syscollect_model::{Tables, Ticks};

    /// What is emitted of such a mark, and whether it is due then.
    fn emitted(tables: &mut Tables, mark: Option<SnapshotMark>) -> Vec<Event> {
        tables.machines[0].snapshot = mark;
        let mut pending = PendingMark::of(&tables.machines[0]);
        events_of(tables, |engine| {
            pending.emit(engine).expect("nobody stops it");
            pending.emit(engine).expect("nobody stops it");
        })
    }

    #[test]
    fn a_snapshot_says_once_when_and_why_it_was_taken_and_other_recordings_do_not() {
        let mut tables = Tables::default();
        assert_eq!(emitted(&mut tables, None), []);
        let mark =
            SnapshotMark { reason: "p99 alarm".into(), at: Ticks(7), ..SnapshotMark::default() };
        let events = emitted(&mut tables, Some(mark));
        let [Event::Instant(track, slice)] = &events[..] else { panic!("{events:?}") };
        let reason = tables.strings.intern("p99 alarm");
        let values: Vec<_> = slice.fields.iter().map(|field| &field.value).collect();
        assert_eq!(values, [&Value::String(reason)]);
        let names = [tables.track(*track).name, slice.name].map(|name| tables.strings.get(name));
        assert_eq!(names, ["Snapshot", "snapshot taken"]);
    }

    #[test]
    fn what_a_trigger_saw_is_marked_on_its_thread_too() {
        let mut tables = Tables::default();
        let mark = SnapshotMark {
            reason: "it waited 52 ms".into(),
            trigger: "starved".into(),
            at: Ticks(7),
            tid: 42,
        };
        let events = emitted(&mut tables, Some(mark));
        let [Event::Instant(machine, first), Event::Instant(thread, second)] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(first, second);
        assert!(matches!(tables.track(*machine).scope, Scope::Machine(_)));
        let Scope::Thread(thread) = tables.track(*thread).scope else { panic!("{events:?}") };
        assert_eq!(tables.thread(thread).tid, 42);
    }

    #[test]
    fn it_is_due_before_what_happens_then() {
        let mut recording = SessionInfo::default();
        let due = |recording: &SessionInfo| {
            let pending = PendingMark::of(recording);
            [6, 7, 8].map(|ticks| pending.is_due(ticks))
        };
        assert_eq!(due(&recording), [false; 3]);
        recording.snapshot = Some(SnapshotMark { at: Ticks(7), ..SnapshotMark::default() });
        assert_eq!(due(&recording), [false, true, true]);
    }
}
