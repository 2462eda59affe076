//! Frame sets.

use super::images::{self, Images};
use super::strings::{FileStrings, pointer};
use super::wire::Payload;
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::{self, Write};
use syscollect_model::{FrameImage, Scope, Tables, TrackId, TrackKind};

/// The frames of one track.
struct FrameSet {
    track: TrackId,
    continuous: bool,
    /// Start and end; the end is -1 while it is open. Only sets that are not
    /// continuous have ends: elsewhere a frame ends with the next one.
    frames: Vec<(i64, i64)>,
    first_number: Option<u64>,
}

/// All frames.
#[derive(Default)]
pub(crate) struct Frames {
    indices: FxHashMap<TrackId, usize>,
    sets: Vec<FrameSet>,
    pub(crate) images: Images,
}

impl Frames {
    /// A frame begins.
    pub(crate) fn begin(
        &mut self,
        (track, continuous): (TrackId, bool),
        time: i64,
        number: Option<u64>,
    ) {
        let index = *self.indices.entry(track).or_insert_with(|| {
            self.sets.push(FrameSet {
                track,
                continuous,
                frames: Vec::new(),
                first_number: number,
            });
            self.sets.len() - 1
        });
        // The viewer knows one frame of a set at a time.
        self.end(track, time);
        self.sets[index].frames.push((time, -1));
    }

    /// The last frame of a track ends.
    pub(crate) fn end(&mut self, track: TrackId, time: i64) {
        let set = self.indices.get(&track).map(|index| &mut self.sets[*index]);
        if let Some(frame) = set.and_then(|set| set.frames.last_mut()).filter(|(_, end)| *end < 0) {
            frame.1 = time;
        }
    }

    /// An image of a frame of that track. The viewer shows those of the main set.
    pub(crate) fn image(&mut self, track: TrackId, image: &FrameImage, tables: &Tables) {
        let main = self.main(tables).filter(|set| set.track == track);
        let frame = main.and_then(|set| {
            let before = image.frame?.checked_sub(set.first_number?)?;
            usize::try_from(before).ok().filter(|index| *index < set.frames.len())
        });
        self.images.add(frame, image);
    }

    fn main(&self, tables: &Tables) -> Option<&FrameSet> {
        self.sets.iter().find(|set| is_main(set.track, tables))
    }

    /// The sets with their names. The file has one main set, which the viewer shows above
    /// everything: that of the first program that has one.
    pub(crate) fn named(&self, strings: &mut FileStrings, tables: &Tables) -> NamedFrames<'_> {
        let main = self.main(tables).map(|main| main.track);
        let scopes: FxHashSet<Scope> =
            self.sets.iter().map(|set| tables.track(set.track).scope).collect();
        let mut used: FxHashMap<String, u32> = FxHashMap::default();
        let others = self.sets.iter().filter(|set| Some(set.track) != main);
        let others = others.map(|set| {
            let track = tables.track(set.track);
            let mut text = tables.strings.get(track.name).to_owned();
            if let (Scope::Process(id), true) = (track.scope, scopes.len() > 1) {
                let process = tables.process(id);
                text = format!("{} ({}) {text}", tables.strings.get(process.name), process.pid);
            }
            let times = used.entry(text.clone()).or_default();
            *times += 1;
            if *times > 1 {
                text += &format!(" #{times}");
            }
            (strings.intern_short(&text), set)
        });
        NamedFrames { others: others.collect(), main: self.main(tables), images: &self.images }
    }
}

pub(crate) fn is_main(track: TrackId, tables: &Tables) -> bool {
    matches!(tables.track(track).kind, TrackKind::Frames { continuous: true, main: true })
}

/// All frames with the names of their sets.
pub(crate) struct NamedFrames<'a> {
    main: Option<&'a FrameSet>,
    others: Vec<(u32, &'a FrameSet)>,
    images: &'a Images,
}

impl NamedFrames<'_> {
    /// The names that the file points to.
    pub(crate) fn names(&self) -> impl Iterator<Item = u32> {
        self.others.iter().map(|(name, _)| *name)
    }

    /// The number of the main set's first frame; 0 and 1 are the same to the viewer.
    pub(crate) fn offset(&self) -> u64 {
        self.main.and_then(|set| set.first_number).unwrap_or_default()
    }

    /// Writes the sets. The first is always there, and begins with what was
    /// before the first frame.
    pub(crate) fn write<W: Write>(&self, out: &mut Payload<W>) -> io::Result<()> {
        out.count(1 + self.others.len())?;
        let main = self.main.map_or(&[][..], |set| &set.frames);
        let before = [(0, -1)];
        // Before the main set's frames comes the one that is added here.
        let image = |index: usize| {
            index.checked_sub(1).map_or(images::NO_IMAGE, |frame| self.images.number(frame))
        };
        let head = FrameSetHead { name: 0, continuous: true };
        write_set(out, head, before.iter().chain(main), image)?;
        self.others.iter().try_for_each(|(name, set)| {
            let head = FrameSetHead { name: pointer(*name), continuous: set.continuous };
            write_set(out, head, set.frames.iter(), |_| images::NO_IMAGE)
        })
    }

    /// Writes the images.
    pub(crate) fn write_images<W: Write>(&self, out: &mut Payload<W>) -> io::Result<()> {
        self.images.write(out)
    }
}

/// What the file says of a set before its frames.
struct FrameSetHead {
    /// A pointer to it; 0 is the main set's.
    name: u64,
    continuous: bool,
}

fn write_set<'a, W: Write>(
    out: &mut Payload<W>,
    FrameSetHead { name, continuous }: FrameSetHead,
    frames: impl Iterator<Item = &'a (i64, i64)> + Clone,
    image: impl Fn(usize) -> u32,
) -> io::Result<()> {
    out.u64(name)?;
    out.u8(continuous.into())?;
    out.count(frames.clone().count())?;
    let mut reference = 0;
    for (index, (start, end)) in frames.enumerate() {
        out.i64(start - reference)?;
        reference = *start;
        if !continuous {
            out.i64(end - reference)?;
            reference = *end;
        }
        out.u32(image(index))?;
    }
    Ok(())
}
