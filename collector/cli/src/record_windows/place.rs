//! Where a recording goes: decided, and checked, before it begins.

use super::options::Options;
use crate::format::Format;
use crate::output::{Draft, Target};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::PathBuf;
use syscollect_windows::system::local_time;

/// The files of a recording: `x.partial.etl` while it runs; then `x.pftrace`, `x.etl`, or both.
#[derive(Debug)]
pub(super) struct OutputFiles {
    /// The exported file; `None` where the raw trace is the output.
    pub(super) export: Option<(Target, Format)>,
    /// The raw trace under its final name. Without `keep` it only takes it when the export fails.
    pub(super) raw: Target,
    /// Whether the raw trace stays.
    pub(super) keep: bool,
}

impl OutputFiles {
    /// Decides and checks.
    ///
    /// # Errors
    ///
    /// A message that names what is in the way and how to go on.
    pub(super) fn choose(options: &Options) -> Result<Self> {
        let path = options.output.clone().unwrap_or_else(|| default_name(options.format));
        let output = Target::new(&path, options.force, None)?;
        let Some(format) = options.format else {
            return Ok(Self { export: None, raw: output, keep: true });
        };
        let mut name = stem(&output, format);
        name.push(".etl");
        let raw =
            if options.keep_capture { output.beside(name)? } else { output.beside_unchecked(name) };
        Ok(Self { export: Some((output, format)), raw, keep: options.keep_capture })
    }

    /// Makes the file that Windows will write, and says where it is. Windows opens it
    /// by its name, for which nobody else may hold it.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or an unfinished recording lies there.
    pub(super) fn begin(&self, force: bool) -> Result<PathBuf> {
        let path = self.raw.path().with_file_name(self.partial());
        if force && path.is_file() {
            std::fs::remove_file(&path)
                .with_context(|| format!("cannot replace {}", path.display()))?;
        } else if path.exists() {
            bail!(
                "{0} exists: a recording that was cut off, or one that still runs. Export it with syscollect export \
                 {0} -o FILE.pftrace, remove it, or add --force to replace it",
                path.display()
            );
        }
        let path = self.raw.draft_named(self.partial())?.keep();
        std::path::absolute(&path)
            .with_context(|| format!("cannot tell the full path of {}", path.display()))
    }

    /// The file that Windows has written, removed when it is dropped unfinished.
    pub(super) fn recorded(&self) -> Result<Draft> {
        self.raw.adopt(self.partial())
    }

    /// An extension of a trace, so that it can be exported as it is.
    fn partial(&self) -> OsString {
        let mut name = self.raw.stem();
        name.push(".partial.etl");
        name
    }
}

/// `x` of `x.json.gz`.
fn stem(output: &Target, format: Format) -> OsString {
    let stem = output.stem();
    let first = format.extension().split_once('.').map(|(first, _)| format!(".{first}"));
    let shorter = first.and_then(|first| stem.to_str()?.strip_suffix(&first).map(OsString::from));
    shorter.unwrap_or(stem)
}

/// `syscollect-20261231-235959.pftrace`, in the current folder.
fn default_name(format: Option<Format>) -> PathBuf {
    PathBuf::from(format!(
        "syscollect-{}.{}",
        local_time(),
        format.map_or("etl", Format::extension)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use std::fs;
    use std::path::Path;

    fn place(folder: &Path, name: &str, more: &[&str]) -> Result<OutputFiles> {
        let path = folder.join(name);
        let arguments = ["syscollect", "-o", path.to_str().unwrap()];
        OutputFiles::choose(&Cli::try_parse_from(arguments.iter().chain(more))?.record.finish()?)
    }

    #[test]
    fn a_recording_lies_beside_its_output_until_it_is_exported() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "x.json.gz", &[]).unwrap();
        assert!(!place.keep && place.export.is_some());
        assert_eq!(place.begin(false).unwrap(), folder.path().join("x.partial.etl"));
        assert_eq!(place.raw.path(), folder.path().join("x.etl"));
    }

    #[test]
    fn what_windows_has_written_gets_the_name_of_the_raw_trace() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "x.etl", &[]).unwrap();
        fs::write(place.begin(false).unwrap(), "written").unwrap();
        place.recorded().unwrap().publish(&place.raw).unwrap();
        assert_eq!(fs::read(folder.path().join("x.etl")).unwrap(), b"written");
        assert!(!folder.path().join("x.partial.etl").exists());
    }

    #[test]
    fn what_a_killed_recorder_left_is_kept_unless_force_is_given() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.partial.etl"), "precious").unwrap();
        let place = place(folder.path(), "x.pftrace", &[]).unwrap();
        let message = place.begin(false).unwrap_err().to_string();
        assert!(message.contains("export") && message.contains("--force"), "{message}");
        assert_eq!(fs::read(folder.path().join("x.partial.etl")).unwrap(), b"precious");
        assert_eq!(fs::read(place.begin(true).unwrap()).unwrap(), b"");
    }

    #[test]
    fn a_raw_trace_that_stays_must_have_its_name_free() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.etl"), "older").unwrap();
        place(folder.path(), "x.pftrace", &[]).unwrap();
        let message =
            place(folder.path(), "x.pftrace", &["--keep-capture"]).unwrap_err().to_string();
        assert!(message.contains("x.etl exists"), "{message}");
    }

    #[test]
    fn the_default_name_holds_date_and_time() {
        let name = default_name(None).display().to_string();
        assert!(name.starts_with("syscollect-20") && name.ends_with(".etl"), "{name}");
        assert_eq!(name.len(), "syscollect-20261231-235959.etl".len());
    }
}
