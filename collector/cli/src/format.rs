//! The formats of recordings, told by extension or by `--format`.

use clap::ValueEnum;
use std::path::Path;
use syscollect_exporters::TracyLayout;

/// A format that a recording is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// The raw capture of syscollect
    Syscap,
    /// Perfetto's trace, for ui.perfetto.dev
    Pftrace,
    /// Tracy's file, for its viewer
    Tracy,
    /// The Firefox Profiler's profile, compressed
    #[value(name = "json.gz")]
    JsonGz,
    /// The Firefox Profiler's profile
    Json,
    /// A profile for pprof
    #[value(name = "pb.gz")]
    PbGz,
    /// A flame graph
    Svg,
    /// Folded stacks, a line each
    Folded,
}

impl Format {
    /// All formats, as messages list them.
    const LIST: &str = ".syscap (the raw capture), .pftrace (Perfetto), .tracy (Tracy), .json.gz or .json (Firefox \
                        Profiler), .pb.gz (pprof), .svg (flame graph), .folded (folded stacks)";

    /// The format of an output: `asked` by `--format`, else told by the extension.
    pub(crate) fn of_output(path: &Path, asked: Option<Self>) -> Result<Self, String> {
        if let Some(format) = asked {
            return Ok(format);
        }
        if path == Path::new("-") {
            return Err(
                "standard output has no extension that tells the format: add --format, such as --format pftrace".into(),
            );
        }
        // At the end of the name, because some extensions have two parts.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let has = |format: &Self| name.strip_suffix(format.extension()).is_some_and(|stem| stem.ends_with('.'));
        if let Some(format) = Self::value_variants().iter().find(|format| has(format)) {
            return Ok(*format);
        }
        match path.extension().and_then(|extension| extension.to_str()) {
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
            Self::JsonGz => "json.gz",
            Self::Json => "json",
            Self::PbGz => "pb.gz",
            Self::Svg => "svg",
            Self::Folded => "folded",
        }
    }

    /// How to look at a finished file; one for Tracy is of that layout.
    pub(crate) fn how_to_open(self, path: &Path, layout: TracyLayout) -> String {
        match self {
            Self::Pftrace => format!("open https://ui.perfetto.dev and drop {} into it", path.display()),
            Self::Tracy => format!("open {} in the Tracy Profiler, {layout} or newer", path.display()),
            Self::JsonGz | Self::Json => {
                format!("open https://profiler.firefox.com and drop {} into it", path.display())
            }
            Self::PbGz => format!("go tool pprof -http : {}", path.display()),
            Self::Svg => format!("open {} in a browser", path.display()),
            Self::Folded => {
                format!("drop {} into https://speedscope.app, or draw it with a flame graph tool", path.display())
            }
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
        assert_eq!(Format::of_output(Path::new("b.json.gz"), None), Ok(Format::JsonGz));
        assert_eq!(Format::of_output(Path::new("b.gz.json"), None), Ok(Format::Json));
        assert_eq!(Format::of_output(Path::new("b.pb.gz"), None), Ok(Format::PbGz));
        assert_eq!(Format::of_output(Path::new("b.svg"), None), Ok(Format::Svg));
        assert_eq!(Format::of_output(Path::new("b.folded"), None), Ok(Format::Folded));
        assert_eq!(Format::of_output(Path::new("b"), Some(Format::Pftrace)), Ok(Format::Pftrace));
    }

    #[test]
    fn another_extension_lists_the_formats() {
        for name in ["trace.gz", "trace"] {
            let message = Format::of_output(Path::new(name), None).unwrap_err();
            assert!(
                message.contains(".syscap") && message.contains(".pftrace") && message.contains(".tracy"),
                "{message}"
            );
        }
        assert!(Format::of_output(Path::new("-"), None).unwrap_err().contains("--format"));
    }
}
