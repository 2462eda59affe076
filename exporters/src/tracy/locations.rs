//! Where zones and locks come from: the file's source locations.

use super::strings::FileStrings;
use super::wire::Payload;
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use syscollect_model::{LocationId, StringId, Tables};

/// The index of a source location has 16 bits and a sign.
const MAX_LOCATIONS: usize = i16::MAX as usize;
/// Names that zones of one source location may have before they share its
/// location: names that are made at run time must not use up all of them.
const NAMES_OF_A_LOCATION: u16 = 16;

/// A colour as the file has it: blue, green, red from the third byte on. 0 is
/// none, so black is nearly black.
pub(crate) fn bgr(rgb: u32) -> u32 {
    let [_, red, green, blue] = rgb.to_be_bytes();
    u32::from_be_bytes([0, blue, green, red]).max(1)
}

/// What makes a source location.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LocationKey {
    name: Option<StringId>,
    location: Option<LocationId>,
    /// As the file has it.
    color: u32,
}

impl LocationKey {
    /// That of zones of this name; the color is 0xRRGGBB.
    pub(crate) fn of_zone(
        name: StringId,
        location: Option<LocationId>,
        color: Option<u32>,
    ) -> Self {
        Self { name: Some(name), location, color: color.map_or(0, bgr) }
    }
}

/// A source location as the file has it.
struct LocationFields {
    name: Option<u32>,
    function: u32,
    file: u32,
    line: u32,
    color: u32,
    zones: u64,
    gpu_zones: u64,
}

/// The row of a source location, and whether zones there need names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocationRow {
    row: u16,
    pub(crate) shared: bool,
}

impl LocationRow {
    /// The index as zones and locks have it.
    pub(crate) fn index(self) -> i16 {
        // There are at most `MAX_LOCATIONS` rows.
        -1 - self.row as i16
    }
}

/// All source locations.
#[derive(Default)]
pub(crate) struct Locations {
    rows: Vec<LocationFields>,
    known: FxHashMap<LocationKey, LocationRow>,
    /// How many names zones of a location have.
    names: FxHashMap<LocationId, u16>,
    /// The row for all that finds no room.
    others: Option<LocationRow>,
    /// Zones that have it.
    pub(crate) refused: u64,
}

