//! The pass over the lanes of instrumented programs before they are played. It finds
//! what must be known earlier than its place in the lane: markers at another
//! time, because events leave in order of time; stacks, because their code addresses
//! want names; the names of threads, because tables show the last ones.

use crate::chunk_queue::FromFile;
use crate::stacks::Stacks;
use crate::tasks::TaskHistory;
use crate::zones::cursor::{Programmed, ZoneCursor, ZoneRecord};
use crate::zones::gpu::placed::PlacedGpuZones;
use crate::zones::held_shares::{
    HeldShares, OwnLosses, first_to_give_up, give_up_last, words_size,
};
use crate::zones::lifetimes::{LaneOwners, Lifetimes};
use crate::zones::log::{Log, Logs};
use crate::zones::parts::{ItemPart, Parts, own_attributes};
use crate::zones::programs::Programs;
use crate::zones::stacks::{ProgramStacks, WrittenStack};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use syscollect_model::{ClockMap, Lane, Tables, ThreadId, Ticks};
use syscollect_playback::Lifetime;
use syscollect_playback::order::Cursor;
use syscollect_records::ZoneChunk;
use syscollect_store::{CaptureReader, Producer};
use syscollect_zone_protocol::{Attribute, Event, Item, MarkerPhase, TextRole, item_words};

/// Bytes that markers at other times may take.
const MOST_MARKER_BYTES: usize = 256 << 20;

/// A marker that a program placed at another time, or on another thread.
#[derive(Clone, Debug)]
pub(crate) struct PlacedMarker {
    pub(crate) ticks: u64,
    pub(crate) lane: Lane,
    /// When it was placed.
    pub(crate) stamped: u64,
    /// Who placed it.
    pub(crate) chunk: ZoneChunk,
    /// The thread it is placed on; 0 is the one that placed it.
    pub(crate) tid: u32,
    /// The number of its schema in the program's log.
    pub(crate) schema: u32,
    pub(crate) phase: MarkerPhase,
    /// Its attributes, as items.
    pub(crate) attribute_words: Box<[u64]>,
}

/// What a program calls one of its threads.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ThreadName {
    /// Since when.
    ticks: u64,
    tid: u32,
    /// The program's process, if that is known.
    pid: Option<u32>,
    name: String,
}

/// Markers that programs placed at other times. They are held until their time, so what they take
/// has a bound, in which programs have shares.
#[derive(Debug)]
struct WrittenMarkers {
    /// By the programs' numbers.
    markers: FxHashMap<u32, Vec<PlacedMarker>>,
    losses: OwnLosses,
    shares: HeldShares,
}

impl Default for WrittenMarkers {
    fn default() -> Self {
        Self::bounded(MOST_MARKER_BYTES)
    }
}

impl WrittenMarkers {
    /// Holds no more than so many bytes.
    fn bounded(most_bytes: usize) -> Self {
        let (markers, losses) = (FxHashMap::default(), OwnLosses::default());
        Self { markers, losses, shares: HeldShares::new(most_bytes) }
    }

    fn add(&mut self, producer: Producer, marker: PlacedMarker) {
        let Self { markers, losses, shares } = self;
        let cut = |most: Producer| {
            let Some(list) = markers.get_mut(&most.program) else { return 0 };
            let gone = list[first_to_give_up(list.len())..].iter().map(PlacedMarker::size).sum();
            losses.not_held(most.program, give_up_last(list));
            gone
        };
        if shares.take(producer, marker.size(), cut) {
            markers.entry(producer.program).or_default().push(marker);
        } else {
            losses.not_held(producer.program, 1);
        }
    }

    /// All that are held, by ascending ticks.
    fn take(&mut self) -> Vec<PlacedMarker> {
        let mut programs: Vec<_> = std::mem::take(&mut self.markers).into_iter().collect();
        programs.sort_unstable_by_key(|(client, _)| *client);
        let mut markers: Vec<_> = programs.into_iter().flat_map(|(_, list)| list).collect();
        markers.sort_by_key(|marker| marker.ticks);
        markers
    }
}

impl PlacedMarker {
    fn size(&self) -> usize {
        // They are moved to one list in the end.
        2 * size_of::<Self>() + words_size(&self.attribute_words)
    }
}

