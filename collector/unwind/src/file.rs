//! What a file offers for unwinding, by its program headers.

use crate::frames::{Frames, is_go};
use crate::go;
use crate::run::Run;
use crate::table::{self, CodeReader};
use crate::writer::PageWriter;
use crate::{PAGE_BYTES, UnwindError, UnwindRow};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::OnceLock;
use syscollect_elf::{Elf, LoadedPart, LoadedSegments, ReadCache, ReadRef, Segment};
use syscollect_untrusted_files::Reader;

/// What a file offers for unwinding: where its code lies, and tables for it.
///
/// Only program headers are read until tables are asked for, and nothing is kept of those.
#[derive(Debug)]
pub struct UnwindFile {
    source: Source,
    layout: Layout,
    /// Whether rules are read from its code, once that is known.
    reads_code: OnceLock<bool>,
    enters_haskell: OnceLock<bool>,
}

impl UnwindFile {
    /// Reads the program headers of a file that anybody may have made.
    ///
    /// # Errors
    ///
    /// If it is no ELF file of x86-64, or cannot be read.
    pub fn read(reader: Reader) -> Result<Self, UnwindError> {
        Self::of(Source::File(reader))
    }

    /// As [`read`](Self::read), of a file in memory: the vDSO has no other.
    ///
    /// # Errors
    ///
    /// If it is no ELF file of x86-64.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, UnwindError> {
        Self::of(Source::Memory(bytes))
    }

    #[cfg(test)]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    fn of(source: Source) -> Result<Self, UnwindError> {
        let layout = Layout::read(&source.cache())?;
        let (reads_code, enters_haskell) = (OnceLock::new(), OnceLock::new());
        Ok(Self { source, layout, reads_code, enters_haskell })
    }

    /// Where its code lies, as offsets within the file; sorted, without overlaps.
    pub fn code(&self) -> &[Range<u64>] {
        &self.layout.code_offsets
    }

    /// Tables of `pages` of its code; page N has the file's bytes from N * 65536 on.
    ///
    /// Each page is there once, sorted; its rows are sorted by address, the first has address 0,
    /// and there are at most [`ROWS_MAX`]. Who asks for many pages at once has what describes them
    /// read once; a page takes up to 0.1 s, if somebody made it to. Code without unwind information
    /// has what can be read from itself; Go's only where it goes to another
    /// stack.
    ///
    /// [`ROWS_MAX`]: syscollect_records::unwind::ROWS_MAX
    ///
    /// # Errors
    ///
    /// If unwind information, or code, cannot be read.
    pub fn pages(&self, pages: &[u32]) -> Result<Vec<(u32, Vec<UnwindRow>)>, UnwindError> {
        let writer = PageWriter::new(pages);
        let runs = Run::all(&self.layout, &writer.wanted());
        let reads_code = self.reads_code();
        let frames = match Frames::read(&self.source, &self.layout, &runs) {
            // Of Go's something is known all the same, if it is a program.
            Err(UnwindError::Missing | UnwindError::Compressed(_)) => Frames::none(runs),
            frames => frames?,
        };
        let Self { source, layout, enters_haskell, .. } = self;
        let code = CodeReader { source, layout, enters_haskell };
        let mut pages = table::pages(&frames, reads_code.then_some(code), writer);
        if !reads_code {
            pages.iter_mut().for_each(|(page, rows)| self.add_stack_switches(*page, rows));
        }
        Ok(pages)
    }

    /// Says of a page of Go's code where it goes to another stack.
    fn add_stack_switches(&self, page: u32, rows: &mut Vec<UnwindRow>) {
        let start = u64::from(page) * PAGE_BYTES;
        let end = start + PAGE_BYTES;
        for code in &self.layout.code {
            let offsets = code.offsets();
            let around = offsets.start.max(start.saturating_sub(go::AROUND))
                ..offsets.end.min(end + go::AROUND);
            let part = around
                .end
                .checked_sub(around.start)
                .filter(|size| *size > 0)
                .and_then(|size| LoadedPart::new(around.start, around.start, size));
            let Some(bytes) = part.and_then(|part| self.source.read(part).ok()) else { continue };
            for switch in go::stack_switches(&bytes) {
                let place = [switch.place.start, switch.place.end]
                    .map(|at| (around.start + at as u64).clamp(start, end) - start);
                go::say_within(rows, &(place[0]..place[1]), switch.rule);
            }
        }
    }

    /// Go's code keeps frame pointers and says nothing else. Where it goes to another stack is
    /// known by other means ([`go`]).
    fn reads_code(&self) -> bool {
        *self.reads_code.get_or_init(|| !is_go(&self.source.cache()))
    }
}

