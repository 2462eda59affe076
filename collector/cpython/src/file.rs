//! The interpreter in a file.

use crate::PythonFileError;
use crate::arch::cold_part_of;
use crate::versions::{TABLE_BYTES, from_table, is_table, known};
use syscollect_elf::{Elf, ReadRef, Sections, Segment, SymbolLimits, SymbolTable, abi};
use syscollect_records::python::PythonFile;

/// Bytes of a symbol table, of its names, and of the interpreter's loop that are read at most.
const LIMITS: SymbolLimits = SymbolLimits { table: 16 << 20, names: 16 << 20 };
const LOOP_MAX: u64 = 1 << 20;

/// Whether a file at such a path may hold an interpreter: what is called otherwise is not looked
/// at.
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
    let elf = Elf::of_x86_64(data)?;
    let sections = elf.sections()?;
    // Counts that do not fit the header are kept in section 0, and may be any; no interpreter has.
    if sections.count() == 0 {
        return Err(PythonFileError::TooLarge);
    }
    let Some(symbols) = Symbols::find(&sections)? else { return Ok(None) };
    let holder = elf.loaded().holding(symbols.eval_loop);
    let Some(code) = holder.filter(|segment| segment.is_code()) else { return Ok(None) };
    let runtime = elf.loaded_bytes(symbols.runtime, TABLE_BYTES as u64);
    let layout = match runtime {
        Some(table) if is_table(table) => from_table(table)?,
        _ => {
            let minor = version(&elf, &symbols, path);
            known(minor).ok_or(PythonFileError::UnknownVersion(minor))?
        }
    };
    let rest = code.address + code.size - symbols.eval_loop;
    let size = symbols.eval_loop_size.min(LOOP_MAX).min(rest);
    let begin = as_code(symbols.eval_loop, code);
    let bytes = elf.loaded_bytes(symbols.eval_loop, size).unwrap_or_default();
    let cold = cold_part_of(bytes, symbols.eval_loop).map_or([0, 0], |part| {
        [part.start, part.end]
            .map(|address| as_code(address.clamp(code.address, code.address + code.size), code))
    });
    Ok(Some(PythonFile {
        runtime: as_code(symbols.runtime, code),
        code_type: as_code(symbols.code_type, code),
        loops: [begin, begin + size, cold[0], cold[1]],
        ..layout
    }))
}

/// Where an address of the segment lies in the file.
fn as_code(address: u64, code: &Segment) -> u64 {
    address.wrapping_sub(code.address).wrapping_add(code.offset)
}

/// The minor version of an interpreter that has no table of its structures.
fn version<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>, symbols: &Symbols, path: &str) -> u8 {
    // `Py_Version`, from 3.11 on: PY_VERSION_HEX.
    if let Some(address) = symbols.version
        && let Some(bytes) = elf.loaded_bytes(address, 8)
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
        sections: &Sections<'_, 'd, R>,
    ) -> Result<Option<Self>, PythonFileError> {
        for kind in [abi::SHT_DYNSYM, abi::SHT_SYMTAB] {
            let table = sections.symbols(kind, &LIMITS)?;
            if let Some(found) = table.and_then(|table| Self::among(&table)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn among(table: &SymbolTable<'_>) -> Option<Self> {
        let eval_loop = table.find(b"_PyEval_EvalFrameDefault")?;
        Some(Self {
            runtime: table.find(b"_PyRuntime")?.address,
            code_type: table.find(b"PyCode_Type")?.address,
            eval_loop: eval_loop.address,
            eval_loop_size: eval_loop.size,
            version: table.find(b"Py_Version").map(|symbol| symbol.address),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_may_hold_an_interpreter_are_told_by_their_names() {
        assert!(
            may_hold_interpreter("/usr/bin/python3.11")
                && may_hold_interpreter("/opt/lib/libpython3.8.so.1.0")
        );
        assert!(may_hold_interpreter("/home/a/.local/bin/python3"));
        assert!(!may_hold_interpreter(
            "/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so"
        ));
        assert!(
            !may_hold_interpreter("/usr/lib/python3.11/libfoo.so")
                && !may_hold_interpreter("/usr/bin/perl")
        );
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
