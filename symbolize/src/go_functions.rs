//! Functions of Go programs by the table that these carry for their own stack traces
//! (`.gopclntab`): no `strip`, and no `-ldflags "-s -w"`, takes it away.
//!
//! The table begins with a header of 9 words: magic and sizes, how many functions and files there
//! are, where code begins (0 since Go 1.26, where `.go.module` says it), and where its parts lie,
//! by their distance from its begin. A row of its index has 32 bits of where a function begins and
//! 32 of where the rest is said of it, which begins with the former again and goes on with where
//! its name lies. Source: `debug/gosym` and `runtime/symtab.go` of Go 1.18 to 1.27. Tables of
//! earlier versions have other rows and other magics, and are not read.
//!
//! A file's maker may have written anything there: what is copied has a bound, each look-up takes a
//! bounded number of steps, and what is inconsistent is no name.

use crate::elf::Layout;
use crate::memory::{MEMORY_PATIENCE, NamingMemory, Share};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use syscollect_elf::LoadedPart;

/// Go 1.18 and 1.19, and later ones: the same rows.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
const WORD: usize = 8;
/// Words of the header.
const HEADER: usize = 9;
/// Bytes of a row of the index.
const ROW: usize = 8;
/// The largest programs have some 500,000 functions.
const FUNCTIONS_MAX: u64 = 8 << 20;
/// Names of generic functions say all types; longer ones are cut.
const NAME_MAX: u64 = 4096;
/// Where `.go.module` has the address of the table, and that of its first code, in words.
const MODULE_TABLE: usize = 0;
const MODULE_CODE: usize = 22;

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GoTableError {
    #[error("it has {0} functions")]
    Large(u64),
    #[error("no memory for {0} bytes")]
    NoMemory(u64),
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it does not say where its code begins")]
    Nowhere,
}

/// A file's functions, by address.
#[derive(Debug)]
pub(crate) struct GoFunctions<R> {
    reader: R,
    /// What the addresses of rows are distances from.
    code: u64,
    /// The index, sorted; a last address follows.
    index: Vec<u8>,
    /// Where in the file the rest is said of functions, and where their names lie.
    functions: Range<u64>,
    names: Range<u64>,
    _memory: Share,
}

/// A function.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GoFunction {
    /// Its virtual addresses.
    pub(crate) addresses: Range<u64>,
    /// As stack traces show it, with its package.
    pub(crate) name: String,
}

