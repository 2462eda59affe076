//! Header, topology, frame sets, strings.

use super::cursor::Cursor;
use super::{Damage, Strings};
use std::collections::BTreeMap;

/// What stands before the events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    /// Layout of the file.
    pub version: [u8; 3],
    /// How long a timer call takes.
    pub resolution: u64,
    /// Nanoseconds of a tick.
    pub timer_multiplier: f64,
    /// The last time.
    pub last_time: i64,
    /// The number of the main set's first frame; 0 where it has none.
    pub first_frame: u64,
    /// Process id of the profiled program.
    pub pid: u64,
    /// Nanoseconds between two samples.
    pub sampling_period: i64,
    /// CPU architecture.
    pub architecture: u8,
    /// CPU vendor.
    pub vendor: [u8; 12],
    /// Name of the capture.
    pub capture: String,
    /// Name of the program.
    pub program: String,
    /// Seconds since 1970.
    pub capture_time: u64,
    /// Lines on the host.
    pub host: String,
    /// CPUs by package and core.
    pub topology: BTreeMap<u32, BTreeMap<u32, Vec<u32>>>,
}

pub(super) fn header(cursor: &mut Cursor<'_>) -> Result<Header, Damage> {
    let magic = cursor.take(5)?;
    cursor.check(magic == b"tracy", || format!("{magic:02x?} is no header"))?;
    let version = [cursor.u8()?, cursor.u8()?, cursor.u8()?];
    let known = [[0, 11, 0], [0, 13, 0], [0, 14, 0]].contains(&version);
    cursor.check(known, || format!("layout {version:?} is not known here"))?;
    cursor.set_version(version);
    if !cursor.since([0, 12, 3]) {
        cursor.u64()?; // delay
    }
    let (resolution, timer_multiplier, last_time) = (cursor.u64()?, cursor.f64()?, cursor.i64()?);
    cursor.check(last_time > 0, || format!("the last time is {last_time}"))?;
    let first_frame = cursor.u64()?;
    let (pid, sampling_period, architecture) = (cursor.u64()?, cursor.i64()?, cursor.u8()?);
    cursor.u32()?; // CPU id
    let mut vendor = [0; 12];
    vendor.copy_from_slice(cursor.take(12)?);
    let on_demand = cursor.u8()?;
    cursor
        .check(on_demand == 0, || "on demand, where the first frames mean something else".into())?;
    let (capture, program) = (cursor.text(1024)?, cursor.text(1024)?);
    let capture_time = cursor.u64()?;
    cursor.u64()?; // time of the executable
    let host = cursor.text(1024)?;
    let topology = topology(cursor)?;
    Ok(Header {
        version,
        resolution,
        timer_multiplier,
        last_time,
        first_frame,
        pid,
        sampling_period,
        architecture,
        vendor,
        capture,
        program,
        capture_time,
        host,
        topology,
    })
}

fn topology(cursor: &mut Cursor<'_>) -> Result<BTreeMap<u32, BTreeMap<u32, Vec<u32>>>, Damage> {
    cursor.section("topology");
    let packages = cursor.list(12, |cursor| {
        let package = cursor.u32()?;
        if cursor.since([0, 11, 2]) {
            let (dies, die) = (cursor.u64()?, cursor.u32()?);
            cursor.check((dies, die) == (1, 0), || format!("{dies} dies, the first {die}"))?;
        }
        let cores = cursor.list(12, |cursor| Ok((cursor.u32()?, cursor.list(4, Cursor::u32)?)))?;
        Ok((package, cores.into_iter().collect()))
    })?;
    Ok(packages.into_iter().collect())
}

/// A crash whose message is not looked up yet.
pub(super) struct RawCrash {
    thread: u64,
    time: i64,
    message: u64,
    callstack: u32,
}

/// What took a process down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The thread's number.
    pub thread: u64,
    /// When.
    pub time: i64,
    /// What.
    pub message: String,
    /// Index of the call stack; 0 is none.
    pub callstack: u32,
}

pub(super) fn crash(cursor: &mut Cursor<'_>) -> Result<Option<RawCrash>, Damage> {
    cursor.section("crash");
    let crash = RawCrash {
        thread: cursor.u64()?,
        time: cursor.i64()?,
        message: cursor.u64()?,
        callstack: cursor.u32()?,
    };
    let nothing = (crash.time, crash.message, crash.callstack) == (0, 0, 0);
    cursor.check(crash.thread != 0 || nothing, || "a crash of no thread".into())?;
    Ok((crash.thread != 0).then_some(crash))
}

impl RawCrash {
    pub(super) fn named(self, cursor: &Cursor<'_>, strings: &Strings) -> Result<Crash, Damage> {
        let Self { thread, time, message, callstack } = self;
        Ok(Crash { thread, time, message: strings.id(cursor, message)?, callstack })
    }
}

/// Frames of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameSet {
    /// Its name; the main set has none.
    pub name: Option<String>,
    /// Each frame ends where the next begins.
    pub continuous: bool,
    /// Start and end; the end is -1 in sets that are continuous, and of a frame that is open.
    pub frames: Vec<(i64, i64)>,
    /// The image of each frame; -1 is none.
    pub images: Vec<i32>,
}

/// An image of a frame of the main set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameImage {
    /// The frame's place in the set.
    pub frame: usize,
    /// Pixels of a row.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// Its first row is the lowest.
    pub is_flipped: bool,
    /// Its blocks: BC1, 8 bytes each.
    pub blocks: Vec<u64>,
}

