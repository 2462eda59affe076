//! Images of frames.

use crate::frame_image::{FrameImage, MAX_IMAGE_PIXELS, frame_image};

/// Hands an image over. One that is larger than may be is not read.
///
/// # Safety
/// Null, or `width * height` pixels of four bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_frame_image_recorded(
    rgba: *const u8,
    width: u32,
    height: u32,
    frames_ago: u8,
    flipped: u8,
) {
    let pixels = (width as usize).saturating_mul(height as usize);
    let bytes = if rgba.is_null() || pixels > MAX_IMAGE_PIXELS { 0 } else { pixels * 4 };
    // SAFETY: so many are there, as the caller says; of none nothing is read.
    let rgba = if bytes == 0 { &[] } else { unsafe { core::slice::from_raw_parts(rgba, bytes) } };
    frame_image(&FrameImage { rgba, width, height, frames_ago, is_flipped: flipped != 0 });
}
