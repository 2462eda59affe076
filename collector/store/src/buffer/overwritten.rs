//! Events that gave way and left a state behind: what a program has open, or said last, began in
//! what was overwritten.

use super::FoldBounds;
use super::event::EventContent;
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
    arrived: VecDeque<EventContent>,
    arrived_bytes: usize,
    ended: VecDeque<EndedProgram>,
}

/// An instrumented program, and what was recorded last when it was found to have ended.
struct EndedProgram {
    program: u32,
    at: Ticks,
}

impl OverwrittenEvents {
    /// Takes what gave way, of which `most` bytes may wait for being folded; what has no room then:
    /// the oldest.
    pub(super) fn push(&mut self, content: EventContent, most: usize) -> Vec<ChunkHeader> {
        self.arrived_bytes += content.size();
        self.arrived.push_back(content);
        let mut gone = Vec::new();
        while self.arrived_bytes > most
            && let Some(oldest) = self.arrived.pop_front()
        {
            self.arrived_bytes -= oldest.size();
            gone.push(*oldest.header());
        }
        gone
    }

    /// All of it, for folding, in the order in which it came.
    pub(super) fn take_all(&mut self) -> Vec<EventContent> {
        (self.folded_bytes, self.arrived_bytes) = (0, 0);
        let folded = std::mem::take(&mut self.folded).into_iter().map(EventContent::Raw);
        folded.chain(std::mem::take(&mut self.arrived)).collect()
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
        folded.chain(self.arrived.iter().cloned()).collect()
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
