//! Slices and instants as markers.

use super::colors;
use super::kinds::{Kind, Kinds};
use super::markers::{Cause, Item, Marker, Timing, Told};
use super::tables::Shared;
use crate::words;
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{LocationId, Scope, Slice, SliceMore, StringId, Tables, TrackId, TrackKind};

/// Names that zones of one place in the source may have as markers: the chart
/// has a row for each name, and some are made at run time.
const NAMES_OF_A_PLACE: u32 = 16;
/// Names of markers in all.
const MAX_NAMES: usize = 4_096;

/// A slice that has not ended.
#[derive(Debug)]
struct Open {
    slice: Slice,
    since: u64,
    unfinished: bool,
}

/// Names that markers have so far.
#[derive(Default)]
struct Names {
    known: FxHashSet<StringId>,
    of_places: FxHashMap<LocationId, (u32, FxHashSet<StringId>)>,
}

impl Names {
    /// Whether a marker may have this name.
    fn may_be(&mut self, name: StringId, location: Option<LocationId>) -> bool {
        if let Some(location) = location {
            let (count, names) = self.of_places.entry(location).or_default();
            if !names.contains(&name) {
                if *count >= NAMES_OF_A_PLACE {
                    return false;
                }
                *count += 1;
                names.insert(name);
            }
        }
        self.known.contains(&name) || self.known.len() < MAX_NAMES && self.known.insert(name)
    }
}

/// All slices that are open, and what markers of slices share.
#[derive(Default)]
pub(super) struct Slices {
    open: FxHashMap<TrackId, Vec<Open>>,
    names: Names,
    pub(super) kinds: Kinds,
}

impl Slices {
    pub(super) fn begin(&mut self, track: TrackId, since: u64, slice: &Slice) {
        self.open.entry(track).or_default().push(Open {
            slice: slice.clone(),
            since,
            unfinished: false,
        });
    }

    /// More is known of the innermost slice of a track.
    pub(super) fn more(&mut self, track: TrackId, more: &SliceMore) {
        let Some(open) = self.open.get_mut(&track).and_then(|list| list.last_mut()) else { return };
        if let Some((name, number)) = more.name {
            (open.slice.name, open.slice.number) = (name, number);
        }
        open.slice.color = more.color.or(open.slice.color);
        words::amend(&mut open.slice.fields, &more.fields);
        open.unfinished |= more.unfinished;
    }

    /// The marker of the innermost slice of a track, which ends.
    pub(super) fn end(
        &mut self,
        track: TrackId,
        time: u64,
        shared: &mut Shared,
        tables: &Tables,
    ) -> Option<Marker> {
        let open = self.open.get_mut(&track).and_then(Vec::pop)?;
        Some(self.marker(
            track,
            &open.slice,
            (Timing::Interval(open.since, time), open.unfinished),
            shared,
            tables,
        ))
    }

    /// The marker of an instant.
    pub(super) fn instant(
        &mut self,
        track: TrackId,
        (time, slice): (u64, &Slice),
        shared: &mut Shared,
        tables: &Tables,
    ) -> Marker {
        self.marker(track, slice, (Timing::Instant(time), false), shared, tables)
    }

    /// The markers of slices that never end.
    pub(super) fn finish(
        &mut self,
        shared: &mut Shared,
        tables: &Tables,
    ) -> Vec<(TrackId, Marker)> {
        let open = self
            .open
            .drain()
            .flat_map(|(track, list)| list.into_iter().map(move |open| (track, open)));
        let mut open: Vec<(TrackId, Open)> = open.collect();
        open.sort_by_key(|(track, open)| (open.since, *track));
        let marker = |(track, open): (TrackId, Open)| {
            (
                track,
                self.marker(
                    track,
                    &open.slice,
                    (Timing::Start(open.since), open.unfinished),
                    shared,
                    tables,
                ),
            )
        };
        open.into_iter().map(marker).collect()
    }

