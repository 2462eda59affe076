//! A Windows image (PE): what it is known by, its symbol file, and its exports.

use super::PdbIdentity;
use super::demangle::demangled;
use object::pe::{
    IMAGE_DIRECTORY_ENTRY_EXCEPTION, IMAGE_FILE_MACHINE_AMD64, IMAGE_SCN_MEM_EXECUTE,
};
use object::read::pe::{ExportTable, ImageNtHeaders, ImageOptionalHeader, PeFile};
use object::{FileKind, LittleEndian as LE, Object};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;
use syscollect_model::{Symbol, SymbolFrame};

/// Functions whose end nobody states are not longer, bytes.
const SIZELESS_MAX: u32 = 4096;
/// Names of exports are read up to this many bytes altogether: pointers to names may all lead to
/// one that does not end.
const NAMES_MAX: usize = 64 << 20;
/// Pieces of a function lead to its first piece in one step or few.
const CHAIN_MAX: usize = 8;
/// Where functions begin, and what compilers fill the bytes before with.
const ALIGNMENT: u32 = 16;
const PADDING: [u8; 2] = [0xCC, 0x90];

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is longer than images are read.
    #[error("it is longer than {0} bytes")]
    TooLong(u64),
    /// It is no image of Windows.
    #[error("it is no Windows image: {0}")]
    Format(#[from] object::read::Error),
}

/// What an image tells about its code.
///
/// An export tells where a function begins, not where it ends, and most functions are not
/// exported. Where the image has a table of its functions (x64), an address gets the name
/// of an export only if that is where its function begins; functions that are not in there,
/// and those of other machines, are believed to end where padding precedes the next place that
/// a function could begin at.
#[derive(Clone, Debug, Default)]
pub struct Image {
    timestamp: u32,
    size: u32,
    pdb: Option<PdbIdentity>,
    exports: BTreeMap<u32, Export>,
    functions: Vec<Function>,
}

#[derive(Clone, Debug)]
struct Export {
    /// `None` if it is known by number only.
    name: Option<String>,
    /// Where it ends if no table of functions says so.
    end: u32,
}

/// A piece of code of one function.
#[derive(Clone, Copy, Debug)]
struct Function {
    begin: u32,
    end: u32,
    /// Where the function begins of which this is a piece.
    first: u32,
}

impl Image {
    /// Reads an image of at most `bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is longer, or is no image.
    pub fn read(reader: impl Read, bytes_max: u64) -> Result<Self, ImageError> {
        let mut bytes = Vec::new();
        reader.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(ImageError::TooLong(bytes_max));
        }
        match FileKind::parse(bytes.as_slice())? {
            FileKind::Pe64 => {
                Ok(Self::parse(&PeFile::<object::pe::ImageNtHeaders64>::parse(&*bytes)?))
            }
            _ => Ok(Self::parse(&PeFile::<object::pe::ImageNtHeaders32>::parse(&*bytes)?)),
        }
    }

    /// `SizeOfImage`, bytes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// `TimeDateStamp`.
    pub fn timestamp(&self) -> u32 {
        self.timestamp
    }

    /// Its symbol file.
    pub fn pdb(&self) -> Option<&PdbIdentity> {
        self.pdb.as_ref()
    }

    /// Names relative virtual addresses by exports, in order of address; those without a name are
    /// left out.
    ///
    /// As to the stack, see [`Pdb::name`](super::Pdb::name).
    pub fn name(&self, offsets: &[u64]) -> Vec<Symbol> {
        let mut offsets = offsets.to_vec();
        offsets.sort_unstable();
        offsets.dedup();
        offsets.into_iter().filter_map(|offset| self.symbol(offset)).collect()
    }

    fn parse<Pe: ImageNtHeaders>(file: &PeFile<'_, Pe>) -> Self {
        let headers = file.nt_headers();
        let pdb = file.pdb_info().ok().flatten().map(|view| PdbIdentity {
            name: String::from_utf8_lossy(view.path()).into_owned(),
            guid: view.guid(),
            age: view.age(),
        });
        let amd64 = headers.file_header().machine.get(LE) == IMAGE_FILE_MACHINE_AMD64;
        let functions = if amd64 { functions(file) } else { Vec::new() };
        Self {
            timestamp: headers.file_header().time_date_stamp.get(LE),
            size: headers.optional_header().size_of_image(),
            pdb,
            exports: file
                .export_table()
                .ok()
                .flatten()
                .map(|table| exports(file, &table))
                .unwrap_or_default(),
            functions,
        }
    }

    fn symbol(&self, offset: u64) -> Option<Symbol> {
        let address = u32::try_from(offset).ok()?;
        let (start, end) = match self.function(address) {
            Some(function) if function.begin == function.first => (function.begin, function.end),
            // How far it is from piece to piece says nothing about its size.
            Some(function) => (function.first, function.first),
            None => {
                let (start, export) = self.exports.range(..=address).next_back()?;
                let alone = address < export.end && self.function(*start).is_none();
                let next = self.functions.partition_point(|function| function.begin <= *start);
                let undisturbed = self.functions.get(next).is_none_or(|next| address < next.begin);
                (alone && undisturbed).then_some((*start, export.end))?
            }
        };
        let name = self.exports.get(&start)?.name.as_deref()?;
        let frames =
            vec![SymbolFrame { function: demangled(name).into_owned(), ..SymbolFrame::default() }];
        let size = u64::from(end.saturating_sub(start));
        Some(Symbol { offset, start: start.into(), size, frames, ..Symbol::default() })
    }

    /// The piece of code that holds `address`, as the table of functions says.
    fn function(&self, address: u32) -> Option<Function> {
        let behind = self.functions.partition_point(|function| function.begin <= address);
        self.functions[..behind].last().copied().filter(|function| address < function.end)
    }
}

