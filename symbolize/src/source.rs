//! One ELF file asked for the names of virtual addresses: the only place that knows blazesym.

use crate::image::Image;
use blazesym::inspect;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use syscollect_demangle::demangle;
use syscollect_model::SymbolFrame;

/// A function at a virtual address, as an ELF file has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
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
pub(crate) struct ElfSource<'i> {
    symbolizer: Symbolizer,
    image: &'i Image,
}

impl<'i> ElfSource<'i> {
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
    ) -> Result<Vec<Option<Named>>, String> {
        let mut elf = Elf::new(self.image.path());
        elf.debug_syms = lines;
        let source = Source::Elf(elf);
        let look_up = || {
            let found = self.symbolizer.symbolize(&source, Input::VirtOffset(addresses));
            found
                .map(|symbols| symbols.iter().map(named).collect())
                .map_err(|error| describe(&error))
        };
        catch_unwind(AssertUnwindSafe(look_up))
            .unwrap_or_else(|_| Err("its reader gave up on it".into()))
    }
}

fn describe(error: &blazesym::Error) -> String {
    // The alternate form has the causes, on one line.
    format!("{error:#}")
}

fn named(symbolized: &Symbolized<'_>) -> Option<Named> {
    let Symbolized::Sym(symbol) = symbolized else { return None };
    let size = symbol.size.unwrap_or(0) as u64;
    // The linker moves the DWARF of functions that it dropped to address 0, where no code is. With
    // no size it is a function in several pieces, for which blazesym has no address.
    let dropped = symbol.addr == 0 && size != 0;
    let usable = !symbol.name.is_empty() && !dropped;
    let start = symbol.addr;
    usable.then(|| Named { start, size, range_only: false, frames: frames(symbol) })
}

fn frames(symbol: &Sym<'_>) -> Vec<SymbolFrame> {
    let inlined =
        symbol.inlined.iter().rev().map(|inlined| frame(&inlined.name, inlined.code_info.as_ref()));
    inlined.chain([frame(&symbol.name, symbol.code_info.as_deref())]).collect()
}

fn frame(function: &str, code: Option<&CodeInfo<'_>>) -> SymbolFrame {
    SymbolFrame {
        function: demangle(function),
        file: code.map(|code| code.to_path().to_string_lossy().into_owned()).unwrap_or_default(),
        line: code.and_then(|code| code.line).unwrap_or(0),
    }
}

/// Where the linker of `image` put the symbol `name`.
///
/// # Errors
///
/// In words, as [`ElfSource::names`].
pub(crate) fn linked_address(image: &Image, name: &str) -> Result<u64, String> {
    let look_up = || {
        let mut elf = inspect::source::Elf::new(image.path());
        elf.debug_syms = false;
        let inspector = inspect::Inspector::new();
        let found = inspector.lookup(&inspect::source::Source::Elf(elf), &[name]);
        let found = found.map_err(|error| describe(&error))?;
        let symbol = found.first().and_then(|symbols| symbols.first());
        symbol.map(|symbol| symbol.addr).ok_or_else(|| format!("it has no symbol {name}"))
    };
    catch_unwind(AssertUnwindSafe(look_up))
        .unwrap_or_else(|_| Err("its reader gave up on it".into()))
}