impl Locations {
    /// Where a zone comes from; counts the zone.
    pub(crate) fn zone(
        &mut self,
        zone: LocationKey,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> LocationRow {
        let location = self.of_zone(zone, strings, tables);
        self.refused += u64::from(self.others == Some(location));
        self.rows[usize::from(location.row)].zones += 1;
        location
    }

    /// A source location without a name of its own.
    pub(crate) fn location(
        &mut self,
        location: Option<LocationId>,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> LocationRow {
        self.row(LocationKey { name: None, location, color: 0 }, strings, tables)
    }

    fn of_zone(
        &mut self,
        zone: LocationKey,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> LocationRow {
        match self.known.get(&zone) {
            Some(location) => *location,
            None => self.named(zone, strings, tables),
        }
    }

    fn named(
        &mut self,
        key: LocationKey,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> LocationRow {
        if let Some(location) = key.location {
            let names = self.names.entry(location).or_default();
            if *names == NAMES_OF_A_LOCATION {
                return self.row(LocationKey { name: None, ..key }, strings, tables);
            }
            *names += 1;
        }
        self.row(key, strings, tables)
    }

    fn row(&mut self, key: LocationKey, strings: &mut FileStrings, tables: &Tables) -> LocationRow {
        if let Some(location) = self.known.get(&key) {
            return *location;
        }
        // The last row is for all others.
        if self.rows.len() >= MAX_LOCATIONS - 1 {
            return self.others(strings);
        }
        let names = &tables.strings;
        let (function, file, line) = match key.location.map(|id| tables.location(id)) {
            Some(location) => {
                (names.get(location.function), names.get(location.file), location.line)
            }
            None => ("", "", 0),
        };
        let name = key.name.map(|name| strings.intern(names.get(name)));
        let (function, file) = (strings.intern(function), strings.intern(file));
        let location = LocationRow { row: self.rows.len() as u16, shared: key.name.is_none() };
        self.rows.push(LocationFields {
            name,
            function,
            file,
            line,
            color: key.color,
            zones: 0,
            gpu_zones: 0,
        });
        self.known.insert(key, location);
        location
    }

    /// A location that only has a name, for a kind of GPU job; of those each is made once.
    pub(crate) fn made_up(
        &mut self,
        name: &str,
        color: u32,
        strings: &mut FileStrings,
    ) -> LocationRow {
        if self.rows.len() >= MAX_LOCATIONS - 1 {
            return self.others(strings);
        }
        let (name, nothing) = (Some(strings.intern(name)), strings.intern(""));
        let location = LocationRow { row: self.rows.len() as u16, shared: false };
        self.rows.push(LocationFields {
            name,
            function: nothing,
            file: nothing,
            line: 0,
            color,
            zones: 0,
            gpu_zones: 0,
        });
        location
    }

    /// Where a zone of a GPU was submitted; counts the zone.
    pub(crate) fn gpu_zone(
        &mut self,
        zone: LocationKey,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> LocationRow {
        let location = self.of_zone(zone, strings, tables);
        self.count_gpu(location);
        location
    }

    /// A GPU job lies there.
    pub(crate) fn count_gpu(&mut self, location: LocationRow) {
        self.refused += u64::from(self.others == Some(location));
        self.rows[usize::from(location.row)].gpu_zones += 1;
    }

    /// A zone that was counted is left out, of this index of a location.
    pub(crate) fn uncount(&mut self, index: i16) {
        self.row_at(index).zones -= 1;
    }

    /// A GPU job that was counted is left out.
    pub(crate) fn uncount_gpu(&mut self, index: i16) {
        self.row_at(index).gpu_zones -= 1;
    }

    fn row_at(&mut self, index: i16) -> &mut LocationFields {
        &mut self.rows[usize::from((-1 - index) as u16)]
    }

    fn others(&mut self, strings: &mut FileStrings) -> LocationRow {
        let (rows, nothing) = (&mut self.rows, strings.intern(""));
        *self.others.get_or_insert_with(|| {
            let name = Some(strings.intern("[other zones]"));
            rows.push(LocationFields {
                name,
                function: nothing,
                file: nothing,
                line: 0,
                color: 0,
                zones: 0,
                gpu_zones: 0,
            });
            LocationRow { row: rows.len() as u16 - 1, shared: true }
        })
    }

    /// Writes the source locations and how many zones each has.
    pub(crate) fn write<W: Write>(&self, out: &mut Payload<W>) -> io::Result<()> {
        out.count(0)?;
        // Zones with an index above 0 would be looked up here; index 0 is taken.
        out.count(1)?;
        out.u64(0)?;
        out.count(self.rows.len())?;
        for row in &self.rows {
            out.string_ref(row.name)?;
            out.string_ref(Some(row.function))?;
            out.string_ref(Some(row.file))?;
            out.u32(row.line)?;
            out.u32(row.color)?;
        }
        out.count(self.rows.len())?;
        for (index, row) in self.rows.iter().enumerate() {
            out.i16(-1 - index as i16)?;
            out.u64(row.zones)?;
        }
        let of_gpus = self.rows.iter().enumerate().filter(|(_, row)| row.gpu_zones > 0);
        out.count(of_gpus.clone().count())?;
        for (index, row) in of_gpus {
            out.i16(-1 - index as i16)?;
            out.u64(row.gpu_zones)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::Location;

    #[test]
    fn a_colour_is_told_from_the_other_end_and_black_is_not_none() {
        assert_eq!([bgr(0x11_22_33), bgr(0), bgr(0xff_00_00)], [0x33_22_11, 1, 0xff]);
    }

    #[test]
    fn a_place_with_many_names_has_few_locations() {
        let (mut tables, mut strings, mut locations) =
            (Tables::default(), FileStrings::default(), Locations::default());
        let [function, file] = ["run", "job.rs"].map(|text| tables.strings.intern(text));
        tables.locations.push(Location { function, file, line: 5 });
        let mut shared = 0;
        for index in 0..100 {
            let name = tables.strings.intern(&format!("job {index}"));
            let location = locations.zone(
                LocationKey::of_zone(name, Some(LocationId(0)), None),
                &mut strings,
                &tables,
            );
            shared += u32::from(location.shared);
        }
        assert_eq!((locations.rows.len(), shared, locations.refused), (17, 84, 0));
        assert_eq!(locations.rows[16].zones, 84);
    }
}
