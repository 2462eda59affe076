//! Event loops: below each thread that is one, the stretches in which it did not wait.

use super::context::Context;
use super::details::Note;
use super::tracks::{TrackEventType, Tracks};
use crate::ExportError;
use crate::event_loops::{LoopLimit, Stretch, StretchEnd};
use crate::report::loop_watch::{LoopWatch, StretchSleep, functions, sleeps, wait_name};
use std::io::Write;
use syscollect_model::{Event, Time, duration};

/// The tracks, below threads.
const TRACK: &str = "Event loop away";

/// The loops of a machine.
pub(crate) struct LoopTracks {
    watch: LoopWatch,
}

impl LoopTracks {
    pub(crate) fn new(limit: LoopLimit) -> Self {
        Self { watch: LoopWatch::new(limit) }
    }

    #[inline]
    pub(crate) fn event<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
        event: &Event,
    ) -> Result<(), ExportError> {
        if !self.watch.event(at.time, event, at.tables) {
            return Ok(());
        }
        let found = self.watch.take();
        found.iter().try_for_each(|stretch| write(tracks, at, stretch))
    }

    /// What lasts when the recording ends.
    pub(crate) fn finish<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
    ) -> Result<(), ExportError> {
        let found = self.watch.finish(at.time);
        found.iter().try_for_each(|stretch| write(tracks, at, stretch))
    }
}

/// Writes one that is over: its beginning lies behind what was written before.
fn write<W: Write>(
    tracks: &mut Tracks,
    at: &mut Context<'_, W>,
    stretch: &Stretch<StretchSleep>,
) -> Result<(), ExportError> {
    let tables = at.tables;
    let uuid = tracks.of_thread(at, stretch.thread, TRACK)?;
    let (activity, details) = (&stretch.activity, &mut tracks.details);
    let least = if stretch.is_least() { "at least " } else { "" };
    details.dynamic_name(&format!("not back for {least}{}", duration(stretch.length())));
    details.note("waits in", Note::Text(wait_name(stretch.wait)));
    details.note("on CPU (ns)", Note::Number(activity.on_cpu));
    details.note("waiting for a CPU (ns)", Note::Number(activity.waiting));
    details.note("asleep (ns)", Note::Number(activity.asleep()));
    for (number, sleep) in (1..=3).zip(sleeps(stretch, tables)) {
        let words = format!("{}: {}", duration(sleep.nanoseconds), sleep.text());
        details.note(&format!("asleep {number}"), Note::Text(&words));
    }
    for (number, hit) in (1..=3).zip(functions(stretch, tables)) {
        let words = format!("{} ({} samples)", hit.name, hit.samples);
        details.note(&format!("function {number}"), Note::Text(&words));
    }
    if stretch.may_be_longer {
        details.note("may have begun earlier", Note::Yes);
    }
    if stretch.may_have_returned {
        details.note("may have come back without sleeping", Note::Yes);
    }
    match stretch.end {
        StretchEnd::Returned | StretchEnd::Recording => {}
        StretchEnd::Unknown => details.note("records are missing from its end on", Note::Yes),
        StretchEnd::ThreadEnded => details.note("then the thread ended", Note::Yes),
    }
    for (time, kind) in
        [(stretch.since, TrackEventType::Begin), (stretch.until, TrackEventType::End)]
    {
        let then = &mut Context { stream: &mut *at.stream, time: Time(time), tables };
        tracks.event(then, kind, uuid)?;
    }
    Ok(())
}
