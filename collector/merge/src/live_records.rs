//! The records of a recording that goes on, in order of time and as they were written: for whoever
//! has to decide something of each, and needs neither tables nor names.

use crate::chunk_queue::{ChunkQueue, LaneGap};
use crate::definitions::readings;
use crate::lane::{LaneCursor, Record};
use crate::record_cursor::RecordItem;
use crate::source::{Source, SourceItem};
use crate::sources::{KnownSources, Sources};
use crate::zones::cursor::{Programmed, ZoneRecord};
use crate::zones::lifetimes::Lifetimes;
use crate::zones::programs::Programs;
use std::sync::Arc;
use syscollect_model::{ClockMap, ClockPair, Lane, LaneIndex, LaneKind, SessionInfo, Ticks};
use syscollect_playback::order::MergeStep;
use syscollect_records::{CounterRecord, SampleRecord, SchedStackRecord, TaskRecord, ZoneChunk};
use syscollect_store::{Chunk, ClientDefinition};

/// Clock readings that are kept: the first, and as many of the last.
const LAST_READINGS: usize = 32;
/// Instrumented programs that are known, the latest: numbers count up.
const MOST_PROGRAMS: usize = 1 << 16;
/// Chunks that wait until two clock readings have come, which are the first that a recording does.
const MOST_WAITING: usize = 4096;

