//! Counters, each a graph track under its process.

use serde_json::{Value, json};
use syscollect_model::{Scope, Strings, Tables, TrackId, TrackKind, Unit};

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
        let number = time / step;
        while self.values.last().is_some_and(|last| last.0 / step == number && last.1 <= value) {
            self.values.pop();
        }
        if let [.., highest, last] = &mut self.values[..]
            && highest.0 / step == number
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
    let name = pool.map_or_else(|| "Memory".to_owned(), |pool| format!("Memory: {pool}"));
    config(name, MEMORY, index)
}

/// By its unit; `index` keeps the counters of a process in order.
pub(super) fn display(track: TrackId, index: usize, tables: &Tables) -> Display {
    let row = tables.track(track);
    let unit = match row.kind {
        TrackKind::Counter { unit } => unit,
        TrackKind::Slices(_) | TrackKind::Frames { .. } | TrackKind::GpuQueue => Unit::Number,
    };
    let text = tables.strings.get(row.name);
    let name = match row.scope {
        Scope::Cpu(cpu) => cpu.label_of(text),
        _ => text.to_owned(),
    };
    config(labeled(name, unit, &tables.strings), style_of(unit), index)
}

/// The name of a counter; units that the format lacks go into it.
fn labeled(name: String, unit: Unit, strings: &Strings) -> String {
    match unit {
        Unit::Number | Unit::Bytes | Unit::Percent => name,
        Unit::Watts | Unit::Kilohertz | Unit::Other(_) => {
            format!("{name} ({})", unit.text(strings))
        }
    }
}

/// How the values of a unit are shown.
#[derive(Clone, Copy)]
struct CounterStyle {
    category: &'static str,
    /// The unit of the graph, if the format has it.
    unit: &'static str,
    /// How a value is written.
    format: &'static str,
    color: &'static str,
    scale: f64,
}

const MEMORY: CounterStyle = CounterStyle {
    category: "Memory",
    unit: "bytes",
    format: "bytes",
    color: "orange",
    scale: 1.0,
};
const PERCENT: CounterStyle = CounterStyle {
    category: "CPU",
    unit: "percent",
    format: "percent",
    color: "blue",
    scale: 0.01,
};
const POWER: CounterStyle =
    CounterStyle { category: "Power", unit: "", format: "number", color: "green", scale: 1.0 };
const NUMBER: CounterStyle =
    CounterStyle { category: "Counter", unit: "", format: "number", color: "purple", scale: 1.0 };

fn style_of(unit: Unit) -> CounterStyle {
    match unit {
        Unit::Bytes => MEMORY,
        Unit::Percent => PERCENT,
        Unit::Watts => POWER,
        Unit::Number | Unit::Kilohertz | Unit::Other(_) => NUMBER,
    }
}

fn config(label: String, look: CounterStyle, index: usize) -> Display {
    let CounterStyle { category, unit, format, color, scale } = look;
    let config = json!({
        "graphType": "line-accumulated", "unit": unit, "color": color,
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
