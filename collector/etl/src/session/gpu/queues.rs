//! Packets: from the thread that hands them over to the GPU that is done with them.

use super::engines::{Engine, Engines};
use super::pending::Pending;
use super::topology::Topology;
use crate::payload::dxgkrnl::{DmaEnd, DmaKind, QueuePacket, QueuePacketKind};
use crate::session::context::Context;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Fence, Field, GpuJob, GpuJobEnd, ProcessId, Scope, StringId, Tables, ThreadId, Time,
    TrackKind, Value,
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

/// What the GPU was given and is not done with.
#[derive(Debug)]
struct Dma {
    context: u64,
    kind: DmaKind,
    id: u64,
    sequence: u32,
    given: Time,
    /// Of its queue packet: its name, its thread, when it was handed over.
    packet: Option<(&'static str, Option<ThreadId>, Time)>,
}

#[derive(Debug)]
struct Queue {
    /// The process that uses it.
    process: Option<ProcessId>,
    /// Its tracks, once there is a job.
    tracks: Option<(Scope, StringId)>,
    rows: Rows<Time>,
    packets: Pending<u32, Packet>,
    dma: Pending<u64, Dma>,
}

impl Default for Queue {
    fn default() -> Self {
        let (packets, dma) = (Pending::default(), Pending::default());
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
    pub(super) fn start(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        packet: QueuePacket,
    ) {
        let (thread, now) = (at.thread, at.now);
        let QueuePacket { context, sequence, kind, present, fences } = packet;
        let Some(queue) = self.room(context) else { return };
        if let Some(thread) = thread.filter(|thread| *thread != Tables::IDLE_THREAD) {
            queue.process.get_or_insert(at.tables.thread(thread).process);
        }
        let opened =
            Packet { kind, present, thread, submitted: now, taken: None, has_dma: false, fences };
        if let Some(lost) = queue.packets.open(sequence, opened) {
            self.end(at, topology, context, lost, GpuJobEnd::Unfinished);
        }
    }

    pub(super) fn taken(&mut self, at: &Context<'_>, context: u64, sequence: u32) {
        let queue = self.by_context.get_mut(&context);
        if let Some(packet) = queue.and_then(|queue| queue.packets.get_mut(&sequence)) {
            packet.taken.get_or_insert(at.now);
        }
    }

    pub(super) fn stop(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        (context, sequence): (u64, u32),
        (kind, timed_out): (QueuePacketKind, bool),
    ) {
        let Some(queue) = self.queue(context) else { return };
        let Some(packet) = queue.packets.close(&sequence) else {
            let name = at.tables.strings.intern(kind.name());
            let mut job = GpuJob {
                end: GpuJobEnd::WithoutBeginning,
                context: Some(context),
                ..GpuJob::named(name)
            };
            say(&mut job, at.tables, "sequence", Value::Unsigned(sequence.into()));
            return self.tell(at, topology, context, (job, at.now));
        };
        let end = if timed_out { GpuJobEnd::Failed } else { GpuJobEnd::Finished };
        self.end(at, topology, context, (sequence, packet), end);
    }

    pub(super) fn dma_start(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        (context, queue_context): (u64, u64),
        (kind, id, sequence): (DmaKind, u64, u32),
    ) {
        let made_of = if queue_context == 0 { context } else { queue_context };
        let packets = self.by_context.get_mut(&made_of).map(|queue| &mut queue.packets);
        let packet = packets.and_then(|packets| packets.get_mut(&sequence));
        let packet = packet.map(|packet| {
            packet.has_dma = true;
            (packet.name(), packet.thread, packet.submitted)
        });
        let given = at.now;
        let Some(queue) = self.room(context) else { return };
        if let Some((_, lost)) =
            queue.dma.open(id, Dma { context, kind, id, sequence, given, packet })
        {
            self.abandon(at, topology, lost, false);
        }
    }

    /// The GPU is done with a packet. `noticed`: the scheduler says so, who may
    /// only repeat what the interrupt said.
    pub(super) fn dma_end(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        (context, kind, id, sequence): (u64, DmaKind, u64, u32),
        (end, noticed): (DmaEnd, bool),
    ) {
        let known = self.by_context.get_mut(&context).and_then(|queue| queue.dma.close(&id));
        if known.is_none() && noticed {
            return;
        }
        self.open -= usize::from(known.is_some());
        let begun = known.is_some();
        let dma = known.unwrap_or(Dma { context, kind, id, sequence, given: at.now, packet: None });
        let engine = dma.engine(topology);
        let mut job = dma.job(at);
        job.end = match end {
            DmaEnd::Faulted | DmaEnd::PageFaulted => GpuJobEnd::Failed,
            _ => GpuJobEnd::Finished,
        };
        if end != DmaEnd::Completed {
            let value = Value::String(at.tables.strings.intern(end.name()));
            say(&mut job, at.tables, "interrupt", value);
        }
        if !begun {
            (job.queued, job.end) = (None, GpuJobEnd::WithoutBeginning);
        }
        self.engines.end(at, topology, engine, job);
    }

    /// A context is gone, and what was in its queue with it.
    pub(super) fn close(&mut self, at: &mut Context<'_>, topology: &mut Topology, context: u64) {
        if let Some(queue) = self.by_context.get_mut(&context) {
            let (packets, dma) = (queue.packets.drain(), queue.dma.drain());
            for packet in packets {
                self.end(at, topology, context, packet, GpuJobEnd::Unfinished);
            }
            for (_, dma) in dma {
                self.abandon(at, topology, dma, false);
            }
            self.by_context.remove(&context);
        }
    }

    /// The recording is over.
    pub(super) fn finish(&mut self, at: &mut Context<'_>, topology: &mut Topology) {
        let mut contexts: Vec<u64> = self.by_context.keys().copied().collect();
        contexts.sort_unstable();
        let mut running = Vec::new();
        for context in &contexts {
            let Some(queue) = self.by_context.get_mut(context) else { continue };
            let packets = queue.packets.drain();
            running
                .extend(queue.dma.drain().map(|(_, dma)| (dma.engine(topology), dma.given, dma)));
            for packet in packets {
                self.end(at, topology, *context, packet, GpuJobEnd::Unfinished);
            }
        }
        running.sort_by_key(|(engine, given, _)| (*engine, *given));
        let mut last = None;
        for (engine, _, dma) in running {
            self.abandon(at, topology, dma, last != Some(engine));
            last = Some(engine);
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

    fn abandon(&mut self, at: &mut Context<'_>, topology: &mut Topology, dma: Dma, runs: bool) {
        self.open -= 1;
        let engine = dma.engine(topology);
        let mut job = GpuJob { end: GpuJobEnd::Unfinished, ..dma.job(at) };
        if runs {
            return self.engines.end(at, topology, engine, job);
        }
        say(&mut job, at.tables, "waited", Value::Duration(at.now.0.saturating_sub(dma.given.0)));
        self.engines.drop_waiting(at, topology, engine, job);
    }

    /// A packet leaves its queue.
    fn end(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        context: u64,
        (sequence, packet): (u32, Packet),
        end: GpuJobEnd,
    ) {
        self.open -= 1;
        let name = at.tables.strings.intern(packet.name());
        let (submitted, thread) = (Some(packet.submitted), packet.thread);
        let mut job =
            GpuJob { context: Some(context), thread, submitted, end, ..GpuJob::named(name) };
        say(&mut job, at.tables, "sequence", Value::Unsigned(sequence.into()));
        let stands_for_dma = topology.is_hardware_queue(context) && packet.is_for_the_gpu();
        if stands_for_dma && end != GpuJobEnd::Unfinished {
            let engine = topology.node(context).map_or(Engine::Unknown, Engine::Node);
            self.engines.end(at, topology, engine, job.clone());
        }
        if packet.has_dma || stands_for_dma {
            // Handing it over belongs to the engine's job: one arrow from the thread is enough.
            (job.submitted, job.queued) = (None, Some(packet.submitted));
        }
        packet.say_more(&mut job, at.tables);
        self.tell(at, topology, context, (job, packet.submitted));
    }

    /// Tells a job on its context's tracks.
    fn tell(
        &mut self,
        at: &mut Context<'_>,
        topology: &mut Topology,
        context: u64,
        (mut job, began): (GpuJob, Time),
    ) {
        let Some(queue) = self.queue(context) else { return };
        let placed = queue.rows.place(began.min(at.now), at.now);
        if placed.begin > began {
            job.started = Some(placed.begin);
        }
        let (scope, name) = match queue.tracks {
            Some(tracks) => tracks,
            None => {
                let process = queue.process.or_else(|| topology.user(context, at.now, at.tables));
                let scope = process.map_or(Scope::Machine, Scope::Process);
                let node = topology
                    .node(context)
                    .map_or_else(|| "GPU".to_owned(), |node| topology.node_name(node));
                let name = at.tables.strings.intern(&format!("{node} context {context:#x}"));
                *queue.tracks.insert((scope, name))
            }
        };
        let track = at.track(scope, name, TrackKind::GpuQueue, placed.row as u64);
        at.tell(EventType::GpuJob, at.now, Event::GpuJob(track, Box::new(job)));
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
    fn say_more(&self, job: &mut GpuJob, tables: &mut Tables) {
        if let Some(taken) = self.taken {
            say(job, tables, "waited", Value::Duration(taken.0.saturating_sub(self.submitted.0)));
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
    fn engine(&self, topology: &Topology) -> Engine {
        let node = topology.node(self.context);
        match self.kind {
            DmaKind::Preemption => Engine::Preemption(node),
            _ => node.map_or(Engine::Unknown, Engine::Node),
        }
    }

    fn job(&self, at: &mut Context<'_>) -> GpuJob {
        let name = self.packet.map_or(self.kind.name(), |(name, ..)| name);
        let mut job = GpuJob {
            context: Some(self.context),
            thread: self.packet.and_then(|(_, thread, _)| thread),
            submitted: self.packet.map(|(.., submitted)| submitted),
            queued: Some(self.given),
            ..GpuJob::named(at.tables.strings.intern(name))
        };
        say(&mut job, at.tables, "submission", Value::Unsigned(self.id));
        say(&mut job, at.tables, "sequence", Value::Unsigned(self.sequence.into()));
        job
    }
}

fn say(job: &mut GpuJob, tables: &mut Tables, name: &str, value: Value) {
    job.fields.push(Field::named(tables.strings.intern(name), value));
}
