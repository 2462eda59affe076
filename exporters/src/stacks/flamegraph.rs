//! Flame graphs: the folded stacks as a picture that can be clicked and searched.

use super::folded::Folding;
use super::{StackKind, StackOptions};
use crate::ExportError;
use inferno::flamegraph::{self, Options, Palette, TextTruncateDirection, color::MultiPalette};
use std::io::{BufWriter, Write};
use syscollect_model::{Event, Exporter, Loss, MachineId, RecorderSummary, Tables, Time};

/// Draws the session's stacks as a flame graph in SVG.
///
/// ```
/// use syscollect_exporters::{FlamegraphExporter, StackOptions};
/// use syscollect_model::{Exporter, Tables};
///
/// let tables = Tables::default();
/// let mut exporter = FlamegraphExporter::new(Vec::new(), StackOptions::default());
/// exporter.begin(&tables)?;
/// exporter.end(&[], None, &tables)?;
/// let picture = String::from_utf8(exporter.finish()?)?;
/// assert!(picture.contains("</svg>") && picture.contains("nothing to show"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FlamegraphExporter<W> {
    out: W,
    kind: StackKind,
    idle: bool,
    title: String,
    process: Option<String>,
    folding: Folding,
}

impl<W: Write> FlamegraphExporter<W> {
    /// A writer to `out`, which gets large pieces and needs no buffer.
    pub fn new(out: W, options: StackOptions) -> Self {
        Self {
            out,
            kind: options.kind,
            idle: options.idle,
            title: options.kind.title(options.idle).to_owned(),
            process: options.process.as_ref().map(ToString::to_string),
            folding: Folding::new(options),
        }
    }

    /// Whether the session, which has ended, had no such stack: what is written is valid, and says
    /// nothing of where.
    pub fn is_empty(&self) -> bool {
        self.folding.is_empty()
    }

    /// Draws, and gives the output back.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`] when the output refuses bytes.
    pub fn finish(self) -> Result<W, ExportError> {
        let mut options = Options::default();
        options.title = self.title;
        options.count_name = self.kind.unit().to_owned();
        // The same capture makes the same picture.
        options.deterministic = true;
        // What tells functions apart is how their names begin.
        options.text_truncate_direction = TextTruncateDirection::Right;
        options.colors = Palette::Multi(MultiPalette::Java);
        let mut lines: Vec<&str> = self.folding.lines.iter().map(String::as_str).collect();
        // The crate takes an empty input for an error; an empty recording is none.
        if lines.is_empty() {
            lines.push(match self.idle {
                true => "nothing to show: no such stacks were recorded 1",
                false => "nothing to show: no such stacks were recorded, or only idle ones 1",
            });
        }
        let mut out = BufWriter::with_capacity(1 << 16, self.out);
        flamegraph::from_lines(&mut options, lines, &mut out)?;
        out.flush()?;
        Ok(out.into_inner().map_err(std::io::IntoInnerError::into_error)?)
    }
}

impl<W: Write> Exporter for FlamegraphExporter<W> {
    type Error = ExportError;

    fn begin(&mut self, tables: &Tables) -> Result<(), ExportError> {
        let session = tables.machine(MachineId::FIRST);
        let host = Some(&session.hostname).filter(|name| !name.is_empty());
        let whose: Vec<&str> = self.process.iter().chain(host).map(String::as_str).collect();
        if !whose.is_empty() {
            self.title = format!("{} of {}", self.kind.title(self.idle), whose.join(" on "));
        }
        Ok(())
    }

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        self.folding.event(time, event, tables);
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        _: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        self.folding.end(tables);
        Ok(())
    }
}
