//! What of a file of code other machines need to name it: its headers, symbols, tables for
//! unwinding and a Go program's table of functions. No code, no data, and no debug information.
//!
//! Which parts these are is read as for naming, within the same bounds. Where a program lies about
//! them, or changes them meanwhile, its own functions lack names.

use crate::elf::{DEBUG, Layout};
use crate::links::{DebugFile, Search};
use crate::path::names_a_file;
use crate::ranges::UnwindTables;
use crate::{ModuleRequest, Options, PinnedFiles, own_file, vdso};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use syscollect_elf::{Elf, ElfError, ReadCache, abi};
use syscollect_untrusted_files::{MemoryFile, OpenedFile};

/// Bytes that are read at once.
const BLOCK: u64 = 1 << 20;
/// What a Go program says of itself is longer, and what is read of it lies in the first words.
const GO_MODULE_BYTES: u64 = 512;
/// No linker writes a larger table of notes.
const NOTES_MAX: u64 = 64 << 10;
/// Where a row of the table of sections has its type, and its flags.
const ROW_KIND: Range<usize> = 4..8;
const ROW_FLAGS: usize = 8;

/// The parts of a file that naming reads.
#[derive(Debug)]
pub struct FileParts {
    file: OpenedFile,
    /// It is a separate debug file.
    debug: bool,
    /// Sorted, without overlaps.
    ranges: Vec<Range<u64>>,
    /// The table of sections, and where it lies: what is not kept is not there.
    sections: (u64, Vec<u8>),
}

/// Who owns the file of a module, if that is pinned.
pub fn owner_of_module(pinned: &PinnedFiles, request: &ModuleRequest) -> Option<u32> {
    pinned.owner_of(&request.path, &request.build_id)
}

/// The parts of the file that `request` asks of, and of a debug file that is there for it; none
/// where code has no file.
///
/// # Errors
///
/// In words, why there is no such file, or why it cannot be named anywhere.
pub fn parts_of_module(
    pinned: &PinnedFiles,
    options: &Options,
    request: &ModuleRequest,
) -> Result<Vec<FileParts>, String> {
    let is_vdso = request.path == vdso::PATH && !request.build_id.is_empty();
    let has_file = is_vdso
        || names_a_file(&request.path)
        || pinned.opened(&request.path, &request.build_id).is_some();
    if !has_file {
        return Ok(Vec::new());
    }
    let file = own_file::find(pinned, options, request, &mut Vec::new())?;
    let own = FileParts::of(&file, false).map_err(|error| error.to_string())?;
    let search = Search::of(options, &request.path);
    // Not by its link: to know whether a file is the right one all of it would be summed, which
    // takes as long as its file system likes.
    let debug = search.by_build_id(&request.build_id);
    let debug = debug.and_then(|DebugFile { opened, .. }| FileParts::of(&opened, true).ok());
    Ok([Some(own), debug].into_iter().flatten().collect())
}

/// For the fuzz target: what is kept of a file, as it is when it is named elsewhere.
#[doc(hidden)]
pub fn kept_again(file: &File) -> Option<File> {
    let opened = OpenedFile::made(file.try_clone().ok()?).ok()?;
    let parts = FileParts::of(&opened, false).ok()?;
    let again = MemoryFile::new("kept", parts.length()).ok()?;
    let mut bytes = 0;
    parts
        .read::<io::Error>(|offset, part| {
            bytes += part.len() as u64;
            again.write_at(part, offset).map(|()| true)
        })
        .ok()?;
    assert_eq!(bytes, parts.bytes(), "what is read is what was said");
    again.seal().ok()
}

