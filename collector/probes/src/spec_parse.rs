//! Reads what a user asked for: of the command line, and of a file of probes.

use crate::glob::GlobError;
use crate::nearest::{did_you_mean, nearest};
use crate::preset::{known_arguments, known_name, known_nesting};
use crate::spec::{
    ArgumentKind, ArgumentSpec, FUNCTIONS_MAX_DEFAULT, FileSelector, FunctionSpec, ProbeSelector,
    Spec, ZoneSpec,
};

/// Ends of one zone.
const ENDS_MAX: usize = 16;

/// Why a text is no [`Spec`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No provider, or no name.
    #[error("{0:?} is not PROVIDER:NAME, such as python:line or python:*")]
    NoProbe(String),
    /// No `..`.
    #[error(
        "{0:?} is not BEGIN..END or BEGIN..END|END, such as \
         python:function__entry..function__return or \
         postgresql:transaction__start..transaction__commit|transaction__abort"
    )]
    NoZone(String),
    /// No library, or no function.
    #[error("{0:?} is not LIBRARY:FUNCTION, such as libc.so.6:fopen*")]
    NoFunction(String),
    /// A pattern that is none.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// A wildcard where one probe is meant.
    #[error("{0:?} has wildcards, but the ends of a zone are one probe each")]
    WildZone(String),
    /// `(` without `)`, or text behind it.
    #[error(
        "{0:?}: the arguments' names stand in parentheses at the end, as in \
         python:line(filename:str,function:str,line)"
    )]
    Parentheses(String),
    /// A type that is none.
    #[error("{0:?} is no type of an argument: write str, int or auto")]
    Kind(String),
    /// More than a probe can have.
    #[error("{0:?} names more than {max} arguments", max = crate::ARGUMENTS_MAX)]
    TooManyArguments(String),
    /// An option of a zone that there is not.
    #[error("{0:?} is no option of a zone: write name=ARGUMENT, nests=yes or nests=no")]
    Option(String),
    /// More than there is room for.
    #[error("{0:?} has more than {ENDS_MAX} ends")]
    TooManyEnds(String),
    /// `name=` of an argument that there is not.
    #[error(
        "{name:?} is no argument of {probe}: give its number, counting from 0, or name the \
         arguments as in {probe}({name}:str){}",
        did_you_mean(nearest)
    )]
    NoArgument {
        /// What was asked for.
        name: String,
        /// Of which probe.
        probe: String,
        /// Arguments with nearly that name.
        nearest: Vec<String>,
    },
    /// A line of a file of probes that begins with something else.
    #[error(
        "{0:?} is none of usdt, zone, function; a line is one of these and what the option of that \
         name takes"
    )]
    Keyword(String),
}

/// What is wrong in a file of probes, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct LineError {
    /// The line, counting from 1.
    pub line: usize,
    /// What is wrong.
    #[source]
    pub error: SpecError,
}

impl Spec {
    /// Reads `[PATH:]PROVIDER:NAME[(ARGUMENT[:TYPE],...)]`, with wildcards.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn usdt(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        parse_selector(text, None).map(Self::Usdt)
    }

    /// Reads `BEGIN..END[|END...][,name=ARGUMENT][,nests=yes|no]`, where all are as in
    /// [`usdt`](Self::usdt) without wildcards, and an end's provider and path are the begin's where
    /// it has none.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn zone(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let split = split_zone(text).filter(|(begin, end)| !begin.is_empty() && !end.is_empty());
        let (begin, rest) = split.ok_or_else(|| SpecError::NoZone(text.to_owned()))?;
        let mut parts = split_outside(rest, ',');
        let begin = parse_selector(begin, None)?;
        let ends = parse_ends(parts.next().unwrap_or_default(), &begin)?;
        for selector in std::iter::once(&begin).chain(&ends) {
            if selector.provider.as_exact().is_none() || selector.name.as_exact().is_none() {
                return Err(SpecError::WildZone(selector.to_string()));
            }
        }
        let (provider, name) = (begin.provider.as_str(), begin.name.as_str());
        let (mut named_by, mut nests) = (known_name(provider, name), known_nesting(provider, name));
        for option in parts {
            match option.trim().split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
                Some(("name", argument)) => named_by = Some(argument_number(&begin, argument)?),
                Some(("nests", "yes")) => nests = Some(true),
                Some(("nests", "no")) => nests = Some(false),
                _ => return Err(SpecError::Option(option.trim().to_owned())),
            }
        }
        Ok(Self::Zone(ZoneSpec { begin, ends, named_by, nests }))
    }

    /// Reads `LIBRARY:FUNCTION`, the latter with wildcards.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn function(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let (library, function) = text
            .split_once(':')
            .filter(|(library, function)| {
                !library.is_empty() && !function.is_empty() && !function.starts_with(':')
            })
            .ok_or_else(|| SpecError::NoFunction(text.to_owned()))?;
        let library = parse_file_selector(library)?;
        Ok(Self::Function(FunctionSpec {
            library,
            function: function.parse()?,
            limit: FUNCTIONS_MAX_DEFAULT,
        }))
    }

    /// Reads a line of a file of probes: `usdt`, `zone` or `function`, and what they take.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn line(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let (keyword, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match keyword {
            "usdt" => Self::usdt(rest),
            "zone" => Self::zone(rest),
            "function" => Self::function(rest),
            other => Err(SpecError::Keyword(other.to_owned())),
        }
    }
}

