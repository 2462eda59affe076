//! Work of GPUs: contexts, and what lies in what.
//!
//! Zones of a queue come in the order of their ends, so that what lies in one comes before it. They
//! are told together, since the viewer wants to hear of all that lies in a zone before that ends.

use super::room::{SharedRoom, UserOf};
use super::things::{NamedObjects, owner};
use crate::tracy::gpu::{JobLabel, JobSpans, Moments, job_label, queue_of_nested, taken};
use crate::tracy::rows::scoped_name;
use crate::tracy::strings::clean;
use rustc_hash::FxHashMap;
use std::mem::take;
use syscollect_model::{GpuJob, GpuJobEnd, ProcessId, Tables, Time, TrackId};
use syscollect_tracy_protocol::{
    Catalogue, ContextId, ContextRow, EndedRow, Job, LocationId, LocationRow,
};

/// Contexts at a time, which is more than a viewer has room for.
const MOST_CONTEXTS: usize = 512;
/// Zones that lie in one.
const MOST_INSIDE: usize = 1 << 15;

/// A job that has ended, and where it is shown.
pub(super) struct EndedJob<'a> {
    pub(super) track: TrackId,
    /// The viewer's number of the row of who submitted it.
    pub(super) thread: u32,
    pub(super) location: LocationId,
    pub(super) end: Time,
    pub(super) job: &'a GpuJob,
}

/// Jobs that are to be told, of a context.
#[derive(Debug)]
pub(super) struct ToldJobs {
    pub(super) context: ContextId,
    pub(super) jobs: Vec<Job>,
}

/// A zone of which it is not known in which it lies.
#[derive(Debug)]
struct HeldZone {
    /// How many it lies in; `None` of one without times, which lies in whatever is around it.
    depth: Option<u32>,
    job: Job,
}

/// What is known of a context beside its number.
#[derive(Debug, Default)]
struct ContextRows {
    held: Vec<HeldZone>,
    held_zones: usize,
    /// When the last ended that was told.
    free: i64,
}

/// All contexts.
#[derive(Debug)]
pub(super) struct LiveGpus {
    contexts: SharedRoom<TrackId, ContextId>,
    rows: FxHashMap<ContextId, ContextRows>,
    /// Contexts in which zones without times may wait.
    untimed: Vec<ContextId>,
    /// Zones that were left out because too many lie in one.
    left_out: u64,
    /// What gave way to others, and was not told so.
    pub(super) ended: Vec<EndedRow>,
}

impl Default for LiveGpus {
    fn default() -> Self {
        let (rows, untimed, left_out, ended) = Default::default();
        Self { contexts: SharedRoom::new(MOST_CONTEXTS), rows, untimed, left_out, ended }
    }
}

impl LiveGpus {
    /// Asks this for who runs a process.
    pub(super) fn ask(&mut self, user_of: UserOf) {
        self.contexts.ask(user_of);
    }

