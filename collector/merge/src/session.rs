//! A capture opened for playing.

use crate::MergeError;
use crate::chunk_queue::{Decode, FromFile};
use crate::counters::CounterTable;
use crate::definitions::{Definitions, LaneCount, clock_map, each_chunk, lanes_of, read_clock};
use crate::gpu::record::TracepointTable;
use crate::held::oldest_held;
use crate::knowledge::{Knowledge, NumberedSources, RowsOfPlays};
use crate::lane::LaneCursor;
use crate::losses::Losses;
use crate::mappings::{add_mapping, read_mappings};
use crate::playing::Playing;
use crate::probes::nesting::decide_nesting;
use crate::probes::table::ProbeTable;
use crate::stack_shares::PLENTY;
use crate::stacks::{Resolver, Stacks, count_frames};
use crate::tasks::{TaskBuilder, Tasks};
use crate::unwinding::Unwinder;
use crate::zones::InstrumentedPrograms;
use crate::zones::lifetimes::lifetimes_of;
use crate::zones::prescan::{Prescan, Prescanner};
use crate::zones::programs::Programs;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_model::{
    AddressSpaces, ClockMap, Exporter, Lane, LaneIndex, LaneKind, Loss, MachineId, Mapping,
    RecorderSummary, SessionInfo, SymbolTable, Tables, Ticks, Time, naming_shortage, records_lost,
};
use syscollect_playback::order::Merge;
use syscollect_playback::{
    AnyExporter, ModuleKey, Output, Played, Recording, Stopped, UnnamedCode, UnresolvedModule,
    stoppable,
};
use syscollect_store::{CaptureReader, Damage, KnownProcess, UnwoundStack};

const DEFINITIONS: Lane = Lane::new(LaneKind::Definition, 0);

/// A capture with everything read that events refer to, ready to be played.
///
/// Memory is bounded by the definitions (processes, mappings, names), by a share of stacks for each
/// process, by one chunk per lane, and by what is held until its time: markers that programs placed
/// at another one, and, while it is played, their zones of GPUs. These have bounds in which
/// programs have shares; memory does not grow with the number of events.
#[derive(Debug)]
pub struct Session {
    pub(crate) reader: CaptureReader,
    pub(crate) known: Knowledge,
    summary: Option<RecorderSummary>,
    pub(crate) losses: Vec<Loss>,
    /// The oldest event that is held, where older ones were overwritten.
    pub(crate) held: Option<Time>,
}

/// Where a recording stands among those of its timeline; by default it is alone.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    pub(crate) machine: MachineId,
    /// Those that all share.
    pub(crate) tables: Tables,
    /// Its times are later by that than its machine says, nanoseconds.
    pub(crate) ahead_ns: u64,
}

impl Session {
    /// Opens a capture: reads all its definition lanes.
    ///
    /// # Errors
    ///
    /// [`MergeError::Clock`] when the capture holds no clock readings, so that
    /// nothing has a time. Damage is no error, see [`Self::losses`].
    pub fn open(reader: CaptureReader) -> Result<Self, MergeError> {
        Self::open_unless(reader, &|| false)
    }

    /// As [`open`](Self::open), until `unwanted` says that nobody waits for it. Who is asked often
    /// must answer at once.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`MergeError::Unwanted`].
    pub fn open_unless(
        reader: CaptureReader,
        unwanted: &dyn Fn() -> bool,
    ) -> Result<Self, MergeError> {
        Self::open_at(reader, Placement::default(), unwanted, None)
    }

    /// As [`open_unless`](Self::open_unless) of a recording that has just ended: stacks that were
    /// cut are walked on by `unwinder`. What that found is to be added to the capture, see
    /// [`take_unwound`](Self::take_unwound).
    ///
    /// # Errors
    ///
    /// As [`open_unless`](Self::open_unless).
    pub fn open_unwinding(
        reader: CaptureReader,
        unwanted: &dyn Fn() -> bool,
        unwinder: &mut dyn Unwinder,
    ) -> Result<Self, MergeError> {
        Self::open_at(reader, Placement::default(), unwanted, Some(unwinder))
    }

