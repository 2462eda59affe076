//! Packets: from the thread that hands them over to the GPU that is done with them.

use super::engines::{Engines, GpuEngine};
use super::pending::PendingStarts;
use super::topology::Topology;
use crate::payload::dxgkrnl::{DmaEnd, DmaKind, QueuePacket, QueuePacketKind};
use crate::session::engine::{Engine, TraceEngine};
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Fence, Field, GpuJob, GpuJobEnd, MachineId, ProcessId, Scope, StringId, Tables,
    ThreadId, Time, Track, TrackKind, Value,
};
use syscollect_playback::{EventType, Rows};

/// Packets open at once, of all contexts.
const MOST_OPEN: usize = 1 << 16;
/// Contexts that have packets at once.
const MOST_CONTEXTS: usize = 1 << 12;
/// Contexts that get tracks in one recording.
const MOST_QUEUES: usize = 1 << 14;
/// Rows of one context's queue: packets that are in it at once.
const MOST_ROWS: usize = 32;

/// What was handed over and is not done.
#[derive(Debug)]
struct Packet {
    context: u64,
    sequence: u32,
    kind: QueuePacketKind,
    present: bool,
    thread: Option<ThreadId>,
    submitted: Time,
    /// The scheduler took it.
    taken: Option<Time>,
    /// A DMA packet was made of it.
    has_dma: bool,
    fences: Vec<Fence>,
}

/// The end of a queue packet, as an event tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketStop {
    pub(super) context: u64,
    pub(super) sequence: u32,
    pub(super) kind: QueuePacketKind,
    pub(super) timed_out: bool,
}

/// A DMA packet, as events name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DmaPacket {
    pub(super) context: u64,
    pub(super) kind: DmaKind,
    pub(super) id: u64,
    /// That of the queue packet it is made of.
    pub(super) sequence: u32,
}

/// What the GPU was given and is not done with.
#[derive(Debug)]
struct Dma {
    packet: DmaPacket,
    given: Time,
    /// Of its queue packet.
    submission: Option<Submission>,
}

/// How a queue packet was handed over.
#[derive(Clone, Copy, Debug)]
struct Submission {
    name: &'static str,
    thread: Option<ThreadId>,
    at: Time,
}

/// Where the jobs of a context are told.
#[derive(Clone, Copy, Debug)]
struct QueueTracks {
    scope: Scope,
    name: StringId,
}

#[derive(Debug)]
struct Queue {
    /// The process that uses it.
    process: Option<ProcessId>,
    /// Its tracks, once there is a job.
    tracks: Option<QueueTracks>,
    rows: Rows<Time>,
    packets: PendingStarts<u32, Packet>,
    dma: PendingStarts<u64, Dma>,
}

impl Default for Queue {
    fn default() -> Self {
        let (packets, dma) = (PendingStarts::default(), PendingStarts::default());
        Self { process: None, tracks: None, rows: Rows::new(MOST_ROWS), packets, dma }
    }
}

/// The queues of all contexts, and the engines that they lead to.
#[derive(Debug, Default)]
pub(super) struct Queues {
    by_context: FxHashMap<u64, Queue>,
    engines: Engines,
    /// How many packets are open.
    open: usize,
    /// How many contexts had a queue.
    made: usize,
    /// Packets and ends of packets that found no room.
    pub(super) left_out: u64,
}

impl Queues {
    /// A thread hands a packet over.
    pub(super) fn start(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        thread: Option<ThreadId>,
        packet: QueuePacket,
    ) {
        let submitted = engine.now();
        let QueuePacket { context, sequence, kind, present, fences } = packet;
        let Some(queue) = self.room(context) else { return };
        if let Some(thread) = thread.filter(|thread| *thread != Tables::IDLE_THREAD) {
            queue.process.get_or_insert(engine.tables.thread(thread).process);
        }
        let (taken, has_dma) = (None, false);
        let opened =
            Packet { context, sequence, kind, present, thread, submitted, taken, has_dma, fences };
        if let Some(lost) = queue.packets.open(sequence, opened) {
            self.end(engine, topology, lost, GpuJobEnd::Unfinished);
        }
    }

    /// The scheduler takes a packet.
    pub(super) fn taken(&mut self, engine: &Engine<'_>, context: u64, sequence: u32) {
        let queue = self.by_context.get_mut(&context);
        if let Some(packet) = queue.and_then(|queue| queue.packets.get_mut(&sequence)) {
            packet.taken.get_or_insert(engine.now());
        }
    }

    /// A packet is done.
    pub(super) fn stop(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        stop: PacketStop,
    ) {
        let PacketStop { context, sequence, kind, timed_out } = stop;
        let Some(queue) = self.queue(context) else { return };
        let Some(packet) = queue.packets.close(&sequence) else {
            let name = engine.tables.strings.intern(kind.name());
            let mut job = GpuJob {
                end: GpuJobEnd::WithoutBeginning,
                context: Some(context),
                ..GpuJob::named(name)
            };
            add_field(&mut job, &mut engine.tables, "sequence", Value::Unsigned(sequence.into()));
            return self.emit_job(engine, topology, context, engine.now(), job);
        };
        let end = if timed_out { GpuJobEnd::Failed } else { GpuJobEnd::Finished };
        self.end(engine, topology, packet, end);
    }

