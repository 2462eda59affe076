//! Slices as zones: a timeline of nested zones per thread, and where they come from.

use super::texts::Texts;
use super::wire::Payload;
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use syscollect_model::{StringId, Tables};

/// The viewer reads zones by recursion and counts in 8 bits how deep one nests in itself.
const MAX_DEPTH: usize = 255;
/// The index of a source location has 16 bits and a sign.
const MAX_LOCATIONS: usize = i16::MAX as usize;

/// A zone; those inside follow it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zone {
    start: i64,
    /// -1 while it is open.
    end: i64,
    name: StringId,
    children: u32,
}

/// The zones of one thread, each followed by those inside.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    list: Vec<Zone>,
    open: Vec<u32>,
    roots: u32,
    /// Open zones that were too deep.
    skipped: u32,
}

impl Zones {
    /// Begins a zone; `false` where it is too deep.
    pub(crate) fn begin(&mut self, time: i64, name: StringId) -> bool {
        if self.open.len() >= MAX_DEPTH {
            self.skipped += 1;
            return false;
        }
        match self.open.last() {
            Some(parent) => self.list[*parent as usize].children += 1,
            None => self.roots += 1,
        }
        self.open.push(self.list.len() as u32);
        self.list.push(Zone { start: time, end: -1, name, children: 0 });
        true
    }

    /// Ends the innermost zone, if one is open.
    pub(crate) fn end(&mut self, time: i64) {
        if self.skipped > 0 {
            self.skipped -= 1;
        } else if let Some(zone) = self.open.pop() {
            self.list[zone as usize].end = time;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn parents(&self) -> usize {
        self.list.iter().filter(|zone| zone.children > 0).count()
    }

    /// Writes the timeline. One time of reference goes through the whole tree.
    pub(crate) fn write<W: Write>(&self, out: &mut Payload<W>, locations: &Locations) -> io::Result<()> {
        out.u32(self.roots)?;
        let mut reference = 0;
        let mut open: Vec<(u32, i64)> = Vec::new();
        for zone in &self.list {
            let place = locations.places[&zone.name];
            out.bytes(&place.location.to_le_bytes())?;
            out.i64(zone.start - reference)?;
            reference = zone.start;
            out.u32(place.extra)?;
            out.u32(zone.children)?;
            open.push((zone.children, zone.end));
            while let Some((0, end)) = open.last().copied() {
                out.i64(end - reference)?;
                reference = end;
                open.pop();
                if let Some((children, _)) = open.last_mut() {
                    *children -= 1;
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// The index of the source location, as zones have it.
    location: i16,
    /// The index of the zone extra; 0 is none.
    extra: u32,
}

/// The source locations of all zones: one per name.
#[derive(Default)]
pub(crate) struct Locations {
    places: FxHashMap<StringId, Place>,
    /// The name of each location, and how many zones it has.
    rows: Vec<(u32, u64)>,
    /// Names of zones that found no location of their own.
    extras: Vec<u32>,
    function: u32,
}

impl Locations {
    /// Names the zones of one thread.
    pub(crate) fn add(&mut self, zones: &Zones, texts: &mut Texts, tables: &Tables) {
        if self.rows.is_empty() {
            self.function = texts.intern("");
        }
        for zone in &zones.list {
            let place = match self.places.get(&zone.name) {
                Some(place) => *place,
                None => self.new_place(zone.name, texts, tables),
            };
            self.rows[(-1 - place.location) as usize].1 += 1;
        }
    }

    fn new_place(&mut self, name: StringId, texts: &mut Texts, tables: &Tables) -> Place {
        let text = texts.intern(tables.strings.get(name));
        let place = if self.rows.len() < MAX_LOCATIONS - 1 {
            self.rows.push((text, 0));
            Place { location: -(self.rows.len() as i16), extra: 0 }
        } else {
            // The last location is for all others, whose names are their own.
            if self.rows.len() < MAX_LOCATIONS {
                self.rows.push((texts.intern("[other zones]"), 0));
            }
            self.extras.push(text);
            Place { location: -(MAX_LOCATIONS as i16), extra: self.extras.len() as u32 }
        };
        self.places.insert(name, place);
        place
    }

    /// Names that share the last location.
    pub(crate) fn shared(&self) -> u64 {
        self.extras.len() as u64
    }

    /// Writes the source locations and how many zones each has.
    pub(crate) fn write<W: Write>(&self, out: &mut Payload<W>) -> io::Result<()> {
        out.count(0)?;
        // Zones with an index above 0 would be looked up here; index 0 is taken.
        out.count(1)?;
        out.u64(0)?;
        out.count(self.rows.len())?;
        for (name, _) in &self.rows {
            out.string_ref(Some(*name))?;
            out.string_ref(Some(self.function))?;
            out.string_ref(Some(self.function))?;
            out.u32(0)?;
            out.u32(0)?;
        }
        out.count(self.rows.len())?;
        for (index, (_, count)) in self.rows.iter().enumerate() {
            out.bytes(&(-1 - index as i16).to_le_bytes())?;
            out.u64(*count)?;
        }
        out.count(0)
    }

    /// Writes the zone extras; the first is nobody's.
    pub(crate) fn write_extras<W: Write>(&self, out: &mut Payload<W>) -> io::Result<()> {
        out.count(1 + self.extras.len())?;
        out.bytes(&[0; 12])?;
        for name in &self.extras {
            out.int24(0)?;
            out.int24(0)?;
            out.string_index(*name)?;
            out.int24(0)?;
        }
        Ok(())
    }
}
