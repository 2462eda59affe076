//! What events of a recording that goes on refer to: learned from the lanes as they come.

use crate::chunk_queue::{Decode, Resume};
use crate::definitions::readings;
use crate::engine::CaptureState;
use crate::lane::LaneCursor;
use crate::mappings::{MappingRecord, add_mapping, read_mappings};
use crate::playing::Playing;
use crate::probes::table::ProbeTable;
use crate::tasks::{TaskBuilder, TaskHistory, Tasks};
use crate::zones::lifetimes;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use syscollect_model::{ClockMap, ClockPair, Lane, LaneIndex, LaneKind, RecorderSummary, Ticks};
use syscollect_playback::order::{Merge, MergeStep};
use syscollect_records::ZoneLogChunk;
use syscollect_store::{Chunk, Definition, ProbeDefinition};

/// Clock readings that are kept: of ten seconds at least, which is as late as programs may be.
const MOST_READINGS: usize = 1_000;

/// A chunk that came.
pub(crate) struct FedChunk {
    pub(crate) chunk: Chunk,
    /// Others of its lane were left out before it.
    pub(crate) resumes: bool,
}

pub(crate) fn clock_pairs(chunk: &Chunk) -> Vec<ClockPair> {
    let header = &chunk.header;
    readings(header.first, header.stride as usize, &chunk.data)
        .map(Iterator::collect)
        .unwrap_or_default()
}

/// What of the lanes of definitions was not applied yet, and what is needed to apply more.
pub(crate) struct Learner {
    pub(crate) clock: Arc<ClockMap>,
    /// Records of times up to which not all is known, each lane's in their order.
    mappings: Vec<MappingRecord>,
    /// When processes began new programs, ticks, ascending.
    pub(crate) execs: FxHashMap<u32, Vec<u64>>,
    pub(crate) tasks: Tasks,
    task_lanes: Merge<LaneCursor>,
    /// Stacks, each lane's in their order.
    stacks: BTreeMap<Lane, VecDeque<Chunk>>,
    probes: Vec<ProbeDefinition>,
    /// The last ticks of the kernel's lanes.
    pub(crate) last: Ticks,
    /// What the recorder said of itself at its end.
    pub(crate) summary: Option<RecorderSummary>,
}

impl Learner {
    pub(crate) fn new(clock: Arc<ClockMap>) -> Self {
        Self {
            clock,
            mappings: Vec::new(),
            execs: FxHashMap::default(),
            tasks: Tasks::default(),
            task_lanes: Merge::new(Vec::new()),
            stacks: BTreeMap::new(),
            probes: Vec::new(),
            last: Ticks(0),
            summary: None,
        }
    }

    pub(crate) fn feed(
        &mut self,
        FedChunk { chunk, resumes }: FedChunk,
        playing: &mut Playing<'_>,
    ) {
        let lane = chunk.header.lane;
        match lane.kind {
            LaneKind::Definition => match Definition::from_json(&chunk.data) {
                Ok(Some(definition)) => self.define(definition, playing),
                Ok(None) => {}
                Err(_) => playing.engine.source.losses.undecodable(lane, 1),
            },
            LaneKind::Clock => self.read_clock(&chunk, playing),
            LaneKind::Mapping => {
                let read = read_mappings(&chunk.data);
                playing.engine.sink.tally.records += read.count;
                playing.engine.source.losses.undecodable(lane, read.undecodable);
                playing.engine.source.losses.reported(lane, read.lost);
                self.mappings.extend(read.records);
            }
            LaneKind::Task => self.feed_tasks(chunk),
            kind if kind.is_stack() => {
                self.stacks.entry(lane).or_default().push_back(chunk);
            }
            LaneKind::ZoneLog => {
                let known = &mut playing.decoders.zones.references.known;
                let client = ZoneLogChunk::from_bytes(&chunk.data).map_or(0, |log| log.client);
                let producer = known.programs.producer(client);
                if !known.logs.has_room(producer, chunk.data.len()) {
                    return playing.engine.source.losses.beyond_share(lane, 1);
                }
                let (read, bad) = known.logs.read(&chunk.data, &mut playing.engine.tables);
                playing.engine.sink.tally.records += read;
                playing.engine.source.losses.undecodable(lane, bad);
            }
            kind => {
                if kind.traits().index == LaneIndex::Cpu {
                    self.last = self.last.max(chunk.header.last);
                    self.extend_programs(playing);
                }
                match resumes {
                    true => playing.feed_resuming(chunk),
                    false => playing.feed(chunk),
                }
            }
        }
    }

