//! One ELF file asked for the names of virtual addresses: the only place that knows blazesym.

use crate::aliases::{better, may_have_better};
use crate::image::Image;
use blazesym::inspect;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use syscollect_demangle::{demangle, is_mangled};
use syscollect_model::SymbolFrame;

/// Names and paths are cut to so many bytes: each place of code has its own.
const TEXT_MAX: usize = 16 << 10;
/// Inlined functions at one place, of which compilers make no more: the innermost.
const INLINED_MAX: usize = 512;

/// A function at a virtual address, as an ELF file has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ElfFunction {
    /// Its first virtual address; 0 if it has several pieces.
    pub(crate) start: u64,
    /// Its bytes; 0 if unknown.
    pub(crate) size: u64,
    /// See [`Symbol::range_only`](syscollect_model::Symbol::range_only).
    pub(crate) range_only: bool,
    /// Innermost first.
    pub(crate) frames: Vec<SymbolFrame>,
}

/// An ELF file's names.
///
/// Parsed data lives as long as this; to be made anew for every module, so that
/// memory does not grow with their number.
pub(crate) struct ElfReader<'i> {
    symbolizer: Symbolizer,
    image: &'i Image,
}

impl<'i> ElfReader<'i> {
    /// Of `image` alone: blazesym follows links to other files, and an image has only those that
    /// were followed here.
    pub(crate) fn new(image: &'i Image) -> Self {
        let none: Option<[&Path; 0]> = Some([]);
        let builder = Symbolizer::builder().enable_auto_reload(false).set_debug_dirs(none);
        // It would take plain names of C for types of C++.
        Self { symbolizer: builder.enable_demangling(false).build(), image }
    }

    /// The names of virtual `addresses`, one result each; with `lines` also inlined functions,
    /// files and lines.
    ///
    /// # Errors
    ///
    /// In words, if the file as a whole cannot be read so. A file may be built to
    /// trip its reader up: a panic in there is an error too.
    pub(crate) fn names(
        &self,
        addresses: &[u64],
        lines: bool,
    ) -> Result<Vec<Option<ElfFunction>>, String> {
        catch_unwind(AssertUnwindSafe(|| {
            let found = self.look_up(addresses, lines)?;
            let mut names: Vec<_> = found.iter().map(named).collect();
            if lines {
                self.qualify(addresses, &found, &mut names);
            }
            self.as_written(&mut names);
            Ok(names)
        }))
        .unwrap_or_else(|_| Err("its reader gave up on it".into()))
    }

    fn look_up(&self, addresses: &[u64], lines: bool) -> Result<Vec<Symbolized<'_>>, String> {
        let mut elf = Elf::new(self.image.path());
        elf.debug_syms = lines;
        let found = self.symbolizer.symbolize(&Source::Elf(elf), Input::VirtOffset(addresses));
        found.map_err(|error| describe(&error))
    }

    /// Debug information of C++ has no linkage name for lambdas, and for functions that only their
    /// own file sees, but the bare name: all lambdas are `operator()`. There the symbol says more.
    fn qualify(
        &self,
        addresses: &[u64],
        found: &[Symbolized<'_>],
        names: &mut [Option<ElfFunction>],
    ) {
        let bare: Vec<usize> = (0..found.len()).filter(|index| is_bare(&found[*index])).collect();
        let at: Vec<u64> = bare.iter().map(|index| addresses[*index]).collect();
        // What has no symbols keeps the names it has.
        let symbols = self.look_up(&at, false).unwrap_or_default();
        for (index, symbol) in bare.into_iter().zip(&symbols) {
            let (Some(named), Some(symbol)) = (&mut names[index], symbol.as_sym()) else {
                continue;
            };
            if let Some(outermost) = named.frames.last_mut()
                && is_mangled(&symbol.name)
            {
                let full = demangle(&symbol.name);
                // Not a neighbour's that has no size.
                let (plain, _) =
                    outermost.function.split_once('<').unwrap_or((&outermost.function, ""));
                if full.contains(plain) {
                    outermost.function = full;
                }
            }
        }
    }
}

impl ElfReader<'_> {
    /// Of functions that have several names, takes the one that people write.
    fn as_written(&self, names: &mut [Option<ElfFunction>]) {
        let given = names.iter().flatten().filter_map(|function| {
            let name = function.frames.last()?.function.as_str();
            let may_have = function.start != 0 && may_have_better(name);
            may_have.then_some((function.start, name))
        });
        let better = better(self.image.file(), &given.collect());
        for function in names.iter_mut().flatten() {
            if let (Some(name), Some(outermost)) =
                (better.get(&function.start), function.frames.last_mut())
                && may_have_better(&outermost.function)
            {
                outermost.function = cut(name.clone());
            }
        }
    }
}

