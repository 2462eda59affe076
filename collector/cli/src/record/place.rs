//! Where a recording goes: decided, and checked, before it begins.

use super::options::{Options, Output};
use crate::format::Format;
use crate::output::{Draft, Target};
use crate::owner::Owner;
use anyhow::{Context, Result, anyhow, bail};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use syscollect_store::EMPTY_CAPTURE_BYTES;

/// The first chunks, clock readings and the session, are written as soon as the recording begins.
const FIRST_CHUNKS: Duration = Duration::from_millis(500);

/// The files of a recording: `x.syscap.partial` while it runs; then `x.pftrace`,
/// `x.syscap`, or both.
#[derive(Clone, Debug)]
pub(crate) struct OutputFiles {
    /// The exported file; `None` for standard output, or when the capture is the output.
    pub(crate) export: Option<(Target, Format)>,
    /// The capture under its final name. One that is not kept only takes it when the export fails.
    pub(crate) capture: Target,
    /// Whether the capture stays.
    pub(crate) keep: KeepCapture,
    /// The output goes to standard output, in this format.
    pub(crate) standard_output: Option<Format>,
    force: bool,
}

/// A capture of so many bytes is kept beside the exported file without being asked for: a minute of
/// a desktop.
pub(crate) const SMALL_CAPTURE: u64 = 100_000_000;

/// Whether the raw capture stays beside the exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepCapture {
    /// It does.
    Always,
    /// Up to [`SMALL_CAPTURE`]: `report` reads it, and other formats are made of it.
    WhileSmall,
    /// It does not, unless the export fails.
    Never,
}

impl OutputFiles {
    /// Decides and checks.
    ///
    /// # Errors
    ///
    /// A message that names what is in the way and how to go on.
    pub(crate) fn choose(options: &Options, owner: Option<Owner>) -> Result<Self> {
        let place = match &options.output {
            Output::File(path) => Self::named(path.clone(), options, owner)?,
            Output::Default => Self::default_name(options, owner)?,
            Output::Standard => {
                if std::io::stdout().is_terminal() {
                    bail!(
                        "standard output is a terminal: send it to a file or a program, or name a file with -o"
                    );
                }
                let place = Self::default_name(options, owner)?;
                // Who pipes wants no files unasked.
                let keep = if options.keep == KeepCapture::Always {
                    options.keep
                } else {
                    KeepCapture::Never
                };
                Self { export: None, standard_output: Some(options.format), keep, ..place }
            }
        };
        Ok(place)
    }

    fn named(path: PathBuf, options: &Options, owner: Option<Owner>) -> Result<Self> {
        let output = Target::new(&path, options.force, owner)?;
        let (export, capture, keep) = match options.format {
            Format::Syscap => (None, output, KeepCapture::Always),
            format => {
                let capture = capture_beside(&output, format, options.keep)?;
                (Some((output, format)), capture, options.keep)
            }
        };
        Ok(Self { export, capture, keep, standard_output: None, force: options.force })
    }

    /// Whether a capture of so many bytes stays. What lay under its name before would be taken for
    /// this recording's.
    pub(crate) fn keeps(&self, bytes: u64) -> bool {
        match self.keep {
            KeepCapture::Always => true,
            KeepCapture::WhileSmall => bytes <= SMALL_CAPTURE || self.capture.path().exists(),
            KeepCapture::Never => false,
        }
    }

    /// `./syscollect-20261231-235959.pftrace`, or with `-2` and so on where
    /// another recording began in the same second.
    fn default_name(options: &Options, owner: Option<Owner>) -> Result<Self> {
        let stem = format!("syscollect-{}", local_time());
        let extension = options.format.extension();
        let free = |stem: &str| {
            [extension, "syscap", "syscap.partial"]
                .iter()
                .all(|extension| std::fs::symlink_metadata(format!("{stem}.{extension}")).is_err())
        };
        let numbered = (2..100).map(|number| format!("{stem}-{number}"));
        let stem =
            std::iter::once(stem.clone()).chain(numbered).find(|stem| free(stem)).unwrap_or(stem);
        Self::named(PathBuf::from(format!("{stem}.{extension}")), options, owner)
    }

