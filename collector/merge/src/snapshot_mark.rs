//! The moment at which a snapshot of a recording was taken, and why: an instant of the machine.

use crate::engine::Engine;
use syscollect_model::{Event, Field, Scope, Slice, Track, TrackKind, TrackRole, Value};
use syscollect_playback::Stopped;

/// Emits it, if the recording is a snapshot. To be called when all that was recorded was played,
/// which is all of before.
pub(crate) fn emit_snapshot_mark(engine: &mut Engine<'_>) -> Result<(), Stopped> {
    let Some(mark) = engine.tables.machine(engine.machine).snapshot.clone() else { return Ok(()) };
    engine.present.advance(mark.at.0);
    let strings = &mut engine.tables.strings;
    let (track, name) = (strings.intern("Snapshot"), strings.intern("snapshot taken"));
    let mut slice = Slice::named(name);
    for (label, text) in [("reason", &mark.reason), ("trigger", &mark.trigger)] {
        if !text.is_empty() {
            let (label, text) = (strings.intern(label), strings.intern(text));
            slice.fields.push(Field::named(label, Value::String(text)));
        }
    }
    let scope = Scope::Machine(engine.machine);
    let kind = TrackKind::Slices(TrackRole::Named);
    let track = engine.track(Track { scope, name: track, kind }, 0);
    engine.emit(&Event::Instant(track, slice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::events_of;
    use syscollect_model::{SnapshotMark, Tables, Ticks};

    #[test]
    fn a_snapshot_ends_with_when_and_why_it_was_taken_and_other_recordings_do_not() {
        let mut tables = Tables::default();
        let emitted = |tables: &mut Tables| {
            events_of(tables, |engine| emit_snapshot_mark(engine).expect("nobody stops it"))
        };
        assert_eq!(emitted(&mut tables), []);
        tables.machines[0].snapshot = Some(SnapshotMark {
            reason: "p99 alarm".into(),
            at: Ticks(7),
            ..SnapshotMark::default()
        });
        let events = emitted(&mut tables);
        let [Event::Instant(track, slice)] = &events[..] else { panic!("{events:?}") };
        let reason = tables.strings.intern("p99 alarm");
        let values: Vec<_> = slice.fields.iter().map(|field| &field.value).collect();
        assert_eq!(values, [&Value::String(reason)]);
        let names = [tables.track(*track).name, slice.name].map(|name| tables.strings.get(name));
        assert_eq!(names, ["Snapshot", "snapshot taken"]);
    }
}
