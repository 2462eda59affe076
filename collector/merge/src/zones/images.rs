//! Images of frames. They come in pieces, later than their frames, from the thread of a program
//! that compresses them.

use crate::engine::{Engine, Writer};
use crate::zones::frames::{FrameSets, MainFrame};
use crate::zones::held_shares::HeldShares;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Field, Forgotten, FrameImage, Lane, LossCause, ProcessId, Slice, StringId, Strings,
    Time, Value,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_store::Producer;
use syscollect_zone_protocol::{self as protocol, ImageBlocks};

/// Bytes that images may take of which not all blocks have come.
const MOST_ARRIVING_BYTES: usize = 64 << 20;

/// The images that have begun to come. A thread writes one after the other, from its first block to
/// its last, so each lane has one at most. Memory is taken for blocks that have come only, whatever
/// a program claims.
///
/// An image that is not what its program said is counted once. One of which a part lies outside of
/// the recording, or was lost, which is counted there, is passed over, as zones without ends are.
#[derive(Debug)]
pub(crate) struct FrameImages {
    /// The last of each lane.
    arriving: FxHashMap<Lane, ArrivingImage>,
    shares: HeldShares,
    names: MarkNames,
}

/// What the mark of an image says.
#[derive(Clone, Copy, Debug)]
struct MarkNames {
    image: StringId,
    width: StringId,
    height: StringId,
    bytes: StringId,
}

/// An image and what has come of it.
#[derive(Debug)]
struct ArrivingImage {
    image: protocol::FrameImage,
    /// How many blocks it has.
    size: u32,
    /// Empty once it is over.
    blocks: Vec<u64>,
    writer: Writer,
    state: ImageState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageState {
    /// Nothing has come. It may have begun before the recording if it is the lane's first.
    Announced { is_first: bool },
    /// Blocks are missing.
    Arriving,
    /// It was told.
    Complete,
    /// It comes to nothing.
    GivenUp,
}

impl ArrivingImage {
    fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..])
    }

    fn is_of(&self, writer: Writer) -> bool {
        (self.writer.program, self.writer.owner) == (writer.program, writer.owner)
    }

    /// Takes in the next blocks: how many bytes; `None` where these are another image's, or not
    /// the next.
    fn add(&mut self, next: &ImageBlocks) -> Option<usize> {
        let (blocks, first) = (next.blocks(), next.first as usize);
        let is_next = next.image == self.image.image
            && first == self.blocks.len()
            && first + blocks.len() <= self.size as usize;
        is_next.then(|| {
            self.state = ImageState::Arriving;
            self.blocks.extend_from_slice(blocks);
            size_of_val(blocks)
        })
    }
}

impl FrameImages {
    pub(crate) fn new(strings: &mut Strings) -> Self {
        Self::bounded(strings, MOST_ARRIVING_BYTES)
    }

    /// Holds no more than so many bytes.
    fn bounded(strings: &mut Strings, most_bytes: usize) -> Self {
        let [image, width, height, bytes] =
            ["Frame image", "width", "height", "bytes"].map(|name| strings.intern(name));
        let names = MarkNames { image, width, height, bytes };
        Self { arriving: FxHashMap::default(), shares: HeldShares::new(most_bytes), names }
    }

    /// The thread writes blocks of this image now.
    pub(crate) fn begin(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        image: protocol::FrameImage,
    ) {
        let before = self.arriving.get(&writer.lane).filter(|before| before.is_of(writer));
        if before.is_some_and(|before| before.image == image) {
            return;
        }
        let is_first = before.is_none();
        if before.is_some_and(|before| before.state == ImageState::Arriving) {
            writer.refuse(engine, 1);
        }
        self.pass_over(writer.lane);
        let size = image.blocks();
        writer.refuse(engine, u64::from(size.is_none()));
        let state =
            if size.is_some() { ImageState::Announced { is_first } } else { ImageState::GivenUp };
        let (size, blocks) = (size.unwrap_or(0), Vec::new());
        self.arriving.insert(writer.lane, ArrivingImage { image, size, blocks, writer, state });
    }

