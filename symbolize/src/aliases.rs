//! Of several names of one function, the one that people write.
//!
//! The C library has `__GI___libc_malloc` and `__libc_malloc` where programs call `malloc`: its own
//! names begin with underscores, which the standard keeps for it.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::fs::File;
use syscollect_elf::abi::{
    SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STB_WEAK, STT_FUNC, SectionType, SymbolBind,
};
use syscollect_elf::{Elf, NamedSymbol, ReadCache, SymbolLimits};

/// Bytes of a table of symbols that is looked through; and of its names.
const LIMITS: SymbolLimits = SymbolLimits { table: 256 << 20, names: 256 << 20 };
/// Of names inside the GNU C library.
const INSIDE: &str = "__GI_";

/// How much a name is what people write: the greater the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Writing {
    /// Made by a library for its own calls.
    Inside,
    /// Begins with an underscore.
    Reserved,
    /// Anything else.
    Plain,
}

impl Writing {
    fn of(name: &str) -> Self {
        match name {
            _ if name.starts_with(INSIDE) => Self::Inside,
            _ if name.starts_with('_') => Self::Reserved,
            _ => Self::Plain,
        }
    }
}

/// Whether a function that is called so may have a name that people write rather.
pub(crate) fn may_have_better(name: &str) -> bool {
    Writing::of(name) < Writing::Plain && !syscollect_demangle::is_mangled(name)
}

/// The names that people write of functions at these virtual addresses, where the file has names
/// that are better than the given ones.
pub(crate) fn better(file: &File, given: &FxHashMap<u64, &str>) -> FxHashMap<u64, String> {
    let mut found: FxHashMap<u64, Alias> = FxHashMap::default();
    if given.is_empty() {
        return FxHashMap::default();
    }
    let data = ReadCache::new(file);
    for table in [SHT_SYMTAB, SHT_DYNSYM] {
        let _ = add(&data, table, given, &mut found);
    }
    found.into_iter().map(|(address, alias)| (address, alias.name)).collect()
}

/// A name that is better than the given one.
struct Alias {
    name: String,
    rank: (Writing, bool, Reverse<usize>),
}

/// Looks through one table; what is damaged has no more names.
fn add(
    data: &ReadCache<&File>,
    table: SectionType,
    given: &FxHashMap<u64, &str>,
    found: &mut FxHashMap<u64, Alias>,
) -> Option<()> {
    let elf = Elf::open(data).ok()?;
    let symbols = elf.sections().ok()?.symbols(table, &LIMITS).ok()??;
    for named in symbols.named() {
        let NamedSymbol { name, symbol } = named.ok()?;
        // What is chosen when the program starts (`STT_GNU_IFUNC`) has other code than its name
        // says.
        if symbol.kind != STT_FUNC || !symbol.is_defined {
            continue;
        }
        let Some(given) = given.get(&symbol.address) else { continue };
        let Some(name) = written(name) else { continue };
        let rank = (Writing::of(name), is_exported(symbol.bind), Reverse(name.len()));
        let is_better = rank.0 > Writing::of(given)
            && found.get(&symbol.address).is_none_or(|alias| {
                (rank, Reverse(name)) > (alias.rank, Reverse(alias.name.as_str()))
            });
        if is_better {
            found.insert(symbol.address, Alias { name: name.to_owned(), rank });
        }
    }
    Some(())
}

fn is_exported(bind: SymbolBind) -> bool {
    [STB_GLOBAL, STB_WEAK].contains(&bind)
}

/// A symbol's name as it is written: without the version of those that programs are linked with
/// (`name@@VERSION`); nothing of those of older programs (`name@VERSION`), and of what compilers
/// made of a function (`name.part.0`).
fn written(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let name = name.split_once("@@").map_or(name, |(name, _)| name);
    (!name.contains(['@', '.'])).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::write::{Object, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, SymbolFlags, SymbolKind, SymbolScope};
    use std::io::Write;

    /// A file with functions of these names at these addresses, some of which only it sees.
    fn file(names: &[(u64, &str, bool)]) -> File {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let text = object.section_id(object::write::StandardSection::Text);
        object.append_section_data(text, &[0; 256], 16);
        for (value, name, exported) in names {
            object.add_symbol(Symbol {
                name: name.as_bytes().into(),
                value: *value,
                size: 16,
                kind: SymbolKind::Text,
                scope: if *exported { SymbolScope::Dynamic } else { SymbolScope::Compilation },
                weak: false,
                section: SymbolSection::Section(text),
                flags: SymbolFlags::None,
            });
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&object.write().unwrap()).unwrap();
        file
    }

    fn better_of<'a>(file: &File, given: &[(u64, &'a str)]) -> Vec<(u64, String)> {
        let given: FxHashMap<u64, &'a str> = given.iter().copied().collect();
        let mut found: Vec<_> = better(file, &given).into_iter().collect();
        found.sort();
        found
    }

    #[test]
    fn functions_of_the_c_library_are_called_as_programs_call_them() {
        let file = file(&[
            (16, "__GI___libc_malloc", false),
            (16, "__libc_malloc", true),
            (16, "malloc", true),
            (32, "__write", true),
            (32, "write@@GLIBC_2.2.5", true),
            (32, "__GI___write", false),
            (48, "__GI___lll_lock_wait", false),
            (48, "__lll_lock_wait", false),
            (64, "__libc_free", true),
            (64, "cfree@GLIBC_2.2.5", true),
            (64, "inside_only", false),
            (64, "free", true),
            (80, "__alone", true),
            (96, "_made", true),
            (96, "made.part.0", false),
        ]);
        let given = [
            (16, "__GI___libc_malloc"),
            (32, "__GI___write"),
            (48, "__GI___lll_lock_wait"),
            (64, "__libc_free"),
            (80, "__alone"),
            (96, "_made"),
        ];
        let expected = [(16, "malloc"), (32, "write"), (48, "__lll_lock_wait"), (64, "free")];
        assert_eq!(better_of(&file, &given), expected.map(|(at, name)| (at, name.to_owned())));
        // Names that people write stay, and so do those of other addresses.
        assert_eq!(better_of(&file, &[(16, "calloc"), (17, "__GI_x")]), []);
    }

    #[test]
    fn which_names_may_have_a_better_one() {
        assert!(may_have_better("__GI_read") && may_have_better("_exit"));
        assert!(!may_have_better("read") && !may_have_better("_ZN3foo3barEi"));
    }

    #[test]
    fn a_file_that_is_none_has_no_better_names() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"\x7fELF and no more").unwrap();
        assert_eq!(better_of(&file, &[(16, "__x")]), []);
    }
}
