//! Slices, instants and messages as markers.

use super::colors;
use super::kinds::{Kinds, MarkerKind, TEXT};
use super::markers::{Cause, FieldItem, Marker, ProgramMarker, Timing};
use super::tables::Shared;
use crate::labels;
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{
    Fields, LocationId, Message, MessageText, Nesting, SchemaId, Scope, Slice, SliceUpdate,
    StackId, StringId, Tables, Track, TrackId, TrackKind, TrackRole,
};

/// Names that zones of one source location may have as markers: the chart
/// has a row for each name, and some are made at run time.
const NAMES_OF_A_PLACE: u32 = 16;
/// Slices inside each other that become markers.
const MAX_DEPTH: usize = 1 << 16;
/// Names of markers in all.
const MAX_NAMES: usize = 4_096;

/// A slice that has not ended.
#[derive(Debug)]
struct OpenSlice {
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
    open: FxHashMap<TrackId, Nesting<OpenSlice, MAX_DEPTH>>,
    names: Names,
    pub(super) kinds: Kinds,
}

impl Slices {
    pub(super) fn begin(&mut self, track: TrackId, since: u64, slice: &Slice) {
        let open = self.open.entry(track).or_default();
        if open.begin() {
            open.push(OpenSlice { slice: slice.clone(), since, unfinished: false });
        }
    }

    /// More is known of the innermost slice of a track.
    pub(super) fn update(&mut self, track: TrackId, update: &SliceUpdate) {
        let Some(open) = self.open.get_mut(&track).and_then(Nesting::innermost) else { return };
        open.slice.apply(update);
        open.unfinished |= update.unfinished;
    }

    /// The marker of the innermost slice of a track, which ends.
    pub(super) fn end(
        &mut self,
        track: TrackId,
        time: u64,
        shared: &mut Shared,
        tables: &Tables,
    ) -> Option<Marker> {
        let open = self.open.get_mut(&track).and_then(Nesting::end)?;
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

    /// The marker of a message.
    pub(super) fn message(
        &mut self,
        track: TrackId,
        (time, message): (u64, &Message),
        shared: &mut Shared,
        tables: &Tables,
    ) -> Marker {
        let kind = MarkerKind::Message;
        let mut reported =
            ProgramMarker { kind: self.kinds.key(kind.name()), entries: Vec::new(), cause: None };
        let name = self.name(&mut reported, (labels::message_name(message), None), kind, tables);
        let name = shared.string(name);
        match &message.text {
            Some(MessageText::Written(text)) => {
                reported.entries.push((self.kinds.key(TEXT), FieldItem::Text(text.clone())));
            }
            Some(MessageText::Interned { number, .. }) => self.fill_number(&mut reported, *number),
            None => {}
        }
        self.fill_fields(&mut reported, (None, &message.fields), shared, tables);
        self.fill_color(&mut reported, message.color);
        self.fill_track(&mut reported, tables.track(track), shared, tables);
        reported.cause = cause(message.stack, shared, tables);
        let category = shared.category(Some(tables.strings.get(message.category)));
        Marker { name, category, timing: Timing::Instant(time), data: reported.into() }
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
            .flat_map(|(track, list)| list.into_open().map(move |open| (track, open)));
        let mut open: Vec<(TrackId, OpenSlice)> = open.collect();
        open.sort_by_key(|(track, open)| (open.since, *track));
        open.into_iter()
            .map(|(track, open)| {
                let timing = (Timing::Start(open.since), open.unfinished);
                (track, self.marker(track, &open.slice, timing, shared, tables))
            })
            .collect()
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
            (_, Timing::Instant(_), _) => MarkerKind::Mark,
            (TrackKind::Frames { .. }, ..) => MarkerKind::Frame,
            (_, _, Scope::Thread(_)) => MarkerKind::Zone,
            _ => MarkerKind::Task,
        };
        let schema = slice.schema.map(|id| self.kinds.schema(id, tables));
        let kind_name = schema.unwrap_or_else(|| self.kinds.key(kind.name()));
        let mut reported = ProgramMarker { kind: kind_name, entries: Vec::new(), cause: None };
        let name = match kind {
            MarkerKind::Frame => tables.strings.get(row.name),
            _ => self.name(&mut reported, (slice.name, slice.location), kind, tables),
        };
        let name = shared.string(name);
        self.fill(&mut reported, slice, shared, tables);
        if kind != MarkerKind::Frame {
            self.fill_track(&mut reported, row, shared, tables);
        }
        if unfinished {
            reported.entries.push((
                self.kinds.key("unfinished"),
                FieldItem::Text("the program did not end it".into()),
            ));
        }
        reported.cause = cause(slice.stack, shared, tables);
        let category =
            slice.category.or_else(|| slice.schema.and_then(|id| tables.schema(id).category));
        let category = shared.category(category.map(|id| tables.strings.get(id)));
        Marker { name, category, timing, data: reported.into() }
    }

