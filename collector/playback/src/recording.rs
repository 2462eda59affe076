//! What is seen of a source: a recording that can be asked, named and played.

use crate::EventType;
use crate::any_exporter::{AnyExporter, Stopped, stoppable};
use std::collections::BTreeMap;
use std::ops::Range;
use syscollect_model::{
    BuildId, ClockMap, Exporter, Loss, ProgramMemory, RecorderSummary, SessionInfo, SymbolTable,
    Time,
};

/// A recording opened for playing, whatever wrote it.
pub trait Recording {
    /// The machine and the recording.
    fn info(&self) -> &SessionInfo;

    /// Of how many machines it is.
    fn machines(&self) -> usize {
        1
    }

    /// How ticks become times.
    fn clock(&self) -> &ClockMap;

    /// What is missing, by lane and cause. Exact once it was played.
    fn losses(&self) -> &[Loss];

    /// What the recorder said of itself; `None` where it said nothing.
    fn summary(&self) -> Option<&RecorderSummary>;

    /// Whether the recording came to its end.
    fn is_complete(&self) -> bool;

    /// About how many events playing it gives, for progress bars.
    fn expected_events(&self) -> u64;

    /// The code addresses that stacks use and that have no name yet, by module. Those of functions
    /// that are known by their ranges alone are among them.
    fn unresolved(&self) -> Vec<UnresolvedModule>;

    /// Adds names; a name for a place that has one already replaces it, a range alone does not.
    fn add_symbols(&mut self, tables: Vec<SymbolTable>);

    /// As [`play_range`](Self::play_range), for any exporter: a source is compiled once, and not
    /// for each exporter.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    fn play_into(
        &mut self,
        exporter: &mut AnyExporter<'_>,
        from: Option<Time>,
        to: Option<Time>,
    ) -> Result<Played, Stopped>;

    /// Plays the events from `from` on and before `to` in order of time into the
    /// exporter, from its `begin` to its `end`. Names that threads got before
    /// come first; losses are told of the whole recording.
    ///
    /// # Errors
    ///
    /// The exporter's.
    fn play_range<E: Exporter>(
        &mut self,
        exporter: &mut E,
        from: Option<Time>,
        to: Option<Time>,
    ) -> Result<Played, E::Error> {
        stoppable(exporter, |exporter| self.play_into(exporter, from, to))
    }

    /// The same for all events.
    ///
    /// # Errors
    ///
    /// The exporter's.
    fn play<E: Exporter>(&mut self, exporter: &mut E) -> Result<Played, E::Error> {
        self.play_range(exporter, None, None)
    }
}

/// What was played. Of a part of the time, too, records and losses are those of
/// the whole recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Everything decoded, definitions included.
    pub records: u64,
    /// Occurrences in the part that was played: switches, wakeups, samples and so on, no
    /// definitions.
    pub events: u64,
    /// The same by type; those that did not occur are not there.
    pub events_by_type: BTreeMap<EventType, u64>,
    /// Time of the first event.
    pub first: Option<Time>,
    /// Time of the last event.
    pub last: Option<Time>,
    /// Records that were produced and are not in the recording, or cannot be read.
    pub lost: u64,
    /// Events whose stack was taken and lost, or whose definition is lost, of either of its parts.
    pub missing_stacks: u64,
    /// Hits of probes that end what nothing began: it began before the recording, or that hit was
    /// lost.
    pub unmatched_ends: u64,
    /// Failures of GPUs' work that no job shows: it is not known, or its end was told before.
    pub unshown_failures: u64,
    /// How often events in the part that was played show that a CPU ran something else than those
    /// before say: some are missing, and no loss tells of them
    /// ([`OnCpu`](syscollect_model::OnCpu)).
    pub unreported_gaps: u64,
}

impl Played {
    /// Adds what was played of another recording beside it.
    pub fn add(&mut self, other: Self) {
        self.records += other.records;
        self.events += other.events;
        for (event, count) in other.events_by_type {
            *self.events_by_type.entry(event).or_default() += count;
        }
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.max(other.last);
        self.lost = self.lost.saturating_add(other.lost);
        self.missing_stacks += other.missing_stacks;
        self.unmatched_ends += other.unmatched_ends;
        self.unshown_failures += other.unshown_failures;
        self.unreported_gaps += other.unreported_gaps;
    }
}

/// Code addresses of one module that have no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnresolvedModule {
    /// The module's path, as in its mappings.
    pub path: String,
    /// Its build id, as in its mappings; empty for Linux' kernel.
    pub build_id: BuildId,
    /// Whose memory it is, of code that a program made while it ran; `offsets` are addresses then.
    pub memory: Option<ProgramMemory>,
    /// It is kernel code; where it is Linux', `offsets` are addresses.
    pub kernel: bool,
    /// What to look up, the most used first, as far as that is counted: offsets in the file, as in
    /// [`Symbol::offset`](syscollect_model::Symbol::offset); of a Windows image,
    /// relative virtual addresses.
    pub offsets: Vec<u64>,
    /// In how many stacks these are, one by one, as far as that is counted.
    pub uses: u64,
    /// Which parts of its file were mapped for execution and have code addresses, as offsets,
    /// sorted, each once; empty where the file has no identity.
    pub mapped: Vec<Range<u64>>,
    /// What a Windows image is known by; `None` for everything else.
    pub windows: Option<WindowsImage>,
}

/// What tells a Windows image (PE) from other builds of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WindowsImage {
    /// Its symbol file.
    pub pdb: Option<PdbIdentity>,
    /// `SizeOfImage`, bytes.
    pub size: u32,
    /// `TimeDateStamp`.
    pub timestamp: u32,
}

/// The symbol file of an image, as its debug directory names it (RSDS).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PdbIdentity {
    /// Its file name, perhaps with the path it was built at.
    pub name: String,
    /// Its GUID, as the bytes lie in files.
    pub guid: [u8; 16],
    /// How often it was written since it got that GUID.
    pub age: u32,
}
