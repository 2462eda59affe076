//! The collector thread: it empties the lanes in time, and notes clocks,
//! counters and losses now and then. Between, it sleeps; nothing wakes it.

mod file_change;
mod shared;
mod snapshot;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use syscollect_model::{ClockSource, LaneKind, LossOrigin, RefusedTable, SessionInfo, Ticks};
use syscollect_store::{Chunk, Definition, LaneLoss, Producer};
use syscollect_symbolize::PinnedFiles;

use crate::chunk_sink::ChunkSink;
use crate::clock::ticks_now;
use crate::error::megabytes;
use crate::files::Begin;
use crate::host::Host;
use crate::mapping_pace::{MappingPace, MappingVerdict};
use crate::metadata::MetadataThread;
use crate::priority::go_first;
use crate::probes::MappedFiles;
use crate::readings::Readings;
use crate::replay::Replay;
use crate::source::{Drained, Observed, ProgramChunks, Source};
use crate::stage::Flush;
use crate::tee::{Rounds, Tee};
use crate::unwind::{RefusedTables, StacksInMemory};

pub(crate) use file_change::{FileStart, RotationLimits};
use shared::EndingPhase;
pub(crate) use shared::Shared;
pub(crate) use start::Children;

/// Clocks and counters are read this often.
const READING_INTERVAL: Duration = Duration::from_millis(100);
/// A lane of 2 MiB takes some 80 ms to fill at a million events a second.
const LONGEST_SLEEP: Duration = Duration::from_millis(40);
/// The same while somebody waits for what happens now.
const LONGEST_SLEEP_PROMPT: Duration = Duration::from_millis(20);
/// The programs are made to forget which stacks they sent no more often than this, for all that is
/// still needed is walked and sent again then.
const FORGET_INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// A machine that stood still for longer says nothing about the next time.
const LONGEST_LATENESS: Duration = Duration::from_secs(1);
/// How full the fullest lane should be when it is emptied.
const WANTED_FILL: f64 = 0.25;

/// What the collector thread works with.
pub(crate) struct Collector {
    pub(crate) sources: Vec<Box<dyn Source>>,
    clock_source: ClockSource,
    pub(crate) output: Output,
    /// What only a live machine has; a replay brings its own.
    pub(crate) machine: Option<Machine>,
    pub(crate) missing: Vec<String>,
    pub(crate) refused_tables: RefusedTables,
    pub(crate) session: SessionInfo,
    /// What was last told of losses in the present file.
    pub(crate) last_losses: Vec<LaneLoss>,
    /// Stacks that the buffer had lost when they were asked for again.
    stacks_lost: u64,
    /// When a recording that overwrites asked for all stacks anew.
    asked_anew: Instant,
    /// Somebody who watches asks for all stacks.
    stacks_asked: bool,
    /// Of a recording that overwrites, what snapshots of it need.
    history: snapshot::SnapshotHistory,
    /// When [`Self::do_periodic_work`] began last.
    periodic_work_at: Option<Instant>,
    /// The present file.
    pub(crate) file: FileStart,
    /// When scheduling, tasks and samples were recorded; zones, probes and GPUs follow.
    attached: Instant,
    /// How many notes the sources had when these were collected last.
    notes: usize,
}

/// What is read and followed beside the sources.
pub(crate) struct Machine {
    host: Host,
    online: Vec<u32>,
    readings: Readings,
    pub(crate) metadata: MetadataThread,
    /// Who attaches to files that are mapped.
    mapped_files: MappedFiles,
    mapping_pace: MappingPace,
    /// The recorder's process: asking for it is a system call each time.
    own_pid: u32,
}

impl Machine {
    /// Hands what a source saw to those who look into files.
    ///
    /// What the recorder maps is left out: it holds files of others by mappings of its own, which
    /// would be looked into again, in the time of its user, which has no bound.
    fn observe(&mut self, observed: Observed) {
        if let Observed::Mapping(mapping, at) = &observed {
            if mapping.pid == self.own_pid {
                return;
            }
            match self.mapping_pace.mapped(mapping, Instant::now()) {
                MappingVerdict::Heard => {}
                MappingVerdict::Repeated => return,
                MappingVerdict::TooMany => return self.metadata.mapped_too_much(),
            }
            self.mapped_files.mapped(mapping, *at);
        }
        self.metadata.observed(observed);
    }
}

