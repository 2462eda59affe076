//! The notes that tell of USDT probes.

use crate::error::ProbeError;
use std::ops::Range;
use syscollect_elf::{Elf, Notes, ReadRef, Sections, abi};

/// All notes together; the largest known file (OpenJDK's libjvm) has 100 KiB.
const NOTES_MAX: u64 = 16 << 20;
/// Linkers write one.
const TABLES_MAX: usize = 64;
/// A damaged file is told of in so many sentences.
const WARNINGS_MAX: usize = 20;

const OWNER: &[u8] = b"stapsdt";
const KIND: u32 = 3;

/// A probe as its note has it, with addresses as the rest of the file counts them.
#[derive(Debug)]
pub(crate) struct Note<'data> {
    pub(crate) provider: &'data [u8],
    pub(crate) name: &'data [u8],
    pub(crate) arguments: &'data [u8],
    /// Address of the site.
    pub(crate) site: u64,
    /// Address of the semaphore.
    pub(crate) semaphore: Option<u64>,
}

/// Sentences about what could not be read, a bounded number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings {
    list: Vec<String>,
    more: usize,
}

impl Warnings {
    pub(crate) fn add(&mut self, warning: String) {
        match self.list.len() {
            0..WARNINGS_MAX => self.list.push(warning),
            _ => self.more += 1,
        }
    }

    pub(crate) fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.list.push(format!("and {} more of this kind", self.more));
        }
        self.list
    }
}

/// Reads all notes of probes: from the sections that are named so, or, in a file
/// without sections, from the segments of notes.
pub(crate) fn read<'data, R: ReadRef<'data>>(
    elf: &Elf<'data, R>,
    sections: &Sections<'_, 'data, R>,
    warnings: &mut Warnings,
) -> Result<Vec<Note<'data>>, ProbeError> {
    let ranges: Vec<(u64, u64)> = match sections.count() {
        0 => elf.segments_of(abi::PT_NOTE).map(|part| (part.offset, part.size)).collect(),
        _ => sections.named(".note.stapsdt").map(|part| (part.offset, part.size)).collect(),
    };
    // Prelink moves a file's addresses, but not those in these notes. This section's address tells
    // by how much.
    let base = sections.named(".stapsdt.base").next().map(|section| section.address);
    let (mut notes, mut seen, mut left) = (Vec::new(), Vec::<Range<u64>>::new(), NOTES_MAX);
    for (at, size) in ranges.into_iter().filter(|(_, size)| *size > 0).take(TABLES_MAX) {
        let bytes = elf.bytes(at, size, "notes", left)?;
        // A linker puts no note into two tables; a hostile file would do it to make its notes many.
        if seen.iter().any(|other| other.start < at + size && at < other.end) {
            continue;
        }
        seen.push(at..at + size);
        left -= size;
        read_table(bytes, base, &mut notes, warnings);
    }
    Ok(notes)
}

fn read_table<'data>(
    bytes: &'data [u8],
    base: Option<u64>,
    notes: &mut Vec<Note<'data>>,
    warnings: &mut Warnings,
) {
    let Some(table) = Notes::new(bytes, 4) else { return };
    for (number, note) in (1..).zip(table) {
        match note {
            Ok(note) if note.owner != OWNER || note.kind != KIND => {}
            Ok(note) => match Note::parse(note.description, base) {
                Some(note) => notes.push(note),
                None => warnings
                    .add(format!("note {number} of a probe is malformed; the others are listed")),
            },
            Err(_) => warnings
                .add(format!("note {number} goes past the end of its table, which ends there")),
        }
    }
}

impl<'data> Note<'data> {
    /// Three addresses, then three strings that end with a zero.
    fn parse(bytes: &'data [u8], base: Option<u64>) -> Option<Self> {
        let (addresses, strings) = bytes.split_at_checked(24)?;
        let addresses: [[u8; 8]; 3] = addresses.as_chunks().0.try_into().ok()?;
        let [site, base_then, semaphore] = addresses.map(u64::from_le_bytes);
        let moved = base.filter(|_| base_then != 0).map_or(0, |base| base.wrapping_sub(base_then));
        let mut strings = strings.split(|byte| *byte == 0);
        let (provider, name, arguments) = (strings.next()?, strings.next()?, strings.next()?);
        // What follows the last zero: it must have been there.
        strings.next()?;
        (!provider.is_empty() && !name.is_empty()).then(|| Self {
            provider,
            name,
            arguments,
            site: site.wrapping_add(moved),
            semaphore: (semaphore != 0).then(|| semaphore.wrapping_add(moved)),
        })
    }
}
