//! Slices, instants and messages of the model.
//!
//! Rules of trace_processor (v55.3) that shape this file:
//! - the arguments of a slice's end are added to those of its beginning, and
//!   replace those of the same name: what becomes known later goes with the end;
//! - slices deeper than 512 are not taken, but their ends are, for others.

use super::context::Context;
use super::details::Note;
use super::tracks::{TrackEventType, Tracks};
use crate::ExportError;
use crate::labels;
use std::io::Write;
use syscollect_model::{
    Crash, FrameImage, Message, MessageText, Nesting, SignalExit, Slice, SliceUpdate, Tables,
    TrackId,
};

/// Slices inside each other that are written.
const MAX_DEPTH: usize = 500;
/// Fields of one slice that become known after its beginning.
const MAX_LATER_FIELDS: usize = 64;

/// The open slices of one track.
#[derive(Debug, Default)]
struct OpenSlices {
    /// What has become known of each, the innermost last.
    slices: Nesting<Option<Box<SliceUpdate>>, MAX_DEPTH>,
    /// How many there were inside of the innermost one that is written.
    left_out: u64,
}

/// The open slices of all tracks, by [`TrackId`].
#[derive(Debug, Default)]
pub(crate) struct Slices {
    tracks: Vec<OpenSlices>,
}

impl Slices {
    fn open(&mut self, id: TrackId) -> &mut OpenSlices {
        if id.index() >= self.tracks.len() {
            self.tracks.resize_with(id.index() + 1, OpenSlices::default);
        }
        &mut self.tracks[id.index()]
    }

    pub(crate) fn begin<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
        id: TrackId,
        slice: &Slice,
    ) -> Result<(), ExportError> {
        let open = self.open(id);
        if !open.slices.begin() {
            open.left_out += 1;
            return Ok(());
        }
        open.slices.push(None);
        let uuid = tracks.model(at, id)?;
        write_details(tracks, slice, at.tables);
        tracks.event(at, TrackEventType::Begin, uuid)
    }

    /// More is known of the innermost slice.
    pub(crate) fn update(&mut self, id: TrackId, update: &SliceUpdate) {
        let Some(known) = self.open(id).slices.innermost() else { return };
        known.get_or_insert_default().add(update, MAX_LATER_FIELDS);
    }

    /// The innermost slice ends; an end without a beginning is not written.
    pub(crate) fn end<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
        id: TrackId,
    ) -> Result<(), ExportError> {
        let open = self.open(id);
        let Some(update) = open.slices.end() else { return Ok(()) };
        let left_out = std::mem::take(&mut open.left_out);
        let uuid = tracks.model(at, id)?;
        if let Some(update) = update {
            write_update(tracks, &update, at.tables);
        }
        if left_out > 0 {
            tracks.details.note("deeper slices left out", Note::Number(left_out));
        }
        tracks.event(at, TrackEventType::End, uuid)
    }
}

/// Writes an instant.
pub(crate) fn instant<W: Write>(
    tracks: &mut Tracks,
    at: &mut Context<'_, W>,
    id: TrackId,
    slice: &Slice,
) -> Result<(), ExportError> {
    let uuid = tracks.model(at, id)?;
    write_details(tracks, slice, at.tables);
    tracks.event(at, TrackEventType::Instant, uuid)
}

/// Writes the mark of an image, at the time of its frame: a reader sorts a trace by time.
pub(crate) fn frame_image<W: Write>(
    tracks: &mut Tracks,
    at: &mut Context<'_, W>,
    id: TrackId,
    image: &FrameImage,
) -> Result<(), ExportError> {
    let told = std::mem::replace(&mut at.time, image.at);
    let written = instant(tracks, at, id, &image.mark);
    at.time = told;
    written
}