    /// The place of one of several files: `x-0007.syscap`; `None` where something lies there.
    pub(crate) fn numbered(&self, number: u32) -> Option<Self> {
        let mut stem = self.capture.stem();
        stem.push(format!("-{number:04}"));
        let named = |end: &str| {
            let mut name = stem.clone();
            name.push(end);
            self.capture.beside_unchecked(name)
        };
        let capture = named(".syscap");
        let is_free = capture.is_free() && named(".syscap.partial").is_free();
        is_free.then(|| Self {
            capture,
            export: None,
            keep: KeepCapture::Always,
            standard_output: None,
            ..self.clone()
        })
    }

    /// Whether something else than the capture is written.
    pub(crate) fn is_exported(&self) -> bool {
        self.export.is_some() || self.standard_output.is_some_and(|format| format != Format::Syscap)
    }

    /// The user behind sudo, if the folder that the files go to is this user's own.
    pub(crate) fn owner_of_folder(&self) -> Option<Owner> {
        self.capture.owner_of_folder()
    }

    /// Whether the launched command must keep off standard output.
    pub(crate) fn is_standard_output(&self) -> bool {
        self.standard_output.is_some()
    }

    /// The capture's name while it is recorded.
    pub(crate) fn draft_name(&self) -> OsString {
        let mut name = self.capture.stem();
        name.push(".syscap.partial");
        name
    }

    /// Creates the capture under the name that it has while it is recorded.
    ///
    /// # Errors
    ///
    /// When it cannot be created, or an unfinished recording lies there.
    pub(crate) fn capture_draft(&self) -> Result<Draft> {
        let name = self.draft_name();
        let path = self.capture.path().with_file_name(&name);
        match self.capture.draft_to_appear(name.clone()) {
            Err(error) if is_existing(&error) && self.force => {
                std::fs::remove_file(&path)
                    .with_context(|| format!("cannot replace {}", path.display()))?;
                self.capture.draft_to_appear(name)
            }
            other => other.map_err(|error| told_of_existing(error, &path)),
        }
    }

    /// The recording has begun: its capture takes its name once it can be opened.
    ///
    /// # Errors
    ///
    /// When something has taken the name meanwhile.
    pub(crate) fn show_capture(&self, draft: &mut Draft) -> Result<()> {
        let begun = Instant::now();
        // On a full disk it never grows; then what stopped it is told in the end.
        while draft.file().metadata()?.len() <= EMPTY_CAPTURE_BYTES
            && begun.elapsed() < FIRST_CHUNKS
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        draft.appear().map_err(|error| told_of_existing(error, &draft.path()))
    }
}

/// The capture beside an exported file; only one that may stay must have its name free.
fn capture_beside(output: &Target, format: Format, keep: KeepCapture) -> Result<Target> {
    let name = format.capture_beside(output.name());
    match keep {
        KeepCapture::Never => Ok(output.beside_unchecked(name)),
        KeepCapture::Always => output.beside(name),
        KeepCapture::WhileSmall => output.beside(name).with_context(|| {
            format!(
                "{} has its raw capture beside it (--no-capture leaves it out)",
                output.path().display()
            )
        }),
    }
}

/// The error, with what to do where the name is taken.
fn told_of_existing(error: anyhow::Error, path: &Path) -> anyhow::Error {
    if !is_existing(&error) {
        return error;
    }
    anyhow!(
        "{} exists: a recording that was cut off, or one that still runs. Export it with syscollect export {0} -o \
         FILE.pftrace, remove it, or add --force to replace it",
        path.display()
    )
}

/// Whether something lies there already.
pub(crate) fn is_existing(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists)
}

