//! Naming offsets in one user module.

use crate::elf::{Layout, build_id_in};
use crate::held::{names_a_file, plain_path};
use crate::image::{Image, Wanted};
use crate::links::{DebugFile, Search};
use crate::naming::Shared;
use crate::source::{ElfSource, Named};
use crate::{ModuleRequest, Options, vdso};
use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use syscollect_model::{BuildId, Symbol, SymbolTable};
use syscollect_untrusted_files::{FileLocation, OpenedFile, Reader, open};

/// Larger symbol tables are no linker's work; reading one would take as much memory again.
const SYMBOL_BYTES_MAX: u64 = 512 << 20;
/// Functions in assembly are not longer.
const SIZELESS_MAX: u64 = 4096;

/// Names what `request` asks for.
pub(crate) fn name(shared: &Shared, request: &ModuleRequest) -> SymbolTable {
    let ModuleRequest { path, build_id, offsets } = request;
    let mut table =
        SymbolTable { path: path.clone(), build_id: build_id.clone(), ..SymbolTable::default() };
    let mut notes = Vec::new();
    match find(shared, path, build_id, &mut notes) {
        Ok(file) => {
            table.symbols =
                Module { shared, path, build_id, file: &file }.symbols(offsets, &mut notes);
        }
        Err(reason) => notes.push(reason),
    }
    table.note = notes.join("; ");
    table
}

/// Names `offsets` in a file of this program's own.
pub(crate) fn name_file(shared: &Shared, file: &File, offsets: &[u64]) -> SymbolTable {
    let mut notes = Vec::new();
    let mut symbols = Vec::new();
    match file.try_clone().and_then(OpenedFile::made) {
        Ok(file) => {
            let module = Module { shared, path: "", build_id: &BuildId::default(), file: &file };
            symbols = module.symbols(offsets, &mut notes);
        }
        Err(error) => notes.push(error.to_string()),
    }
    SymbolTable { symbols, note: notes.join("; "), ..SymbolTable::default() }
}

/// A file that is held, or was opened for now.
enum Found<'h> {
    Held(&'h OpenedFile),
    Opened(OpenedFile),
}

impl Deref for Found<'_> {
    type Target = OpenedFile;

    fn deref(&self) -> &OpenedFile {
        match self {
            Self::Held(file) => file,
            Self::Opened(file) => file,
        }
    }
}

fn find<'h>(
    shared: &'h Shared,
    path: &str,
    build_id: &BuildId,
    notes: &mut Vec<String>,
) -> Result<Found<'h>, String> {
    let held = &shared.held;
    if let Some(file) = held.opened(path, build_id) {
        return Ok(Found::Held(file));
    }
    if held.is_ambiguous(path, build_id) {
        return Err(format!("several files without a build id had the path {path}: not named"));
    }
    if path == vdso::PATH {
        let file = vdso::own().and_then(OpenedFile::made);
        let file = file.map_err(|error| format!("the vDSO cannot be copied: {error}"))?;
        return same_build(Found::Opened(file), path, build_id);
    }
    if !names_a_file(path) {
        return Err(format!("{path:?} is memory without a file, such as JIT code: not named yet"));
    }
    let file = open(&FileLocation::Mapped(Path::new(plain_path(path))), None)
        .map_err(|error| format!("{path} was not held open and cannot be opened: {error}"))?;
    if build_id.is_empty() {
        notes.push(format!(
            "{path} has no recorded build id: named from the file that is there now"
        ));
        return Ok(Found::Opened(file));
    }
    same_build(Found::Opened(file), path, build_id)
}

fn same_build<'h>(file: Found<'h>, path: &str, build_id: &BuildId) -> Result<Found<'h>, String> {
    match build_id_in(file.reader()) {
        Some(found) if found == *build_id => Ok(file),
        Some(found) => {
            Err(format!("{path} is another build now: build id {found}, recorded was {build_id}"))
        }
        None => {
            Err(format!("{path} is another build now: it has no build id, recorded was {build_id}"))
        }
    }
}

/// A file that is asked for names.
struct Module<'a> {
    shared: &'a Shared,
    path: &'a str,
    build_id: &'a BuildId,
    file: &'a OpenedFile,
}

/// A file's parts, if they can be parsed with what memory there is; why not otherwise.
fn layout(file: &OpenedFile) -> Result<Layout, String> {
    match Layout::read(file.reader()) {
        Ok(layout) if layout.odd_compression => {
            Err("its symbol tables are compressed: not named".into())
        }
        Ok(layout) if layout.symbol_bytes > SYMBOL_BYTES_MAX => {
            Err(format!("its symbol tables have {} bytes: not named", layout.symbol_bytes))
        }
        Ok(layout) => Ok(layout),
        Err(error) => Err(format!("not named: {error}")),
    }
}

