//! Counters as plots, and the load of all CPUs.

use super::rows::{self, Interval};
use super::strings::{FileStrings, pointer};
use super::wire::Payload;
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use syscollect_model::{Tables, TrackId, TrackKind, Unit};

/// `PlotType::User`, and `SysTime`, which the viewer calls "CPU usage".
const USER: u8 = 0;
const CPU_USAGE: u8 = 2;
/// `PlotValueFormatting`.
const NUMBER: u8 = 0;
const MEMORY: u8 = 1;
const PERCENTAGE: u8 = 2;
const WATT: u8 = 3;
/// From one value of the load to the next, nanoseconds.
const USAGE_STEP: i64 = 100_000_000;

/// All counters.
#[derive(Default)]
pub(crate) struct Plots {
    indices: FxHashMap<TrackId, u32>,
    plots: Vec<(TrackId, Vec<(i64, f64)>)>,
}

/// A plot as the file has it.
pub(crate) struct Plot<'a> {
    kind: u8,
    format: u8,
    name: u32,
    values: &'a [(i64, f64)],
}

impl Plots {
    pub(crate) fn add(&mut self, track: TrackId, time: i64, value: f64) {
        let index = *self.indices.entry(track).or_insert_with(|| {
            self.plots.push((track, Vec::new()));
            self.plots.len() as u32 - 1
        });
        if value.is_finite() {
            self.plots[index as usize].1.push((time, value));
        }
    }

    /// The plots with their names.
    pub(crate) fn named<'a>(
        &'a self,
        usage: &'a [(i64, f64)],
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> Vec<Plot<'a>> {
        let mut named = Vec::new();
        if !usage.is_empty() {
            named.push(Plot {
                kind: CPU_USAGE,
                format: PERCENTAGE,
                name: strings.intern("CPU usage"),
                values: usage,
            });
        }
        for (track, values) in self.plots.iter().filter(|(_, values)| !values.is_empty()) {
            let (format, name) = describe(*track, tables);
            named.push(Plot { kind: USER, format, name: strings.intern(&name), values });
        }
        named
    }
}

/// The format and the name of a counter; a unit that the viewer does not know is in the name.
pub(crate) fn describe(track: TrackId, tables: &Tables) -> (u8, String) {
    let row = tables.track(track);
    let name = rows::scoped_name(track, tables);
    let unit = match row.kind {
        TrackKind::Counter { unit } => unit,
        TrackKind::Slices(_) | TrackKind::Frames { .. } | TrackKind::GpuQueue => Unit::Number,
    };
    match unit {
        Unit::Number => (NUMBER, name),
        Unit::Bytes => (MEMORY, name),
        Unit::Percent => (PERCENTAGE, name),
        Unit::Watts => (WATT, name),
        Unit::Kilohertz | Unit::Other(_) => {
            (NUMBER, format!("{name} ({})", unit.text(&tables.strings)))
        }
    }
}

/// How long CPUs were used in each step of the time.
#[derive(Debug, Default)]
pub(crate) struct CpuUsage {
    busy: Vec<i64>,
}

impl CpuUsage {
    /// Adds times of a thread on CPUs; what has not ended goes on until `last`.
    pub(crate) fn add(&mut self, intervals: &[Interval], last: i64) {
        for interval in intervals {
            let end = if interval.end < 0 { last } else { interval.end };
            let steps = (end.max(0) / USAGE_STEP) as usize + 1;
            self.busy.resize(self.busy.len().max(steps), 0);
            let mut at = interval.start;
            while at < end {
                let step = at / USAGE_STEP;
                let until = end.min((step + 1) * USAGE_STEP);
                self.busy[step as usize] += until - at;
                at = until;
            }
        }
    }

    /// In percent of all CPUs. A value is drawn at the end of its step.
    pub(crate) fn values(mut self, cpus: usize, last: i64) -> Vec<(i64, f64)> {
        if cpus == 0 || self.busy.is_empty() {
            return Vec::new();
        }
        self.busy.resize((last / USAGE_STEP) as usize, 0);
        let whole = cpus as f64 * USAGE_STEP as f64;
        let shares = self.busy.into_iter().map(|busy| 100.0 * busy as f64 / whole);
        (1..).map(|step| step * USAGE_STEP).zip(shares).collect()
    }
}

/// Writes the plots.
pub(crate) fn write<W: Write>(out: &mut Payload<W>, plots: &[Plot<'_>]) -> io::Result<()> {
    out.count(plots.len())?;
    for plot in plots {
        let values = plot.values.iter().map(|(_, value)| *value);
        // A value holds until the next one: steps, filled.
        out.bytes(&[plot.kind, plot.format, u8::from(plot.kind == USER), 1])?;
        out.u32(0)?;
        out.u64(pointer(plot.name))?;
        out.f64(values.clone().fold(f64::INFINITY, f64::min))?;
        out.f64(values.clone().fold(f64::NEG_INFINITY, f64::max))?;
        out.f64(values.sum())?;
        out.count(plot.values.len())?;
        let mut reference = 0;
        for (time, value) in plot.values {
            out.i64(time - reference)?;
            out.f64(*value)?;
            reference = *time;
        }
    }
    Ok(())
}

impl Plot<'_> {
    pub(crate) fn name(&self) -> u32 {
        self.name
    }
}
