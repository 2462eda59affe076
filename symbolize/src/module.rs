//! Naming offsets in one user module.

use crate::elf::Layout;
use crate::held::{names_a_file, open_regular, plain_path};
use crate::os::path_of;
use crate::source::{ElfSource, Named};
use crate::{HeldFiles, ModuleRequest, Options, build_id_of, vdso};
use std::fs::File;
use std::path::{Path, PathBuf};
use syscollect_model::{BuildId, Symbol, SymbolTable};

/// Larger symbol tables are no linker's work; reading one would take as much memory again.
const SYMBOL_BYTES_MAX: u64 = 512 << 20;
/// Functions in assembly are not longer.
const SIZELESS_MAX: u64 = 4096;

/// Names what `request` asks for.
pub(crate) fn name(held: &HeldFiles, options: &Options, request: &ModuleRequest) -> SymbolTable {
    let ModuleRequest { path, build_id, offsets } = request;
    let mut table = SymbolTable { path: path.clone(), build_id: build_id.clone(), ..SymbolTable::default() };
    let mut notes = Vec::new();
    match find(held, path, build_id, &mut notes) {
        Ok(file) => table.symbols = symbols(file.as_ref(), options, build_id, offsets, &mut notes),
        Err(reason) => notes.push(reason),
    }
    table.note = notes.join("; ");
    table
}

/// A file that is held, or was opened for now.
enum Found<'h> {
    Held(&'h File),
    Opened(File),
}

impl AsRef<File> for Found<'_> {
    fn as_ref(&self) -> &File {
        match self {
            Self::Held(file) => file,
            Self::Opened(file) => file,
        }
    }
}

fn find<'h>(held: &'h HeldFiles, path: &str, build_id: &BuildId, notes: &mut Vec<String>) -> Result<Found<'h>, String> {
    if let Some(file) = held.file(path, build_id) {
        return Ok(Found::Held(file));
    }
    if held.is_ambiguous(path, build_id) {
        return Err(format!("several files without a build id had the path {path}: not named"));
    }
    if path == vdso::PATH {
        let file = vdso::own().map_err(|error| format!("the vDSO cannot be copied: {error}"))?;
        return same_build(Found::Opened(file), path, build_id);
    }
    if !names_a_file(path) {
        return Err(format!("{path:?} is memory without a file, such as JIT code: not named yet"));
    }
    let file = open_regular(Path::new(plain_path(path)))
        .map_err(|error| format!("{path} was not held open and cannot be opened: {error}"))?;
    if build_id.is_empty() {
        notes.push(format!("{path} has no recorded build id: named from the file that is there now"));
        return Ok(Found::Opened(file));
    }
    same_build(Found::Opened(file), path, build_id)
}

fn same_build<'h>(file: Found<'h>, path: &str, build_id: &BuildId) -> Result<Found<'h>, String> {
    match build_id_of(file.as_ref()) {
        Some(found) if found == *build_id => Ok(file),
        Some(found) => Err(format!("{path} is another build now: build id {found}, recorded was {build_id}")),
        None => Err(format!("{path} is another build now: it has no build id, recorded was {build_id}")),
    }
}

fn symbols(
    file: &File,
    options: &Options,
    build_id: &BuildId,
    offsets: &[u64],
    notes: &mut Vec<String>,
) -> Vec<Symbol> {
    let layout = match Layout::read(file) {
        Ok(layout) if layout.odd_compression => {
            notes.push("its symbol tables are compressed: not named".into());
            return Vec::new();
        }
        Ok(layout) if layout.symbol_bytes > SYMBOL_BYTES_MAX => {
            notes.push(format!("its symbol tables have {} bytes: not named", layout.symbol_bytes));
            return Vec::new();
        }
        Ok(layout) => layout,
        Err(error) => {
            notes.push(format!("not named: {error}"));
            return Vec::new();
        }
    };
    let mut offsets = offsets.to_vec();
    offsets.sort_unstable();
    offsets.dedup();
    let (offsets, addresses): (Vec<u64>, Vec<u64>) =
        offsets.into_iter().filter_map(|offset| Some((offset, layout.code_address(offset)?))).unzip();
    let names = names(file, &layout, options, build_id, &addresses, notes);
    let symbol = |(offset, named): (u64, Option<Named>)| {
        let Named { start, size, frames } = named?;
        let start = layout.code_offset(start).unwrap_or(0);
        Some(Symbol { offset, start, size, kernel_module: String::new(), frames })
    };
    let symbols: Vec<Symbol> = offsets.iter().copied().zip(names).filter_map(symbol).collect();
    if symbols.is_empty() && !offsets.is_empty() && notes.is_empty() {
        notes.push("it has no symbols for this code, and no debug file with its build id was found".into());
    }
    symbols
}