impl FileParts {
    fn of(file: &OpenedFile, debug: bool) -> Result<Self, ElfError> {
        let layout = Layout::read(file.reader())?;
        let data = ReadCache::new(file.reader());
        let elf = Elf::open(&data)?;
        let sections = elf.sections()?;
        let mut ranges =
            vec![0..layout.header.len() as u64, elf.segment_table(), sections.names_range()];
        let mut table = sections.table().to_vec();
        let row_bytes = table.len() / sections.count().max(1);
        for (section, row) in sections.iter().zip(table.chunks_mut(row_bytes.max(1))) {
            // Whoever looks for it there finds that it is elsewhere, as in a file that was
            // stripped.
            if sections.name(section).starts_with(DEBUG)
                && let Some(kind) = row.get_mut(ROW_KIND)
            {
                kind.copy_from_slice(&abi::SHT_NOBITS.0.to_le_bytes());
                let flags = if row_bytes == 64 { 8 } else { 4 };
                if let Some(flags) = row.get_mut(ROW_FLAGS..ROW_FLAGS + flags) {
                    flags.fill(0);
                }
            }
        }
        let of_names = layout.sections.iter().filter(|section| !section.name.starts_with(DEBUG));
        ranges.extend(of_names.map(|section| section.bytes.clone()));
        let notes = elf.segments_of(abi::PT_NOTE).filter(|notes| notes.size <= NOTES_MAX);
        ranges.extend(notes.filter_map(|notes| Some(notes.part()?.offsets())));
        ranges.extend(UnwindTables::parts(&file.reader(), &layout));
        ranges.extend(layout.go_functions.map(|part| part.offsets()));
        ranges.extend(layout.go_module.map(|part| {
            let all = part.offsets();
            all.start..all.end.min(all.start.saturating_add(GO_MODULE_BYTES))
        }));
        let sections = (sections.table_offset(), table);
        let ranges = joined(ranges, file.reader().length());
        Ok(Self { file: file.clone(), debug, ranges, sections })
    }

    /// Whether it is a separate debug file.
    pub fn is_debug(&self) -> bool {
        self.debug
    }

    /// Bytes of the whole file.
    pub fn length(&self) -> u64 {
        self.file.reader().length()
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        let ranges = self.ranges.iter().map(|range| range.end - range.start);
        ranges.fold(self.sections.1.len() as u64, u64::saturating_add)
    }

    /// Who owns the file.
    pub fn owner(&self) -> u32 {
        self.file.data().uid
    }

    /// Reads the parts, one after another, and hands `to` where each lies in the file, and its
    /// bytes, until that wants no more.
    ///
    /// # Errors
    ///
    /// What `to` says, or the file: it shrank, or whoever serves it does not answer.
    pub fn read<E: From<io::Error>>(
        &self,
        mut to: impl FnMut(u64, &[u8]) -> Result<bool, E>,
    ) -> Result<(), E> {
        let (mut reader, mut block) = (self.file.reader(), Vec::new());
        for range in &self.ranges {
            let mut at = range.start;
            while at < range.end {
                block.resize((range.end - at).min(BLOCK) as usize, 0);
                reader.seek(SeekFrom::Start(at))?;
                reader.read_exact(&mut block)?;
                if !to(at, &block)? {
                    return Ok(());
                }
                at += block.len() as u64;
            }
        }
        let (at, table) = &self.sections;
        if !table.is_empty() {
            // Behind all others: it is the one that counts where a part overlaps it.
            to(*at, table)?;
        }
        Ok(())
    }
}

/// The same bytes in order, each once, as far as the file has them.
fn joined(mut ranges: Vec<Range<u64>>, length: u64) -> Vec<Range<u64>> {
    ranges.retain_mut(|range| {
        range.end = range.end.min(length);
        range.start < range.end
    });
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, before| {
        let touches = next.start <= before.end;
        if touches {
            before.end = before.end.max(next.end);
        }
        touches
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_overlap_or_leave_the_file_are_read_once_and_as_far_as_it_goes() {
        let ranges = vec![50..60, 0..10, 5..20, 20..25, 90..200, 300..400, 55..58];
        assert_eq!(joined(ranges, 100), [0..25, 50..60, 90..100]);
        assert_eq!(joined(vec![0..5, 7..7, 8..u64::MAX, 9..10], 10), [0..5, 8..10]);
    }
}
