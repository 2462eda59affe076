//! Functions of Python programs, as places in code.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use syscollect_cpython::PythonCode;

/// Where the line ends in an offset and the function begins, bits.
const FUNCTION_SHIFT: u32 = 32;

/// Every function that was seen, once, whichever program it is of.
#[derive(Debug, Default)]
pub struct PythonCodes {
    rows: Vec<Arc<PythonCode>>,
    ids: FxHashMap<Arc<PythonCode>, u32>,
}

/// What an offset in the [module](syscollect_model::ModuleKind::Python) of Python functions stands
/// for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PythonLocation {
    /// The function with the file that it is of: many have the same name.
    pub(crate) function: String,
    pub(crate) file: String,
    /// From 1; 0 where it is not known.
    pub(crate) line: u32,
}

impl PythonCodes {
    /// Stands for functions that were not read, because there are too many.
    pub const CUT: u64 = 1;

    /// The row of a code object, added if it is new.
    pub fn intern(&mut self, code: PythonCode) -> u32 {
        if let Some(index) = self.ids.get(&code) {
            return *index;
        }
        let (index, code) = (self.rows.len() as u32, Arc::new(code));
        self.rows.push(code.clone());
        self.ids.insert(code, index);
        index
    }

    /// The place of an instruction, bytes from the first one of a code object. Instructions of one
    /// line are one place. `None` is a function of which nothing is known.
    pub fn offset(&self, row: Option<u32>, instruction: u32) -> u64 {
        let Some((row, code)) = row.and_then(|row| Some((row, self.rows.get(row as usize)?)))
        else {
            return 0;
        };
        let line = code.line(instruction).unwrap_or(0);
        (u64::from(row) + 1) << FUNCTION_SHIFT | u64::from(line)
    }

    /// What lies at an offset; `None` if nothing is known of it.
    pub(crate) fn place(&self, offset: u64) -> Option<PythonLocation> {
        if offset == Self::CUT {
            let function = "[truncated: more Python functions]".to_owned();
            return Some(PythonLocation { function, file: String::new(), line: 0 });
        }
        let row = (offset >> FUNCTION_SHIFT).checked_sub(1)?;
        let code = self.rows.get(row as usize)?;
        let (name, file) = (&code.name, short(&code.file));
        let function = match name.is_empty() {
            true => format!("[unnamed] ({file}:{})", code.first_line),
            false => format!("{name} ({file})"),
        };
        Some(PythonLocation { function, file: code.file.clone(), line: offset as u32 })
    }

    /// Takes over rows of others: the numbers that they have here.
    pub fn take_of(&mut self, others: &Self, rows: &FxHashSet<u32>) -> FxHashMap<u32, u32> {
        let known = rows.iter().filter_map(|row| Some((*row, others.rows.get(*row as usize)?)));
        let taken = known.map(|(row, code)| {
            let next = self.rows.len() as u32;
            let new = *self.ids.entry(Arc::clone(code)).or_insert(next);
            if new == next {
                self.rows.push(Arc::clone(code));
            }
            (row, new)
        });
        taken.collect()
    }

    /// The row that an offset is of, if it is of one.
    pub(crate) fn row(offset: u64) -> Option<u32> {
        (offset >> FUNCTION_SHIFT).checked_sub(1).map(|row| row as u32)
    }

    /// The offset of the same place where rows have other numbers.
    pub(crate) fn renumbered(offset: u64, rows: &FxHashMap<u32, u32>) -> u64 {
        let row = Self::row(offset).and_then(|row| rows.get(&row));
        row.map_or(offset, |row| {
            (u64::from(*row) + 1) << FUNCTION_SHIFT | offset & u64::from(u32::MAX)
        })
    }

    /// Where the function at an offset begins, and how far it reaches.
    pub(crate) fn extent(offset: u64) -> (u64, u64) {
        (offset >> FUNCTION_SHIFT << FUNCTION_SHIFT, 1 << FUNCTION_SHIFT)
    }
}

/// The end of a path that tells files apart: all packages have an `__init__.py`.
fn short(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at + 1);
    let Some(name) = slashes.next() else { return path };
    let begin = if path[name..].starts_with("__") { slashes.next().unwrap_or(0) } else { name };
    &path[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_records::python::CodeHeader;

    fn code(name: &str, file: &str, lines: &[u8]) -> PythonCode {
        let header = CodeHeader {
            first_line: 10,
            name_bytes: name.len() as u16,
            name_kind: 1,
            file_bytes: file.len() as u16,
            file_kind: 1,
            lines_bytes: lines.len() as u16,
            version: 10,
            ..CodeHeader::default()
        };
        let mut bytes = header.as_bytes().to_vec();
        for part in [name.as_bytes(), file.as_bytes(), lines] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        PythonCode::read(&bytes).unwrap()
    }

    #[test]
    fn a_line_of_a_function_is_one_place_in_every_program() {
        let mut codes = PythonCodes::default();
        let first = codes.intern(code("load", "/usr/lib/app/io.py", &[4, 2, 2, 1]));
        let other = codes.intern(code("load", "/usr/lib/app/db/__init__.py", &[]));
        assert_eq!(codes.intern(code("load", "/usr/lib/app/io.py", &[4, 2, 2, 1])), first);
        let [begin, same_line, next_line] =
            [0, 2, 4].map(|instruction| codes.offset(Some(first), instruction));
        assert_eq!(begin, same_line);
        assert_ne!(begin, next_line);
        let place = codes.place(next_line).unwrap();
        assert_eq!((place.function.as_str(), place.line), ("load (io.py)", 13));
        assert_eq!(PythonCodes::extent(next_line), PythonCodes::extent(begin));
        let place = codes.place(codes.offset(Some(other), 0)).unwrap();
        assert_eq!((place.function.as_str(), place.line), ("load (db/__init__.py)", 0));
        assert_eq!(codes.place(codes.offset(None, 7)), None);
        let cut = codes.place(PythonCodes::CUT).unwrap();
        assert_eq!(cut.function, "[truncated: more Python functions]");
    }
}
