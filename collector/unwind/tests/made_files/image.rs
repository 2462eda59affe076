//! Writes small ELF files with unwind information.

use std::ops::Range;
use syscollect_unwind::{UnwindError, UnwindFile, UnwindRow};

/// Where code begins in the file: a page's beginning, so that offsets in tests are addresses of
/// rows.
pub(crate) const CODE: u64 = 0x2_0000;
/// What addresses are more than offsets.
pub(crate) const BIAS: u64 = 0x40_0000;

/// Instructions, by their names in DWARF.
pub(crate) const DEF_CFA: u8 = 0x0c;
pub(crate) const DEF_CFA_REGISTER: u8 = 0x0d;
pub(crate) const DEF_CFA_OFFSET: u8 = 0x0e;
pub(crate) const DEF_CFA_EXPRESSION: u8 = 0x0f;
pub(crate) const EXPRESSION: u8 = 0x10;
pub(crate) const OFFSET_EXTENDED_SF: u8 = 0x11;
pub(crate) const VAL_EXPRESSION: u8 = 0x16;
pub(crate) const UNDEFINED: u8 = 0x07;
pub(crate) const SAME_VALUE: u8 = 0x08;
pub(crate) const REGISTER: u8 = 0x09;
pub(crate) const REMEMBER_STATE: u8 = 0x0a;
pub(crate) const RESTORE_STATE: u8 = 0x0b;

/// `DW_CFA_advance_loc`.
pub(crate) const fn advance(bytes: u8) -> u8 {
    0x40 | bytes
}

/// `DW_CFA_offset`, before its number.
pub(crate) const fn offset(register: u8) -> u8 {
    0x80 | register
}

/// Registers, by DWARF's numbers.
pub(crate) const RBP: u8 = 6;
pub(crate) const RSP: u8 = 7;
pub(crate) const RA: u8 = 16;

/// Code that has an FDE.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// Its first byte, from the code's beginning.
    pub(crate) start: i64,
    pub(crate) length: u32,
    pub(crate) instructions: Vec<u8>,
    /// Its CIE has the augmentation 'S'.
    pub(crate) is_signal_frame: bool,
}

pub(crate) fn function(start: i64, length: u32, instructions: &[u8]) -> Function {
    Function { start, length, instructions: instructions.to_vec(), is_signal_frame: false }
}

/// How the unwind information is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnwindSource {
    /// By `.eh_frame_hdr` with its table.
    ByTable,
    /// By `.eh_frame_hdr`, which has no table.
    ByHeader,
    /// By the name of a section.
    ByName(&'static str),
    /// As that, of a section that says that it is compressed.
    Compressed(&'static str),
}

/// A file to be written.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) functions: Vec<Function>,
    pub(crate) found: UnwindSource,
    /// Bytes of code.
    pub(crate) code: u64,
    /// How often the table names each function.
    pub(crate) repeats: usize,
    /// The table's order is that of the functions, and not sorted.
    pub(crate) is_unsorted: bool,
    /// What lies at a byte of the code; all else does nothing.
    pub(crate) machine_code: Vec<(u64, Vec<u8>)>,
}

impl Image {
    pub(crate) fn new(functions: Vec<Function>) -> Self {
        let (found, repeats) = (UnwindSource::ByTable, 1);
        let (code, machine_code) = (0x3_0000, Vec::new());
        Self { functions, found, code, repeats, is_unsorted: false, machine_code }
    }

    pub(crate) fn file(&self) -> UnwindFile {
        UnwindFile::from_bytes(self.bytes()).unwrap()
    }

    /// Rows of the pages of code that are in `pages`, counted from its first.
    pub(crate) fn pages(&self, pages: Range<u32>) -> Result<Vec<Vec<UnwindRow>>, UnwindError> {
        let first = (self.code_offset() / 0x1_0000) as u32;
        let wanted: Vec<u32> = pages.map(|page| first + page).collect();
        let tables = self.file().pages(&wanted)?;
        assert_eq!(tables.iter().map(|(page, _)| *page).collect::<Vec<_>>(), wanted);
        Ok(tables.into_iter().map(|(_, rows)| rows).collect())
    }

    /// Rows of the first page of code.
    pub(crate) fn rows(&self) -> Vec<UnwindRow> {
        self.pages(0..1).unwrap().remove(0)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        // The header's place comes first, because its table says where FDEs are.
        let headers = 64 + 56 * 3;
        let rows = self.functions.len() * self.repeats;
        let table = if self.found == UnwindSource::ByTable { 12 + rows * 8 } else { 8 };
        let frames_at = (headers + table).next_multiple_of(8);
        let (frames, starts) = match self.found {
            UnwindSource::ByName(".debug_frame") => (self.debug_frame(), Vec::new()),
            _ => self.eh_frame(BIAS + frames_at as u64),
        };
        let mut file = self.headers(headers, table, frames_at + frames.len());
        let frames_address = BIAS + frames_at as u64;
        file.extend(self.frame_header(BIAS + headers as u64, frames_address, &starts));
        file.resize(frames_at, 0);
        file.extend(&frames);
        assert!(file.len() as u64 <= self.code_offset(), "no room before the code");
        file.resize((self.code_offset() + self.code) as usize, 0x90);
        for (at, bytes) in &self.machine_code {
            let start = (self.code_offset() + at) as usize;
            file[start..start + bytes.len()].copy_from_slice(bytes);
        }
        if let UnwindSource::ByName(name) | UnwindSource::Compressed(name) = self.found {
            let flags = if self.found == UnwindSource::ByName(name) { 0 } else { 0x800 };
            add_sections(&mut file, name, flags, frames_at as u64, frames.len() as u64);
        }
        file
    }

