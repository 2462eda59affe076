//! What to probe, as a user asked for it.

use crate::glob::Glob;
use crate::preset::{known_name, known_nesting};
use crate::spec_parse::argument_name;
use std::fmt;
use std::path::{Path, PathBuf};

/// How many functions one pattern may match where nobody says otherwise.
pub const FUNCTIONS_MAX_DEFAULT: usize = 1000;

/// One thing to probe.
///
/// ```
/// use syscollect_probes::Spec;
/// let spec = Spec::usdt("python:line").unwrap();
/// assert_eq!(spec.to_string(), "usdt python:line");
/// let zone = Spec::zone("python:function__entry..function__return").unwrap();
/// let Spec::Zone(zone) = zone else { panic!() };
/// assert_eq!(zone.named_by, Some(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// Every hit of some USDT probes is an event.
    Usdt(ProbeSelector),
    /// What lies between the hits of two USDT probes on a thread is a zone.
    Zone(ZoneSpec),
    /// What lies between a function's entry and its return is a zone.
    Function(FunctionSpec),
}

/// USDT probes by file, provider and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSelector {
    /// In which files; `None` for all.
    pub file: Option<FileSelector>,
    /// Of which providers.
    pub provider: Glob,
    /// Of which names.
    pub name: Glob,
    /// What the user said of their arguments, from the first one on; may be fewer or more than a
    /// probe has.
    pub arguments: Vec<ArgumentSpec>,
}

/// Files by their path or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSelector {
    /// The file at this path; it has a slash.
    Path(PathBuf),
    /// Files of such a name in any folder, or libraries that name themselves so (soname).
    Name(Glob),
}

/// What the user said of an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentSpec {
    /// Its name; `None` for `argN`.
    pub name: Option<String>,
    /// What it is.
    pub kind: ArgumentKind,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A text where 8 bytes point to what looks like one, else a number.
    #[default]
    Auto,
    /// The address of a text.
    Text,
    /// A number.
    Integer,
}

/// A zone between a probe and whichever of others comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSpec {
    /// Where it begins; without wildcards.
    pub begin: ProbeSelector,
    /// Where it ends: one at least, each once, without wildcards.
    pub ends: Vec<ProbeSelector>,
    /// The argument of the begin that names the zone, counting from 0; `None` for the probe's name.
    pub named_by: Option<u8>,
    /// Whether one may begin on a thread while another is open there; `None` where that is told by
    /// what is recorded.
    pub nests: Option<bool>,
}

/// Functions of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSpec {
    /// In which files.
    pub library: FileSelector,
    /// Of which names, raw or demangled.
    pub function: Glob,
    /// To match more functions than this is an error.
    pub limit: usize,
}

impl ProbeSelector {
    /// Whether a probe of this provider and name is meant, its file aside.
    pub fn matches(&self, provider: &str, name: &str) -> bool {
        self.provider.matches(provider) && self.name.matches(name)
    }

    /// Whether the file at `path`, with this soname, may have a probe that is meant.
    pub fn matches_file(&self, path: &Path, soname: Option<&str>) -> bool {
        self.file.as_ref().is_none_or(|file| file.matches(path, soname))
    }
}

impl FileSelector {
    /// Whether the file at `path`, as its process sees it, with this soname, is meant.
    pub fn matches(&self, path: &Path, soname: Option<&str>) -> bool {
        match self {
            Self::Path(own) => own == path,
            Self::Name(name) => {
                let file_name =
                    path.file_name().is_some_and(|own| name.matches(&own.to_string_lossy()));
                file_name || soname.is_some_and(|soname| name.matches(soname))
            }
        }
    }
}

impl ArgumentKind {
    /// As a [definition](https://docs.rs/syscollect-store) of an argument has it: a text for sure,
    /// for sure not, or where it looks like one.
    pub fn text(self) -> Option<bool> {
        match self {
            Self::Auto => None,
            Self::Text => Some(true),
            Self::Integer => Some(false),
        }
    }
}

impl Spec {
    /// The parts of the spec that choose files: one, or one for each probe of a zone.
    pub fn files(&self) -> impl Iterator<Item = Option<&FileSelector>> {
        let (first, ends) = match self {
            Self::Usdt(probe) => (probe.file.as_ref(), &[][..]),
            Self::Zone(zone) => (zone.begin.file.as_ref(), &zone.ends[..]),
            Self::Function(function) => (Some(&function.library), &[][..]),
        };
        std::iter::once(first).chain(ends.iter().map(|end| end.file.as_ref()))
    }

    /// Makes relative paths absolute: what they are relative to is the user's folder.
    pub fn set_folder(&mut self, folder: &Path) {
        let files: Vec<&mut FileSelector> = match self {
            Self::Usdt(probe) => probe.file.iter_mut().collect(),
            Self::Zone(zone) => {
                let ends = zone.ends.iter_mut().filter_map(|end| end.file.as_mut());
                zone.begin.file.iter_mut().chain(ends).collect()
            }
            Self::Function(function) => vec![&mut function.library],
        };
        for file in files {
            if let FileSelector::Path(path) = file {
                *path = folder.join(&path);
            }
        }
    }
}

/// As a line in a file of probes.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usdt(probe) => write!(f, "usdt {probe}"),
            Self::Zone(zone) => write!(f, "zone {zone}"),
            Self::Function(function) => write!(f, "function {function}"),
        }
    }
}

impl fmt::Display for ProbeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
        }
        write!(f, "{}:{}", self.provider, self.name)?;
        if !self.arguments.is_empty() {
            let arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
            write!(f, "({})", arguments.join(","))?;
        }
        Ok(())
    }
}

impl fmt::Display for FileSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for ArgumentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or(""))?;
        match self.kind {
            ArgumentKind::Auto => Ok(()),
            ArgumentKind::Text => f.write_str(":str"),
            ArgumentKind::Integer => f.write_str(":int"),
        }
    }
}

impl fmt::Display for ZoneSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends: Vec<String> = self.ends.iter().map(ToString::to_string).collect();
        write!(f, "{}..{}", self.begin, ends.join("|"))?;
        let (provider, name) = (self.begin.provider.as_str(), self.begin.name.as_str());
        // What goes without saying is not said.
        if let Some(number) =
            self.named_by.filter(|number| known_name(provider, name) != Some(*number))
        {
            write!(f, ",name={}", argument_name(&self.begin, number))?;
        }
        match self.nests.filter(|nests| known_nesting(provider, name) != Some(*nests)) {
            Some(true) => f.write_str(",nests=yes"),
            Some(false) => f.write_str(",nests=no"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FunctionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.library, self.function)
    }
}
