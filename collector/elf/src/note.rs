//! Notes, and the build id that is in one.

use crate::Elf;
use crate::elf::ENDIAN;
use object::elf::{self, FileHeader64};
use object::read::elf::NoteIterator;
use object::{LittleEndian, ReadRef};

/// No linker writes a larger table of notes; for a build id larger ones are not read.
const NOTES_MAX: u64 = 64 << 10;
/// Nor more tables than this.
const TABLES_MAX: usize = 32;
/// Bytes of a build id as the kernel has it (BUILD_ID_SIZE_MAX, include/linux/buildid.h): longer
/// ones are none.
pub const BUILD_ID_MAX: usize = 20;

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'data> {
    /// Who says what it means.
    pub owner: &'data [u8],
    /// What it is to them.
    pub kind: u32,
    /// What it says.
    pub description: &'data [u8],
}

/// A note goes past the end of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteTableCutOff;

/// The notes of a table. Where one goes past its end, that is the last item.
#[derive(Debug)]
pub struct Notes<'data>(NoteIterator<'data, FileHeader64<LittleEndian>>);

impl<'data> Notes<'data> {
    /// Those in `bytes`, of 32 or of 64 bits; `None` if notes are not so aligned.
    pub fn new(bytes: &'data [u8], alignment: u64) -> Option<Self> {
        NoteIterator::new(ENDIAN, alignment, bytes).ok().map(Self)
    }

    fn build_id(self) -> Option<&'data [u8]> {
        let id = self
            .map_while(Result::ok)
            .find(|note| note.kind == elf::NT_GNU_BUILD_ID.0 && note.owner == elf::ELF_NOTE_GNU)?
            .description;
        (1..=BUILD_ID_MAX).contains(&id.len()).then_some(id)
    }
}

impl<'data> Iterator for Notes<'data> {
    type Item = Result<Note<'data>, NoteTableCutOff>;

    fn next(&mut self) -> Option<Self::Item> {
        let note = self.0.next().transpose()?.map_err(|_| NoteTableCutOff);
        Some(note.map(|note| Note {
            owner: note.name(),
            kind: note.n_type(ENDIAN).0,
            description: note.desc(),
        }))
    }
}

/// The build id in a run of notes, such as `/sys/kernel/notes`.
pub fn build_id_in(notes: &[u8]) -> Option<&[u8]> {
    Notes::new(notes, 4)?.build_id()
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    /// The build id that the linker wrote, 1 to [`BUILD_ID_MAX`] bytes.
    ///
    /// Of a file whose segments have it, nothing else is read than these.
    pub fn build_id(&self) -> Option<&'data [u8]> {
        let in_segments = self
            .segments_of(elf::PT_NOTE)
            .take(TABLES_MAX)
            .find_map(|part| self.build_id_at(part.offset, part.size, part.alignment));
        // Separate debug files have the section, but no segment with contents.
        in_segments.or_else(|| {
            let sections = self.sections().ok()?;
            let notes = sections.iter().filter(|section| section.kind == elf::SHT_NOTE);
            notes
                .take(TABLES_MAX)
                .find_map(|part| self.build_id_at(part.offset, part.size, part.alignment))
        })
    }

    /// The one in a table of notes.
    fn build_id_at(&self, at: u64, size: u64, alignment: u64) -> Option<&'data [u8]> {
        let bytes = self.bytes(at, size, "notes", NOTES_MAX).ok()?;
        Notes::new(bytes, alignment)?.build_id()
    }
}
