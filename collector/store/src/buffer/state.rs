//! What a buffer holds, and who gives way in it.

use super::definitions::{KeptDefinitions, RetainedDefinitions};
use super::event::{EventContent, HeldEvent, HeldEvents, size_of_chunk};
use super::overwritten::OverwrittenEvents;
use super::snapshot::{BufferSnapshot, OpenSnapshots, SharedContent, SharedEvent};
use super::{
    BufferMode, FoldBounds, PART_OF_SNAPSHOTS, PART_OF_STACKS, PART_OF_UNFOLDED, Popped, allowance,
    kept_bytes, state_bytes, unfolded_bytes,
};
use crate::kept_stacks::KeptStacks;
use crate::shares::Producer;
use crate::{Chunk, ChunkHeader, LaneEnd};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use syscollect_model::{Lane, LaneClock, LossCause, Ticks};

/// Records that were lost, by lane and cause.
pub(super) type Losses = BTreeMap<(Lane, LossCause), u64>;

#[derive(Default)]
pub(super) struct BufferState {
    pub(super) events: HeldEvents,
    definitions: VecDeque<Chunk>,
    /// Bytes of `definitions`, and of those that are stacks.
    definition_bytes: usize,
    held_stacks: usize,
    /// Stacks that wait for the end, when overwriting.
    pub(super) stacks: KeptStacks,
    /// The generation of stacks that events refer to which come now.
    pub(super) generation: u64,
    pub(super) kept: KeptDefinitions,
    /// What events that gave way left behind.
    pub(super) overwritten: OverwrittenEvents,
    /// Bytes of these that may wait for being folded; `None` where nobody folds them.
    pub(super) most_unfolded: Option<usize>,
    /// Definitions for snapshots.
    pub(super) retained: RetainedDefinitions,
    /// Those that are being written.
    pub(super) snapshots: OpenSnapshots,
    /// Whether events gave way before their time, because there was no room.
    pub(super) is_short: bool,
    /// Ticks of the newest record that was pushed, as far as kernel programs stamp it.
    pub(super) newest: Ticks,
    pub(super) closed: bool,
    pub(super) losses: Losses,
    pub(super) ends: BTreeMap<Lane, LaneEnd>,
}

impl BufferState {
    /// Bytes of the buffer's size that are taken.
    pub(super) fn taken(&self) -> usize {
        self.events.bytes() + self.definition_bytes + self.stacks.bytes()
    }

    /// What came longer than `span` before `now` gives way.
    pub(super) fn expire(&mut self, now: Instant, span: Duration, limit: usize) {
        while self
            .events
            .oldest()
            .is_some_and(|event| now.saturating_duration_since(event.came) > span)
            && let Some(oldest) = self.events.pop_oldest()
        {
            self.overwrite(&oldest, limit);
        }
    }

    pub(super) fn push_event(&mut self, event: HeldEvent, limit: usize, mode: BufferMode) {
        let size = event.content.size();
        if mode == BufferMode::Overwrite && size <= limit {
            while self.taken() + size > limit
                && let Some(victim) = self.pop_for_event(limit)
            {
                self.is_short = true;
                self.overwrite(&victim, limit);
            }
        }
        if self.taken() + size > limit
            || event.producer.is_some_and(|producer| {
                mode == BufferMode::Discard && !self.is_within_share(producer, size, limit)
            })
        {
            let cause = if mode == BufferMode::Overwrite {
                LossCause::Overwritten
            } else {
                LossCause::BufferFull
            };
            return self.lose(event.content.header(), cause);
        }
        self.events.push(event);
    }

    /// Whether so much more of that program may be in here: no user has more than is still free,
    /// and no program more than its user may still have, so that those that write without end leave
    /// room for the others.
    pub(super) fn is_within_share(&self, producer: Producer, size: usize, limit: usize) -> bool {
        let free = (limit - limit / 8).saturating_sub(self.taken());
        let left_to_user = free.saturating_sub(self.events.shares().of_user(producer.user));
        self.events.shares().of_program(producer) + size <= left_to_user
    }

    /// What makes room for an event when overwriting.
    fn pop_for_event(&mut self, limit: usize) -> Option<HeldEvent> {
        let shares = self.events.shares();
        let most = shares.largest().filter(|_| shares.of_all() > limit / 2);
        most.and_then(|most| self.events.pop_oldest_of(most)).or_else(|| self.events.pop_oldest())
    }

