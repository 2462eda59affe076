//! The files of one recording, opened.

use super::buffer::{Buffer, BufferHeader, Expansion, HEADER};
use super::error::FileError;
use super::extent::Extent;
use super::header::LogfileHeader;
use super::index::{BufferWalk, FilePart, Index, Stream};
use super::merged::Merged;
use super::statistics::Statistics;
use crate::{Class, Record};
use std::path::{Path, PathBuf};
use syscollect_byte_source::ByteSource;

/// The files of one recording.
///
/// Opening reads the header of every buffer and nothing else; each pass
/// ([`Self::scan`], [`Self::merged`]) reads the files anew. Memory is a buffer
/// per CPU and file, and 16 bytes for every buffer of the files.
///
/// ```no_run
/// # fn main() -> Result<(), syscollect_etl::file::FileError> {
/// use syscollect_etl::file::Trace;
///
/// let trace = Trace::open(&["kernel.etl".into(), "user.etl".into()])?;
/// let mut merged = trace.merged();
/// while let Some((file, record)) = merged.next() {
///     println!("{file}: {:?} at {}", record.class, record.timestamp);
/// }
/// println!("{} records", merged.statistics().records);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Trace {
    pub(super) files: Vec<TraceFile>,
    headers: Vec<LogfileHeader>,
    extents: Vec<Extent>,
    pub(super) streams: Vec<Stream>,
    /// What is known without a pass.
    pub(super) found: Statistics,
}

/// One file.
#[derive(Debug)]
pub(super) struct TraceFile {
    path: PathBuf,
    pub(super) source: ByteSource,
    pub(super) expansion: Expansion,
    /// Bytes of every buffer; `None` where they differ.
    fixed: Option<usize>,
}

/// What all expanded buffers together may take, whatever the files claim.
const MOST_EXPANDED: usize = 512 << 20;

impl Trace {
    /// Opens the files of one recording.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is no event trace log; the files' clocks differ.
    pub fn open(paths: &[PathBuf]) -> Result<Self, FileError> {
        Self::new(paths.iter().map(|path| open_source(path)).collect::<Result<_, _>>()?)
    }

    /// The same of files in memory.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn from_bytes(files: Vec<Vec<u8>>) -> Result<Self, FileError> {
        let sources = files
            .into_iter()
            .enumerate()
            .map(|(i, bytes)| (name_in_memory(i), ByteSource::from(bytes)));
        Self::new(sources.collect())
    }

    fn new(sources: Vec<(PathBuf, ByteSource)>) -> Result<Self, FileError> {
        let (files, headers, extents, streams) = Default::default();
        let mut trace = Self { files, headers, extents, streams, found: Statistics::default() };
        for (path, source) in sources {
            let (file, header) = TraceFile::new(path, source)?;
            trace.check_clock(&file.path, &header)?;
            let index = Index::of(&mut file.walk(), file.expansion, trace.files.len());
            trace.found.stray_bytes += index.stray;
            trace.found.unused_bytes += index.unused;
            let extent = Extent::new(file.path.clone(), &index.found, &header);
            trace.found.missing_buffers += extent.missing;
            trace.found.unwritten_buffers += extent.unwritten;
            trace.extents.push(extent);
            trace.streams.extend(index.streams);
            trace.files.push(file);
            trace.headers.push(header);
        }
        let share = MOST_EXPANDED / trace.streams.len().max(1);
        trace
            .files
            .iter_mut()
            .for_each(|file| file.expansion.limit = file.expansion.limit.min(share));
        if trace.files.is_empty() { Err(FileError::NoFile) } else { Ok(trace) }
    }

    fn check_clock(&self, path: &Path, header: &LogfileHeader) -> Result<(), FileError> {
        let Some((file, first)) = self.files.first().zip(self.headers.first()) else {
            return Ok(());
        };
        if first.shares_clock(header) {
            return Ok(());
        }
        Err(FileError::OtherClock { path: path.into(), first: file.path.clone() })
    }

    /// What each file says about itself, in the order they were named.
    pub fn headers(&self) -> &[LogfileHeader] {
        &self.headers
    }

    /// How much of each file is there, in the order they were named.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.source.length()).sum()
    }

    /// All records as they lie in the files, one file after the other, with the
    /// file's index: not in the order of time.
    pub fn scan(&self, mut each: impl FnMut(usize, &Record<'_>)) -> Statistics {
        let mut statistics = self.found.clone();
        for (number, file) in self.files.iter().enumerate() {
            let mut buffer = file.buffer();
            let mut last = 0;
            for step in file.walk() {
                let FilePart::Buffer(offset, _) = step else { continue };
                buffer.load(&file.source, offset, file.expansion, &mut statistics);
                while let Some((at, head)) = buffer.next(&mut statistics) {
                    last = head.timestamp.unwrap_or(last);
                    each(number, &head.record(buffer.from(at), buffer.cpu(), last));
                }
            }
        }
        statistics
    }

    /// All records of all files in the order of their raw time stamps.
    pub fn merged(&self) -> Merged<'_> {
        Merged::new(self)
    }
}

fn open_source(path: &Path) -> Result<(PathBuf, ByteSource), FileError> {
    match ByteSource::open(path) {
        Ok(source) => Ok((path.to_owned(), source)),
        Err(source) => Err(FileError::Read { path: path.to_owned(), source }),
    }
}

fn name_in_memory(number: usize) -> PathBuf {
    PathBuf::from(format!("file {number} in memory"))
}

impl TraceFile {
    fn new(path: PathBuf, source: ByteSource) -> Result<(Self, LogfileHeader), FileError> {
        let mut bytes = [0; HEADER];
        let length = match source.read_at(&mut bytes, 0) {
            Ok(length) => length,
            Err(source) => return Err(FileError::Read { path, source }),
        };
        let Some(first) = BufferHeader::parse(&bytes[..length]) else {
            return Err(FileError::NotATrace { path, what: "it does not begin with a buffer" });
        };
        let expansion = Expansion::of(&first);
        let Some(header) = read_header(&source, &first, expansion) else {
            return Err(FileError::NotATrace {
                path,
                what: "its first record is not a logfile header",
            });
        };
        // A logger's buffers are all alike until they are compressed.
        let is_fixed = !header.is_compressed() && header.buffer_size as usize == first.stride;
        let fixed = is_fixed.then_some(first.stride);
        Ok((Self { path, source, expansion, fixed }, header))
    }

    fn walk(&self) -> BufferWalk<'_> {
        BufferWalk::new(&self.source, self.fixed)
    }

    /// The place of a buffer of this file.
    pub(super) fn buffer(&self) -> Buffer {
        const USUAL: usize = 64 << 10;
        Buffer::new(self.fixed.unwrap_or(USUAL))
    }
}

fn read_header(
    source: &ByteSource,
    first: &BufferHeader,
    expansion: Expansion,
) -> Option<LogfileHeader> {
    let mut buffer = Buffer::new(first.stride);
    let mut ignored = Statistics::default();
    buffer.load(source, 0, expansion, &mut ignored);
    let (at, head) = buffer.next(&mut ignored)?;
    let record = head.record(buffer.from(at), 0, 0);
    match record.class {
        Class::Kernel { group: 0, opcode: 0 } => {
            LogfileHeader::parse(record.payload, record.timestamp)
        }
        _ => None,
    }
}
