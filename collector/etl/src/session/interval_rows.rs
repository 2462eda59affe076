//! Rows for what takes time and is told at its end.

use super::delay::PUSHED;
use super::engine::{Engine, TraceEngine, slices};
use rustc_hash::FxHashMap;
use syscollect_model::{Event, Field, Scope, Slice, StringId, Strings, Time, Value};
use syscollect_playback::{EventType, Rows};

/// Rows of one track at most: more overlap only in a damaged file, or not for long.
const MOST_ROWS: usize = 32;

/// Something that took time.
#[derive(Debug)]
pub(super) struct Interval {
    pub(super) event_type: EventType,
    pub(super) scope: Scope,
    /// The track's name.
    pub(super) track: StringId,
    pub(super) began: Time,
    pub(super) slice: Slice,
}

/// Which rows of tracks are taken.
#[derive(Debug)]
pub(super) struct IntervalRows {
    rows: FxHashMap<(Scope, StringId), Rows<Time>>,
    duration: StringId,
}

impl IntervalRows {
    pub(super) fn new(strings: &mut Strings) -> Self {
        Self { rows: FxHashMap::default(), duration: strings.intern("duration") }
    }

    /// Tells an interval that ends now, on a row of its track where nothing else is.
    /// What began before everything that waits begins there, and says how long it took.
    pub(super) fn emit(&mut self, engine: &mut Engine<'_>, interval: Interval) {
        let Interval { event_type, scope, track, began, mut slice } = interval;
        let now = engine.now();
        let began = began.min(now);
        let visible = began.max(Time(engine.source.waiting.earliest()));
        let rows = self.rows.entry((scope, track)).or_insert_with(|| Rows::new(MOST_ROWS));
        let placed = rows.place(visible, now);
        let begin = placed.begin.min(now);
        if begin > began {
            slice.fields.push(Field::named(self.duration, Value::Duration(now.0 - began.0)));
        }
        let track = engine.track(slices(scope, track), placed.row as u64);
        // At one moment, what ends makes room for what begins; what takes no time begins before it
        // ends.
        let rank = if begin == now { PUSHED } else { PUSHED + 1 };
        engine.insert(event_type, begin, rank, Event::SliceBegin(track, slice));
        engine.push_uncounted(Event::SliceEnd(track));
    }
}
