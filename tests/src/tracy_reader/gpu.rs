//! GPU contexts.

use super::cursor::Cursor;
use super::zones::{Locations, SourceLocation};
use super::{Damage, Strings};
use std::collections::BTreeMap;

/// A queue of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuContext {
    /// Its name.
    pub name: String,
    /// 2 Vulkan, 7 custom.
    pub kind: u8,
    /// Zones by the number of the thread that handed them over.
    pub threads: BTreeMap<u64, Vec<GpuZone>>,
}

/// Work of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuZone {
    /// How many it lies in.
    pub depth: u32,
    /// Where it comes from: of a job, only the name.
    pub location: SourceLocation,
    /// The program handed it over, and was done with that.
    pub cpu: (i64, i64),
    /// The GPU began and ended.
    pub gpu: (i64, i64),
    /// The number of the thread that handed it over, of one in the row of another thread.
    pub thread: Option<u64>,
    /// Numbers said of it, by name.
    pub notes: BTreeMap<String, f64>,
}

impl GpuZone {
    /// Its name.
    pub fn name(&self) -> &str {
        self.location.name.as_deref().unwrap_or_default()
    }
}

/// All contexts, and how many zones each location has in them.
struct Reader<'a> {
    threads: &'a [u64],
    locations: &'a Locations,
    strings: &'a Strings,
    counts: BTreeMap<i16, u64>,
    parents: u64,
}

pub(super) fn contexts(
    cursor: &mut Cursor<'_>,
    threads: &[u64],
    locations: &Locations,
    strings: &Strings,
) -> Result<Vec<GpuContext>, Damage> {
    cursor.section("GPU contexts");
    let total = cursor.u64()?;
    let parents = cursor.u64()?;
    let counts = BTreeMap::new();
    let mut reader = Reader { threads, locations, strings, counts, parents: 0 };
    let contexts = cursor.list(41, |cursor| reader.context(cursor))?;
    cursor.check(contexts.len() <= 255, || format!("{} contexts", contexts.len()))?;
    cursor.check(parents == reader.parents, || format!("{parents} zones with others inside"))?;
    let found: u64 = reader.counts.values().sum();
    cursor.check(found == total, || format!("{total} zones were told, {found} are there"))?;
    cursor.check(reader.counts == locations.gpu_counts, || {
        "the counts of locations are wrong".into()
    })?;
    Ok(contexts)
}

/// Which thread's row zones are in, and within how many others.
#[derive(Clone, Copy)]
struct ZoneLevel {
    thread: u64,
    depth: u32,
}

/// What the next times of a row count from.
#[derive(Default)]
struct ReferenceTimes {
    cpu: i64,
    gpu: i64,
}

impl ReferenceTimes {
    /// The next time of the CPU and that of the GPU.
    fn next(&mut self, cursor: &mut Cursor<'_>) -> Result<(i64, i64), Damage> {
        Ok((cursor.time(&mut self.cpu)?, cursor.time(&mut self.gpu)?))
    }
}

