//! What one file has to probe, as it is shown.

use crate::escape::printable;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use syscollect_elf::{ElfError, ReadCache};
use syscollect_probes::{
    Argument, ArgumentKind, ArgumentSpec, Function, Functions, Glob, ProbeError, UsdtProbe,
    usdt_probes,
};
use syscollect_untrusted_files::OpenedFile;

/// Names that are kept for suggestions, of each file.
const OTHERS_MAX: usize = 1000;

/// What is to be listed.
#[derive(Debug)]
pub(super) struct ListingScope {
    pub(super) glob: Option<Glob>,
    pub(super) functions: bool,
}

/// What a file has of it.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) probes: Vec<ProbeReport>,
    pub(super) functions: Vec<FunctionReport>,
    pub(super) warnings: Vec<String>,
    /// Why functions were wanted and cannot be told.
    pub(super) missing_functions: Option<String>,
    /// Names that were not asked for.
    pub(super) others: Vec<String>,
}

/// A file with something to probe.
#[derive(Debug, Serialize)]
pub(super) struct FileReport {
    pub(super) path: String,
    pub(super) probes: Vec<ProbeReport>,
    pub(super) functions: Vec<FunctionReport>,
}

/// A place that reports when it is passed.
#[derive(Debug, Serialize)]
pub(super) struct ProbeReport {
    provider: String,
    name: String,
    /// Where it lies in the file, bytes.
    offset: u64,
    has_semaphore: bool,
    arguments: Vec<ArgumentReport>,
}

#[derive(Debug, Serialize)]
struct ArgumentReport {
    name: String,
    /// What is shown: type and place.
    value: String,
    /// As the note has it.
    note: String,
    supported: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionReport {
    name: String,
    symbol: String,
    offset: u64,
    size: u64,
}

/// Whether the error is that a file is none that could have probes.
pub(super) fn is_other_file(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(ProbeError::Elf(ElfError::NotElf | ElfError::OtherMachine { .. }))
    )
}

impl Listing {
    /// Reads what is wanted of a file.
    pub(super) fn read(file: &OpenedFile, wanted: &ListingScope) -> Result<Self, ProbeError> {
        let cache = ReadCache::new(file.reader());
        let mut listing = Self::default();
        let found = usdt_probes(&cache)?;
        listing.warnings = found.warnings;
        for probe in found.probes {
            if wanted.probe(&probe.provider, &probe.name) {
                listing.probes.push(ProbeReport::new(probe));
            } else if listing.others.len() < OTHERS_MAX {
                listing.others.push(format!("{}:{}", probe.provider, probe.name));
            }
        }
        if wanted.functions {
            listing.read_functions(Functions::read(&cache), wanted.glob.as_ref());
        }
        Ok(listing)
    }

    fn read_functions(
        &mut self,
        functions: Result<Functions<'_>, ProbeError>,
        glob: Option<&Glob>,
    ) {
        match (functions, glob) {
            (Ok(functions), None) => {
                self.functions = functions.all().map(FunctionReport::new).collect();
            }
            (Ok(functions), Some(glob)) => {
                self.functions = functions.all_matching(glob).map(FunctionReport::new).collect();
            }
            (Err(error), _) => self.missing_functions = Some(error.to_string()),
        }
    }
}

/// Why a file has no function that is wanted: the reason, or names that are near.
pub(super) fn nearest_functions(file: &OpenedFile, glob: &Glob) -> (Option<String>, Vec<String>) {
    let cache = ReadCache::new(file.reader());
    match Functions::read(&cache).and_then(|functions| functions.matching(glob, usize::MAX)) {
        Err(ProbeError::NoFunction { nearest, .. }) => (None, nearest),
        Err(error @ ProbeError::Unsuitable { .. }) => (Some(error.to_string()), Vec::new()),
        _ => (None, Vec::new()),
    }
}