/// Where chunks go.
pub(crate) struct Output {
    pub(crate) sink: Arc<ChunkSink>,
    pub(crate) shared: Arc<Shared>,
    /// Who is told of files.
    pub(crate) begin: Begin,
    /// When a file ends; `None` where there is one only.
    pub(crate) pace: Option<RotationLimits>,
}

/// What is left when the recording has ended.
pub(crate) struct EndedRecording {
    /// When the last event could be recorded: all of them lie before it.
    pub(crate) at: Instant,
    pub(crate) pinned: PinnedFiles,
    /// Of the last file.
    pub(crate) stacks: StacksInMemory,
    /// Of the last file.
    pub(crate) losses: Vec<LaneLoss>,
    /// Of the last file.
    pub(crate) statistics: BTreeMap<String, u64>,
    pub(crate) missing: Vec<String>,
    pub(crate) refused_tables: Vec<RefusedTable>,
    /// Where the last file began; `None` where it is the only one.
    pub(crate) file: Option<FileStart>,
    /// To be dropped last: taking breakpoints out of programs takes its time,
    /// while the rest of the file is written.
    pub(crate) sources: Vec<Box<dyn Source>>,
}

impl Output {
    fn push(&self, chunk: Chunk) {
        self.count(&chunk);
        self.sink.push(chunk);
    }

    fn count(&self, chunk: &Chunk) {
        self.shared.bytes.fetch_add(chunk.data.len() as u64, Ordering::Relaxed);
        if chunk.header.lane.kind.traits().events {
            self.shared.records.fetch_add(u64::from(chunk.header.records), Ordering::Relaxed);
        }
    }

    pub(crate) fn define(&self, definition: &Definition) {
        definition.chunks().into_iter().for_each(|chunk| self.push(chunk));
    }

    /// What to say where the buffer was too small for its time.
    fn short_span(&self) -> Option<String> {
        let buffer = self.sink.buffer();
        let (reach, size) = (buffer.short_span()?, megabytes(buffer.buffered() as u64));
        Some(format!(
            "the buffer was full ({size}) and holds the last {:.1} s only: give it a size, too, as \
             in --buffer 30s,2G",
            reach.as_secs_f64()
        ))
    }
}

/// Programs' chunks on their way out.
struct ProgramSink<'a>(&'a Output);

impl ProgramChunks for ProgramSink<'_> {
    fn push(&mut self, producer: Producer, chunk: Chunk) {
        self.0.count(&chunk);
        self.0.sink.push_of(producer, chunk);
    }

    fn ended(&mut self, program: u32) {
        self.0.sink.buffer().program_ended(program);
    }

    fn has_room_for(&self, producer: Producer) -> bool {
        self.0.sink.buffer().has_room_for(producer)
    }

    fn has_room_for_hits(&self) -> bool {
        self.0.sink.buffer().has_room_for_hits()
    }
}

impl Collector {
    /// Replays chunks instead of recording a machine.
    pub(crate) fn replay(chunks: Vec<Chunk>, output: Output) -> Self {
        Self::new(vec![Box::new(Replay::new(chunks))], ClockSource::Monotonic, output)
    }

    fn new(sources: Vec<Box<dyn Source>>, clock_source: ClockSource, output: Output) -> Self {
        Self {
            sources,
            clock_source,
            output,
            machine: None,
            missing: Vec::new(),
            refused_tables: RefusedTables::default(),
            session: SessionInfo::default(),
            last_losses: Vec::new(),
            stacks_lost: 0,
            asked_anew: Instant::now(),
            stacks_asked: false,
            history: snapshot::SnapshotHistory::default(),
            periodic_work_at: None,
            file: FileStart::of_the_first(),
            attached: Instant::now(),
            notes: 0,
        }
    }

    /// When the first event could be recorded: all of them lie after it.
    pub(crate) fn began(&self) -> Instant {
        self.file.at
    }

    /// When scheduling, tasks and samples were recorded.
    pub(crate) fn attached(&self) -> Instant {
        self.attached
    }

    /// What this machine lacks.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// What the capture says of the machine.
    pub(crate) fn session(&self) -> &SessionInfo {
        &self.session
    }

