//! Jobs of GPUs.
//!
//! A job is a slice on the track of its queue, from when the GPU began with it
//! to its end. Its thread has an instant where it handed the job over, and a
//! flow leads from there to the slice: its length is what the job waited. The
//! stages before are arguments of the slice.
//!
//! The whole of a job is known at its end, so both are written then, with
//! earlier times: a reader sorts a trace by time.
//!
//! A zone that a program marked is shown in the same way. Zones inside of it lie on
//! tracks of the same name, which the UI draws as one, below it. One that a driver's job
//! is known to have run is a slice in that job's, on its track. That is known
//! at the end, so zones are held until then.

use super::context::Context;
use super::details::{Details, Note};
use super::tracks::{TrackEventType, Tracks};
use crate::ExportError;
use crate::gpu_matches::GpuMatches;
use crate::labels;
use std::cmp::Reverse;
use std::io::Write;
use std::mem::take;
use syscollect_model::{GpuJob, GpuJobEnd, Tables, Time, TrackId};

/// Flows of locks count from 1 on; these have a part of the numbers of their own.
const FIRST_FLOW: u64 = 1 << 63;

/// What jobs have so far.
#[derive(Debug, Default)]
pub(crate) struct GpuJobs {
    flow_count: u64,
    matches: GpuMatches,
    /// Zones, of which it is not yet known which job ran them.
    held: Vec<HeldZone>,
}

/// A zone that ended.
#[derive(Debug)]
struct HeldZone {
    ended: Time,
    track: TrackId,
    job: GpuJob,
}

impl GpuJobs {
    /// A job ends now.
    pub(crate) fn job<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
        track: TrackId,
        job: &GpuJob,
    ) -> Result<(), ExportError> {
        let Some(zone) = &job.zone else {
            self.matches.job(at.time, track, job, at.tables);
            return self.write(tracks, at, track, job);
        };
        self.matches.zone(at.time, job, zone, at.tables);
        self.held.push(HeldZone { ended: at.time, track, job: job.clone() });
        if self.matches.is_full() { self.write_held(tracks, at, &[]) } else { Ok(()) }
    }

    /// Writes what is still held.
    pub(crate) fn finish<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
    ) -> Result<(), ExportError> {
        let runs = take(&mut self.matches).finish();
        let job_tracks: Vec<_> = runs.iter().map(|run| run.map(|run| run.track)).collect();
        self.write_held(tracks, at, &job_tracks)
    }

    /// Writes zones that are held, some of them on the track of a job.
    fn write_held<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
        job_tracks: &[Option<TrackId>],
    ) -> Result<(), ExportError> {
        let mut held = take(&mut self.held);
        for (zone, job) in held.iter_mut().zip(job_tracks) {
            if let Some(track) = *job {
                zone.track = track;
            }
        }
        // What lies in another begins behind it, also where both begin at one time.
        held.sort_by_key(|zone| (zone.job.began(), Reverse(zone.ended)));
        let now = at.time;
        let written = held.iter().try_for_each(|zone| {
            at.time = zone.ended;
            self.write(tracks, at, zone.track, &zone.job)
        });
        at.time = now;
        written
    }

    fn write<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
        track: TrackId,
        job: &GpuJob,
    ) -> Result<(), ExportError> {
        let (end, tables) = (at.time, at.tables);
        let begin = job.began().map_or(end, |begin| begin.min(end));
        let queue = tracks.model(at, track)?;
        if let (Some(thread), Some(submitted)) = (job.thread, job.submitted) {
            let own = tracks.thread(at, thread)?;
            self.flow_count += 1;
            let name = labels::numbered(job.name, job.zone.and_then(|zone| zone.number), tables);
            tracks.details.dynamic_name(&format!("submit {name}"));
            tracks.details.note("queue", Note::Text(tables.strings.get(tables.track(track).name)));
            tracks.details.flow(FIRST_FLOW + self.flow_count);
            // An arrow never leads back, whatever the driver says.
            at.time = submitted.min(begin);
            tracks.event(at, TrackEventType::Instant, own)?;
            tracks.details.flow_ends(FIRST_FLOW + self.flow_count);
        }
        match job.zone.and_then(|zone| zone.number) {
            number @ Some(_) => {
                tracks.details.dynamic_name(&labels::numbered(job.name, number, tables));
            }
            None => tracks.details.name(job.name, tables),
        }
        add_details(&mut tracks.details, job, end, tables);
        at.time = begin;
        if job.began().is_none() {
            return tracks.event(at, TrackEventType::Instant, queue);
        }
        tracks.event(at, TrackEventType::Begin, queue)?;
        at.time = end;
        tracks.event(at, TrackEventType::End, queue)
    }
}

fn add_details(details: &mut Details, job: &GpuJob, end: Time, tables: &Tables) {
    if let Some(zone) = job.zone {
        zone.location.into_iter().for_each(|location| details.location(location, tables));
        zone.stack.into_iter().for_each(|stack| details.stack(stack, tables));
        details.note("depth", Note::Number(u64::from(zone.depth)));
        let queue = tables.strings.get(tables.track(zone.queue).name);
        details.note("queue of the program", Note::Text(queue));
    }
    if let Some(submission) = labels::submission(job) {
        details.note("submission (ns)", Note::Number(submission));
    }
    for (stage, time) in labels::stages(job, end) {
        details.note(&format!("{stage} (ns)"), Note::Number(time));
    }
    if let Some(id) = job.thread {
        let thread = tables.thread(id);
        let process = tables.process(thread.process);
        details.note("thread", Note::Text(tables.strings.get(thread.name)));
        details.note("tid", Note::Number(u64::from(thread.tid)));
        details.note("process", Note::Text(tables.strings.get(process.name)));
        details.note("pid", Note::Number(u64::from(process.pid)));
    }
    if let Some(context) = job.context {
        details.note("context", Note::Address(context));
    }
    if let Some(fence) = job.fence {
        details.note("fence", Note::Text(&labels::fence(fence)));
    }
    if !job.waited_for.is_empty() {
        details.note("waited for fences", Note::Text(&labels::fences(&job.waited_for)));
    }
    if job.end != GpuJobEnd::Finished {
        details.note("end", Note::Text(labels::job_end(job.end)));
    }
    for field in &job.fields {
        details.field(field, None, tables);
    }
}