    /// The GPU is given a packet; `queue_context` is the context of the queue packet it is made
    /// of, 0 where that is the same.
    pub(super) fn dma_start(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        packet: DmaPacket,
        queue_context: u64,
    ) {
        let DmaPacket { context, id, sequence, .. } = packet;
        let made_of = if queue_context == 0 { context } else { queue_context };
        let packets = self.by_context.get_mut(&made_of).map(|queue| &mut queue.packets);
        let queued = packets.and_then(|packets| packets.get_mut(&sequence));
        let submission = queued.map(|queued| {
            queued.has_dma = true;
            Submission { name: queued.name(), thread: queued.thread, at: queued.submitted }
        });
        let given = engine.now();
        let Some(queue) = self.room(context) else { return };
        if let Some(lost) = queue.dma.open(id, Dma { packet, given, submission }) {
            self.abandon(engine, topology, lost, false);
        }
    }

    /// The GPU's interrupt: it is done with a packet.
    pub(super) fn dma_done(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        packet: DmaPacket,
        end: DmaEnd,
    ) {
        let known = self.close_dma(packet);
        self.dma_end(engine, topology, known.ok_or(packet), end);
    }

    /// The scheduler notices that the GPU is done with a packet: it may only repeat what the
    /// interrupt said.
    pub(super) fn dma_noticed(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        packet: DmaPacket,
        end: DmaEnd,
    ) {
        if let Some(known) = self.close_dma(packet) {
            self.dma_end(engine, topology, Ok(known), end);
        }
    }

    fn close_dma(&mut self, packet: DmaPacket) -> Option<Dma> {
        let dma = self.by_context.get_mut(&packet.context)?.dma.close(&packet.id)?;
        self.open -= 1;
        Some(dma)
    }

    /// A packet ends, whose beginning is known or not.
    fn dma_end(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        dma: Result<Dma, DmaPacket>,
        end: DmaEnd,
    ) {
        let begun = dma.is_ok();
        let given = engine.now();
        let dma = dma.unwrap_or_else(|packet| Dma { packet, given, submission: None });
        let gpu_engine = dma.engine(topology);
        let mut job = dma.job(engine);
        job.end = match end {
            DmaEnd::Faulted | DmaEnd::PageFaulted => GpuJobEnd::Failed,
            _ => GpuJobEnd::Finished,
        };
        if end != DmaEnd::Completed {
            let value = Value::String(engine.tables.strings.intern(end.name()));
            add_field(&mut job, &mut engine.tables, "interrupt", value);
        }
        if !begun {
            (job.queued, job.end) = (None, GpuJobEnd::WithoutBeginning);
        }
        self.engines.end(engine, topology, gpu_engine, job);
    }

    /// A context is gone, and what was in its queue with it.
    pub(super) fn close_context(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        context: u64,
    ) {
        if let Some(queue) = self.by_context.get_mut(&context) {
            let (packets, dma) = (queue.packets.drain(), queue.dma.drain());
            for packet in packets {
                self.end(engine, topology, packet, GpuJobEnd::Unfinished);
            }
            for dma in dma {
                self.abandon(engine, topology, dma, false);
            }
            self.by_context.remove(&context);
        }
    }

    /// The recording is over.
    pub(super) fn close(&mut self, engine: &mut Engine<'_>, topology: &mut Topology) {
        let mut contexts: Vec<u64> = self.by_context.keys().copied().collect();
        contexts.sort_unstable();
        let mut running = Vec::new();
        for context in &contexts {
            let Some(queue) = self.by_context.get_mut(context) else { continue };
            let packets = queue.packets.drain();
            running.extend(queue.dma.drain().map(|dma| (dma.engine(topology), dma)));
            for packet in packets {
                self.end(engine, topology, packet, GpuJobEnd::Unfinished);
            }
        }
        running.sort_by_key(|(gpu_engine, dma)| (*gpu_engine, dma.given));
        let mut last = None;
        for (gpu_engine, dma) in running {
            self.abandon(engine, topology, dma, last != Some(gpu_engine));
            last = Some(gpu_engine);
        }
        self.by_context.clear();
    }

    /// How many packets are open, of the queues and of the engines.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// A context's queue, where there is room for one.
    fn queue(&mut self, context: u64) -> Option<&mut Queue> {
        if !self.by_context.contains_key(&context) {
            if self.by_context.len() >= MOST_CONTEXTS || self.made >= MOST_QUEUES {
                self.left_out += 1;
                return None;
            }
            self.made += 1;
        }
        Some(self.by_context.entry(context).or_default())
    }

    /// The same to open something in it. Whatever is opened has to be ended.
    fn room(&mut self, context: u64) -> Option<&mut Queue> {
        if self.open >= MOST_OPEN {
            self.left_out += 1;
            return None;
        }
        self.queue(context)?;
        self.open += 1;
        self.by_context.get_mut(&context)
    }

