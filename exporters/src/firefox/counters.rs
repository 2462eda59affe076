//! Counters, each a graph track under its process.

use serde_json::{Value, json};
use syscollect_model::{Scope, Tables, TrackId, TrackKind};

/// The values of one counter.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// Nanoseconds of the session, and the value from then on.
    pub(super) values: Vec<(u64, f64)>,
}

impl Counter {
    /// Adds a value; one that is no number would make the file no JSON.
    pub(super) fn push(&mut self, time: u64, value: f64) {
        if value.is_finite() {
            self.values.push((time, value));
        }
    }

    /// Adds a value of a counter that may change very often: of each `step` of
    /// time, the highest value and the last one are kept.
    pub(super) fn push_coarse(&mut self, time: u64, value: f64, step: u64) {
        let same = |(before, _): &(u64, f64)| before / step == time / step;
        while self.values.last().is_some_and(|last| same(last) && last.1 <= value) {
            self.values.pop();
        }
        if let [.., highest, last] = &mut self.values[..]
            && same(highest)
        {
            *last = (time, value);
        } else {
            self.push(time, value);
        }
    }

    /// The rows of the file: a time and by how much the value grew.
    ///
    /// The viewer adds the growth up, takes the first row for zero, and draws
    /// from the smallest sum: a row before the first value makes that zero.
    pub(super) fn rows(&self, scale: f64) -> impl Iterator<Item = (u64, f64)> + Clone + '_ {
        let first = self.values.first().map(|(time, _)| (*time, 0.0));
        let mut last = 0.0;
        first.into_iter().chain(self.values.iter().map(move |(time, value)| {
            let growth = value * scale - last;
            last += growth;
            (*time, growth)
        }))
    }
}

/// How the viewer shows a counter.
pub(super) struct Display {
    pub(super) name: String,
    pub(super) category: &'static str,
    /// What the format's value is, as a multiple of the model's.
    pub(super) scale: f64,
    pub(super) config: Value,
}

/// A pool of memory; the heap has no name.
pub(super) fn display_pool(pool: Option<&str>, index: usize) -> Display {
    config(
        pool.map_or_else(|| "Memory".to_owned(), |pool| format!("Memory: {pool}")),
        "bytes",
        index,
    )
}

/// By its unit; `index` keeps the counters of a process in order.
pub(super) fn display(track: TrackId, index: usize, tables: &Tables) -> Display {
    let row = tables.track(track);
    let unit = match row.kind {
        TrackKind::Counter { unit } => tables.strings.get(unit),
        TrackKind::Slices(_) | TrackKind::Frames { .. } | TrackKind::GpuQueue => "",
    };
    let text = tables.strings.get(row.name);
    let name = match row.scope {
        Scope::Cpu(cpu) => format!("CPU {cpu} {}", text.strip_prefix("CPU ").unwrap_or(text)),
        _ => text.to_owned(),
    };
    config(name, unit, index)
}

fn config(name: String, unit: &str, index: usize) -> Display {
    let (category, format, color, scale) = match unit {
        "bytes" => ("Memory", "bytes", "orange", 1.0),
        "%" => ("CPU", "percent", "blue", 0.01),
        "W" => ("Power", "number", "green", 1.0),
        _ => ("Counter", "number", "purple", 1.0),
    };
    // Units that the format lacks go into the name.
    let label = match format {
        "number" if !unit.is_empty() => format!("{name} ({unit})"),
        _ => name,
    };
    let config = json!({
        "graphType": "line-accumulated", "unit": if format == "number" { "" } else { format }, "color": color,
        "markerSchemaLocation": null, "sortWeight": 100 + index, "label": label,
        "tooltipRows": [
            {"type": "value", "source": "accumulated", "format": {"unit": format}, "label": label},
            {"type": "value", "source": "count-range", "format": {"unit": format}, "label": "range shown"},
        ],
    });
    Display { name: label, category, scale, config }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_values_the_highest_and_the_last_are_kept() {
        let mut counter = Counter::default();
        for (time, value) in
            [(1, 5.0), (2, 9.0), (3, 7.0), (4, 3.0), (5, 4.0), (10, 1.0), (11, 2.0), (25, 0.0)]
        {
            counter.push_coarse(time, value, 10);
        }
        assert_eq!(counter.values, [(2, 9.0), (5, 4.0), (11, 2.0), (25, 0.0)]);
    }

    #[test]
    fn values_become_growth_from_zero() {
        let mut counter = Counter::default();
        for (time, value) in [(5, 50.0), (6, f64::NAN), (7, 20.0), (9, 100.0)] {
            counter.push(time, value);
        }
        assert_eq!(
            counter.rows(0.5).collect::<Vec<_>>(),
            [(5, 0.0), (5, 25.0), (7, -15.0), (9, 40.0)]
        );
        assert_eq!(Counter::default().rows(1.0).count(), 0);
    }
}
