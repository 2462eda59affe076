//! After a recording: what was lost, the export, and the files' names.

use super::place::OutputFiles;
use crate::convert::{self, Selection};
use crate::format::Format;
use crate::lost::Lost;
use crate::output::Target;
use crate::signals::Abandon;
use crate::source::Source;
use crate::summary::{self, Exported};
use crate::symbols::SymbolOptions;
use crate::terminal::{Style, Terminal};
use anyhow::{Context, Result, bail};
use std::path::Path;
use syscollect_exporters::TracyLayout;
use syscollect_model::bytes;
use syscollect_playback::Recording;
use syscollect_windows::Counts;

/// Says what was lost; whether anything was.
pub(super) fn losses(counts: &Counts, style: Style) -> bool {
    let lines = syscollect_windows::losses(counts);
    lines
        .iter()
        .for_each(|line| say_styled!(style, "{}\n", style.alarm(&format!("*** LOST *** {line}"))));
    !lines.is_empty()
}

/// Exports, if that is wanted, and gives the files their names. Whatever fails, the raw trace is
/// kept.
pub(super) fn finish(place: &OutputFiles, abandon: &Abandon, terminal: &Terminal) -> Result<()> {
    let raw = place.recorded()?;
    let size = raw.file().metadata()?.len();
    if size == 0 {
        bail!("Windows wrote nothing into {}; it was removed", raw.path().display());
    }
    let Some((target, format)) = &place.export else {
        let path = raw.publish(&place.raw)?;
        say!("Wrote {}: {}", path.display(), bytes(size));
        say!("Export it: syscollect export {} -o FILE.pftrace", path.display());
        return Ok(());
    };
    let exported = export(&raw.path(), (target, *format), abandon, terminal);
    if exported.is_ok() && !place.keep {
        return Ok(());
    }
    let partial = raw.path();
    let path = raw.publish(&place.raw).unwrap_or(partial);
    if exported.is_ok() {
        say!("Kept {}, the raw trace", path.display());
    }
    exported.with_context(|| {
        format!(
            "the export did not finish; the raw trace is {0} (syscollect export {0} -o FILE.pftrace)",
            path.display()
        )
    })
}

fn export(
    raw: &Path,
    (target, format): (&Target, Format),
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<()> {
    let mut source =
        Source::open_named(&[raw.to_path_buf()], &SymbolOptions::default(), abandon, terminal)?;
    let draft = target.draft()?;
    let played = convert::export(
        &mut source,
        (format, &mut draft.file()),
        &Selection::default(),
        abandon,
        terminal,
    )
    .with_context(|| format!("cannot export to {}", target.path().display()))?;
    let bytes = draft.file().metadata()?.len();
    let path = draft.publish(target)?;
    let (lost, complete) = (Lost::read(&source, &played), source.is_complete());
    let exported =
        Exported { path, format, layout: TracyLayout::default(), bytes, played, lost, complete };
    let style = terminal.style();
    say_styled!(style, "{}", summary::export_text(&exported, style));
    Ok(())
}
