//! The formats of recordings, told by extension or by `--format`.

use crate::escape::printable;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::ffi::{OsStr, OsString};
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

/// All formats: what `record` writes.
pub(crate) const ALL: &[Format] = &[
    Format::Syscap,
    Format::Pftrace,
    Format::Tracy,
    Format::JsonGz,
    Format::Json,
    Format::PbGz,
    Format::Svg,
    Format::Folded,
];

/// What a capture is exported to.
pub(crate) const EXPORTS: &[Format] = ALL.split_at(1).1;

/// What a flame graph is drawn in.
pub(crate) const PICTURES: &[Format] = &[Format::Svg, Format::Folded];

/// Reads `--format` of a sub-command that accepts these, and lists no others.
pub(crate) fn among(accepted: &'static [Format]) -> impl TypedValueParser<Value = Format> {
    let names = accepted.iter().filter_map(Format::to_possible_value);
    PossibleValuesParser::new(names).try_map(|name| Format::from_str(&name, false))
}

impl Format {
    /// The format of an output: `asked` by `--format`, else told by the extension.
    /// Messages list what is `accepted`; an extension of another format is the caller's to refuse.
    pub(crate) fn of_output(
        path: &Path,
        asked: Option<Self>,
        accepted: &[Self],
    ) -> Result<Self, String> {
        if let Some(format) = asked {
            return Ok(format);
        }
        if path == Path::new("-") {
            let first =
                accepted.iter().find(|format| **format != Self::Syscap).unwrap_or(&Self::Pftrace);
            return Err(format!(
                "standard output has no extension that tells the format: add --format, such as \
                 --format {}",
                first.extension()
            ));
        }
        // At the end of the name, because some extensions have two parts.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        for format in Self::value_variants() {
            if name.strip_suffix(format.extension()).is_some_and(|stem| stem.ends_with('.')) {
                return Ok(*format);
            }
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(other) => Err(format!(
                "no format has the extension {other:?}; there are {}. Change the name or add \
                 --format",
                list(accepted)
            )),
            None => Err(format!(
                "the format of {path:?} cannot be told without an extension; there are {}. Change \
                 the name or add --format",
                list(accepted)
            )),
        }
    }

    /// What opens it, in a word or two.
    fn what(self) -> &'static str {
        match self {
            Self::Syscap => "the raw capture",
            Self::Pftrace => "Perfetto",
            Self::Tracy => "Tracy",
            Self::JsonGz | Self::Json => "Firefox Profiler",
            Self::PbGz => "pprof",
            Self::Svg => "flame graph",
            Self::Folded => "folded stacks",
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

    /// The raw capture that `record` keeps beside a file of this format: `x.syscap` beside
    /// `x.json.gz`.
    pub(crate) fn raw_beside(self, output: &OsStr, extension: &str) -> OsString {
        let path = Path::new(output);
        let mut stem = path.file_stem().unwrap_or(output);
        if let Some((first, _)) = self.extension().split_once('.')
            && Path::new(stem).extension().is_some_and(|extension| extension == first)
        {
            stem = Path::new(stem).file_stem().unwrap_or(stem);
        }
        let mut name = stem.to_owned();
        name.push(format!(".{extension}"));
        name
    }

    /// How to look at a finished file; one for Tracy is of that layout.
    pub(crate) fn how_to_open(self, path: &Path, layout: TracyLayout) -> String {
        let (trace, path) = (shown(&path.with_extension("pftrace")), shown(path));
        match self {
            Self::Pftrace => format!("open https://ui.perfetto.dev and drop {path} into it"),
            Self::Tracy => format!("open {path} in the Tracy Profiler, {layout} or newer"),
            Self::JsonGz | Self::Json => {
                format!("open https://profiler.firefox.com and drop {path} into it")
            }
            Self::PbGz => format!("go tool pprof -http : {path}"),
            Self::Svg => format!("open {path} in a browser"),
            Self::Folded => {
                format!(
                    "drop {path} into https://speedscope.app, or draw it with a flame graph tool"
                )
            }
            Self::Syscap => {
                format!("syscollect export {path} -o {trace}")
            }
        }
    }
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// The formats as messages list them.
fn list(formats: &[Format]) -> String {
    let words = formats.iter().map(|format| format!(".{} ({})", format.extension(), format.what()));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(name: &str) -> Result<Format, String> {
        Format::of_output(Path::new(name), None, ALL)
    }

    #[test]
    fn the_capture_beside_an_output_has_its_name_without_the_extension() {
        for (format, output, capture) in [
            (Format::Pftrace, "x.v2.pftrace", "x.v2.syscap"),
            (Format::JsonGz, "x.json.gz", "x.syscap"),
            (Format::PbGz, "x.v2.pb.gz", "x.v2.syscap"),
            (Format::JsonGz, "x.gz", "x.syscap"),
            (Format::Pftrace, "x", "x.syscap"),
        ] {
            assert_eq!(format.raw_beside(OsStr::new(output), "syscap"), capture, "{output}");
        }
    }

    #[test]
    fn the_extension_tells_the_format_unless_it_is_asked_for() {
        assert_eq!(reported("a/b.pftrace"), Ok(Format::Pftrace));
        assert_eq!(reported("b.c.syscap"), Ok(Format::Syscap));
        assert_eq!(reported("b.tracy"), Ok(Format::Tracy));
        assert_eq!(reported("b.json.gz"), Ok(Format::JsonGz));
        assert_eq!(reported("b.gz.json"), Ok(Format::Json));
        assert_eq!(reported("b.pb.gz"), Ok(Format::PbGz));
        assert_eq!(reported("b.svg"), Ok(Format::Svg));
        assert_eq!(reported("b.folded"), Ok(Format::Folded));
        assert_eq!(
            Format::of_output(Path::new("b"), Some(Format::Pftrace), ALL),
            Ok(Format::Pftrace)
        );
    }

    #[test]
    fn every_format_is_among_all() {
        assert_eq!(ALL, Format::value_variants());
        assert!(!EXPORTS.contains(&Format::Syscap) && EXPORTS.len() == ALL.len() - 1);
    }

    #[test]
    fn another_extension_lists_the_formats_that_are_accepted() {
        for name in ["trace.gz", "trace"] {
            let message = reported(name).unwrap_err();
            assert!(
                message.contains(".syscap")
                    && message.contains(".pftrace")
                    && message.contains(".tracy"),
                "{message}"
            );
            let message = Format::of_output(Path::new(name), None, PICTURES).unwrap_err();
            assert!(message.contains(".svg (flame graph), .folded (folded stacks)."), "{message}");
        }
        assert!(reported("-").unwrap_err().contains("--format pftrace"));
        assert!(
            Format::of_output(Path::new("-"), None, PICTURES).unwrap_err().contains("--format svg")
        );
    }
}
