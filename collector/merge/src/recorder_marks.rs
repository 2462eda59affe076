//! What the recorder says, as instants where it happened: why a snapshot was taken, on the machine
//! and on the thread that it is about, and its log.

use crate::engine::Engine;
use std::collections::VecDeque;
use syscollect_model::{
    Event, Field, LogEntry, Scope, SessionInfo, Slice, SnapshotMark, Track, TrackKind, TrackRole,
    Value,
};
use syscollect_playback::Stopped;

/// What was not emitted yet, in order of time.
#[derive(Debug)]
pub(crate) struct RecorderMarks {
    marks: VecDeque<(u64, RecorderMark)>,
    /// Ticks of the next; the last there are where there is none.
    next: u64,
}

#[derive(Debug)]
enum RecorderMark {
    Snapshot(SnapshotMark),
    Log(String),
}

impl RecorderMarks {
    /// Those of this recording.
    pub(crate) fn of(recording: &SessionInfo) -> Self {
        let snapshot = recording.snapshot.iter();
        let snapshot = snapshot.map(|mark| (mark.at.0, RecorderMark::Snapshot(mark.clone())));
        let log = recording.log.iter();
        let log = log.map(|LogEntry { at, message }| (at.0, RecorderMark::Log(message.clone())));
        let mut marks: Vec<_> = snapshot.chain(log).collect();
        marks.sort_by_key(|(at, _)| *at);
        let mut marks = Self { marks: marks.into(), next: 0 };
        marks.look_ahead();
        marks
    }

    fn look_ahead(&mut self) {
        self.next = self.marks.front().map_or(u64::MAX, |(at, _)| *at);
    }

    /// Whether one belongs before what happens at these ticks.
    #[inline]
    pub(crate) fn is_due(&self, ticks: u64) -> bool {
        ticks >= self.next
    }

    /// Emits those of up to these ticks. To be called at the end for the last ticks there are: of a
    /// snapshot that somebody asked for all that was recorded lies before it.
    #[cold]
    pub(crate) fn emit_until(
        &mut self,
        ticks: u64,
        engine: &mut Engine<'_>,
    ) -> Result<(), Stopped> {
        while self.is_due(ticks)
            && let Some((at, mark)) = self.marks.pop_front()
        {
            self.look_ahead();
            engine.present.advance(at);
            match mark {
                RecorderMark::Snapshot(mark) => emit_snapshot(&mark, engine)?,
                RecorderMark::Log(message) => {
                    let slice = Slice::named(engine.tables.strings.intern(&message));
                    emit_on("Recorder", Scope::Machine(engine.machine), slice, engine)?;
                }
            }
        }
        Ok(())
    }
}

fn emit_snapshot(mark: &SnapshotMark, engine: &mut Engine<'_>) -> Result<(), Stopped> {
    let strings = &mut engine.tables.strings;
    let name = match mark.trigger.is_empty() {
        true => "snapshot taken".to_owned(),
        // What it says happened here; the snapshot was taken a moment later.
        false => format!("trigger {}", mark.trigger),
    };
    let mut slice = Slice::named(strings.intern(&name));
    for (label, string) in [("reason", &mark.reason), ("trigger", &mark.trigger)] {
        if !string.is_empty() {
            let (label, string) = (strings.intern(label), strings.intern(string));
            slice.fields.push(Field::named(label, Value::String(string)));
        }
    }
    if mark.tid != 0 {
        let thread = Scope::Thread(engine.thread(mark.tid));
        emit_on(SnapshotMark::TRACK, thread, slice.clone(), engine)?;
    }
    emit_on(SnapshotMark::TRACK, Scope::Machine(engine.machine), slice, engine)
}

fn emit_on(
    track: &str,
    scope: Scope,
    slice: Slice,
    engine: &mut Engine<'_>,
) -> Result<(), Stopped> {
    let name = engine.tables.strings.intern(track);
    let kind = TrackKind::Slices(TrackRole::Named);
    let track = engine.track(Track { scope, name, kind }, 0);
    engine.emit(&Event::Instant(track, slice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::events_of;
    use syscollect_model::{Tables, Ticks};

    /// What is emitted up to each of these ticks: the tracks' names and the instants'.
    fn emitted(tables: &mut Tables, until: &[u64]) -> Vec<(String, String)> {
        let mut marks = RecorderMarks::of(&tables.machines[0]);
        let events = events_of(tables, |engine| {
            for ticks in until {
                marks.emit_until(*ticks, engine).expect("nobody stops it");
            }
        });
        let named = |event| match event {
            Event::Instant(track, slice) => {
                let names = [tables.track(track).name, slice.name];
                let [track, name] = names.map(|name| tables.strings.get(name).to_owned());
                (track, name)
            }
            other => panic!("{other:?}"),
        };
        events.into_iter().map(named).collect()
    }

    fn pair(track: &str, name: &str) -> (String, String) {
        (track.to_owned(), name.to_owned())
    }

    #[test]
    fn a_snapshot_says_once_when_and_why_it_was_taken_and_other_recordings_do_not() {
        let mut tables = Tables::default();
        assert_eq!(emitted(&mut tables, &[u64::MAX]), []);
        tables.machines[0].snapshot = Some(SnapshotMark {
            reason: "p99 alarm".into(),
            at: Ticks(7),
            ..SnapshotMark::default()
        });
        let marks = RecorderMarks::of(&tables.machines[0]);
        assert_eq!([6, 7, 8].map(|ticks| marks.is_due(ticks)), [false, true, true]);
        let once = [pair("Snapshot", "snapshot taken")];
        assert_eq!(emitted(&mut tables, &[7, u64::MAX]), once);
        let known = tables.strings.len();
        tables.strings.intern("p99 alarm");
        assert_eq!(tables.strings.len(), known, "its reason is there");
    }

    #[test]
    fn what_a_trigger_saw_is_marked_on_its_thread_too() {
        let mut tables = Tables::default();
        tables.machines[0].snapshot = Some(SnapshotMark {
            reason: "it waited 52 ms".into(),
            trigger: "starved".into(),
            at: Ticks(7),
            tid: 42,
        });
        let twice = [pair("Snapshot", "trigger starved"), pair("Snapshot", "trigger starved")];
        assert_eq!(emitted(&mut tables, &[u64::MAX]), twice);
        let threads = tables.tracks.iter().filter_map(|track| match track.scope {
            Scope::Thread(thread) => Some(tables.thread(thread).tid),
            _ => None,
        });
        assert_eq!(threads.collect::<Vec<_>>(), [42]);
    }

    #[test]
    fn the_log_is_emitted_line_by_line_where_each_was_said() {
        let mut tables = Tables::default();
        let entry = |at, message: &str| LogEntry { at: Ticks(at), message: message.into() };
        tables.machines[0].log = vec![entry(9, "later"), entry(3, "no symbols"), entry(3, "both")];
        let expected = ["no symbols", "both", "later"].map(|message| pair("Recorder", message));
        assert_eq!(emitted(&mut tables, &[3, 8, 9]), expected);
    }
}
