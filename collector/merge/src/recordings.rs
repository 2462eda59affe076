//! Several captures on one timeline.

use crate::chunk_queue::LaneFile;
use crate::definitions::Definitions;
use crate::losses::Losses;
use crate::playing::Playing;
use crate::session::{Placement, Session};
use crate::{MergeError, definitions};
use std::mem::{swap, take};
use std::time::Duration;
use syscollect_model::{
    ClockMap, Event, Loss, MachineId, RecorderSummary, SessionInfo, SymbolTable, Tables, Time,
    records_lost,
};
use syscollect_playback::{
    AnyExporter, NullExporter, Output, Played, Recording, Stopped, UnresolvedModule,
};
use syscollect_store::CaptureReader;

/// Recordings that begin further apart were made by clocks that were not set.
const MOST_APART: Duration = Duration::from_secs(366 * 86_400);

/// Captures of several machines, each with everything read that events refer to, ready to be
/// played as one.
///
/// Machines are numbered in the order in which their recordings begin. Times are those of the
/// machine that booted first: the others' are moved by what their clocks of the day
/// (CLOCK_REALTIME, at each first reading) say. How far these are apart, nobody knows but who keeps
/// them: over NTP it is milliseconds.
#[derive(Debug)]
pub struct Recordings {
    /// In the order of their machines. Their tables lie in `tables`.
    sessions: Vec<Session>,
    tables: Tables,
    losses: Vec<Loss>,
}

impl Recordings {
    /// Opens captures, of different machines or boots; there must be one.
    ///
    /// # Errors
    ///
    /// [`MergeError::SameBoot`] where two are of one boot of a machine, [`MergeError::FarApart`]
    /// where clocks of the day were not set, and [`MergeError::Of`] with what
    /// [`Session::open_unless`] says of one of them.
    ///
    /// # Panics
    ///
    /// Without any.
    pub fn open(
        readers: Vec<CaptureReader>,
        unwanted: &dyn Fn() -> bool,
    ) -> Result<Self, MergeError> {
        assert!(!readers.is_empty(), "there is a recording");
        let mut starts = Vec::new();
        for (number, reader) in (1..).zip(&readers) {
            starts.push(RecordingStart::read(number, reader).map_err(|error| error.of(number))?);
        }
        check_comparable(&starts)?;
        let first_boot = starts.iter().map(|start| start.booted).min().unwrap_or(0);
        let mut ordered: Vec<(RecordingStart, CaptureReader)> =
            starts.into_iter().zip(readers).collect();
        ordered.sort_by_key(|(start, _)| start.began);
        let mut tables = Tables::default();
        let mut sessions = Vec::new();
        for (machine, (start, reader)) in (0..).map(MachineId).zip(ordered) {
            let ahead_ns = start.booted - first_boot;
            let placement = Placement { machine, tables: take(&mut tables), ahead_ns };
            let session = Session::open_at(reader, placement, unwanted, None);
            let mut session = session.map_err(|error| error.of(start.number))?;
            tables = take(&mut session.known.tables);
            sessions.push(session);
        }
        let mut recordings = Self { sessions, tables, losses: Vec::new() };
        recordings.losses = recordings.all_losses();
        Ok(recordings)
    }

    /// Does something with each of them, in the order of their machines: naming, which is another
    /// for each machine.
    pub fn each(&mut self, mut work: impl FnMut(&mut Session)) {
        for session in &mut self.sessions {
            swap(&mut session.known.tables, &mut self.tables);
            work(session);
            swap(&mut session.known.tables, &mut self.tables);
        }
    }

    /// What the first recorder said of itself, and how long all recorded together.
    fn summary_of_all(&self) -> Option<RecorderSummary> {
        let times = self.sessions.iter().map(|session| {
            let start = session.clock().pairs().first().map_or(0, |pair| pair.boottime);
            let duration = session.summary().map_or(0, |summary| summary.duration_ns);
            (start, start.saturating_add(duration))
        });
        let start = times.clone().map(|(start, _)| start).min()?;
        let end = times.map(|(_, end)| end).max()?;
        Some(RecorderSummary { duration_ns: end - start, ..self.summary()?.clone() })
    }

    fn all_losses(&self) -> Vec<Loss> {
        self.sessions.iter().flat_map(|session| session.losses().to_vec()).collect()
    }
}

/// Whether recordings can be shown together.
fn check_comparable(starts: &[RecordingStart]) -> Result<(), MergeError> {
    for (index, start) in starts.iter().enumerate() {
        for other in &starts[..index] {
            let numbers = (other.number, start.number);
            if !start.boot_id.is_empty() && other.boot_id == start.boot_id {
                return Err(MergeError::SameBoot { hostname: start.hostname.clone(), numbers });
            }
            let apart = Duration::from_nanos(start.began.abs_diff(other.began));
            if apart > MOST_APART {
                return Err(MergeError::FarApart { days: apart.as_secs() / 86_400, numbers });
            }
        }
    }
    Ok(())
}

/// What tells where a recording lies in time.
struct RecordingStart {
    /// Which of those that were given, from 1.
    number: usize,
    hostname: String,
    boot_id: String,
    /// When the machine was started, nanoseconds of its CLOCK_REALTIME.
    booted: u64,
    /// When the recording began, likewise.
    began: u64,
}

impl RecordingStart {
    fn read(number: usize, reader: &CaptureReader) -> Result<Self, MergeError> {
        let SessionInfo { hostname, boot_id, .. } = Definitions::read(reader).info;
        let first = definitions::first_reading(reader)?;
        let began = first.realtime;
        let booted = began.saturating_sub(first.boottime);
        Ok(Self { number, hostname, boot_id, booted, began })
    }
}