    /// Collects until told to stop.
    pub(crate) fn run(mut self) -> EndedRecording {
        go_first();
        let mut pace = SleepPace::new();
        let mut rounds = Rounds::default();
        while !self.output.shared.stop.load(Ordering::Acquire) {
            let flush = self.flush();
            let (began, ticks) = (Instant::now(), self.ticks_of_round(flush));
            let fullest = self.drain(flush);
            pace.emptied(began, fullest, longest_sleep(flush));
            if let Some(tee) = self.output.sink.tee()
                && let Some(ticks) =
                    rounds.emptied(began, ticks, Instant::now(), tee.longest_way(flush))
            {
                self.output.sink.nothing_before(ticks);
            }
            self.answer_snapshots();
            if self.is_periodic_work_due() {
                self.follow_cpus();
                self.do_periodic_work();
                self.follow_pace();
            }
            std::thread::park_timeout(pace.sleep);
        }
        self.end()
    }

    /// How long records may wait for company now.
    fn flush(&self) -> Flush {
        self.output.sink.tee().map_or(Flush::USUAL, Tee::flush)
    }

    /// When a round begins. Where somebody looks at what happens, the time of that is known.
    fn ticks_of_round(&mut self, flush: Flush) -> Ticks {
        let Self { machine, output, clock_source, .. } = self;
        match machine {
            Some(machine) if flush == Flush::PROMPT => {
                machine.readings.read_clocks_soon(&mut |chunk| output.push(chunk))
            }
            _ => ticks_now(*clock_source),
        }
    }

    fn is_periodic_work_due(&self) -> bool {
        self.periodic_work_at.is_none_or(|at| at.elapsed() >= READING_INTERVAL)
    }

    /// Reads clocks and counters, notes losses, and has stacks sent anew, from the first event on.
    fn do_periodic_work(&mut self) {
        self.periodic_work_at = Some(Instant::now());
        self.read_machine(self.flush());
        self.note_losses();
        self.ask_for_lost_stacks();
        self.ask_for_new_stacks();
        self.collect_missing_if_new();
    }

    pub(crate) fn drain(&mut self, flush: Flush) -> f64 {
        let now = ticks_now(self.clock_source);
        let Self { sources, output, machine, .. } = self;
        let mut out = Drained {
            chunk: &mut |chunk| output.push(chunk),
            of_programs: &mut ProgramSink(output),
            observe: &mut |observed| {
                if let Some(machine) = &mut *machine {
                    machine.observe(observed);
                }
            },
        };
        sources.iter_mut().map(|source| source.drain(now, flush, &mut out)).fold(0.0, f64::max)
    }

    pub(crate) fn read_machine(&mut self, flush: Flush) {
        let Some(machine) = &mut self.machine else { return };
        machine.readings.read();
        machine.readings.flush(flush, &mut |chunk| self.output.push(chunk));
    }

    /// CPUs that came up since the last look are recorded too; the events of
    /// CPUs that went away died with them.
    fn follow_cpus(&mut self) {
        let Some(machine) = &mut self.machine else { return };
        let online = machine.host.online_cpus();
        if online.is_empty() || online == machine.online {
            return;
        }
        for cpu in online.iter().filter(|cpu| !machine.online.contains(cpu)) {
            for error in self.sources.iter_mut().filter_map(|source| source.add_cpu(*cpu).err()) {
                self.missing
                    .push(format!("CPU {cpu} came up and is not recorded in full: {error}"));
            }
        }
        machine.online = online;
    }

    /// Tells the capture what was lost, when that changed, so that a recorder
    /// that is killed has said it.
    pub(crate) fn note_losses(&mut self) {
        let all = self.losses();
        let losses = self.file.losses(&all);
        if losses == self.last_losses {
            return;
        }
        if self.output.sink.is_overwriting() {
            self.history.lost(&losses);
        }
        self.output.shared.lost.store(all.iter().map(|loss| loss.count).sum(), Ordering::Relaxed);
        // Where events wait for the end, so does what was lost: said each time, it would fill a
        // disk.
        if !self.output.sink.is_overwriting() {
            self.output.define(&Definition::Losses(losses.clone()));
        }
        self.last_losses = losses;
    }

