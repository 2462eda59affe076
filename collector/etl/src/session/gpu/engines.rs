//! Engines of GPUs: what runs on them, one after the other.

use super::topology::{Node, Topology};
use crate::session::context::Context;
use rustc_hash::FxHashMap;
use syscollect_model::{Event, GpuJob, Scope, StringId, Time, TrackKind};
use syscollect_playback::EventType;

/// Engines with tracks of their own; what is more is one engine.
const MOST_ENGINES: usize = 1 << 10;

/// Where DMA packets run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Engine {
    Node(Node),
    /// Requests to let go what runs: they overtake what they are about.
    Preemption(Option<Node>),
    /// The context's engine is not known.
    Unknown,
}

#[derive(Debug)]
struct State {
    name: StringId,
    /// It was busy until then.
    free_since: Time,
}

/// All engines.
#[derive(Debug, Default)]
pub(super) struct Engines {
    states: FxHashMap<Engine, State>,
}

impl Engines {
    /// A job ended on its engine. An engine works at one job after the other, so
    /// it began when it was given to the engine, or when the one before was done.
    pub(super) fn end(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        engine: Engine,
        mut job: GpuJob,
    ) {
        let state = self.state(at, topology, engine);
        let given = job.queued.or(job.submitted);
        job.started = given.map(|given| given.max(state.free_since).min(at.now));
        state.free_since = state.free_since.max(at.now);
        let name = state.name;
        tell(at, name, job);
    }

    /// A job will not come to its end, and waited for its engine: it took no time
    /// of it.
    pub(super) fn drop_waiting(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        engine: Engine,
        mut job: GpuJob,
    ) {
        let name = self.state(at, topology, engine).name;
        (job.submitted, job.queued) = (None, None);
        tell(at, name, job);
    }

    fn state(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        engine: Engine,
    ) -> &mut State {
        let full = self.states.len() >= MOST_ENGINES && !self.states.contains_key(&engine);
        let engine = if full { Engine::Unknown } else { engine };
        self.states.entry(engine).or_insert_with(|| {
            let name = match engine {
                Engine::Node(node) => topology.node_name(node),
                Engine::Preemption(Some(node)) => topology.node_name(node) + " preemption requests",
                Engine::Preemption(None) => "GPU preemption requests".to_owned(),
                Engine::Unknown => "GPU, unknown node".to_owned(),
            };
            State { name: at.tables.strings.intern(&name), free_since: Time(0) }
        })
    }
}

fn tell(at: &mut Context<'_>, name: StringId, job: GpuJob) {
    let track = at.track(Scope::Machine, name, TrackKind::GpuQueue, 0);
    at.tell(EventType::GpuJob, at.now, Event::GpuJob(track, Box::new(job)));
}
