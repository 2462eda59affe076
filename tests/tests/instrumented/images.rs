//! Images of frames, which come in pieces and later than their frames.

use syscollect_exporters::{FirefoxExporter, FirefoxOptions, TracyExporter};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, LossCause, Tables, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;
use syscollect_tests::client::image_blocks;
use syscollect_tests::{FakeMachine, FakeProgram, FakeThread, golden, ticks, tracy_reader};
use syscollect_zone_protocol::{Event as ZoneEvent, FrameImage, FramePhase};

fn machine() -> (FakeMachine, FakeProgram) {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "game", &[(100, "game"), (101, "syscollect-img")]);
    let program = FakeProgram::new(&mut machine, 1, 100);
    (machine, program)
}

/// An image of 16 x 8 pixels, which has 8 blocks.
fn image(image: u16, taken: u64, frames_ago: u8) -> FrameImage {
    let (taken, is_flipped) = (ticks(taken), image == 2);
    FrameImage { image, frames_ago, is_flipped, taken, width: 16, height: 8 }
}

/// The blocks of an image, which no other has.
fn blocks(image: FrameImage) -> Vec<u64> {
    let count = image.blocks().unwrap_or(8);
    (0..u64::from(count)).map(|block| u64::from(image.image) << 32 | block).collect()
}

/// Writes blocks of an image, from that one on.
fn write(
    packer: &FakeThread,
    machine: &mut FakeMachine,
    us: u64,
    image: FrameImage,
    first: usize,
    blocks: &[u64],
) {
    let items = image_blocks(image.image, first as u32, blocks);
    packer.event(machine, us, ZoneEvent::FrameImage(image), &[items]);
}

fn mark(thread: &FakeThread, machine: &mut FakeMachine, us: u64) {
    thread.event(machine, us, ZoneEvent::Frame { set: 0, phase: FramePhase::Mark }, &[]);
}

/// A frame each 10 us from 10 on; images of the third, of the second (in two groups), of the first
/// by one that is behind, of the second again, and of what was before.
fn scenario() -> FakeMachine {
    let (mut machine, program) = machine();
    let (game, packer) = (program.thread(0, 100), program.thread(1, 101));
    let m = &mut machine;
    for us in [10, 20, 30, 40] {
        mark(&game, m, us);
    }
    let (third, second, first) = (image(1, 35, 0), image(2, 25, 0), image(3, 22, 1));
    write(&packer, m, 42, third, 0, &blocks(third));
    write(&packer, m, 43, second, 0, &blocks(second)[..5]);
    write(&packer, m, 44, second, 5, &blocks(second)[5..]);
    write(&packer, m, 45, first, 0, &blocks(first));
    let (again, before) = (image(4, 29, 0), image(5, 5, 0));
    write(&packer, m, 46, again, 0, &blocks(again));
    write(&packer, m, 47, before, 0, &blocks(before));
    program.finish(m);
    machine
}

#[test]
fn an_image_is_of_the_frame_in_which_it_was_taken_however_late_it_comes() {
    golden::check("frame_images", &mut golden::open(scenario().finish()));
}

#[test]
fn in_tracy_each_frame_of_the_main_set_has_its_image_and_what_is_left_out_is_counted() {
    let mut session = open(scenario());
    let mut exporter = TracyExporter::new(Vec::new());
    session.play(&mut exporter).unwrap();
    let cuts = exporter.cuts();
    assert!(cuts.len() == 1 && cuts[0].starts_with("2 frame images are left out"), "{cuts:?}");
    let trace = tracy_reader::read(&exporter.finish().unwrap()).unwrap();
    let found: Vec<_> = trace
        .frame_images
        .iter()
        .map(|image| {
            let number = image.blocks[0] >> 32;
            assert_eq!((image.width, image.height, image.blocks.len()), (16, 8, 8));
            assert!(image.blocks.iter().zip(0..).all(|(own, at)| *own == number << 32 | at));
            (image.frame, number, image.is_flipped)
        })
        .collect();
    // The set's first entry is what was before its first frame.
    assert_eq!(found, [(3, 1, false), (2, 2, true), (1, 3, false)]);
}

#[test]
fn in_firefox_an_image_is_a_mark() {
    let mut session = open(scenario());
    let mut exporter = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
    session.play(&mut exporter).unwrap();
    let firefox = String::from_utf8(exporter.finish().unwrap()).unwrap();
    assert!(firefox.contains("\"Frame image\"") && firefox.contains("\"width\":16"), "{firefox}");
}

/// Images that come out: their numbers among the program's, and whether they have a frame.
#[derive(Default)]
struct Shown {
    images: Vec<(u64, bool)>,
}

impl Exporter for Shown {
    type Error = std::convert::Infallible;

