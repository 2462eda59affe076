//! Images of frames, as the thread writes them that packs them.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use common::{in_child, record, ring_of};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use syscollect_usdt_client::testing::Drain;
use syscollect_usdt_client::{FrameImage, frame_image, plot, ticks};
use syscollect_zone_protocol::{Attribute, Event, FrameImage as WrittenImage, Item};
use texpresso::Format;

/// There is one thread that packs, whose ring the tests read in turn.
static TURN: Mutex<()> = Mutex::new(());

/// Pixels of one colour.
fn rgba(width: usize, height: usize, color: [u8; 3]) -> Vec<u8> {
    let [red, green, blue] = color;
    [red, green, blue, 0].repeat(width * height)
}

fn show(width: usize, height: usize, color: [u8; 3]) {
    let rgba = rgba(width, height, color);
    let (width, height) = (width as u32, height as u32);
    frame_image(&FrameImage { rgba: &rgba, width, height, frames_ago: 2, is_flipped: true });
}

/// The thread that packs, by the name that the system shows.
fn packer() -> Option<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut tasks = tasks.map(|task| task.unwrap().path());
    let found = tasks.find(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "syscollect-img\n")
    });
    found.map(|task| task.file_name().unwrap().to_str().unwrap().parse().unwrap())
}

/// An image, and what came of its blocks.
type Arrived = (WrittenImage, Vec<u64>);

/// Reads what the thread writes until so many images are whole or lost.
fn arrived(images: u64) -> (Vec<Arrived>, u64) {
    let (mut drain, mut arrived) = (Drain::open().expect("an arena"), Vec::<Arrived>::new());
    let (since, before) = (Instant::now(), lost(&drain));
    loop {
        if let Some(ring) = packer().and_then(|tid| ring_of(&drain, tid)) {
            for words in drain.take(ring) {
                match Item::decode(&words).expect("an item") {
                    Item::Stamped { event: Event::FrameImage(image), ticks } => {
                        assert!(ticks > image.taken & (u64::MAX >> 8), "it comes later");
                        if arrived.last().is_none_or(|(last, _)| *last != image) {
                            arrived.push((image, Vec::new()));
                        }
                    }
                    Item::Attribute(Attribute::ImageBlocks(next)) => {
                        let (image, blocks) = arrived.last_mut().expect("an image before");
                        assert_eq!((next.image, next.first), (image.image, blocks.len() as u32));
                        blocks.extend_from_slice(next.blocks());
                    }
                    _ => {}
                }
            }
        }
        let lost = lost(&drain) - before;
        let whole = |(image, blocks): &&Arrived| image.blocks() == Some(blocks.len() as u32);
        if arrived.iter().filter(whole).count() as u64 + lost >= images {
            return (arrived, lost);
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{} came", arrived.len());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn lost(drain: &Drain) -> u64 {
    let of_thread = packer().and_then(|tid| ring_of(drain, tid));
    of_thread.map_or(0, |ring| drain.ring(ring).lost.load(Ordering::Relaxed))
}

#[test]
fn an_image_comes_smaller_and_packed_from_a_thread_that_gives_way() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    record();
    let before = ticks();
    show(960, 540, [0xf8, 0, 0]);
    let after = ticks();
    let (images, lost) = arrived(1);
    let [(image, blocks)] = &images[..] else { panic!("{} images", images.len()) };
    assert_eq!(
        (image.width, image.height, image.frames_ago, image.is_flipped),
        (320, 180, 2, true)
    );
    assert!((before..=after).contains(&image.taken) && lost == 0);
    let mut pixels = vec![0; 320 * 180 * 4];
    let bytes: Vec<u8> = blocks.iter().flat_map(|block| block.to_le_bytes()).collect();
    Format::Bc1.decompress(&bytes, 320, 180, &mut pixels);
    assert!(pixels.as_chunks().0.iter().all(|pixel| pixel.abs_diff_all([0xf8, 0, 0, 255]) <= 8));
    let packer = packer().unwrap();
    // SAFETY: asks for a number.
    assert_eq!(unsafe { libc::getpriority(libc::PRIO_PROCESS, packer) }, 10);
    let status = std::fs::read_to_string(format!("/proc/self/task/{packer}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
    let blocked = u64::from_str_radix(blocked, 16).unwrap();
    assert_eq!(blocked & 1 << (libc::SIGTERM - 1), 1 << (libc::SIGTERM - 1), "{status}");
}

trait AbsDiff {
    fn abs_diff_all(&self, other: Self) -> u8;
}

impl AbsDiff for [u8; 4] {
    fn abs_diff_all(&self, other: Self) -> u8 {
        self.iter().zip(other).map(|(one, other)| one.abs_diff(other)).max().unwrap_or(0)
    }
}

#[test]
fn images_that_come_too_fast_or_are_none_are_counted_and_the_thread_sleeps_then() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    record();
    let rgba = rgba(320, 180, [1, 2, 3]);
    let image =
        FrameImage { rgba: &rgba, width: 320, height: 180, frames_ago: 0, is_flipped: false };
    (0..50).for_each(|_| frame_image(&image));
    // Not as large as they say, too large, too small.
    frame_image(&FrameImage { width: 324, ..image });
    frame_image(&FrameImage { height: 176, ..image });
    frame_image(&FrameImage { rgba: &[], width: u32::MAX, height: u32::MAX, ..image });
    frame_image(&FrameImage { rgba: &rgba[..24], width: 2, height: 3, ..image });
    let (images, lost) = arrived(54);
    assert_eq!(images.len() as u64 + lost, 54);
    assert!(images.len() >= 4 && lost >= 4, "{} came", images.len());
    let numbers: Vec<u16> = images.iter().map(|(image, _)| image.image).collect();
    assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "in order: {numbers:?}");
    // Asleep it is woken by the next.
    std::thread::sleep(Duration::from_millis(1500));
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/wchan", packer().unwrap()));
    assert!(stat.is_ok_and(|waits| waits.contains("futex") || waits == "0"));
    show(8, 4, [9, 9, 9]);
    let (images, lost) = arrived(1);
    assert_eq!((images.len(), lost), (1, 0));
}

#[test]
fn a_forked_child_has_a_thread_of_its_own() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    record();
    show(8, 4, [9, 9, 9]);
    arrived(1);
    assert!(in_child(|| {
        assert_eq!(packer(), None, "the parent's did not come along");
        plot!("first event of the child", 1);
        show(8, 8, [7, 7, 7]);
        let (images, lost) = arrived(1);
        images.len() == 1 && images[0].1.len() == 4 && lost == 0
    }));
}
