//! After a recording: naming, exporting, and giving the files their names.

use super::place::Place;
use crate::convert;
use crate::format::Format;
use crate::output::Draft;
use crate::signals::Abandon;
use crate::terminal::Terminal;
use anyhow::{Context, Result};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use syscollect_merge::Session;
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;
use syscollect_symbolize::HeldFiles;

/// What a recording became.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The output; `None` when it went to standard output.
    pub(crate) output: Option<(PathBuf, Format)>,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// The capture that was kept beside it.
    pub(crate) capture: Option<PathBuf>,
    /// Events in the output.
    pub(crate) events: u64,
}

/// Names, exports and publishes. Whatever fails, the capture is kept.
pub(crate) fn finish(
    place: &Place,
    draft: Draft,
    held: HeldFiles,
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<Finished> {
    match export(place, &draft, held, abandon, terminal) {
        Ok(exported) => publish(place, draft, exported),
        Err(error) => {
            let path = keep(place, draft);
            let advice = format!(
                "the export did not finish; the capture is {0} (syscollect export {0} -o FILE.pftrace)",
                path.display()
            );
            // The reader of standard output may leave early, which is no mistake and
            // would be told to nobody; a file that stays is told all the same.
            if crate::is_closed_pipe(&error) {
                say!("syscollect: {advice}");
            }
            Err(error.context(advice))
        }
    }
}

/// An export before it has its name.
struct Export {
    draft: Option<Draft>,
    bytes: u64,
    events: u64,
}

/// Names the capture and exports it, if that is wanted.
fn export(place: &Place, capture: &Draft, held: HeldFiles, abandon: &Abandon, terminal: &Terminal) -> Result<Export> {
    let reader = CaptureReader::from_file(capture.file().try_clone()?)?;
    let end = (reader.valid_length(), reader.next_definition_sequence());
    // What the trace buffer dropped was taken out of the lanes but is not in the file.
    let stored = convert::stored_events(&reader);
    let mut session = Session::open(reader)?;
    let tables = convert::name(&session, held, (true, true), terminal);
    if let Err(error) = convert::append_names(capture.file().try_clone()?, end, &tables) {
        // The export has them all the same; a capture that stays lacks them.
        say!("syscollect: {}", crate::message(&error));
    }
    session.add_symbols(tables);
    match (&place.export, place.standard_output) {
        (Some((target, format)), _) => {
            let draft = target.draft()?;
            let (played, _) = convert::export(
                &mut session,
                (*format, draft.file()),
                &convert::Selection::default(),
                abandon,
                terminal,
            )
            .with_context(|| format!("cannot export to {}", target.path().display()))?;
            let bytes = draft.file().metadata()?.len();
            Ok(Export { draft: Some(draft), bytes, events: played.events })
        }
        (None, Some(Format::Syscap)) => {
            let mut file = capture.file();
            file.seek(SeekFrom::Start(0))?;
            let bytes = std::io::copy(&mut file, &mut std::io::stdout().lock())?;
            Ok(Export { draft: None, bytes, events: stored })
        }
        (None, Some(format)) => {
            let out = Counted { inner: std::io::stdout().lock(), bytes: 0 };
            let (played, out) =
                convert::export(&mut session, (format, out), &convert::Selection::default(), abandon, terminal)?;
            Ok(Export { draft: None, bytes: out.bytes, events: played.events })
        }
        (None, None) => Ok(Export { draft: None, bytes: capture.file().metadata()?.len(), events: stored }),
    }
}

/// Gives the files their final names.
fn publish(place: &Place, capture: Draft, export: Export) -> Result<Finished> {
    let Export { draft, bytes, events } = export;
    let exported = match (draft, &place.export) {
        (Some(draft), Some((target, format))) => match draft.publish(target) {
            Ok(path) => Some((path, *format)),
            Err(error) => {
                let path = keep(place, capture);
                return Err(error.context(format!("the capture is {}", path.display())));
            }
        },
        _ => None,
    };
    let capture = match place.keep_capture {
        true => Some(capture.publish(&place.capture)?),
        false => None,
    };
    Ok(match (exported, place.standard_output, capture) {
        (None, None, Some(path)) => Finished { output: Some((path, Format::Syscap)), bytes, capture: None, events },
        (output, _, capture) => Finished { output, bytes, capture, events },
    })
}

/// Keeps the capture under its final name, or where that is taken where it is.
fn keep(place: &Place, capture: Draft) -> PathBuf {
    let partial = capture.path();
    capture.publish(&place.capture).unwrap_or(partial)
}

/// Counts what is written.
struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
