//! Jobs of GPUs as zones of GPU contexts.
//!
//! Every track of a queue is a context, and every thread that handed jobs over
//! is a row of it, as with the viewer's own contexts of Vulkan. Jobs of a track
//! never overlap, so rows are flat. Zones that a program marked lie in each other, and so
//! do those of a thread in one context, as long as none only overlaps another. Those that a
//! driver's job is known to have run lie in that, in its context and row. Both clocks of the
//! format, the program's and the GPU's, are the session's.

use super::locations::{LocationKey, LocationRow, Locations, bgr};
use super::options::TracyLayout;
use super::rows::{self, RowId, Rows};
use super::strings::FileStrings;
use super::threads::{FileThread, Threads};
use super::wire::Payload;
use crate::gpu_matches::GpuMatches;
use crate::labels;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::mem::take;
use syscollect_model::{Fence, GpuJob, GpuJobEnd, Scope, Tables, Time, TrackId, Value};

/// The viewer numbers contexts in 8 bits, and the last number is taken.
const MAX_CONTEXTS: usize = 255;
/// The number that binds notes to a job has 16 bits; 0 is of jobs without notes.
const MAX_NOTED: usize = u16::MAX as usize;
/// `GpuContextType`. Custom is what it is, but viewers of 0.11 know only programming
/// interfaces, and of those Vulkan has zones of many threads.
const VULKAN: u8 = 2;
const CUSTOM: u8 = 7;
/// The first job of a file is shown from its beginning on if that is not longer ago, nanoseconds.
const LONGEST_FIRST: u64 = 1_000_000_000;
/// Of jobs that failed.
pub(super) const RED: u32 = 0xff_5555;
/// Said behind the name of zones of which nobody told when the GPU did them.
pub(super) const WITHOUT_TIMES: &str = " [without times]";

/// A job. Times are nanoseconds since the file's zero.
#[derive(Debug)]
struct Zone {
    /// Handed over by the program, taken by the driver.
    cpu: [i64; 2],
    /// Begun and ended by the GPU.
    gpu: [i64; 2],
    location: i16,
    /// Binds the notes; 0 where it has none.
    query: u16,
    /// A driver told of it.
    is_job: bool,
    /// Who submitted it, if it lies in the row of another thread.
    thread: Option<RowId>,
}

/// What kind of job it is.
pub(super) struct JobLabel {
    pub(super) name: String,
    /// 0xRRGGBB, of those that failed.
    pub(super) color: Option<u32>,
}

pub(super) fn job_label(job: &GpuJob, tables: &Tables) -> JobLabel {
    let name = tables.strings.get(job.name);
    let (name, color) = match job.end {
        GpuJobEnd::Finished => (name.to_owned(), None),
        GpuJobEnd::Failed => match labels::job_error(job) {
            Some(error) => (format!("{name} [failed: {error}]"), Some(RED)),
            None => (format!("{name} [failed]"), Some(RED)),
        },
        GpuJobEnd::Unfinished => (format!("{name} [unfinished]"), None),
        GpuJobEnd::Untimed => (format!("{name}{WITHOUT_TIMES}"), Some(RED)),
        GpuJobEnd::WithoutBeginning => (format!("{name} [without beginning]"), None),
    };
    JobLabel { name, color }
}

impl Zone {
    /// Zones lie behind those that they lie in, and all behind the job that ran them.
    fn order(&self) -> (i64, Reverse<i64>, bool) {
        (self.gpu[0], Reverse(self.gpu[1]), !self.is_job)
    }

    /// How many of the zones behind it lie in it.
    fn inside(&self, behind: &[Self]) -> usize {
        behind.iter().take_while(|zone| zone.gpu[0] < self.gpu[1]).count()
    }
}

/// Numbers said of a job, by the text that names them.
type Notes = Vec<(u32, f64)>;