    /// What is to be told now that a job has ended.
    pub(super) fn job(
        &mut self,
        EndedJob { track, thread, location, end, job }: EndedJob<'_>,
        names: &mut NamedObjects,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> ToldJobs {
        let nested_in = queue_of_nested(job);
        let context = self.context(nested_in.unwrap_or(track), names, catalogue, tables);
        let rows = self.rows.entry(context).or_default();
        let [submitted, queued, started, ended] =
            [job.submitted, taken(job), job.started, Some(end)]
                .map(|time| time.map(super::nanoseconds));
        let ended = ended.unwrap_or_default();
        let JobSpans { cpu, gpu } =
            Moments { submitted, queued, started, ended }.spans(job.end, rows.free);
        let told = Job { thread, location, cpu, gpu, inside: Vec::new() };
        let depth = match (job.zone, job.end) {
            (Some(_), GpuJobEnd::Untimed) => None,
            (Some(zone), _) if nested_in.is_some() => Some(zone.depth),
            _ => Some(0),
        };
        if depth != Some(0) && rows.held_zones >= MOST_INSIDE {
            self.left_out += 1;
            return ToldJobs { context, jobs: Vec::new() };
        }
        rows.hold(HeldZone { depth, job: told });
        let jobs = match depth {
            Some(0) => rows.take(),
            Some(_) => Vec::new(),
            None => {
                self.untimed.push(context);
                Vec::new()
            }
        };
        ToldJobs { context, jobs }
    }

    /// Whether zones without times wait for what they may lie in: that comes at the same time.
    #[inline]
    pub(super) fn has_untimed(&self) -> bool {
        !self.untimed.is_empty()
    }

    /// Nothing comes that zones without times lie in.
    pub(super) fn take_untimed(&mut self) -> Vec<ToldJobs> {
        let contexts = take(&mut self.untimed).into_iter();
        let told = contexts.filter_map(|context| {
            let jobs = self.rows.get_mut(&context)?.take();
            Some(ToldJobs { context, jobs })
        });
        told.collect()
    }

    fn context(
        &mut self,
        track: TrackId,
        names: &mut NamedObjects,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> ContextId {
        if let Some(context) = self.contexts.get(track) {
            return context;
        }
        let name = names.unique(&scoped_name(track, tables), catalogue);
        let owner = owner(track, tables);
        let context = catalogue.add_context(ContextRow { name, owner: owner.process.0 });
        for gone in self.contexts.add(track, context, owner) {
            self.gone(gone);
        }
        context
    }

    fn gone(&mut self, context: ContextId) {
        self.rows.remove(&context);
        self.ended.push(EndedRow::Context(context));
    }

    /// A process has ended, and its contexts with it: the next viewer does not hear of them.
    pub(super) fn process_ended(&mut self, process: ProcessId) {
        self.contexts.remove_of(process).into_iter().for_each(|gone| self.gone(gone));
    }

    /// How many contexts gave way since the last call.
    pub(super) fn take_gave_way(&mut self) -> u64 {
        self.contexts.take_gave_way()
    }

    /// Whether zones were left out since the last call.
    pub(super) fn has_left_out(&self) -> bool {
        self.left_out > 0
    }

    /// How many zones were left out since the last call.
    pub(super) fn take_left_out(&mut self) -> u64 {
        take(&mut self.left_out)
    }
}

impl ContextRows {
    /// A zone, with what lies in it of those before.
    fn hold(&mut self, mut zone: HeldZone) {
        let lies_in = |inner: &HeldZone| {
            let is_deeper = inner.depth.is_none_or(|depth| Some(depth) > zone.depth);
            zone.depth.is_some() && is_deeper && inner.job.gpu[0] >= zone.job.gpu[0]
        };
        let outside = self.held.iter().rposition(|held| !lies_in(held)).map_or(0, |last| last + 1);
        zone.job.inside = self.held.drain(outside..).map(|held| held.job).collect();
        self.held_zones += 1;
        self.held.push(zone);
    }

    /// All that is held, in an order in which times never go back.
    fn take(&mut self) -> Vec<Job> {
        self.held_zones = 0;
        let held = take(&mut self.held).into_iter();
        let mut jobs: Vec<Job> = held.map(|held| held.job).collect();
        jobs.iter_mut().for_each(|job| follow(job, &mut self.free));
        jobs
    }
}

/// Moves a job behind what was before it, and what lies in it behind each other.
fn follow(job: &mut Job, free: &mut i64) {
    job.gpu[0] = job.gpu[0].max(*free);
    *free = job.gpu[0];
    job.inside.iter_mut().for_each(|inside| follow(inside, free));
    job.gpu[1] = job.gpu[1].max(*free);
    *free = job.gpu[1];
}

/// The location of a driver's jobs of its kind.
pub(super) fn job_location(job: &GpuJob, catalogue: &mut Catalogue, tables: &Tables) -> LocationId {
    let JobLabel { name, color } = job_label(job, tables);
    let (name, color) = (clean(&name), color.unwrap_or(0));
    let (name, nothing) = (Some(catalogue.text(&name)), catalogue.text(""));
    catalogue.location(LocationRow { name, function: nothing, file: nothing, line: 0, color })
}
