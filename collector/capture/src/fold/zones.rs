//! What instrumented programs wrote comes to what they have open, and to what they said last, when
//! it is overwritten: zones that did not end, locks that are held or waited for, frames that go on,
//! the last values of plots, names of threads, what the clocks of GPUs were last.
//!
//! What is left is a selection of the items as they were written, so whoever reads it needs nothing
//! new, and folding what was folded before changes nothing. Each user has a share of the room for
//! it, and so has each of the user's programs; beyond it the oldest goes.

mod kept;
mod program;
mod said;
mod thread;

use std::collections::BTreeMap;

use kept::{GroupPlace, KeptGroup};
use program::ProgramItems;
use rustc_hash::FxHashMap;
use said::{SaidAttributes, Subject};
use syscollect_model::{Lane, Ticks};
use syscollect_records::{Stamp, ZoneChunk};
use syscollect_store::{Chunk, ChunkHeader, Fold, FoldBounds, UserOf};
use syscollect_zone_protocol::{Event, GpuEvent, Item, ItemKind, is_stamped, item_words};
use thread::ThreadItems;

use super::number_backwards;

/// Bytes of the chunks that remain, about.
const CHUNK_BYTES: usize = 256 << 10;
/// Threads of a program of which it is asked whose they are.
const MOST_ASKED: usize = 8;

/// Folds lanes of zones.
#[derive(Debug)]
pub(crate) struct ZoneFold {
    user_of: UserOf,
}

impl ZoneFold {
    /// One that asks whose the threads are, where there is too much.
    pub(crate) fn new(user_of: UserOf) -> Self {
        Self { user_of }
    }
}

impl Fold for ZoneFold {
    fn fold(&mut self, chunks: Vec<Chunk>, bounds: &FoldBounds) -> Vec<Chunk> {
        let mut items = OpenItems::default();
        chunks.iter().for_each(|chunk| items.read(chunk));
        items.finish(bounds, self.user_of)
    }
}

/// What is open of all programs, as far as chunks were read.
#[derive(Default)]
struct OpenItems {
    lanes: BTreeMap<Lane, LaneItems>,
    programs: FxHashMap<u32, ProgramItems>,
    /// Groups that were read.
    groups: u64,
    words: Vec<u64>,
}

/// What was read of a lane.
struct LaneItems {
    /// Of its last chunk.
    last: ChunkHeader,
    /// Whose items it has, one after the other.
    writers: Vec<LaneWriter>,
    /// What is open of the last of them.
    thread: ThreadItems,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct LaneWriter {
    client: u32,
    tid: u32,
    /// The number that the lane counts it by.
    owner: u32,
}

/// A group of items: one with a stamp and what is said of it, or what is said of what came before.
#[derive(Clone, Copy)]
struct Group<'a> {
    place: GroupPlace,
    item: &'a [u64],
    said: SaidAttributes<'a>,
}

impl Group<'_> {
    /// The item, and of its attributes those that are about it.
    fn kept(&self) -> KeptGroup {
        let about = self.said.each().filter(|(subject, _)| *subject == Subject::Event);
        let mut words = self.item.to_vec();
        about.for_each(|(_, attribute)| words.extend_from_slice(attribute));
        KeptGroup { place: self.place, words }
    }
}

impl OpenItems {
    fn read(&mut self, chunk: &Chunk) {
        let Some(prefix) = ZoneChunk::from_bytes(&chunk.data) else { return };
        let ZoneChunk { client, tid, owner, .. } = prefix;
        let writer = LaneWriter { client, tid, owner };
        let lane = self.lanes.entry(chunk.header.lane).or_insert_with(|| LaneItems {
            last: chunk.header,
            writers: Vec::new(),
            thread: ThreadItems::default(),
        });
        lane.last = chunk.header;
        if lane.writers.last() != Some(&writer) {
            lane.writers.push(writer);
            lane.thread = ThreadItems::default();
        }
        let program = self.programs.entry(client).or_default();
        let (words, _) = chunk.data[ZoneChunk::SIZE..].as_chunks::<8>();
        self.words.clear();
        self.words.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        let (first, writer) = (chunk.header.first.0, lane.writers.len() as u32 - 1);
        let mut place =
            GroupPlace { lane: chunk.header.lane, writer, number: self.groups, ticks: first };
        let mut rest = &self.words[..];
        while let Some((item, attributes, after)) = next_group(rest) {
            place.number += 1;
            if is_stamped(item[0]) {
                place.ticks = Stamp(item[0]).ticks_near(first);
            }
            program.newest = program.newest.max(place.ticks);
            let said = SaidAttributes { words: attributes, is_marker: is_marker(item[0]) };
            apply(Group { place, item, said }, &mut lane.thread, program);
            rest = after;
        }
        self.groups = place.number;
    }

    /// What is left of it.
    fn finish(mut self, bounds: &FoldBounds, user_of: UserOf) -> Vec<Chunk> {
        self.programs.retain(|client, _| !bounds.ended.contains(client));
        let mut kept = FxHashMap::<u32, Vec<KeptGroup>>::default();
        for (client, program) in &mut self.programs {
            let lanes = &self.lanes;
            let is_there = |place: GroupPlace| {
                lanes.get(&place.lane).is_some_and(|lane| lane.has_thread(place.writer))
            };
            kept.insert(*client, program.take(is_there));
        }
        for (lane, items) in &mut self.lanes {
            let number = items.writers.len().saturating_sub(1) as u32;
            let client = items.writers.last().map_or(0, |writer| writer.client);
            if let Some(kept) = kept.get_mut(&client) {
                kept.extend(items.thread.take(*lane, number));
            }
        }
        kept::limit(&mut kept, bounds.room, || self.users(user_of));
        let mut by_lane = BTreeMap::<Lane, Vec<KeptGroup>>::new();
        for group in kept.into_values().flatten() {
            by_lane.entry(group.place.lane).or_default().push(group);
        }
        let chunks = by_lane.into_iter().filter_map(|(lane, mut groups)| {
            groups.sort_unstable_by_key(|group| (group.place.writer, group.place.number));
            Some(self.lanes.get(&lane)?.chunks(&groups))
        });
        chunks.flatten().collect()
    }

