//! Writers of the viewers' formats.
//!
//! **Duties.** Turning the model's events into a file that a viewer opens, as a
//! stream where the format allows: memory does not grow with the number of
//! events. [`PerfettoExporter`] writes Perfetto traces, [`FirefoxExporter`]
//! profiles for the Firefox Profiler and [`TracyExporter`] files for Tracy (which
//! both must be held until they end),
//! [`FoldedExporter`], [`FlamegraphExporter`] and [`PprofExporter`] added-up
//! stacks, [`TextExporter`] readable lines for tests and for
//! looking closely; [`report`] sums a session up for the terminal; [`Format`]
//! knows the formats by their file extensions.
//!
//! **Non-goals.** Nothing here knows where events come from: no captures, no
//! decoding, no order to make, no addresses to name. A new source needs no
//! change here. Nothing opens files: writers get an [`std::io::Write`].
//!
//! ```
//! use std::path::Path;
//! use syscollect_exporters::{Format, TextExporter};
//! use syscollect_model::{
//!     Event, Exporter, MachineId, Scope, SessionInfo, Tables, Time, Track, TrackKind, TrackRole,
//! };
//!
//! let mut tables = Tables::default();
//! let name = tables.strings.intern("frames");
//! let mark = tables.strings.intern("dropped");
//! let kind = TrackKind::Slices(TrackRole::Named);
//! let scope = Scope::Machine(MachineId::FIRST);
//! let track = tables.add_track(Track { scope, name, kind });
//!
//! assert_eq!(Format::from_path(Path::new("a.txt"))?, Format::Text);
//! let mut exporter = TextExporter::new(Vec::new());
//! exporter.begin(&tables)?;
//! exporter.event(Time(7_000), &Event::Instant(track, mark.into()), &tables)?;
//! exporter.end(&[], None, &tables)?;
//! let text = String::from_utf8(exporter.finish()?)?;
//! assert_eq!(text.lines().last(), Some("        0.000 frames * dropped"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod compressed_list;
mod error;
mod event_loops;
mod firefox;
mod format;
mod gaps;
mod gpu_matches;
mod heap;
mod labels;
mod locks;
mod off_cpu;
mod overwritten;
mod perfetto;
mod process_filter;
mod proto;
pub mod report;
mod stacks;
mod text;
mod tracy;

pub use error::ExportError;
pub use event_loops::LoopLimit;
pub use firefox::{FirefoxExporter, FirefoxOptions};
pub use format::{Format, FormatError};
pub use overwritten::OverwrittenTime;
pub use perfetto::PerfettoExporter;
pub use report::{Family, ProcessFilter};
pub use stacks::{FlamegraphExporter, FoldedExporter, PprofExporter, StackKind, StackOptions};
pub use text::TextExporter;
pub use tracy::{
    CodeToName, TracyCompression, TracyExporter, TracyLayout, TracyLive, TracyOptionError,
    TracyOptions,
};