/// The code at `address`, up to the end of its section; `None` if that is not code.
fn code<'data, Pe: ImageNtHeaders>(file: &PeFile<'data, Pe>, address: u32) -> Option<&'data [u8]> {
    let section = file.section_table().section_containing(address)?;
    let executable = section.characteristics.get(LE).contains(IMAGE_SCN_MEM_EXECUTE);
    executable.then(|| section.pe_data_at(file.data(), address)).flatten()
}

/// Exported code by address.
fn exports<Pe: ImageNtHeaders>(
    file: &PeFile<'_, Pe>,
    table: &ExportTable<'_>,
) -> BTreeMap<u32, Export> {
    let addresses = table.addresses().iter().map(|address| address.get(LE));
    let mut exports: BTreeMap<u32, Export> = addresses
        .filter(|address| !table.is_forward(*address) && code(file, *address).is_some())
        .map(|address| (address, Export { name: None, end: address }))
        .collect();
    let mut length = 0;
    for (pointer, index) in table.name_iter() {
        let export =
            table.address_by_index(index).ok().and_then(|address| exports.get_mut(&address));
        let (Some(export), Ok(name)) = (export, table.name_from_pointer(pointer)) else { continue };
        length += name.len();
        if length > NAMES_MAX {
            break;
        }
        if export.name.is_none() && !name.is_empty() {
            export.name = Some(String::from_utf8_lossy(name).into_owned());
        }
    }
    let starts: Vec<u32> = exports.keys().copied().collect();
    for (index, start) in starts.iter().enumerate() {
        let next = starts.get(index + 1).copied().unwrap_or(u32::MAX);
        if let Some(export) = exports.get_mut(start) {
            export.end = guessed_end(code(file, *start).unwrap_or_default(), *start..next);
        }
    }
    exports
}

/// Where a function ends at the latest, for all that its code shows.
fn guessed_end(code: &[u8], within: Range<u32>) -> u32 {
    let Range { start, end } = within;
    let longest = (code.len() as u32).min(SIZELESS_MAX).min(end - start);
    let next_aligned = start.next_multiple_of(ALIGNMENT);
    (next_aligned..start.saturating_add(longest))
        .step_by(ALIGNMENT as usize)
        .find(|place| *place > start && PADDING.contains(&code[(place - start - 1) as usize]))
        .unwrap_or(start.saturating_add(longest))
}

