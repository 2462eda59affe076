//! Images of frames, scaled and compressed on a thread of their own.
//!
//! A program hands pixels over ([`frame_image`]), which copies them into one of a few places that
//! are mapped once ([`handover`]). A thread of low priority makes them smaller and packs them
//! ([`pixels`]), and writes them into its own ring ([`sender`]): neither that ring nor its work is
//! in the way of the thread that draws. What finds no place is left out and counted.

mod handover;
mod pixels;
mod sender;

use crate::{clock, thread};
use handover::{Details, Handover};

pub use handover::MAX_IMAGE_PIXELS;

/// Pixels, and which frame of the main set they show.
///
/// An image of more than 65,536 pixels (320 x 180 is fewer) is made smaller by a whole number. What
/// is left of a row or column after whole blocks of four is cut.
#[derive(Clone, Copy, Debug)]
pub struct FrameImage<'a> {
    /// Red, green, blue and a byte that counts for nothing, row by row without gaps.
    pub rgba: &'a [u8],
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// How many frames before the present one it shows: as many as the GPU is behind.
    pub frames_ago: u8,
    /// The first row is the lowest, as OpenGL has it.
    pub is_flipped: bool,
}

/// Shows what a frame of the main set looked like. Call it before the mark that ends the frame.
///
/// While nobody records it does nothing. Else it copies the pixels, at most
/// [`MAX_IMAGE_PIXELS`] of them, and returns: about as long as a `memcpy` of four bytes a pixel.
/// The first one maps memory and starts a thread, so it is not for handlers of signals. An image
/// that is not as large as its sides say, and one that comes while four others wait, is counted as
/// lost. A program that ends waits until those are sent that have a place, some milliseconds.
///
/// ```
/// use syscollect_usdt_client::{FrameImage, frame_image, frame_mark};
///
/// let rgba = vec![0x80; 320 * 180 * 4];
/// let (width, height) = (320, 180);
/// frame_image(&FrameImage { rgba: &rgba, width, height, frames_ago: 0, is_flipped: false });
/// frame_mark!();
/// ```
#[inline(always)]
pub fn frame_image(image: &FrameImage<'_>) {
    if crate::enabled() {
        hand_over(image);
    }
}

#[cold]
#[inline(never)]
fn hand_over(image: &FrameImage<'_>) {
    let Some(handover) = handover::get() else { return thread::count_without_ring() };
    put(handover, image);
    sender::wake(handover);
}

fn put(handover: &Handover, image: &FrameImage<'_>) {
    let pixels = (image.width as usize).checked_mul(image.height as usize);
    let is_whole = |pixels| pixels <= MAX_IMAGE_PIXELS && pixels * 4 == image.rgba.len();
    if !pixels.is_some_and(is_whole) || image.width < 4 || image.height < 4 {
        return handover.count_dropped();
    }
    let details = Details {
        taken: clock::ticks(),
        width: image.width as usize,
        height: image.height as usize,
        frames_ago: image.frames_ago,
        is_flipped: image.is_flipped,
    };
    handover.put(details, image.rgba);
}
