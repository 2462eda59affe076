//! Plots: numbers that change over time.

use crate::engine::{Engine, ProgramId, Writer};
use crate::zones::log::Logs;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Forgotten, ProcessId, Scope, StringId, Track, TrackId, TrackKind, Unit,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_zone_protocol::Value;

/// The plots of all programs.
#[derive(Debug, Default)]
pub(crate) struct Plots {
    /// By their numbers in the programs' logs.
    tracks: FxHashMap<(ProgramId, u32), TrackId>,
}

impl Plots {
    /// A plot has this value from now on.
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        logs: &Logs,
        plot: u32,
        value: Value,
    ) -> Result<(), Stopped> {
        let value = match value {
            Value::Unsigned(value) => value as f64,
            Value::Signed(value) => value as f64,
            Value::Float(value) => value,
            Value::String(_) => f64::NAN,
        };
        match self.track(engine, writer.program, logs, plot).filter(|_| value.is_finite()) {
            Some(track) => {
                engine.occurred(EventType::Plot);
                engine.emit(&Event::Counter(track, value))
            }
            None => {
                writer.refuse(engine, 1);
                Ok(())
            }
        }
    }

    /// Forgets plots of processes that are gone.
    pub(crate) fn forget(&mut self, forgotten: &Forgotten) {
        self.tracks.retain(|(program, _), _| !forgotten.processes.contains(&program.process));
    }

    fn track(
        &mut self,
        engine: &mut Engine<'_>,
        program: ProgramId,
        logs: &Logs,
        plot: u32,
    ) -> Option<TrackId> {
        if let Some(track) = self.tracks.get(&(program, plot)) {
            return Some(*track);
        }
        let (name, unit) = logs.get(program.client).plot(plot)?;
        let track = plot_track(engine, program.process, name, unit);
        self.tracks.insert((program, plot), track);
        Some(track)
    }
}

/// The track of a plot of the process.
pub(crate) fn plot_track(
    engine: &mut Engine<'_>,
    process: ProcessId,
    name: StringId,
    unit: Unit,
) -> TrackId {
    let (scope, kind) = (Scope::Process(process), TrackKind::Counter { unit });
    engine.track(Track { scope, name, kind }, 0)
}
