//! The USDT probes of an ELF file.

use crate::arch::is_nop;
use crate::argument::{ARGUMENTS_MAX, Argument};
use crate::error::ProbeError;
use crate::note::{self, Note, Warnings};
use crate::operand::{Surroundings, parse_arguments};
use crate::preset::known_arguments;
use crate::spec::{ArgumentSpec, ProbeSelector};
use crate::symbols;
use rustc_hash::FxHashSet;
use std::cell::RefCell;
use syscollect_elf::{Elf, ReadRef};

/// A place in a file that reports when a thread passes it.
///
/// Several may have the same provider and name: the compiler copied the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtProbe {
    /// Who names it.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Where its site lies in the file, bytes.
    pub offset: u64,
    /// Where its semaphore lies in the file, bytes: a `u16` that counts who listens; `None` if it
    /// has none.
    pub semaphore: Option<u64>,
    /// Its arguments, at most [`ARGUMENTS_MAX`].
    pub arguments: Vec<Argument>,
}

/// The USDT probes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsdtProbes {
    /// All that could be read, in the order of their notes.
    pub probes: Vec<UsdtProbe>,
    /// What could not, and why: one sentence each, a bounded number.
    pub warnings: Vec<String>,
}

impl UsdtProbe {
    /// The name and kind of each of its arguments: as `selector` says, else as is known
    /// of the probe, else [`ArgumentKind::Auto`](crate::ArgumentKind) without a name.
    pub fn argument_specs(&self, selector: Option<&ProbeSelector>) -> Vec<ArgumentSpec> {
        let known = known_arguments(&self.provider, &self.name);
        let selected = selector.map_or(&[][..], |selector| &selector.arguments);
        let specs = (0..self.arguments.len()).map(|number| {
            let known: ArgumentSpec = known.get(number).cloned().unwrap_or_default();
            match selected.get(number) {
                Some(ArgumentSpec { name: Some(name), kind }) => {
                    ArgumentSpec { name: Some(name.clone()), kind: *kind }
                }
                Some(ArgumentSpec { name: None, kind }) if *kind != Default::default() => {
                    ArgumentSpec { name: known.name, kind: *kind }
                }
                _ => known,
            }
        });
        specs.collect()
    }
}

/// Reads the USDT probes of an ELF file for x86-64: from a slice of its bytes, or from an
/// `&`[`ReadCache`](syscollect_elf::ReadCache), which reads only what is needed.
///
/// A file without probes has an empty list. A note that makes no sense is a warning, and
/// the others are still listed. Memory is bounded by the bytes of notes, of which at most
/// 16 MiB are read.
///
/// # Errors
///
/// When it is no ELF file, one for another machine, or one whose headers point outside of it.
pub fn usdt_probes<'data, R: ReadRef<'data>>(data: R) -> Result<UsdtProbes, ProbeError> {
    usdt_probes_of(data, |_| true)
}

/// As [`usdt_probes`], of the providers that are wanted alone: what a note says is understood at
/// some cost, and a file may have a hundred thousand.
///
/// # Errors
///
/// As there.
pub fn usdt_probes_of<'data, R: ReadRef<'data>>(
    data: R,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<UsdtProbes, ProbeError> {
    let elf = Elf::of_x86_64(data)?;
    let sections = elf.sections()?;
    let mut warnings = Warnings::default();
    let notes = note::read(&elf, &sections, &mut warnings)?;
    let kept: Vec<&Note<'_>> =
        notes.iter().filter(|note| is_wanted(note.provider) && !is_dropped(note, &elf)).collect();
    let read_all =
        |symbol: &dyn Fn(&str) -> Option<u64>, warnings: &mut Warnings| -> Vec<UsdtProbe> {
            kept.iter()
                .filter_map(|note| probe(note, &elf, symbol).map_err(|why| warnings.add(why)).ok())
                .collect()
        };

    // Few files have arguments that name a variable; in these all are looked up at once.
    let wanted = RefCell::new(FxHashSet::default());
    let mut first_warnings = warnings.clone();
    let mut probes = read_all(
        &|name| {
            wanted.borrow_mut().insert(name.to_owned());
            None
        },
        &mut first_warnings,
    );
    let wanted = wanted.into_inner();
    if wanted.is_empty() {
        warnings = first_warnings;
    } else {
        let variables = symbols::variables(&sections, &wanted);
        probes = read_all(&|name| variables.get(name).copied().flatten(), &mut warnings);
    }
    Ok(UsdtProbes { probes, warnings: warnings.finish() })
}

/// Whether the linker dropped the code that the note is of, but not the note, whose address then is
/// the site's offset in its function, or a mark at the end of all addresses. It is no mistake.
fn is_dropped<'data, R: ReadRef<'data>>(note: &Note<'_>, elf: &Elf<'data, R>) -> bool {
    elf.code_start().is_some_and(|start| note.site < start) || note.site >= u64::MAX - 1
}

/// The probe of a note, or why it is none.
fn probe<'data, R: ReadRef<'data>>(
    note: &Note<'_>,
    elf: &Elf<'data, R>,
    symbol: &dyn Fn(&str) -> Option<u64>,
) -> Result<UsdtProbe, String> {
    let (provider, name) =
        (String::from_utf8_lossy(note.provider), String::from_utf8_lossy(note.name));
    let offset = elf.code_offset(note.site).ok_or_else(|| {
        format!("{provider}:{name}: its site {:#x} is not in the file's code", note.site)
    })?;
    // To put a probe into the middle of an instruction would break the program.
    if !is_nop(elf.bytes_up_to(offset, 4)) {
        return Err(format!(
            "{provider}:{name}: there is no nop at its site {:#x}, so it is no probe",
            note.site
        ));
    }
    let semaphore = match note.semaphore {
        None => None,
        Some(address) => Some(elf.data_offset(address, 2).ok_or_else(|| {
            format!(
                "{provider}:{name}: its semaphore {address:#x} is not in the file's data, so it \
                 cannot be turned on"
            )
        })?),
    };
    let arguments = String::from_utf8_lossy(note.arguments);
    let surroundings = Surroundings { site: note.site, fixed: elf.is_fixed(), symbol };
    let arguments: Vec<Argument> =
        parse_arguments(&arguments, &surroundings).take(ARGUMENTS_MAX + 1).collect();
    if arguments.len() > ARGUMENTS_MAX {
        return Err(format!("{provider}:{name}: it has more than {ARGUMENTS_MAX} arguments"));
    }
    Ok(UsdtProbe {
        provider: provider.into_owned(),
        name: name.into_owned(),
        offset,
        semaphore,
        arguments,
    })
}

#[cfg(test)]
#[path = "usdt_tests.rs"]
mod tests;
