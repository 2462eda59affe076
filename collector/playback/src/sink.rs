//! Where a played recording goes: the output, and what it was given.

use crate::any_exporter::{AnyExporter, Stopped};
use crate::event_type::EventType;
use crate::output::Output;
use crate::recording::Played;
use crate::tally::Tally;
use syscollect_model::{Event, Tables, Time};

/// The output, and counts of what was played.
pub struct Sink<'a> {
    output: Output<'a>,
    /// What was played so far.
    pub tally: Tally,
}

impl<'a> Sink<'a> {
    /// Into this output nothing was played so far.
    pub fn new(output: Output<'a>) -> Self {
        Self { output, tally: Tally::default() }
    }

    /// The exporter, for what is told to it beside events.
    pub fn exporter(&mut self) -> &mut AnyExporter<'a> {
        self.output.exporter()
    }

    /// Takes another's output, and gives its own for it.
    pub fn exchange(&mut self, output: &mut Output<'a>) {
        std::mem::swap(&mut self.output, output);
    }

    /// Counts what occurs at that time, if that is in the part that is played.
    #[inline]
    pub fn occurred(&mut self, event_type: EventType, time: Time) {
        if self.output.covers(time) {
            self.tally.events.occurred(event_type, time);
        }
    }

    /// Gives an event to the exporter; times never fall, but as [`Exporter::event`] says.
    ///
    /// [`Exporter::event`]: syscollect_model::Exporter::event
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    #[inline]
    pub fn emit(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Stopped> {
        self.output.emit(time, event, tables)
    }

    /// What was played since this was asked last; who knows the losses adds them.
    pub fn played(&mut self) -> Played {
        Played { unreported_gaps: self.output.take_unreported_gaps(), ..self.tally.played() }
    }
}