    fn marker(
        &mut self,
        track: TrackId,
        slice: &Slice,
        (timing, unfinished): (Timing, bool),
        shared: &mut Shared,
        tables: &Tables,
    ) -> Marker {
        let row = tables.track(track);
        let kind = match (row.kind, timing, row.scope) {
            (_, Timing::Instant(_), _) if words::is_message(slice, tables) => Kind::Message,
            (_, Timing::Instant(_), _) => Kind::Mark,
            (TrackKind::Frames { .. }, ..) => Kind::Frame,
            (_, _, Scope::Thread(_)) => Kind::Zone,
            _ => Kind::Task,
        };
        let schema = slice.schema.map(|id| self.kinds.schema(id, tables));
        let kind_name = schema.unwrap_or_else(|| self.kinds.key(kind.name()));
        let mut told = Told { kind: kind_name, entries: Vec::new(), cause: None };
        let name = match kind {
            Kind::Frame => tables.strings.get(row.name),
            _ => self.name(&mut told, slice, kind, tables),
        };
        let name = shared.string(name);
        self.say(&mut told, slice, shared, tables);
        // The track of most zones says nothing: it is the thread's own.
        if kind != Kind::Frame && !matches!(tables.strings.get(row.name), "Zones") {
            told.entries.push((
                self.kinds.key("track"),
                Item::Row(shared.string(tables.strings.get(row.name))),
            ));
        }
        if unfinished {
            told.entries.push((
                self.kinds.key("unfinished"),
                Item::Text("the program did not end it".into()),
            ));
        }
        told.cause =
            slice.stack.and_then(|stack| shared.stack(stack, tables)).map(|stack| Cause { stack });
        let category =
            slice.category.or_else(|| slice.schema.and_then(|id| tables.schema(id).category));
        let category = shared.category(category.map(|id| tables.strings.get(id)));
        Marker { name, category, timing, data: told.into() }
    }

    /// The name that the marker goes by. One name too many is said in a field,
    /// and the marker is called after its function, or its kind.
    fn name<'a>(
        &mut self,
        told: &mut Told,
        slice: &Slice,
        kind: Kind,
        tables: &'a Tables,
    ) -> &'a str {
        let name = tables.strings.get(slice.name);
        if self.names.may_be(slice.name, slice.location) {
            return name;
        }
        told.entries.push((self.kinds.key("name"), Item::Text(name.into())));
        match slice.location.map(|id| tables.strings.get(tables.location(id).function)) {
            Some(function) if !function.is_empty() => function,
            _ => kind.name(),
        }
    }

    fn say(&mut self, told: &mut Told, slice: &Slice, shared: &mut Shared, tables: &Tables) {
        if let Some(number) = slice.number {
            told.entries.push((self.kinds.key("number"), Item::Unsigned(number)));
        }
        let mut more = String::new();
        for field in &slice.fields {
            told.entries.extend(self.kinds.field((slice.schema, field), &mut more, shared, tables));
        }
        if !more.is_empty() {
            told.entries.push((self.kinds.key("more"), Item::Text(more.into())));
        }
        if let Some(location) = slice.location {
            let row = tables.location(location);
            let place = place(location, tables);
            told.entries.push((self.kinds.key("place"), Item::Text(place.into())));
            if !tables.strings.get(row.function).is_empty() {
                let function = shared.string(tables.strings.get(row.function));
                told.entries.push((self.kinds.key("function"), Item::Row(function)));
            }
        }
        if let Some(color) = slice.color {
            told.entries.push((self.kinds.key("color"), Item::Word(colors::nearest(color))));
        }
    }
}

/// `file:line`, or the file where the line is not known.
pub(super) fn place(location: LocationId, tables: &Tables) -> String {
    let row = tables.location(location);
    let file = tables.strings.get(row.file);
    if row.line > 0 { format!("{file}:{}", row.line) } else { file.to_owned() }
}
