//! The events that a buffer holds.

use crate::codec::ReadBuffer;
use crate::shares::{Producer, ProducerShares};
use crate::{Chunk, ChunkHeader, EncodedChunk};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use syscollect_model::LaneKind;

/// Events in the order in which they came, with what each producer has of them.
#[derive(Default)]
pub(super) struct HeldEvents {
    queue: VecDeque<HeldEvent>,
    shares: ProducerShares,
    bytes: usize,
    /// Bytes of hits of probes.
    hit_bytes: usize,
    /// How many came.
    came: u64,
    /// Number of the first that nobody has taken to encode it, and bytes from there on.
    raw_from: u64,
    raw_bytes: usize,
}

/// A chunk of events, and who wrote it; `None` where the kernel did.
pub(super) struct HeldEvent {
    pub(super) producer: Option<Producer>,
    pub(super) came: Instant,
    /// The oldest generation of stacks that it may refer to.
    pub(super) generation: u64,
    /// Counts all that came; given when it is pushed.
    pub(super) number: u64,
    pub(super) content: EventContent,
}

/// The chunk: as it came, or as it goes to the file. Shared with those who take it meanwhile.
#[derive(Clone)]
pub(super) enum EventContent {
    Raw(Arc<Chunk>),
    Encoded(Arc<EncodedChunk>),
}

impl EventContent {
    pub(super) fn header(&self) -> &ChunkHeader {
        match self {
            Self::Raw(chunk) => &chunk.header,
            Self::Encoded(chunk) => chunk.header(),
        }
    }

    /// The chunk as it came.
    pub(super) fn decoded(self, buffer: &mut ReadBuffer) -> Option<Chunk> {
        match self {
            Self::Raw(chunk) => Some(Arc::unwrap_or_clone(chunk)),
            Self::Encoded(chunk) => chunk.decode(buffer),
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Raw(chunk) => size_of_chunk(chunk),
            Self::Encoded(chunk) => chunk.size(),
        }
    }
}

/// What an event takes, by what is counted.
#[derive(Clone, Copy)]
struct EventSize {
    producer: Option<Producer>,
    bytes: usize,
    hit_bytes: usize,
    raw_bytes: usize,
}

impl HeldEvent {
    pub(super) fn new(producer: Option<Producer>, generation: u64, chunk: Chunk) -> Self {
        let content = EventContent::Raw(Arc::new(chunk));
        Self { producer, came: Instant::now(), generation, number: 0, content }
    }

    /// What it takes, where those from `raw_from` on wait for being encoded.
    fn size(&self, raw_from: u64) -> EventSize {
        let bytes = self.content.size();
        let is_hits = self.content.header().lane.kind == LaneKind::Probe;
        let is_raw = self.number >= raw_from;
        EventSize {
            producer: self.producer,
            bytes,
            hit_bytes: if is_hits { bytes } else { 0 },
            raw_bytes: if is_raw { bytes } else { 0 },
        }
    }
}

impl HeldEvents {
    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that hits of probes take.
    pub(super) fn hit_bytes(&self) -> usize {
        self.hit_bytes
    }

    /// Bytes of those that nobody has taken to encode them.
    pub(super) fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    /// What producers have.
    pub(super) fn shares(&self) -> &ProducerShares {
        &self.shares
    }

    pub(super) fn oldest(&self) -> Option<&HeldEvent> {
        self.queue.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldEvent> {
        self.queue.iter()
    }

    pub(super) fn push(&mut self, mut event: HeldEvent) {
        event.number = self.came;
        self.came += 1;
        self.add(event.size(self.raw_from));
        self.queue.push_back(event);
    }

    pub(super) fn pop_oldest(&mut self) -> Option<HeldEvent> {
        let event = self.queue.pop_front()?;
        self.subtract(event.size(self.raw_from));
        Some(event)
    }

    pub(super) fn pop_newest(&mut self) -> Option<HeldEvent> {
        let event = self.queue.pop_back()?;
        self.subtract(event.size(self.raw_from));
        Some(event)
    }

    /// The oldest of a producer.
    pub(super) fn pop_oldest_of(&mut self, producer: Producer) -> Option<HeldEvent> {
        let place = self.queue.iter().position(|event| event.producer == Some(producer))?;
        self.remove(place)
    }

    /// The newest of a producer.
    pub(super) fn pop_newest_of(&mut self, producer: Producer) -> Option<HeldEvent> {
        let place = self.queue.iter().rposition(|event| event.producer == Some(producer))?;
        self.remove(place)
    }

    fn remove(&mut self, place: usize) -> Option<HeldEvent> {
        let event = self.queue.remove(place)?;
        self.subtract(event.size(self.raw_from));
        Some(event)
    }

    /// The oldest that nobody has taken to encode it, and its number.
    pub(super) fn next_raw(&mut self) -> Option<(u64, Arc<Chunk>)> {
        let place = self.queue.partition_point(|event| event.number < self.raw_from);
        let event = self.queue.get(place)?;
        self.raw_bytes -= event.content.size();
        self.raw_from = event.number + 1;
        match &event.content {
            EventContent::Raw(chunk) => Some((event.number, Arc::clone(chunk))),
            EventContent::Encoded(_) => None,
        }
    }

    /// The event of that number is encoded, if it is still here.
    pub(super) fn encoded(&mut self, number: u64, chunk: EncodedChunk) {
        let place = self.queue.partition_point(|event| event.number < number);
        let raw_from = self.raw_from;
        let Some(event) = self.queue.get_mut(place).filter(|event| event.number == number) else {
            return;
        };
        let before = event.size(raw_from);
        event.content = EventContent::Encoded(Arc::new(chunk));
        let after = event.size(raw_from);
        self.subtract(before);
        self.add(after);
    }

    fn add(&mut self, size: EventSize) {
        self.bytes += size.bytes;
        self.hit_bytes += size.hit_bytes;
        self.raw_bytes += size.raw_bytes;
        if let Some(producer) = size.producer {
            self.shares.add(producer, size.bytes);
        }
    }

    fn subtract(&mut self, size: EventSize) {
        self.bytes -= size.bytes;
        self.hit_bytes -= size.hit_bytes;
        self.raw_bytes -= size.raw_bytes;
        if let Some(producer) = size.producer {
            self.shares.remove(producer, size.bytes);
        }
    }
}

/// Bytes that a held chunk takes.
pub(super) fn size_of_chunk(chunk: &Chunk) -> usize {
    size_of::<Chunk>() + chunk.data.capacity()
}
