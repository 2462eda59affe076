//! A file as blazesym may have it: nobody can cut it off, and it leads to no other file.
//!
//! blazesym maps what it reads, so a file that is cut off meanwhile would end this program
//! (SIGBUS). And it follows the links in a file's sections by itself, wherever they lead, and
//! cannot be told not to. So files are copied to memory: only their sections that have to do with
//! names, as an ELF file of its own.

use crate::elf::{DEBUG, DEBUG_ALT_LINK, DEBUG_LINK, DEBUG_SUP, Layout, MINI_DEBUG, Section};
use crate::memory::{MEMORY_PATIENCE, NamingMemory, Share};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use syscollect_untrusted_files::{MemoryFile, OpenedFile, Reader, path_of};

/// Bytes that are copied at once.
const BLOCK: usize = 1 << 20;
/// Where sections begin in the copy: all tables that they hold want less.
const ALIGNMENT: u64 = 64;
/// What an image may need beside its parts: headers and names.
const SLACK: u64 = 64 << 10;

/// A file that can be given to blazesym.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    length: u64,
    /// Also of what it leads to.
    supplement: Option<Box<Image>>,
    _memory: Share,
}

/// What of a file is wanted.
#[derive(Debug)]
pub(crate) struct WantedParts {
    /// Its debug information, too.
    pub(crate) lines: bool,
    /// What its debug information refers to.
    pub(crate) supplement: Option<(Image, Vec<u8>)>,
}

impl Image {
    /// Makes one of an open file whose layout was read.
    ///
    /// # Errors
    ///
    /// In words: it shrank, or there is no memory for it.
    pub(crate) fn make(
        opened: &OpenedFile,
        layout: &Layout,
        wanted: WantedParts,
        memory: &NamingMemory,
    ) -> Result<Self, String> {
        let parts: Vec<&Section> =
            layout.sections.iter().filter(|section| is_wanted(section, &wanted)).collect();
        let bytes = parts
            .iter()
            .map(|part| part.bytes.end - part.bytes.start)
            .fold(SLACK, u64::saturating_add);
        let Some(share) = memory.take(bytes, MEMORY_PATIENCE) else {
            return Err(format!("no memory for a copy of {bytes} bytes"));
        };
        let supplement = wanted.supplement;
        let link = supplement.as_ref().map(|(image, build_id)| alt_link(image, build_id));
        let copy = Copy::of(layout, &parts, link.as_deref())
            .ok_or("its ELF header is not one of this machine's")?;
        let file =
            copy.write(opened.reader()).map_err(|error| format!("it cannot be read: {error}"))?;
        let supplement = supplement.map(|(image, _)| Box::new(image));
        Ok(Self { file, length: copy.length, supplement, _memory: share })
    }