/// One result per address: first from a separate debug file, then from the file itself.
fn names(
    file: &File,
    layout: &Layout,
    options: &Options,
    build_id: &BuildId,
    addresses: &[u64],
    notes: &mut Vec<String>,
) -> Vec<Option<Named>> {
    let mut names = vec![None; addresses.len()];
    if let Some((path, debug)) = debug_file(options, build_id) {
        match Layout::read(&debug) {
            Ok(layout) if !layout.odd_compression && layout.symbol_bytes <= SYMBOL_BYTES_MAX => {
                fill(&mut names, addresses, &ElfSource::new(&path, &options.debug_dirs), &layout, options, notes);
            }
            Ok(_) => notes.push(format!("{} is damaged", path.display())),
            Err(error) => notes.push(format!("{}: {error}", path.display())),
        }
    }
    if names.iter().any(Option::is_none) {
        fill(&mut names, addresses, &ElfSource::new(&path_of(file), &options.debug_dirs), layout, options, notes);
    }
    names
}

/// The debug information that distributions keep apart, found by build id.
///
/// blazesym looks for it only if the file also has a debug link, and checks a sum over all its bytes.
fn debug_file(options: &Options, build_id: &BuildId) -> Option<(PathBuf, File)> {
    let digits = build_id.to_string();
    let (first, rest) = digits.split_at_checked(2).filter(|(_, rest)| rest.len() >= 2)?;
    let paths = options.debug_dirs.iter().map(|dir| dir.join(format!(".build-id/{first}/{rest}.debug")));
    paths
        .filter_map(|path| Some((open_regular(&path).ok()?, path)))
        .find(|(file, _)| build_id_of(file).as_ref() == Some(build_id))
        .map(|(file, path)| (path, file))
}

/// Fills in those of `names` that are still missing.
fn fill(
    names: &mut [Option<Named>],
    addresses: &[u64],
    source: &ElfSource,
    layout: &Layout,
    options: &Options,
    notes: &mut Vec<String>,
) {
    if options.lines && layout.debug_bytes > options.debug_bytes_max {
        let (size, limit) = (layout.debug_bytes, options.debug_bytes_max);
        notes.push(format!("no inlined functions and lines: debug information of {size} bytes, the limit is {limit}"));
    } else if options.lines {
        let missing = |named: &Option<Named>| named.is_none();
        let take = |named: &mut Option<Named>, address: u64, found: Option<Named>| {
            *named = found.filter(|found| found.start == 0 || covers(layout, found, address));
        };
        let result = look_up(names, addresses, source, true, missing, take);
        if let Err(error) = result {
            notes.push(format!("no inlined functions and lines: {error}"));
        }
    }
    // Also what DWARF left open: it may be damaged in places, not cover all code, or know no
    // single start of a function in several pieces.
    let incomplete = |named: &Option<Named>| named.as_ref().is_none_or(|named| named.start == 0);
    let complete = |named: &mut Option<Named>, address: u64, found: Option<Named>| match (
        named,
        found.filter(|found| covers(layout, found, address)),
    ) {
        (Some(named), Some(found)) => (named.start, named.size) = (found.start, found.size),
        (named, found) => *named = named.take().or(found),
    };
    if let Err(error) = look_up(names, addresses, source, false, incomplete, complete) {
        notes.push(format!("not named: {error}"));
    }
}

/// Whether a symbol can be believed to hold `address`: one without a size (assembly) seems to reach to
/// the next symbol, wherever that is.
fn covers(layout: &Layout, symbol: &Named, address: u64) -> bool {
    let near = address.saturating_sub(symbol.start) <= SIZELESS_MAX;
    symbol.size != 0 || (near && layout.in_one_section(symbol.start, address))
}

/// Asks `source` for those of `names` that are `wanted` and hands each to `take`.
fn look_up(
    names: &mut [Option<Named>],
    addresses: &[u64],
    source: &ElfSource,
    lines: bool,
    wanted: impl Fn(&Option<Named>) -> bool,
    take: impl Fn(&mut Option<Named>, u64, Option<Named>),
) -> Result<(), String> {
    let (places, asked): (Vec<usize>, Vec<u64>) =
        addresses.iter().copied().enumerate().filter(|(place, _)| wanted(&names[*place])).unzip();
    if asked.is_empty() {
        return Ok(());
    }
    for (place, found) in places.into_iter().zip(source.names(&asked, lines)?) {
        take(&mut names[place], addresses[place], found);
    }
    Ok(())
}
