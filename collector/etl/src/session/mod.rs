//! A trace opened for playing: records in, the model's events out.
//!
//! Two passes, both in order of time. The first (`prescan`) reads what events refer to and what may
//! be told later than they are: who lived when (`lifetimes`), what lay where (`images`), stacks and
//! their keys. The second (`playing`) merges the records by time: `decoders` turn them into events,
//! each those of one kind of source, and share an `engine`.
//!
//! # Stacks
//!
//! A stack comes behind its event, perhaps in two parts, and names it by time stamp
//! and thread. So events wait (`delay`) for half a second, or until there are too
//! many. The stack of a switch is that of the thread that comes back. A thread comes
//! back with the stack that it left with, so it is given to the switch at which
//! the thread left, as the model has it. Where that is longer ago than events are
//! held, it was looked for beforehand (`long_waits`); of a thread that was not seen
//! to leave, the stack is an instant of its own on the thread's track ("Running again"),
//! at the time it runs again.
//!
//! # Time
//!
//! Times are nanoseconds since the machine was started, as far as the header tells
//! when that was (`clock`).
//!
//! # Providers
//!
//! Events of providers are instants of the thread that wrote them. Their names and
//! fields come with the event (TraceLogging), or from what a merging tool put into the file
//! of their manifests (`schemas`); without either they are called by their number.
//! What describes a state rather than something that happens is counted, not drawn (`providers`).
//! A stack that the .NET runtime writes as an event of its own belongs to the event
//! before it (`clr_stacks`).
//!
//! # Limits
//!
//! - Events wait half a second, and 65,536 of them at most: a stack that comes later is
//!   counted and not shown. An interval that began before all that waits is shown
//!   from there on, with its whole duration as a field.
//! - Code that a runtime compiled as the program ran has no image, so it shows as
//!   addresses. Methods of .NET have the names that the trace tells (`methods`): 1,048,576
//!   records of them, and 64 MiB of their names.
//! - Classic events of other classes than the kernel's, and messages (WPP), are counted.
//! - Of an event, 64 fields are shown, of a text 512 bytes. Descriptions of manifests
//!   are kept up to 2 MiB; kinds of events beyond that go by their numbers.
//! - A clock of an unknown kind is taken for a performance counter, and one whose rate
//!   the header does not say for one of nanoseconds. Where the header does not say when
//!   the machine was started, that is the counter's zero; by system time the
//!   recording then begins at zero.
//! - 65,536 threads that nothing announced get a row each; the rest share one.

mod address_lists;
mod clock;
mod clr_stacks;
mod code;
mod decoders;
mod delay;
mod engine;
mod facts;
mod files;
mod gpu;
mod images;
mod interrupts;
mod interval_rows;
mod labels;
mod lifecycle;
mod lifetimes;
mod long_waits;
mod methods;
mod names;
mod playing;
mod prescan;
mod providers;
mod recent;
mod samples;
mod scheduling;
mod schemas;
mod stack_keys;
mod stacks;
mod tally;
#[cfg(test)]
mod testing;
mod transfers;
mod waiting;

pub use facts::{EventCount, Facts};
pub use tally::StackFacts;

