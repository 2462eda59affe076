//! Naming offsets in one user module.

use crate::apart::ReaderShare;
use crate::elf::{Layout, build_id_in};
use crate::go_functions::{GoFunction, GoFunctions, GoTableError};
use crate::image::{Image, WantedParts};
use crate::links::{DebugFile, Search};
use crate::mini_debug::MiniDebug;
use crate::path::plain_path;
use crate::ranges::{FunctionRanges, RangesError, UnwindTables};
use crate::reader::ElfFunction;
use crate::shared::NamingContext;
use crate::source::ElfSource;
use crate::turn::{Accounts, NamingPace, NamingTurn};
use crate::{ModuleRequest, jit, own_file};
use rustc_hash::FxHashSet;
use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use syscollect_model::{BuildId, Symbol, SymbolFrame, SymbolTable};
use syscollect_untrusted_files::{OpenedFile, Reader};

/// Larger symbol tables are no linker's work; reading one would take as much memory again.
const SYMBOL_BYTES_MAX: u64 = 512 << 20;
/// Functions in assembly are not longer.
const SIZELESS_MAX: u64 = 4096;
/// Places that are looked up between two looks at whether there is time left.
const STEP: usize = 64;

/// Names what `request` asks for.
pub(crate) fn name(
    shared: &NamingContext,
    request: &ModuleRequest,
    turn: &NamingTurn,
) -> SymbolTable {
    if let Some(memory) = &request.memory {
        return jit::name(shared, request, memory, turn);
    }
    let ModuleRequest { path, build_id, mapped, offsets, .. } = request;
    let mut table =
        SymbolTable { path: path.clone(), build_id: build_id.clone(), ..SymbolTable::default() };
    let mut notes = Vec::new();
    match own_file::find(&shared.pinned, &shared.options, request, &mut notes) {
        Ok(file) => {
            turn.belongs_to(file.data().uid);
            let late = Cell::new(0);
            let module = Module { shared, path, build_id, mapped, file: &file, turn, late };
            table.symbols = module.symbols(offsets, &mut notes);
            table.unfinished = module.late.get();
        }
        Err(reason) => notes.push(reason),
    }
    table.note = notes.join("; ");
    table
}

/// Names `offsets` in a file of this program's own.
pub(crate) fn name_file(
    shared: &NamingContext,
    file: &File,
    offsets: &[u64],
    turn: &NamingTurn,
) -> SymbolTable {
    let (mut symbols, mut notes, mut unfinished) = (Vec::new(), Vec::new(), 0);
    match file.try_clone().and_then(OpenedFile::made) {
        Ok(file) => {
            let (build_id, late) = (&BuildId::default(), Cell::new(0));
            let module =
                Module { shared, path: "", build_id, mapped: &[], file: &file, turn, late };
            symbols = module.symbols(offsets, &mut notes);
            unfinished = module.late.get();
        }
        Err(error) => notes.push(error.to_string()),
    }
    SymbolTable { symbols, note: notes.join("; "), unfinished, ..SymbolTable::default() }
}

