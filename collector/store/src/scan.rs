//! Finds the chunks of a file, damaged or not, by their headers.

use crate::format::{CHUNK_HEADER, CHUNK_MAGIC, FILE_HEADER, FileHeader, MAJOR, StoredHeader};
use crate::{Damage, IndexEntry, StoreError};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use syscollect_byte_source::ByteSource;
use syscollect_model::Lane;

/// Bytes read at a time. Small chunks share one read, large ones cost one each.
const WINDOW: usize = 16 << 10;
/// How far the first chunk is looked for when the file's own header is damaged.
const FOREIGN: u64 = 8 << 20;
/// Lanes of a capture: some for each CPU, and one for each ring of an instrumented program. Each
/// takes a kilobyte of who reads it, and 70 bytes of who makes captures up.
const LANES_MAX: usize = 1 << 17;
/// Bytes in which headers are looked for, of all damage together: some seconds' work. A file of
/// anybody's may end in terabytes of holes, which cost no disk.
const SEARCHED_MAX: u64 = 2 << 30;

/// What a scan found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// All chunks of lanes that are known here, copies too, in order of the file.
    pub(crate) entries: BTreeMap<Lane, Vec<IndexEntry>>,
    /// Bytes that belong to no chunk.
    pub(crate) damage: Vec<Damage>,
    /// Where the last whole chunk ends.
    pub(crate) end: u64,
}