/// What the pass found.
#[derive(Debug, Default)]
pub(crate) struct Prescan {
    /// All lanes were passed over: what was not found is not there.
    pub(crate) is_whole: bool,
    /// By ascending ticks.
    pub(crate) markers: Vec<PlacedMarker>,
    /// Until they are in order.
    written_markers: WrittenMarkers,
    pub(crate) stacks: ProgramStacks,
    /// Something was written of GPUs.
    pub(crate) has_gpu_work: bool,
    /// Read for each play anew.
    pub(crate) gpu: PlacedGpuZones,
    /// Who writes to each lane.
    pub(crate) owners: FxHashMap<Lane, LaneOwners>,
    /// The last name of each thread: by lane and owner.
    names: FxHashMap<(Lane, u32, u32), ThreadName>,
}

/// What the pass needs to know.
pub(crate) struct Prescanner<'a> {
    pub(crate) reader: &'a CaptureReader,
    pub(crate) programs: &'a Programs,
    pub(crate) logs: &'a Logs,
    pub(crate) lifetimes: &'a Lifetimes,
    pub(crate) clock: &'a Arc<ClockMap>,
    pub(crate) code: &'a mut Stacks,
    pub(crate) tables: &'a Tables,
}

impl Prescanner<'_> {
    /// Reads the lane from its beginning to its end.
    pub(crate) fn lane(&mut self, lane: Lane, prescan: &mut Prescan) {
        let (programs, lifetimes) = (self.programs, self.lifetimes);
        let programs = Programmed { programs, lifetimes, map: self.clock, owners: None };
        let mut lane_of_file = FromFile::new(self.reader, ZoneCursor::new(lane), programs);
        let (mut owner, mut owners, mut count) = (ZoneChunk::default(), LaneOwners::default(), 0);
        while let Some(ticks) = lane_of_file.key() {
            let (before, life) = lane_of_file.cursor.present_owner();
            match lane_of_file.take() {
                ZoneRecord::Chunk(start) => {
                    owner = start.0;
                    if before == count {
                        owners.add(life, ticks);
                        count += 1;
                    }
                }
                ZoneRecord::Group(_) => {
                    let words = lane_of_file.cursor.group();
                    self.placed(lane, ticks, &owner, life, words, prescan);
                    self.group(lane, ticks, &owner, words, prescan);
                }
            }
        }
        prescan.owners.insert(lane, owners);
    }

    fn group(
        &mut self,
        lane: Lane,
        ticks: u64,
        owner: &ZoneChunk,
        words: &[u64],
        prescan: &mut Prescan,
    ) {
        if has_attributes(own_attributes(words)) {
            self.parts(lane, ticks, owner, words, prescan);
        } else if crash_instruction(words).is_some() {
            self.stack(ticks, owner, words, WrittenStack::default(), prescan);
        }
    }

    /// A marker at another time, which is limited to the life of the thread that places it.
    #[inline]
    fn placed(
        &self,
        lane: Lane,
        stamped: u64,
        owner: &ZoneChunk,
        life: Lifetime,
        words: &[u64],
        prescan: &mut Prescan,
    ) {
        let Some(Item::Stamped { event, .. }) = Item::decode(words) else { return };
        prescan.has_gpu_work |= matches!(event, Event::Gpu(_));
        let Event::MarkerAt { schema, phase, at, tid } = event else { return };
        if let Some(ticks) = self.programs.clock(owner.client, self.clock).within(at) {
            let (chunk, ticks) = (*owner, life.limit(ticks));
            let attribute_words = own_attributes(words).into();
            let marker =
                PlacedMarker { ticks, lane, stamped, chunk, tid, schema, phase, attribute_words };
            prescan.written_markers.add(self.programs.producer(owner.client), marker);
        }
    }

    fn parts(
        &mut self,
        lane: Lane,
        ticks: u64,
        owner: &ZoneChunk,
        words: &[u64],
        prescan: &mut Prescan,
    ) {
        let log = self.logs.get(owner.client);
        let mut stack = WrittenStack::default();
        for part in Parts::new(own_attributes(words)) {
            if let Some(name) = thread_name(&part, log, self.tables) {
                let (tid, pid) = (owner.tid, self.programs.pid(owner.client));
                let name = ThreadName { ticks, tid, pid, name };
                prescan.names.insert((lane, owner.owner, owner.tid), name);
            } else if let ItemPart::Stack(written) = part {
                stack.add(written);
            }
        }
        self.stack(ticks, owner, words, stack, prescan);
    }

    fn stack(
        &mut self,
        ticks: u64,
        owner: &ZoneChunk,
        words: &[u64],
        stack: WrittenStack,
        prescan: &mut Prescan,
    ) {
        let stack = match crash_instruction(words) {
            Some(instruction) => stack.of_crash(instruction),
            None => stack,
        };
        let pid = self.programs.pid(owner.client);
        if let Some(pid) = pid.filter(|_| !stack.addresses.is_empty()) {
            prescan.stacks.known_or_new(self.code, pid, Ticks(ticks), &stack);
        }
    }
}

