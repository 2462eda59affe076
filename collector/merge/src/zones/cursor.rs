//! A thread's lane as groups of items.

use crate::chunk_queue::{ChunkQueue, Decode, LaneGap, Resume};
use crate::zones::lifetimes::{LaneOwners, Lifetimes};
use crate::zones::programs::{ProgramClock, Programs};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;
use syscollect_model::{ClockMap, Lane};
use syscollect_playback::Lifetime;
use syscollect_playback::order::Cursor;
use syscollect_records::ZoneChunk;
use syscollect_zone_protocol::{is_stamped, item_words};

/// What a lane gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ZoneRecord {
    /// Comes before the first group of every chunk: whose items follow, and
    /// what is missing before them. Rare, and boxed so that the others stay small.
    Chunk(Box<(ZoneChunk, LaneGap)>),
    /// A group of that many items, in [`ZoneCursor::group`].
    Group(u32),
}

/// What is known of the programs whose lanes are read.
#[derive(Clone, Copy)]
pub(crate) struct Programmed<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) lifetimes: &'a Lifetimes,
    pub(crate) map: &'a Arc<ClockMap>,
    /// Who writes to each lane, if that is known already.
    pub(crate) owners: Option<&'a FxHashMap<Lane, LaneOwners>>,
}

/// The items of one lane, in the order they were written, in groups: a stamped
/// item and those without a stamp behind it. A group without a stamped item at
/// its front says more of what came before.
///
/// Ticks of one thread never fall, and lie within its lifetime: what it claims can
/// not keep back those that have the lane after it. Items that lie outside the
/// recording are counted, not given.
///
/// It waits at the end of each chunk: to decode the next, [`Programmed`] must be known.
pub(crate) struct ZoneCursor {
    lane: Lane,
    queue: ChunkQueue,
    owner: LaneOwner,
    groups: Groups,
    /// Ticks of the next group; while it waits, the least that these may be.
    head: Option<u64>,
    waiting: bool,
    start: Option<Box<(ZoneChunk, LaneGap)>>,
    /// The words of the group that was taken last.
    group: Vec<u64>,
}

impl ZoneCursor {
    pub(crate) fn new(lane: Lane) -> Self {
        Self {
            lane,
            queue: ChunkQueue::default(),
            owner: LaneOwner::default(),
            groups: Groups::default(),
            head: Some(0),
            waiting: true,
            start: None,
            group: Vec::new(),
        }
    }

    /// How many others wrote to the lane before the present owner, and the lifetime of this one.
    pub(crate) fn present_owner(&self) -> (usize, Lifetime) {
        (self.owner.before, self.owner.lifetime.unwrap_or(Lifetime::UNKNOWN))
    }

    /// The words of the group that was taken last.
    pub(crate) fn group(&self) -> &[u64] {
        &self.group
    }

    /// Goes to the next chunk that holds a group; those so far were of up to `last`.
    #[cold]
    fn next_chunk(&mut self, last: u64, programs: Programmed<'_>) {
        self.waiting = false;
        while let Some((header, missing)) = self.queue.take(&mut self.groups.data) {
            let Some(chunk) = self.groups.begin(header.records) else { continue };
            let clock = programs.programs.clock(chunk.client, programs.map);
            self.owner.write(&chunk, clock, header.first.0);
            self.find_head();
            if let Some(head) = self.head {
                let lifetime = self.owner.life_from(head, self.lane, programs);
                self.head = Some(lifetime.limit(head));
                self.start = Some(Box::new((chunk, missing)));
                return;
            }
        }
        self.wait(last);
    }

    /// Waits for the next chunk, if any comes.
    fn wait(&mut self, last: u64) {
        self.groups.data = Vec::new();
        self.waiting = !self.queue.is_at_end();
        self.head = self.waiting.then(|| last.max(self.queue.not_before()));
    }

    /// Finds the group behind the present one.
    #[inline]
    fn find_head(&mut self) {
        self.head = None;
        while let Some(first) = self.groups.advance() {
            self.head = self.owner.ticks(first);
            if self.head.is_some() {
                return;
            }
            self.groups.undecodable += u64::from(self.groups.items);
        }
    }
}

/// Whose items come, and when.
#[derive(Default)]
struct LaneOwner {
    /// Client, thread id and number of whose chunk it is.
    key: Option<(u32, u32, u32)>,
    /// How many others there were before, and the lifetime of this one.
    before: usize,
    lifetime: Option<Lifetime>,
    /// Of its program; `None` before the first chunk.
    clock: Option<ProgramClock>,
    /// Ticks of its last group; 0 before the first.
    last: u64,
    /// When the chunk begins, for what stands before the first stamped item.
    about: u64,
}