impl ProbeReport {
    fn new(probe: UsdtProbe) -> Self {
        let specs = probe.argument_specs(None);
        let arguments = probe.arguments.iter().zip(specs).enumerate();
        Self {
            arguments: arguments
                .map(|(number, (argument, spec))| ArgumentReport::new(number, argument, spec))
                .collect(),
            provider: probe.provider,
            name: probe.name,
            offset: probe.offset,
            has_semaphore: probe.semaphore.is_some(),
        }
    }
}

impl ArgumentReport {
    fn new(number: usize, argument: &Argument, spec: ArgumentSpec) -> Self {
        let value = argument.describe();
        let value = match (spec.kind, value.split_once(' ')) {
            (ArgumentKind::Text, Some((_, place))) => format!("str {place}"),
            _ => value,
        };
        let name = spec.name.unwrap_or_else(|| format!("arg{number}"));
        Self { name, value, note: argument.to_string(), supported: argument.is_supported() }
    }
}

impl FunctionReport {
    fn new(Function { name, symbol, offset, size }: Function) -> Self {
        Self { name, symbol, offset, size }
    }
}

impl FileReport {
    /// Lines for people: the file, then what it has. Probes of one name that lie in several
    /// places are one line, with the arguments of the first.
    pub(super) fn text(&self) -> String {
        let mut text = printable(&self.path) + "\n";
        let mut counts = BTreeMap::<(&str, &str), usize>::new();
        for ProbeReport { provider, name, .. } in &self.probes {
            *counts.entry((provider, name)).or_default() += 1;
        }
        for probe in &self.probes {
            // What was counted is told at the first of them.
            let Some(count) = counts.remove(&(&probe.provider, &probe.name)) else { continue };
            // Writing to a String never fails.
            let _ = writeln!(text, "  usdt      {}", printable(&probe.text(count)));
        }
        for function in &self.functions {
            let _ = writeln!(text, "  function  {}", printable(&function.name));
        }
        text
    }
}

impl ProbeReport {
    fn text(&self, locations: usize) -> String {
        let arguments: Vec<String> =
            self.arguments.iter().map(|a| format!("{}: {}", a.name, a.value)).collect();
        let mut text = format!("{}:{}({})", self.provider, self.name, arguments.join(", "));
        if self.has_semaphore {
            text += "  semaphore";
        }
        if locations > 1 {
            let _ = write!(text, "  {locations} places");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(name: &str, arguments: &[&str], semaphore: Option<u64>) -> ProbeReport {
        let arguments = arguments.iter().map(|text| text.parse().unwrap()).collect();
        ProbeReport::new(UsdtProbe {
            provider: "python".to_owned(),
            name: name.to_owned(),
            offset: 7,
            semaphore,
            arguments,
        })
    }

    #[test]
    fn a_line_reads_like_a_declaration_and_places_of_one_name_are_one() {
        let entry = ["8@%rdi", "8@%rsi", "-4@112(%rsp)"];
        let report = FileReport {
            path: "/bin/x".to_owned(),
            probes: vec![
                probe("function__entry", &entry, Some(9)),
                probe("other", &["8f@%xmm0", "4@$5"], None),
                probe("function__entry", &entry, Some(9)),
            ],
            functions: vec![FunctionReport::new(Function {
                name: "foo::bar(int)".to_owned(),
                symbol: "_ZN3foo3barEi".to_owned(),
                offset: 1,
                size: 2,
            })],
        };
        assert_eq!(
            report.text(),
            "/bin/x\n  usdt      python:function__entry(filename: str rdi, function: str rsi, \
             line: i32 [rsp+112])  semaphore  2 places\n  usdt      python:other(arg0: f64 %xmm0 \
             (cannot be read), arg1: u32 5)\n  function  foo::bar(int)\n"
        );
    }

    #[test]
    fn a_file_cannot_paint_the_terminal() {
        let report = FileReport {
            path: "a\u{1b}[2J".to_owned(),
            probes: vec![probe("\u{7}", &[], None)],
            functions: vec![],
        };
        assert!(!report.text().contains(['\u{1b}', '\u{7}']));
    }
}