    /// Whose programs they are, as far as one of the threads that wrote last still runs.
    fn users(&self, user_of: UserOf) -> FxHashMap<u32, u32> {
        let (mut users, mut asked) = (FxHashMap::default(), FxHashMap::<u32, usize>::default());
        for LaneWriter { client, tid, .. } in
            self.lanes.values().filter_map(|lane| lane.writers.last())
        {
            let asked = asked.entry(*client).or_default();
            if *asked < MOST_ASKED && !users.contains_key(client) {
                *asked += 1;
                user_of(*tid).map(|user| users.insert(*client, user));
            }
        }
        users
    }
}

impl LaneItems {
    /// Whether that writer is the lane's thread and has not ended.
    fn has_thread(&self, writer: u32) -> bool {
        writer as usize + 1 == self.writers.len() && !self.thread.has_ended()
    }

    /// Chunks of these groups, in their order, that come right before what follows the lane's last
    /// chunk.
    fn chunks(&self, groups: &[KeptGroup]) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut written = None;
        for group in groups {
            let is_another = written != Some(group.place.writer)
                || chunks.last().is_none_or(|chunk| chunk.data.len() >= CHUNK_BYTES);
            if is_another {
                written = Some(group.place.writer);
                let writer = self.writers[group.place.writer as usize];
                let LaneWriter { client, tid, owner } = writer;
                let prefix = ZoneChunk { client, tid, owner, reserved: 0 };
                let first = Ticks(group.place.ticks);
                let header =
                    ChunkHeader { current_tid: tid, records: 0, first, last: first, ..self.last };
                chunks.push(Chunk { header, data: prefix.as_bytes().to_vec() });
            }
            let Some(Chunk { header, data }) = chunks.last_mut() else { continue };
            data.extend(group.words.iter().flat_map(|word| word.to_le_bytes()));
            header.records += items(&group.words);
            header.length = data.len() as u32;
            header.first = header.first.min(Ticks(group.place.ticks));
            header.last = header.last.max(Ticks(group.place.ticks));
        }
        let end = super::end_of(&self.last);
        if let Some(last) = chunks.last_mut() {
            last.header.records_before = end.saturating_sub(u64::from(last.header.records));
        }
        number_backwards(&mut chunks);
        chunks
    }
}

/// The group at the beginning of these words: its first item, its other items, and what comes
/// behind it. `None` at their end, and where no item is.
fn next_group(words: &[u64]) -> Option<(&[u64], &[u64], &[u64])> {
    let (item, mut rest) = words.split_at_checked(item_words(*words.first()?)?)?;
    let attributes = rest;
    let mut length = 0;
    while let Some(first) = rest.first().filter(|first| !is_stamped(**first))
        && let Some((attribute, after)) =
            item_words(*first).and_then(|words| rest.split_at_checked(words))
    {
        length += attribute.len();
        rest = after;
    }
    Some((item, &attributes[..length], rest))
}

/// How many items these are.
fn items(words: &[u64]) -> u32 {
    let (mut rest, mut items) = (words, 0);
    while let Some(after) = rest.first().and_then(|first| rest.get(item_words(*first)?..)) {
        (rest, items) = (after, items + 1);
    }
    items
}

/// Whether an item that begins with this word is a marker.
fn is_marker(first: u64) -> bool {
    first as u8 == ItemKind::Marker as u8 || first as u8 == ItemKind::MarkerAt as u8
}

/// What a group means for what is open.
fn apply(group: Group<'_>, thread: &mut ThreadItems, program: &mut ProgramItems) {
    let Some(Item::Stamped { event, .. }) = Item::decode(group.item) else {
        // Either attributes come first, or something that is not known here.
        if !is_stamped(group.item[0]) {
            thread.describe(group.place, SaidAttributes { words: group.item, is_marker: false });
        }
        return thread.describe(group.place, group.said);
    };
    match event {
        Event::ZoneBegin { depth, .. } | Event::OpenZone { depth, .. } => {
            return thread.begin(depth, group);
        }
        Event::ZoneEnd { depth } => thread.end(depth),
        Event::Attached { depth } => thread.leave(depth),
        Event::ThreadEnd => return thread.finish(),
        Event::Marker { schema, phase } => thread.marker(schema, phase, group),
        Event::Plot { plot, .. } => program.plots.insert(plot, group),
        Event::Frame { set, phase } => program.frame(set, phase, group),
        Event::Lock { lock, action, .. } => program.lock(lock, action, group),
        Event::AsyncBegin { zone, .. } | Event::AsyncOpen { zone, .. } => {
            program.begin_async(zone, group);
        }
        Event::AsyncEnd { zone } => program.end_async(zone, group),
        Event::Gpu(GpuEvent::Calibration { context, .. }) => {
            program.calibrations.insert(context, group);
        }
        Event::Lost { .. }
        | Event::Loop { .. }
        | Event::Message { .. }
        | Event::MarkerAt { .. }
        | Event::Alloc { .. }
        | Event::Free { .. }
        | Event::Gpu(_)
        | Event::FrameImage(_)
        | Event::Crash { .. } => {}
    }
    thread.describe(group.place, group.said);
}

#[cfg(test)]
#[path = "zones_tests.rs"]
mod tests;