/// Now, in local time, as `20261231-235959`.
fn local_time() -> String {
    let mut fields = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: a null argument asks for the result only.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    // SAFETY: both pointers are valid; zero bytes are a valid `tm`, so even a failure leaves one.
    let tm = unsafe {
        libc::localtime_r(&now, fields.as_mut_ptr());
        fields.assume_init()
    };
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use std::fs;

    fn choose(folder: &Path, arguments: &[&str]) -> Result<OutputFiles> {
        let path = |argument: &str| match argument.strip_prefix("./") {
            Some(name) => folder.join(name).to_str().unwrap().to_owned(),
            None => argument.to_owned(),
        };
        let arguments =
            std::iter::once("syscollect".to_owned()).chain(arguments.iter().map(|a| path(a)));
        OutputFiles::choose(&Cli::try_parse_from(arguments)?.record.finish()?, None)
    }

    #[test]
    fn an_exported_recording_is_captured_beside_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let place = choose(folder.path(), &["-o", "./x.v2.pftrace"]).unwrap();
        assert_eq!(place.export.as_ref().unwrap().0.path(), folder.path().join("x.v2.pftrace"));
        let partial = folder.path().join("x.v2.syscap.partial");
        let mut draft = place.capture_draft().unwrap();
        assert_eq!(draft.path(), partial);
        assert!(
            !partial.exists(),
            "who is killed before the recording begins would leave an empty file"
        );
        place.show_capture(&mut draft).unwrap();
        assert!(partial.exists());
        drop(draft);
        assert!(!partial.exists(), "an unfinished file was left");
        assert!(place.keeps(SMALL_CAPTURE) && !place.keeps(SMALL_CAPTURE + 1));
    }

    #[test]
    fn a_capture_is_its_own_output() {
        let folder = tempfile::tempdir().unwrap();
        let place = choose(folder.path(), &["-o", "./x.syscap"]).unwrap();
        assert!(place.export.is_none() && place.keeps(u64::MAX));
        assert_eq!(place.capture.path(), folder.path().join("x.syscap"));
    }

    #[test]
    fn a_kept_capture_must_have_its_name_free_and_another_need_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.syscap"), "older").unwrap();
        let place = choose(folder.path(), &["-o", "./x.pftrace", "--no-capture"]).unwrap();
        assert!(!place.keeps(0));
        for arguments in [&["-o", "./x.pftrace", "--keep-capture"][..], &["-o", "./x.pftrace"]] {
            let message = format!("{:#}", choose(folder.path(), arguments).unwrap_err());
            assert!(message.contains("x.syscap exists"), "{message}");
        }
        let forced = choose(folder.path(), &["-o", "./x.pftrace", "--force"]).unwrap();
        assert!(forced.keeps(u64::MAX), "the older one must not be taken for this recording's");
    }

    #[test]
    fn what_a_killed_recording_left_is_kept_unless_force_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join("x.syscap.partial");
        fs::write(&left, "precious").unwrap();
        let place = choose(folder.path(), &["-o", "./x.pftrace"]).unwrap();
        let message = place.capture_draft().unwrap_err().to_string();
        assert!(
            message.contains("x.syscap.partial exists") && message.contains("export"),
            "{message}"
        );
        assert_eq!(fs::read(&left).unwrap(), b"precious");

        let place = choose(folder.path(), &["-o", "./x.pftrace", "--force"]).unwrap();
        let mut draft = place.capture_draft().unwrap();
        assert!(!left.exists(), "it is to be replaced");
        fs::write(&left, "another recorder's").unwrap();
        let message = place.show_capture(&mut draft).unwrap_err().to_string();
        assert!(message.contains("x.syscap.partial exists"), "{message}");
        fs::remove_file(&left).unwrap();
        place.show_capture(&mut draft).unwrap();
        assert_eq!(fs::read(draft.keep()).unwrap(), b"");
    }

    #[test]
    fn the_default_name_holds_date_and_time() {
        let text = local_time();
        assert_eq!(text.len(), 15, "{text}");
        assert!(text.starts_with("20") && text.as_bytes()[8] == b'-', "{text}");
    }
}
