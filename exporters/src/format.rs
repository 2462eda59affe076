//! The formats by name and by file extension.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A format that a session can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A Perfetto trace, `.pftrace`: [`crate::PerfettoExporter`].
    Perfetto,
    /// A Tracy file, `.tracy`: [`crate::TracyExporter`].
    Tracy,
    /// A profile for the Firefox Profiler, `.json.gz`: [`crate::FirefoxExporter`].
    FirefoxGzip,
    /// The same uncompressed, `.json`.
    Firefox,
    /// A profile for pprof, `.pb.gz`: [`crate::PprofExporter`].
    Pprof,
    /// A flame graph, `.svg`: [`crate::FlamegraphExporter`].
    Flamegraph,
    /// Folded stacks, `.folded`: [`crate::FoldedExporter`].
    Folded,
    /// Readable lines, `.txt`: [`crate::TextExporter`].
    Text,
}

/// A name or an extension that stands for no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The file's extension is none of the known ones.
    #[error("the extension of {} names no format that can be written; known are {}", path.display(), Format::list())]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// The name is none of the known ones.
    #[error("{name:?} names no format that can be written; known are {}", Format::list())]
    Name {
        /// What was given.
        name: String,
    },
}

impl Format {
    /// Every format, in the order in which help lists them.
    pub const ALL: [Self; 8] = [
        Self::Perfetto,
        Self::Tracy,
        Self::FirefoxGzip,
        Self::Firefox,
        Self::Pprof,
        Self::Flamegraph,
        Self::Folded,
        Self::Text,
    ];

    /// The extension, without its dot; also the format's name on the command line.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Perfetto => "pftrace",
            Self::Tracy => "tracy",
            Self::FirefoxGzip => "json.gz",
            Self::Firefox => "json",
            Self::Pprof => "pb.gz",
            Self::Flamegraph => "svg",
            Self::Folded => "folded",
            Self::Text => "txt",
        }
    }

    /// The format that a file's extension stands for, in either case.
    ///
    /// # Errors
    ///
    /// [`FormatError::Extension`] for every other extension, and for none.
    pub fn from_path(path: &Path) -> Result<Self, FormatError> {
        // Compared at the name's end, because some extensions have two parts (`.json.gz`).
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        Self::ALL
            .into_iter()
            .find(|format| {
                name.strip_suffix(format.extension()).is_some_and(|stem| stem.ends_with('.'))
            })
            .ok_or_else(|| FormatError::Extension { path: path.to_owned() })
    }

    /// All extensions, as messages print them.
    fn list() -> String {
        Self::ALL.map(|format| format!(".{}", format.extension())).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    /// From a name as `--format` takes it, with or without a dot before it.
    fn from_str(name: &str) -> Result<Self, FormatError> {
        let bare = name.strip_prefix('.').unwrap_or(name);
        Self::ALL
            .into_iter()
            .find(|format| format.extension().eq_ignore_ascii_case(bare))
            .ok_or_else(|| FormatError::Name { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides() {
        assert_eq!(Format::from_path(Path::new("a/b.pftrace")), Ok(Format::Perfetto));
        assert_eq!(Format::from_path(Path::new("B.PFTRACE")), Ok(Format::Perfetto));
        assert_eq!(Format::from_path(Path::new("x.tracy")), Ok(Format::Tracy));
        assert_eq!(Format::from_path(Path::new("x.y.txt")), Ok(Format::Text));
        assert_eq!(Format::from_path(Path::new("x.json.gz")), Ok(Format::FirefoxGzip));
        assert_eq!(Format::from_path(Path::new("x.gz.json")), Ok(Format::Firefox));
    }

    #[test]
    fn any_other_extension_is_told_the_known_ones() {
        for path in ["trace.exe", "trace", "pftrace", "", "dir.pftrace/x"] {
            let message = Format::from_path(Path::new(path)).unwrap_err().to_string();
            assert!(
                message.contains(path)
                    && message
                        .contains(".pftrace, .tracy, .json.gz, .json, .pb.gz, .svg, .folded, .txt"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_format_is_found_by_the_name_it_prints() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            assert_eq!(format!(".{format}").parse(), Ok(format));
        }
        assert_eq!("exe".parse::<Format>(), Err(FormatError::Name { name: "exe".into() }));
    }
}
