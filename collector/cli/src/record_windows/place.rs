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
pub(super) struct Place {
    /// The exported file; `None` where the raw trace is the output.
    pub(super) export: Option<(Target, Format)>,
    /// The raw trace under its final name. Without `keep` it only takes it when the export fails.
    pub(super) raw: Target,
    /// Whether the raw trace stays.
    pub(super) keep: bool,
}

impl Place {
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
        let raw = if options.keep_capture { output.beside(name)? } else { output.beside_unchecked(name) };
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
            std::fs::remove_file(&path).with_context(|| format!("cannot replace {}", path.display()))?;
        } else if path.exists() {
            bail!(
                "{0} exists: a recording that was cut off, or one that still runs. Export it with syscollect export \
                 {0} -o FILE.pftrace, remove it, or add --force to replace it",
                path.display()
            );
        }
        let path = self.raw.draft_named(self.partial())?.keep();
        std::path::absolute(&path).with_context(|| format!("cannot tell the full path of {}", path.display()))
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
    PathBuf::from(format!("syscollect-{}.{}", local_time(), format.map_or("etl", Format::extension)))
}
