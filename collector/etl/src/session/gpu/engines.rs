//! Engines of GPUs: what runs on them, one after the other.

use super::topology::{Node, Topology};
use crate::session::engine::{Engine, TraceEngine};
use rustc_hash::FxHashMap;
use syscollect_model::{Event, GpuJob, MachineId, Scope, StringId, Time, Track, TrackKind};
use syscollect_playback::EventType;

/// Engines with tracks of their own; what is more is one engine.
const MOST_ENGINES: usize = 1 << 10;

/// Where DMA packets run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum GpuEngine {
    Node(Node),
    /// Requests to let go what runs: they overtake what they are about.
    Preemption(Option<Node>),
    /// The context's engine is not known.
    Unknown,
}

#[derive(Debug)]
struct EngineState {
    name: StringId,
    /// It was busy until then.
    free_since: Time,
}

/// All engines.
#[derive(Debug, Default)]
pub(super) struct Engines {
    states: FxHashMap<GpuEngine, EngineState>,
}

impl Engines {
    /// A job ended on its engine. An engine works at one job after the other, so
    /// it began when it was given to the engine, or when the one before was done.
    pub(super) fn end(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        gpu_engine: GpuEngine,
        mut job: GpuJob,
    ) {
        let state = self.state(engine, topology, gpu_engine);
        let given = job.queued.or(job.submitted);
        job.started = given.map(|given| given.max(state.free_since).min(engine.now()));
        state.free_since = state.free_since.max(engine.now());
        let name = state.name;
        emit_job(engine, name, job);
    }

    /// A job will not come to its end, and waited for its engine: it took no time
    /// of it.
    pub(super) fn drop_waiting(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        gpu_engine: GpuEngine,
        mut job: GpuJob,
    ) {
        let name = self.state(engine, topology, gpu_engine).name;
        (job.submitted, job.queued) = (None, None);
        emit_job(engine, name, job);
    }

    fn state(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        gpu_engine: GpuEngine,
    ) -> &mut EngineState {
        let full = self.states.len() >= MOST_ENGINES && !self.states.contains_key(&gpu_engine);
        let gpu_engine = if full { GpuEngine::Unknown } else { gpu_engine };
        self.states.entry(gpu_engine).or_insert_with(|| {
            let name = match gpu_engine {
                GpuEngine::Node(node) => topology.node_name(node),
                GpuEngine::Preemption(Some(node)) => {
                    topology.node_name(node) + " preemption requests"
                }
                GpuEngine::Preemption(None) => "GPU preemption requests".to_owned(),
                GpuEngine::Unknown => "GPU, unknown node".to_owned(),
            };
            EngineState { name: engine.tables.strings.intern(&name), free_since: Time(0) }
        })
    }
}

fn emit_job(engine: &mut Engine<'_>, name: StringId, job: GpuJob) {
    let track = Track { scope: Scope::Machine(MachineId::FIRST), name, kind: TrackKind::GpuQueue };
    let track = engine.track(track, 0);
    engine.push_event(EventType::GpuJob, Event::GpuJob(track, Box::new(job)));
}
