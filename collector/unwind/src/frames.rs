//! Where a file's unwind information lies.

use crate::UnwindError;
use crate::fde::{CIE_MAX, FDE_MAX, FdeReader, Length};
use crate::file::{Layout, Source};
use crate::haskell;
use crate::index::{FdePosition, Index, SearchTable};
use crate::partial::PartialBytes;
use crate::rule::Slice;
use crate::run::Run;
use gimli::{BaseAddresses, DebugFrame, EhFrame, LittleEndian, UnwindSection};
use syscollect_elf::{Elf, ElfError, FrameIndex, LoadedPart, ReadRef, abi};

/// Bytes of `.eh_frame` that are read at most; the largest programs have a tenth.
const FRAMES_MAX: u64 = 256 << 20;
/// Bytes of `.eh_frame_hdr` that are read at most.
const HEADER_MAX: u64 = 64 << 20;
/// Bytes of a section without a search table that are read at most, and FDEs of it that are listed.
/// All of it is read each time that a few pages are wanted, and somebody may have made it so.
const LIST_MAX: u64 = 8 << 20;
const ENTRIES_MAX: usize = 128 << 10;

/// Sections whose names are looked at, at most; linkers make about forty.
const SECTIONS_MAX: usize = 4096;

/// What a file says of the code of some pages.
pub(crate) struct Frames {
    pub(crate) format: FrameFormat,
    /// The section; where it says nothing of these pages, it may be 0.
    pub(crate) bytes: Vec<u8>,
    pub(crate) bases: BaseAddresses,
    /// What is wanted, and which FDEs decide there, see [`Index::entries`].
    pub(crate) runs: Vec<(Run, Vec<FdePosition>)>,
}

/// In which of two formats, which differ in little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameFormat {
    EhFrame,
    DebugFrame,
}

/// Where a section lies.
struct FrameSection {
    format: FrameFormat,
    segment: LoadedPart,
}

impl Frames {
    pub(crate) fn read(
        source: &Source,
        layout: &Layout,
        runs: &[Run],
    ) -> Result<Self, UnwindError> {
        let by_index = layout.frame_index.map(|index| read_index(source, layout, index));
        // A damaged index is as none.
        let (place, table) = match by_index.transpose()?.flatten() {
            Some((place, table)) => (place, table),
            None => (find_section(&source.cache())?, None),
        };
        match table {
            Some(table) => Self::by_table(source, &place, table, runs),
            None => Self::by_list(source, &place, runs),
        }
    }

    /// Of a file that says nothing.
    pub(crate) fn none(runs: Vec<Run>) -> Self {
        Self {
            format: FrameFormat::EhFrame,
            bytes: Vec::new(),
            bases: BaseAddresses::default(),
            runs: runs.into_iter().map(|run| (run, Vec::new())).collect(),
        }
    }

    /// Reads what the table leads to, and no more.
    fn by_table(
        source: &Source,
        place: &FrameSection,
        table: SearchTable<'_>,
        runs: &[Run],
    ) -> Result<Self, UnwindError> {
        let runs = with_entries(Index::Table(table), runs)?;
        let mut section = PartialBytes::new(source, place.segment)?;
        for entry in runs.iter().flat_map(|(_, entries)| entries) {
            read_fde(&mut section, entry.offset as usize)?;
        }
        Ok(Self::new(place, section.into_bytes(), runs))
    }

    /// Reads all, as nothing says what is where.
    fn by_list(source: &Source, place: &FrameSection, runs: &[Run]) -> Result<Self, UnwindError> {
        let mut frames = Self::new(place, source.read(place.segment)?, Vec::new());
        frames.runs = with_entries(Index::List(frames.list()), runs)?;
        Ok(frames)
    }

    fn new(place: &FrameSection, bytes: Vec<u8>, runs: Vec<(Run, Vec<FdePosition>)>) -> Self {
        let bases = BaseAddresses::default().set_eh_frame(place.segment.address);
        // For pointers to personality routines, for which nobody here asks.
        let bases = bases.set_text(0).set_got(0);
        Self { format: place.format, bytes, bases, runs }
    }

    /// All FDEs of the section, sorted by address.
    fn list(&self) -> Vec<FdePosition> {
        let mut entries = match self.format {
            FrameFormat::EhFrame => self.list_section(eh_frame(&self.bytes)),
            FrameFormat::DebugFrame => self.list_section(debug_frame(&self.bytes)),
        };
        entries.sort_by_key(|entry| entry.address);
        entries
    }

    fn list_section<'a, S: UnwindSection<Slice<'a>>>(&'a self, section: S) -> Vec<FdePosition> {
        let mut reader = FdeReader::new(&self.bytes, section, &self.bases);
        let mut entries = Vec::new();
        let mut at = 0;
        while let Some(length) = Length::at(&self.bytes, at) {
            if length.content == 0 && self.format == FrameFormat::EhFrame {
                break;
            }
            // CIEs are none, and what cannot be used is passed over.
            if let (Some(fde), Ok(offset)) = (reader.fde(at), u32::try_from(at)) {
                entries.push(FdePosition { address: fde.initial_address(), offset });
            }
            if entries.len() == ENTRIES_MAX {
                break;
            }
            at = at.saturating_add(length.own).saturating_add(length.content);
        }
        entries
    }
}