use crate::file::{FileError, LogfileHeader, Statistics, Trace};
use code::Code;
use engine::{TraceState, no_added_rows};
use facts::{losses, session_info};
use files::Files;
use gpu::Topology;
use images::Images;
use lifetimes::History;
use long_waits::LongWaits;
use methods::Methods;
use playing::{PlayOutcome, Playing};
use prescan::{CodeRecords, Prescan, StackRecords};
use scheduling::longest_wait;
use schemas::Schemas;
use stack_keys::StackKeys;
use std::path::PathBuf;
use std::sync::Arc;
use syscollect_model::{
    ClockError, ClockMap, Loss, MachineId, RecorderSummary, SessionInfo, SymbolTable, Tables, Time,
};
use syscollect_playback::{
    AddedRows, AnyExporter, EngineParts, Output, Played, Recording, Stopped, UnresolvedModule,
};

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum EtlError {
    /// A file cannot be read, or is none.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its clock leads nowhere.
    #[error("the header of the trace is damaged: {0}")]
    Clock(#[from] ClockError),
}

/// A Windows trace with everything read that events refer to, ready to be played.
///
/// Memory is bounded by distinct stacks and texts, processes, threads and images,
/// by half a second of events, and by a buffer per CPU; it does not grow with the
/// number of events.
#[derive(Debug)]
pub struct Session {
    trace: Trace,
    facts: Facts,
    known: Knowledge,
    losses: Vec<Loss>,
}

/// What is known before events are played: what they refer to.
#[derive(Debug)]
struct Knowledge {
    clock: Arc<ClockMap>,
    tables: Tables,
    history: History,
    code: Code,
    stacks: KnownStacks,
    files: Files,
    topology: Topology,
    schemas: Schemas,
    content: Content,
    /// Rows that an earlier play added, so that the next one finds them.
    added: AddedRows,
}

impl Knowledge {
    /// Takes back what playing took.
    fn take_back(&mut self, parts: EngineParts<TraceState>) {
        let EngineParts { tables, added, source: TraceState { code, .. }, .. } = parts;
        (self.tables, self.added, self.code) = (tables, added, code);
    }
}

/// Stacks that are not told where they are needed.
#[derive(Debug)]
struct KnownStacks {
    keys: StackKeys,
    long_waits: LongWaits,
}

/// What there is in a trace, as far as playing depends on it.
#[derive(Clone, Copy, Debug)]
struct Content {
    has_stacks: bool,
    /// Some events have to wait.
    has_delays: bool,
    /// Payloads of the graphics kernel have 64 bits, whatever their headers say.
    wide_graphics: bool,
    /// Ticks of a wait whose beginning cannot be reached at its end.
    longest_wait: u64,
}

impl Session {
    /// Opens the files of one recording and reads them once.
    ///
    /// # Errors
    ///
    /// A file cannot be read, is no trace, or counts time by another clock than the
    /// first. Damage further on is no error, see [`Recording::losses`].
    pub fn open(paths: &[PathBuf]) -> Result<Self, EtlError> {
        Self::of(Trace::open(paths)?)
    }

    /// The same of files in memory.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn from_bytes(files: Vec<Vec<u8>>) -> Result<Self, EtlError> {
        Self::of(Trace::from_bytes(files)?)
    }

    fn of(trace: Trace) -> Result<Self, EtlError> {
        let rate = trace.headers().first().and_then(LogfileHeader::ticks_per_second).unwrap_or(0);
        let longest_wait = longest_wait(rate);
        let mut prescan = Prescan::new(longest_wait);
        let mut merged = trace.merged();
        while let Some((_, record)) = merged.next() {
            prescan.record(&record);
        }
        let statistics = merged.statistics();
        drop(merged);
        let Some(header) = trace.headers().first() else { return Err(FileError::NoFile.into()) };
        let clock = clock::clock_map(header, prescan.last)?;
        let mut tables = Tables::default();
        let history = History::new(prescan.lifecycle, &mut tables, &clock);
        let CodeRecords { mut images, identities, methods, uses } = prescan.code;
        let StackRecords { lists, mut keys, waits, is_any: has_stacks, .. } = prescan.stacks;
        let (mut files, machine) = (prescan.files, prescan.machine);
        keys.seal();
        files.seal(|path| machine.with_drive(path));
        let mut info = session_info(&trace, &machine, has_stacks);
        info.clock_pairs = clock.pairs().to_vec();
        tables.machines = vec![info];
        images.iter_mut().for_each(|image| machine.with_drive(&mut image.path));
        let images = Images::new(images, &history.process_ends);
        let methods = Methods::new(methods, &history.process_ends);
        let mut code = Code::new(images, methods, &identities, lists);
        let long_waits = waits.finish(&keys, &code.images, &code.lists);
        uses.locate(&mut code, &keys, &history, &tables);
        let content = Content {
            has_stacks,
            has_delays: has_stacks || prescan.has_intervals,
            wide_graphics: machine.wide_graphics,
            longest_wait,
        };
        Ok(Self {
            losses: losses(trace.headers(), &statistics, 0),
            facts: Facts::new(trace.headers(), &prescan.counts, &prescan.schemas, statistics),
            known: Knowledge {
                clock: Arc::new(clock),
                tables,
                history,
                code,
                stacks: KnownStacks { keys, long_waits },
                files,
                topology: prescan.topology,
                schemas: prescan.schemas,
                content,
                added: no_added_rows(),
            },
            trace,
        })
    }

    /// What the trace says of itself.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What was read of the files.
    pub fn statistics(&self) -> &Statistics {
        &self.facts.statistics
    }

    /// What events point into. Processes and threads are there from the start;
    /// frames, stacks and tracks are added as they are played.
    pub fn tables(&self) -> &Tables {
        &self.known.tables
    }
}

impl Recording for Session {
    fn info(&self) -> &SessionInfo {
        self.known.tables.machine(MachineId::FIRST)
    }

    fn clock(&self) -> &ClockMap {
        &self.known.clock
    }

    /// Exact once the session was played: before, records that cannot be decoded are not known.
    fn losses(&self) -> &[Loss] {
        &self.losses
    }

    fn summary(&self) -> Option<&RecorderSummary> {
        None
    }

    /// The logger came to its end, and so did what wrote the files: none lacks a buffer.
    fn is_complete(&self) -> bool {
        let ended = self.trace.headers().iter().all(|header| header.end_time > 0);
        ended && self.trace.extents().iter().all(|extent| extent.missing == 0)
    }

    fn expected_events(&self) -> u64 {
        self.facts.statistics.records
    }

    fn unresolved(&self) -> Vec<UnresolvedModule> {
        self.known.code.unresolved()
    }

    fn add_symbols(&mut self, tables: Vec<SymbolTable>) {
        self.known.code.add_names(tables);
    }

    fn play_into(
        &mut self,
        exporter: &mut AnyExporter<'_>,
        from: Option<Time>,
        to: Option<Time>,
    ) -> Result<Played, Stopped> {
        exporter.begin(&self.known.tables)?;
        let output = Output::of_part(exporter, from, to);
        let mut playing = Playing::new(&mut self.known, output);
        let outcome = playing.play(&self.trace);
        let parts = playing.into_parts();
        self.known.take_back(parts);
        let PlayOutcome { mut played, stacks, undecodable } = outcome?;
        self.facts.stacks = stacks;
        self.losses = losses(self.trace.headers(), &self.facts.statistics, undecodable);
        played.lost = self.losses.iter().fold(0, |sum: u64, loss| sum.saturating_add(loss.count));
        exporter.end(&self.losses, None, &self.known.tables)?;
        Ok(played)
    }
}
