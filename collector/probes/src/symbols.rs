//! The symbol tables of an ELF file.

use crate::elf::{ENDIAN, Elf, until_zero};
use crate::error::ProbeError;
use object::elf::{self, SectionType, Sym64, SymbolBind, SymbolType};
use object::read::elf::{SectionHeader as _, Sym as _};
use object::{LittleEndian, ReadRef};
use rustc_hash::{FxHashMap, FxHashSet};

/// More symbols than any known program has: 5 millions.
const TABLE_MAX: u64 = 128 << 20;
/// And as many bytes of names.
const NAMES_MAX: u64 = 512 << 20;
/// Longer names are not looked at.
const NAME_MAX: usize = 16 << 10;
/// Linkers let names share their ends, but not so often that all names together
/// are so many times as long as their table.
const SHARED_MAX: usize = 16;

/// A symbol that lies in the file, or is asked for from another.
pub(crate) struct Symbol<'data> {
    pub(crate) name: &'data [u8],
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) kind: SymbolType,
    pub(crate) bind: SymbolBind,
    /// Whether it lies in the file.
    pub(crate) defined: bool,
}

/// All named symbols: those for debuggers, then those for the loader.
pub(crate) fn symbols<'data, R: ReadRef<'data>>(
    elf: &Elf<'data, R>,
    mut each: impl FnMut(Symbol<'data>),
) -> Result<(), ProbeError> {
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        // There is one of each.
        if let Some((table, names)) = table(elf, kind)? {
            read_table(table, names, &mut each)?;
        }
    }
    Ok(())
}

/// Symbols, and their names.
type Table<'data> = (&'data [Sym64<LittleEndian>], &'data [u8]);

fn table<'data, R: ReadRef<'data>>(
    elf: &Elf<'data, R>,
    kind: SectionType,
) -> Result<Option<Table<'data>>, ProbeError> {
    let Some(section) = elf.sections().iter().find(|section| section.sh_type(ENDIAN) == kind)
    else {
        return Ok(None);
    };
    let damaged = || ProbeError::Damaged { what: "table of symbols" };
    let names = elf.sections().get(section.sh_link(ENDIAN) as usize).ok_or_else(damaged)?;
    let bytes = elf.section_data(section, "table of symbols", TABLE_MAX)?;
    let count = bytes.len() / size_of::<Sym64<LittleEndian>>();
    let (table, _) = object::pod::slice_from_bytes(bytes, count).map_err(|()| damaged())?;
    Ok(Some((table, elf.section_data(names, "table of symbols' names", NAMES_MAX)?)))
}

fn read_table<'data>(
    table: &'data [Sym64<LittleEndian>],
    names: &'data [u8],
    each: &mut impl FnMut(Symbol<'data>),
) -> Result<(), ProbeError> {
    let mut left = names.len().saturating_mul(SHARED_MAX);
    for symbol in table {
        let at = symbol.st_name(ENDIAN) as usize;
        if at == 0 {
            continue;
        }
        let Some(rest) = names.get(at..) else { continue };
        let name = until_zero(&rest[..rest.len().min(NAME_MAX)]);
        left = left
            .checked_sub(name.len())
            .ok_or(ProbeError::Damaged { what: "table of symbols' names" })?;
        if !name.is_empty() && name.len() < NAME_MAX {
            each(Symbol {
                name,
                address: symbol.st_value(ENDIAN),
                size: symbol.st_size(ENDIAN),
                kind: symbol.st_type(),
                bind: symbol.st_bind(),
                defined: symbol.st_shndx(ENDIAN) != elf::SHN_UNDEF,
            });
        }
    }
    Ok(())
}

/// The addresses of some variables; `None` for a name that several have.
pub(crate) fn variables<'data, R: ReadRef<'data>>(
    elf: &Elf<'data, R>,
    wanted: &FxHashSet<String>,
) -> FxHashMap<String, Option<u64>> {
    let mut found = FxHashMap::<String, Option<u64>>::default();
    // Where the tables are damaged, what they name stays unknown, which the arguments then say.
    let _ = symbols(elf, |symbol| {
        let Some(name) = str::from_utf8(symbol.name).ok().filter(|name| wanted.contains(*name))
        else {
            return;
        };
        // An address of another kind: a thread's own variable, a section.
        if !symbol.defined
            || ![elf::STT_OBJECT, elf::STT_NOTYPE, elf::STT_FUNC].contains(&symbol.kind)
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