fn is_bare(found: &Symbolized<'_>) -> bool {
    found.as_sym().is_some_and(|symbol| !is_mangled(&symbol.name))
}

fn describe(error: &blazesym::Error) -> String {
    // The alternate form has the causes, on one line.
    format!("{error:#}")
}

fn named(symbolized: &Symbolized<'_>) -> Option<ElfFunction> {
    let Symbolized::Sym(symbol) = symbolized else { return None };
    let size = symbol.size.unwrap_or(0) as u64;
    // The linker moves the DWARF of functions that it dropped to address 0, where no code is. With
    // no size it is a function in several pieces, for which blazesym has no address.
    let dropped = symbol.addr == 0 && size != 0;
    let usable = !symbol.name.is_empty() && !dropped;
    let start = symbol.addr;
    usable.then(|| ElfFunction { start, size, range_only: false, frames: frames(symbol) })
}

fn frames(symbol: &Sym<'_>) -> Vec<SymbolFrame> {
    let inlined = symbol.inlined.iter().rev().take(INLINED_MAX);
    let inlined = inlined.map(|inlined| frame(&inlined.name, inlined.code_info.as_ref()));
    inlined.chain([frame(&symbol.name, symbol.code_info.as_deref())]).collect()
}

fn frame(function: &str, code: Option<&CodeInfo<'_>>) -> SymbolFrame {
    let file = code.map(|code| code.to_path().to_string_lossy().into_owned());
    SymbolFrame {
        function: cut(demangle(cut_at(function))),
        file: cut(file.unwrap_or_default()),
        line: code.and_then(|code| code.line).unwrap_or(0),
    }
}

/// The longest beginning of a text with at most [`TEXT_MAX`] bytes.
fn cut_at(text: &str) -> &str {
    let mut ends = (0..=TEXT_MAX.min(text.len())).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

fn cut(mut text: String) -> String {
    text.truncate(cut_at(&text).len());
    text
}

/// Where the linker of `image` put the symbol `name`.
///
/// # Errors
///
/// In words, as [`ElfReader::names`].
pub(crate) fn linked_address(image: &Image, name: &str) -> Result<u64, String> {
    catch_unwind(AssertUnwindSafe(|| {
        let mut elf = inspect::source::Elf::new(image.path());
        elf.debug_syms = false;
        let inspector = inspect::Inspector::new();
        let found = inspector.lookup(&inspect::source::Source::Elf(elf), &[name]);
        let found = found.map_err(|error| describe(&error))?;
        let symbol = found.first().and_then(|symbols| symbols.first());
        symbol.map(|symbol| symbol.addr).ok_or_else(|| format!("it has no symbol {name}"))
    }))
    .unwrap_or_else(|_| Err("its reader gave up on it".into()))
}

#[cfg(test)]
mod tests {
    use syscollect_untrusted_files::{FileLocation, open};

    use super::*;
    use crate::elf::Layout;
    use crate::image::WantedParts;
    use crate::memory::NamingMemory;
    use crate::object_in_tests::{BARE, START, SYMBOL, object};

    #[test]
    fn a_lambda_is_named_by_its_symbol_where_debug_information_has_the_bare_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.o");
        std::fs::write(&path, object(0)).unwrap();
        let file = open(&FileLocation::Named(&path), None).unwrap();
        let layout = Layout::read(file.reader()).unwrap();
        for lines in [false, true] {
            let wanted = WantedParts { lines, supplement: None };
            let image = Image::make(&file, &layout, wanted, &NamingMemory::new(1 << 30)).unwrap();
            let reader = ElfReader::new(&image);
            let found = reader.look_up(&[START + 4], lines).unwrap();
            assert_eq!(found[0].as_sym().unwrap().name.as_bytes() == BARE, lines);
            let names = reader.names(&[START + 4], lines).unwrap();
            let outermost = names[0].as_ref().unwrap().frames.last().unwrap();
            assert_eq!(outermost.function, demangle(SYMBOL));
        }
    }

    #[test]
    fn a_name_is_cut_between_letters() {
        let long = "\u{e9}".repeat(TEXT_MAX);
        assert_eq!(cut(format!("a{long}")).len(), TEXT_MAX - 1);
        assert_eq!(cut(long).len(), TEXT_MAX);
        assert_eq!(cut("short".into()), "short");
    }
}