/// What lies on a track.
#[derive(Debug, Default)]
struct GpuContext {
    threads: BTreeMap<RowId, Vec<Zone>>,
    /// Of query 1 and so on.
    notes: Vec<Notes>,
}

/// A job or a zone, and where it lies.
struct PlacedJob {
    /// Its context.
    track: TrackId,
    row: RowId,
    /// It lies in others of its row, or apart from all.
    is_nested: bool,
    is_job: bool,
    /// Who submitted it, if that is another thread.
    thread: Option<RowId>,
    moments: Moments,
    end: GpuJobEnd,
    location: i16,
    notes: Notes,
}

/// All jobs.
#[derive(Default)]
pub(crate) struct Gpus {
    contexts: BTreeMap<TrackId, GpuContext>,
    /// Zones that programs marked, until all jobs are known.
    held: Vec<PlacedJob>,
    matches: GpuMatches,
    /// By name, end, and why they failed.
    names: FxHashMap<(u32, GpuJobEnd, Option<Box<str>>), LocationRow>,
    /// Jobs on queues that found no room.
    pub(crate) refused: u64,
    /// Jobs whose notes found no room.
    pub(crate) without_notes: u64,
}

/// When a job was where, as the file has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    /// The program handed it over.
    pub(crate) submitted: Option<i64>,
    /// The driver took it.
    pub(crate) queued: Option<i64>,
    /// The GPU began.
    pub(crate) started: Option<i64>,
    /// Its end.
    pub(crate) ended: i64,
}

/// When a job was where, as the viewer has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobSpans {
    /// Handed over by the program, taken by the driver.
    pub(super) cpu: [i64; 2],
    /// Begun and ended by the GPU.
    pub(super) gpu: [i64; 2],
}

impl Moments {
    /// Of a job that ended so, in a row that is free from then on: the viewer searches rows by both
    /// times, so they never go back.
    pub(super) fn spans(&self, end: GpuJobEnd, free: i64) -> JobSpans {
        let Self { submitted, queued, started, ended } = *self;
        let ended = ended.max(free);
        let began = match end {
            GpuJobEnd::Untimed => ended,
            _ => started.or(queued).or(submitted).unwrap_or(ended).clamp(free, ended),
        };
        let submitted = submitted.or(queued).unwrap_or(began);
        let cpu = [submitted, queued.unwrap_or(submitted).max(submitted)];
        JobSpans { cpu, gpu: [began, ended] }
    }
}

/// The queue of a zone that lies in others of its queue, or apart from all: its context. A zone
/// that overlaps others has the context of its track, and so has a driver's job.
pub(super) fn queue_of_nested(job: &GpuJob) -> Option<TrackId> {
    job.zone.filter(|zone| zone.row == zone.depth).map(|zone| zone.queue)
}

/// The driver took a job, or the program was done with submitting it.
pub(super) fn taken(job: &GpuJob) -> Option<Time> {
    job.zone.map_or(job.queued, |zone| zone.submission_ended)
}

/// What jobs share with zones.
pub(crate) struct GpuExportContext<'a> {
    pub(crate) locations: &'a mut Locations,
    pub(crate) strings: &'a mut FileStrings,
    pub(crate) tables: &'a Tables,
    /// The layout has notes.
    pub(crate) with_notes: bool,
}

impl Gpus {
    /// A job of a thread ended.
    pub(crate) fn add(
        &mut self,
        (track, thread): (TrackId, RowId),
        moments: Moments,
        (end, job): (Time, &GpuJob),
        shared: &mut GpuExportContext<'_>,
    ) {
        let nested_in = queue_of_nested(job);
        let placed = PlacedJob {
            track: nested_in.unwrap_or(track),
            row: thread,
            is_nested: nested_in.is_some(),
            is_job: job.zone.is_none(),
            thread: None,
            moments,
            end: job.end,
            location: self.location(job, shared).index(),
            notes: if shared.with_notes { notes(job, end, shared) } else { Notes::new() },
        };
        match &job.zone {
            Some(zone) => {
                self.matches.zone(end, job, zone, shared.tables);
                self.held.push(placed);
            }
            None => {
                self.matches.job(end, track, job, shared.tables);
                self.place(placed);
            }
        }
    }

