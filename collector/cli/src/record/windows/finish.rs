//! After a recording: what was lost, the export, and the files' names.

use crate::convert::{self, ExportedDraft};
use crate::output::DraftFile;
use crate::record::files::{KeepCapture, advice_on_unexported};
use crate::record::{RecordingFinish, RecordingResult};
use crate::source::Source;
use crate::summary::{self, Exported};
use crate::symbols::SymbolOptions;
use crate::terminal::Style;
use anyhow::{Context, Result, bail};
use syscollect_exporters::TracyLayout;
use syscollect_model::bytes;
use syscollect_playback::Recording;
use syscollect_windows::Counts;

/// Says what was lost; whether anything was.
pub(super) fn losses(counts: &Counts, style: Style) -> bool {
    let lines = syscollect_windows::losses(counts);
    lines.iter().for_each(|line| {
        eprint_styled!(style, "{}\n", style.alarm(&format!("*** LOST *** {line}")));
    });
    !lines.is_empty()
}

/// Exports, if that is wanted, and gives the files their names. Whatever fails, the raw trace is
/// kept. What came of it is what the export has.
pub(super) fn finish(finishing: RecordingFinish<'_>) -> Result<RecordingResult> {
    let files = finishing.files;
    let raw = files.recorded()?;
    let size = raw.file().metadata()?.len();
    if size == 0 {
        bail!("Windows wrote nothing into {}; it was removed", raw.path().display());
    }
    if files.export.is_none() {
        let path = raw.publish(&files.capture)?;
        eprint_line!("Wrote {}: {}", path.display(), bytes(size));
        eprint_line!("Export it: syscollect export {} -o FILE.pftrace", path.display());
        return Ok(RecordingResult::default());
    }
    match export(&raw, finishing) {
        Ok(exported) => {
            if files.keep == KeepCapture::Always {
                eprint_line!("Kept {}, the raw trace", files.keep_capture(raw).display());
            }
            Ok(exported)
        }
        Err(error) => Err(error).context(advice_on_unexported(&files.keep_capture(raw))),
    }
}

/// Exports and publishes.
fn export(raw: &DraftFile, finishing: RecordingFinish<'_>) -> Result<RecordingResult> {
    let RecordingFinish { files, abandon, terminal, timings, .. } = finishing;
    let Some((target, format)) = &files.export else {
        return Ok(RecordingResult::default());
    };
    let mut source =
        Source::open_named(&[raw.path()], &SymbolOptions::default(), abandon, terminal)?;
    timings.end("reading and naming");
    let ExportedDraft { draft, bytes, played, lost } =
        convert::export_file(&mut source, (target, *format), abandon, terminal)?;
    timings.end("exporting");
    let path = draft.publish(target)?;
    timings.end("publishing");
    let (events, is_lossy) = (played.events, lost.is_lossy());
    let exported = Exported {
        path,
        format: *format,
        layout: TracyLayout::default(),
        bytes,
        played,
        lost,
        complete: source.is_complete(),
    };
    let style = terminal.style();
    eprint_styled!(style, "{}", summary::export_text(&exported, style));
    Ok(RecordingResult { events, is_lossy, is_incomplete: false })
}