impl LaneOwner {
    /// The owner of a chunk that begins at `first`, by the program's clock. If that is another than
    /// of the chunk before, time begins anew.
    fn write(&mut self, chunk: &ZoneChunk, clock: ProgramClock, first: u64) {
        let key = (chunk.client, chunk.tid, chunk.owner);
        if self.key != Some(key) {
            self.before += usize::from(self.lifetime.take().is_some());
            (self.key, self.last) = (Some(key), 0);
        }
        self.about = clock.limit(clock.anywhere(first).unwrap_or_default());
        self.clock = Some(clock);
    }

    /// Its lifetime, of which something is reported at `ticks`.
    fn life_from(&mut self, ticks: u64, lane: Lane, programs: Programmed<'_>) -> Lifetime {
        let owners = programs.owners.and_then(|owners| owners.get(&lane));
        let known = owners.and_then(|owners| owners.lifetime(self.before));
        let tid = self.key.map_or(0, |(_, tid, _)| tid);
        *self
            .lifetime
            .get_or_insert_with(|| known.unwrap_or_else(|| programs.lifetimes.at(tid, ticks)))
    }

    /// When a group happened that begins with this word; `None` where that is outside the
    /// recording.
    #[inline]
    fn ticks(&self, first: u64) -> Option<u64> {
        let ticks = match is_stamped(first) {
            true => self.clock.as_ref()?.within(first >> 8)?,
            false if self.last == 0 => self.about,
            false => self.last,
        };
        Some(self.lifetime.map_or(ticks, |lifetime| lifetime.limit(ticks)).max(self.last))
    }
}

/// A chunk's items, in groups.
#[derive(Default)]
struct Groups {
    data: Vec<u8>,
    /// Where the present group lies in `data`, and how many items it has.
    present: Range<usize>,
    items: u32,
    /// Items that the chunk's header counts and that were not seen yet.
    left: u64,
    /// Items that mean nothing here.
    undecodable: u64,
}

impl Groups {
    /// Begins with `data` as the chunk, of which that many items are said; `None` if it is no
    /// program's.
    fn begin(&mut self, items: u32) -> Option<ZoneChunk> {
        let chunk = ZoneChunk::from_bytes(&self.data);
        if chunk.is_none() {
            self.undecodable += u64::from(items.max(1));
        }
        (self.left, self.present) = (items.into(), 0..ZoneChunk::SIZE);
        chunk
    }

    /// The words of the present group.
    fn words(&self) -> impl Iterator<Item = u64> {
        let (words, _) = self.data[self.present.clone()].as_chunks::<8>();
        words.iter().map(|word| u64::from_le_bytes(*word))
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.data.get(at..)?.first_chunk()?))
    }

    /// Goes to the next group: its first word.
    #[inline]
    fn advance(&mut self) -> Option<u64> {
        let at = self.present.end;
        if at >= self.data.len() {
            return None;
        }
        let group = self.word(at).and_then(|first| Some((first, self.end_of_group(at, first)?)));
        let Some((first, (end, items))) = group else {
            self.rest_is_unknown();
            return None;
        };
        self.left = self.left.saturating_sub(items.into());
        (self.present, self.items) = (at..end, items);
        Some(first)
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
        self.present.end = self.data.len();
    }
}

impl Decode for ZoneCursor {
    fn lane(&self) -> Lane {
        self.lane
    }

    fn queue(&self) -> &ChunkQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut ChunkQueue {
        &mut self.queue
    }

    /// Items that mean nothing here, or lie outside the recording.
    fn undecodable(&self) -> u64 {
        self.groups.undecodable
    }
}

impl Resume for ZoneCursor {
    type Context<'c> = Programmed<'c>;

    fn resume(&mut self, programs: Programmed<'_>) {
        if self.waiting {
            self.next_chunk(self.head.unwrap_or_default(), programs);
        }
    }
}

impl Cursor for ZoneCursor {
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
        self.group.extend(self.groups.words());
        let items = self.groups.items;
        self.owner.last = self.head.unwrap_or(self.owner.last);
        self.find_head();
        if self.head.is_none() {
            self.wait(self.owner.last);
        }
        ZoneRecord::Group(items)
    }
}