    /// The name that the marker goes by. One name too many is said in a field,
    /// and the marker is called after its function, or its kind.
    fn name<'a>(
        &mut self,
        reported: &mut ProgramMarker,
        (name, location): (StringId, Option<LocationId>),
        kind: MarkerKind,
        tables: &'a Tables,
    ) -> &'a str {
        let may_be = self.names.may_be(name, location);
        let name = tables.strings.get(name);
        if may_be {
            return name;
        }
        reported.entries.push((self.kinds.key("name"), FieldItem::Text(name.into())));
        match location.map(|id| tables.strings.get(tables.location(id).function)) {
            Some(function) if !function.is_empty() => function,
            _ => kind.name(),
        }
    }

    fn fill(
        &mut self,
        reported: &mut ProgramMarker,
        slice: &Slice,
        shared: &mut Shared,
        tables: &Tables,
    ) {
        self.fill_number(reported, slice.number);
        self.fill_fields(reported, (slice.schema, &slice.fields), shared, tables);
        if let Some(location) = slice.location {
            let row = tables.location(location);
            let location_label = location_label(location, tables);
            reported
                .entries
                .push((self.kinds.key("place"), FieldItem::Text(location_label.into())));
            if !tables.strings.get(row.function).is_empty() {
                let function = shared.string(tables.strings.get(row.function));
                reported.entries.push((self.kinds.key("function"), FieldItem::Row(function)));
            }
        }
        self.fill_color(reported, slice.color);
    }

    fn fill_number(&mut self, reported: &mut ProgramMarker, number: Option<u64>) {
        reported
            .entries
            .extend(number.map(|number| (self.kinds.key("number"), FieldItem::Unsigned(number))));
    }

    fn fill_fields(
        &mut self,
        reported: &mut ProgramMarker,
        (schema, fields): (Option<SchemaId>, &Fields),
        shared: &mut Shared,
        tables: &Tables,
    ) {
        let mut further = String::new();
        for field in fields {
            reported.entries.extend(self.kinds.field(
                (schema, field),
                &mut further,
                shared,
                tables,
            ));
        }
        if !further.is_empty() {
            reported.entries.push((self.kinds.key("more"), FieldItem::Text(further.into())));
        }
    }

    fn fill_color(&mut self, reported: &mut ProgramMarker, color: Option<u32>) {
        let color = color.map(|color| FieldItem::Word(colors::nearest(color)));
        reported.entries.extend(color.map(|color| (self.kinds.key("color"), color)));
    }

    /// The track of most zones says nothing: it is the thread's own.
    fn fill_track(
        &mut self,
        reported: &mut ProgramMarker,
        row: &Track,
        shared: &mut Shared,
        tables: &Tables,
    ) {
        if row.kind != TrackKind::Slices(TrackRole::Zones) {
            let name = shared.string(tables.strings.get(row.name));
            reported.entries.push((self.kinds.key("track"), FieldItem::Row(name)));
        }
    }
}

fn cause(stack: Option<StackId>, shared: &mut Shared, tables: &Tables) -> Option<Cause> {
    stack.and_then(|stack| shared.stack(stack, tables)).map(|stack| Cause { stack })
}

/// `file:line`, or the file where the line is not known.
pub(super) fn location_label(location: LocationId, tables: &Tables) -> String {
    let row = tables.location(location);
    let file = tables.strings.get(row.file);
    if row.line > 0 { format!("{file}:{}", row.line) } else { file.to_owned() }
}
