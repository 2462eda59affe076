//! Where a recording goes: decided, and checked, before it begins.

use super::backend::files::{DRAFT, RAW, local_time};
use super::options::{Options, Output};
use crate::format::Format;
use crate::output::{DraftFile, Target};
use crate::owner::Owner;
use anyhow::{Context, Result, anyhow, bail};
use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

/// The files of a recording: a draft while it runs; then `x.pftrace`, the raw capture, or both. The
/// capture is `x.syscap`, on Windows `x.etl`.
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
    pub(crate) force: bool,
}

/// Whether the raw capture stays beside the exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepCapture {
    /// It does.
    Always,
    /// Up to 100 MB: `report` reads it, and other formats are made of it.
    #[cfg_attr(windows, expect(dead_code, reason = "only the recorder of Linux asks for it"))]
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
        match &options.output {
            Output::File(path) => Self::named(path, options, owner),
            Output::Default => Self::default_name(options, owner),
            Output::Standard => {
                if std::io::stdout().is_terminal() {
                    bail!(
                        "standard output is a terminal: send it to a file or a program, or name a \
                         file with -o"
                    );
                }
                let files = Self::default_name(options, owner)?;
                // Who pipes wants no files unasked.
                let keep = match options.keep {
                    KeepCapture::Always => KeepCapture::Always,
                    _ => KeepCapture::Never,
                };
                let format = options.export.unwrap_or(Format::Syscap);
                Ok(Self { export: None, standard_output: Some(format), keep, ..files })
            }
        }
    }

    fn named(path: &Path, options: &Options, owner: Option<Owner>) -> Result<Self> {
        let output = Target::new(path, options.force, owner)?;
        let (export, capture, keep) = match options.export {
            None => (None, output, KeepCapture::Always),
            Some(format) => {
                let capture = capture_beside(&output, format, options.keep)?;
                (Some((output, format)), capture, options.keep)
            }
        };
        Ok(Self { export, capture, keep, standard_output: None, force: options.force })
    }

    /// `./syscollect-20261231-235959.pftrace`, or with `-2` and so on where
    /// another recording began in the same second.
    fn default_name(options: &Options, owner: Option<Owner>) -> Result<Self> {
        let stem = format!("syscollect-{}", local_time());
        let extension = options.export.map_or(RAW, Format::extension);
        let numbered = (2..100).map(|number| format!("{stem}-{number}"));
        let stem = std::iter::once(stem.clone())
            .chain(numbered)
            .find(|stem| [extension, RAW, DRAFT].iter().all(|end| is_free(stem, end)))
            .unwrap_or(stem);
        Self::named(Path::new(&format!("{stem}.{extension}")), options, owner)
    }

    /// Whether the launched command must keep off standard output.
    pub(crate) fn is_standard_output(&self) -> bool {
        self.standard_output.is_some()
    }

    /// The capture's name while it is recorded.
    pub(crate) fn draft_name(&self) -> OsString {
        let mut name = self.capture.stem();
        name.push(format!(".{DRAFT}"));
        name
    }

    /// Where it lies meanwhile.
    pub(crate) fn draft_path(&self) -> PathBuf {
        self.capture.path().with_file_name(self.draft_name())
    }

    /// Keeps the capture under its final name, or where that is taken where it is.
    pub(crate) fn keep_capture(&self, draft: DraftFile) -> PathBuf {
        let partial = draft.path();
        draft.publish(&self.capture).unwrap_or(partial)
    }
}

/// What to do with a capture of which an export did not finish.
pub(crate) fn advice_on_unexported(capture: &Path) -> String {
    format!(
        "the export did not finish; the capture is {0} (syscollect export {0} -o FILE.pftrace)",
        capture.display()
    )
}

/// Whether nothing has this name in the current folder.
fn is_free(stem: &str, extension: &str) -> bool {
    std::fs::symlink_metadata(format!("{stem}.{extension}")).is_err()
}

/// The capture beside an exported file; only one that may stay must have its name free.
fn capture_beside(output: &Target, format: Format, keep: KeepCapture) -> Result<Target> {
    let name = format.raw_beside(output.name(), RAW);
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
pub(crate) fn with_advice_on_existing(error: anyhow::Error, path: &Path) -> anyhow::Error {
    if !is_existing(&error) {
        return error;
    }
    anyhow!(
        "{} exists: a recording that was cut off, or one that still runs. Export it with \
         syscollect export {0} -o FILE.pftrace, remove it, or add --force to replace it",
        path.display()
    )
}

/// Whether something lies there already.
pub(crate) fn is_existing(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::AlreadyExists)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use std::fs;

    /// The files that these arguments ask for; `./` stands for the folder.
    pub(in crate::record) fn choose(folder: &Path, arguments: &[&str]) -> Result<OutputFiles> {
        let in_folder = arguments.iter().map(|argument| match argument.strip_prefix("./") {
            Some(name) => folder.join(name).to_str().unwrap().to_owned(),
            None => (*argument).to_owned(),
        });
        let arguments = std::iter::once("syscollect".to_owned()).chain(in_folder);
        OutputFiles::choose(&Cli::try_parse_from(arguments)?.record.finish()?, None)
    }

    #[test]
    fn a_capture_is_its_own_output() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("x.{RAW}");
        let files = choose(folder.path(), &["-o", &format!("./{name}")]).unwrap();
        assert!(files.export.is_none() && files.keep == KeepCapture::Always);
        assert_eq!(files.capture.path(), folder.path().join(name));
    }

    #[test]
    fn a_capture_lies_beside_what_it_is_exported_to() {
        let folder = tempfile::tempdir().unwrap();
        for (output, stem) in [("x.v2.pftrace", "x.v2"), ("y.json.gz", "y")] {
            let files = choose(folder.path(), &["-o", &format!("./{output}")]).unwrap();
            let (export, _) = files.export.as_ref().unwrap();
            assert_eq!(export.path(), folder.path().join(output));
            assert_eq!(files.capture.path(), folder.path().join(format!("{stem}.{RAW}")));
            assert_eq!(files.draft_path(), folder.path().join(format!("{stem}.{DRAFT}")));
        }
    }

    #[test]
    fn a_kept_capture_must_have_its_name_free() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(format!("x.{RAW}")), "older").unwrap();
        let kept = ["-o", "./x.pftrace", "--keep-capture"];
        let message = format!("{:#}", choose(folder.path(), &kept).unwrap_err());
        assert!(message.contains(&format!("x.{RAW} exists")), "{message}");
        choose(folder.path(), &[&kept[..], &["--force"]].concat()).unwrap();
    }

    #[test]
    fn the_default_name_holds_date_and_time() {
        let text = local_time();
        assert_eq!(text.len(), 15, "{text}");
        assert!(text.starts_with("20") && text.as_bytes()[8] == b'-', "{text}");
    }
}
