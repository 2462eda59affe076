//! The source of tracepoint records: drains the lanes of all CPUs into chunks.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use syscollect_model::{ClockSource, LaneKind, LossCause, SessionInfo, Ticks};
use syscollect_probes::{did_you_mean, nearest};
use syscollect_records::RecordKind;
use syscollect_store::{Definition, LaneLoss, LostRecord, TracepointDefinition};

use super::keeper::EventKeeper;
use super::lanes::LaneRecords;
use super::object::{Attached, Settings};
use super::offer::{Offer, Offers, names, offered};
use super::selector::{GPU, TracepointSelector};
use crate::bpf_object::SharedMaps;
use crate::chunk_sink::ChunkSink;
use crate::error::CaptureError;
use crate::host::kernel_at_least;
use crate::options::Tracepoints;
use crate::ring_buffers::{Counters, Counts, RingLane, bytes_of_each};
use crate::source::{Drained, Source};
use crate::stage::Flush;

/// Bytes of each CPU's lane: at 200,000 events of 100 bytes a second, a fifth of a second.
pub(super) const LANE_BYTES: usize = 4 << 20;

/// How many tracepoints are suggested for one that is not there.
const NEAREST: usize = 3;

/// What the source is started with.
pub(crate) struct Setup<'a> {
    /// Where stamps come from.
    pub(crate) clock: ClockSource,
    /// CPUs that may come up.
    pub(crate) possible_cpus: u32,
    /// Maps of the main object.
    pub(crate) shared: &'a SharedMaps,
    /// Takes definitions.
    pub(crate) sink: Arc<ChunkSink>,
    /// Those of GPU drivers, as many as this kernel offers.
    pub(crate) gpu: bool,
    /// Those that have to be there.
    pub(crate) asked: &'a [Tracepoints],
}

/// Tracepoints of GPU drivers, and those that a user asked for.
pub(crate) struct TracepointSource {
    attached: Attached,
    keeper: EventKeeper,
    counters: Counters,
    lanes: Vec<RingLane<LaneRecords>>,
    missing: Vec<String>,
}

impl TracepointSource {
    /// Attaches to everything that this kernel offers; the lanes of these CPUs are there before.
    pub(crate) fn start(
        setup: &Setup<'_>,
        mut keeper: EventKeeper,
        cpus: &[u32],
    ) -> Result<Self, CaptureError> {
        let offers = offers(setup)?;
        let possible_cpus = setup.possible_cpus;
        let lane_bytes = bytes_of_each(LANE_BYTES, possible_cpus) as u64;
        let settings = Settings { tsc: setup.clock == ClockSource::Tsc, possible_cpus, lane_bytes };
        let mut attached = Attached::new(settings, setup.shared)?;
        let counters = attached.counters()?;
        let lanes = cpus
            .iter()
            .map(|cpu| Ok(RingLane::new(LaneKind::Tracepoint, *cpu, attached.add_cpu(*cpu)?)))
            .collect::<Result<Vec<_>, CaptureError>>()?;
        let mut missing = limits(&attached, &offers);
        attached.attach_failures(&offers.offers, &mut missing);
        let mut definitions = Vec::new();
        for (number, offer) in (0..).zip(&offers.offers) {
            let event = attached.attach(number, offer);
            match event.and_then(|event| hold(&mut keeper, &event)) {
                Ok(()) => definitions.push(definition(number, offer)),
                Err(error) => missing.push(error.to_string()),
            }
        }
        if setup.gpu && !definitions.iter().any(|definition| is_of(GPU, definition)) {
            missing.push(
                "this kernel has no tracepoints of GPU drivers: no driver is loaded".to_owned(),
            );
        }
        setup.sink.define(&Definition::Tracepoints(definitions));
        Ok(Self { attached, keeper, counters, lanes, missing })
    }
}

fn hold(keeper: &mut EventKeeper, event: &OwnedFd) -> Result<(), CaptureError> {
    keeper
        .hold(event)
        .map_err(|error| CaptureError::system("cannot hold on to a tracepoint", error))
}

/// What cannot be told on this kernel, in words.
fn limits(attached: &Attached, offers: &Offers) -> Vec<String> {
    let mut limits: Vec<String> = Vec::new();
    if !attached.knows_interrupts() {
        limits.push(
            "this kernel does not show where it counts interrupts: what one does at a tracepoint \
             is shown as done by the thread it interrupted"
                .to_owned(),
        );
    }
    if !kernel_at_least(6, 7) {
        limits.push(
            "tracepoints in interrupts that come while the program of another runs on that CPU \
             (some 50 ns) are left out by the kernel, which counts them from 6.7 on"
                .to_owned(),
        );
    }
    if !offers.unreadable.is_empty() {
        let events = offers.unreadable.join(", ");
        limits.push(format!(
            "tracepoints whose description is of an unknown shape are not recorded: {events}"
        ));
    }
    let not_understood = offers.not_understood().join(", ");
    if !not_understood.is_empty() {
        limits.push(format!(
            "tracepoints that lack a field are shown as they are, not as jobs or values: \
             {not_understood}"
        ));
    }
    limits
}