/// What a lane holds.
#[derive(Debug)]
pub enum LiveRecord<'a> {
    /// A chunk of a CPU's lane begins: the thread that is current before its first record
    /// (`u32::MAX` where that is not known), and whether records before it are missing.
    ChunkStart {
        /// Of a lane of scheduling.
        current_tid: u32,
        /// Records are missing before what follows.
        is_missing: bool,
    },
    /// A scheduling event; ids are 0 where the lane carries no stacks.
    Sched(&'a SchedStackRecord),
    /// A CPU sample.
    Sample(&'a SampleRecord),
    /// A value of a counter.
    Counter(&'a CounterRecord),
    /// Something happened to a task.
    Task(&'a TaskRecord),
    /// A chunk of an instrumented program's thread begins: whose, and whether items before it are
    /// missing.
    ZoneStart(&'a ZoneChunk, bool),
    /// A group of its items: one with a stamp, and what says more of it.
    Zone(&'a [u64]),
    /// A hit of a probe, as [`Hit`](crate::Hit) reads it.
    Hit(&'a [u8]),
    /// A record of a tracepoint: a [`TracepointRecord`](syscollect_records::TracepointRecord) and
    /// the kernel's own.
    Tracepoint(&'a [u8]),
    /// Hits, or records of tracepoints, are missing here.
    Missing,
}

/// A recording that goes on. It is fed with chunks, each lane's in their order, and gives the
/// records of all lanes in order of time, up to where [nothing comes before](Self::nothing_before).
///
/// Memory is bounded by what is fed and not taken, and by the number of lanes.
pub struct LiveRecords {
    sources: Sources,
    lanes: Vec<Lane>,
    programs: Programs,
    /// Of nobody: what programs say of their time is not limited to it.
    lifetimes: Lifetimes,
    /// `None` until it was read twice; chunks wait that long.
    clock: Option<Arc<ClockMap>>,
    readings: Vec<ClockPair>,
    waiting: Vec<Chunk>,
    info: SessionInfo,
    /// The last ticks of the kernel's lanes.
    last: Ticks,
}

impl Default for LiveRecords {
    fn default() -> Self {
        Self {
            sources: Sources::new(KnownSources::default()),
            lanes: Vec::new(),
            programs: Programs::default(),
            lifetimes: Lifetimes::default(),
            clock: None,
            readings: Vec::new(),
            waiting: Vec::new(),
            info: SessionInfo::default(),
            last: Ticks(0),
        }
    }
}

impl LiveRecords {
    /// What the recording is, which comes before its clock is read twice.
    pub fn describe(&mut self, info: &SessionInfo) {
        self.info = info.clone();
    }

    /// Instrumented programs.
    pub fn add_programs(&mut self, programs: &[ClientDefinition]) {
        self.programs.add(programs);
        self.programs.forget_beyond(MOST_PROGRAMS);
    }

    /// How times of other clocks become ticks, once that was read twice.
    pub fn clock(&self) -> Option<&ClockMap> {
        self.clock.as_deref()
    }

    /// The next chunk of its lane. Lanes of definitions and stacks are not for this.
    pub fn feed(&mut self, chunk: Chunk) {
        if chunk.header.lane.kind == LaneKind::Clock {
            return self.read_clock(&chunk);
        }
        if self.clock.is_none() {
            // Without clock readings nothing will ever be told of them.
            if self.waiting.len() < MOST_WAITING {
                self.waiting.push(chunk);
            }
            return;
        }
        self.add(chunk);
    }

    /// No record of before these ticks comes any more.
    pub fn nothing_before(&mut self, ticks: Ticks) {
        for lane in 0..self.lanes.len() {
            self.decode(lane, |queue| queue.nothing_before(ticks.0));
        }
        self.sources.set_horizon(Some(ticks));
    }

    /// Gives each record that is next for good, with its lane and its ticks, which rarely fall.
    pub fn take_each(&mut self, mut on: impl FnMut(&Lane, Ticks, LiveRecord<'_>)) {
        loop {
            let lanes = &self.lanes;
            self.sources.run_of_sched(|lane, ticks, record| {
                if let Some(lane) = lanes.get(lane) {
                    on(lane, Ticks(ticks), LiveRecord::Sched(record));
                }
            });
            match self.sources.step() {
                MergeStep::Item(source, (ticks, item)) => {
                    let (lane, lent) = self.sources.lent(source);
                    let Some(lane) = self.lanes.get(lane) else { continue };
                    let mut give = |record| on(lane, Ticks(ticks), record);
                    match &item {
                        SourceItem::Record(Record::Chunk(start)) => give(LiveRecord::ChunkStart {
                            current_tid: start.current_tid,
                            is_missing: start.missing != LaneGap::default(),
                        }),
                        SourceItem::Record(Record::Sched(record)) => {
                            give(LiveRecord::Sched(record));
                        }
                        SourceItem::Record(Record::Sample(record)) => {
                            give(LiveRecord::Sample(record));
                        }
                        SourceItem::Record(Record::Counter(record)) => {
                            give(LiveRecord::Counter(record));
                        }
                        SourceItem::Record(Record::Task(record)) => give(LiveRecord::Task(record)),
                        SourceItem::Zones(ZoneRecord::Chunk(start)) => {
                            give(LiveRecord::ZoneStart(&start.0, start.1 != LaneGap::default()));
                        }
                        SourceItem::Zones(ZoneRecord::Group(_)) => {
                            give(LiveRecord::Zone(lent.group()));
                        }
                        SourceItem::Probe(RecordItem::Record) => {
                            give(LiveRecord::Hit(lent.bytes()));
                        }
                        SourceItem::Tracepoint(RecordItem::Record) => {
                            give(LiveRecord::Tracepoint(lent.bytes()));
                        }
                        SourceItem::Probe(RecordItem::Missing(_))
                        | SourceItem::Tracepoint(RecordItem::Missing(_)) => {
                            give(LiveRecord::Missing);
                        }
                        SourceItem::Record(Record::Unknown)
                        | SourceItem::Task(_)
                        | SourceItem::Marker
                        | SourceItem::GpuZone => {}
                    }
                }
                MergeStep::Waiting(source) => match Sources::waiting_lane(source) {
                    Some(lane) if self.resume(lane) => {}
                    _ => return,
                },
                MergeStep::End => return,
            }
        }
    }

    fn read_clock(&mut self, chunk: &Chunk) {
        let header = &chunk.header;
        let read = readings(header.first, header.stride as usize, &chunk.data);
        self.readings.extend(read.into_iter().flatten());
        if self.readings.len() > 2 * LAST_READINGS {
            // What is between the first and the last of them is over.
            self.readings.drain(1..self.readings.len() - LAST_READINGS);
        }
        let Ok(clock) = ClockMap::new(self.readings.clone()) else { return };
        let is_first = self.clock.is_none();
        if is_first {
            let known =
                std::mem::replace(&mut self.programs, Programs::new(&self.info, &clock, None));
            self.programs.keep(known);
        }
        self.programs.extend(&clock, self.last);
        self.clock = Some(Arc::new(clock));
        if is_first {
            std::mem::take(&mut self.waiting).into_iter().for_each(|chunk| self.add(chunk));
        }
    }

    fn add(&mut self, chunk: Chunk) {
        let lane = chunk.header.lane;
        let number = match self.lanes.binary_search(&lane) {
            Ok(number) => number,
            Err(number) => {
                let source = match lane.kind {
                    LaneKind::Task => Some(Source::Lane(Box::new(LaneCursor::new(lane)))),
                    _ => Source::of_lane(lane),
                };
                let Some(source) = source else { return };
                self.lanes.insert(number, lane);
                self.sources.insert(number, source);
                number
            }
        };
        if lane.kind.traits().index == LaneIndex::Cpu && chunk.header.last > self.last {
            self.last = chunk.header.last;
            if let Some(clock) = &self.clock {
                self.programs.extend(clock, self.last);
            }
        }
        self.decode(number, |queue| queue.push(chunk));
    }

    fn decode(&mut self, lane: usize, change: impl FnOnce(&mut ChunkQueue)) {
        let Self { sources, programs, lifetimes, clock: Some(map), .. } = self else { return };
        sources.feed(lane, Programmed { programs, lifetimes, map, owners: None }, change);
    }

    /// Goes on with what a lane was fed; `false` where there is nothing.
    fn resume(&mut self, lane: usize) -> bool {
        let Self { sources, programs, lifetimes, clock: Some(map), .. } = self else {
            return false;
        };
        sources.resume(lane, Programmed { programs, lifetimes, map, owners: None })
    }
}
