//! After a recording: naming, exporting, and giving the files their names.

use super::bundle::{Bundling, RecordedCapture};
use super::unwinding::LateUnwinder;
use crate::confine;
use crate::convert::{
    self, Abandoned, CaptureEnd, ExportedDraft, FoundNames, NamingScope, Selection,
};
use crate::format::Format;
use crate::lost::Lost;
use crate::output::DraftFile;
use crate::record::files::{KeepCapture, OutputFiles, advice_on_unexported};
use crate::signals::Abandon;
use crate::summary::KeptCapture;
use crate::symbol_files::SymbolFileOptions;
use crate::terminal::Terminal;
use crate::timings::Timings;
use anyhow::{Result, bail};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Duration;
use syscollect_capture::{CostAccount, Recorded, StacksInMemory};
use syscollect_merge::{MergeError, Session};
use syscollect_model::{RecorderSummary, RecorderWork, WorkCost, grouped};
use syscollect_playback::Recording;
use syscollect_store::{CaptureReader, Definition};
use syscollect_symbolize::{PinnedFiles, refused_lists};

/// A raw capture of so many events is read once for what cannot be read of it; a larger one only
/// where that is asked for.
const READ_UNASKED: u64 = 2_000_000;

/// What a recording became.
#[derive(Debug)]
pub(crate) struct FinishedRecording {
    /// The output; `None` when it went to standard output.
    pub(crate) output: Option<(PathBuf, Format)>,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// The capture beside it.
    pub(crate) capture: KeptCapture,
    /// Events in the output.
    pub(crate) events: u64,
    /// What was lost.
    pub(crate) lost: Lost,
    /// What all of it cost.
    pub(crate) costs: Vec<WorkCost>,
}

impl FinishedRecording {
    /// Of the last file of several, in which nothing lies: the disk took no more. What was lost is
    /// told all the same.
    pub(crate) fn without_file(recorded: &Recorded) -> Self {
        Self {
            output: None,
            bytes: 0,
            capture: KeptCapture::Not,
            events: 0,
            lost: Lost::default().at_least(&recorded.losses),
            costs: recorded.costs.costs().to_vec(),
        }
    }
}

/// What finishing a recording needs.
pub(crate) struct Finish<'a> {
    pub(crate) files: &'a OutputFiles,
    pub(crate) abandon: &'a Abandon,
    pub(crate) terminal: &'a Terminal,
    pub(crate) read: Read,
    /// How long names are looked for at most, where the rest is wanted sooner.
    pub(crate) longest_naming: Option<Duration>,
    /// What is kept of files, so that they can be named elsewhere.
    pub(crate) bundling: Option<Bundling>,
    /// Whether it comes after the recording, so that what it costs is told.
    pub(crate) is_accounted: bool,
}

/// What of a raw capture is read for what cannot be read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Everything: somebody wants to know of every loss.
    All,
    /// What is read quickly: up to [`READ_UNASKED`] events.
    Quick,
    /// Nothing.
    Nothing,
}

/// Stacks that are walked when the recording has ended, and where that is told of, and of names.
pub(super) struct Unwinding<'a> {
    pub(super) stacks: StacksInMemory,
    pub(super) summary: &'a mut RecorderSummary,
}

/// Finds names for the code of a capture, and adds them to it.
pub(super) struct CaptureNaming<'a> {
    pub(super) capture: &'a File,
    pub(super) bundling: Option<Bundling>,
    pub(super) abandon: &'a Abandon,
    pub(super) terminal: &'a Terminal,
    /// How long names are looked for at most, where whoever waits wants the rest sooner.
    pub(super) longest: Option<Duration>,
    /// Bytes of the capture, where somebody else could make the file a longer one.
    pub(super) bytes: Option<u64>,
}

/// What came of that.
pub(super) enum Naming {
    /// The names are there.
    Done {
        session: Box<Session>,
        end: CaptureEnd,
        /// Events in the file.
        stored: u64,
        /// Why the capture lacks names: it takes none, or they were not found in time.
        unnamed: Option<String>,
    },
    /// The user did not wait for them.
    Unwanted { end: CaptureEnd, stored: u64 },
}

