//! The interpreter in a file.

use crate::versions::{TABLE_BYTES, from_table, is_table, known};
use crate::{PythonFileError, cold};
use object::elf::{self, FileHeader64, Sym64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, ReadRef};
use syscollect_records::python::PythonFile;

/// Bytes of a symbol table, of its names, and of the interpreter's loop that are read at most.
const SYMBOLS_MAX: u64 = 16 << 20;
const LOOP_MAX: u64 = 1 << 20;

/// Whether a file at such a path may hold an interpreter: what is called otherwise is not looked at.
pub fn may_hold_interpreter(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    // Extension modules have the interpreter's name in theirs.
    name.contains("python") && !name.contains(".cpython-") && !name.contains(".abi3.")
}

/// Where the interpreter in an ELF file of x86-64 keeps what the kernel programs read; `None` if
/// there is none in it. `path` is where it lay: before 3.11 only that says which version it is.
///
/// # Errors
///
/// If it is no ELF file, or its interpreter is one that is not known.
pub fn interpreter<'d, R: ReadRef<'d>>(
    data: R,
    path: &str,
) -> Result<Option<PythonFile>, PythonFileError> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    // Counts that do not fit the header are kept in section 0, and may be any; no interpreter has.
    if header.e_phnum(endian) == elf::PN_XNUM || header.e_shnum(endian) == 0 {
        return Err(PythonFileError::TooLarge);
    }
    let Some(symbols) = Symbols::find(header, endian, data)? else { return Ok(None) };
    let segments = Segments::read(header, endian, data)?;
    let Some(code) = segments.code_of(symbols.eval_loop) else { return Ok(None) };
    let runtime = segments.bytes(data, symbols.runtime, TABLE_BYTES as u64);
    let layout = match runtime {
        Some(table) if is_table(table) => from_table(table)?,
        _ => {
            let minor = version(data, &segments, &symbols, path);
            known(minor).ok_or(PythonFileError::UnknownVersion(minor))?
        }
    };
    let as_code = |address: u64| address.wrapping_sub(code.address).wrapping_add(code.offset);
    let rest = code.address + code.size - symbols.eval_loop;
    let size = symbols.eval_loop_size.min(LOOP_MAX).min(rest);
    let begin = as_code(symbols.eval_loop);
    let bytes = segments.bytes(data, symbols.eval_loop, size).unwrap_or_default();
    let cold = cold::part_of(bytes, symbols.eval_loop).map_or([0, 0], |part| {
        let inside = |address: u64| address.clamp(code.address, code.address + code.size);
        [as_code(inside(part.start)), as_code(inside(part.end))]
    });
    Ok(Some(PythonFile {
        runtime: as_code(symbols.runtime),
        code_type: as_code(symbols.code_type),
        loops: [begin, begin + size, cold[0], cold[1]],
        ..layout
    }))
}

