//! What zones say, and where they come from.

use super::room::{Owner, SharedRoom};
use super::things::owner;
use crate::labels;
use crate::tracy::gpu::{RED, WITHOUT_TIMES};
use crate::tracy::strings::{clean, clean_lines};
use crate::tracy::zones::UNFINISHED;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Fields, Forgotten, GpuJob, GpuJobEnd, GpuZone, LocationId, Slice, SliceUpdate, StringId,
    Tables, TrackId, amend_fields,
};
use syscollect_tracy_protocol as tracy;
use syscollect_tracy_protocol::{Catalogue, EndedRow, LocationRow, ZoneWords};

/// Source locations at a time.
const MOST_LOCATIONS: usize = 24_000;

/// Names that zones of one source location may have before they share its location: names that are
/// made at run time must not use up all of them.
const NAMES_OF_A_LOCATION: u16 = 16;
/// Fields of a zone.
const MOST_FIELDS: usize = 64;

/// A zone that has not ended.
#[derive(Debug)]
struct OpenZone {
    name: Option<(StringId, Option<u64>)>,
    color: Option<u32>,
    fields: Fields,
    unfinished: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct LocationKey {
    name: Option<StringId>,
    location: Option<LocationId>,
    color: u32,
    /// Of zones of GPUs of which nobody told the times.
    is_untimed: bool,
}

/// The zones of all tracks.
#[derive(Debug)]
pub(super) struct LiveZones {
    open: FxHashMap<TrackId, Vec<OpenZone>>,
    pub(super) locations: SharedRoom<LocationKey, tracy::LocationId>,
    names: FxHashMap<LocationId, u16>,
    /// What gave way to others, and was not told so.
    pub(super) ended: Vec<EndedRow>,
}

impl Default for LiveZones {
    fn default() -> Self {
        let (open, names, ended) = Default::default();
        Self { open, locations: SharedRoom::new(MOST_LOCATIONS), names, ended }
    }
}

impl LiveZones {
    /// A zone begins; where it comes from.
    pub(super) fn begin(
        &mut self,
        track: TrackId,
        slice: &Slice,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> tracy::LocationId {
        let (name, location) = (Some(slice.name), slice.location);
        let key = LocationKey { name, location, color: shown(slice.color), is_untimed: false };
        let key = self.with_room(key);
        let location = self.location(key, owner(track, tables), catalogue, tables);
        let has_own_name = key.name.is_none() || slice.number.is_some();
        let open = self.open.entry(track).or_default();
        open.push(OpenZone {
            name: has_own_name.then_some((slice.name, slice.number)),
            color: None,
            fields: slice.fields.clone(),
            unfinished: false,
        });
        location
    }

    /// Where a zone of a GPU was submitted.
    pub(super) fn of_gpu(
        &mut self,
        job: &GpuJob,
        zone: GpuZone,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> tracy::LocationId {
        let is_untimed = job.end == GpuJobEnd::Untimed;
        let color = if is_untimed { RED } else { shown(zone.color) };
        let (name, location) = (Some(job.name), zone.location);
        let key = self.with_room(LocationKey { name, location, color, is_untimed });
        self.location(key, owner(zone.queue, tables), catalogue, tables)
    }

    /// The same without the name, where zones there have as many as they may have.
    fn with_room(&mut self, key: LocationKey) -> LocationKey {
        let is_new = self.locations.get(key).is_none();
        let is_shared = is_new && self.has_many_names(key.location);
        if is_shared { LocationKey { name: None, ..key } } else { key }
    }

    /// Whether zones there have as many names as they may have; counts one more else.
    fn has_many_names(&mut self, location: Option<LocationId>) -> bool {
        let Some(location) = location else { return false };
        let names = self.names.entry(location).or_default();
        if *names >= NAMES_OF_A_LOCATION {
            return true;
        }
        *names += 1;
        false
    }

    /// A place without a name of its own.
    pub(super) fn place(
        &mut self,
        location: Option<LocationId>,
        owner: Owner,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> tracy::LocationId {
        let key = LocationKey { name: None, location, color: 0, is_untimed: false };
        self.location(key, owner, catalogue, tables)
    }

    fn location(
        &mut self,
        key: LocationKey,
        owner: Owner,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> tracy::LocationId {
        if let Some(known) = self.locations.get(key) {
            return known;
        }
        let location = {
            let text = |text| clean(tables.strings.get(text)).into_owned();
            let name = key.name.map(&text);
            let name = match key.is_untimed {
                true => Some(name.unwrap_or_default() + WITHOUT_TIMES),
                false => name,
            };
            let name = name.map(|name| catalogue.text(&name));
            let place = key.location.map(|location| tables.location(location));
            let function = place.map_or_else(String::new, |place| text(place.function));
            let file = place.map_or_else(String::new, |place| text(place.file));
            let [function, file] = [function, file].map(|text| catalogue.text(&text));
            let line = place.map_or(0, |place| place.line);
            catalogue.location(LocationRow { name, function, file, line, color: key.color })
        };
        let gave_way = self.locations.add(key, location, owner);
        // Of two keys that look the same one may stay.
        let gave_way = gave_way.into_iter().filter(|gone| *gone != location);
        self.ended.extend(gave_way.map(EndedRow::Location));
        if self.names.len() > 2 * MOST_LOCATIONS {
            self.names.clear();
        }
        location
    }

    /// Forgets tracks that are gone, and needs what zones that are open say.
    pub(super) fn forget(&mut self, forgotten: &mut Forgotten) {
        self.open.retain(|track, _| !forgotten.tracks.contains(track));
        for zone in self.open.values().flatten() {
            zone.name.into_iter().for_each(|(name, _)| forgotten.uses(name));
            forgotten.uses_fields(&zone.fields);
        }
    }

    /// More is known of the innermost zone.
    pub(super) fn update(&mut self, track: TrackId, update: &SliceUpdate) {
        let Some(zone) = self.open.get_mut(&track).and_then(|open| open.last_mut()) else { return };
        zone.name = update.name.or(zone.name);
        zone.color = update.color.or(zone.color);
        zone.unfinished |= update.unfinished;
        amend_fields(&mut zone.fields, &update.fields, MOST_FIELDS);
    }

    /// The innermost zone ends; what it says.
    pub(super) fn end(&mut self, track: TrackId, tables: &Tables) -> Option<Box<ZoneWords>> {
        let open = self.open.get_mut(&track)?;
        let OpenZone { name, color, fields, unfinished } = open.pop()?;
        if open.is_empty() {
            self.open.remove(&track);
        }
        let name = name.map(|(name, number)| labels::numbered(name, number, tables));
        let name = name.map(|name| clean(&name).into());
        let mut text = labels::lines(&fields, tables);
        if unfinished {
            text += if text.is_empty() { UNFINISHED } else { "\n[unfinished]" };
        }
        let text = (!text.is_empty()).then(|| clean_lines(&text).into());
        let words = ZoneWords { name, text, color };
        (words != ZoneWords::default()).then(|| Box::new(words))
    }
}

/// 0xRRGGBB as locations have it: black is not no colour.
fn shown(color: Option<u32>) -> u32 {
    color.map_or(0, |color| color.max(1))
}