/// What this kernel offers of all that is wanted.
fn offers(setup: &Setup<'_>) -> Result<Offers, CaptureError> {
    let asked = setup.asked.iter().map(TracepointSelector::from);
    let gpu = if setup.gpu { GPU } else { &[] };
    let wanted: Vec<TracepointSelector<'_>> = gpu.iter().copied().chain(asked).collect();
    let offers = offered(&wanted).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound => "this kernel describes no tracepoints (CONFIG_FTRACE)",
            _ => "cannot read the descriptions of tracepoints (tracefs, which is root's)",
        };
        CaptureError::system(what, error)
    })?;
    match setup.asked.iter().find(|asked| !are_there(&TracepointSelector::from(*asked), &offers)) {
        Some(absent) => Err(absent_error(absent)),
        None => Ok(offers),
    }
}

/// Whether any of what is wanted is offered, of whatever shape.
fn are_there(wanted: &TracepointSelector<'_>, offers: &Offers) -> bool {
    let unreadable = offers.unreadable.iter().filter_map(|name| name.split_once('/'));
    let readable = offers.offers.iter().map(|offer| (offer.system.as_str(), offer.name.as_str()));
    readable.chain(unreadable).any(|(system, name)| wanted.includes(system, name))
}

/// That there is no such tracepoint, with what is near to it.
pub(super) fn absent_error(asked: &Tracepoints) -> CaptureError {
    let asked = asked.to_string();
    let near = did_you_mean(&nearest(&asked, names(), NEAREST));
    CaptureError::NoTracepoint { asked, near }
}

fn is_of(wanted: &[TracepointSelector<'_>], definition: &TracepointDefinition) -> bool {
    wanted.iter().any(|wanted| wanted.includes(&definition.system, &definition.name))
}

fn definition(tracepoint: u32, offer: &Offer) -> TracepointDefinition {
    let Offer { system, name, format } = offer;
    TracepointDefinition {
        tracepoint,
        system: system.clone(),
        name: name.clone(),
        fields: format.fields.clone(),
    }
}

impl Source for TracepointSource {
    fn attach(&mut self, cpus: &[u32]) -> Result<(), CaptureError> {
        cpus.iter().try_for_each(|cpu| self.add_cpu(*cpu))
    }

    fn add_cpu(&mut self, cpu: u32) -> Result<(), CaptureError> {
        if !self.lanes.iter().any(|lane| lane.cpu() == cpu) {
            self.lanes.push(RingLane::new(LaneKind::Tracepoint, cpu, self.attached.add_cpu(cpu)?));
        }
        Ok(())
    }

    fn drain(&mut self, now: Ticks, flush: Flush, out: &mut Drained<'_>) -> f64 {
        let fullest = self.lanes.iter().map(RingLane::fill).fold(0.0, f64::max);
        self.lanes.iter_mut().for_each(|lane| lane.drain(now, flush, &mut |_| (), out.chunk));
        fullest
    }

    fn detach(&mut self, cpus: &[u32]) {
        self.counters.stop();
        self.lanes.iter_mut().for_each(|lane| lane.ring().close());
        self.keeper.let_go();
        self.attached.detach_failures();
        // Programs at tracepoints are not preempted: what runs now has ended when its CPU was
        // visited.
        for &cpu in cpus {
            drop(crate::affinity::run_on(cpu));
        }
    }

    fn losses(&self) -> Vec<LaneLoss> {
        let mut losses: Vec<_> =
            self.counters.all().flat_map(|(cpu, counts)| losses_of(cpu, counts)).collect();
        losses.push(loss(None, LossCause::Nested, self.attached.skipped()));
        let failures = loss(None, LossCause::Nested, self.attached.failures_skipped());
        losses.push(LaneLoss { record: LostRecord::Kind(RecordKind::GpuFailure), ..failures });
        losses.retain(|loss| loss.count > 0);
        losses
    }

    fn statistics(&self) -> BTreeMap<String, u64> {
        let written = self.lanes.iter().map(RingLane::records).sum();
        BTreeMap::from([("tracepoint_records_written".to_owned(), written)])
    }

    fn describe(&self, _session: &mut SessionInfo) {}

    fn missing(&self) -> &[String] {
        &self.missing
    }
}

fn losses_of(cpu: u32, counts: Counts) -> [LaneLoss; 3] {
    let Counts { full, nested, unclocked, .. } = counts;
    [
        (LossCause::LaneFull, full),
        (LossCause::Nested, nested),
        (LossCause::ClockUnreadable, unclocked),
    ]
    .map(|(cause, count)| loss(Some(cpu), cause, count))
}

fn loss(cpu: Option<u32>, cause: LossCause, count: u64) -> LaneLoss {
    let (origin, record) = (LaneKind::Tracepoint.into(), LostRecord::Kind(RecordKind::Tracepoint));
    LaneLoss { origin, cpu, record, cause, user: None, count }
}
