//! Values of counters: of programs (plots) and of the machine.

use super::capped::Capped;
use super::data::{CounterRow, Table};
use super::row_maker::RowMaker;
use syscollect_model::{CpuId, MachineId, Scope, Tables, TrackId, TrackKind, Unit};

/// Counters that are told apart.
const MAX_PLOTS: usize = 1 << 14;

/// The values of one counter.
#[derive(Clone, Copy, Debug, Default)]
struct Plot {
    count: u64,
    least: f64,
    mean: f64,
    most: f64,
    last: f64,
}

impl Plot {
    /// Another value. Those that are no number are left out.
    fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        if self.count == 0 {
            (self.least, self.most) = (value, value);
        }
        self.count += 1;
        let count = self.count as f64;
        // Two divisions, so that the largest values do not overflow.
        self.mean += value / count - self.mean / count;
        (self.least, self.most, self.last) = (self.least.min(value), self.most.max(value), value);
    }
}

/// All counters.
#[derive(Debug)]
pub(super) struct Plots {
    rows: Capped<TrackId, Plot>,
}

impl Default for Plots {
    fn default() -> Self {
        Self { rows: Capped::new(MAX_PLOTS) }
    }
}

impl Plots {
    #[inline]
    pub(super) fn add(&mut self, track: TrackId, value: f64) {
        self.rows.row(track).add(value);
    }

    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<CounterRow> {
        let tables = maker.tables;
        let plots = self.rows.iter().filter(|(_, plot)| plot.count > 0);
        let tracks = plots.map(|(track, plot)| (*track, *plot)).collect();
        let Table { total, rows: first } = maker.table(tracks, |(track, _)| {
            let row = tables.track(*track);
            (order(row.scope), maker.string(row.name), owner(row.scope, tables))
        });
        let rows = first.into_iter().map(|(track, plot)| plot.row(track, maker));
        Table { total, rows: rows.collect() }
    }
}

impl Plot {
    fn row(self, track: TrackId, maker: RowMaker<'_>) -> CounterRow {
        let track = maker.tables.track(track);
        let unit = match track.kind {
            TrackKind::Counter { unit } => unit,
            TrackKind::Slices(_) | TrackKind::Frames { .. } | TrackKind::GpuQueue => Unit::Number,
        };
        let Self { count, least: min, mean, most: max, last } = self;
        CounterRow {
            name: maker.string(track.name),
            owner: owner(track.scope, maker.tables),
            unit: unit.named(&maker.tables.strings),
            count,
            min,
            mean,
            max,
            last,
        }
    }
}

/// What programs say stands before what the machine says.
fn order(scope: Scope) -> (u8, CpuId) {
    match scope {
        Scope::Process(_) | Scope::Thread(_) => (0, CpuId::default()),
        Scope::Machine(machine) => (1, CpuId { machine, number: 0 }),
        Scope::Cpu(cpu) => (2, cpu),
    }
}

fn owner(scope: Scope, tables: &Tables) -> String {
    match scope {
        Scope::Machine(MachineId::FIRST) => "machine".to_owned(),
        Scope::Machine(machine) => tables.machine_name(machine).into(),
        Scope::Cpu(cpu) => cpu.to_string(),
        Scope::Process(id) => format!("{} ({})", tables.process_name(id), tables.process(id).pid),
        Scope::Thread(id) => format!("{} ({})", tables.thread_name(id), tables.thread(id).tid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_the_largest_numbers_is_a_number() {
        let mut plot = Plot::default();
        [f64::MAX, f64::MAX, -f64::MAX, f64::NAN, f64::INFINITY]
            .into_iter()
            .for_each(|value| plot.add(value));
        assert!(plot.mean.is_finite() && plot.count == 3);
        assert_eq!((plot.least, plot.most, plot.last), (-f64::MAX, f64::MAX, -f64::MAX));
    }

    #[test]
    fn the_mean_is_of_the_values_whatever_time_they_last() {
        let mut plot = Plot::default();
        [1.0, 2.0, 6.0].into_iter().for_each(|value| plot.add(value));
        assert_eq!(
            (plot.least, plot.mean, plot.most, plot.last, plot.count),
            (1.0, 3.0, 6.0, 6.0, 3)
        );
    }
}