/// Reads a file of probes: one on a line, empty lines, and comments from a `#` at the
/// beginning of a line or after a space.
///
/// # Errors
///
/// The first line that is none of these.
///
/// ```
/// use syscollect_probes::parse_file;
/// let specs = parse_file("# interpreter\nusdt python:gc__*\n\nfunction libc.so.6:fopen*  # files\n").unwrap();
/// assert_eq!(specs.len(), 2);
/// assert!(parse_file("usdt python").unwrap_err().to_string().starts_with("line 1: "));
/// ```
pub fn parse_file(text: &str) -> Result<Vec<Spec>, LineError> {
    let lines =
        text.lines().enumerate().map(|(before, line)| (before + 1, without_comment(line).trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty());
    lines
        .map(|(number, line)| Spec::line(line).map_err(|error| LineError { line: number, error }))
        .collect()
}

fn without_comment(line: &str) -> &str {
    let start = line
        .match_indices('#')
        .find(|(at, _)| line[..*at].chars().next_back().is_none_or(char::is_whitespace))
        .map_or(line.len(), |(at, _)| at);
    &line[..start]
}

/// Splits at the first `..` that follows a provider and a name: others are parts of a path, such as
/// `../lib.so`.
fn split_zone(text: &str) -> Option<(&str, &str)> {
    let at = text.match_indices("..").map(|(at, _)| at).find(|at| {
        let probe = text[..*at].split('(').next().unwrap_or_default();
        probe.rsplit_once(':').is_some_and(|(_, name)| !name.is_empty() && !name.contains('/'))
    })?;
    Some((text[..at].trim(), text[at + 2..].trim()))
}

/// Splits at every `separator` that is not in parentheses.
fn split_outside(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0i64;
    text.split(move |character: char| {
        depth += i64::from(character == '(') - i64::from(character == ')');
        depth <= 0 && character == separator
    })
}

/// Reads the ends of a zone, each once: what is attached twice would end two zones.
fn parse_ends(text: &str, begin: &ProbeSelector) -> Result<Vec<ProbeSelector>, SpecError> {
    let mut ends: Vec<ProbeSelector> = Vec::new();
    for end in split_outside(text, '|') {
        let end = parse_selector(end, Some(begin))?;
        if !ends.iter().any(|other| {
            (&other.file, &other.provider, &other.name) == (&end.file, &end.provider, &end.name)
        }) {
            ends.push(end);
        }
    }
    if ends.len() > ENDS_MAX { Err(SpecError::TooManyEnds(text.to_owned())) } else { Ok(ends) }
}

/// Reads a probe; `begin` is where a zone's end takes its provider from.
fn parse_selector(text: &str, begin: Option<&ProbeSelector>) -> Result<ProbeSelector, SpecError> {
    let text = text.trim();
    let (probe, arguments) = match text.split_once('(') {
        None => (text, Vec::new()),
        Some((probe, rest)) => {
            let inner = rest.strip_suffix(')').filter(|inner| !inner.contains(['(', ')']));
            let inner = inner.ok_or_else(|| SpecError::Parentheses(text.to_owned()))?;
            (probe.trim(), parse_arguments(text, inner)?)
        }
    };
    let (before, name) = match (probe.rsplit_once(':'), begin) {
        (Some((before, name)), _) => (Some(before), name),
        (None, Some(_)) => (None, probe),
        (None, None) => return Err(SpecError::NoProbe(text.to_owned())),
    };
    let (file, provider) = match (before, begin) {
        (None, Some(begin)) => (begin.file.clone(), begin.provider.clone()),
        (before, _) => {
            let before = before.unwrap_or_default();
            let (file, provider) =
                before.rsplit_once(':').map_or((None, before), |(f, provider)| (Some(f), provider));
            if provider.is_empty() || provider.contains('/') || file == Some("") {
                return Err(SpecError::NoProbe(text.to_owned()));
            }
            let file = file.map(parse_file_selector).transpose()?;
            (file.or_else(|| begin.and_then(|begin| begin.file.clone())), provider.parse()?)
        }
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(SpecError::NoProbe(text.to_owned()));
    }
    Ok(ProbeSelector { file, provider, name: name.parse()?, arguments })
}

fn parse_file_selector(text: &str) -> Result<FileSelector, SpecError> {
    Ok(match text.contains('/') {
        true => FileSelector::Path(text.into()),
        false => FileSelector::Name(text.parse()?),
    })
}

/// Reads what stands in the parentheses of `whole`: `filename:str,,line`.
fn parse_arguments(whole: &str, text: &str) -> Result<Vec<ArgumentSpec>, SpecError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let arguments: Vec<ArgumentSpec> =
        text.split(',').map(parse_argument).collect::<Result<_, _>>()?;
    match arguments.len() {
        0..=crate::ARGUMENTS_MAX => Ok(arguments),
        _ => Err(SpecError::TooManyArguments(whole.to_owned())),
    }
}