impl Reader<'_> {
    fn context(&mut self, cursor: &mut Cursor<'_>) -> Result<GpuContext, Damage> {
        let (thread, calibrated, count) = (cursor.u64()?, cursor.u8()?, cursor.u64()?);
        cursor.check((thread, calibrated) == (0, 1), || {
            format!("of thread {thread}, calibrated {calibrated}")
        })?;
        let period = cursor.array().map(f32::from_le_bytes)?;
        cursor.check(period == 1.0, || format!("a tick of the GPU is {period} ns"))?;
        let kind = cursor.u8()?;
        // The viewer looks the kind up in a table; that of 0.11 ends at 5.
        let known = if cursor.since([0, 13, 0]) { 7 } else { 2 };
        cursor.check(kind == known, || format!("a context of kind {kind}"))?;
        let name = cursor.string_index()?;
        let name = self.strings.index(cursor, name)?;
        cursor.check(name.len() < 1_000, || "a name is too long".into())?;
        let overflow = cursor.u64()?;
        cursor.check(overflow == 0, || format!("the clock overflows at {overflow}"))?;
        let mut names = BTreeMap::new();
        if cursor.since([0, 12, 4]) {
            for (key, name) in
                cursor.list(11, |cursor| Ok((cursor.i64()?, cursor.string_index()?)))?
            {
                let former = names.insert(key, self.strings.index(cursor, name)?);
                cursor.check(former.is_none(), || format!("note {key} has two names"))?;
            }
        }
        let mut threads = BTreeMap::new();
        for _ in 0..cursor.count(16)? {
            let (id, zones) = self.timeline(cursor)?;
            cursor.check(threads.insert(id, zones).is_none(), || {
                format!("thread {id} is there twice")
            })?;
        }
        let found: usize = threads.values().map(Vec::len).sum();
        cursor.check(found as u64 == count, || format!("{name} is said to have {count} zones"))?;
        if cursor.since([0, 12, 4]) {
            let notes = notes(cursor, &names)?;
            give(cursor, threads.values_mut().flatten(), notes)?;
        }
        let threads = threads.into_iter();
        let threads = threads
            .map(|(id, zones)| (id, zones.into_iter().map(|(zone, _)| zone).collect()))
            .collect();
        Ok(GpuContext { name, kind, threads })
    }

    /// A row: its zones with the numbers that bind their notes.
    fn timeline(&mut self, cursor: &mut Cursor<'_>) -> Result<(u64, Vec<(GpuZone, u16)>), Damage> {
        let id = cursor.u64()?;
        let (level, mut zones) = (ZoneLevel { thread: id, depth: 0 }, Vec::new());
        self.zones(cursor, level, &mut ReferenceTimes::default(), &mut zones)?;
        // The viewer looks at the first and the last one.
        cursor.check(!zones.is_empty(), || format!("thread {id} has no zones"))?;
        Ok((id, zones))
    }

    /// Zones of one depth with those inside, which come behind each.
    fn zones(
        &mut self,
        cursor: &mut Cursor<'_>,
        level: ZoneLevel,
        times: &mut ReferenceTimes,
        zones: &mut Vec<(GpuZone, u16)>,
    ) -> Result<(), Damage> {
        let ZoneLevel { thread: id, depth } = level;
        cursor.check(depth <= 64, || format!("zones of thread {id} are {depth} deep"))?;
        let mut before = 0;
        for _ in 0..cursor.count(47)? {
            let at = zones.len();
            self.zone(cursor, level, times, zones)?;
            let (zone, inside) = (&zones[at].0, &zones[at + 1..]);
            cursor.check(before <= zone.gpu.0, || format!("zones of thread {id} overlap"))?;
            let is_inside =
                |(one, _): &(GpuZone, u16)| zone.gpu.0 <= one.gpu.0 && one.gpu.1 <= zone.gpu.1;
            cursor.check(inside.iter().all(is_inside), || "a zone leaves another".into())?;
            before = zone.gpu.1;
            self.parents += u64::from(!inside.is_empty());
        }
        Ok(())
    }

    fn zone(
        &mut self,
        cursor: &mut Cursor<'_>,
        level: ZoneLevel,
        times: &mut ReferenceTimes,
        zones: &mut Vec<(GpuZone, u16)>,
    ) -> Result<(), Damage> {
        let ZoneLevel { thread: id, depth } = level;
        let began = times.next(cursor)?;
        let index = cursor.i16()?;
        let (callstack, thread) = (cursor.int24()?, cursor.u16()?);
        cursor.check(callstack == 0, || "a call stack".into())?;
        let own = self.threads.get(usize::from(thread)).copied();
        let other = own.filter(|own| *own != id);
        // Only what lies in a job may be of another thread than its row.
        let is_placed = own == Some(id) || other.is_some() && depth > 0;
        cursor
            .check(is_placed, || format!("a zone of thread index {thread} in the row of {id}"))?;
        let at = zones.len();
        let location = self.locations.get(cursor, index)?.clone();
        let (cpu, gpu, notes) = Default::default();
        let zone = GpuZone { depth, location, cpu, gpu, thread: other, notes };
        zones.push((zone, 0));
        self.zones(cursor, ZoneLevel { depth: depth + 1, ..level }, times, zones)?;
        let ended = times.next(cursor)?;
        cursor.check(is_ordered(began.0, ended.0) && is_ordered(began.1, ended.1), || {
            format!("from {began:?} to {ended:?}")
        })?;
        let query = if cursor.since([0, 12, 4]) { cursor.u16()? } else { 0 };
        *self.counts.entry(index).or_default() += 1;
        let (zone, of) = &mut zones[at];
        (zone.cpu, zone.gpu, *of) = ((began.0, ended.0), (began.1, ended.1), query);
        Ok(())
    }
}

fn is_ordered(began: i64, ended: i64) -> bool {
    began > 0 && began <= ended
}

type Notes = BTreeMap<u16, BTreeMap<String, f64>>;

fn notes(cursor: &mut Cursor<'_>, names: &BTreeMap<i64, String>) -> Result<Notes, Damage> {
    let mut notes = BTreeMap::new();
    for _ in 0..cursor.count(10)? {
        let query = cursor.u16()?;
        let mut own = BTreeMap::new();
        for (key, value) in cursor.list(16, |cursor| Ok((cursor.i64()?, cursor.f64()?)))? {
            let name =
                names.get(&key).ok_or_else(|| cursor.damage(format!("note {key} has no name")))?;
            cursor.check(own.insert(name.clone(), value).is_none(), || {
                format!("two values of {name}")
            })?;
        }
        cursor.check(!own.is_empty(), || format!("job {query} has no notes"))?;
        cursor
            .check(notes.insert(query, own).is_none(), || format!("job {query} is there twice"))?;
    }
    Ok(notes)
}

/// Gives each zone its notes; none are left, and each belongs to one zone.
fn give<'a>(
    cursor: &Cursor<'_>,
    zones: impl Iterator<Item = &'a mut (GpuZone, u16)>,
    mut notes: Notes,
) -> Result<(), Damage> {
    for (zone, query) in zones.filter(|(_, query)| *query != 0) {
        zone.notes = notes
            .remove(query)
            .ok_or_else(|| cursor.damage(format!("there are no notes {query}")))?;
    }
    cursor.check(notes.is_empty(), || format!("{} notes are of no zone", notes.len()))
}
