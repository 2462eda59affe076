//! Exporters of all types as one, so that playing is compiled once.

use syscollect_model::{Event, Exporter, Forgotten, Loss, RecorderSummary, Tables, Time};

/// What a source plays into.
pub type AnyExporter<'a> = dyn Exporter<Error = Stopped> + 'a;

/// The exporter wants no more. Why is kept beside it, by who asked for the playing.
#[derive(Debug)]
pub struct Stopped(());

/// An exporter whose error is kept.
struct Stoppable<'a, E: Exporter> {
    exporter: &'a mut E,
    error: Option<E::Error>,
}

/// Has something played into an exporter, and gives back the exporter's own error.
///
/// # Errors
///
/// The exporter's.
pub fn stoppable<E: Exporter, T>(
    exporter: &mut E,
    play: impl FnOnce(&mut AnyExporter<'_>) -> Result<T, Stopped>,
) -> Result<T, E::Error> {
    let mut stoppable = Stoppable { exporter, error: None };
    let played = play(&mut stoppable);
    match (played, stoppable.error) {
        (_, Some(error)) => Err(error),
        (Ok(played), None) => Ok(played),
        // Nobody else makes one.
        (Err(Stopped(())), None) => unreachable!("whoever stops keeps the error"),
    }
}

impl<E: Exporter> Stoppable<'_, E> {
    #[inline]
    fn keep(&mut self, result: Result<(), E::Error>) -> Result<(), Stopped> {
        result.map_err(|error| {
            self.error = Some(error);
            Stopped(())
        })
    }
}

impl<E: Exporter> Exporter for Stoppable<'_, E> {
    type Error = Stopped;

    fn begin(&mut self, tables: &Tables) -> Result<(), Stopped> {
        let result = self.exporter.begin(tables);
        self.keep(result)
    }

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Stopped> {
        let result = self.exporter.event(time, event, tables);
        self.keep(result)
    }

    fn forget(&mut self, forgotten: &mut Forgotten, tables: &Tables) -> Result<(), Stopped> {
        let result = self.exporter.forget(forgotten, tables);
        self.keep(result)
    }

    fn before(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Stopped> {
        let result = self.exporter.before(time, event, tables);
        self.keep(result)
    }

    fn after(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Stopped> {
        let result = self.exporter.after(time, event, tables);
        self.keep(result)
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), Stopped> {
        let result = self.exporter.end(losses, recorder, tables);
        self.keep(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many events.
    struct FewEvents(u32);

    impl Exporter for FewEvents {
        type Error = &'static str;

        fn event(&mut self, _: Time, _: &Event, _: &Tables) -> Result<(), Self::Error> {
            self.0 = self.0.checked_sub(1).ok_or("full")?;
            Ok(())
        }
    }

    #[test]
    fn who_asked_for_the_playing_gets_the_exporters_own_error() {
        let tables = Tables::default();
        let event = Event::SliceEnd(syscollect_model::TrackId(0));
        for (room, expected) in [(3, Ok(())), (2, Err("full"))] {
            let played = stoppable(&mut FewEvents(room), |exporter| {
                (0..3).try_for_each(|_| exporter.event(Time(1), &event, &tables))
            });
            assert_eq!(played, expected);
        }
    }
}