impl Module<'_> {
    fn symbols(&self, offsets: &[u64], notes: &mut Vec<String>) -> Vec<Symbol> {
        let layout = match layout(self.file) {
            Ok(layout) => layout,
            Err(note) => {
                notes.push(note);
                return Vec::new();
            }
        };
        let mut offsets = offsets.to_vec();
        offsets.sort_unstable();
        offsets.dedup();
        // Whatever a damaged header says of its segments, there is no code behind the file's end.
        let end = self.file.reader().length();
        offsets.retain(|offset| *offset < end);
        let (offsets, addresses): (Vec<u64>, Vec<u64>) = offsets
            .into_iter()
            .filter_map(|offset| Some((offset, layout.code_address(offset)?)))
            .unzip();
        let names = self.names(&layout, &addresses, notes);
        let symbol = |(offset, named): (u64, Option<Named>)| {
            let Named { start, size, frames } = named?;
            let start = layout.code_offset(start).unwrap_or(0);
            Some(Symbol { offset, start, size, kernel_module: String::new(), frames })
        };
        let symbols: Vec<Symbol> = offsets.iter().copied().zip(names).filter_map(symbol).collect();
        if symbols.is_empty() && !offsets.is_empty() && notes.is_empty() {
            notes.push(
                "it has no symbols for this code, and no debug file with its build id was found"
                    .into(),
            );
        }
        symbols
    }

    /// One result per address: first from a separate debug file, then from the file itself.
    fn names(
        &self,
        own: &Layout,
        addresses: &[u64],
        notes: &mut Vec<String>,
    ) -> Vec<Option<Named>> {
        let mut names = vec![None; addresses.len()];
        if addresses.is_empty() {
            return names;
        }
        if let Some(DebugFile { path, opened }) = self.debug_file(own, notes) {
            let filled = layout(&opened)
                .and_then(|layout| self.fill(&mut names, addresses, (&opened, &layout), notes));
            if let Err(error) = filled {
                notes.push(format!("{}: {error}", path.display()));
            }
        }
        if names.iter().any(Option::is_none)
            && let Err(error) = self.fill(&mut names, addresses, (self.file, own), notes)
        {
            notes.push(error);
        }
        names
    }

    fn search(&self) -> Search<'_> {
        let Options { debug_dirs, debug_bytes_max, .. } = &self.shared.options;
        Search {
            debug_dirs,
            path: Path::new(plain_path(self.path)),
            summed_max: debug_bytes_max.saturating_mul(2),
        }
    }

    /// The debug information that is kept apart.
    fn debug_file(&self, own: &Layout, notes: &mut Vec<String>) -> Option<DebugFile> {
        self.search().by_build_id(self.build_id).or_else(|| {
            let linked = self.search().by_link(self.file, own);
            linked.unwrap_or_else(|note| {
                notes.push(note);
                None
            })
        })
    }

    /// Fills in those of `names` that are still missing, from one file.
    fn fill(
        &self,
        names: &mut [Option<Named>],
        addresses: &[u64],
        (file, layout): (&OpenedFile, &Layout),
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        let Shared { options, memory, .. } = self.shared;
        let too_large = layout.debug_bytes > options.debug_bytes_max;
        if options.lines && too_large {
            let (size, limit) = (layout.debug_bytes, options.debug_bytes_max);
            notes.push(format!(
                "no inlined functions and lines: debug information of {size} bytes, the limit is {limit}"
            ));
        }
        let lines = options.lines && !too_large;
        let supplement = lines.then(|| self.supplement(file, layout)).flatten();
        let image = match Image::make(file, layout, Wanted { lines, supplement }, memory) {
            Err(error) if lines => {
                notes.push(format!("no inlined functions and lines: {error}"));
                Image::make(file, layout, Wanted { lines: false, supplement: None }, memory)
            }
            made => made,
        };
        let image = image.map_err(|error| format!("not named: {error}"))?;
        // What was copied is what was meant, whatever lies in the file by now. What a debug link
        // leads to may have no build id, and fits by its sum.
        let copied = Reader::of(image.file())
            .ok()
            .and_then(build_id_in)
            .or_else(|| build_id_in(file.reader()));
        let fits = copied.map_or(!std::ptr::eq(file, self.file), |copied| copied == *self.build_id);
        if !fits && !self.build_id.is_empty() {
            return Err("not named: it was overwritten meanwhile".into());
        }
        fill(names, addresses, &ElfSource::new(&image), layout, lines, notes);
        Ok(())
    }

    /// What the debug information of `file` refers to in another file.
    fn supplement(&self, file: &OpenedFile, layout: &Layout) -> Option<(Image, Vec<u8>)> {
        let (found, build_id) = self.search().by_alt_link(file, layout)?;
        let layout = self::layout(&found.opened).ok()?;
        let fits = layout.debug_bytes <= self.shared.options.debug_bytes_max;
        let wanted = Wanted { lines: true, supplement: None };
        let image =
            fits.then(|| Image::make(&found.opened, &layout, wanted, &self.shared.memory))?.ok()?;
        Some((image, build_id))
    }
}

/// Fills in those of `names` that are still missing.
fn fill(
    names: &mut [Option<Named>],
    addresses: &[u64],
    source: &ElfSource,
    layout: &Layout,
    lines: bool,
    notes: &mut Vec<String>,
) {
    if lines {
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

/// Whether a symbol can be believed to hold `address`: one without a size (assembly) seems to reach
/// to the next symbol, wherever that is.
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
