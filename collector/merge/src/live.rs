//! A recording that is played while it is made: what events refer to is learned from the lanes as
//! they come, up to where nothing can come before.
//!
//! A file is read whole before it is played, so that it knows more than a recording that goes on:
//!
//! - names that threads get later: the rows have the name of now, and each change is an event;
//! - threads and processes that are announced late: until then they have rows of their own, called
//!   by their ids;
//! - zones of GPUs: they are told when their times are read, by the clock as it is known then; those
//!   that have none, after a minute or with their program;
//! - names of functions: where no symbols came, frames show their module and offset;
//! - markers that were placed before the time at which they were written: they are told then;
//! - whether the zones of a pair of probes nest, where nobody said it: not until they were seen to;
//! - who writes to a lane of zones after whom: where a thread is ahead of time and its end was
//!   lost, the lane's next owner is told of late;
//! - whether the recorder was killed, so that the last mappings are missing;
//! - what the recorder said, which the recording's last description has;
//! - causes of losses that the recorder declares behind them: the totals in the end are exact.

use crate::chunk_queue::{Decode, Resume};
use crate::definitions::{clock_map, readings};
use crate::engine::CaptureState;
use crate::knowledge::{Knowledge, NumberedSources, RowsOfPlays};
use crate::lane::LaneCursor;
use crate::losses::Losses;
use crate::mappings::{MappingRecord, add_mapping, read_mappings};
use crate::playing::Playing;
use crate::probes::table::ProbeTable;
use crate::stacks::{Resolver, Stacks};
use crate::tasks::{TaskBuilder, TaskHistory, Tasks};
use crate::zones::programs::Programs;
use crate::zones::{InstrumentedPrograms, lifetimes};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use syscollect_model::{
    ClockMap, ClockPair, Exporter, Lane, LaneIndex, LaneKind, MachineId, RecorderSummary,
    SessionInfo, Tables, Ticks, records_lost,
};
use syscollect_playback::order::{Merge, MergeStep};
use syscollect_playback::{AnyExporter, Output, Played, Stopped, stoppable};
use syscollect_store::{Chunk, Definition, ProbeDefinition};

/// Clock readings that are kept: of ten seconds at least, which is as late as programs may be.
const MOST_READINGS: usize = 1_000;

/// Plays what `feed` feeds into the exporter, from its `begin` to its `end`.
///
/// # Errors
///
/// Those of `feed`, and the exporter's.
pub fn play_live<E: Exporter>(
    exporter: &mut E,
    feed: impl FnOnce(&mut Live<'_>) -> Result<(), Stopped>,
) -> Result<Played, E::Error> {
    stoppable(exporter, |exporter| {
        let mut live = Live::new(exporter);
        feed(&mut live)?;
        live.finish()
    })
}

/// A recording that is played while it is made.
///
/// All its chunks are fed, those of definitions, too, each lane's in their order. Whoever feeds
/// says from time to time what [nothing comes before](Self::advance): up to there, and up to the
/// last clock reading, events are told. Chunks of before the session is described and the clocks
/// were read twice wait in memory; if the recording ends before that, it is played at its end, and
/// of one without a description or a clock reading nothing is told.
pub struct Live<'a> {
    state: LiveState<'a>,
    info: Option<SessionInfo>,
    readings: Vec<ClockPair>,
}

/// A chunk that came.
struct FedChunk {
    chunk: Chunk,
    /// Others of its lane were left out before it.
    resumes: bool,
}