    /// Callers of stacks that the capture does not have, once.
    pub fn take_unwound(&mut self) -> Vec<UnwoundStack> {
        self.known.resolver.stacks.unwound.take_new()
    }

    /// The same, as one of several.
    pub(crate) fn open_at(
        reader: CaptureReader,
        placement: Placement,
        unwanted: &dyn Fn() -> bool,
        unwinder: Option<&mut dyn Unwinder>,
    ) -> Result<Self, MergeError> {
        let Placement { machine, mut tables, ahead_ns } = placement;
        let mut definitions = Definitions::read(&reader);
        let mut opening = SessionReader::new(machine, &reader, &definitions, unwanted);
        let clock = opening.clock(&definitions, ahead_ns)?;
        let (mut spaces, execs) =
            opening.mappings(&clock, std::mem::take(&mut definitions.mappings));
        let mut tasks = Tasks::new(machine);
        let builder = TaskBuilder {
            tasks: &mut tasks,
            tables: &mut tables,
            spaces: &mut spaces,
            clock: &clock,
            execs: &execs,
        };
        opening.tasks(builder, &definitions.processes);
        let mut history = tasks.history;
        if !opening.knows_all_mappings(&definitions) {
            spaces.mark_incomplete();
        }
        spaces.seal();
        let known = Stacks::new(spaces, std::mem::take(&mut definitions.unwound));
        let mut stacks = opening.stacks(known, unwinder);
        if unwanted() {
            return Err(MergeError::Unwanted);
        }
        let mut probes = ProbeTable::new(&definitions.probes, &mut tables);
        decide_nesting(opening.reader, &mut probes);
        let mut tracepoints = TracepointTable::default();
        tracepoints.add(&definitions.tracepoints, &mut tables);
        let held = oldest_held(&reader, &definitions.losses, &clock);
        let mut programs = opening.programs(&definitions, &clock, &mut tables);
        if held.is_some() {
            programs.programs.accept_older();
        }
        programs.lifetimes = lifetimes_of(&history, &tables);
        opening.prescan(&mut programs, &clock, &mut stacks, &tables);
        programs.prescan.finish(&mut history, &mut tables);
        stacks.finish();
        if programs.prescan.stacks.is_empty() {
            stacks.locator.spaces = AddressSpaces::default();
        }
        let mut counters = CounterTable::default();
        counters.add(&definitions.counters, machine, &mut tables);
        let coarse = stacks.coarse_frames();
        let mut resolver = Resolver::new(&definitions.info, stacks);
        let own = programs.prescan.own_losses();
        let not_held = own.notes("markers at other times", &programs.programs, &tables, machine);
        let shortage = naming_shortage(&definitions.symbols);
        let file_damage = file_damage(&reader, definitions.summary.is_some());
        definitions
            .info
            .notes
            .extend(coarse.into_iter().chain(not_held).chain(shortage).chain(file_damage));
        resolver.add_names(definitions.symbols);
        held.into_iter().for_each(|held| history.begin_at(held, machine, &mut tables));
        let info = SessionInfo { clock_pairs: clock.pairs().to_vec(), ..definitions.info };
        tables.machines.resize_with(usize::from(machine.0) + 1, SessionInfo::default);
        tables.machines[usize::from(machine.0)] = info;
        let SessionReader { losses: known_losses, records: definition_records, .. } = opening;
        let known = Knowledge {
            machine,
            clock,
            tables,
            resolver,
            history,
            programs,
            numbered: NumberedSources { probes, tracepoints, counters },
            losses: known_losses,
            definition_records,
            earlier: RowsOfPlays::none(),
        };
        let losses = known.losses.totals();
        let held = held.map(|held| held.time);
        Ok(Self { reader, known, summary: definitions.summary, losses, held })
    }