impl<R: Read + Seek> GoFunctions<R> {
    /// Those of the file that `reader` reads and `layout` describes; `None` if it has no table that
    /// is known here.
    ///
    /// # Errors
    ///
    /// It is too large, there is no memory for it, the file shrank, or it says not of which code it
    /// is.
    pub(crate) fn read(
        mut reader: R,
        layout: &Layout,
        memory: &NamingMemory,
    ) -> Result<Option<Self>, GoTableError> {
        let Some(table) = layout.go_functions else { return Ok(None) };
        let [start, count, _, code, names, .., index] = words::<HEADER>(&mut reader, table.offset)?;
        // A step of code is a byte here, and a pointer has eight.
        let is_known = MAGICS.contains(&(start as u32)) && start >> 32 == 0x0801_0000;
        if !is_known {
            return Ok(None);
        }
        if count > FUNCTIONS_MAX {
            return Err(GoTableError::Large(count));
        }
        let code = match (code, layout.go_module) {
            (0, Some(module)) => code_of(&mut reader, &module, &table)?,
            (code, _) => Some(code).filter(|code| *code != 0),
        };
        let code = code.filter(|code| layout.code_end(*code).is_some());
        let code = code.ok_or(GoTableError::Nowhere)?;
        let end = table.offsets().end;
        let [names, functions] = [names, index]
            .map(|distance| table.offset.checked_add(distance).filter(|start| *start < end));
        let (Some(names), Some(functions)) = (names, functions) else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        };
        let bytes = count * ROW as u64 + 4;
        if end - functions < bytes {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let share = memory.take(bytes, MEMORY_PATIENCE).ok_or(GoTableError::NoMemory(bytes))?;
        reader.seek(SeekFrom::Start(functions))?;
        let mut index = Vec::new();
        reader.by_ref().take(bytes).read_to_end(&mut index)?;
        if index.len() as u64 != bytes {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let (functions, names) = (functions..end, names..end);
        Ok(Some(Self { reader, code, index, functions, names, _memory: share }))
    }

    /// The function that holds `address`.
    ///
    /// # Errors
    ///
    /// The file can no longer be read.
    pub(crate) fn find(&mut self, address: u64) -> io::Result<Option<GoFunction>> {
        let Some(address) = address.checked_sub(self.code).and_then(|at| u32::try_from(at).ok())
        else {
            return Ok(None);
        };
        let (rows, last) = self.index.as_chunks::<ROW>();
        let behind = rows.partition_point(|row| begin(row) <= address);
        let Some(row) = behind.checked_sub(1).map(|at| rows[at]) else { return Ok(None) };
        let (start, end) = (begin(&row), rows.get(behind).map_or(number(last), begin));
        let entry_at = self.functions.start.saturating_add(number(&row[4..]).into());
        if address >= end || !self.functions.contains(&entry_at) {
            return Ok(None);
        }
        let [entry] = words(&mut self.reader, entry_at)?;
        let name_at = self.names.start.saturating_add(entry >> 32);
        if entry as u32 != start || !self.names.contains(&name_at) {
            return Ok(None);
        }
        let name = name(&mut self.reader, name_at..self.names.end)?;
        let [start, end] = [start, end].map(|at| self.code.saturating_add(at.into()));
        let addresses = start..end;
        Ok(name.map(|name| GoFunction { addresses, name }))
    }
}

fn begin(row: &[u8; ROW]) -> u32 {
    number(&row[..4])
}

/// The first address of code, as the program's description of itself has it, if that is of this
/// table.
fn code_of(
    reader: &mut (impl Read + Seek),
    module: &LoadedPart,
    table: &LoadedPart,
) -> io::Result<Option<u64>> {
    let words = words::<{ MODULE_CODE + 1 }>(reader, module.offset)?;
    Ok((words[MODULE_TABLE] == table.address).then_some(words[MODULE_CODE]))
}

/// The text that begins there; `None` if it is empty.
fn name(reader: &mut (impl Read + Seek), within: Range<u64>) -> io::Result<Option<String>> {
    reader.seek(SeekFrom::Start(within.start))?;
    let mut bytes = Vec::new();
    reader.take(NAME_MAX.min(within.end - within.start)).read_to_end(&mut bytes)?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok((!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned()))
}

fn words<const COUNT: usize>(
    reader: &mut (impl Read + Seek),
    offset: u64,
) -> io::Result<[u64; COUNT]> {
    let mut bytes = vec![0; COUNT * WORD];
    reader.seek(SeekFrom::Start(offset))?;
    reader.read_exact(&mut bytes)?;
    let (read, mut words) = (bytes.as_chunks().0, [0; COUNT]);
    words.iter_mut().zip(read).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    Ok(words)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    const CODE: u64 = 0x40_1000;
    /// Where the table lies in the file, and in memory.
    const TABLE: u64 = 0x100;
    const ADDRESS: u64 = 0x4b_9000;

    /// A file with a table of functions, which are where they begin and their names, up to `end`,
    /// and a program's description of itself at its begin.
    fn file(code: u64, functions: &[(u32, &str)], end: u32) -> Vec<u8> {
        let (mut names, mut entries, mut index) = (Vec::new(), Vec::new(), Vec::new());
        let index_bytes = (functions.len() * ROW + 4) as u32;
        for (start, name) in functions {
            index.extend(
                [*start, index_bytes + entries.len() as u32].map(u32::to_le_bytes).concat(),
            );
            entries.extend([*start, names.len() as u32].map(u32::to_le_bytes).concat());
            names.extend([name.as_bytes(), b"\0"].concat());
        }
        index.extend(end.to_le_bytes());
        let header = (HEADER * WORD) as u64;
        let magic = 0x0801_0000 << 32 | u64::from(MAGICS[1]);
        let (count, index_at) = (functions.len() as u64, header + names.len() as u64);
        let words = [magic, count, 1, code, header, 0, 0, 0, index_at].map(u64::to_le_bytes);
        let mut file = vec![0; TABLE as usize];
        file[..WORD].copy_from_slice(&ADDRESS.to_le_bytes());
        file[MODULE_CODE * WORD..][..WORD].copy_from_slice(&CODE.to_le_bytes());
        file.extend([&words.concat(), &names, &index, &entries].map(Vec::as_slice).concat());
        file
    }

    fn layout(file: &[u8]) -> Layout {
        let mut layout = Layout::of_code(CODE..CODE + 0x1000);
        layout.go_functions = LoadedPart::new(ADDRESS, TABLE, file.len() as u64 - TABLE);
        layout.go_module = LoadedPart::new(0x50_0000, 0, TABLE);
        layout
    }

    fn read(file: &[u8], layout: &Layout) -> Result<Option<GoFunctions<Cursor<Vec<u8>>>>, String> {
        let read =
            GoFunctions::read(Cursor::new(file.to_vec()), layout, &NamingMemory::new(1 << 20));
        read.map_err(|error| error.to_string())
    }

    const FUNCTIONS: [(u32, &str); 3] =
        [(0, "internal/cpu.Initialize"), (0x40, "main.(*ring).stir"), (0x100, "main.main")];

    #[test]
    fn a_function_is_known_from_its_first_byte_to_the_next_ones() {
        // Since Go 1.26 the table does not say where code begins, and another part does.
        for code in [CODE, 0] {
            let file = file(code, &FUNCTIONS, 0x180);
            let mut functions = read(&file, &layout(&file)).unwrap().unwrap();
            for (at, range, name) in [
                (0, 0..0x40, "internal/cpu.Initialize"),
                (0x3f, 0..0x40, "internal/cpu.Initialize"),
                (0x40, 0x40..0x100, "main.(*ring).stir"),
                (0x17f, 0x100..0x180, "main.main"),
            ] {
                let addresses = CODE + range.start..CODE + range.end;
                let found = functions.find(CODE + at).unwrap();
                assert_eq!(found, Some(GoFunction { addresses, name: name.into() }), "{at:#x}");
            }
            let behind = functions.find(CODE + 0x180).unwrap();
            assert_eq!(behind, None, "code of C, behind all of Go's");
            assert_eq!(functions.find(CODE - 1).unwrap(), None);
            assert_eq!(functions.find(u64::MAX).unwrap(), None);
        }
    }

    #[test]
    fn a_table_that_is_not_understood_names_nothing() {
        let whole = file(CODE, &FUNCTIONS, 0x180);
        let mut earlier = whole.clone();
        earlier[TABLE as usize] = 0xfa;
        assert!(read(&earlier, &layout(&earlier)).unwrap().is_none(), "Go 1.16");
        assert!(read(&whole, &Layout::of_code(CODE..CODE + 1)).unwrap().is_none());
        // Where it says that its code lies, there is none.
        let elsewhere = file(CODE + 0x1000, &FUNCTIONS, 0x180);
        let error = read(&elsewhere, &layout(&elsewhere)).unwrap_err();
        assert_eq!(error, "it does not say where its code begins");
        let unsaid = file(0, &FUNCTIONS, 0x180);
        let mut alone = layout(&unsaid);
        alone.go_module = None;
        assert!(read(&unsaid, &alone).is_err());
        let mut of_another = layout(&unsaid);
        of_another.go_functions = LoadedPart::new(ADDRESS + 8, TABLE, unsaid.len() as u64 - TABLE);
        assert!(read(&unsaid, &of_another).is_err());
        let mut many = whole;
        many[TABLE as usize + WORD..][..WORD].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read(&many, &layout(&many)).unwrap_err().starts_with("it has "));
    }

    proptest! {
        #[test]
        fn damage_costs_names_and_makes_none_of_what_is_none(
            at in TABLE as usize..TABLE as usize + 0xf0,
            byte: u8,
            cut in 0_usize..0x200,
        ) {
            let whole = file(CODE, &FUNCTIONS, 0x180);
            let layout = layout(&whole);
            let mut damaged = whole.clone();
            damaged.truncate(whole.len().saturating_sub(cut / 4));
            if let Some(of) = damaged.get_mut(at) {
                *of = byte;
            }
            let Ok(Some(mut functions)) = read(&damaged, &layout) else { return Ok(()) };
            for address in (CODE - 8..CODE + 0x200).step_by(4) {
                if let Ok(Some(GoFunction { addresses, name })) = functions.find(address) {
                    prop_assert!(addresses.contains(&address) && !name.is_empty());
                }
            }
        }
    }
}