    /// All is known: places the zones, those in a job of which it is known that it ran them.
    pub(crate) fn place_zones(&mut self, rows: &mut Rows) {
        let jobs = take(&mut self.matches).finish();
        let mut in_jobs = Vec::new();
        for (mut zone, job) in take(&mut self.held).into_iter().zip(jobs) {
            let row = job.and_then(|job| rows.thread(job.thread?));
            let (Some(job), Some(row)) = (job, row) else {
                self.place(zone);
                continue;
            };
            zone.thread = Some(zone.row).filter(|own| *own != row);
            (zone.track, zone.row) = (job.track, row);
            in_jobs.push(zone);
        }
        let mut changed = BTreeSet::new();
        // Of zones of one time the outer comes last, and is to be first.
        for placed in in_jobs.into_iter().rev() {
            let (track, row) = (placed.track, placed.row);
            let zone = self.zone(placed, 0);
            self.row(track, row).push(zone);
            changed.insert((track, row));
        }
        for (track, row) in changed {
            self.row(track, row).sort_by_key(Zone::order);
        }
    }

    /// What a thread has in a context.
    fn row(&mut self, track: TrackId, row: RowId) -> &mut Vec<Zone> {
        self.contexts.entry(track).or_default().threads.entry(row).or_default()
    }

    fn place(&mut self, placed: PlacedJob) {
        let is_nested = placed.is_nested;
        let (track, row) = (placed.track, placed.row);
        let last = self.row(track, row).last().filter(|_| !is_nested);
        let free = last.map_or(0, |before| before.gpu[1]);
        let zone = self.zone(placed, free);
        let row = self.row(track, row);
        // What lies in it ended before it, and so was here first.
        let place = match is_nested {
            true => row.partition_point(|other| other.order() < zone.order()),
            false => row.len(),
        };
        row.insert(place, zone);
    }

    /// A zone of its context, in a row that is free from then on.
    fn zone(&mut self, placed: PlacedJob, free: i64) -> Zone {
        let PlacedJob { track, is_job, thread, moments, end, location, notes, .. } = placed;
        let noted = &mut self.contexts.entry(track).or_default().notes;
        let query = match noted.len() + 1 {
            _ if notes.is_empty() => 0,
            next if next <= MAX_NOTED => {
                noted.push(notes);
                next as u16
            }
            _ => {
                self.without_notes += 1;
                0
            }
        };
        let JobSpans { cpu, gpu } = moments.spans(end, free);
        Zone { cpu, gpu, location, query, is_job, thread }
    }