/// Whether it has begun.
enum LiveState<'a> {
    Waiting(Output<'a>, Vec<FedChunk>),
    Playing(Box<Playing<'a>>, Box<Learner>),
    /// Between the two.
    Nothing,
}

impl<'a> Live<'a> {
    fn new(exporter: &'a mut AnyExporter<'a>) -> Self {
        let output = Output::of_part(exporter, None, None);
        let state = LiveState::Waiting(output, Vec::new());
        Self { state, info: None, readings: Vec::new() }
    }

    /// The next chunk of its lane.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn feed(&mut self, chunk: Chunk) -> Result<(), Stopped> {
        self.take_in(FedChunk { chunk, resumes: false })
    }

    /// The next chunk of its lane behind others that whoever feeds left out on purpose: events of
    /// them are not told, and not lost either.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn feed_resuming(&mut self, chunk: Chunk) -> Result<(), Stopped> {
        self.take_in(FedChunk { chunk, resumes: true })
    }

    fn take_in(&mut self, fed: FedChunk) -> Result<(), Stopped> {
        match &mut self.state {
            LiveState::Playing(playing, learner) => {
                learner.feed(fed, playing);
                Ok(())
            }
            LiveState::Waiting(_, chunks) => {
                let chunk = &fed.chunk;
                match chunk.header.lane.kind {
                    LaneKind::Definition => {
                        if let Ok(Some(Definition::Session(info))) =
                            Definition::from_json(&chunk.data)
                        {
                            self.info = Some(*info);
                        }
                    }
                    LaneKind::Clock => self.readings.extend(clock_pairs(chunk)),
                    _ => {}
                }
                chunks.push(fed);
                match ClockMap::new(self.readings.clone()) {
                    Ok(clock) => self.begin(clock),
                    Err(_) => Ok(()),
                }
            }
            LiveState::Nothing => Ok(()),
        }
    }

    /// Begins, now that times are known, if the session is.
    fn begin(&mut self, clock: ClockMap) -> Result<(), Stopped> {
        let Some(info) = &self.info else { return Ok(()) };
        let state = std::mem::replace(&mut self.state, LiveState::Nothing);
        let LiveState::Waiting(mut output, chunks) = state else { return Ok(()) };
        let info = SessionInfo { clock_pairs: clock.pairs().to_vec(), ..info.clone() };
        let mut known = nothing_known(info, clock);
        output.exporter().begin(&known.tables)?;
        let mappings_unrecorded = known.tables.machine(known.machine).mappings_unrecorded;
        let mut playing = Box::new(Playing::new(&mut known, output));
        playing.engine.source.names_of_now = true;
        if mappings_unrecorded {
            playing.engine.source.resolver.stacks.locator.spaces.mark_incomplete();
        }
        let mut learner = Box::new(Learner::new(known.clock));
        chunks.into_iter().for_each(|fed| learner.feed(fed, &mut playing));
        self.state = LiveState::Playing(playing, learner);
        Ok(())
    }

    /// No record of before these ticks comes any more, of any lane: tells what can be told.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn advance(&mut self, ticks: Ticks) -> Result<(), Stopped> {
        let LiveState::Playing(playing, learner) = &mut self.state else { return Ok(()) };
        // Behind the last reading the clock may still turn out to be another.
        let last = learner.clock.pairs().last().map_or(Ticks(0), |pair| pair.ticks);
        let until = ticks.min(last);
        learner.learn(until, playing);
        playing.nothing_before(until);
        playing.play()
    }

    /// Whether zones of GPUs are told from now on, as they are from the beginning on. It is said
    /// for those that nobody would look at: they are more work than others.
    pub fn tell_gpu_zones(&mut self, are_told: bool) {
        if let LiveState::Playing(playing, _) = &mut self.state {
            playing.decoders.zones.gpu.watch(are_told);
        }
    }

    fn finish(mut self) -> Result<Played, Stopped> {
        if let (LiveState::Waiting(..), Some(info)) = (&self.state, &self.info)
            && let Ok(clock) = clock_map(std::mem::take(&mut self.readings), info)
        {
            self.begin(clock)?;
        }
        let LiveState::Playing(mut playing, mut learner) = self.state else {
            return Ok(Played::default());
        };
        learner.learn(Ticks(u64::MAX), &mut playing);
        playing.decoders.zones.references.known.programs.end(&learner.clock, learner.last);
        let (mut played, mut losses) = playing.finish()?;
        if learner.summary.is_some() {
            losses.complete();
        }
        let losses = losses.totals();
        played.lost = records_lost(&losses);
        let (exporter, tables) = playing.engine.exporter();
        exporter.end(&losses, learner.summary.as_ref(), tables)?;
        Ok(played)
    }
}

/// What is known when a recording begins.
fn nothing_known(info: SessionInfo, clock: ClockMap) -> Knowledge {
    let resolver = Resolver::new(&info, Stacks::default());
    let mut tables = Tables::default();
    let programs = InstrumentedPrograms {
        programs: Programs::new(&info, &clock, None),
        ..InstrumentedPrograms::default()
    };
    tables.machines = vec![info];
    Knowledge {
        machine: MachineId::FIRST,
        clock: Arc::new(clock),
        tables,
        resolver,
        history: TaskHistory::default(),
        programs,
        numbered: NumberedSources::default(),
        losses: Losses::default(),
        definition_records: 0,
        earlier: RowsOfPlays::none(),
    }
}

fn clock_pairs(chunk: &Chunk) -> Vec<ClockPair> {
    let header = &chunk.header;
    readings(header.first, header.stride as usize, &chunk.data)
        .map(Iterator::collect)
        .unwrap_or_default()
}

/// What of the lanes of definitions was not applied yet, and what is needed to apply more.
struct Learner {
    clock: Arc<ClockMap>,
    /// Records of times up to which not all is known, each lane's in their order.
    mappings: Vec<MappingRecord>,
    /// When processes began new programs, ticks, ascending.
    execs: FxHashMap<u32, Vec<u64>>,
    tasks: Tasks,
    task_lanes: Merge<LaneCursor>,
    /// Stacks, each lane's in their order.
    stacks: BTreeMap<Lane, VecDeque<Chunk>>,
    probes: Vec<ProbeDefinition>,
    /// The last ticks of the kernel's lanes.
    last: Ticks,
    /// What the recorder said of itself at its end.
    summary: Option<RecorderSummary>,
}

impl Learner {
    fn new(clock: Arc<ClockMap>) -> Self {
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

    fn feed(&mut self, FedChunk { chunk, resumes }: FedChunk, playing: &mut Playing<'_>) {
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
                let logs = &mut playing.decoders.zones.references.known.logs;
                let (read, bad) = logs.read(&chunk.data, &mut playing.engine.tables);
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
    fn learn(&mut self, until: Ticks, playing: &mut Playing<'_>) {
        self.learn_mappings(until, playing);
        self.learn_tasks(until, playing);
        let CaptureState { losses, resolver, .. } = &mut playing.engine.source;
        if losses.of_mappings() {
            resolver.stacks.locator.spaces.mark_incomplete();
        }
        resolver.stacks.locator.spaces.seal();
        self.learn_stacks(until, playing);
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
