//! The symbols of an ELF file.

use crate::error::ProbeError;
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_elf::{NamedSymbol, ReadRef, Sections, SymbolLimits, abi};

/// More symbols than any known program has: 5 millions, and as many bytes of names.
const LIMITS: SymbolLimits = SymbolLimits { table: 128 << 20, names: 512 << 20 };

/// All named symbols: those for debuggers, then those for the loader.
pub(crate) fn symbols<'data, R: ReadRef<'data>>(
    sections: &Sections<'_, 'data, R>,
    mut each: impl FnMut(NamedSymbol<'data>),
) -> Result<(), ProbeError> {
    for kind in [abi::SHT_SYMTAB, abi::SHT_DYNSYM] {
        // There is one of each.
        if let Some(table) = sections.symbols(kind, &LIMITS)? {
            for symbol in table.named() {
                each(symbol?);
            }
        }
    }
    Ok(())
}

/// The addresses of some variables; `None` for a name that several have.
pub(crate) fn variables<'data, R: ReadRef<'data>>(
    sections: &Sections<'_, 'data, R>,
    wanted: &FxHashSet<String>,
) -> FxHashMap<String, Option<u64>> {
    let mut found = FxHashMap::<String, Option<u64>>::default();
    // Where the tables are damaged, what they name stays unknown, which the arguments then say.
    let _ = symbols(sections, |NamedSymbol { name, symbol }| {
        let Some(name) = str::from_utf8(name).ok().filter(|name| wanted.contains(*name)) else {
            return;
        };
        // An address of another kind: a thread's own variable, a section.
        if !symbol.is_defined
            || ![abi::STT_OBJECT, abi::STT_NOTYPE, abi::STT_FUNC].contains(&symbol.kind)
        {
            return;
        }
        let address = found.entry(name.to_owned()).or_insert(Some(symbol.address));
        if *address != Some(symbol.address) {
            *address = None;
        }
    });
    found
}