    /// What makes room for a definition: the newest chunk of the program that has most in here, if
    /// there is one, else the newest of all.
    fn pop_for_definition(&mut self) -> Option<HeldEvent> {
        let most = self.events.shares().largest();
        most.and_then(|most| self.events.pop_newest_of(most)).or_else(|| self.events.pop_newest())
    }

    /// Definitions make room for themselves: events yield as for any other chunk.
    pub(super) fn push_definition(&mut self, chunk: Chunk, limit: usize, mode: BufferMode) {
        let size = size_of_chunk(&chunk);
        let is_stack = chunk.header.lane.kind.is_stack();
        if is_stack && self.held_stacks + size > limit / PART_OF_STACKS {
            return self.lose(&chunk.header, LossCause::BufferFull);
        }
        while self.taken() + size > limit {
            let victim = match mode {
                BufferMode::Discard => self.pop_for_definition(),
                BufferMode::Overwrite => self.events.pop_oldest(),
            };
            let Some(victim) = victim else { break };
            self.is_short = true;
            match mode {
                BufferMode::Discard => self.lose(victim.content.header(), LossCause::BufferFull),
                BufferMode::Overwrite => self.overwrite(&victim, limit),
            }
        }
        if self.taken() + size > limit.saturating_add(allowance(limit)) {
            return self.lose(&chunk.header, LossCause::BufferFull);
        }
        self.definition_bytes += size;
        self.held_stacks += if is_stack { size } else { 0 };
        self.definitions.push_back(chunk);
    }

    /// Keeps stacks for the end: those give way that no event needs, then others, then events.
    pub(super) fn keep_stacks(&mut self, chunk: &Chunk, limit: usize) {
        let lane = chunk.header.lane;
        let unreadable = self.stacks.add(chunk);
        self.lose_records(lane, LossCause::Damaged, unreadable);
        let (part, before) = (limit / PART_OF_STACKS, self.stacks.bytes());
        if self.stacks.bytes() > part {
            let needed = self.needed_generation();
            for gone in self.stacks.drop_before(needed) {
                self.lose_records(gone.lane, LossCause::Overwritten, gone.records);
            }
        }
        while self.stacks.bytes() > part
            && let Some(gone) = self.stacks.give_way()
        {
            for gone in gone {
                self.lose_records(gone.lane, LossCause::Overwritten, gone.records);
            }
        }
        let gone = before.saturating_sub(self.stacks.bytes());
        if gone > 0 {
            self.snapshots.give_up_stacks(gone, limit / PART_OF_SNAPSHOTS);
        }
        while self.taken() > limit
            && let Some(victim) = self.events.pop_oldest()
        {
            self.is_short = true;
            self.overwrite(&victim, limit);
        }
    }

    /// An event makes room for others.
    fn overwrite(&mut self, victim: &HeldEvent, limit: usize) {
        self.snapshots.give_up_event(victim.number, limit / PART_OF_SNAPSHOTS);
        let header = *victim.content.header();
        match self.most_unfolded.filter(|_| header.lane.kind.traits().leaves_state) {
            Some(most) => {
                let gone = self.overwritten.push(victim, most);
                gone.iter().for_each(|header| self.lose(header, LossCause::Overwritten));
            }
            None => self.lose(&header, LossCause::Overwritten),
        }
    }

    /// The oldest generation of stacks that an event may refer to.
    fn needed_generation(&self) -> u64 {
        self.events.oldest().map_or(self.generation, |event| event.generation)
    }

    pub(super) fn take(&mut self, events: bool) -> Option<Popped> {
        if let Some(chunk) = self.definitions.pop_front() {
            let size = size_of_chunk(&chunk);
            self.definition_bytes -= size;
            self.held_stacks -= if chunk.header.lane.kind.is_stack() { size } else { 0 };
            return Some(Popped::Chunk(chunk));
        }
        if self.closed
            && let Some(chunk) = self.take_at_end()
        {
            return Some(Popped::Chunk(chunk));
        }
        if !events {
            return None;
        }
        Some(match self.events.pop_oldest()?.content {
            EventContent::Raw(chunk) => Popped::Chunk(Arc::unwrap_or_clone(chunk)),
            EventContent::Encoded(chunk) => Popped::Encoded(chunk),
        })
    }

    /// The next of what waited for the end, beside events.
    fn take_at_end(&mut self) -> Option<Chunk> {
        let chunk = self.kept.pop().or_else(|| self.stacks.next_chunk());
        chunk.or_else(|| self.overwritten.pop().map(Arc::unwrap_or_clone))
    }

