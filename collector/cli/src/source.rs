//! What is read: captures of ours, or the files of a Windows recording.

use crate::convert::{self, NamingScope};
use crate::format::{self, Format};
use crate::signals::Abandon;
use crate::symbols::{self, SymbolOptions};
use crate::terminal::Terminal;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use syscollect_etl::file::Trace;
use syscollect_etl::session::Facts;
use syscollect_merge::{Recordings, Session};
use syscollect_model::{ClockMap, Loss, RecorderSummary, SessionInfo, SymbolTable, Time};
use syscollect_playback::{AnyExporter, Played, Recording, Stopped, UnresolvedModule};
use syscollect_store::{CaptureReader, KeptFile, StoreError};
use syscollect_symbolize::PinnedFiles;

/// A recording, whatever wrote it.
pub(crate) enum Source {
    /// A capture.
    Capture(Box<Session>),
    /// Captures of several machines.
    Captures(Box<Recordings>),
    /// A Windows event trace.
    Trace(Box<syscollect_etl::session::Session>),
}

/// Does the same for each kind of source.
macro_rules! with {
    ($source:expr, $session:ident => $work:expr) => {
        match $source {
            Source::Capture($session) => $work,
            Source::Captures($session) => $work,
            Source::Trace($session) => $work,
        }
    };
}

impl Source {
    /// Opens captures, each of another machine, or the files of one Windows recording.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self> {
        check_distinct(paths)?;
        paths.iter().try_for_each(|path| check_no_pipe(path))?;
        let traces = paths.iter().filter(|path| is_trace(path)).count();
        match paths {
            _ if traces == paths.len() => {
                Ok(Self::Trace(Box::new(syscollect_etl::session::Session::open(paths)?)))
            }
            [capture] => {
                let session = Session::open(open_capture(capture)?);
                let session = session
                    .with_context(|| format!("nothing in {} can be read", capture.display()))?;
                Ok(Self::Capture(Box::new(session)))
            }
            captures if traces == 0 => {
                let readers = captures.iter().map(|path| open_capture(path));
                let recordings = Recordings::open(readers.collect::<Result<_>>()?, &|| false);
                let recordings = recordings
                    .with_context(|| format!("{} cannot be read together", names(captures)))?;
                Ok(Self::Captures(Box::new(recordings)))
            }
            _ => bail!(
                "several files are read together where all are captures, or all .etl files of one \
                 recording: read the others by themselves"
            ),
        }
    }

    /// The same, and names what nobody has named.
    pub(crate) fn open_named(
        paths: &[PathBuf],
        symbols: &SymbolOptions,
        abandon: &Abandon,
        terminal: &Terminal,
    ) -> Result<Self> {
        let mut source = Self::open(paths)?;
        match &mut source {
            Self::Capture(session) => name_capture(session, symbols, abandon, terminal)?,
            // What one machine calls an address another may call otherwise.
            Self::Captures(recordings) => {
                let mut outcome = Ok(());
                recordings.each(|session| {
                    if outcome.is_ok() {
                        outcome = name_capture(session, symbols, abandon, terminal);
                    }
                });
                outcome?;
            }
            Self::Trace(session) => {
                let tables = symbols::name(session.unresolved(), symbols, terminal);
                session.add_symbols(tables);
            }
        }
        Ok(source)
    }
}