/// A file that is asked for names.
struct Module<'a> {
    shared: &'a NamingContext,
    path: &'a str,
    build_id: &'a BuildId,
    /// See [`ModuleRequest::mapped`].
    mapped: &'a [Range<u64>],
    file: &'a OpenedFile,
    turn: &'a NamingTurn,
    /// Places for which there was no time.
    late: Cell<u64>,
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
        let placed = layout(self.file).and_then(|mut layout| {
            let placed = layout.place_code(self.mapped);
            placed.then_some(layout).ok_or_else(|| {
                "not named: its debug file alone does not say where its code lay in the file that \
                 ran"
                .into()
            })
        });
        let layout = match placed {
            Ok(layout) => layout,
            Err(note) => {
                notes.push(note);
                return Vec::new();
            }
        };
        let (mut offsets, mut seen) = (offsets.to_vec(), FxHashSet::default());
        offsets.retain(|offset| seen.insert(*offset));
        // Whatever a damaged header says of its segments, there is no code behind the file's end.
        let end = if layout.code_is_elsewhere { u64::MAX } else { self.file.reader().length() };
        offsets.retain(|offset| *offset < end);
        let (offsets, addresses): (Vec<u64>, Vec<u64>) = offsets
            .into_iter()
            .filter_map(|offset| Some((offset, layout.segments.code_address(offset)?)))
            .unzip();
        let names = self.names(&layout, &addresses, notes);
        let symbols = offsets.iter().zip(names).filter_map(|(offset, named)| {
            let ElfFunction { start, size, range_only, frames } = named?;
            let start = layout.segments.code_offset(start).unwrap_or(0);
            let offset = *offset;
            Some(Symbol { offset, start, size, range_only, frames, ..Symbol::default() })
        });
        let mut symbols: Vec<Symbol> = symbols.collect();
        symbols.sort_unstable_by_key(|symbol| symbol.offset);
        let is_named = symbols.iter().any(|symbol| !symbol.range_only);
        if !is_named && !offsets.is_empty() && notes.is_empty() {
            notes.push(
                "it has no symbols for this code, and no debug file with its build id was found"
                    .into(),
            );
        }
        symbols
    }

    /// One result per address: first from a separate debug file, then from the file itself, which
    /// may have more symbols compressed, and know more functions by their ranges alone.
    fn names(
        &self,
        own: &Layout,
        addresses: &[u64],
        notes: &mut Vec<String>,
    ) -> Vec<Option<ElfFunction>> {
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
        if let Err(error) = self.fill_from_mini_debug(&mut names, addresses, own, notes) {
            notes.push(format!("mini debug information not used: {error}"));
        }
        if let Err(error) = self.fill_from_go(&mut names, addresses, own) {
            notes.push(format!("its table of Go functions is not used: {error}"));
        }
        if names.iter().any(Option::is_none) {
            match self.fill_ranges(&mut names, addresses, own) {
                Ok(left) if left > self.late.get() => {
                    notes
                        .push(format!("{left} places not told apart: finding them takes too long"));
                    self.late.set(left);
                }
                Ok(_) => {}
                Err(error) => {
                    notes.push(format!("functions without names not told apart: {error}"));
                }
            }
        }
        self.name_signal_returns(&mut names, addresses, own);
        names
    }

    /// Names what lies a byte before its symbol. Frames are looked up a byte before their
    /// addresses, because a call may be the last instruction of its function. Where a signal
    /// handler returns to nothing has called: its unwind information begins a byte early for that
    /// reason, and its symbol does not.
    fn name_signal_returns(
        &self,
        names: &mut [Option<ElfFunction>],
        addresses: &[u64],
        own: &Layout,
    ) {
        let indices: Vec<usize> =
            (0..names.len()).filter(|index| begins_at(&names[*index], addresses[*index])).collect();
        if indices.is_empty() || self.turn.pace() > NamingPace::Quick {
            return;
        }
        let asked: Vec<u64> = indices.iter().map(|index| addresses[*index] + 1).collect();
        let mut found = vec![None; asked.len()];
        // What there is to note of these files has been noted.
        if let Some(DebugFile { opened, .. }) = self.debug_file(own, &mut Vec::new())
            && let Ok(layout) = layout(&opened)
        {
            let _ = self.fill(&mut found, &asked, (&opened, &layout), &mut Vec::new());
        }
        if found.iter().any(Option::is_none) {
            let _ = self.fill(&mut found, &asked, (self.file, own), &mut Vec::new());
        }
        for (index, found) in indices.into_iter().zip(found) {
            let Some(symbol) = found.filter(|symbol| symbol.start == addresses[index] + 1) else {
                continue;
            };
            let size = if symbol.size == 0 { 0 } else { symbol.size + 1 };
            names[index] = Some(ElfFunction { start: addresses[index], size, ..symbol });
        }
    }

    /// Fills in what the symbols say that the file has compressed. They may begin behind a symbol
    /// without a size, which seemed to reach so far.
    fn fill_from_mini_debug(
        &self,
        names: &mut [Option<ElfFunction>],
        addresses: &[u64],
        own: &Layout,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        let open = places_without_size(names);
        if open.is_empty() || !self.has_time() {
            return Ok(());
        }
        let mini = MiniDebug::read(self.file, own, &self.shared.options.memory, || self.has_time());
        let Some(mini) = mini.map_err(|error| error.to_string())? else { return Ok(()) };
        if !self.is_same_build_still() {
            return Err("the file was overwritten meanwhile".into());
        }
        if build_id_in(mini.file.reader())
            .is_some_and(|id| !self.build_id.is_empty() && id != *self.build_id)
        {
            return Err("it is of another build".into());
        }
        let layout = layout(&mini.file)?;
        let asked: Vec<u64> = open.iter().map(|place| addresses[*place]).collect();
        let mut found = vec![None; open.len()];
        self.fill(&mut found, &asked, (&mini.file, &layout), notes)?;
        for (place, found) in open.into_iter().zip(found) {
            if found.as_ref().is_some_and(|found| found.size != 0 || names[place].is_none()) {
                names[place] = found;
            }
        }
        Ok(())
    }

    fn has_time(&self) -> bool {
        self.turn.pace() <= NamingPace::Quick
    }

    /// Fills in what a Go program says of its functions itself.
    fn fill_from_go(
        &self,
        names: &mut [Option<ElfFunction>],
        addresses: &[u64],
        own: &Layout,
    ) -> Result<(), GoTableError> {
        let open = places_without_size(names);
        if open.is_empty() || own.code_is_elsewhere {
            return Ok(());
        }
        let functions = GoFunctions::read(self.file.reader(), own, &self.shared.options.memory)?;
        let Some(mut functions) = functions.filter(|_| self.is_same_build_still()) else {
            return Ok(());
        };
        for indices in open.chunks(STEP) {
            if self.turn.pace() > NamingPace::Quick {
                break;
            }
            for index in indices {
                if let Some(GoFunction { addresses, name }) = functions.find(addresses[*index])? {
                    let size = addresses.end - addresses.start;
                    let frames = vec![SymbolFrame { function: name, ..SymbolFrame::default() }];
                    let (start, range_only) = (addresses.start, false);
                    names[*index] = Some(ElfFunction { start, size, range_only, frames });
                }
            }
        }
        Ok(())
    }

    /// Gives those of `names` that are still missing the ranges of their functions; for how many
    /// there was no time.
    fn fill_ranges(
        &self,
        names: &mut [Option<ElfFunction>],
        addresses: &[u64],
        layout: &Layout,
    ) -> Result<u64, RangesError> {
        let mut missing: Vec<_> =
            names.iter_mut().zip(addresses).filter(|(named, _)| named.is_none()).collect();
        let mut left = missing.len() as u64;
        // Debug files have no tables for unwinding.
        if layout.code_is_elsewhere {
            return Ok(0);
        } else if !self.has_time() {
            return Ok(left);
        }
        let Some(tables) =
            UnwindTables::read(self.file.reader(), layout, &self.shared.options.memory)?
        else {
            return Ok(0);
        };
        if !self.is_same_build_still() {
            return Err(RangesError::Overwritten);
        }
        let mut ranges = FunctionRanges::new(&tables, layout, || self.has_time());
        for step in missing.chunks_mut(STEP) {
            if !self.has_time() {
                break;
            }
            for (named, address) in &mut *step {
                **named = ranges.find(**address).map(|range| self.range_only(range));
            }
            left -= step.len() as u64;
        }
        Ok(left)
    }

    /// Whether the file is the one that was mapped, after something was read of it.
    fn is_same_build_still(&self) -> bool {
        self.build_id.is_empty() || build_id_in(self.file.reader()).as_ref() == Some(self.build_id)
    }

    /// What stands for a function that has no name.
    fn range_only(&self, range: Range<u64>) -> ElfFunction {
        let file = plain_path(self.path).rsplit('/').next().unwrap_or_default();
        let function = format!("{file}+{:#x}", range.start);
        let frames = vec![SymbolFrame { function, ..SymbolFrame::default() }];
        ElfFunction { start: range.start, size: range.end - range.start, range_only: true, frames }
    }

    fn search(&self) -> Search<'_> {
        Search::of(&self.shared.options, self.path)
    }

    /// The build whose debug information is looked for: the one that was recorded, or, where none
    /// was (kernels before 5.12 tell no build ids of mappings), that of the file that is named.
    fn debug_build_id(&self) -> BuildId {
        match self.build_id.is_empty() {
            true => build_id_in(self.file.reader()).unwrap_or_default(),
            false => self.build_id.clone(),
        }
    }

    /// The debug information that is kept apart.
    fn debug_file(&self, own: &Layout, notes: &mut Vec<String>) -> Option<DebugFile> {
        let build_id = self.debug_build_id();
        let named = self.shared.options.symbol_files.symbols_of(&build_id);
        let named = named.map(|(path, opened)| DebugFile { path, opened });
        let found = named.filter(|file| {
            let (own, other) = (self.file.data(), file.opened.data());
            (own.device, own.inode) != (other.device, other.inode)
        });
        let found = found.or_else(|| self.search().by_build_id(&build_id)).or_else(|| {
            let linked = self.search().by_link(self.file, own);
            linked.unwrap_or_else(|note| {
                notes.push(note);
                None
            })
        });
        found.or_else(|| {
            let opened = self.shared.options.kept_files.debug(self.path, self.build_id)?;
            Some(DebugFile { path: "the capture".into(), opened: opened.clone() })
        })
    }

    /// Fills in those of `names` that are still missing, from one file.
    fn fill(
        &self,
        names: &mut [Option<ElfFunction>],
        addresses: &[u64],
        (file, layout): (&OpenedFile, &Layout),
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        let options = &self.shared.options;
        let too_large = layout.debug_bytes > options.debug_bytes_max;
        if options.lines && too_large {
            let (size, limit) = (layout.debug_bytes, options.debug_bytes_max);
            notes.push(format!(
                "no inlined functions and lines: debug information of {size} bytes, the limit is \
                 {limit}"
            ));
        }
        let lines = options.lines && !too_large;
        let supplement = lines.then(|| self.supplement(file, layout)).flatten();
        let image =
            match Image::make(file, layout, WantedParts { lines, supplement }, &options.memory) {
                Err(error) if lines => {
                    notes.push(format!("no inlined functions and lines: {error}"));
                    Image::make(
                        file,
                        layout,
                        WantedParts { lines: false, supplement: None },
                        &options.memory,
                    )
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
        let mut source = self.source(&image, file);
        let late = fill(names, addresses, (&mut source, self.turn), layout, lines, notes);
        self.late.set(self.late.get().max(late));
        Ok(())
    }

    /// Who reads the image of `file`: what a file of this module's makes of it is trusted where all
    /// of it is root's or the asking user's.
    fn source<'a>(&'a self, image: &'a Image, file: &OpenedFile) -> ElfSource<'a> {
        let options = &self.shared.options;
        let is_trusted = [self.file, file].iter().all(|file| {
            !file.may_keep_waiting() && Accounts::is_trusted(file.data().uid, options.asked_by)
        });
        // What a capture has of files says nothing of whose they were.
        match is_trusted && options.kept_files.is_empty() {
            true => ElfSource::here(image),
            false => {
                let cpu_time = options.module_time;
                ElfSource::apart(
                    image,
                    ReaderShare { memory: &options.memory, turn: self.turn, cpu_time },
                )
            }
        }
    }

    /// What the debug information of `file` refers to in another file.
    fn supplement(&self, file: &OpenedFile, layout: &Layout) -> Option<(Image, Vec<u8>)> {
        let (found, build_id) = self.search().by_alt_link(file, layout)?;
        let layout = self::layout(&found.opened).ok()?;
        let fits = layout.debug_bytes <= self.shared.options.debug_bytes_max;
        let wanted = WantedParts { lines: true, supplement: None };
        let image = fits
            .then(|| Image::make(&found.opened, &layout, wanted, &self.shared.options.memory))?
            .ok()?;
        Some((image, build_id))
    }
}

fn begins_at(named: &Option<ElfFunction>, address: u64) -> bool {
    named.as_ref().is_some_and(|named| named.range_only && named.start == address)
}

/// Which of them have no name, or that of a symbol without a size, which may be another's.
fn places_without_size(names: &[Option<ElfFunction>]) -> Vec<usize> {
    (0..names.len()).filter(|place| is_open(&names[*place])).collect()
}

fn is_open(named: &Option<ElfFunction>) -> bool {
    named.as_ref().is_none_or(|named| named.size == 0 && named.start != 0)
}

/// Fills in those of `names` that are still missing; for how many places there was no time.
fn fill(
    names: &mut [Option<ElfFunction>],
    addresses: &[u64],
    (source, turn): (&mut ElfSource, &NamingTurn),
    layout: &Layout,
    lines: bool,
    notes: &mut Vec<String>,
) -> u64 {
    let (all, mut late) = (addresses.len(), 0);
    if lines {
        let left = look_up(
            names,
            addresses,
            (&mut *source, turn),
            true,
            Option::is_none,
            |named, at, found| {
                *named = found.filter(|found| found.start == 0 || covers(layout, found, at));
            },
        );
        match left {
            Err(error) => notes.push(format!("no inlined functions and lines: {error}")),
            Ok(0) => {}
            Ok(missed) => {
                late = missed;
                notes.push(format!(
                    "no inlined functions and lines for {missed} of {all} places: finding them \
                     takes too long"
                ));
            }
        }
    }
    let left =
        look_up(names, addresses, (source, turn), false, is_incomplete, |named, at, found| {
            complete(named, found.filter(|found| covers(layout, found, at)));
        });
    match left {
        Err(error) => notes.push(format!("not named: {error}")),
        Ok(0) => {}
        Ok(missed) => {
            late = late.max(missed);
            notes.push(format!("{missed} of {all} places not named: finding them takes too long"));
        }
    }
    late as u64
}

/// Adds what was found to a name that lacks it.
fn complete(named: &mut Option<ElfFunction>, found: Option<ElfFunction>) {
    match (named, found) {
        (Some(named), Some(found)) => (named.start, named.size) = (found.start, found.size),
        (named, found) => *named = named.take().or(found),
    }
}

/// Also what DWARF left open: it may be damaged in places, not cover all code, or know no
/// single start of a function in several pieces.
fn is_incomplete(named: &Option<ElfFunction>) -> bool {
    named.as_ref().is_none_or(|named| named.start == 0)
}

/// Whether a symbol can be believed to hold `address`: one without a size (assembly) seems to reach
/// to the next symbol, wherever that is.
fn covers(layout: &Layout, symbol: &ElfFunction, address: u64) -> bool {
    let near = address.saturating_sub(symbol.start) <= SIZELESS_MAX;
    symbol.size != 0 || (near && layout.in_one_section(symbol.start, address))
}

/// Asks `source` for those of `names` that are `wanted` and hands each to `take`, as long as there
/// is time; how many it did not ask for.
fn look_up(
    names: &mut [Option<ElfFunction>],
    addresses: &[u64],
    (source, turn): (&mut ElfSource, &NamingTurn),
    lines: bool,
    wanted: impl Fn(&Option<ElfFunction>) -> bool,
    take: impl Fn(&mut Option<ElfFunction>, u64, Option<ElfFunction>),
) -> Result<usize, String> {
    let (indices, asked): (Vec<usize>, Vec<u64>) =
        addresses.iter().copied().enumerate().filter(|(index, _)| wanted(&names[*index])).unzip();
    let slowest = if lines { NamingPace::Thorough } else { NamingPace::Quick };
    let mut left = asked.len();
    for (indices, asked) in indices.chunks(STEP).zip(asked.chunks(STEP)) {
        if turn.pace() > slowest {
            break;
        }
        for (index, found) in indices.iter().zip(source.names(asked, lines, slowest)?) {
            take(&mut names[*index], addresses[*index], found);
        }
        left -= asked.len();
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, PinnedFiles};

    /// This function in the file of this program.
    fn own_code() -> (File, u64) {
        let address = own_code as *const () as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let offset = maps.lines().find_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let file_offset = hex(fields.nth(1)?);
            let range = hex(start)..hex(end);
            range.contains(&address).then(|| address - range.start + file_offset)
        });
        (File::open("/proc/self/exe").unwrap(), offset.unwrap())
    }

    fn hex(digits: &str) -> u64 {
        u64::from_str_radix(digits, 16).unwrap()
    }

    #[test]
    fn who_has_no_time_left_gets_names_without_lines_and_then_none() {
        let options = Options::default();
        let shared = NamingContext { pinned: PinnedFiles::new(), options };
        let (thorough, table) = named_at(&shared, NamingPace::Thorough);
        assert_eq!((thorough, table.unfinished), (Some((true, true)), 0), "{}", table.note);
        let (quick, table) = named_at(&shared, NamingPace::Quick);
        assert_eq!((quick, table.unfinished), (Some((true, false)), 1));
        assert!(table.note.contains("lines for 1 of 1 places: finding them"), "{}", table.note);
        let (over, table) = named_at(&shared, NamingPace::Over);
        assert_eq!((over, table.unfinished), (None, 1));
        assert!(table.note.contains("1 of 1 places not named: finding them"), "{}", table.note);
    }

    /// Whether its own code has its name and a line, if any name, and the table.
    fn named_at(shared: &NamingContext, pace: NamingPace) -> (Option<(bool, bool)>, SymbolTable) {
        let ((file, offset), turn) = (own_code(), NamingTurn::default());
        turn.slow_to(pace);
        let table = name_file(shared, &file, &[offset, offset], &turn);
        let last = table.symbols.first().and_then(|symbol| symbol.frames.last());
        (last.map(|frame| (frame.function.contains("own_code"), frame.line > 0)), table)
    }
}