    /// Keeps a definition for the end; others give way.
    pub(super) fn keep(&mut self, chunk: Chunk, limit: usize) {
        self.kept.push(chunk);
        self.limit_kept(limit);
    }

    /// What was folded goes before what came meanwhile.
    pub(super) fn give_back(&mut self, chunks: Vec<Chunk>, limit: usize) {
        self.kept.give_back(chunks);
        self.limit_kept(limit);
    }

    fn limit_kept(&mut self, limit: usize) {
        while self.kept.bytes() > limit
            && let Some(chunk) = self.kept.give_way()
        {
            self.lose(&chunk.header, LossCause::Overwritten);
        }
    }

    pub(super) fn is_fold_of_definitions_due(&self, limit: usize) -> bool {
        self.kept.unfolded() > if self.closed { 0 } else { kept_bytes(limit) / 8 * 3 }
    }

    pub(super) fn is_fold_of_overwritten_due(&self, limit: usize) -> bool {
        let enough = unfolded_bytes(limit) / PART_OF_UNFOLDED;
        self.overwritten.unfolded() > if self.closed { 0 } else { enough }
    }

    /// How what waits is to be folded into so much room.
    pub(super) fn fold_bounds(&self, room: usize) -> FoldBounds {
        self.overwritten.bounds(self.oldest(), room)
    }

    /// Ticks before which no event is held. What programs stamp does not count.
    pub(super) fn oldest(&self) -> Ticks {
        oldest_of(self.events.iter()).unwrap_or(self.newest)
    }

    pub(super) fn lose(&mut self, header: &ChunkHeader, cause: LossCause) {
        *self.losses.entry((header.lane, cause)).or_default() += u64::from(header.records);
    }

    pub(super) fn lose_records(&mut self, lane: Lane, cause: LossCause, records: u32) {
        if records > 0 {
            *self.losses.entry((lane, cause)).or_default() += u64::from(records);
        }
    }

    /// Keeps a definition for snapshots.
    pub(super) fn retain(&mut self, chunk: &Chunk, limit: usize) {
        let Self { events, newest, .. } = self;
        let oldest = || oldest_of(events.iter()).unwrap_or(*newest);
        let gone = self.retained.add(Arc::new(chunk.clone()), limit, oldest);
        gone.iter().for_each(|header| self.lose(header, LossCause::Overwritten));
    }

    /// What it holds now, of so many bytes at most; of events those that came within `span`.
    pub(super) fn snapshot(&mut self, span: Option<Duration>, limit: usize) -> BufferSnapshot {
        let now = Instant::now();
        let is_wanted = |event: &HeldEvent| {
            span.is_none_or(|span| now.saturating_duration_since(event.came) <= span)
        };
        let mut losses = self.losses.clone();
        let mut lacks = |lane, records: u32| {
            *losses.entry((lane, LossCause::Overwritten)).or_default() += u64::from(records);
        };
        let (mut wanted, mut overwritten) = (Vec::new(), self.overwritten.all());
        for event in self.events.iter() {
            let header = event.content.header();
            if is_wanted(event) {
                wanted.push(event);
            } else if header.lane.kind.traits().leaves_state {
                overwritten.push(event.content.clone());
            } else {
                lacks(header.lane, header.records);
            }
        }
        let generation = wanted.first().map_or(self.generation, |event| event.generation);
        let mut stacks = self.stacks.clone();
        let left_out = stacks.leave_out_before(generation);
        left_out.iter().for_each(|gone| lacks(gone.lane, gone.records));
        let oldest = oldest_of(wanted.iter().copied()).unwrap_or(self.newest);
        let shared = |event: &&HeldEvent| SharedEvent {
            number: event.number,
            content: event.content.clone(),
            is_given_up: false,
        };
        let events = wanted.iter().map(shared).collect();
        let content = SharedContent::new(stacks, events);
        self.snapshots.add(&content);
        BufferSnapshot {
            definitions: self.retained.all(),
            kept: self.kept.iter().cloned().collect(),
            overwritten,
            content,
            bounds: self.overwritten.bounds(oldest, usize::MAX),
            state_room: state_bytes(limit),
            losses,
            ends: self.ends.values().copied().collect(),
        }
    }
}

/// Ticks before which none of these was recorded, as far as kernel programs stamp them.
fn oldest_of<'a>(events: impl Iterator<Item = &'a HeldEvent>) -> Option<Ticks> {
    let headers = events.map(|event| event.content.header());
    headers
        .filter(|header| header.lane.kind.traits().clock != LaneClock::Program)
        .map(|header| header.first)
        .min()
}