/// Writes a message: an instant whose name is its text.
pub(crate) fn message<W: Write>(
    tracks: &mut Tracks,
    at: &mut Context<'_, W>,
    id: TrackId,
    message: &Message,
) -> Result<(), ExportError> {
    let uuid = tracks.model(at, id)?;
    let details = &mut tracks.details;
    match message.text {
        Some(MessageText::Interned { string, number: None }) => details.name(string, at.tables),
        Some(_) => details.dynamic_name(&labels::message_text(message, at.tables)),
        None => details.name(message.category, at.tables),
    }
    details.category(message.category, at.tables);
    for field in &message.fields {
        details.field(field, None, at.tables);
    }
    if let Some(stack) = message.stack {
        details.stack(stack, at.tables);
    }
    tracks.event(at, TrackEventType::Instant, uuid)
}

/// Writes a crash: on its thread's own track, and on a track of the process.
pub(crate) fn crash<W: Write>(
    tracks: &mut Tracks,
    at: &mut Context<'_, W>,
    crash: &Crash,
) -> Result<(), ExportError> {
    let tables = at.tables;
    let row = tables.thread(crash.thread);
    let tracks_of_crash =
        [tracks.thread(at, crash.thread)?, tracks.of_process(at, row.process, "Crash")?];
    for uuid in tracks_of_crash {
        let details = &mut tracks.details;
        details.name(crash.signal, tables);
        details.note("thread", Note::Text(tables.strings.get(row.name)));
        details.note("tid", Note::Number(u64::from(row.tid)));
        details.note("code", Note::Text(tables.strings.get(crash.code)));
        if crash.address != 0 {
            details.note("address", Note::Address(crash.address));
        }
        if let Some(id) = crash.stack {
            let frames: Vec<_> =
                tables.stack(id).iter().map(|frame| tables.frame_label(*frame)).collect();
            details.note("stack", Note::Text(&frames.join(" < ")));
            details.stack(id, tables);
        }
        tracks.event(at, TrackEventType::Instant, uuid)?;
    }
    Ok(())
}

/// Writes that a signal ended a process, on a track of it.
pub(crate) fn signal_exit<W: Write>(
    tracks: &mut Tracks,
    at: &mut Context<'_, W>,
    exit: &SignalExit,
) -> Result<(), ExportError> {
    let tables = at.tables;
    let uuid = tracks.of_process(at, exit.process, "Ended by a signal")?;
    let details = &mut tracks.details;
    details.dynamic_name(&labels::signal_exit(exit, tables));
    details.note("signal", Note::Text(tables.strings.get(exit.signal)));
    details.note("pid", Note::Number(u64::from(tables.process(exit.process).pid)));
    if let Some(thread) = exit.thread.map(|thread| tables.thread(thread)) {
        details.note("thread", Note::Text(tables.strings.get(thread.name)));
        details.note("tid", Note::Number(u64::from(thread.tid)));
    }
    if exit.has_core_dump {
        details.note("core dumped", Note::Yes);
    }
    tracks.event(at, TrackEventType::Instant, uuid)
}

fn write_details(tracks: &mut Tracks, slice: &Slice, tables: &Tables) {
    let details = &mut tracks.details;
    match slice.number {
        Some(_) => details.dynamic_name(&labels::numbered(slice.name, slice.number, tables)),
        None => details.name(slice.name, tables),
    }
    if let Some(category) = slice.category {
        details.category(category, tables);
    }
    if let Some(location) = slice.location {
        details.location(location, tables);
    }
    if let Some(schema) = slice.schema {
        details.note("schema", Note::Text(tables.strings.get(tables.schema(schema).name)));
    }
    for field in &slice.fields {
        details.field(field, slice.schema, tables);
    }
    if let Some(stack) = slice.stack {
        details.stack(stack, tables);
    }
}

fn write_update(tracks: &mut Tracks, update: &SliceUpdate, tables: &Tables) {
    let details = &mut tracks.details;
    if let Some((name, number)) = update.name {
        details.note("name", Note::Text(&labels::numbered(name, number, tables)));
    }
    for field in &update.fields {
        details.field(field, None, tables);
    }
    if update.unfinished {
        details.note("unfinished", Note::Yes);
    }
}