/// The minor version of an interpreter that has no table of its structures.
fn version<'d, R: ReadRef<'d>>(data: R, segments: &Segments, symbols: &Symbols, path: &str) -> u8 {
    // `Py_Version`, from 3.11 on: PY_VERSION_HEX.
    if let Some(address) = symbols.version
        && let Some(bytes) = segments.bytes(data, address, 8)
        && let Ok(word) = <[u8; 8]>::try_from(bytes)
    {
        return (u64::from_le_bytes(word) >> 16) as u8;
    }
    let digits = path.rsplit_once("python3.").map_or("", |(_, rest)| rest);
    let digits = digits.split(|character: char| !character.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// What is looked for by name: addresses.
struct Symbols {
    runtime: u64,
    code_type: u64,
    eval_loop: u64,
    eval_loop_size: u64,
    version: Option<u64>,
}

impl Symbols {
    /// In the table for the dynamic linker, or else in the other one: a program need not offer its
    /// functions to others.
    fn find<'d, R: ReadRef<'d>>(
        header: &FileHeader64<Endianness>,
        endian: Endianness,
        data: R,
    ) -> Result<Option<Self>, PythonFileError> {
        let sections = header.sections(endian, data)?;
        for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
            let of_kind =
                |section: &&elf::SectionHeader64<Endianness>| section.sh_type(endian) == kind;
            let Some(table) = sections.iter().find(of_kind) else { continue };
            let index = object::SectionIndex(table.sh_link(endian) as usize);
            let names = sections.section(index)?;
            if table.sh_size(endian).max(names.sh_size(endian)) > SYMBOLS_MAX {
                return Err(PythonFileError::TooLarge);
            }
            let symbols = table.data_as_array::<Sym64<Endianness>, _>(endian, data)?;
            let names = names.data(endian, data)?;
            let found = Self::among(symbols, names, endian);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn among(symbols: &[Sym64<Endianness>], names: &[u8], endian: Endianness) -> Option<Self> {
        let named = |name: &[u8]| {
            symbols.iter().find(|symbol| {
                let at = symbol.st_name(endian) as usize;
                let rest = names.get(at..).and_then(|rest| rest.strip_prefix(name));
                rest.is_some_and(|rest| rest.first() == Some(&0)) && !symbol.is_undefined(endian)
            })
        };
        let address = |name: &[u8]| named(name).map(|symbol| symbol.st_value(endian));
        let eval_loop = named(b"_PyEval_EvalFrameDefault")?;
        Some(Self {
            runtime: address(b"_PyRuntime")?,
            code_type: address(b"PyCode_Type")?,
            eval_loop: eval_loop.st_value(endian),
            eval_loop_size: eval_loop.st_size(endian),
            version: address(b"Py_Version"),
        })
    }
}

/// A part of the file that is loaded.
#[derive(Clone, Copy)]
struct Segment {
    offset: u64,
    address: u64,
    size: u64,
    is_code: bool,
}

/// Loaded parts at most; linkers make about ten.
const SEGMENTS_MAX: usize = 128;

struct Segments(Vec<Segment>);

impl Segments {
    fn read<'d, R: ReadRef<'d>>(
        header: &FileHeader64<Endianness>,
        endian: Endianness,
        data: R,
    ) -> Result<Self, PythonFileError> {
        let loaded = header.program_headers(endian, data)?.iter();
        let loaded = loaded.filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
        let segment = |segment: &elf::ProgramHeader64<Endianness>| Segment {
            offset: segment.p_offset(endian),
            address: segment.p_vaddr(endian),
            size: segment.p_filesz(endian),
            is_code: segment.p_flags(endian).contains(elf::PF_X),
        };
        let is_possible = |part: &Segment| {
            let ends = (part.offset.checked_add(part.size), part.address.checked_add(part.size));
            matches!(ends, (Some(_), Some(_)))
        };
        Ok(Self(loaded.take(SEGMENTS_MAX).map(segment).filter(is_possible).collect()))
    }

    fn holding(&self, address: u64) -> Option<Segment> {
        let holds = |part: &&Segment| {
            address.checked_sub(part.address).is_some_and(|offset| offset < part.size)
        };
        self.0.iter().find(holds).copied()
    }

    /// The code around an address.
    fn code_of(&self, address: u64) -> Option<Segment> {
        self.holding(address).filter(|part| part.is_code)
    }

    /// The file's bytes of an address: up to so many, as far as the file has them.
    fn bytes<'d, R: ReadRef<'d>>(&self, data: R, address: u64, size: u64) -> Option<&'d [u8]> {
        let part = self.holding(address)?;
        let begin = address - part.address;
        data.read_bytes_at(part.offset + begin, size.min(part.size - begin)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_may_hold_an_interpreter_are_told_by_their_names() {
        let may = |path| may_hold_interpreter(path);
        assert!(may("/usr/bin/python3.11") && may("/opt/lib/libpython3.8.so.1.0"));
        assert!(may("/home/a/.local/bin/python3"));
        assert!(!may("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so"));
        assert!(!may("/usr/lib/python3.11/libfoo.so") && !may("/usr/bin/perl"));
    }

    #[test]
    fn a_program_that_is_no_interpreter_has_none() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(interpreter(&*own, "/usr/bin/python3.11").unwrap(), None);
        assert!(interpreter(&b"no ELF file"[..], "python3").is_err());
    }

    #[test]
    fn tables_whose_size_is_said_elsewhere_are_not_read() {
        // e_phnum and e_shnum of a header of 64 bits; section 0 could say any number.
        for (at, value) in [(56, u16::MAX), (60, 0)] {
            let mut own = std::fs::read("/proc/self/exe").unwrap();
            own[at..at + 2].copy_from_slice(&value.to_le_bytes());
            let read = interpreter(&*own, "/usr/bin/python3.11");
            assert!(matches!(read, Err(PythonFileError::TooLarge)), "{at}: {read:?}");
        }
    }
}