    /// Plays what `feed` feeds, in place of the chunks of the capture, and what is left of it then.
    ///
    /// # Errors
    ///
    /// Those of `feed`, and the exporter's.
    pub fn play_fed<E: Exporter>(
        &mut self,
        exporter: &mut E,
        feed: impl FnOnce(&mut Playing<'_>) -> Result<(), Stopped>,
    ) -> Result<Played, E::Error> {
        self.known.read_gpu_zones(&self.reader);
        stoppable(exporter, |exporter| {
            exporter.begin(&self.known.tables)?;
            let output = Output::of_part(exporter, self.held, None);
            let mut playing = Playing::new(&mut self.known, output);
            let outcome = feed(&mut playing).and_then(|()| playing.finish());
            playing.give_back(&mut self.known);
            self.end(exporter, outcome?)
        })
    }

    fn end(
        &mut self,
        exporter: &mut AnyExporter<'_>,
        (mut played, losses): (Played, Losses),
    ) -> Result<Played, Stopped> {
        self.losses = losses.totals();
        played.lost = records_lost(&self.losses);
        exporter.end(&self.losses, self.summary.as_ref(), &self.known.tables)?;
        Ok(played)
    }

    /// What events point into. Processes and threads that were announced are
    /// there from the start; frames and stacks are added as they are played.
    pub fn tables(&self) -> &Tables {
        &self.known.tables
    }

    /// What the file itself lacks, in words, which is among the notes, too: it ends within a chunk,
    /// or another one was written behind it.
    pub fn file_damage(&self) -> Vec<String> {
        file_damage(&self.reader, self.summary.is_some())
    }

    /// The capture.
    pub fn reader(&self) -> &CaptureReader {
        &self.reader
    }
}

impl Recording for Session {
    fn info(&self) -> &SessionInfo {
        self.known.tables.machine(self.known.machine)
    }

    fn clock(&self) -> &ClockMap {
        &self.known.clock
    }

    /// Exact once the session was played: before, chunks of events that do not
    /// verify are not known yet, nor what the lanes of a recorder that was
    /// killed tell of losses.
    fn losses(&self) -> &[Loss] {
        &self.losses
    }

    fn summary(&self) -> Option<&RecorderSummary> {
        self.summary.as_ref()
    }

    fn is_complete(&self) -> bool {
        self.summary.is_some()
    }

    /// Records in the lanes of events.
    fn expected_events(&self) -> u64 {
        let lanes = self
            .reader
            .lanes()
            .into_iter()
            .filter(|lane| lane.kind.traits().events && !lane.kind.is_definition());
        lanes.flat_map(|lane| self.reader.chunks(lane)).map(|chunk| u64::from(chunk.records)).sum()
    }

    fn unresolved(&self) -> Vec<UnresolvedModule> {
        let (stacks, names) = (&self.known.resolver.stacks, self.known.resolver.names());
        stacks
            .code()
            .unnamed(names)
            .into_iter()
            .map(|UnnamedCode { module, offsets, uses }| {
                let ModuleKey { path, build_id, memory, .. } = module.clone();
                UnresolvedModule {
                    path,
                    build_id,
                    memory,
                    kernel: module.is_kernel(),
                    offsets,
                    uses,
                    mapped: stacks.mapped(module).to_vec(),
                    windows: None,
                }
            })
            .collect()
    }

    fn add_symbols(&mut self, tables: Vec<SymbolTable>) {
        let info = &mut self.known.tables.machines[usize::from(self.known.machine.0)];
        info.notes.extend(naming_shortage(&tables));
        self.known.resolver.add_names(tables);
    }

