//! Pictures of what a program showed.

use crate::{Slice, Time};

/// An image of a frame. It is told when it is complete, which is later than its frame.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameImage {
    /// When its frame began; where that is not known, when the program handed the image over.
    pub at: Time,
    /// The frame's number, which is that of its slice on the image's track.
    pub frame: Option<u64>,
    /// Pixels of a row, a multiple of four.
    pub width: u16,
    /// Rows, a multiple of four.
    pub height: u16,
    /// Its first row is the lowest.
    pub is_flipped: bool,
    /// The pixels as BC1 (DXT1): a word for each 4 x 4 of them, row by row. As many as the image
    /// has.
    pub blocks: Box<[u64]>,
    /// The instant that stands for it where pixels have no place.
    pub mark: Slice,
}