    /// Where the code lies: behind all else.
    fn code_offset(&self) -> u64 {
        if self.repeats > 1 { 0x200_0000 } else { CODE }
    }

    fn headers(&self, headers: usize, table: usize, end: usize) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
        file.extend([0, 64, 0].iter().flat_map(|word: &u64| word.to_le_bytes()));
        file.extend([0; 4]);
        file.extend([64, 56, 3, 64, 0, 0].iter().flat_map(|half: &u16| half.to_le_bytes()));
        let code = self.code_offset();
        let header_kind: u64 = match self.found {
            UnwindSource::ByTable | UnwindSource::ByHeader => 0x6474_e550,
            _ => 0,
        };
        let segments = [
            (1 | 4 << 32, 0, end as u64),
            (1 | 5 << 32, code, self.code),
            (header_kind | 4 << 32, headers as u64, table as u64),
        ];
        for (kind, at, size) in segments {
            let words = [kind, at, at + BIAS, at + BIAS, size, size, 8];
            file.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
        }
        file
    }

    fn frame_header(&self, address: u64, frames: u64, starts: &[(u64, u64)]) -> Vec<u8> {
        let has_table = self.found == UnwindSource::ByTable;
        let mut header = vec![1, 0x1b];
        header.extend(if has_table { [0x03, 0x3b] } else { [0xff, 0xff] });
        header.extend(((frames as i64 - (address + 4) as i64) as i32).to_le_bytes());
        if has_table {
            header.extend(((starts.len() * self.repeats) as u32).to_le_bytes());
            let mut sorted = starts.to_vec();
            sorted.sort();
            let rows = match self.is_unsorted {
                true => starts.repeat(self.repeats),
                false => sorted.iter().flat_map(|row| vec![*row; self.repeats]).collect(),
            };
            for place in rows.into_iter().flat_map(|(code, fde)| [code, fde]) {
                header.extend(((place as i64 - address as i64) as i32).to_le_bytes());
            }
        }
        header
    }

    /// The section, and of each function the addresses of its code and of its FDE.
    fn eh_frame(&self, address: u64) -> (Vec<u8>, Vec<(u64, u64)>) {
        let mut section = Vec::new();
        let cies = ["zR\0", "zRS\0"].map(|augmentation| {
            let at = section.len();
            let start = [&[0, 0, 0, 0, 1], augmentation.as_bytes(), &[1, 0x78, RA, 1, 0x1b]];
            section.extend(entry(&[&start.concat()[..], &INITIAL].concat()));
            at
        });
        let mut starts = Vec::new();
        for function in &self.functions {
            let at = section.len();
            let cie = cies[usize::from(function.is_signal_frame)];
            let code = self.address(function);
            let relative = code as i64 - (address + at as u64 + 8) as i64;
            let mut content = ((at + 4 - cie) as u32).to_le_bytes().to_vec();
            content.extend((relative as i32).to_le_bytes());
            content.extend(function.length.to_le_bytes());
            content.push(0);
            content.extend(&function.instructions);
            section.extend(entry(&content));
            starts.push((code, address + at as u64));
        }
        section.extend([0; 4]);
        (section, starts)
    }

    fn debug_frame(&self) -> Vec<u8> {
        let cie = [&[0xff, 0xff, 0xff, 0xff, 3, 0, 1, 0x78, RA][..], &INITIAL].concat();
        let mut section = entry(&cie);
        for function in &self.functions {
            let mut content = vec![0; 4];
            content.extend(self.address(function).to_le_bytes());
            content.extend(u64::from(function.length).to_le_bytes());
            content.extend(&function.instructions);
            section.extend(entry(&content));
        }
        section
    }

    fn address(&self, function: &Function) -> u64 {
        (BIAS + self.code_offset()).wrapping_add_signed(function.start)
    }
}

/// CFA = rsp + 8, and the return address below it.
const INITIAL: [u8; 5] = [DEF_CFA, RSP, 8, offset(RA), 1];

/// An entry of a section, with its length.
fn entry(content: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    content.resize(content.len().next_multiple_of(4), 0);
    [&(content.len() as u32).to_le_bytes()[..], &content].concat()
}

/// Adds a table of sections, of which one has that name.
fn add_sections(file: &mut Vec<u8>, name: &str, flags: u64, at: u64, size: u64) {
    let names = [b"\0", name.as_bytes(), b"\0"].concat();
    let names_at = file.len() as u64;
    file.extend(&names);
    file.resize(file.len().next_multiple_of(8), 0);
    let table = file.len() as u64;
    file.extend([0; 64]);
    file.extend(section_header(1, 1, flags, at, size));
    file.extend(section_header(0, 3, 0, names_at, names.len() as u64));
    file[40..48].copy_from_slice(&table.to_le_bytes());
    file[60..64].copy_from_slice(&[3, 0, 2, 0]);
}

fn section_header(name: u32, kind: u32, flags: u64, at: u64, size: u64) -> Vec<u8> {
    let first = [name.to_le_bytes(), kind.to_le_bytes()].concat();
    let words = [flags, at + BIAS, at, size, 0, 1, 0];
    first.into_iter().chain(words.iter().flat_map(|word: &u64| word.to_le_bytes())).collect()
}
