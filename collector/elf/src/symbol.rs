//! Tables of symbols.

use crate::elf::ENDIAN;
use crate::{ElfError, until_zero};
use object::LittleEndian;
use object::elf::{self, Sym64, SymbolBind, SymbolType};
use object::read::elf::Sym;

/// Longer names are not looked at.
const NAME_MAX: usize = 16 << 10;
/// Linkers let names share their ends, but not so often that all names together
/// are so many times as long as their table.
const SHARED_MAX: usize = 16;

/// How much of a table of symbols is read at most, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct SymbolLimits {
    /// Of the table.
    pub table: u64,
    /// Of the symbols' names.
    pub names: u64,
}

/// A symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address, if it is code or data.
    pub address: u64,
    /// Bytes; 0 where the file does not say.
    pub size: u64,
    /// What it is.
    pub kind: SymbolType,
    /// Who sees it.
    pub bind: SymbolBind,
    /// Whether it lies in the file, and is not asked for from another.
    pub is_defined: bool,
    name_at: u32,
}

impl Symbol {
    fn of(row: &Sym64<LittleEndian>) -> Self {
        Self {
            address: row.st_value(ENDIAN),
            size: row.st_size(ENDIAN),
            kind: row.st_type(),
            bind: row.st_bind(),
            is_defined: row.st_shndx(ENDIAN) != elf::SHN_UNDEF,
            name_at: row.st_name(ENDIAN),
        }
    }
}

/// A symbol, and what it is called.
#[derive(Clone, Copy, Debug)]
pub struct NamedSymbol<'data> {
    /// Its name, never empty.
    pub name: &'data [u8],
    /// The rest.
    pub symbol: Symbol,
}

/// A table of symbols.
#[derive(Clone, Copy, Debug)]
pub struct SymbolTable<'data> {
    rows: &'data [Sym64<LittleEndian>],
    names: &'data [u8],
    /// Where these lie in the file.
    names_at: u64,
}

impl<'data> SymbolTable<'data> {
    /// Bytes behind the last whole row are none's.
    pub(crate) fn new(rows: &'data [u8], names: &'data [u8], names_at: u64) -> Self {
        let count = rows.len() / size_of::<Sym64<LittleEndian>>();
        let rows = object::pod::slice_from_bytes(rows, count).map_or(&[][..], |(rows, _)| rows);
        Self { rows, names, names_at }
    }

    /// All symbols, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = Symbol> + use<'data> {
        self.rows.iter().map(Symbol::of)
    }

    /// The first symbol of a name that lies in the file.
    pub fn find(&self, name: &[u8]) -> Option<Symbol> {
        self.iter().find(|symbol| {
            let rest = self.bytes_at_name(*symbol).and_then(|rest| rest.strip_prefix(name));
            symbol.is_defined && rest.is_some_and(|rest| rest.first() == Some(&0))
        })
    }

    /// The symbols that have a name of less than 16 KiB. An error is the last item.
    ///
    /// It is one where all names together are many times as long as their table, for they take time
    /// and memory of who reads on.
    pub fn named(&self) -> impl Iterator<Item = Result<NamedSymbol<'data>, ElfError>> {
        let (table, mut left) = (*self, Some(self.names.len().saturating_mul(SHARED_MAX)));
        let symbols = self.iter().filter(|symbol| symbol.name_at > 0);
        let named = symbols.filter_map(move |symbol| {
            let rest = table.bytes_at_name(symbol)?;
            Some((until_zero(&rest[..rest.len().min(NAME_MAX)]), symbol))
        });
        let named = named.map_while(move |(name, symbol)| {
            left = left?.checked_sub(name.len());
            let (part, at) = ("table of symbols' names", table.names_at);
            Some(left.map(|_| NamedSymbol { name, symbol }).ok_or(ElfError::Damaged { part, at }))
        });
        named.filter(move |named| named.as_ref().map_or(true, |named| is_name(named.name)))
    }

    /// Some bytes, of which the first are a symbol's name.
    fn bytes_at_name(&self, symbol: Symbol) -> Option<&'data [u8]> {
        self.names.get(usize::try_from(symbol.name_at).ok()?..)
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() < NAME_MAX
}
