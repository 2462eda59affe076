//! A file's bytes, of which parts are read.

use crate::ElfError;
use object::ReadRef;

/// A file's bytes, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileBytes<R> {
    pub(crate) data: R,
    pub(crate) length: u64,
}

impl<'data, R: ReadRef<'data>> FileBytes<R> {
    /// All of a part that has at most `limit` bytes.
    pub(crate) fn part(
        &self,
        at: u64,
        size: u64,
        part: &'static str,
        limit: u64,
    ) -> Result<&'data [u8], ElfError> {
        if size > limit {
            return Err(ElfError::TooLarge { part, at, limit });
        }
        self.data.read_bytes_at(at, size).map_err(|()| ElfError::Damaged { part, at })
    }

    /// From `at` on, up to `size` or the file's end.
    pub(crate) fn up_to(&self, at: u64, size: u64) -> &'data [u8] {
        let end = self.length.min(at.saturating_add(size));
        end.checked_sub(at).and_then(|size| self.data.read_bytes_at(at, size).ok()).unwrap_or(&[])
    }

    /// The string at a place; `None` if it does not end within `limit` bytes.
    pub(crate) fn string(&self, at: u64, limit: u64) -> Option<&'data [u8]> {
        ended(self.up_to(at, limit))
    }
}

/// The bytes before the first zero, if there is one.
pub(crate) fn ended(bytes: &[u8]) -> Option<&[u8]> {
    bytes.iter().position(|byte| *byte == 0).map(|end| &bytes[..end])
}

/// The bytes before the first zero, or all.
pub fn until_zero(bytes: &[u8]) -> &[u8] {
    ended(bytes).unwrap_or(bytes)
}