impl CaptureNaming<'_> {
    /// Finds the names and adds them.
    ///
    /// # Errors
    ///
    /// The capture cannot be read.
    pub(super) fn name(
        &self,
        pinned: PinnedFiles,
        unwinding: Unwinding<'_>,
        timings: &mut Timings,
    ) -> Result<Naming> {
        let file = self.capture.try_clone()?;
        let reader = match self.bytes {
            Some(bytes) => CaptureReader::from_part(file, bytes)?,
            None => CaptureReader::from_file(file)?,
        };
        let mut end = CaptureEnd::of(&reader);
        // What the trace buffer dropped was taken out of the lanes but is not in the file.
        let stored = convert::stored_events(&reader);
        let Unwinding { stacks, summary } = unwinding;
        let mut unwinder = LateUnwinder::new(stacks, &pinned);
        let mut session =
            match Session::open_unwinding(reader, &|| self.abandon.wanted(), &mut unwinder) {
                Err(MergeError::Unwanted) => return Ok(Naming::Unwanted { end, stored }),
                session => session?,
            };
        summary.statistics.extend(unwinder.statistics());
        timings.end("reading what events refer to");
        if let Some(bundling) = self.bundling {
            let reader = session.reader();
            let recorded = RecordedCapture { file: self.capture, reader, end: &mut end };
            let kept = bundling.keep(session.unresolved(), &pinned, recorded, self.abandon);
            match kept {
                Ok(bundled) => {
                    let lines = bundled.lines(bundling.most);
                    lines.iter().for_each(|line| eprint_line!("syscollect: {line}"));
                }
                // What was recorded is there all the same.
                Err(error) => eprint_line!("syscollect: {}", crate::message(&error)),
            }
            timings.end("keeping symbols");
        }
        let abandon = match self.longest {
            Some(longest) => self.abandon.at_most(longest),
            None => self.abandon.clone(),
        };
        let nameable = NamingScope::now(self.bundling.is_some_and(|bundling| bundling.name_later));
        let named = convert::name(
            &session,
            (pinned, None),
            &nameable,
            &SymbolFileOptions::default(),
            &abandon,
            self.terminal,
        )?;
        let FoundNames { tables, left, .. } = named;
        let late = (left > 0 && !self.abandon.wanted()).then(|| late(left));
        summary.refused_lists = refused_lists(&tables);
        let unwound = Some(session.take_unwound()).filter(|stacks| !stacks.is_empty());
        let names = tables.iter().cloned().map(Definition::Symbols);
        let names = unwound.map(Definition::Unwound).into_iter().chain(names);
        // What the user did not wait for is not among them: an export names the rest.
        let appended = end.append(self.capture.try_clone()?, names);
        let unnamed = appended.err().map(|error| crate::message(&error)).or(late);
        session.add_symbols(tables);
        Ok(Naming::Done { session: Box::new(session), end, stored, unnamed })
    }
}

/// There was no time for the names of so many files.
fn late(files: usize) -> String {
    let files = match files {
        1 => "one file".to_owned(),
        files => format!("{} files", grouped(files as u64)),
    };
    format!("those of {files} were not found in time; `syscollect symbolize` finds them")
}

/// What was written of a recording, before the files have their names.
struct WrittenRecording {
    /// The exported file, where it is one.
    draft: Option<DraftFile>,
    bytes: u64,
    events: u64,
    lost: Lost,
}