    fn define(&mut self, definition: Definition, playing: &mut Playing<'_>) {
        let Playing { engine, decoders, .. } = playing;
        engine.sink.tally.records += 1;
        match definition {
            Definition::Processes(list) => {
                let spaces = &mut engine.source.resolver.stacks.locator.spaces;
                let (clock, execs) = (&*self.clock, &self.execs);
                let tasks = &mut self.tasks;
                TaskBuilder { tasks, tables: &mut engine.tables, spaces, clock, execs }
                    .add_processes(&list);
                self.apply_tasks(playing);
            }
            Definition::Mappings(list) => {
                let spaces = &mut engine.source.resolver.stacks.locator.spaces;
                list.into_iter().for_each(|mapping| spaces.map_listed(mapping));
            }
            Definition::Counters(list) => {
                let machine = engine.machine;
                decoders.counters.table.add(&list, machine, &mut engine.tables);
            }
            Definition::Tracepoints(list) => {
                decoders.tracepoints.table.add(&list, &mut engine.tables);
            }
            Definition::Probes(list) => {
                self.probes.extend(list);
                let mut table = ProbeTable::new(&self.probes, &mut engine.tables);
                table.keep_nesting(&decoders.probes.table);
                decoders.probes.table = table;
            }
            Definition::Clients(list) => decoders.zones.references.known.programs.add(&list),
            Definition::Symbols(table) => engine.source.resolver.add_names(vec![table]),
            // They tell of stacks that may have been shown already.
            Definition::Unwound(list) => engine.source.resolver.stacks.unwound.add(list),
            Definition::Losses(list) => engine.source.losses.declare(&list),
            Definition::Summary(summary) => self.summary = Some(*summary),
            // The session is known; the reader of a file finds gaps by the lanes' ends; files are
            // for who names.
            Definition::Session(_) | Definition::Lanes(_) | Definition::Files(_) => {}
        }
    }

    fn read_clock(&mut self, chunk: &Chunk, playing: &mut Playing<'_>) {
        let clock = Arc::make_mut(&mut self.clock);
        let last = clock.pairs().last().map_or(Ticks(0), |pair| pair.ticks);
        for reading in clock_pairs(chunk) {
            playing.engine.sink.tally.records += 1;
            // The first were known before it began.
            if reading.ticks > last {
                clock.push(reading);
            }
        }
        clock.forget_beyond(MOST_READINGS);
        playing.engine.present.set_clock(Arc::clone(&self.clock));
        self.extend_programs(playing);
    }

    /// The recording goes on.
    fn extend_programs(&self, playing: &mut Playing<'_>) {
        playing.decoders.zones.references.known.programs.extend(&self.clock, self.last);
    }

    fn feed_tasks(&mut self, chunk: Chunk) {
        let lane = chunk.header.lane;
        let lanes = self.task_lanes.lanes();
        let index = match lanes.binary_search_by_key(&lane, Decode::lane) {
            Ok(index) => index,
            Err(index) => {
                self.task_lanes.insert(index, LaneCursor::new(lane));
                index
            }
        };
        self.task_lanes.feed(index, |cursor| {
            cursor.queue_mut().push(chunk);
            cursor.resume(());
        });
    }

