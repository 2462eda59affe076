//! Frames with images: a ball on a chequered ground, 60 times a second. To look at it:
//!
//! ```sh
//! cargo run --release -p syscollect-usdt-client --example images -- 20 &
//! sudo syscollect -d 5 -o images.syscap
//! syscollect export images.syscap -o images.tracy
//! ```
//!
//! Tracy shows the image of a frame when the pointer is on it, and plays them (*Tools*,
//! *Playback*).

use std::time::{Duration, Instant};
use syscollect_usdt_client::{FrameImage, frame_image, frame_mark, zone};

const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let mut rgba = vec![0; (WIDTH * HEIGHT * 4) as usize];
    let (start, mut next) = (Instant::now(), Instant::now());
    for frame in 0..seconds * 60 {
        draw(frame as f32 / 60.0, &mut rgba);
        {
            let _zone = zone!("frame image");
            frame_image(&FrameImage {
                rgba: &rgba,
                width: WIDTH,
                height: HEIGHT,
                frames_ago: 0,
                is_flipped: false,
            });
        }
        frame_mark!();
        next += Duration::from_nanos(16_666_667);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    println!("{} frames in {:.1} s", seconds * 60, start.elapsed().as_secs_f32());
}

/// Draws the picture of that second.
fn draw(second: f32, rgba: &mut [u8]) {
    let _zone = zone!("draw");
    let (height, x) = ((second * 3.0).sin().abs(), (second * 0.4).sin());
    let (x, y) = (320.0 + 260.0 * x, 320.0 - 250.0 * height);
    for (place, pixel) in (0..WIDTH * HEIGHT).zip(rgba.as_chunks_mut().0) {
        let (column, row) = (place % WIDTH, place / WIDTH);
        let distance = (column as f32 - x).hypot(row as f32 - y);
        let is_light = (column / 40 + row / 40) % 2 == 0;
        *pixel = match (distance < 30.0, is_light) {
            (true, _) => [0xe0, 0x31 + (distance * 3.0) as u8, 0x31, 0xff],
            (false, true) => [0xdd, 0xe2, 0xe6, 0xff],
            (false, false) => [0x34, 0x3a, 0x40, 0xff],
        };
    }
}
