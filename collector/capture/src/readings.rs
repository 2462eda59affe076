//! What the collector itself reads every 100 ms: all clocks, and the counters.

use std::path::Path;
use std::time::{Duration, Instant};

use syscollect_model::{ClockPair, ClockSource, Lane, LaneKind, Ticks};
use syscollect_records::{ClockRecord, CounterRecord};
use syscollect_store::{Chunk, CounterDefinition};

use crate::clock::{clock_record, read_clocks, ticks_now};
use crate::counters::Counters;
use crate::stage::{Flush, Stage};

/// How often clocks are read where somebody looks at what happens: times are certain up to the last
/// reading.
const PROMPT_INTERVAL: Duration = Duration::from_millis(10);

/// The collector's own two lanes.
pub(crate) struct Readings {
    source: ClockSource,
    first: ClockPair,
    last: ClockPair,
    last_at: Instant,
    clock: Stage,
    counters: Counters,
    counter: Stage,
}

impl Readings {
    /// Takes the first clock reading.
    pub(crate) fn start(source: ClockSource, cpus: u32) -> Self {
        let first = read_clocks(source);
        let mut clock = Stage::new(Lane::new(LaneKind::Clock, 0), ClockRecord::SIZE);
        clock.data().extend_from_slice(clock_record(&first).as_bytes());
        Self {
            source,
            first,
            last: first,
            last_at: Instant::now(),
            clock,
            counters: Counters::open(Path::new("/"), cpus),
            counter: Stage::new(Lane::new(LaneKind::Counter, 0), CounterRecord::SIZE),
        }
    }

    /// What the counters' numbers mean.
    pub(crate) fn definitions(&self) -> Vec<CounterDefinition> {
        self.counters.definitions()
    }

    /// Reads the clocks, if it is some time since they were, and passes that on: the ticks of now.
    pub(crate) fn read_clocks_soon(&mut self, sink: &mut dyn FnMut(Chunk)) -> Ticks {
        if self.last_at.elapsed() < PROMPT_INTERVAL {
            return ticks_now(self.source);
        }
        self.read_clocks();
        self.clock.flush(self.last.ticks, |_| 0, sink);
        self.last.ticks
    }

    fn read_clocks(&mut self) {
        self.last = read_clocks(self.source);
        self.last_at = Instant::now();
        self.clock.data().extend_from_slice(clock_record(&self.last).as_bytes());
    }

    /// Reads everything once.
    pub(crate) fn read(&mut self) {
        self.read_clocks();
        let data = self.counter.data();
        let (ticks, nanoseconds) = (self.last.ticks.0, self.last.monotonic);
        self.counters
            .poll(ticks, nanoseconds, &mut |record| data.extend_from_slice(record.as_bytes()));
    }

    /// Passes on what is worth a chunk, as `flush` says.
    pub(crate) fn flush(&mut self, flush: Flush, sink: &mut dyn FnMut(Chunk)) {
        let now = ticks_now(self.source);
        for stage in [&mut self.clock, &mut self.counter] {
            if stage.is_due(flush) {
                stage.flush(now, |_| 0, sink);
            }
        }
    }

    /// Ticks per second between the first reading and the last.
    pub(crate) fn tick_rate_hz(&self) -> f64 {
        let nanoseconds = self.last.monotonic_raw.saturating_sub(self.first.monotonic_raw).max(1);
        self.last.ticks.0.saturating_sub(self.first.ticks.0).max(1) as f64 * 1e9
            / nanoseconds as f64
    }
}