    fn play_into(
        &mut self,
        exporter: &mut AnyExporter<'_>,
        from: Option<Time>,
        to: Option<Time>,
    ) -> Result<Played, Stopped> {
        self.known.read_gpu_zones(&self.reader);
        exporter.begin(&self.known.tables)?;
        let output = Output::of_part(exporter, from.max(self.held), to);
        let mut playing = Playing::new(&mut self.known, output);
        let outcome = playing.play_file(&self.reader);
        playing.give_back(&mut self.known);
        self.end(exporter, outcome?)
    }
}

/// The last ticks that the kernel's lanes tell of: they say how long a recording was whose last
/// clock reading is lost.
fn last_of_kernel(reader: &CaptureReader) -> Option<Ticks> {
    let lanes = reader
        .lanes()
        .into_iter()
        .filter(|lane| lane.kind.traits().events && lane.kind.traits().index == LaneIndex::Cpu);
    lanes.filter_map(|lane| reader.chunks(lane).last()).map(|chunk| chunk.last).max()
}

/// What to say of a file that another was written behind, or whose recording came to its end and
/// that does not: what follows a recording is names.
fn file_damage(reader: &CaptureReader, has_ended: bool) -> Vec<String> {
    let sentences = reader.damage().iter().filter_map(|damage| match damage {
        Damage::Another { offset, bytes } => Some(format!(
            "another capture begins at byte {offset}: its {bytes} bytes are not read; `tail -c \
             {bytes} FILE > OTHER.syscap` makes a file of them"
        )),
        Damage::Truncated { bytes, .. } if has_ended => Some(format!(
            "the file is cut off behind its events, {bytes} bytes into a chunk: names of functions \
             are missing; copy the whole file, or export this one where the recorded programs are"
        )),
        _ => None,
    });
    sentences.collect()
}

/// Reads definition lanes, counting records and losses on the way.
struct SessionReader<'a> {
    reader: &'a CaptureReader,
    losses: Losses,
    records: u64,
    unwanted: &'a dyn Fn() -> bool,
}

impl<'a> SessionReader<'a> {
    fn new(
        machine: MachineId,
        reader: &'a CaptureReader,
        definitions: &Definitions,
        unwanted: &'a dyn Fn() -> bool,
    ) -> Self {
        let mut losses =
            Losses::new(machine, reader, &definitions.losses, definitions.summary.is_some());
        losses.unreadable(DEFINITIONS, definitions.unreadable);
        losses.undecodable(DEFINITIONS, definitions.undecodable);
        Self { reader, losses, records: definitions.count, unwanted }
    }

    fn count(&mut self, lane: Lane, count: LaneCount) {
        self.records += count.records;
        self.losses.unreadable(lane, count.unreadable);
        self.losses.undecodable(lane, count.undecodable);
    }

    fn clock(
        &mut self,
        definitions: &Definitions,
        ahead_ns: u64,
    ) -> Result<Arc<ClockMap>, MergeError> {
        let mut readings = Vec::new();
        for lane in lanes_of(self.reader, LaneKind::Clock) {
            let count = read_clock(self.reader, lane, &mut readings);
            self.count(lane, count);
        }
        let clock = clock_map(readings, &definitions.info)?;
        Ok(Arc::new(clock.ahead_by(ahead_ns)))
    }

    /// What was mapped, and when each process began a new program.
    fn mappings(
        &mut self,
        clock: &ClockMap,
        known: Vec<Mapping>,
    ) -> (AddressSpaces, FxHashMap<u32, Vec<u64>>) {
        let (mut spaces, mut execs) =
            (AddressSpaces::default(), FxHashMap::<u32, Vec<u64>>::default());
        known.into_iter().for_each(|mapping| spaces.map_listed(mapping));
        for lane in lanes_of(self.reader, LaneKind::Mapping) {
            let mut lost = 0u64;
            let count = each_chunk(self.reader, lane, |_, _, data| {
                let read = read_mappings(data);
                lost = lost.saturating_add(read.lost);
                for record in read.records {
                    add_mapping(record, clock, &mut spaces, &mut execs);
                }
                (read.count, read.undecodable)
            });
            self.losses.reported(lane, lost);
            self.count(lane, count);
        }
        execs.values_mut().for_each(|list| list.sort_unstable());
        (spaces, execs)
    }

    /// Whether nothing that was mapped is missing: of a recorder that was
    /// killed, the last records are.
    fn knows_all_mappings(&self, definitions: &Definitions) -> bool {
        definitions.summary.is_some()
            && !definitions.info.mappings_unrecorded
            && !self.losses.of_mappings()
    }

