//! Which instrumented programs there are, and what their ticks mean.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_model::{ClockMap, ClockSource, Lane, LaneIndex, ProgramTicks, SessionInfo};
use syscollect_records::Stamp;
use syscollect_store::{CaptureReader, ClientDefinition};

/// Instrumented programs by the number that chunks carry.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pids: FxHashMap<u32, (u32, bool)>,
    /// The session's own ticks are nanoseconds of CLOCK_MONOTONIC.
    monotonic_session: bool,
    /// The first and the last tick that can belong to the recording.
    least: u64,
    most: u64,
}

/// How far before the first and after the last certain tick a program's event
/// may lie, seconds: clocks are read shortly after the beginning, and rings are
/// drained once more at the end.
const SLACK_SECONDS: f64 = 1.0;

impl Programs {
    pub(crate) fn new(
        definitions: &[ClientDefinition],
        info: &SessionInfo,
        clock: &ClockMap,
        reader: &CaptureReader,
    ) -> Self {
        let mut pids = FxHashMap::default();
        for program in definitions {
            // A definition may be there twice; the number is what counts.
            pids.entry(program.client)
                .or_insert((program.pid, program.clock == ProgramTicks::Monotonic));
        }
        let pairs = clock.pairs();
        let slack = (clock.ticks_per_second() * SLACK_SECONDS) as u64;
        // The kernel's lanes tell how long a recording was whose last clock reading is lost.
        let of_kernel =
            |lane: &Lane| lane.kind.traits().events && lane.kind.traits().index == LaneIndex::Cpu;
        let lanes = reader.lanes().into_iter().filter(of_kernel);
        let last = lanes.filter_map(|lane| reader.chunks(lane).last()).map(|chunk| chunk.last.0);
        let most = last.chain(pairs.last().map(|pair| pair.ticks.0)).max().unwrap_or_default();
        Self {
            pids,
            monotonic_session: info.clock_source == ClockSource::Monotonic,
            least: pairs.first().map_or(0, |pair| pair.ticks.0).saturating_sub(slack),
            most: most.saturating_add(slack),
        }
    }

    /// The program's process, if the program is defined.
    pub(crate) fn pid(&self, client: u32) -> Option<u32> {
        self.pids.get(&client).map(|(pid, _)| *pid)
    }

    /// What the program's ticks mean.
    pub(crate) fn clock(&self, client: u32, map: &Arc<ClockMap>) -> ProgramClock {
        let monotonic = self.pids.get(&client).is_some_and(|(_, monotonic)| *monotonic);
        let meaning = match (monotonic, self.monotonic_session) {
            (false, true) => Meaning::Nothing,
            (true, false) => Meaning::Monotonic,
            (false, false) | (true, true) => Meaning::Ticks,
        };
        let map = Arc::clone(map);
        ProgramClock { map, meaning, least: self.least, most: self.most }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
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
    meaning: Meaning,
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
            Meaning::Ticks => Some(stamp.ticks_near(first.ticks.0)),
            Meaning::Monotonic => {
                Some(self.map.ticks_at_monotonic(stamp.ticks_near(first.monotonic)).0)
            }
            Meaning::Nothing => None,
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