    fn event(&mut self, _: Time, event: &Event, _: &Tables) -> Result<(), Self::Error> {
        if let Event::FrameImage(_, image) = event {
            assert_eq!(image.blocks.len(), usize::from(image.width / 4 * (image.height / 4)));
            self.images.push((image.blocks[0] >> 32, image.frame.is_some()));
        }
        Ok(())
    }
}

fn open(machine: FakeMachine) -> Session {
    Session::open(CaptureReader::from_bytes(machine.finish()).unwrap()).unwrap()
}

/// The images that come out, and how many items are counted as such that mean nothing.
fn shown(machine: FakeMachine) -> (Vec<(u64, bool)>, u64) {
    let mut session = open(machine);
    let mut shown = Shown::default();
    session.play(&mut shown).unwrap();
    let refused = session.losses().iter().filter(|loss| loss.cause == LossCause::Undecodable);
    (shown.images, refused.map(|loss| loss.count).sum())
}

#[test]
fn images_that_are_not_what_they_say_are_counted_once_and_spoil_no_other() {
    let (mut machine, program) = machine();
    let (game, packer) = (program.thread(0, 100), program.thread(1, 101));
    let m = &mut machine;
    mark(&game, m, 10);
    let good = |number| (image(number, 15, 0), blocks(image(number, 15, 0)));
    let mut us = 20;
    let mut group = |m: &mut FakeMachine, image, first, blocks: &[u64]| {
        us += 1;
        write(&packer, m, us, image, first, blocks);
    };
    // It began before the recording, or was lost: that is nobody's fault.
    let (begun, own) = good(0);
    group(m, begun, 3, &own[3..]);
    // Larger than it said: an item runs over its end.
    let (sized, own) = good(1);
    group(m, sized, 0, &[&own[..], &[7; 9]].concat());
    // The same where its end is an item's: it is whole, and what comes more is not.
    let (whole, own) = good(2);
    group(m, whole, 0, &own);
    group(m, whole, 8, &[7; 300]);
    // Blocks of another image in it.
    let (mixed, own) = good(3);
    group(m, mixed, 0, &own[..6]);
    packer.event(m, 25, ZoneEvent::FrameImage(mixed), &[image_blocks(9, 6, &own[6..])]);
    // A hole.
    let (holed, own) = good(4);
    group(m, holed, 0, &own[..3]);
    group(m, holed, 6, &own[6..]);
    // Sizes that cannot be.
    for (width, height) in [(0, 8), (16, 0), (15, 8), (16, 7), (65_532, 65_532)] {
        group(m, FrameImage { width, height, ..image(5, 15, 0) }, 0, &[1, 2, 3]);
    }
    // One that changes what it says: the first is never ended, the second has no beginning.
    let (changed, own) = good(6);
    group(m, changed, 0, &own[..3]);
    group(m, FrameImage { width: 32, ..changed }, 3, &own[3..6]);
    // A frame that nobody has seen, and a good one at last.
    let (early, own) = (FrameImage { frames_ago: 200, ..image(7, 15, 0) }, blocks(image(7, 15, 0)));
    group(m, early, 0, &own);
    let (last, own) = good(8);
    group(m, last, 0, &own);
    // The recording is over before this one is whole.
    let (open, own) = good(9);
    group(m, open, 0, &own[..3]);
    program.finish(m);
    let (images, refused) = shown(machine);
    assert_eq!(images, [(2, true), (7, false), (8, true)]);
    assert_eq!(refused, 1 + 1 + 1 + 1 + 5 + 2);
}

#[test]
fn what_is_lost_within_an_image_is_counted_where_it_was_lost() {
    let (mut machine, program) = machine();
    let (game, packer) = (program.thread(0, 100), program.thread(1, 101));
    let m = &mut machine;
    mark(&game, m, 10);
    let (first, second) = (image(1, 15, 0), image(2, 15, 0));
    write(&packer, m, 20, first, 0, &blocks(first)[..3]);
    packer.event(m, 21, ZoneEvent::Lost { events: 1 }, &[]);
    write(&packer, m, 22, first, 6, &blocks(first)[6..]);
    write(&packer, m, 23, second, 0, &blocks(second));
    program.finish(m);
    assert_eq!(shown(machine), (vec![(2, true)], 0));
}

#[test]
fn blocks_without_their_claim_go_on_where_a_chunk_was_cut() {
    let (mut machine, program) = machine();
    let (game, packer) = (program.thread(0, 100), program.thread(1, 101));
    let m = &mut machine;
    mark(&game, m, 10);
    let own = blocks(image(1, 15, 0));
    write(&packer, m, 20, image(1, 15, 0), 0, &own[..3]);
    m.end_chunk(packer.to());
    packer.words(m, 21, &image_blocks(1, 3, &own[3..]));
    program.finish(m);
    assert_eq!(shown(machine), (vec![(1, true)], 0));
}
