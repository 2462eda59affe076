//! Which time a report is of.

use super::ReportRange;
use super::data::EventCounts;
use crate::overwritten::OverwrittenTime;
use syscollect_model::{Event, Loss, MachineId, RecorderSummary, Tables, records_overwritten};

/// From where to where the session goes, as its events tell it. Times are nanoseconds.
#[derive(Debug, Default)]
pub(super) struct SessionSpan {
    /// Only this part is played.
    part: Option<ReportRange>,
    /// When the recording began, as far as that is known.
    began: u64,
    first: Option<u64>,
    last: u64,
    /// Events before the part that was asked for told who was in which state.
    led_up: bool,
    overwritten: OverwrittenTime,
    /// Where it ended.
    kept_since: Option<u64>,
}

/// What begins with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// All that is known, now.
    OfSession,
    /// The part that was asked for, then; what came before has told states, and these last.
    OfPart(u64),
}

impl SessionSpan {
    pub(super) fn new(part: Option<ReportRange>) -> Self {
        Self { part, ..Self::default() }
    }

    /// The session is to be played.
    pub(super) fn open(&mut self, tables: &Tables) {
        let session = tables.machine(MachineId::FIRST);
        self.began = session.clock_pairs.first().map_or(0, |pair| pair.boottime);
    }

    /// An event before the part that was asked for; whether it is the first one.
    pub(super) fn lead_up(&mut self, now: u64) -> bool {
        self.last = now;
        !std::mem::replace(&mut self.led_up, true)
    }

    /// Whether what `--overwrite` left no events of ends with this one; to be asked of each that is
    /// before the part that was asked for.
    pub(super) fn ends_overwritten(&mut self, event: &Event) -> bool {
        self.overwritten.ends_with(event)
    }

    /// An event that is told of; what begins with it.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) -> Option<Beginning> {
        let beginning = if self.first.is_none() { Some(self.begin(now)) } else { None };
        self.last = now;
        beginning
    }

    #[cold]
    fn begin(&mut self, now: u64) -> Beginning {
        if !self.led_up {
            self.first = Some(now);
            return Beginning::OfSession;
        }
        let part = self.part.unwrap_or_default();
        let begin = part.from.map_or(now, |from| from.0.clamp(self.last, now));
        self.first = Some(begin);
        Beginning::OfPart(begin)
    }

    /// Whether what `--overwrite` left no events of ends with this one.
    #[inline]
    pub(super) fn begins_anew(&mut self, now: u64, event: &Event) -> bool {
        let anew = self.ends_overwritten(event);
        if anew {
            self.kept_since = Some(now);
        }
        anew
    }

    /// The session was played to its end. The part may end where the recording went on.
    pub(super) fn close(&mut self, recorder: Option<&RecorderSummary>) {
        let to = self.part.and_then(|part| part.to);
        let end = recorder.map(|recorder| self.began + recorder.duration_ns);
        let end_of_part = to.zip(end).map_or(0, |(to, end)| to.0.min(end));
        self.last = self.last.max(end_of_part);
    }

    pub(super) fn began(&self) -> u64 {
        self.began
    }

    /// When the first event was.
    pub(super) fn first(&self) -> u64 {
        self.first.unwrap_or_default()
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// When the first event was that was kept.
    pub(super) fn start_ns(&self) -> u64 {
        self.kept_since.unwrap_or(self.first())
    }

    pub(super) fn duration_ns(&self) -> u64 {
        self.last.saturating_sub(self.start_ns())
    }

    /// How much of what was asked for was overwritten, from its beginning on.
    pub(super) fn overwritten_ns(&self) -> u64 {
        let from = self.part.and_then(|part| part.from).map_or(0, |from| from.0);
        self.kept_since.map_or(0, |since| since.saturating_sub(from.max(self.began)))
    }

    /// How long the recording was, as the recorder says; of a part it says nothing.
    pub(super) fn recorded_ns(&self, recorder: Option<&RecorderSummary>) -> Option<u64> {
        let recorded = recorder.map(|recorder| recorder.duration_ns);
        recorded.filter(|recorded| self.part.is_none() && *recorded > 0)
    }

    /// Whether a part was asked for that ended before what was kept of the recording begins.
    pub(super) fn is_overwritten(&self, losses: &[Loss], events: &EventCounts) -> bool {
        self.part.is_some()
            && !self.overwritten.is_over()
            && records_overwritten(losses) > 0
            && events.switches + events.wakeups + events.samples == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::Time;

    #[test]
    fn a_session_begins_with_its_first_event_and_ends_with_its_last() {
        let mut span = SessionSpan::new(None);
        let begun: Vec<_> = [10, 20, 50].map(|now| span.advance(now)).into();
        assert_eq!(begun, [Some(Beginning::OfSession), None, None]);
        assert_eq!((span.start_ns(), span.duration_ns()), (10, 40));
    }

    #[test]
    fn a_part_begins_where_it_was_asked_for_if_events_led_up_to_it() {
        let part = ReportRange { from: Some(Time(25)), to: None };
        let mut span = SessionSpan::new(Some(part));
        assert_eq!([10, 20].map(|now| span.lead_up(now)), [true, false]);
        assert_eq!(span.advance(30), Some(Beginning::OfPart(25)));
        assert_eq!(span.advance(45), None);
        assert_eq!((span.start_ns(), span.duration_ns()), (25, 20));
    }
}