/// The parts of a file that are loaded.
#[derive(Debug)]
pub(crate) struct Layout {
    /// What is loaded.
    pub(crate) loaded: LoadedSegments,
    /// Code, sorted by offset, without overlaps in the file.
    pub(crate) code: Vec<LoadedPart>,
    /// The same, as offsets.
    code_offsets: Vec<Range<u64>>,
    /// `.eh_frame_hdr`, if a program header leads to it.
    pub(crate) frame_index: Option<LoadedPart>,
    /// Where the program begins; 0 in a library.
    pub(crate) entry: u64,
}

impl Layout {
    fn read<'d, R: ReadRef<'d>>(data: R) -> Result<Self, UnwindError> {
        let elf = Elf::of_x86_64(data)?;
        let code = sorted(elf.loaded().code().filter_map(Segment::part).collect());
        let code_offsets = code.iter().map(LoadedPart::offsets).collect();
        let (loaded, frame_index) = (elf.loaded().clone(), elf.frame_index());
        Ok(Self { loaded, code, code_offsets, frame_index, entry: elf.entry() })
    }
}

/// Sorts segments of code. Where two have the same bytes of the file, which no linker makes, they
/// are the first's.
fn sorted(mut code: Vec<LoadedPart>) -> Vec<LoadedPart> {
    code.sort_by_key(|segment| segment.offset);
    let mut end = 0;
    code.retain_mut(|segment| {
        let shared = end.max(segment.offset) - segment.offset;
        if shared >= segment.size {
            return false;
        }
        *segment = segment.without_first(shared);
        end = segment.offsets().end;
        true
    });
    code
}

/// Whatever holds the file's bytes.
#[derive(Debug)]
pub(crate) enum Source {
    File(Reader),
    Memory(Vec<u8>),
}

/// What a parser of headers reads.
pub(crate) trait Bytes: Read + Seek {}

impl<T: Read + Seek> Bytes for T {}

impl Source {
    /// Its bytes for a parser, which reads little.
    pub(crate) fn cache(&self) -> ReadCache<Box<dyn Bytes + '_>> {
        ReadCache::new(self.bytes())
    }

    pub(crate) fn bytes(&self) -> Box<dyn Bytes + '_> {
        match self {
            Self::File(reader) => Box::new(reader.clone()),
            Self::Memory(bytes) => Box::new(Cursor::new(bytes)),
        }
    }

    /// Room for the bytes of `segment`, of which the file must have all.
    pub(crate) fn zeros(&self, segment: LoadedPart) -> Result<Vec<u8>, UnwindError> {
        // Before memory is set aside: sizes are whatever the headers say.
        if segment.offsets().end > self.length() {
            return Err(cut_off());
        }
        Ok(zeros(usize::try_from(segment.size).map_err(|_| cut_off())?))
    }

    /// The bytes of `segment`.
    pub(crate) fn read(&self, segment: LoadedPart) -> Result<Vec<u8>, UnwindError> {
        let mut bytes = self.zeros(segment)?;
        let mut source = self.bytes();
        source.seek(SeekFrom::Start(segment.offset))?;
        source.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn length(&self) -> u64 {
        match self {
            Self::File(reader) => reader.length(),
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

/// Bytes that the C library sets to 0 itself where it has them from before.
const FEW: usize = 128 << 10;
/// It takes more than 32 MiB from the kernel each time: that is 0 already, and no memory until it
/// is written to. Less, it keeps once it was given back, and sets all of it to 0 the next time,
/// though little is wanted: of a section of 15 MB that took about as long as all else.
const FRESH: usize = 33 << 20;

fn zeros(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; if length > FEW { length.max(FRESH) } else { length }];
    bytes.truncate(length);
    bytes
}

fn cut_off() -> UnwindError {
    UnwindError::from(io::Error::from(io::ErrorKind::UnexpectedEof))
}
