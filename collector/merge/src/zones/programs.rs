//! Which instrumented programs there are, and what their ticks mean.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use syscollect_model::{ClockMap, ClockSource, ProgramTicks, SessionInfo, Ticks};
use syscollect_playback::Lifetime;
use syscollect_records::Stamp;
use syscollect_store::{ClientDefinition, Producer};

/// Instrumented programs by the number that chunks carry.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    known: FxHashMap<u32, KnownProgram>,
    /// The session's own ticks are nanoseconds of CLOCK_MONOTONIC.
    monotonic_session: bool,
    /// The first and the last tick that can belong to the recording.
    least: u64,
    most: u64,
}

/// What is known of a program.
#[derive(Clone, Copy, Debug)]
struct KnownProgram {
    pid: u32,
    user: Option<u32>,
    /// When it was heard of, ticks.
    since: u64,
    /// Its ticks are nanoseconds of CLOCK_MONOTONIC.
    is_monotonic: bool,
}

/// How far before the first and after the last certain tick a program's event
/// may lie, seconds: clocks are read shortly after the beginning, and rings are
/// drained once more at the end.
const SLACK_SECONDS: f64 = 1.0;

/// The same behind the last tick that is certain while more is to come: programs' lanes may be
/// emptied so much earlier than the kernel's.
const SLACK_WHILE_RECORDING: f64 = 10.0;

impl Programs {
    /// Of a recording with this clock, whose kernel's lanes tell of up to `last`.
    pub(crate) fn new(info: &SessionInfo, clock: &ClockMap, last: Option<Ticks>) -> Self {
        let first = clock.pairs().first().map_or(0, |pair| pair.ticks.0);
        let mut programs = Self {
            known: FxHashMap::default(),
            monotonic_session: info.clock_source == ClockSource::Monotonic,
            least: first.saturating_sub(slack(clock, SLACK_SECONDS)),
            most: 0,
        };
        programs.end(clock, last.unwrap_or_default());
        programs
    }

    /// Older events gave way: what is left of those says what is open, whenever that began.
    pub(crate) fn accept_older(&mut self) {
        self.least = 0;
    }

    /// The recording, whose kernel's lanes tell of up to `last`, is over.
    pub(crate) fn end(&mut self, clock: &ClockMap, last: Ticks) {
        self.most = end_of(clock, last).saturating_add(slack(clock, SLACK_SECONDS));
    }

    /// It goes on.
    pub(crate) fn extend(&mut self, clock: &ClockMap, last: Ticks) {
        let slack = slack(clock, SLACK_WHILE_RECORDING);
        self.most = self.most.max(end_of(clock, last).saturating_add(slack));
    }

    /// Adds programs. One may come twice; the number is what counts.
    pub(crate) fn add(&mut self, definitions: &[ClientDefinition]) {
        for program in definitions {
            let ClientDefinition { client, pid, user, ref clock, .. } = *program;
            let is_monotonic = *clock == ProgramTicks::Monotonic;
            let since = self.most;
            self.known.entry(client).or_insert(KnownProgram { pid, user, since, is_monotonic });
        }
    }

    /// Forgets those whose process ended before these ticks: `last_of` says of an id when who had
    /// it last lived, as far as that is known. Which programs these are.
    pub(crate) fn forget_ended(
        &mut self,
        before: u64,
        last_of: impl Fn(u32) -> Option<Lifetime>,
    ) -> FxHashSet<u32> {
        let mut gone = FxHashSet::default();
        self.known.retain(|client, KnownProgram { pid, since, .. }| {
            let has_ended =
                last_of(*pid).is_some_and(|last| last.until < before || last.since > *since);
            // A program may be found a little after its process ended.
            let is_gone = has_ended && *since < before;
            if is_gone {
                gone.insert(*client);
            }
            !is_gone
        });
        gone
    }

    /// Forgets the earliest where there are more than so many.
    pub(crate) fn forget_beyond(&mut self, most: usize) {
        if self.known.len() > most {
            let mut numbers: Vec<u32> = self.known.keys().copied().collect();
            numbers.sort_unstable();
            let first = numbers[numbers.len() - most / 2];
            self.known.retain(|number, _| *number >= first);
        }
    }

    /// Takes over the programs of `known`, which knew less of the recording.
    pub(crate) fn keep(&mut self, known: Self) {
        self.known.extend(known.known);
    }

    /// The program's process, if the program is defined.
    pub(crate) fn pid(&self, client: u32) -> Option<u32> {
        self.known.get(&client).map(|program| program.pid)
    }

    /// The user whose program it is, if that is known.
    pub(crate) fn user(&self, client: u32) -> Option<u32> {
        self.known.get(&client)?.user
    }

    /// Whose shares the program has a part of; those of whom nobody knows have one together.
    pub(crate) fn producer(&self, client: u32) -> Producer {
        Producer { user: self.user(client).unwrap_or(u32::MAX), program: client }
    }

    /// What the program's ticks mean.
    pub(crate) fn clock(&self, client: u32, map: &Arc<ClockMap>) -> ProgramClock {
        let monotonic = self.known.get(&client).is_some_and(|program| program.is_monotonic);
        let meaning = match (monotonic, self.monotonic_session) {
            (false, true) => StampClock::Nothing,
            (true, false) => StampClock::Monotonic,
            (false, false) | (true, true) => StampClock::Ticks,
        };
        let map = Arc::clone(map);
        ProgramClock { map, meaning, least: self.least, most: self.most }
    }
}

/// The last ticks that are certain.
fn end_of(clock: &ClockMap, last: Ticks) -> u64 {
    clock.pairs().last().map_or(last, |pair| pair.ticks.max(last)).0
}

/// So many seconds in ticks.
fn slack(clock: &ClockMap, seconds: f64) -> u64 {
    (clock.ticks_per_second() * seconds) as u64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StampClock {
    /// The session's ticks.
    Ticks,
    /// Nanoseconds, where the session counts something else.
    Monotonic,
    /// Ticks of a counter that the session does not know.
    Nothing,
}

/// Turns a program's ticks into the session's.
#[derive(Clone, Debug)]
pub(crate) struct ProgramClock {
    map: Arc<ClockMap>,
    meaning: StampClock,
    least: u64,
    most: u64,
}

impl ProgramClock {
    /// The session's ticks, wherever they lie; of the program's the low 56 bits
    /// are enough. `None` where they have no meaning here.
    #[inline]
    pub(crate) fn anywhere(&self, low: u64) -> Option<u64> {
        let stamp = Stamp(low << 8);
        let first = self.map.pairs().first()?;
        match self.meaning {
            StampClock::Ticks => Some(stamp.ticks_near(first.ticks.0)),
            StampClock::Monotonic => {
                Some(self.map.ticks_at_monotonic(stamp.ticks_near(first.monotonic)).0)
            }
            StampClock::Nothing => None,
        }
    }

    /// The session's ticks if they lie within the recording.
    #[inline]
    pub(crate) fn within(&self, low: u64) -> Option<u64> {
        self.anywhere(low).filter(|ticks| (self.least..=self.most).contains(ticks))
    }

    /// The tick within the recording that is nearest to these ticks of the session.
    pub(crate) fn limit(&self, ticks: u64) -> u64 {
        ticks.clamp(self.least, self.most)
    }
}