fn parse_argument(text: &str) -> Result<ArgumentSpec, SpecError> {
    let (name, kind) = text.split_once(':').unwrap_or((text, "auto"));
    let kind = match kind.trim() {
        "auto" => ArgumentKind::Auto,
        "str" => ArgumentKind::Text,
        "int" => ArgumentKind::Integer,
        other => return Err(SpecError::Kind(other.to_owned())),
    };
    let name = name.trim();
    Ok(ArgumentSpec { name: (!name.is_empty()).then(|| name.to_owned()), kind })
}

/// The names of a probe's arguments, as the user or a preset has them; empty where neither does.
fn argument_names(begin: &ProbeSelector) -> Vec<String> {
    let known = known_arguments(begin.provider.as_str(), begin.name.as_str());
    let numbers = 0..begin.arguments.len().max(known.len());
    let names =
        numbers.map(|number| name_of(&begin.arguments, number).or_else(|| name_of(&known, number)));
    names.map(Option::unwrap_or_default).collect()
}

fn name_of(specs: &[ArgumentSpec], number: usize) -> Option<String> {
    specs.get(number).and_then(|spec| spec.name.clone())
}

/// What an argument is called, so that [`argument_number`] finds it again: its name, or `argN`, or
/// where another has that for its name, its number.
pub(crate) fn argument_name(begin: &ProbeSelector, number: u8) -> String {
    let (names, generic) = (argument_names(begin), format!("arg{number}"));
    let own = names.get(usize::from(number)).filter(|name| {
        !name.is_empty() && names.iter().position(|other| other == *name) == Some(number.into())
    });
    match own {
        Some(name) => name.clone(),
        None if names.contains(&generic) => number.to_string(),
        None => generic,
    }
}

/// The number of the argument that `text` means: its number, `argN`, or its name as the user or a
/// preset has it.
fn argument_number(begin: &ProbeSelector, text: &str) -> Result<u8, SpecError> {
    let names = argument_names(begin);
    let by_name = names.iter().position(|name| !name.is_empty() && name == text);
    let number = by_name
        .or_else(|| text.strip_prefix("arg").unwrap_or(text).parse::<usize>().ok())
        .filter(|number| *number < crate::ARGUMENTS_MAX);
    number.and_then(|number| u8::try_from(number).ok()).ok_or_else(|| SpecError::NoArgument {
        name: text.to_owned(),
        probe: format!("{}:{}", begin.provider, begin.name),
        nearest: nearest(text, names, 3),
    })
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
