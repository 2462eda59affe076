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
//! tracks of the same name, which the UI draws as one, below it.

use super::context::Context;
use super::details::{Details, Note};
use super::tracks::{TrackEventType, Tracks};
use crate::ExportError;
use crate::labels;
use std::io::Write;
use syscollect_model::{GpuJob, GpuJobEnd, Tables, Time, TrackId};

/// Flows of locks count from 1 on; these have a part of the numbers of their own.
const FIRST_FLOW: u64 = 1 << 63;

/// What jobs have so far.
#[derive(Debug, Default)]
pub(crate) struct GpuJobs {
    flow_count: u64,
}

impl GpuJobs {
    /// Writes a job that ends now.
    pub(crate) fn job<W: Write>(
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