/// The images. Each is of one frame of the main set: whoever shows them looks at that frame.
pub(super) fn frame_images(
    cursor: &mut Cursor<'_>,
    sets: &[FrameSet],
) -> Result<Vec<FrameImage>, Damage> {
    cursor.section("frame images");
    let dictionary = cursor.u32()?;
    cursor.check(dictionary == 0, || format!("a dictionary of {dictionary} bytes"))?;
    let (main, others) = sets.split_first().unwrap_or_else(|| unreachable!("the first is checked"));
    let has_image = |set: &FrameSet| set.images.iter().any(|image| *image >= 0);
    cursor.check(!others.iter().any(has_image), || "an image of another set's frame".into())?;
    let mut number = 0..;
    let images = cursor.list(5, |cursor| {
        let (width, height, flip) = (cursor.u16()?, cursor.u16()?, cursor.u8()?);
        let is_whole = |side: u16| side > 0 && side.is_multiple_of(4);
        cursor.check(is_whole(width) && is_whole(height) && flip <= 1, || {
            format!("an image of {width} x {height}, {flip}")
        })?;
        let number = number.next();
        let mut of = main.images.iter().enumerate().filter(|(_, image)| Some(**image) == number);
        let (Some((frame, _)), None) = (of.next(), of.next()) else {
            return Err(cursor.damage(format!("image {number:?} is not of one frame")));
        };
        let blocks = u32::from(width / 4) * u32::from(height / 4);
        let blocks = (0..blocks).map(|_| cursor.u64()).collect::<Result<_, _>>()?;
        Ok(FrameImage { frame, width, height, is_flipped: flip == 1, blocks })
    })?;
    let largest = main.images.iter().copied().max().unwrap_or(-1);
    cursor.check(largest < images.len() as i32, || format!("there is no image {largest}"))?;
    Ok(images)
}

/// The first set must have the name 0, and a frame: the viewer looks at it. Names are looked up
/// later.
pub(super) fn frame_sets(cursor: &mut Cursor<'_>) -> Result<Vec<(u64, FrameSet)>, Damage> {
    cursor.section("frame sets");
    let sets = cursor.list(17, |cursor| {
        let (name, continuous) = (cursor.u64()?, cursor.u8()?);
        cursor.check(continuous <= 1, || format!("{continuous} is neither continuous nor not"))?;
        let (mut reference, mut last) = (0, 0);
        let frames = cursor.list(12, |cursor| {
            cursor.check(last >= 0, || "a frame before was open".into())?;
            let start = cursor.time(&mut reference)?;
            cursor.check(start >= last, || format!("a frame at {start} after {last}"))?;
            last = start;
            let mut end = -1;
            if continuous == 0 {
                end = cursor.time(&mut reference)?;
                cursor
                    .check(end < 0 || end >= start, || format!("a frame from {start} to {end}"))?;
                last = end;
            }
            let image = cursor.i32()?;
            cursor.check(image >= -1, || format!("frame image {image}"))?;
            Ok(((start, end), image))
        })?;
        let (frames, images): (Vec<_>, Vec<_>) = frames.into_iter().unzip();
        // The viewer looks at the last one.
        cursor.check(!frames.is_empty(), || format!("set {name:#x} has no frames"))?;
        Ok((name, FrameSet { name: None, continuous: continuous == 1, frames, images }))
    })?;
    match sets.first() {
        Some((0, set)) if set.continuous => Ok(sets),
        other => Err(cursor.damage(format!("the first set is {other:?}"))),
    }
}

/// Sections, which nobody writes here.
pub(super) fn sections(cursor: &mut Cursor<'_>) -> Result<(), Damage> {
    cursor.section("sections");
    if cursor.since([0, 13, 5]) { (0..2).try_for_each(|_| cursor.nothing()) } else { Ok(()) }
}

/// The sets with their names.
pub(super) fn named_frame_sets(
    cursor: &Cursor<'_>,
    sets: Vec<(u64, FrameSet)>,
    strings: &Strings,
) -> Result<Vec<FrameSet>, Damage> {
    let mut named: Vec<FrameSet> = Vec::new();
    for (id, set) in sets {
        let name = (id != 0).then(|| strings.id(cursor, id)).transpose()?;
        cursor.check(named.iter().all(|other| other.name != name), || {
            format!("two sets are named {name:?}")
        })?;
        cursor.check(name.as_ref().is_none_or(|name| name.len() < 1_000), || {
            "a name is too long".into()
        })?;
        named.push(FrameSet { name, ..set });
    }
    Ok(named)
}

pub(super) fn strings(cursor: &mut Cursor<'_>) -> Result<Strings, Damage> {
    cursor.section("strings");
    let mut strings = Strings::default();
    for index in 0..cursor.count(16)? {
        let pointer = cursor.u64()?;
        let text = cursor.text(1 << 32)?;
        cursor.check(!text.contains('\0'), || format!("{text:?} would end at its NUL"))?;
        let former = strings.pointers.insert(pointer, index);
        cursor.check(former.is_none(), || format!("two strings lie at {pointer:#x}"))?;
        strings.data.push(text);
    }
    cursor.check(strings.data.len() < 1 << 24, || "too many strings".into())?;
    for (id, pointer) in cursor.list(16, |cursor| Ok((cursor.u64()?, cursor.u64()?)))? {
        strings.pointer(cursor, pointer)?;
        let former = strings.ids.insert(id, pointer);
        cursor.check(former.is_none(), || format!("two strings have the id {id:#x}"))?;
    }
    Ok(strings)
}
