//! Byte strings of which there may be millions, kept compressed until they are written.

use lz4_flex::block::{DecompressError, compress_prepend_size, decompress_size_prepended};

/// Bytes that are compressed together.
const BLOCK_BYTES: usize = 1 << 16;
/// Bytes of the length before each.
const LENGTH_BYTES: usize = 4;

/// A list of byte strings, which is read from its first to its last.
#[derive(Debug, Default)]
pub(crate) struct CompressedList {
    full: Vec<Box<[u8]>>,
    /// Not compressed yet.
    open: Vec<u8>,
    bytes: usize,
}

impl CompressedList {
    /// Adds what `write` appends to the buffer.
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.open.len();
        self.open.extend([0; LENGTH_BYTES]);
        write(&mut self.open);
        let length = self.open.len() - begin - LENGTH_BYTES;
        self.bytes += length;
        self.open[begin..begin + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        if self.open.len() >= BLOCK_BYTES {
            self.full.push(compress_prepend_size(&self.open).into());
            self.open.clear();
        }
    }

    /// Bytes of all of them before compression.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives them to `each` in their order, and stops at its first error.
    ///
    /// # Errors
    ///
    /// Those of `each`, and what `broken` makes of one of decompression, which does not come.
    pub(crate) fn try_for_each<E>(
        &self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
        broken: impl Fn(DecompressError) -> E,
    ) -> Result<(), E> {
        for block in &self.full {
            items(&decompress_size_prepended(block).map_err(&broken)?).try_for_each(&mut each)?;
        }
        items(&self.open).try_for_each(each)
    }
}

/// What lies in a block.
fn items(mut block: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = block.split_first_chunk::<LENGTH_BYTES>()?;
        let (item, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        block = rest;
        Some(item)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out_in_its_order(
            lengths in prop::collection::vec(prop_oneof![0usize..40, Just(BLOCK_BYTES)], 0..300),
        ) {
            let mut list = CompressedList::default();
            let filled = lengths.iter().zip((0u8..99).cycle());
            let lists: Vec<Vec<u8>> = filled.map(|(length, byte)| vec![byte; *length]).collect();
            lists.iter().for_each(|list_bytes| list.push_with(|out| out.extend(list_bytes)));
            let mut read = Vec::new();
            let each = |list_bytes: &[u8]| {
                read.push(list_bytes.to_vec());
                Ok(())
            };
            list.try_for_each(each, |error| error).unwrap();
            prop_assert_eq!(list.bytes(), lengths.iter().sum::<usize>());
            prop_assert_eq!(read, lists);
        }
    }

    #[test]
    fn texts_that_repeat_each_other_take_little() {
        let mut list = CompressedList::default();
        for number in 0..100_000 {
            list.push_with(|out| {
                out.extend(format!("{{\"type\":\"zone\",\"n\":{number}}}").bytes());
            });
        }
        let kept: usize = list.full.iter().map(|block| block.len()).sum();
        assert!(kept + list.open.len() < list.bytes() / 2, "{kept} of {} bytes", list.bytes());
    }
}