    /// All is known: leaves out what the file has no room for. Who has the fewest jobs of a process
    /// goes first, so that no process has all the room.
    pub(crate) fn fit(&mut self, locations: &mut Locations, tables: &Tables) {
        if self.contexts.len() <= MAX_CONTEXTS {
            return;
        }
        let mut contexts: Vec<_> =
            self.contexts.iter().map(|(track, of)| (Reverse(zones(of)), *track)).collect();
        contexts.sort_unstable();
        let mut larger_of_scope = FxHashMap::<Scope, usize>::default();
        let ranked = contexts.into_iter().map(|(zones, track)| {
            let larger = larger_of_scope.entry(tables.track(track).scope).or_default();
            let rank = *larger;
            *larger += 1;
            (rank, zones, track)
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_unstable();
        for (_, _, track) in ranked.into_iter().skip(MAX_CONTEXTS) {
            let Some(context) = self.contexts.remove(&track) else { continue };
            for zone in context.threads.values().flatten() {
                locations.uncount_gpu(zone.location);
                self.refused += 1;
            }
        }
    }

    /// Jobs of rows that are left out go with them.
    pub(crate) fn leave_out(&mut self, rows: &Rows, locations: &mut Locations) {
        for context in self.contexts.values_mut() {
            context.threads.retain(|row, zones| {
                let stays = rows.find(*row).is_some();
                if !stays {
                    zones.iter().for_each(|zone| locations.uncount_gpu(zone.location));
                }
                stays
            });
        }
    }

    fn location(&mut self, job: &GpuJob, shared: &mut GpuExportContext<'_>) -> LocationRow {
        if let (Some(zone), GpuJobEnd::Finished) = (job.zone, job.end) {
            let GpuExportContext { locations, strings, tables, .. } = shared;
            let zone = LocationKey::of_zone(job.name, zone.location, zone.color);
            return locations.gpu_zone(zone, strings, tables);
        }
        let GpuExportContext { locations, strings, tables, .. } = shared;
        let error = labels::job_error(job);
        let location =
            *self.names.entry((job.name.0, job.end, error.map(Box::from))).or_insert_with(|| {
                let JobLabel { name, color } = job_label(job, tables);
                locations.made_up(&name, color.map_or(0, bgr), strings)
            });
        locations.count_gpu(location);
        location
    }

    /// The contexts with their names, and those of their notes.
    pub(crate) fn named(
        &self,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> Vec<NamedContext<'_>> {
        let mut used: FxHashMap<String, u32> = FxHashMap::default();
        let contexts = self.contexts.iter().map(|(track, context)| {
            let mut name = rows::scoped_name(*track, tables);
            // A queue that has several jobs at once has several tracks of one name.
            let times = used.entry(name.clone()).or_default();
            *times += 1;
            if *times > 1 {
                name += &format!(" #{times}");
            }
            NamedContext { name: strings.intern_short(&name), context }
        });
        contexts.collect()
    }
}

/// The file's zero where a job is the first event: before its beginning, but not long before its
/// end, whatever a driver says.
pub(crate) fn zero_before(ended: Time, job: &GpuJob) -> u64 {
    let first =
        job.began().into_iter().chain(job.submitted).fold(ended.0, |first, time| first.min(time.0));
    first.max(ended.0.saturating_sub(LONGEST_FIRST)).saturating_sub(1)
}

/// What the format has no field for and is a number.
fn notes(job: &GpuJob, end: Time, shared: &mut GpuExportContext<'_>) -> Notes {
    let mut notes = Notes::new();
    let mut note = |name: &str, value: f64| notes.push((shared.strings.intern(name), value));
    for (name, nanoseconds) in labels::stages(job, end) {
        note(&format!("{name} (ns)"), nanoseconds as f64);
    }
    job.context.into_iter().for_each(|context| note("context", context as f64));
    if let Some(Fence { context, sequence }) = job.fence {
        note("fence context", context as f64);
        note("fence sequence", sequence as f64);
    }
    if !job.waited_for.is_empty() {
        note("fences waited for", job.waited_for.len() as f64);
    }
    for field in &job.fields {
        let value = match field.value {
            Value::Unsigned(value)
            | Value::Address(value)
            | Value::Duration(value)
            | Value::Bytes(value) => value as f64,
            Value::Signed(value) => value as f64,
            Value::Float(value) => value,
            Value::Percentage(share) => share * 100.0,
            Value::Text(_) | Value::String(_) => continue,
        };
        note(shared.tables.strings.get(field.name), value);
    }
    // The viewer keeps one value for each name.
    let mut seen = Vec::new();
    notes.retain(|(name, _)| {
        !seen.contains(name) && {
            seen.push(*name);
            true
        }
    });
    notes
}

/// A context with what the file says of it.
pub(crate) struct NamedContext<'a> {
    name: u32,
    context: &'a GpuContext,
}

/// Writes all contexts.
pub(crate) fn write<W: Write>(
    out: &mut Payload<W>,
    contexts: &[NamedContext<'_>],
    threads: &Threads,
) -> io::Result<()> {
    out.count(contexts.iter().map(|named| zones(named.context)).sum())?;
    out.count(contexts.iter().map(|named| parents(named.context)).sum())?;
    out.count(contexts.len())?;
    let has_notes = out.layout >= TracyLayout::V0_13;
    for NamedContext { name, context } in contexts {
        out.u64(0)?; // of no thread alone
        out.u8(1)?; // the clocks are one
        out.count(zones(context))?;
        out.f32(1.0)?;
        out.u8(if has_notes { CUSTOM } else { VULKAN })?;
        out.string_index(*name)?;
        out.u64(0)?; // the GPU's clock does not overflow
        if has_notes {
            write_note_names(out, context)?;
        }
        out.count(context.threads.len())?;
        for (row, zones) in &context.threads {
            let thread = threads.of(*row);
            out.u64(thread.number)?;
            write_zones(out, (thread, threads), zones, &mut [0, 0])?;
        }
        if has_notes {
            write_notes(out, &context.notes)?;
        }
    }
    Ok(())
}

fn zones(context: &GpuContext) -> usize {
    context.threads.values().map(Vec::len).sum::<usize>()
}

/// Zones in which others lie.
fn parents(context: &GpuContext) -> usize {
    let of_thread = |zones: &Vec<Zone>| {
        let behind = zones.iter().zip(zones.iter().skip(1));
        behind.filter(|(zone, next)| next.gpu[0] < zone.gpu[1]).count()
    };
    context.threads.values().map(of_thread).sum()
}

/// Zones of a thread, with those inside behind each. Both clocks go on through all of them.
fn write_zones<W: Write>(
    out: &mut Payload<W>,
    (thread, threads): (&FileThread, &Threads),
    zones: &[Zone],
    reference: &mut [i64; 2],
) -> io::Result<()> {
    let (mut rest, mut outermost) = (zones, 0);
    while let Some((zone, behind)) = rest.split_first() {
        (rest, outermost) = (&behind[zone.inside(behind)..], outermost + 1);
    }
    out.count(outermost)?;
    let mut rest = zones;
    while let Some((zone, behind)) = rest.split_first() {
        let (inside, after) = behind.split_at(zone.inside(behind));
        rest = after;
        out.i64(zone.cpu[0] - reference[0])?;
        out.i64(zone.gpu[0] - reference[1])?;
        out.i16(zone.location)?;
        out.int24(0)?; // call stack
        out.u16(zone.thread.map_or(thread, |own| threads.of(own)).index)?;
        *reference = [zone.cpu[0], zone.gpu[0]];
        write_zones(out, (thread, threads), inside, reference)?;
        out.i64(zone.cpu[1] - reference[0])?;
        out.i64(zone.gpu[1] - reference[1])?;
        if out.layout >= TracyLayout::V0_13 {
            out.u16(zone.query)?;
        }
        *reference = [zone.cpu[1], zone.gpu[1]];
    }
    Ok(())
}

/// The names of notes. What stands for each is the index of its text.
fn write_note_names<W: Write>(out: &mut Payload<W>, context: &GpuContext) -> io::Result<()> {
    let mut names: Vec<u32> = context.notes.iter().flatten().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    out.count(names.len())?;
    for name in names {
        out.i64(name.into())?;
        out.string_index(name)?;
    }
    Ok(())
}

fn write_notes<W: Write>(out: &mut Payload<W>, notes: &[Notes]) -> io::Result<()> {
    out.count(notes.len())?;
    for (index, notes) in notes.iter().enumerate() {
        // There are at most `MAX_NOTED`.
        out.u16(index as u16 + 1)?;
        out.count(notes.len())?;
        for (name, value) in notes {
            out.i64((*name).into())?;
            out.f64(*value)?;
        }
    }
    Ok(())
}