    /// Stacks for which the buffer had no room are sent again once it has: each is sent but once,
    /// and what runs there from then on would have none.
    fn ask_for_lost_stacks(&mut self) {
        let lost = self.output.sink.buffer().stacks_lost();
        if lost != self.stacks_lost && !self.output.sink.is_behind() {
            self.stacks_lost = lost;
            self.sources.iter_mut().for_each(|source| source.restate());
        }
    }

    /// Where events are overwritten, stacks are sent again after a while, so that the buffer need
    /// not keep those that only events refer to which are gone.
    fn ask_for_new_stacks(&mut self) {
        let buffer = self.output.sink.buffer();
        let is_wanted = self.stacks_asked || buffer.wants_stacks_anew();
        if !is_wanted || self.asked_anew.elapsed() < FORGET_INTERVAL {
            return;
        }
        self.stacks_asked = false;
        buffer.begin_stacks_anew();
        self.sources.iter_mut().for_each(|source| source.restate());
        // Events that refer to stacks of before have been written by now.
        self.drain(Flush::All);
        buffer.stacks_begun_anew();
        let stacks = self.take_stacks_in_memory();
        self.history.stacks_begun_anew(stacks);
        self.asked_anew = Instant::now();
    }

    /// Stacks as they lay in memory, of the present file.
    pub(crate) fn take_stacks_in_memory(&mut self) -> StacksInMemory {
        let of_sleepers = self.machine.iter().flat_map(|it| it.metadata.take_stacks_in_memory());
        let stacks = self.sources.iter_mut().flat_map(|source| source.take_stacks_in_memory());
        stacks.chain(of_sleepers).collect()
    }

    pub(crate) fn losses(&self) -> Vec<LaneLoss> {
        self.sources.iter().flat_map(|source| source.losses()).collect()
    }

    pub(crate) fn statistics(&self) -> BTreeMap<String, u64> {
        self.sources.iter().flat_map(|source| source.statistics()).collect()
    }

    /// [Collects](Self::collect_missing) it where a source has said more: all that was said is
    /// compared with all that is known, ten times a second otherwise.
    fn collect_missing_if_new(&mut self) {
        let notes = self.sources.iter().map(|source| source.missing().len()).sum();
        if std::mem::replace(&mut self.notes, notes) != notes {
            self.collect_missing();
        }
    }

    /// What turned out to be missing while the recording went on.
    pub(crate) fn collect_missing(&mut self) {
        let taken_back: Vec<String> =
            self.sources.iter().flat_map(|source| source.taken_back()).collect();
        self.missing.retain(|note| !taken_back.contains(note));
        for note in self.sources.iter().flat_map(|source| source.missing()) {
            if !self.missing.contains(note) && !taken_back.contains(note) {
                self.output.shared.log.add(ticks_now(self.clock_source), note.clone());
                self.missing.push(note.clone());
            }
        }
    }

    /// The session as it is known in the end: the exact tick rate, the clocks
    /// of CPUs that came up, what turned out to be missing.
    pub(crate) fn describe_again(&mut self) {
        if self.machine.is_some() {
            self.session = self.present_session();
            self.output.define(&Definition::Session(Box::new(self.session.clone())));
        }
    }

    /// The session as it is known now.
    fn present_session(&self) -> SessionInfo {
        let mut session = self.session.clone();
        if let Some(machine) = &self.machine {
            session.tick_rate_hz = machine.readings.tick_rate_hz();
            self.sources.iter().for_each(|source| source.describe(&mut session));
            session.notes.clone_from(&self.missing);
            session.log = self.output.shared.log.entries();
        }
        session
    }

    fn end(mut self) -> EndedRecording {
        let online =
            self.machine.as_ref().map(|machine| machine.online.clone()).unwrap_or_default();
        let shared = Arc::clone(&self.output.shared);
        shared.snapshots.close();
        shared.begins(EndingPhase::Detaching);
        self.sources.iter_mut().for_each(|source| source.detach(&online));
        shared.begins(EndingPhase::Draining);
        self.drain(Flush::All);
        self.read_machine(Flush::All);
        self.note_losses();
        let at = Instant::now();
        shared.begins(EndingPhase::Noting);
        let tasks = LossOrigin::Lane(LaneKind::Task);
        let read_names = self.losses().iter().any(|loss| loss.origin == tasks)
            || self.output.sink.is_overwriting();
        let mut pinned = PinnedFiles::default();
        if let Some(machine) = &mut self.machine {
            let late;
            // Where renames were left out, who still lives says its name now.
            (pinned, late) = machine.metadata.finish(read_names);
            self.missing.extend(late);
        }
        self.missing.extend(self.output.short_span());
        self.collect_missing();
        self.describe_again();
        let statistics = self.file.statistics(self.statistics());
        let losses = self.file.losses(&self.losses());
        let stacks = self.take_stacks_in_memory();
        let file = self.output.begin.is_later().then_some(self.file);
        let refused_tables = self.refused_tables.all();
        let Self { missing, sources, .. } = self;
        EndedRecording {
            at,
            losses,
            statistics,
            missing,
            refused_tables,
            pinned,
            stacks,
            file,
            sources,
        }
    }
}