impl Recording for Recordings {
    /// Of the first.
    fn info(&self) -> &SessionInfo {
        self.tables.machine(MachineId::FIRST)
    }

    fn machines(&self) -> usize {
        self.sessions.len()
    }

    /// Of the first.
    fn clock(&self) -> &ClockMap {
        self.sessions[0].clock()
    }

    fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Of the first.
    fn summary(&self) -> Option<&RecorderSummary> {
        self.sessions[0].summary()
    }

    fn is_complete(&self) -> bool {
        self.sessions.iter().all(Session::is_complete)
    }

    fn expected_events(&self) -> u64 {
        self.sessions.iter().map(Session::expected_events).sum()
    }

    /// Of all of them together: who names them asks [`each`](Recordings::each).
    fn unresolved(&self) -> Vec<UnresolvedModule> {
        self.sessions.iter().flat_map(Session::unresolved).collect()
    }

    fn add_symbols(&mut self, tables: Vec<SymbolTable>) {
        self.each(|session| session.add_symbols(tables.clone()));
    }

    fn play_into(
        &mut self,
        exporter: &mut AnyExporter<'_>,
        from: Option<Time>,
        to: Option<Time>,
    ) -> Result<Played, Stopped> {
        exporter.begin(&self.tables)?;
        // In the exporter's place for those that do not play.
        let mut nobody: Vec<_> =
            self.sessions.iter().map(|_| NullExporter::<Stopped>::default()).collect();
        // Where one overwrote nothing, all of it is played.
        let held = self.sessions.iter().map(|session| session.held).min().flatten();
        let output = Output::of_part(exporter, from.max(held), to);
        let shared = SharedOutput { tables: &mut self.tables, output };
        let parts = play_all(&mut self.sessions, &mut nobody, shared)?;
        let mut played = Played::default();
        for (session, (part, losses)) in self.sessions.iter_mut().zip(parts) {
            session.losses = losses.totals();
            played.add(part);
        }
        self.losses = self.all_losses();
        played.lost = records_lost(&self.losses);
        exporter.end(&self.losses, self.summary_of_all().as_ref(), &self.tables)?;
        Ok(played)
    }
}

/// What only one of the recordings has at a time: the one that plays.
struct SharedOutput<'a, 't> {
    tables: &'t mut Tables,
    output: Output<'a>,
}

impl<'a> SharedOutput<'a, '_> {
    /// Lends it to the recording, or takes it back.
    fn exchange(&mut self, playing: &mut Playing<'a>) {
        playing.engine.exchange(self.tables, &mut self.output);
    }
}

/// A recording among those that are played as one.
struct MergedRecording<'a, 'f> {
    playing: Playing<'a>,
    files: Vec<LaneFile<'f>>,
    /// Its next event does not come before that.
    next: Time,
    /// What was played, once it is over.
    played: Option<(Played, Losses)>,
}

/// Plays them in turns: each up to where another's next event may come before its own.
fn play_all<'a>(
    sessions: &mut [Session],
    nobody: &'a mut [NullExporter<Stopped>],
    mut shared: SharedOutput<'a, '_>,
) -> Result<Vec<(Played, Losses)>, Stopped> {
    let mut readers = Vec::new();
    let mut known = Vec::new();
    for Session { reader, known: of, .. } in sessions {
        readers.push(&*reader);
        known.push(of);
    }
    let mut parts: Vec<MergedRecording<'_, '_>> = Vec::new();
    for ((reader, known), nobody) in readers.iter().zip(&mut known).zip(nobody) {
        swap(&mut known.tables, shared.tables);
        known.read_gpu_zones(reader);
        let output = Output::of_part(nobody, None, None);
        let mut playing = Playing::new(known, output);
        swap(&mut playing.engine.tables, shared.tables);
        let files = playing.lanes_of(reader);
        parts.push(MergedRecording { playing, files, next: Time(0), played: None });
    }
    let outcome = take_turns(&mut parts, &mut shared);
    let mut played = Vec::new();
    for (part, known) in parts.into_iter().zip(known) {
        part.playing.give_back(known);
        played.extend(part.played);
    }
    outcome.map(|()| played)
}

fn take_turns<'a>(
    parts: &mut [MergedRecording<'a, '_>],
    shared: &mut SharedOutput<'a, '_>,
) -> Result<(), Stopped> {
    let mut now = Time(0);
    loop {
        let waiting = parts.iter().enumerate().filter(|(_, part)| part.played.is_none());
        let Some((index, _)) = waiting.clone().min_by_key(|(_, part)| part.next) else {
            return Ok(());
        };
        let others = waiting.clone().filter(|(other, _)| *other != index);
        let until = others.map(|(_, part)| part.next).min().unwrap_or(Time(u64::MAX));
        let is_last = waiting.count() == 1;
        let part = &mut parts[index];
        shared.exchange(&mut part.playing);
        let outcome = part.play(now, until, is_last);
        now = now.max(part.playing.engine.now());
        shared.exchange(&mut part.playing);
        outcome?;
    }
}

impl MergedRecording<'_, '_> {
    /// Plays to its end, or up to `until`. What was played of others lies before `now`; no other
    /// goes on where it `is_last`.
    fn play(&mut self, now: Time, until: Time, is_last: bool) -> Result<(), Stopped> {
        self.playing.engine.present.not_before(now);
        match self.playing.play_file_until(&mut self.files, until)? {
            Some(next) => self.next = next,
            None => {
                self.played = Some(self.playing.end()?);
                if !is_last {
                    let engine = &mut self.playing.engine;
                    engine.emit(&Event::RecordingEnd(engine.machine))?;
                }
            }
        }
        Ok(())
    }
}
