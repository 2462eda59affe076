//! A thread's lane as groups of items.

use crate::chunk_queue::{ChunkQueue, Decode, Missing};
use crate::zones::lifetimes::{Lifetime, Lifetimes, Owners};
use crate::zones::programs::{ProgramClock, Programs};
use std::ops::Range;
use syscollect_model::{ClockMap, Lane};
use syscollect_playback::order::Cursor;
use syscollect_records::ZoneChunk;
use syscollect_zone_protocol::{is_stamped, item_words};

/// What a lane gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ZoneRecord {
    /// Comes before the first group of every chunk: whose items follow, and
    /// what is missing before them. Rare, and boxed so that the others stay small.
    Chunk(Box<(ZoneChunk, Missing)>),
    /// A group of that many items, in [`ZoneCursor::group`].
    Group(u32),
}

/// The items of one lane, in the order they were written, in groups: a stamped
/// item and those without a stamp behind it. A group without a stamped item at
/// its front says more of what came before.
///
/// Ticks of one thread never fall, and lie within its life: what it claims can
/// not keep back those that have the lane after it. Items that lie outside the
/// recording are counted, not given.
pub(crate) struct ZoneCursor<'a> {
    lane: Lane,
    queue: ChunkQueue,
    programs: &'a Programs,
    lifetimes: &'a Lifetimes,
    /// Who writes to the lane, if that is known already.
    owners: Option<&'a Owners>,
    map: &'a ClockMap,
    data: Vec<u8>,
    clock: ProgramClock<'a>,
    /// Client, thread id and number of whose chunk it is.
    owner: Option<(u32, u32, u32)>,
    /// How many there were before, and the life of this one.
    owners_before: usize,
    life: Option<Lifetime>,
    /// Items that the chunk's header counts and that were not seen yet.
    left: u64,
    /// Ticks of the last group of the same owner; 0 before the first.
    last: u64,
    /// When the chunk begins, for what stands before the first stamped item.
    about: u64,
    /// Ticks of the next group, and where it lies in `data`; while it waits, the least ticks.
    head: Option<u64>,
    waiting: bool,
    next: Range<usize>,
    items: u32,
    start: Option<Box<(ZoneChunk, Missing)>>,
    group: Vec<u64>,
    undecodable: u64,
}

impl<'a> ZoneCursor<'a> {
    pub(crate) fn new(
        lane: Lane,
        (programs, lifetimes): (&'a Programs, &'a Lifetimes),
        owners: Option<&'a Owners>,
        map: &'a ClockMap,
    ) -> Self {
        Self {
            lane,
            queue: ChunkQueue::default(),
            programs,
            lifetimes,
            owners,
            map,
            data: Vec::new(),
            clock: programs.clock(0, map),
            owner: None,
            owners_before: 0,
            life: None,
            left: 0,
            last: 0,
            about: 0,
            head: Some(0),
            waiting: true,
            next: 0..0,
            items: 0,
            start: None,
            group: Vec::new(),
            undecodable: 0,
        }
    }

    /// How many others wrote to the lane before the present owner, and the life of this one.
    pub(crate) fn present_owner(&self) -> (usize, Lifetime) {
        (self.owners_before, self.life.unwrap_or(Lifetime::UNKNOWN))
    }

    /// The words of the group that was taken last.
    pub(crate) fn group(&self) -> &[u64] {
        &self.group
    }

    /// Goes to the next chunk that holds a group; those so far were of up to `last`.
    #[cold]
    fn next_chunk(&mut self, last: u64) {
        self.waiting = false;
        while let Some((header, missing)) = self.queue.take(&mut self.data) {
            let Some(chunk) = ZoneChunk::from_bytes(&self.data) else {
                self.undecodable += u64::from(header.records.max(1));
                continue;
            };
            self.clock = self.programs.clock(chunk.client, self.map);
            self.begin_owner(&chunk);
            // The header's ticks are the program's.
            self.about = self.clock.limit(self.clock.anywhere(header.first.0).unwrap_or_default());
            (self.left, self.next) = (header.records.into(), 0..ZoneChunk::SIZE);
            self.find_head();
            if let Some(head) = self.head {
                self.head = Some(self.life_from(chunk.tid, head).limit(head));
                self.start = Some(Box::new((chunk, missing)));
                return;
            }
        }
        self.data = Vec::new();
        self.waiting = !self.queue.is_at_end();
        self.head = self.waiting.then(|| last.max(self.queue.not_before()));
    }

