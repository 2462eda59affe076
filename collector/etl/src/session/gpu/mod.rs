//! What GPUs do: the graphics kernel's events become jobs of engines and of
//! contexts, presents, and vertical syncs.
//!
//! **Duties.** A packet goes from a thread into the queue of its context
//! ([`queues`]), from there to an engine as a DMA packet ([`engines`]), and is
//! done. It is told twice: as a job of its context, from the moment it was handed
//! over, and as one of its engine, from the moment it ran. Which engine that is
//! and what it is called is in [`topology`]. What threads show is in [`presents`],
//! what displays do in [`displays`].
//!
//! **Limits.** What is open is bounded, whatever a trace says: contexts, packets
//! of each and of all, displays, depths. What finds no room is left out, and counted.
//!
//! Where the GPU schedules itself there are no DMA packets. Its queues' packets
//! then stand for them.

mod displays;
mod engines;
mod pending;
mod presents;
mod queues;
mod topology;

#[cfg(test)]
mod tests;

pub(super) use topology::Topology;

use super::engine::Engine;
use crate::payload::dxgkrnl::{self, Change, DmaEnd, Dxgkrnl};
use crate::payload::present;
use crate::{Class, Guid, Record};
use displays::{Display, Displays};
use presents::{PresentRequest, Presents};
use queues::{DmaPacket, PacketStop, Queues};
use syscollect_model::ThreadId;

/// The GPUs of one play.
#[derive(Debug, Default)]
pub(super) struct Gpu {
    topology: Topology,
    queues: Queues,
    displays: Displays,
    presents: Presents,
    undecodable: u64,
}

impl Topology {
    /// The first pass, for records that [`Gpu::wants`].
    pub(super) fn learn_record(&mut self, record: &Record<'_>) {
        let Class::Provider { provider: dxgkrnl::PROVIDER, id, .. } = record.class else { return };
        let event = dxgkrnl::decode(id, record.version, record.payload, record.is_64_bit);
        match (event, record.task) {
            (Some(Dxgkrnl::QueuePacketStart(packet)), Some(task)) => {
                self.learn_user(packet.context, task.pid);
            }
            (Some(event), _) => self.learn(&event),
            (None, _) => {}
        }
    }
}

impl Gpu {
    /// With what a first pass learned.
    pub(super) fn new(topology: Topology) -> Self {
        Self { topology, ..Self::default() }
    }

    /// Whether a provider's records belong here.
    pub(super) fn wants(provider: &Guid) -> bool {
        matches!(*provider, dxgkrnl::PROVIDER | present::DXGI | present::D3D9)
    }

    /// A record of a provider that [`Self::wants`], which this thread wrote.
    pub(super) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        thread: Option<ThreadId>,
    ) {
        let Class::Provider { provider, id, .. } = record.class else { return };
        if provider != dxgkrnl::PROVIDER {
            if let Some(call) = present::decode(&provider, id, record.payload, record.is_64_bit) {
                self.presents.call(engine, thread, call);
            }
            return;
        }
        match dxgkrnl::decode(id, record.version, record.payload, record.is_64_bit) {
            Some(event) => self.event(engine, thread, event),
            None => self.undecodable += u64::from(dxgkrnl::is_of_interest(id)),
        }
    }

    /// Events that are not told: cut short, or without room.
    pub(super) fn left_out(&self) -> u64 {
        self.undecodable + self.queues.left_out + self.displays.left_out + self.presents.left_out
    }

    fn event(&mut self, engine: &mut Engine<'_>, thread: Option<ThreadId>, event: Dxgkrnl) {
        let Self { topology, queues, displays, .. } = self;
        match event {
            Dxgkrnl::QueuePacketStart(packet) => queues.start(engine, topology, thread, packet),
            Dxgkrnl::QueuePacketTaken { context, sequence } => {
                queues.taken(engine, context, sequence);
            }
            Dxgkrnl::QueuePacketStop { context, sequence, kind, timed_out, .. } => {
                let stop = PacketStop { context, sequence, kind, timed_out };
                queues.stop(engine, topology, stop);
            }
            Dxgkrnl::DmaStart { context, queue_context, kind, id, sequence } => {
                let packet = DmaPacket { context, kind, id, sequence };
                queues.dma_start(engine, topology, packet, queue_context);
            }
            Dxgkrnl::DmaDone { context, kind, id, sequence, end } => {
                queues.dma_done(engine, topology, DmaPacket { context, kind, id, sequence }, end);
            }
            Dxgkrnl::DmaStop { context, kind, id, sequence, preempted } => {
                let packet = DmaPacket { context, kind, id, sequence };
                let end = if preempted { DmaEnd::Preempted } else { DmaEnd::Completed };
                queues.dma_noticed(engine, topology, packet, end);
            }
            Dxgkrnl::VSync(sync) => displays.vsync(engine, topology, sync),
            Dxgkrnl::MmioFlip { adapter, source, layer, sequence } => {
                let display = Display { adapter, source };
                displays.flip(engine, topology, display, layer, sequence);
            }
            Dxgkrnl::Flip { source, interval, kind } => {
                presents::flip(engine, thread, source, interval, kind);
            }
            Dxgkrnl::Blit { window, redirected } => {
                presents::blit(engine, thread, window, redirected);
            }
            Dxgkrnl::Present { window, source, flags, status } => {
                let request = PresentRequest { window, source, flags, status };
                presents::present(engine, thread, request);
            }
            event => self.changed(engine, &event),
        }
    }

    /// Something began or is gone.
    fn changed(&mut self, engine: &mut Engine<'_>, event: &Dxgkrnl) {
        if let Dxgkrnl::Context { change: Change::Stop, context: queue, .. }
        | Dxgkrnl::HardwareQueue { change: Change::Stop, queue, .. } = *event
        {
            self.queues.close_context(engine, &mut self.topology, queue);
        }
        self.topology.update(event);
    }

    /// The recording is over: what is open is told as unfinished.
    pub(super) fn close(&mut self, engine: &mut Engine<'_>) {
        self.queues.close(engine, &mut self.topology);
        self.presents.close(engine);
    }
}