/// The table of functions (`.pdata`) in order of address.
fn functions<Pe: ImageNtHeaders>(file: &PeFile<'_, Pe>) -> Vec<Function> {
    let sections = file.section_table();
    let table = file.data_directory(IMAGE_DIRECTORY_ENTRY_EXCEPTION).and_then(|directory| {
        let size = directory.size.get(LE) as usize;
        let data = sections.pe_data_at(file.data(), directory.virtual_address.get(LE))?;
        Some(&data[..size.min(data.len())])
    });
    let entries = table.unwrap_or_default().chunks_exact(12).map(entry);
    let mut functions: Vec<Function> = entries
        .filter(|[begin, end, _]| begin < end)
        .map(|[begin, end, unwind]| Function {
            begin,
            end,
            first: first_piece(file, begin, unwind),
        })
        .collect();
    functions.sort_unstable_by_key(|function| function.begin);
    functions
}

/// Where a function begins: the information on how to unwind one of its pieces may name another
/// one.
fn first_piece<Pe: ImageNtHeaders>(file: &PeFile<'_, Pe>, mut begin: u32, mut unwind: u32) -> u32 {
    const CHAINED: u8 = 4;
    for _ in 0..CHAIN_MAX {
        let Some(information) = file.section_table().pe_data_at(file.data(), unwind) else { break };
        let [flags, _, codes, ..] = *information else { break };
        if flags >> 3 & CHAINED == 0 {
            break;
        }
        // Codes come in pairs of two bytes each.
        let at = 4 + 2 * usize::from(codes).next_multiple_of(2);
        let Some(next) = information.get(at..at + 12) else { break };
        [begin, _, unwind] = entry(next);
    }
    begin
}

fn entry(bytes: &[u8]) -> [u32; 3] {
    [0, 4, 8].map(|at| {
        bytes.get(at..at + 4).and_then(|field| field.try_into().ok()).map_or(0, u32::from_le_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_where_padding_precedes_an_aligned_place() {
        let mut code = vec![0x48; 64];
        code[30..32].fill(0xCC);
        assert_eq!(guessed_end(&code, 0x1000..u32::MAX), 0x1020);
        assert_eq!(
            guessed_end(&code, 0x1008..u32::MAX),
            0x1048,
            "there the padding is not before an aligned place"
        );
        assert_eq!(guessed_end(&code, 0x1000..0x1010), 0x1010, "the next export is nearer");
        assert_eq!(guessed_end(&[], 0x1000..u32::MAX), 0x1000);
        assert_eq!(guessed_end(&vec![0; 1 << 20], 0x1000..u32::MAX), 0x2000);
    }

    #[test]
    fn an_export_names_its_own_function_and_no_other() {
        let image = Image {
            exports: [
                (0x1000, named("framed", 0x1010)),
                (0x1800, named("leaf", 0x1820)),
                (0x1900, Export { name: None, end: 0x1910 }),
                (0x1a00, named("before_framed", 0x1a80)),
            ]
            .into(),
            functions: vec![
                Function { begin: 0x1000, end: 0x1100, first: 0x1000 },
                Function { begin: 0x1100, end: 0x1200, first: 0x1100 },
                Function { begin: 0x1a40, end: 0x1a60, first: 0x1a40 },
                Function { begin: 0x3000, end: 0x3010, first: 0x1000 },
            ],
            ..Image::default()
        };
        let offsets = [
            0xfff,
            0x10ff,
            0x1100,
            0x1820,
            0x1810,
            0x1900,
            0x1a3f,
            0x1a40,
            0x1a70,
            0x3008,
            1 << 40,
        ];
        let found = image.name(&offsets);
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.offset, it.start, it.size, it.frames[0].function.as_str()))
            .collect();
        let expected = [
            (0x10ff, 0x1000, 0x100, "framed"),
            (0x1810, 0x1800, 0x20, "leaf"),
            (0x1a3f, 0x1a00, 0x80, "before_framed"),
            (0x3008, 0x1000, 0, "framed"),
        ];
        assert_eq!(found, expected);
    }

    fn named(name: &str, end: u32) -> Export {
        Export { name: Some(name.into()), end }
    }
}
