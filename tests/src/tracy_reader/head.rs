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
    cursor.check(version == [0, 11, 0], || format!("layout {version:?} is not known here"))?;
    cursor.u64()?; // delay
    let (resolution, timer_multiplier, last_time) = (cursor.u64()?, cursor.f64()?, cursor.i64()?);
    cursor.check(last_time > 0, || format!("the last time is {last_time}"))?;
    cursor.u64()?; // offset of frames
    let (pid, sampling_period, architecture) = (cursor.u64()?, cursor.i64()?, cursor.u8()?);
    cursor.u32()?; // CPU id
    let mut vendor = [0; 12];
    vendor.copy_from_slice(cursor.take(12)?);
    let on_demand = cursor.u8()?;
    cursor.check(on_demand == 0, || "on demand, where the first frames mean something else".into())?;
    let (capture, program) = (cursor.text(1024)?, cursor.text(1024)?);
    let capture_time = cursor.u64()?;
    cursor.u64()?; // time of the executable
    let host = cursor.text(1024)?;
    let topology = topology(cursor)?;
    let crash = cursor.take(28)?;
    cursor.check(crash.iter().all(|byte| *byte == 0), || "there is a crash".into())?;
    Ok(Header {
        version,
        resolution,
        timer_multiplier,
        last_time,
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
        let cores = cursor.list(12, |cursor| Ok((cursor.u32()?, cursor.list(4, Cursor::u32)?)))?;
        Ok((package, cores.into_iter().collect()))
    })?;
    Ok(packages.into_iter().collect())
}

/// The first set must have the name 0, and a frame: the viewer looks at it.
pub(super) fn frame_sets(cursor: &mut Cursor<'_>) -> Result<(), Damage> {
    cursor.section("frame sets");
    let sets = cursor.list(17, |cursor| {
        let (name, continuous) = (cursor.u64()?, cursor.u8()?);
        cursor.check(continuous == 1, || "frames with ends".into())?;
        let mut reference = 0;
        let frames = cursor.list(12, |cursor| {
            let start = cursor.time(&mut reference)?;
            let image = cursor.i32()?;
            cursor.check(image == -1, || format!("frame image {image}"))?;
            Ok(start)
        })?;
        Ok((name, frames))
    })?;
    match sets.first() {
        Some((0, frames)) if !frames.is_empty() => Ok(()),
        other => Err(cursor.damage(format!("the first set is {other:?}"))),
    }
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