/// Walks from chunk to chunk; where none follows, looks for the next header.
pub(crate) struct Scanner<'a> {
    source: &'a ByteSource,
    capture: &'a str,
    length: u64,
    window: Vec<u8>,
    window_start: u64,
    payload: Vec<u8>,
    /// Bytes of payloads that may still be verified here: headers that lie
    /// within each other's payloads must not make this quadratic.
    budget: u64,
    /// Bytes that were searched for headers.
    searched: u64,
    found: Scan,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(source: &'a ByteSource, capture: &'a str) -> Result<Self, StoreError> {
        let length = source.length();
        let budget = length.saturating_mul(2).saturating_add(64 << 20);
        let (window, payload, found) = (Vec::new(), Vec::new(), Scan::default());
        let (window_start, searched) = (0, 0);
        Ok(Self { source, capture, length, window, window_start, payload, budget, searched, found })
    }

    pub(crate) fn run(mut self) -> Result<Scan, StoreError> {
        let mut at = self.start()?;
        let mut skipped_from = None;
        self.found.end = at;
        while at < self.length {
            match self.chunk_at(at)? {
                Some(header) => {
                    if let Some(offset) = skipped_from.take() {
                        if let Some(another) = self.capture_begins(offset, at)? {
                            let bytes = self.length - another;
                            self.found.damage.push(Damage::Another { offset: another, bytes });
                            skipped_from = (offset < another).then_some(offset);
                            self.length = another;
                            break;
                        }
                        self.found.damage.push(Damage::Skipped { offset, bytes: at - offset });
                    }
                    self.note(at, &header);
                    at += header.size();
                    self.found.end = at;
                }
                None => {
                    skipped_from.get_or_insert(at);
                    at = self.next_magic(at + 1, self.length)?;
                }
            }
        }
        if let Some(offset) = skipped_from {
            self.found.damage.push(Damage::Truncated { offset, bytes: self.length - offset });
        }
        Ok(self.found)
    }

    /// Where a capture's own header lies before the chunk at `at`, if one does at or after `from`.
    fn capture_begins(&mut self, from: u64, at: u64) -> Result<Option<u64>, StoreError> {
        let Some(begin) = at.checked_sub(FILE_HEADER as u64).filter(|begin| *begin >= from) else {
            return Ok(None);
        };
        let header = FileHeader::parse(self.bytes(begin, FILE_HEADER)?);
        Ok(matches!(header, FileHeader::Verified(_)).then_some(begin))
    }

    /// Where the first chunk is expected; refuses what is no capture.
    fn start(&mut self) -> Result<u64, StoreError> {
        if self.length == 0 {
            return self.not_a_capture("it is empty");
        }
        match FileHeader::parse(self.bytes(0, FILE_HEADER)?) {
            FileHeader::Verified(found) if found > MAJOR => Err(StoreError::NewerFormat {
                capture: self.capture.to_owned(),
                found,
                known: MAJOR,
            }),
            FileHeader::Verified(_) => Ok(FILE_HEADER as u64),
            FileHeader::Damaged => self.start_without_header(),
        }
    }

    fn not_a_capture(&self, reason: &str) -> Result<u64, StoreError> {
        Err(StoreError::NotACapture { capture: self.capture.to_owned(), reason: reason.to_owned() })
    }

    /// A damaged file header costs nothing, if there are chunks.
    fn start_without_header(&mut self) -> Result<u64, StoreError> {
        let mut at = (FILE_HEADER as u64).min(self.length);
        let limit = self.length.min(FOREIGN);
        while at < limit {
            if self.header_at(at)?.is_some() {
                let bytes = at.min(FILE_HEADER as u64);
                self.found.damage.push(Damage::Skipped { offset: 0, bytes });
                return Ok(bytes);
            }
            at = self.next_magic(at + 1, limit)?;
        }
        let reason = if self.length < FILE_HEADER as u64 {
            "it is shorter than a capture's header"
        } else {
            "it does not begin like one and holds no chunk"
        };
        Err(StoreError::NotACapture { capture: self.capture.to_owned(), reason: reason.to_owned() })
    }

    /// The chunk at `at`, if its header verifies and its payload is there.
    ///
    /// A payload is trusted unread when another chunk (or the end) follows.
    /// Otherwise it is verified: a write that was cut off and went on with the
    /// next chunk must not swallow that one.
    fn chunk_at(&mut self, at: u64) -> Result<Option<StoredHeader>, StoreError> {
        let Some(header) = self.header_at(at)? else { return Ok(None) };
        let Some(end) = at.checked_add(header.size()).filter(|end| *end <= self.length) else {
            return Ok(None);
        };
        if end == self.length
            || self.header_at(end)?.is_some()
            || self.payload_verifies(at, &header)?
        {
            return Ok(Some(header));
        }
        Ok(None)
    }

    fn payload_verifies(&mut self, at: u64, header: &StoredHeader) -> Result<bool, StoreError> {
        let Some(left) = self.budget.checked_sub(u64::from(header.stored)) else { return Ok(true) };
        self.budget = left;
        let offset = at + CHUNK_HEADER as u64;
        self.source.read_into(&mut self.payload, header.stored as usize, offset).map_err(
            |source| StoreError::Read { capture: self.capture.to_owned(), offset, source },
        )?;
        Ok(crc32fast::hash(&self.payload) == header.payload_crc)
    }

    fn header_at(&mut self, at: u64) -> Result<Option<StoredHeader>, StoreError> {
        Ok(StoredHeader::parse(self.bytes(at, CHUNK_HEADER)?))
    }

    /// The first place from `at` on where a chunk may begin, before `limit`, or the end: also where
    /// too much was searched.
    fn next_magic(&mut self, mut at: u64, limit: u64) -> Result<u64, StoreError> {
        while at < limit
            && at + (CHUNK_HEADER as u64) <= self.length
            && self.searched < SEARCHED_MAX
        {
            let bytes = self.bytes(at, CHUNK_HEADER)?;
            if let Some(found) =
                bytes.windows(CHUNK_MAGIC.len()).position(|four| four == CHUNK_MAGIC)
            {
                return Ok(at + found as u64);
            }
            let step = (bytes.len() - (CHUNK_MAGIC.len() - 1)).max(1) as u64;
            at += step;
            self.searched += step;
        }
        Ok(self.length)
    }

    /// All bytes of the window from `at` on; at least `wanted` unless the file ends.
    fn bytes(&mut self, at: u64, wanted: usize) -> Result<&[u8], StoreError> {
        let covered = self.window_start + self.window.len() as u64;
        if at < self.window_start
            || (at + wanted as u64 > covered && covered < self.length)
            || at > covered
        {
            self.source.read_into(&mut self.window, WINDOW, at).map_err(|source| {
                StoreError::Read { capture: self.capture.to_owned(), offset: at, source }
            })?;
            self.window_start = at;
        }
        Ok(self.window.get((at - self.window_start) as usize..).unwrap_or_default())
    }

    fn note(&mut self, offset: u64, header: &StoredHeader) {
        let Some(lane) = header.lane() else { return };
        let is_full = self.found.entries.len() >= LANES_MAX;
        match self.found.entries.entry(lane) {
            Entry::Vacant(_) if is_full => self.skip(offset, header.size()),
            entry => entry.or_default().push(IndexEntry::new(offset, header)),
        }
    }

    /// Leaves out these bytes.
    fn skip(&mut self, offset: u64, size: u64) {
        match self.found.damage.last_mut() {
            Some(Damage::Skipped { offset: first, bytes }) if *first + *bytes == offset => {
                *bytes += size;
            }
            _ => self.found.damage.push(Damage::Skipped { offset, bytes: size }),
        }
    }
}
