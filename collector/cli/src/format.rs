//! The formats of recordings, told by extension or by `--format`.

use std::path::Path;

/// A format that a recording is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// The raw capture of syscollect
    Syscap,
    /// Perfetto's trace, for ui.perfetto.dev
    Pftrace,
    /// Tracy's file, for its viewer
    Tracy,
}

impl Format {
    /// All formats, as messages list them.
    const LIST: &str = ".syscap (the raw capture), .pftrace (Perfetto), .tracy (Tracy)";

    /// The format of an output: `asked` by `--format`, else told by the extension.
    pub(crate) fn of_output(path: &Path, asked: Option<Self>) -> Result<Self, String> {
        if let Some(format) = asked {
            return Ok(format);
        }
        if path == Path::new("-") {
            return Err("standard output has no extension that tells the format: add --format pftrace or --format \
                        syscap"
                .into());
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("syscap") => Ok(Self::Syscap),
            Some("pftrace") => Ok(Self::Pftrace),
            Some("tracy") => Ok(Self::Tracy),
            Some(other) => Err(format!(
                "no format has the extension .{other}; there are {}. Change the name or add --format",
                Self::LIST
            )),
            None => Err(format!(
                "the format of {path:?} cannot be told without an extension; there are {}. Change the name or add \
                 --format",
                Self::LIST
            )),
        }
    }

    /// The extension of its files, without the dot.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Syscap => "syscap",
            Self::Pftrace => "pftrace",
            Self::Tracy => "tracy",
        }
    }

    /// How to look at a finished file.
    pub(crate) fn how_to_open(self, path: &Path) -> String {
        match self {
            Self::Pftrace => format!("open https://ui.perfetto.dev and drop {} into it", path.display()),
            Self::Tracy => format!("open {} in the Tracy Profiler, 0.11 or newer", path.display()),
            Self::Syscap => {
                format!("syscollect export {} -o {}", path.display(), path.with_extension("pftrace").display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_tells_the_format_unless_it_is_asked_for() {
        assert_eq!(Format::of_output(Path::new("a/b.pftrace"), None), Ok(Format::Pftrace));
        assert_eq!(Format::of_output(Path::new("b.c.syscap"), None), Ok(Format::Syscap));
        assert_eq!(Format::of_output(Path::new("b.tracy"), None), Ok(Format::Tracy));
        assert_eq!(Format::of_output(Path::new("b"), Some(Format::Pftrace)), Ok(Format::Pftrace));
    }

    #[test]
    fn another_extension_lists_the_formats() {
        for name in ["trace.json", "trace"] {
            let message = Format::of_output(Path::new(name), None).unwrap_err();
            assert!(
                message.contains(".syscap") && message.contains(".pftrace") && message.contains(".tracy"),
                "{message}"
            );
        }
        assert!(Format::of_output(Path::new("-"), None).unwrap_err().contains("--format"));
    }
}