    /// A path that leads to it as long as it lives.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(&self.file)
    }

    /// Its bytes, and those of what it leads to.
    pub(crate) fn bytes(&self) -> u64 {
        self.length + self.supplement.as_ref().map_or(0, |supplement| supplement.bytes())
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

fn is_wanted(section: &Section, wanted: &WantedParts) -> bool {
    let name = section.name.as_slice();
    match name {
        DEBUG_LINK | DEBUG_SUP | MINI_DEBUG => false,
        DEBUG_ALT_LINK => wanted.supplement.is_some(),
        _ => wanted.lines || !name.starts_with(DEBUG),
    }
}

/// The section that leads blazesym to another image.
fn alt_link(image: &Image, build_id: &[u8]) -> Vec<u8> {
    let mut bytes = image.path().into_os_string().into_encoded_bytes();
    bytes.push(0);
    bytes.extend(build_id);
    bytes
}

/// Where the words of headers lie, by the class of the file.
struct Class {
    header: usize,
    row: usize,
    word: usize,
    program_table: usize,
    section_table: usize,
    program_count: usize,
    section_count: usize,
    names: usize,
    row_offset: usize,
    row_size: usize,
}

const CLASS_32: Class = Class {
    header: 52,
    row: 40,
    word: 4,
    program_table: 28,
    section_table: 32,
    program_count: 44,
    section_count: 48,
    names: 50,
    row_offset: 16,
    row_size: 20,
};
const CLASS_64: Class = Class {
    header: 64,
    row: 64,
    word: 8,
    program_table: 32,
    section_table: 40,
    program_count: 56,
    section_count: 60,
    names: 62,
    row_offset: 24,
    row_size: 32,
};
/// The type of a table of texts, where a row has it.
const STRINGS: u32 = 3;

/// An ELF file to be written.
struct Copy {
    head: Vec<u8>,
    /// Where what of the file goes.
    ranges: Vec<(std::ops::Range<u64>, u64)>,
    /// The link, if there is one, and where it goes.
    link: Option<(Vec<u8>, u64)>,
    length: u64,
}

impl Copy {
    /// Header, sections' table and their names, then the sections. The table keeps its order, for
    /// rows refer to rows.
    fn of(layout: &Layout, parts: &[&Section], link: Option<&[u8]>) -> Option<Self> {
        let class = match layout.header.len() {
            64 => CLASS_64,
            52 => CLASS_32,
            _ => return None,
        };
        // One more, with the names; more rows than this need a table of another kind.
        let rows = layout.section_count.checked_add(1).filter(|rows| *rows < 0xff00)?;
        let mut head = layout.header.clone();
        let table = class.header.next_multiple_of(ALIGNMENT as usize);
        let names_at = table + rows * class.row;
        let mut names = vec![0];
        let mut copy = Self { head: Vec::new(), ranges: Vec::new(), link: None, length: 0 };
        head.resize(names_at, 0);
        let mut end =
            names_at as u64 + 1 + parts.iter().map(|part| part.name.len() as u64 + 1).sum::<u64>();
        for part in parts {
            let start = end.checked_next_multiple_of(ALIGNMENT)?;
            let size = match (part.name == DEBUG_ALT_LINK, link) {
                (true, Some(link)) => {
                    copy.link = Some((link.to_vec(), start));
                    link.len() as u64
                }
                _ => {
                    copy.ranges.push((part.bytes.clone(), start));
                    part.bytes.end - part.bytes.start
                }
            };
            end = start.checked_add(size)?;
            let row = head.get_mut(table + part.index * class.row..)?.get_mut(..class.row)?;
            row.copy_from_slice(part.row.get(..class.row)?);
            put(row, 0, 4, names.len() as u64);
            put(row, class.row_offset, class.word, start);
            put(row, class.row_size, class.word, size);
            names.extend_from_slice(&part.name);
            names.push(0);
        }
        let row = head.get_mut(names_at - class.row..names_at)?;
        put(row, 4, 4, u64::from(STRINGS));
        put(row, class.row_offset, class.word, names_at as u64);
        put(row, class.row_size, class.word, names.len() as u64);
        put(&mut head, class.section_table, class.word, table as u64);
        put(&mut head, class.section_count, 2, rows as u64);
        put(&mut head, class.names, 2, rows as u64 - 1);
        // Segments say where code is loaded, which blazesym is not asked.
        put(&mut head, class.program_table, class.word, 0);
        put(&mut head, class.program_count, 2, 0);
        head.extend(names);
        copy.length = end.max(head.len() as u64);
        copy.head = head;
        Some(copy)
    }

    fn write(&self, mut reader: Reader) -> io::Result<File> {
        let memory = MemoryFile::new("naming", self.length)?;
        let mut block = Vec::new();
        for (range, to) in &self.ranges {
            reader.seek(SeekFrom::Start(range.start))?;
            let (mut left, mut to) = (range.end - range.start, *to);
            while left > 0 {
                block.resize(left.min(BLOCK as u64) as usize, 0);
                reader.read_exact(&mut block)?;
                memory.write_at(&block, to)?;
                (left, to) = (left - block.len() as u64, to + block.len() as u64);
            }
        }
        if let Some((link, to)) = &self.link {
            memory.write_at(link, *to)?;
        }
        memory.write_at(&self.head, 0)?;
        memory.seal()
    }
}

/// Writes a number, last byte first.
fn put(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    if let Some(place) = bytes.get_mut(at..at + width) {
        place.copy_from_slice(&value.to_le_bytes()[..width]);
    }
}