/// How long the collector sleeps: so that the fullest lane is found as full as wanted, reckoned
/// with how fast it filled and how late the collector got its CPU.
#[derive(Debug)]
struct SleepPace {
    /// When the lanes were emptied last.
    last: Instant,
    sleep: Duration,
    /// How much later than asked it came; what was seen once is expected again for a while.
    late: Duration,
}

/// How long the collector sleeps at most: who waits for what happens now does not wait for it.
fn longest_sleep(flush: Flush) -> Duration {
    flush.longest_wait().clamp(LONGEST_SLEEP_PROMPT, LONGEST_SLEEP)
}

impl SleepPace {
    fn new() -> Self {
        Self { last: Instant::now(), sleep: SHORTEST_SLEEP, late: Duration::ZERO }
    }

    /// The lanes were emptied, beginning `at` that time, when the fullest was `fullest`, 0 to 1.
    fn emptied(&mut self, at: Instant, fullest: f64, longest: Duration) {
        let passed = at.duration_since(std::mem::replace(&mut self.last, at));
        self.next(passed, fullest, longest);
    }

    /// The next sleep, when the lanes were looked at again after `passed`.
    fn next(&mut self, passed: Duration, fullest: f64, longest: Duration) -> Duration {
        let late = passed.saturating_sub(self.sleep).min(LONGEST_LATENESS);
        self.late = late.max(self.late.mul_f64(0.9));
        let until_wanted = passed.min(LONGEST_LATENESS).mul_f64(WANTED_FILL / fullest.max(0.001));
        let longest = longest.min(2 * self.sleep);
        self.sleep = until_wanted.saturating_sub(self.late).min(longest).max(SHORTEST_SLEEP);
        self.sleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn pace(sleep: u64) -> SleepPace {
        SleepPace { sleep: ms(sleep), ..SleepPace::new() }
    }

    fn after(fullest: f64) -> Duration {
        pace(20).next(ms(20), fullest, LONGEST_SLEEP)
    }

    #[test]
    fn the_fuller_the_lanes_the_shorter_the_sleep() {
        assert_eq!([0.25, 0.5, 1.0].map(after), [ms(20), ms(10), ms(5)]);
        assert_eq!(after(0.0), LONGEST_SLEEP);
        assert_eq!(pace(1).next(ms(1), 1.0, LONGEST_SLEEP), SHORTEST_SLEEP);
    }

    #[test]
    fn who_looks_at_what_happens_does_not_wait_for_a_long_sleep() {
        let flushes = [Flush::PROMPT, Flush::WATCHED, Flush::UNSEEN, Flush::USUAL];
        assert_eq!(flushes.map(longest_sleep), [20, 20, 40, 40].map(ms));
        assert_eq!(pace(20).next(ms(20), 0.0, ms(20)), ms(20));
    }

    #[test]
    fn who_comes_late_sleeps_less_but_not_when_nothing_happens() {
        let mut pace = pace(20);
        // Asked for 20 ms, it came after 60, and the lane was half full: at 30 ms it was as full as
        // wanted.
        assert_eq!(pace.next(ms(60), 0.5, LONGEST_SLEEP), SHORTEST_SLEEP);
        // Being in time once does not mean that it will be again.
        assert_eq!(pace.next(ms(1), 0.01, LONGEST_SLEEP), SHORTEST_SLEEP);
        for _ in 0..100 {
            pace.next(pace.sleep, 0.0, LONGEST_SLEEP);
        }
        assert_eq!(pace.sleep, LONGEST_SLEEP);
    }
}