    /// Blocks of the image that the thread writes. A complete one is told.
    pub(crate) fn add(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        frames: &mut FrameSets,
        taken: impl Fn(&mut Engine<'_>, u64) -> Option<Time>,
        blocks: &[ImageBlocks],
    ) -> Result<(), Stopped> {
        for next in blocks {
            let arriving = self.arriving.get_mut(&writer.lane);
            let Some(arriving) = arriving
                .filter(|arriving| arriving.is_of(writer) && arriving.state != ImageState::GivenUp)
            else {
                continue;
            };
            let began_before =
                arriving.state == ImageState::Announced { is_first: true } && next.first > 0;
            let Some(bytes) = arriving.add(next) else {
                writer.refuse(engine, u64::from(!began_before));
                self.end(writer.lane, ImageState::GivenUp);
                continue;
            };
            let is_complete = arriving.blocks.len() == arriving.size as usize;
            if self.has_room(engine, writer, bytes)
                && is_complete
                && let Some((image, blocks)) = self.end(writer.lane, ImageState::Complete)
            {
                match taken(engine, image.taken) {
                    Some(taken) => {
                        let frame =
                            frames.main_frame(engine, writer.program, taken, image.frames_ago);
                        self.tell(engine, frame, image, taken, blocks)?;
                    }
                    None => writer.refuse(engine, 1),
                }
            }
        }
        Ok(())
    }

    /// Whether the thread's image may have so much more; else it, or others', come to nothing.
    fn has_room(&mut self, engine: &mut Engine<'_>, writer: Writer, bytes: usize) -> bool {
        let Self { arriving, shares, .. } = self;
        let mut left_out = Vec::new();
        let has_room = shares.take(producer(writer), bytes, |most| {
            let images = arriving.values_mut().filter(|image| producer(image.writer) == most);
            let Some(largest) = images.max_by_key(|image| image.blocks.len()) else { return 0 };
            let bytes = largest.bytes();
            if bytes > 0 {
                left_out.push(largest.writer);
                (largest.blocks, largest.state) = (Vec::new(), ImageState::GivenUp);
            }
            bytes
        });
        if !has_room && let Some(image) = arriving.get_mut(&writer.lane) {
            shares.give_back(producer(writer), image.bytes() - bytes);
            (image.blocks, image.state) = (Vec::new(), ImageState::GivenUp);
            left_out.push(writer);
        }
        for Writer { lane, user, .. } in left_out {
            engine.source.losses.of_program(lane, user, LossCause::BeyondShare, 1);
        }
        has_room
    }

    /// The lane's image is over: what it is, and its blocks.
    fn end(&mut self, lane: Lane, state: ImageState) -> Option<(protocol::FrameImage, Vec<u64>)> {
        let image = self.arriving.get_mut(&lane)?;
        self.shares.give_back(producer(image.writer), image.bytes());
        image.state = state;
        Some((image.image, std::mem::take(&mut image.blocks)))
    }

    /// Something of the lane is missing: of its image, too, perhaps.
    pub(crate) fn pass_over(&mut self, lane: Lane) {
        self.end(lane, ImageState::GivenUp);
        self.arriving.remove(&lane);
    }

    fn tell(
        &self,
        engine: &mut Engine<'_>,
        frame: MainFrame,
        image: protocol::FrameImage,
        taken: Time,
        blocks: Vec<u64>,
    ) -> Result<(), Stopped> {
        let protocol::FrameImage { is_flipped, width, height, .. } = image;
        let MarkNames { image: name, width: of_width, height: of_height, bytes } = self.names;
        let fields = vec![
            Field::named(of_width, Value::Unsigned(width.into())),
            Field::named(of_height, Value::Unsigned(height.into())),
            Field::named(bytes, Value::Bytes(size_of_val(&blocks[..]) as u64)),
        ];
        let number = frame.found.map(|found| found.number);
        let image = FrameImage {
            at: frame.found.map_or(taken, |found| found.began).min(engine.now()),
            frame: number,
            width,
            height,
            is_flipped,
            blocks: blocks.into(),
            mark: Slice { number, fields, ..Slice::named(name) },
        };
        engine.occurred(EventType::FrameImage);
        engine.emit(&Event::FrameImage(frame.track, Box::new(image)))
    }

    /// Forgets images of processes that are gone.
    pub(crate) fn forget(&mut self, forgotten: &Forgotten) {
        self.pass_over_those(|process| forgotten.processes.contains(&process));
    }

    /// The process is over, without one all are: nothing more comes of its images.
    pub(crate) fn close(&mut self, process: Option<ProcessId>) {
        self.pass_over_those(|own| process.is_none_or(|process| process == own));
    }

    fn pass_over_those(&mut self, of: impl Fn(ProcessId) -> bool) {
        let own = self.arriving.iter().filter(|(_, image)| of(image.writer.program.process));
        for lane in own.map(|(lane, _)| *lane).collect::<Vec<_>>() {
            self.pass_over(lane);
        }
    }
}

fn producer(writer: Writer) -> Producer {
    Producer { user: writer.user.unwrap_or(u32::MAX), program: writer.program.client }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ProgramId;
    use crate::testing::events_of;
    use syscollect_model::{LaneKind, Tables};

    /// The largest there is: 256 KiB.
    const IMAGE: protocol::FrameImage = protocol::FrameImage {
        image: 1,
        frames_ago: 0,
        is_flipped: false,
        taken: 0,
        width: 2048,
        height: 256,
    };

    fn writer(engine: &mut Engine<'_>, client: u32, lane: u16) -> Writer {
        let thread = engine.thread(u32::from(lane) + 1);
        let program = ProgramId { process: engine.tables.thread(thread).process, client };
        let lane = Lane::new(LaneKind::Zone, lane);
        Writer { lane, program, user: Some(client), tid: 1, owner: 1, thread, slot: 0 }
    }

    fn write(images: &mut FrameImages, engine: &mut Engine<'_>, writer: Writer, blocks: u32) {
        let [main, frame] = ["Frames", "Frame"].map(|name| engine.tables.strings.intern(name));
        let mut frames = FrameSets::new(main, frame);
        images.begin(engine, writer, IMAGE);
        for first in (0..blocks).step_by(3) {
            let next = [ImageBlocks::new(IMAGE.image, first, &[7; 3])];
            images.add(engine, writer, &mut frames, |_, _| Some(Time(0)), &next).unwrap();
        }
    }

    #[test]
    fn what_is_never_ended_has_a_bound_and_who_has_most_gives_way() {
        const LANES: u16 = 40;
        let (mut tables, most) = (Tables::default(), 64 << 10);
        let mut images = FrameImages::bounded(&mut tables.strings, most);
        let events = events_of(&mut tables, |engine| {
            for lane in 0..LANES {
                let writer = writer(engine, 1, lane);
                write(&mut images, engine, writer, 300);
                assert!(images.shares.of_all() <= most);
            }
            let arriving = |images: &FrameImages| {
                let states = images.arriving.values().map(|image| image.state);
                states.filter(|state| *state == ImageState::Arriving).count()
            };
            assert_eq!(arriving(&images), most / 2400, "as many as there is room for");
            // Another user's comes in whole.
            let other = writer(engine, 2, LANES);
            write(&mut images, engine, other, 900);
            assert_eq!(images.arriving[&other.lane].blocks.len(), 900);
            let still_there = arriving(&images);
            images.close(None);
            assert_eq!(images.shares.of_all(), 0);
            // All but those that were left are counted, each once.
            let totals = engine.source.losses.totals();
            let left_out = u64::from(LANES) + 1 - still_there as u64;
            assert_eq!(totals.len(), 1);
            assert_eq!((totals[0].cause, totals[0].count), (LossCause::BeyondShare, left_out));
        });
        assert_eq!(events, []);
    }
}
