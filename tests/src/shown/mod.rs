//! What exported files show, by name: the figures that a person would read off
//! the viewer, taken from the file itself.
//!
//! Each function reads one format with no knowledge of who wrote it, and gives
//! [`Figures`] under the names of
//! [`reference_capture::figures`](crate::reference_capture::figures).
//! [`lacks`] says which of these a format has no place for.

mod firefox;
mod report;
mod stacks;
mod tracy;

pub use firefox::{Frame, Marker, Profile, Row, firefox};
pub use report::report;
pub use stacks::{folded, pprof};
pub use tracy::tracy;

use crate::reference_capture::Figures;
use crate::tracy_reader::Damage;

/// A format and the way in which it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Viewer {
    /// Perfetto's trace_processor, by SQL.
    Perfetto,
    /// Tracy files, by [`tracy_reader`](crate::tracy_reader).
    Tracy,
    /// Firefox profiles, by [`Profile`].
    Firefox,
    /// Firefox profiles, by the Firefox Profiler's own engine.
    FirefoxEngine,
    /// `syscollect report --json`.
    Report,
    /// Folded stacks.
    Folded,
    /// pprof profiles.
    Pprof,
}

impl Viewer {
    /// Its name, as tables print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Perfetto => "Perfetto",
            Self::Tracy => "Tracy",
            Self::Firefox => "Firefox",
            Self::FirefoxEngine => "Firefox engine",
            Self::Report => "report",
            Self::Folded => "folded",
            Self::Pprof => "pprof",
        }
    }
}

/// Whether the viewer has no place for a figure.
pub fn lacks(viewer: Viewer, figure: &str) -> bool {
    match viewer {
        Viewer::Perfetto => false,
        // Idle is no thread of these files.
        Viewer::Tracy => figure == "switches",
        // Memory is a curve there.
        Viewer::Firefox => matches!(figure, "switches" | "allocations"),
        // Its command line tells no values of counters, and no texts of markers.
        Viewer::FirefoxEngine => {
            matches!(figure, "switches" | "allocations" | "sum of queue" | "bytes held")
                || [
                    "message ",
                    "GPU delay of ",
                    "GPU errors ",
                    "GPU latency of ",
                    "fences signaled by ",
                ]
                .iter()
                .any(|begin| figure.starts_with(begin))
        }
        // Instants are counted by name, whatever else they say; jobs of GPUs by process.
        Viewer::Report => {
            matches!(figure, "message a slow one" | "message job 5")
                || ["GPU jobs by ", "GPU errors "].iter().any(|begin| figure.starts_with(begin))
        }
        Viewer::Folded => figure != "samples" && !figure.starts_with("self "),
        // Without samples of idle CPUs, which the sum has.
        Viewer::Pprof => !figure.starts_with("self ") || figure == "self idle_loop",
    }
}

/// Every figure of the plan that the viewer shows otherwise, or not though it could.
pub fn differences(viewer: Viewer, plan: &Figures, shown: &Figures) -> Vec<String> {
    let asked = plan.iter().filter(|(figure, _)| !lacks(viewer, figure));
    let wrong = asked.filter(|(figure, planned)| shown.get(*figure) != Some(*planned));
    wrong
        .map(|(figure, planned)| {
            format!("{figure}: {planned} planned, {} shown", number_or_nothing(shown.get(figure)))
        })
        .collect()
}

fn number_or_nothing(value: Option<&u64>) -> String {
    value.map_or("nothing".to_owned(), u64::to_string)
}

/// The figures of several machines together: names say no more on which.
pub fn together(shown: &Figures) -> Figures {
    let mut all = Figures::new();
    for (name, count) in shown {
        let name = name.replace(" on machine 1", "").replace(" of machine 1 ", " of ");
        add(&mut all, name, *count);
    }
    all
}

/// Adds to a figure.
fn add(figures: &mut Figures, name: impl Into<String>, count: u64) {
    *figures.entry(name.into()).or_default() += count;
}

fn damage(what: impl Into<String>) -> Damage {
    Damage(what.into())
}
