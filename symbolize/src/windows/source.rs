//! A PDB's bytes, read no more often than an intact one needs.

use pdb_addr2line::pdb::{Source, SourceSlice, SourceView};
use std::fmt;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};

/// Every stream is read once, that of types once more to check it; some room for directories.
const READS_OF_EVERYTHING: u64 = 3;
const ROOM: u64 = 1 << 20;

/// Reads streams into memory, within a budget.
///
/// A PDB is a file system: its streams are lists of pages, and a damaged one may
/// name the same page a million times. What a stream takes is bounded by the
/// file's length, and all of them together by a small multiple of it.
pub(crate) struct BoundedSource<R> {
    reader: R,
    length: u64,
    budget: u64,
}

impl<R: Read + Seek> BoundedSource<R> {
    /// # Errors
    ///
    /// The reader's.
    pub(crate) fn new(mut reader: R) -> Result<Self> {
        let length = reader.seek(SeekFrom::End(0))?;
        Ok(Self {
            reader,
            length,
            budget: length.saturating_mul(READS_OF_EVERYTHING).saturating_add(ROOM),
        })
    }
}

impl<R> fmt::Debug for BoundedSource<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedSource")
            .field("length", &self.length)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl<'s, R: Read + Seek> Source<'s> for BoundedSource<R> {
    fn view(&mut self, slices: &[SourceSlice]) -> Result<Box<dyn SourceView<'s> + Send + Sync>> {
        let wanted = slices.iter().fold(0u64, |sum, slice| sum.saturating_add(slice.size as u64));
        if wanted > self.length || wanted > self.budget {
            return Err(Error::new(ErrorKind::InvalidData, "its streams are longer than the file"));
        }
        self.budget -= wanted;
        let mut bytes = vec![0; wanted as usize];
        let mut rest = bytes.as_mut_slice();
        for slice in slices {
            let (part, after) = rest.split_at_mut(slice.size);
            self.reader.seek(SeekFrom::Start(slice.offset))?;
            self.reader.read_exact(part)?;
            rest = after;
        }
        Ok(Box::new(Bytes(bytes)))
    }
}

/// A stream in memory.
struct Bytes(Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl SourceView<'_> for Bytes {
    fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn view(
        source: &mut BoundedSource<Cursor<Vec<u8>>>,
        slices: &[(u64, usize)],
    ) -> Result<Vec<u8>> {
        let slices: Vec<_> = slices
            .iter()
            .map(|(offset, size)| SourceSlice { offset: *offset, size: *size })
            .collect();
        source.view(&slices).map(|view| view.as_slice().to_vec())
    }

    #[test]
    fn pages_come_in_the_order_in_which_they_are_asked_for() {
        let mut source = BoundedSource::new(Cursor::new((0..8).collect())).unwrap();
        assert_eq!(view(&mut source, &[(4, 2), (0, 3)]).unwrap(), [4, 5, 0, 1, 2]);
    }

    #[test]
    fn a_stream_that_is_longer_than_its_file_or_lies_behind_it_is_refused() {
        let mut source = BoundedSource::new(Cursor::new(vec![0; 100])).unwrap();
        assert!(view(&mut source, &[(0, 60), (0, 60)]).is_err());
        assert!(view(&mut source, &[(90, 20)]).is_err());
        assert!(view(&mut source, &[(0, usize::MAX)]).is_err());
    }

    #[test]
    fn a_file_that_is_read_over_and_over_again_is_refused() {
        let length = 1 << 20;
        let mut source = BoundedSource::new(Cursor::new(vec![0; length])).unwrap();
        let answered = (0..100).filter(|_| view(&mut source, &[(0, length)]).is_ok()).count();
        assert_eq!(answered, 4);
    }
}
