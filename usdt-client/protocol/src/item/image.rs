//! Images of frames, as words: what an image is, and the blocks that it is made of.
//!
//! An image is longer than an item, and longer than a group may be. So whoever writes one says
//! again in each group which it is, and each item of blocks says which image's they are and where
//! they lie in it: a group may be cut anywhere.

use super::{ItemKind, ItemWords, MAX_ITEM_WORDS, halves, high, low};

/// Blocks of the largest image: 256 KiB, all that Tracy takes.
pub const MAX_IMAGE_BLOCKS: u32 = 1 << 15;
/// Blocks in one [`Attribute::ImageBlocks`](super::Attribute::ImageBlocks).
pub const ITEM_BLOCKS: usize = MAX_ITEM_WORDS - 1;

/// An image of a frame of the main set: which, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameImage {
    /// The image's number within the process; they may wrap.
    pub image: u16,
    /// How many frames before the one of `taken` it shows.
    pub frames_ago: u8,
    /// Its first row is the lowest.
    pub is_flipped: bool,
    /// When the program handed it over, in ticks; its blocks come later.
    pub taken: u64,
    /// Pixels of a row, a multiple of four.
    pub width: u16,
    /// Rows, a multiple of four.
    pub height: u16,
}

impl FrameImage {
    /// How many blocks of 4 x 4 pixels it has; `None` of one that cannot be.
    pub fn blocks(&self) -> Option<u32> {
        let is_whole = |side: u16| side > 0 && side.is_multiple_of(4);
        let blocks = u32::from(self.width / 4) * u32::from(self.height / 4);
        let can_be = is_whole(self.width) && is_whole(self.height) && blocks <= MAX_IMAGE_BLOCKS;
        can_be.then_some(blocks)
    }

    /// Writes the words behind the first; the kind, and how many words there are in all.
    #[inline(always)]
    pub(super) fn write(self, words: &mut [u64; MAX_ITEM_WORDS]) -> (ItemKind, usize) {
        let Self { image, frames_ago, is_flipped, taken, width, height } = self;
        words[1] = u64::from(image) | u64::from(frames_ago) << 16 | u64::from(is_flipped) << 24;
        words[2] = taken;
        words[3] = u64::from(width) | u64::from(height) << 16;
        (ItemKind::FrameImage, 4)
    }

    /// The image with these words behind the first.
    #[inline]
    pub(super) fn read([a, b, c]: [u64; 3]) -> Self {
        Self {
            image: a as u16,
            frames_ago: (a >> 16) as u8,
            is_flipped: (a >> 24) as u8 != 0,
            taken: b,
            width: c as u16,
            height: (c >> 16) as u16,
        }
    }
}

/// Up to [`ITEM_BLOCKS`] blocks of an image: BC1, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageBlocks {
    /// The image's number.
    pub image: u16,
    /// The place of the first of them in the image.
    pub first: u32,
    blocks: [u64; ITEM_BLOCKS],
    length: u8,
}

impl ImageBlocks {
    /// The first [`ITEM_BLOCKS`] of these blocks.
    pub fn new(image: u16, first: u32, blocks: &[u64]) -> Self {
        let length = blocks.len().min(ITEM_BLOCKS);
        let mut own = [0; ITEM_BLOCKS];
        own[..length].copy_from_slice(&blocks[..length]);
        Self { image, first, blocks: own, length: length as u8 }
    }

    /// The blocks.
    pub fn blocks(&self) -> &[u64] {
        &self.blocks[..usize::from(self.length)]
    }

    #[inline(always)]
    pub(super) fn encode(self) -> ItemWords {
        let mut words = [0; MAX_ITEM_WORDS];
        let upper = u32::from(self.length) << 8 | u32::from(self.image) << 16;
        words[0] = halves(ItemKind::ImageBlocks as u32 | upper, self.first);
        words[1..].copy_from_slice(&self.blocks);
        ItemWords { words, length: 1 + usize::from(self.length) }
    }

    /// The blocks in these words, which are as many as the first says.
    #[inline]
    pub(super) fn decode(first: u64, blocks: &[u64]) -> Self {
        Self::new((low(first) >> 16) as u16, high(first), blocks)
    }

    /// How many blocks the item has that begins with this word; `None` where none has so many.
    pub(super) const fn count(first: u64) -> Option<usize> {
        match (first >> 8) as u8 as usize {
            count @ 1..=ITEM_BLOCKS => Some(count),
            _ => None,
        }
    }
}