fn with_entries(
    mut index: Index<'_>,
    runs: &[Run],
) -> Result<Vec<(Run, Vec<FdePosition>)>, UnwindError> {
    runs.iter().map(|run| Ok((run.clone(), index.entries(run)?))).collect()
}

/// Reads the FDE at `offset` and its CIE, if there are any.
fn read_fde(section: &mut PartialBytes<'_>, offset: usize) -> Result<(), UnwindError> {
    let Some(length) = Length::at(section.get(offset, Length::OWN_MAX)?, 0) else { return Ok(()) };
    let pointer = offset + length.own;
    let content = section.get(pointer, length.content.min(FDE_MAX))?;
    let Some(to_cie) = content.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else {
        return Ok(());
    };
    if let Some(cie) = pointer.checked_sub(to_cie as usize) {
        section.get(cie, Length::OWN_MAX + CIE_MAX)?;
    }
    Ok(())
}

pub(crate) fn eh_frame(bytes: &[u8]) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section
}

pub(crate) fn debug_frame(bytes: &[u8]) -> DebugFrame<Slice<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section
}

/// What `.eh_frame_hdr` says: where `.eh_frame` is, and a table, if it has one of the usual form.
fn read_index<'a>(
    source: &'a Source,
    layout: &Layout,
    part: LoadedPart,
) -> Result<Option<(FrameSection, Option<SearchTable<'a>>)>, UnwindError> {
    if part.size > HEADER_MAX {
        return Err(UnwindError::TooLarge { name: ".eh_frame_hdr", bytes: part.size });
    }
    let mut bytes = PartialBytes::new(source, part)?;
    let index = FrameIndex::parse(bytes.get(0, FrameIndex::HEADER)?, part.address);
    let Some(index) = index else { return Ok(None) };
    let Some(mut segment) = layout.loaded.part_from(index.entries) else { return Ok(None) };
    // The index does not say how long they are: a terminator does, or nothing leads further.
    segment.size = segment.size.min(FRAMES_MAX);
    let place = FrameSection { format: FrameFormat::EhFrame, segment };
    // An empty table is as none, too: it may mean that the linker could not read what it should
    // list.
    let rows = bytes.length().saturating_sub(FrameIndex::HEADER) / FrameIndex::ROW;
    let rows = rows.min(index.rows as usize);
    Ok(Some((place, (rows > 0).then_some(SearchTable { bytes, index, rows }))))
}

/// Bytes of unwind information that a program in Haskell has at most: of it only the runtime system
/// and libraries in C have some.
const HASKELL_FRAMES_MAX: u64 = 1 << 20;

/// Whether a program has the runtime system's function that enters Haskell.
pub(crate) fn enters_haskell(source: &Source, layout: &Layout) -> bool {
    let index = layout.frame_index.and_then(|index| read_index(source, layout, index).ok()?);
    let Some((FrameSection { mut segment, .. }, _)) = index else { return false };
    segment.size = segment.size.min(HASKELL_FRAMES_MAX);
    source.read(segment).is_ok_and(|frames| haskell::enters_haskell(&frames))
}

/// Whether Go's linker made some of its code, as the sections say, which `strip` leaves.
pub(crate) fn is_go<'d, R: ReadRef<'d>>(data: R) -> bool {
    let Ok(elf) = Elf::of_x86_64(data) else { return false };
    let Ok(sections) = elf.sections() else { return false };
    [".gopclntab", ".data.rel.ro.gopclntab"]
        .iter()
        .any(|name| sections.named(name).next().is_some())
}

/// Looks for a section by its name.
fn find_section<'d, R: ReadRef<'d>>(data: R) -> Result<FrameSection, UnwindError> {
    let elf = Elf::of_x86_64(data)?;
    let sections = elf.sections()?;
    if sections.count() > SECTIONS_MAX {
        return Err(UnwindError::TooMany);
    }
    let names: [(&'static str, FrameFormat); 2] =
        [(".eh_frame", FrameFormat::EhFrame), (".debug_frame", FrameFormat::DebugFrame)];
    for (name, format) in names {
        let Some(section) = sections.named(name).next() else { continue };
        // Of a file with debug information only, which has no code either.
        if section.file_size() == 0 {
            continue;
        }
        if section.flags.contains(abi::SHF_COMPRESSED) {
            return Err(UnwindError::Compressed(name));
        }
        if section.size > LIST_MAX {
            return Err(UnwindError::TooLarge { name, bytes: section.size });
        }
        let damaged = ElfError::Damaged { part: name, at: section.offset };
        return Ok(FrameSection { format, segment: section.part().ok_or(damaged)? });
    }
    Err(UnwindError::Missing)
}
