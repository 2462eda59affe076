//! Zones: where they come from, what they say, how they nest.

use super::cursor::Cursor;
use super::{Damage, Strings};
use std::collections::BTreeMap;

/// A zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Zone {
    /// Its own name, else that of its source location.
    pub name: String,
    /// When it begins.
    pub start: i64,
    /// When it ends.
    pub end: i64,
    /// What it says.
    pub text: String,
    /// Blue, green, red from the third byte on: its own, else that of its location; 0 is none.
    pub color: u32,
    /// Index of its call stack; 0 is none.
    pub callstack: u32,
    /// Where it comes from.
    pub location: SourceLocation,
    /// Those inside.
    pub children: Vec<Zone>,
}

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLocation {
    /// The name of zones there.
    pub name: Option<String>,
    /// The function.
    pub function: String,
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// Blue, green, red from the third byte on; 0 is none.
    pub color: u32,
}

/// What a zone says of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    pub(super) callstack: u32,
    text: Option<String>,
    name: Option<String>,
    color: u32,
}

/// The source locations of zones, by payload index, and how many zones each is said to have.
pub(super) struct Locations {
    rows: Vec<SourceLocation>,
    counts: BTreeMap<i16, u64>,
    /// The same of zones of GPUs.
    pub(super) gpu_counts: BTreeMap<i16, u64>,
}

impl Locations {
    /// The location of an index, which is by payload.
    pub(super) fn get(&self, cursor: &Cursor<'_>, index: i16) -> Result<&SourceLocation, Damage> {
        cursor.check(index < 0, || format!("location {index} is by pointer"))?;
        let row = self.rows.get((-1 - index) as usize);
        row.ok_or_else(|| cursor.damage(format!("there is no location {index}")))
    }
}

pub(super) fn locations(cursor: &mut Cursor<'_>, strings: &Strings) -> Result<Locations, Damage> {
    cursor.section("source locations");
    cursor.nothing()?;
    let expand = cursor.list(8, Cursor::u64)?;
    cursor.check(expand == [0], || format!("locations {expand:?} by pointer"))?;
    let rows = cursor.list(35, |cursor| {
        let [name, function, file] =
            [cursor.string_ref()?, cursor.string_ref()?, cursor.string_ref()?];
        let (name, function) =
            (strings.reference(cursor, name)?, strings.reference(cursor, function)?);
        let function = function.ok_or_else(|| missing(cursor))?;
        let file = strings.reference(cursor, file)?.ok_or_else(|| missing(cursor))?;
        let (line, color) = (cursor.u32()?, cursor.u32()?);
        cursor.check(color >> 24 == 0, || format!("{color:#x} is no colour"))?;
        Ok(SourceLocation { name, function, file, line, color })
    })?;
    cursor.check(rows.len() <= i16::MAX as usize, || format!("{} locations", rows.len()))?;
    let counts = cursor.list(10, |cursor| Ok((cursor.i16()?, cursor.u64()?)))?;
    let gpu_counts = cursor.list(10, |cursor| Ok((cursor.i16()?, cursor.u64()?)))?;
    Ok(Locations {
        rows,
        counts: counts.into_iter().collect(),
        gpu_counts: gpu_counts.into_iter().collect(),
    })
}

fn missing(cursor: &Cursor<'_>) -> Damage {
    cursor.damage("a function or file is missing")
}

/// What zones have of their own; the first extra is nobody's.
pub(super) fn extras(cursor: &mut Cursor<'_>, strings: &Strings) -> Result<Vec<Extra>, Damage> {
    cursor.section("zone extras");
    let extras = cursor.list(12, |cursor| {
        let callstack = cursor.int24()?;
        let [text, name] = [cursor.string_index()?, cursor.string_index()?];
        let color = cursor.int24()?;
        let text = text.map(|text| strings.index(cursor, Some(text))).transpose()?;
        let name = name.map(|name| strings.index(cursor, Some(name))).transpose()?;
        Ok(Extra { callstack, text, name, color })
    })?;
    cursor.check(!extras.is_empty(), || "the first one is missing".into())?;
    Ok(extras)
}

/// All timelines, and what is counted in them.
pub(super) struct Timelines<'a> {
    locations: &'a Locations,
    extras: &'a [Extra],
    pub(super) zones: u64,
    pub(super) parents: u64,
    counts: BTreeMap<i16, u64>,
}

impl<'a> Timelines<'a> {
    pub(super) fn new(locations: &'a Locations, extras: &'a [Extra]) -> Self {
        Self { locations, extras, zones: 0, parents: 0, counts: BTreeMap::new() }
    }

    /// Every location has as many zones as it is said to have.
    pub(super) fn check_counts(&self, cursor: &Cursor<'_>) -> Result<(), Damage> {
        let reported: BTreeMap<i16, u64> = self
            .locations
            .counts
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (*index, *count))
            .collect();
        cursor.check(self.counts == reported, || "the counts of locations are wrong".into())?;
        let strange =
            self.locations.counts.keys().find(|index| self.locations.get(cursor, **index).is_err());
        cursor
            .check(strange.is_none(), || format!("the count of {strange:?}, which is no location"))
    }

    /// A list of zones; one time of reference goes through all of them.
    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        reference: &mut i64,
        depth: usize,
    ) -> Result<Vec<Zone>, Damage> {
        cursor.check(depth <= 255, || "zones are too deep".into())?;
        let count = cursor.u32()?;
        let mut zones: Vec<Zone> = Vec::new();
        for _ in 0..count {
            let zone = self.zone(cursor, reference, depth)?;
            if let Some(before) = zones.last() {
                cursor.check(before.end <= zone.start && before.end >= 0, || {
                    "zones overlap".into()
                })?;
            }
            zones.push(zone);
        }
        self.parents += u64::from(depth > 0 && count > 0);
        Ok(zones)
    }

    fn zone(
        &mut self,
        cursor: &mut Cursor<'_>,
        reference: &mut i64,
        depth: usize,
    ) -> Result<Zone, Damage> {
        let index = cursor.i16()?;
        let start = cursor.time(reference)?;
        let extra = cursor.u32()?;
        let children = self.read(cursor, reference, depth + 1)?;
        let end = cursor.time(reference)?;
        let location = self.locations.get(cursor, index)?;
        let extra = self
            .extras
            .get(extra as usize)
            .ok_or_else(|| cursor.damage("there is no such zone extra"))?;
        cursor.check(end < 0 || end >= start, || format!("a zone from {start} to {end}"))?;
        let inside = children
            .iter()
            .all(|child| child.start >= start && (end < 0 || child.end <= end && child.end >= 0));
        cursor.check(inside, || format!("zones reach out of the one from {start} to {end}"))?;
        self.zones += 1;
        *self.counts.entry(index).or_default() += 1;
        let name = extra.name.as_ref().or(location.name.as_ref()).unwrap_or(&location.function);
        Ok(Zone {
            name: name.clone(),
            start,
            end,
            text: extra.text.clone().unwrap_or_default(),
            color: if extra.color == 0 { location.color } else { extra.color },
            callstack: extra.callstack,
            location: location.clone(),
            children,
        })
    }
}
