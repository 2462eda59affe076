//! What was sent of a code object.

use crate::lines;
use syscollect_records::python::CodeHeader;

/// What a code object is called, and where its instructions come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PythonCode {
    /// The function's name, qualified from 3.11 on; empty if it could not be read.
    pub name: String,
    /// The file it was compiled from, as the program names it.
    pub file: String,
    /// The line where it begins.
    pub first_line: u32,
    /// The minor version.
    version: u8,
    lines: Vec<u8>,
}

impl PythonCode {
    /// Reads what follows the header of a stack record; `None` if it is cut.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let header = CodeHeader::from_bytes(bytes)?;
        let mut rest = bytes.get(CodeHeader::SIZE..)?;
        let name = part(&mut rest, header.name_bytes)?;
        let file = part(&mut rest, header.file_bytes)?;
        let lines = part(&mut rest, header.lines_bytes)?;
        Some(Self {
            name: text(name, header.name_kind),
            file: text(file, header.file_kind),
            first_line: header.first_line,
            version: header.version,
            lines: lines.to_vec(),
        })
    }

    /// The line of the instruction so many bytes from the first; `None` where it has none, and
    /// behind what was sent of the table.
    pub fn line(&self, offset: u32) -> Option<u32> {
        lines::line(self.version, self.first_line, &self.lines, offset)
    }
}

/// Takes so many bytes, filled up to a multiple of 8.
fn part<'a>(rest: &mut &'a [u8], bytes: u16) -> Option<&'a [u8]> {
    let bytes = usize::from(bytes);
    let (part, more) = rest.split_at_checked(bytes.next_multiple_of(8))?;
    *rest = more;
    part.get(..bytes)
}

/// A string whose characters have so many bytes each. Those that are none, and those that steer a
/// terminal, are replaced.
fn text(bytes: &[u8], kind: u8) -> String {
    match kind {
        1 => bytes.iter().map(|byte| printable(u32::from(*byte))).collect(),
        2 => {
            let (units, _) = bytes.as_chunks::<2>();
            units.iter().map(|unit| printable(u32::from(u16::from_le_bytes(*unit)))).collect()
        }
        4 => {
            let (units, _) = bytes.as_chunks::<4>();
            units.iter().map(|unit| printable(u32::from_le_bytes(*unit))).collect()
        }
        _ => String::new(),
    }
}

fn printable(number: u32) -> char {
    match char::from_u32(number) {
        Some(character) if !character.is_control() => character,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(name: (&[u8], u8), file: (&[u8], u8), lines: &[u8]) -> Vec<u8> {
        let header = CodeHeader {
            id: 3,
            first_line: 10,
            name_bytes: name.0.len() as u16,
            name_kind: name.1,
            file_bytes: file.0.len() as u16,
            file_kind: file.1,
            lines_bytes: lines.len() as u16,
            version: 10,
            ..CodeHeader::default()
        };
        let mut bytes = header.as_bytes().to_vec();
        for part in [name.0, file.0, lines] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    #[test]
    fn names_of_all_sizes_of_characters_are_read() {
        let wide: Vec<u8> = "größe€".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let widest: Vec<u8> = "🐍.py".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        let code = PythonCode::read(&sent((&wide, 2), (&widest, 4), &[4, 1, 2, 1])).unwrap();
        assert_eq!((code.name.as_str(), code.file.as_str()), ("größe€", "🐍.py"));
        assert_eq!([0, 2, 4, 6].map(|at| code.line(at)), [Some(11), Some(11), Some(12), None]);
        let latin = PythonCode::read(&sent((&[0x66, 0xfc, 0x72], 1), (b"a\x1b[2J.py", 1), &[]));
        let latin = latin.unwrap();
        assert_eq!((latin.name.as_str(), latin.file.as_str()), ("für", "a\u{fffd}[2J.py"));
    }

    #[test]
    fn what_is_cut_is_not_read() {
        let whole = sent((b"main", 1), (b"main.py", 1), &[1, 2]);
        assert!((0..whole.len()).all(|length| PythonCode::read(&whole[..length]).is_none()));
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Some(code) = PythonCode::read(&bytes) {
                let _ = code.line(7);
            }
        }
    }
}
