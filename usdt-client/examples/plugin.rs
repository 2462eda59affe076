//! A library with marks, to be loaded and unloaded by a test.

use syscollect_usdt_client::{FrameImage, frame_image, testing, zone};

/// Behaves as if a collector had attached to this library's probes, and no other would.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_raise() {
    testing::hide_from_recorders();
    testing::raise();
}

/// Does something marked; returns the descriptor of the library's arena.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_work() -> i32 {
    let zone = zone!("plugin");
    zone.value(1);
    drop(zone);
    // It starts a thread, which may not be in the library when that is unloaded.
    let rgba = [0x40; 64];
    frame_image(&FrameImage { rgba: &rgba, width: 4, height: 4, frames_ago: 0, is_flipped: false });
    testing::arena_descriptor().unwrap_or(-1)
}