impl Finish<'_> {
    /// Names, exports and publishes. Whatever fails, the capture is kept.
    pub(crate) fn finish(
        &self,
        draft: DraftFile,
        recorded: Recorded,
        timings: &mut Timings,
    ) -> Result<FinishedRecording> {
        let Recorded { pinned, stacks, mut summary, losses, mut costs, priority, .. } = recorded;
        // Until this function's end.
        let _priority = priority;
        let unwinding = Unwinding { stacks, summary: &mut summary };
        match self.name_and_write(&draft, pinned, unwinding, &mut costs, timings) {
            Ok((mut written, end)) => {
                written.lost = written.lost.at_least(&losses);
                let finished = self.publish(
                    draft,
                    written,
                    (end, RecorderSummary { costs: costs.costs().to_vec(), ..summary }),
                );
                timings.end("publishing");
                finished
            }
            Err(error) => {
                let advice = advice_on_unexported(&self.files.keep_capture(draft));
                // The reader of standard output may leave early, which is no mistake and
                // would be told to nobody; a file that stays is told all the same.
                if crate::is_closed_pipe(&error) {
                    eprint_line!("syscollect: {advice}");
                }
                Err(error.context(advice))
            }
        }
    }

    /// Names the capture and exports it, if that is wanted.
    fn name_and_write(
        &self,
        capture: &DraftFile,
        pinned: PinnedFiles,
        unwinding: Unwinding<'_>,
        costs: &mut CostAccount,
        timings: &mut Timings,
    ) -> Result<(WrittenRecording, CaptureEnd)> {
        let naming = CaptureNaming {
            capture: capture.file(),
            bundling: self.bundling,
            abandon: self.abandon,
            terminal: self.terminal,
            longest: self.longest_naming,
            bytes: None,
        };
        let (mut session, end, stored) = match naming.name(pinned, unwinding, timings)? {
            Naming::Done { session, end, stored, unnamed } => {
                // The export has what was found all the same; a capture that stays may lack it.
                if let Some(why) = unnamed {
                    eprint_line!("syscollect: names are missing: {why}");
                }
                (*session, end, stored)
            }
            Naming::Unwanted { end, stored } => return Ok((self.unread(capture, stored)?, end)),
        };
        if self.is_accounted {
            costs.note(RecorderWork::Naming);
        }
        timings.end("naming");
        // A part of a recording that goes on is written with what the recorder still needs.
        if self.is_accounted {
            confine::to_exporting(self.files.owner_of_folder());
        }
        let written = self.write(capture, &mut session, stored)?;
        let (work, part) = match self.files.is_exported() {
            true => (RecorderWork::Export, "exporting"),
            false => (RecorderWork::Reading, "reading"),
        };
        if self.is_accounted {
            costs.note(work);
        }
        timings.end(part);
        Ok((written, end))
    }

    /// A capture that nobody waits for is complete without being opened; an export is not.
    fn unread(&self, capture: &DraftFile, stored: u64) -> Result<WrittenRecording> {
        if self.files.is_exported() {
            bail!(Abandoned);
        }
        let bytes = self.raw(capture)?;
        Ok(WrittenRecording { draft: None, bytes, events: stored, lost: Lost::unopened(stored) })
    }

    /// Hands over the capture as it is; its size.
    fn raw(&self, capture: &DraftFile) -> Result<u64> {
        if self.files.standard_output.is_none() {
            return Ok(capture.file().metadata()?.len());
        }
        let mut file = capture.file();
        file.seek(SeekFrom::Start(0))?;
        Ok(std::io::copy(&mut file, &mut std::io::stdout().lock())?)
    }

    fn write(
        &self,
        capture: &DraftFile,
        session: &mut Session,
        stored: u64,
    ) -> Result<WrittenRecording> {
        let Self { files, abandon, terminal, .. } = *self;
        match (&files.export, files.standard_output) {
            (Some((target, format)), _) => {
                let to = (target, *format);
                let ExportedDraft { draft, bytes, played, lost } =
                    convert::export_file(session, to, abandon, terminal)?;
                Ok(WrittenRecording { draft: Some(draft), bytes, events: played.events, lost })
            }
            (None, Some(format)) if format != Format::Syscap => {
                let mut out = Counted { inner: std::io::stdout().lock(), bytes: 0 };
                let played = convert::export(
                    session,
                    (format, &mut out),
                    &Selection::default(),
                    abandon,
                    terminal,
                )?;
                Ok(WrittenRecording {
                    draft: None,
                    bytes: out.bytes,
                    events: played.events,
                    lost: Lost::read(session, &played),
                })
            }
            (None, _) => {
                let (lost, events) = self.read(session, stored)?;
                Ok(WrittenRecording { draft: None, bytes: self.raw(capture)?, events, lost })
            }
        }
    }

    /// What a raw capture lost: it is read where that is quick or asked for, and Ctrl-C leaves it
    /// unread. How many events it has comes with that.
    fn read(&self, session: &mut Session, stored: u64) -> Result<(Lost, u64)> {
        let most = match self.read {
            Read::All => u64::MAX,
            Read::Quick => READ_UNASKED,
            Read::Nothing => 0,
        };
        if stored > most {
            return Ok((Lost::unread(session, stored), stored));
        }
        match convert::read(session, self.abandon, self.terminal) {
            Ok(played) => Ok((Lost::read(session, &played), played.events)),
            Err(error) if error.is::<Abandoned>() => Ok((Lost::unread(session, stored), stored)),
            Err(error) => Err(error),
        }
    }

    /// Gives the files their final names; a capture that stays is told at its end what all of it
    /// cost.
    fn publish(
        &self,
        capture: DraftFile,
        written: WrittenRecording,
        last: (CaptureEnd, RecorderSummary),
    ) -> Result<FinishedRecording> {
        let WrittenRecording { draft, mut bytes, events, lost } = written;
        let (mut end, summary) = last;
        let files = self.files;
        let exported = match (draft, &files.export) {
            (Some(draft), Some((target, format))) => match draft.publish(target) {
                Ok(path) => Some((path, *format)),
                Err(error) => {
                    let path = self.files.keep_capture(capture);
                    return Err(error.context(format!("the capture is {}", path.display())));
                }
            },
            _ => None,
        };
        let costs = summary.costs.clone();
        let size = capture.file().metadata()?.len();
        let kept = match files.keeps(size) {
            true => {
                let reported = std::iter::once(Definition::Summary(Box::new(summary)));
                if let Err(error) = end.append(capture.file().try_clone()?, reported) {
                    eprint_line!("syscollect: {}", crate::message(&error));
                }
                if !files.is_exported() && files.standard_output.is_none() {
                    bytes = capture.file().metadata()?.len();
                }
                KeptCapture::At(capture.publish(&files.capture)?)
            }
            false if files.keep == KeepCapture::WhileSmall => KeptCapture::TooLarge(size),
            false => KeptCapture::Not,
        };
        let (output, capture) = match (exported, files.standard_output, kept) {
            (None, None, KeptCapture::At(path)) => (Some((path, Format::Syscap)), KeptCapture::Not),
            (output, _, capture) => (output, capture),
        };
        Ok(FinishedRecording { output, bytes, capture, events, lost, costs })
    }
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
