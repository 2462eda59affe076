//! Images of frames.

use super::wire::Payload;
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use syscollect_model::FrameImage;

/// Bytes of images that a file gets: the viewer unpacks them all.
const MOST_BYTES: usize = 1 << 30;
/// No image belongs to a frame.
pub(crate) const NO_IMAGE: u32 = u32::MAX;

/// The images of the main set's frames, of which the viewer shows one each.
#[derive(Default)]
pub(crate) struct Images {
    images: Vec<FileImage>,
    /// By the frame's index in its set.
    of_frames: FxHashMap<usize, u32>,
    bytes: usize,
    /// Images that found no room, or no frame.
    pub(crate) refused: u64,
}

struct FileImage {
    width: u16,
    height: u16,
    is_flipped: bool,
    blocks: Box<[u64]>,
}

impl Images {
    /// An image of the frame with that index; `None` where it is of none that the file shows.
    pub(crate) fn add(&mut self, frame: Option<usize>, image: &FrameImage) {
        let FrameImage { width, height, is_flipped, ref blocks, .. } = *image;
        let bytes = self.bytes + size_of_val(&blocks[..]);
        let frame = frame.filter(|frame| !self.of_frames.contains_key(frame));
        let Some(frame) = frame.filter(|_| bytes <= MOST_BYTES) else {
            self.refused += 1;
            return;
        };
        self.of_frames.insert(frame, self.images.len() as u32);
        self.images.push(FileImage { width, height, is_flipped, blocks: blocks.clone() });
        self.bytes = bytes;
    }

    /// The number that the file gives a frame's image.
    pub(crate) fn number(&self, frame: usize) -> u32 {
        self.of_frames.get(&frame).copied().unwrap_or(NO_IMAGE)
    }

    /// Writes the pixels, behind the dictionary that would unpack them.
    pub(crate) fn write<W: Write>(&self, out: &mut Payload<W>) -> io::Result<()> {
        out.u32(0)?;
        out.count(self.images.len())?;
        for image in &self.images {
            out.u16(image.width)?;
            out.u16(image.height)?;
            out.u8(image.is_flipped.into())?;
            image.blocks.iter().try_for_each(|block| out.u64(*block))?;
        }
        Ok(())
    }
}
