//! Events that gave way and left a state behind: what a program has open, or said last, began in
//! what was overwritten.

use super::FoldBounds;
use super::event::{EventContent, HeldEvent};
use crate::shares::{Producer, ProducerShares};
use crate::{Chunk, ChunkHeader};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use syscollect_model::Ticks;

/// Programs of which it is known when they ended: the last ones.
const MOST_ENDED: usize = 1 << 16;

/// What such events left behind: folded, or still as they came.
#[derive(Default)]
pub(super) struct OverwrittenEvents {
    /// What is left of those that were folded.
    folded: Vec<Arc<Chunk>>,
    folded_bytes: usize,
    /// What gave way since.
    arrived: VecDeque<OverwrittenEvent>,
    /// What producers have of that.
    shares: ProducerShares,
    arrived_bytes: usize,
    ended: VecDeque<EndedProgram>,
}

struct OverwrittenEvent {
    producer: Option<Producer>,
    content: EventContent,
}

/// An instrumented program, and what was recorded last when it was found to have ended.
struct EndedProgram {
    program: u32,
    at: Ticks,
}

impl OverwrittenEvents {
    /// Takes what gave way, of which `most` bytes may wait for being folded. What has no room then:
    /// the oldest of the program that has most, of the user who has most.
    pub(super) fn push(&mut self, victim: &HeldEvent, most: usize) -> Vec<ChunkHeader> {
        let HeldEvent { producer, content, .. } = victim;
        let (producer, content) = (*producer, content.clone());
        self.arrived_bytes += content.size();
        producer.into_iter().for_each(|producer| self.shares.add(producer, content.size()));
        self.arrived.push_back(OverwrittenEvent { producer, content });
        let mut gone = Vec::new();
        while self.arrived_bytes > most
            && let Some(content) = self.remove(self.next_to_go())
        {
            gone.push(*content.header());
        }
        gone
    }

    fn next_to_go(&self) -> usize {
        let largest = self.shares.largest();
        self.arrived.iter().position(|event| event.producer == largest).unwrap_or(0)
    }

    fn remove(&mut self, place: usize) -> Option<EventContent> {
        let OverwrittenEvent { producer, content } = self.arrived.remove(place)?;
        self.arrived_bytes -= content.size();
        producer.into_iter().for_each(|producer| self.shares.remove(producer, content.size()));
        Some(content)
    }

    /// What is to be folded next: all that was, and the first of what was not, of which so many
    /// bytes are unpacked.
    pub(super) fn take_part(&mut self, most: usize) -> Vec<EventContent> {
        self.folded_bytes = 0;
        let folded = std::mem::take(&mut self.folded).into_iter().map(EventContent::Raw);
        let (mut part, mut bytes) = (folded.collect::<Vec<_>>(), 0);
        while bytes < most
            && let Some(content) = self.remove(0)
        {
            bytes += content.header().length as usize;
            part.push(content);
        }
        part
    }

    /// What folding has left; nothing else was folded meanwhile.
    pub(super) fn give_back(&mut self, folded: Vec<Chunk>) {
        self.folded_bytes = folded.iter().map(super::event::size_of_chunk).sum();
        self.folded = folded.into_iter().map(Arc::new).collect();
    }

    /// What is left when all is at its end, where all was folded.
    pub(super) fn pop(&mut self) -> Option<Arc<Chunk>> {
        let chunk = if self.folded.is_empty() { None } else { Some(self.folded.remove(0)) }?;
        self.folded_bytes -= super::event::size_of_chunk(&chunk);
        Some(chunk)
    }

    /// All of it, in the order in which it came.
    pub(super) fn all(&self) -> Vec<EventContent> {
        let folded = self.folded.iter().map(|chunk| EventContent::Raw(Arc::clone(chunk)));
        folded.chain(self.arrived.iter().map(|event| event.content.clone())).collect()
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.folded_bytes + self.arrived_bytes
    }

    /// Bytes of what was not folded yet.
    pub(super) fn unfolded(&self) -> usize {
        self.arrived_bytes
    }

    /// A program has ended; what was recorded last is from then.
    pub(super) fn program_ended(&mut self, program: u32, at: Ticks) {
        if self.ended.len() >= MOST_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(EndedProgram { program, at });
    }

    /// How events are to be folded of which `oldest` is the oldest that is held.
    pub(super) fn bounds(&self, oldest: Ticks, room: usize) -> FoldBounds {
        let before = self.ended.iter().filter(|ended| ended.at < oldest);
        let ended: BTreeSet<u32> = before.map(|ended| ended.program).collect();
        FoldBounds { oldest, room, ended }
    }
}