/// The instruction at which a program crashed, if this group tells of that.
pub(crate) fn crash_instruction(words: &[u64]) -> Option<u64> {
    match Item::decode(words)? {
        Item::Stamped { event: Event::Crash { instruction, .. }, .. } => Some(instruction),
        _ => None,
    }
}

/// Whether stacks or names of threads are among these items.
fn has_attributes(mut words: &[u64]) -> bool {
    while let Some(first) = words.first() {
        match Item::decode(words) {
            Some(Item::Attribute(Attribute::Stack { .. })) => return true,
            Some(Item::Attribute(Attribute::Text { role, .. } | Attribute::Tag { role, .. }))
                if role == TextRole::ThreadName =>
            {
                return true;
            }
            _ => {}
        }
        words = item_words(*first).and_then(|length| words.get(length..)).unwrap_or_default();
    }
    false
}

fn thread_name(part: &ItemPart, log: &Log, tables: &Tables) -> Option<String> {
    match part {
        ItemPart::Text { role: TextRole::ThreadName, text, .. } => Some(text.clone()),
        ItemPart::Tag { role: TextRole::ThreadName, string, number } => {
            Some(format!("{} {number}", tables.strings.get(log.string(*string)?)))
        }
        _ => None,
    }
}

impl Prescan {
    /// Items of programs that could not be held.
    pub(crate) fn own_losses(&self) -> &OwnLosses {
        &self.written_markers.losses
    }

    /// Sorts what was found; names go to the rows of their threads.
    pub(crate) fn finish(&mut self, history: &mut TaskHistory, tables: &mut Tables) {
        self.is_whole = true;
        self.markers = self.written_markers.take();
        let mut names: Vec<_> = std::mem::take(&mut self.names).into_values().collect();
        names.sort();
        let tids: FxHashSet<u32> = names.iter().map(|name| name.tid).collect();
        let lifetimes = history.lifetimes(&tids);
        let mut named: FxHashSet<ThreadId> =
            history.first_names.iter().map(|(thread, _)| *thread).collect();
        for ThreadName { ticks, tid, pid, name } in names {
            let Some(thread) = lifetimes.get(&tid).and_then(|list| {
                let after = list.partition_point(|(since, _)| *since <= ticks);
                list.get(after.checked_sub(1)?).map(|(_, thread)| *thread)
            }) else {
                continue;
            };
            // Nobody names threads of other processes.
            let process = tables.thread(thread).process;
            if pid.is_some_and(|pid| tables.process(process).pid != pid) {
                continue;
            }
            let row = &mut tables.threads[thread.index()];
            // Its name until then is told first, unless it is told with its beginning.
            if named.insert(thread) && row.start.is_none() {
                history.first_names.push((thread, row.name));
            }
            row.name = tables.strings.intern(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::LaneKind;

    #[test]
    fn markers_without_end_are_bounded_and_leave_room_for_those_of_others() {
        let mut written = WrittenMarkers::bounded(100_000);
        let marker = |ticks| PlacedMarker {
            ticks,
            lane: Lane::new(LaneKind::Zone, 0),
            stamped: 5,
            chunk: ZoneChunk::default(),
            tid: 0,
            schema: 1,
            phase: MarkerPhase::Instant,
            attribute_words: Box::new([]),
        };
        let [hostile, honest] = [7, 8].map(|program| Producer { user: 0, program });
        (0..10_000).for_each(|ticks| written.add(hostile, marker(ticks)));
        (0..100).for_each(|ticks| written.add(honest, marker(ticks * 10)));
        let lost = written.losses.beyond_share.clone();
        let markers = written.take();
        assert!(markers.iter().map(PlacedMarker::size).sum::<usize>() <= 100_000);
        assert_eq!(lost.keys().collect::<Vec<_>>(), [&7]);
        assert_eq!(markers.len() as u64 + lost[&7], 10_100);
        assert!(markers.is_sorted_by_key(|marker| marker.ticks));
    }
}