    /// If the chunk is another's than the one before: time begins anew.
    fn begin_owner(&mut self, chunk: &ZoneChunk) {
        let owner = (chunk.client, chunk.tid, chunk.owner);
        if self.owner != Some(owner) {
            self.owners_before += usize::from(self.life.take().is_some());
            (self.owner, self.last) = (Some(owner), 0);
        }
    }

    /// The life of the present owner, of which something is told at `ticks`.
    fn life_from(&mut self, tid: u32, ticks: u64) -> Lifetime {
        let known = self.owners.and_then(|owners| owners.life(self.owners_before));
        *self.life.get_or_insert_with(|| known.unwrap_or_else(|| self.lifetimes.at(tid, ticks)))
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.data.get(at..)?.first_chunk()?))
    }

    /// Finds the group behind the present one.
    #[inline]
    fn find_head(&mut self) {
        self.head = None;
        let mut at = self.next.end;
        while at < self.data.len() {
            let Some(first) = self.word(at) else { return self.rest_is_unknown() };
            let ticks = match is_stamped(first) {
                true => self.clock.within(first >> 8),
                false => Some(if self.last == 0 { self.about } else { self.last }),
            };
            let Some((end, items)) = self.end_of_group(at, first) else {
                return self.rest_is_unknown();
            };
            self.left = self.left.saturating_sub(items.into());
            if let Some(ticks) = ticks {
                (self.next, self.items) = (at..end, items);
                let limited = self.life.map_or(ticks, |life| life.limit(ticks));
                self.head = Some(limited.max(self.last));
                return;
            }
            self.undecodable += u64::from(items);
            at = end;
        }
    }

    /// Where the group ends whose first item is at `at`, and how many items it
    /// has; `None` when there is no item. What stops a group later on is found when it is its turn.
    #[inline]
    fn end_of_group(&self, at: usize, first: u64) -> Option<(usize, u32)> {
        let mut items = 1;
        let mut end = at + item_words(first)? * 8;
        if end > self.data.len() {
            return None;
        }
        while let Some(next) = self.word(end) {
            if is_stamped(next) {
                break;
            }
            match item_words(next)
                .map(|words| end + words * 8)
                .filter(|next| *next <= self.data.len())
            {
                Some(next) => (end, items) = (next, items + 1),
                None => break,
            }
        }
        Some((end, items))
    }

    /// An item of unknown length hides all that follow it in the chunk.
    #[cold]
    fn rest_is_unknown(&mut self) {
        self.undecodable += self.left.max(1);
        self.left = 0;
        self.next.end = self.data.len();
    }
}

impl Decode for ZoneCursor<'_> {
    fn lane(&self) -> Lane {
        self.lane
    }

    fn queue(&self) -> &ChunkQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut ChunkQueue {
        &mut self.queue
    }

    fn resume(&mut self) {
        if self.waiting {
            self.next_chunk(self.head.unwrap_or_default());
        }
    }

    /// Items that mean nothing here, or lie outside the recording.
    fn undecodable(&self) -> u64 {
        self.undecodable
    }
}

impl Cursor for ZoneCursor<'_> {
    type Key = u64;
    type Item = ZoneRecord;

    #[inline]
    fn key(&self) -> Option<u64> {
        self.head
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        self.waiting
    }

    #[inline]
    fn take(&mut self) -> ZoneRecord {
        if let Some(start) = self.start.take() {
            return ZoneRecord::Chunk(start);
        }
        self.group.clear();
        let (words, _) = self.data[self.next.clone()].as_chunks::<8>();
        self.group.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        self.last = self.head.unwrap_or(self.last);
        let items = self.items;
        self.find_head();
        if self.head.is_none() {
            self.next_chunk(self.last);
        }
        ZoneRecord::Group(items)
    }
}