    /// Applies what was said of before `until`: of that, nothing comes any more.
    pub(crate) fn learn(&mut self, until: Ticks, playing: &mut Playing<'_>) {
        self.learn_mappings(until, playing);
        self.learn_tasks(until, playing);
        let CaptureState { losses, resolver, .. } = &mut playing.engine.source;
        if losses.of_mappings() {
            resolver.stacks.locator.spaces.mark_incomplete();
        }
        resolver.stacks.locator.spaces.seal();
        self.learn_stacks(until, playing);
    }

    /// So many seconds in ticks.
    pub(crate) fn ticks_in(&self, seconds: f64) -> u64 {
        (self.clock.ticks_per_second() * seconds) as u64
    }

    fn learn_mappings(&mut self, until: Ticks, playing: &mut Playing<'_>) {
        // Lanes come one after the other, and processes move between CPUs.
        self.mappings.sort_by_key(MappingRecord::raw_ns);
        let clock = &*self.clock;
        let certain = self.mappings.partition_point(|record| {
            let at = record.raw_ns().map(|raw_ns| clock.ticks_at_monotonic_raw(raw_ns));
            until == Ticks(u64::MAX) || at.is_none_or(|at| at < until)
        });
        let spaces = &mut playing.engine.source.resolver.stacks.locator.spaces;
        for record in self.mappings.drain(..certain) {
            add_mapping(record, clock, spaces, &mut self.execs);
        }
    }

    fn learn_tasks(&mut self, until: Ticks, playing: &mut Playing<'_>) {
        for index in 0..self.task_lanes.lanes().len() {
            self.task_lanes.feed(index, |cursor| {
                match until {
                    Ticks(u64::MAX) => cursor.queue_mut().close(),
                    Ticks(until) => cursor.queue_mut().nothing_before(until),
                }
                cursor.resume(());
            });
        }
        let engine = &mut playing.engine;
        let mut builder = TaskBuilder {
            tasks: &mut self.tasks,
            tables: &mut engine.tables,
            spaces: &mut engine.source.resolver.stacks.locator.spaces,
            clock: &self.clock,
            execs: &self.execs,
        };
        // What lanes have of later times waits: what it refers to may not be known.
        while self.task_lanes.key().is_some_and(|key| key < until.0)
            && let MergeStep::Item(index, (ticks, record)) = self.task_lanes.step()
        {
            let lane = self.task_lanes.lanes()[index].lane();
            builder.on(ticks, lane, &record, &mut engine.source.losses);
        }
        builder.apply_notes(until.0);
        self.apply_tasks(playing);
    }

    /// Hands over what became known of tasks.
    fn apply_tasks(&mut self, playing: &mut Playing<'_>) {
        let TaskHistory { initial, lifecycle, .. } = std::mem::take(&mut self.tasks.history);
        let lifetimes = &mut playing.decoders.zones.references.known.lifetimes;
        for (tid, thread) in initial {
            lifetimes.begin(tid, thread, 0);
            playing.engine.threads.was_there(tid, thread);
        }
        for (ticks, event) in &lifecycle {
            lifetimes::apply(lifetimes, *ticks, *event, &playing.engine.tables);
        }
        playing.sources.add_task_events(lifecycle);
    }

    fn learn_stacks(&mut self, until: Ticks, playing: &mut Playing<'_>) {
        let engine = &mut playing.engine;
        for (lane, chunks) in &mut self.stacks {
            while let Some(chunk) = chunks.front_mut() {
                let stacks = &mut engine.source.resolver.stacks;
                let read = stacks.read(*lane, chunk.header.first, &chunk.data, until, None);
                engine.sink.tally.records += read.stacks;
                engine.source.losses.beyond_share(*lane, read.beyond_share);
                engine.source.losses.undecodable(*lane, u64::from(read.cut));
                if read.bytes < chunk.data.len() && !read.cut {
                    chunk.data.drain(..read.bytes);
                    break;
                }
                chunks.pop_front();
            }
        }
    }
}
