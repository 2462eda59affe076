//! An exporter that checks what every exporter relies on.

use std::collections::BTreeMap;
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, Tables, Time, TrackId};

/// Hands everything on, and panics where time goes back, where a slice ends
/// that did not begin, where rows are missing, and where one is open at the end.
pub(crate) struct Balance<E> {
    inner: E,
    last: Time,
    /// What programs say may come late, with its own times.
    are_programs_late: bool,
    open: BTreeMap<TrackId, usize>,
}

impl<E> Balance<E> {
    pub(crate) fn new(inner: E) -> Self {
        Self { inner, last: Time(0), are_programs_late: false, open: BTreeMap::new() }
    }

    /// Of a recording that is played while it goes on.
    pub(crate) fn of_live(inner: E) -> Self {
        Self { are_programs_late: true, ..Self::new(inner) }
    }

    pub(crate) fn into_inner(self) -> E {
        self.inner
    }
}

impl<E: Exporter> Exporter for Balance<E> {
    type Error = E::Error;

    fn begin(&mut self, tables: &Tables) -> Result<(), E::Error> {
        self.inner.begin(tables)
    }

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), E::Error> {
        if !self.are_programs_late || matches!(event, Event::Switch(_) | Event::Sample(_)) {
            assert!(time >= self.last, "time goes back by {} ns: {event:?}", self.last.0 - time.0);
            self.last = time;
        }
        match event {
            Event::SliceBegin(track, slice) => {
                let _ = (tables.track(*track), tables.strings.get(slice.name));
                *self.open.entry(*track).or_default() += 1;
            }
            Event::SliceUpdate(track, _) => {
                assert!(
                    self.open.get(track).is_some_and(|open| *open > 0),
                    "more of nothing: {event:?}"
                );
            }
            Event::SliceEnd(track) => {
                let open = self.open.entry(*track).or_default();
                *open =
                    open.checked_sub(1).unwrap_or_else(|| panic!("the end of nothing: {event:?}"));
            }
            _ => {}
        }
        self.inner.event(time, event, tables)
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), E::Error> {
        let open: Vec<_> = self.open.iter().filter(|(_, open)| **open > 0).collect();
        assert!(open.is_empty(), "open at the end: {open:?}");
        self.inner.end(losses, recorder, tables)
    }
}
