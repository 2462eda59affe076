//! Tables of symbols.

use crate::ElfError;
use crate::bytes::until_zero;
use crate::elf::Header;
use object::Endianness;
use object::elf::{self, Sym32, Sym64, SymbolBind, SymbolType};
use object::pod::slice_from_all_bytes;
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
    fn of<S: Sym<Endian = Endianness>>(row: &S, endian: Endianness) -> Self {
        Self {
            address: row.st_value(endian).into(),
            size: row.st_size(endian).into(),
            kind: row.st_type(),
            bind: row.st_bind(),
            is_defined: row.st_shndx(endian) != elf::SHN_UNDEF,
            name_at: row.st_name(endian),
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
    rows: Rows<'data>,
    endian: Endianness,
    names: &'data [u8],
    /// Where these lie in the file.
    names_at: u64,
}

#[derive(Clone, Copy, Debug)]
enum Rows<'data> {
    Of32(&'data [Sym32<Endianness>]),
    Of64(&'data [Sym64<Endianness>]),
}

impl<'data> SymbolTable<'data> {
    /// Bytes behind the last whole row are none's.
    pub(crate) fn new(
        header: Header<'_>,
        rows: &'data [u8],
        names: &'data [u8],
        names_at: u64,
    ) -> Self {
        let whole = |size: usize| &rows[..rows.len() - rows.len() % size];
        let rows = match header.is_64 {
            true => Rows::Of64(
                slice_from_all_bytes(whole(size_of::<Sym64<Endianness>>())).unwrap_or(&[]),
            ),
            false => Rows::Of32(
                slice_from_all_bytes(whole(size_of::<Sym32<Endianness>>())).unwrap_or(&[]),
            ),
        };
        Self { rows, endian: header.endian, names, names_at }
    }

    /// All symbols, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = Symbol> {
        let (rows_32, rows_64): (&[_], &[_]) = match self.rows {
            Rows::Of32(rows) => (rows, &[]),
            Rows::Of64(rows) => (&[], rows),
        };
        let of_32 = rows_32.iter().map(|row| Symbol::of(row, self.endian));
        of_32.chain(rows_64.iter().map(|row| Symbol::of(row, self.endian)))
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
        let mut left = Some(self.names.len().saturating_mul(SHARED_MAX));
        let mut symbols = self.iter();
        let table = *self;
        std::iter::from_fn(move || {
            let mut room = left?;
            for symbol in symbols.by_ref().filter(|symbol| symbol.name_at > 0) {
                let Some(rest) = table.bytes_at_name(symbol) else { continue };
                let name = until_zero(&rest[..rest.len().min(NAME_MAX)]);
                left = room.checked_sub(name.len());
                let Some(rest) = left else {
                    let (part, at) = ("table of symbols' names", table.names_at);
                    return Some(Err(ElfError::Damaged { part, at }));
                };
                room = rest;
                if !name.is_empty() && name.len() < NAME_MAX {
                    return Some(Ok(NamedSymbol { name, symbol }));
                }
            }
            None
        })
    }

    /// Some bytes, of which the first are a symbol's name.
    fn bytes_at_name(&self, symbol: Symbol) -> Option<&'data [u8]> {
        self.names.get(usize::try_from(symbol.name_at).ok()?..)
    }
}