    /// A packet does not end; `runs`: its engine was at work at it.
    fn abandon(&mut self, engine: &mut Engine<'_>, topology: &mut Topology, dma: Dma, runs: bool) {
        self.open -= 1;
        let gpu_engine = dma.engine(topology);
        let mut job = GpuJob { end: GpuJobEnd::Unfinished, ..dma.job(engine) };
        if runs {
            return self.engines.end(engine, topology, gpu_engine, job);
        }
        let waited = engine.now().0.saturating_sub(dma.given.0);
        add_field(&mut job, &mut engine.tables, "waited", Value::Duration(waited));
        self.engines.drop_waiting(engine, topology, gpu_engine, job);
    }

    /// A packet leaves its queue.
    fn end(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        packet: Packet,
        end: GpuJobEnd,
    ) {
        self.open -= 1;
        let Packet { context, sequence, thread, submitted, .. } = packet;
        let name = engine.tables.strings.intern(packet.name());
        let mut job = GpuJob {
            context: Some(context),
            thread,
            submitted: Some(submitted),
            end,
            ..GpuJob::named(name)
        };
        add_field(&mut job, &mut engine.tables, "sequence", Value::Unsigned(sequence.into()));
        let stands_for_dma = topology.is_hardware_queue(context) && packet.is_for_the_gpu();
        if stands_for_dma && end != GpuJobEnd::Unfinished {
            let gpu_engine = topology.node(context).map_or(GpuEngine::Unknown, GpuEngine::Node);
            self.engines.end(engine, topology, gpu_engine, job.clone());
        }
        if packet.has_dma || stands_for_dma {
            // Handing it over belongs to the engine's job: one arrow from the thread is enough.
            (job.submitted, job.queued) = (None, Some(submitted));
        }
        packet.add_wait(&mut job, &mut engine.tables);
        self.emit_job(engine, topology, context, submitted, job);
    }

    /// Tells a job on its context's tracks.
    fn emit_job(
        &mut self,
        engine: &mut Engine<'_>,
        topology: &mut Topology,
        context: u64,
        began: Time,
        mut job: GpuJob,
    ) {
        let now = engine.now();
        let Some(queue) = self.queue(context) else { return };
        let placed = queue.rows.place(began.min(now), now);
        if placed.begin > began {
            job.started = Some(placed.begin);
        }
        let QueueTracks { scope, name } = match queue.tracks {
            Some(tracks) => tracks,
            None => {
                let process = queue.process.or_else(|| topology.user(context, now, &engine.tables));
                let scope = process.map_or(Scope::Machine(MachineId::FIRST), Scope::Process);
                let node = topology
                    .node(context)
                    .map_or_else(|| "GPU".to_owned(), |node| topology.node_name(node));
                let name = engine.tables.strings.intern(&format!("{node} context {context:#x}"));
                *queue.tracks.insert(QueueTracks { scope, name })
            }
        };
        let track = Track { scope, name, kind: TrackKind::GpuQueue };
        let track = engine.track(track, placed.row as u64);
        engine.push_event(EventType::GpuJob, Event::GpuJob(track, Box::new(job)));
    }
}

impl Packet {
    fn name(&self) -> &'static str {
        match self.kind {
            QueuePacketKind::Render | QueuePacketKind::Deferred if self.present => "Present",
            kind => kind.name(),
        }
    }

    /// How long it waited, and its fences.
    fn add_wait(&self, job: &mut GpuJob, tables: &mut Tables) {
        if let Some(taken) = self.taken {
            add_field(
                job,
                tables,
                "waited",
                Value::Duration(taken.0.saturating_sub(self.submitted.0)),
            );
        }
        match self.kind {
            QueuePacketKind::Signal => job.fence = self.fences.first().copied(),
            _ => job.waited_for = self.fences.clone(),
        }
    }

    /// An engine works at it; the others are the scheduler's.
    fn is_for_the_gpu(&self) -> bool {
        use QueuePacketKind::{Deferred, Paging, Render, System};
        matches!(self.kind, Render | Deferred | System | Paging)
    }
}

impl Dma {
    fn engine(&self, topology: &Topology) -> GpuEngine {
        let node = topology.node(self.packet.context);
        match self.packet.kind {
            DmaKind::Preemption => GpuEngine::Preemption(node),
            _ => node.map_or(GpuEngine::Unknown, GpuEngine::Node),
        }
    }

    fn job(&self, engine: &mut Engine<'_>) -> GpuJob {
        let Self { packet, given, submission } = self;
        let name = submission.map_or(packet.kind.name(), |submission| submission.name);
        let mut job = GpuJob {
            context: Some(packet.context),
            thread: submission.and_then(|submission| submission.thread),
            submitted: submission.map(|submission| submission.at),
            queued: Some(*given),
            ..GpuJob::named(engine.tables.strings.intern(name))
        };
        add_field(&mut job, &mut engine.tables, "submission", Value::Unsigned(packet.id));
        add_field(
            &mut job,
            &mut engine.tables,
            "sequence",
            Value::Unsigned(packet.sequence.into()),
        );
        job
    }
}

fn add_field(job: &mut GpuJob, tables: &mut Tables, name: &str, value: Value) {
    job.fields.push(Field::named(tables.strings.intern(name), value));
}
