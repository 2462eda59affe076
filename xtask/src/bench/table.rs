//! Medians, as Markdown.

use std::fs;

use super::tracer::Figures;

/// One tracer's runs.
pub(super) struct Row {
    title: &'static str,
    ratios: Vec<f64>,
    figures: Vec<Figures>,
}

impl Row {
    pub(super) fn new(title: &'static str) -> Self {
        Self { title, ratios: Vec::new(), figures: Vec::new() }
    }

    pub(super) fn add(&mut self, ratio: f64, figures: Figures) {
        self.ratios.push(ratio);
        self.figures.push(figures);
    }

    /// The median of a figure over the runs that tell it.
    fn of(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.figures.iter().filter_map(figure).collect();
        (!values.is_empty()).then(|| median(values))
    }
}

/// The table of one load.
pub(super) fn render(rows: &[Row]) -> String {
    let mut out = String::from(
        "| tracer | CPU time of the load, ratio (spread) | events | bytes per event | lost | \
         tracer's CPU, start included | its memory |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let (low, high) = spread(&row.ratios);
        out += &format!(
            "| {} | {:.3} ({low:.3} to {high:.3}) | {} | {} | {} | {} | {} |\n",
            row.title,
            median(row.ratios.clone()),
            cell(row.of(|figures| figures.events), 0, ""),
            cell(
                row.of(|figures| Some(
                    figures.bytes? / figures.events.filter(|events| *events > 0.0)?
                )),
                1,
                ""
            ),
            cell(row.of(|figures| figures.lost), 0, ""),
            cell(row.of(|figures| figures.cpu_share), 1, " %"),
            cell(row.of(|figures| figures.peak_bytes.map(|bytes| bytes / 1e6)), 0, " MB"),
        );
    }
    out
}

fn cell(value: Option<f64>, decimals: usize, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}{unit}"))
}

/// What the figures were measured on.
pub(super) fn machine() -> String {
    let model =
        read("/proc/cpuinfo").lines().find_map(|line| line.strip_prefix("model name")).map_or_else(
            || "unknown CPU".to_owned(),
            |model| model.trim_start_matches([' ', '\t', ':']).to_owned(),
        );
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cpus} CPUs ({model}), Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The middle value; between the two middle ones when their number is even.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The quartiles.
pub(super) fn spread(values: &[f64]) -> (f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    (quartile(&values, 1), quartile(&values, 3))
}

fn quartile(values: &[f64], part: usize) -> f64 {
    values.get((values.len().saturating_sub(1)) * part / 4).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::{median, spread};

    #[test]
    fn medians_and_quartiles() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(spread(&[5.0, 1.0, 2.0, 3.0, 4.0]), (2.0, 4.0));
    }
}