/// Names what nobody has named in a capture.
fn name_capture(
    session: &mut Session,
    symbols: &SymbolOptions,
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<()> {
    session.file_damage().iter().for_each(|damage| eprint_line!("syscollect: {damage}"));
    let nameable = match symbols.files().is_any() {
        true => NamingScope::anew(session.info(), session.reader()),
        false => NamingScope::later(session.info(), session.reader()),
    };
    let (pinned, files) = (PinnedFiles::new(), symbols.files());
    let from = (pinned, Some(session.reader()));
    let named = convert::name(&*session, from, &nameable, files, abandon, terminal)?;
    session.add_symbols(named.tables);
    Ok(())
}

impl Source {
    /// Files of code that a capture was asked to keep parts of.
    pub(crate) fn kept_files(&self) -> Vec<KeptFile> {
        match self {
            Self::Capture(session) => session.reader().files().collect(),
            Self::Captures(_) | Self::Trace(_) => Vec::new(),
        }
    }

    /// What only Windows traces have.
    pub(crate) fn windows(&self) -> Option<&Facts> {
        match self {
            Self::Capture(_) | Self::Captures(_) => None,
            Self::Trace(session) => Some(session.facts()),
        }
    }
}

/// Opens a capture. Of a file that was exported, it is the capture that `record` kept beside it.
fn open_capture(path: &Path) -> Result<CaptureReader> {
    let error = match CaptureReader::open(path) {
        Err(error @ StoreError::NotACapture { .. }) => error,
        Err(error @ StoreError::Open { .. }) => match cut_off_beside(path) {
            Some(left) => bail!(
                "{error}, but {0}, which a recording left that was cut off: name {0} instead",
                left.display()
            ),
            None => return Err(error.into()),
        },
        other => return Ok(other?),
    };
    let Some(beside) = raw_beside(path) else { return Err(error.into()) };
    if !beside.is_file() {
        bail!(
            "{} is what a recording was exported to, and only its raw capture can be read: {} is \
             not there. Record with --keep-capture, or with -o FILE.syscap",
            path.display(),
            beside.display()
        );
    }
    eprint_line!(
        "syscollect: reading {}, the raw capture beside {}",
        beside.display(),
        path.display()
    );
    Ok(CaptureReader::open(&beside)?)
}

/// Where `record` keeps the raw capture of a file that it exports, if this is the name of one.
fn raw_beside(path: &Path) -> Option<PathBuf> {
    let format = Format::of_output(path, None, format::EXPORTS).ok()?;
    let name = path.file_name().filter(|_| format != Format::Syscap)?;
    Some(path.with_file_name(format.raw_beside(name, "syscap")))
}

/// The file that is read where this one is named: of an exported file the capture beside it.
pub(crate) fn file_read(path: &Path) -> PathBuf {
    raw_beside(path).filter(|beside| beside.is_file()).unwrap_or_else(|| path.to_owned())
}

/// What a recorder that was killed left where a file that is not there would have come to lie: its
/// raw capture, also of one that was to be exported.
fn cut_off_beside(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return None;
    }
    let name = path.file_name()?;
    let format = Format::of_output(path, None, format::EXPORTS).ok();
    let mut left = match format.filter(|format| *format != Format::Syscap) {
        Some(format) => format.raw_beside(name, "syscap"),
        None => name.to_owned(),
    };
    left.push(".partial");
    let left = path.with_file_name(left);
    left.is_file().then_some(left)
}

/// Whether it is a Windows event trace: its name says so, or its bytes do (`.etl.001`, `.dat`).
fn is_trace(path: &Path) -> bool {
    let has_extension =
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("etl"));
    has_extension || Trace::open(&[path.to_owned()]).is_ok()
}

/// Opening a pipe waits for whoever writes to it, perhaps for ever, and what comes out of one is
/// not read in another order.
pub(crate) fn check_no_pipe(path: &Path) -> Result<()> {
    #[cfg(unix)]
    if std::fs::metadata(path)
        .is_ok_and(|data| std::os::unix::fs::FileTypeExt::is_fifo(&data.file_type()))
    {
        bail!("{} is a pipe: write what comes out of it to a file first", path.display());
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// A file that is named twice would tell everything twice.
fn check_distinct(paths: &[PathBuf]) -> Result<()> {
    for (index, path) in paths.iter().enumerate() {
        if paths[..index].iter().any(|other| is_same_file(path, other)) {
            bail!("{} is named twice: name each file once", path.display());
        }
    }
    Ok(())
}

/// Whether both names lead to one file that exists.
#[expect(clippy::disallowed_methods, reason = "captures that the user names")]
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let (one, other) = (one.canonicalize(), other.canonicalize());
    one.ok().zip(other.ok()).is_some_and(|(one, other)| one == other)
}

/// The paths as a command line has them.
pub(crate) fn arguments(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

/// The paths as messages print them.
pub(crate) fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Recording for Source {
    fn info(&self) -> &SessionInfo {
        with!(self, session => session.info())
    }

    fn machines(&self) -> usize {
        with!(self, session => session.machines())
    }

    fn clock(&self) -> &ClockMap {
        with!(self, session => session.clock())
    }

    fn losses(&self) -> &[Loss] {
        with!(self, session => session.losses())
    }

    fn summary(&self) -> Option<&RecorderSummary> {
        with!(self, session => session.summary())
    }

    fn is_complete(&self) -> bool {
        with!(self, session => session.is_complete())
    }

    fn expected_events(&self) -> u64 {
        with!(self, session => session.expected_events())
    }

    fn unresolved(&self) -> Vec<UnresolvedModule> {
        with!(self, session => session.unresolved())
    }

    fn add_symbols(&mut self, tables: Vec<SymbolTable>) {
        with!(self, session => session.add_symbols(tables));
    }

    fn play_into(
        &mut self,
        exporter: &mut AnyExporter<'_>,
        from: Option<Time>,
        to: Option<Time>,
    ) -> Result<Played, Stopped> {
        with!(self, session => session.play_into(exporter, from, to))
    }
}