    fn tasks(&mut self, mut builder: TaskBuilder<'_>, known: &[KnownProcess]) {
        builder.add_processes(known);
        let lanes = lanes_of(self.reader, LaneKind::Task).map(LaneCursor::new);
        let lanes = lanes.map(|lane| FromFile::new(self.reader, lane, ()));
        let mut merge = Merge::new(lanes.collect());
        while let Some((index, (ticks, record))) = merge.next() {
            let lane = merge.lanes()[index].cursor.lane();
            builder.on(ticks, lane, &record, &mut self.losses);
        }
        for FromFile { cursor, .. } in merge.lanes() {
            self.losses.not_decoded(cursor);
        }
        builder.apply_notes(u64::MAX);
        builder.name_rows();
    }

    /// All stacks, by what is known of code and of stacks that were cut.
    fn stacks(&mut self, known: Stacks, mut unwinder: Option<&mut dyn Unwinder>) -> Stacks {
        let kinds = LaneKind::ALL.into_iter().filter(|kind| kind.is_stack());
        let lanes: Vec<Lane> = kinds.flat_map(|kind| lanes_of(self.reader, kind)).collect();
        let mut stacks = known.shared_by(&self.frames_of_processes(&lanes));
        for lane in lanes {
            let mut beyond_share = 0;
            let count = each_chunk(self.reader, lane, |first, _, data| {
                if (self.unwanted)() {
                    return (0, 0);
                }
                let unwinder =
                    unwinder.as_mut().map(|unwinder| &mut **unwinder as &mut dyn Unwinder);
                let read = stacks.read(lane, first, data, Ticks(u64::MAX), unwinder);
                beyond_share += read.beyond_share;
                (read.stacks, u64::from(read.cut))
            });
            self.losses.beyond_share(lane, beyond_share);
            self.count(lane, count);
        }
        stacks
    }

    /// How many frames each process has in all its stacks, if they may be too many together.
    fn frames_of_processes(&self, lanes: &[Lane]) -> FxHashMap<u32, u64> {
        let mut frames = FxHashMap::default();
        let chunks = lanes.iter().flat_map(|lane| self.reader.chunks(*lane));
        let bytes: u64 = chunks.map(|chunk| u64::from(chunk.length)).sum();
        if bytes / 8 > PLENTY {
            for lane in lanes {
                each_chunk(self.reader, *lane, |_, _, data| {
                    if !(self.unwanted)() {
                        count_frames(data, &mut frames);
                    }
                    (0, 0)
                });
            }
        }
        frames
    }
}

impl SessionReader<'_> {
    /// What instrumented programs refer to.
    fn programs(
        &mut self,
        definitions: &Definitions,
        clock: &ClockMap,
        tables: &mut Tables,
    ) -> InstrumentedPrograms {
        let mut known = InstrumentedPrograms {
            programs: Programs::new(&definitions.info, clock, last_of_kernel(self.reader)),
            ..InstrumentedPrograms::default()
        };
        known.programs.add(&definitions.clients);
        for lane in lanes_of(self.reader, LaneKind::ZoneLog) {
            let count = each_chunk(self.reader, lane, |_, _, data| known.logs.read(data, tables));
            self.count(lane, count);
        }
        known
    }

    /// What of zones must be known before its time.
    fn prescan(
        &mut self,
        known: &mut InstrumentedPrograms,
        clock: &Arc<ClockMap>,
        code: &mut Stacks,
        tables: &Tables,
    ) {
        let mut prescan = Prescan::default();
        let InstrumentedPrograms { programs, logs, lifetimes, .. } = &*known;
        let reader = self.reader;
        let mut prescanner = Prescanner { reader, programs, logs, lifetimes, clock, code, tables };
        lanes_of(reader, LaneKind::Zone).for_each(|lane| prescanner.lane(lane, &mut prescan));
        prescan.own_losses().count(programs, &mut self.losses);
        known.prescan = prescan;
    }
}
