//! The collector thread: it empties the lanes in time, and notes clocks,
//! counters and losses now and then. Between, it sleeps; nothing wakes it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use syscollect_model::{ClockPair, CpuClock, SessionInfo, Ticks};
use syscollect_store::{Chunk, Definition, Lane, LaneKind, LaneLoss, TraceBuffer};
use syscollect_symbolize::HeldFiles;

use crate::clock::{clock_record, read_clocks, ticks_now};
use crate::counters::Counters;
use crate::ebpf::EbpfSource;
use crate::error::CaptureError;
use crate::host::Host;
use crate::notes::{Notes, definition_chunk};
use crate::options::RecordOptions;
use crate::perf::mappings::MappingRings;
use crate::recording::Shared;
use crate::stage::Stage;

/// Clocks and counters are read this often.
const READING_INTERVAL: Duration = Duration::from_millis(100);
/// A lane of 2 MiB takes some 80 ms to fill at a million events a second.
const LONGEST_SLEEP: Duration = Duration::from_millis(40);
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// How full the fullest lane should be when it is emptied.
const WANTED_FILL: f64 = 0.25;

/// What the collector thread works with.
pub(crate) struct Collector {
    ebpf: EbpfSource,
    mappings: Option<MappingRings>,
    notes: Notes,
    output: Output,
    clock: Stage,
    counters: Counters,
    counter_stage: Stage,
    host: Host,
    online: Vec<u32>,
    session: SessionInfo,
    last_losses: Vec<LaneLoss>,
    first_reading: ClockPair,
}

/// Where chunks go.
struct Output {
    buffer: Arc<TraceBuffer>,
    shared: Arc<Shared>,
}

/// What is left when the recording has ended.
pub(crate) struct Ended {
    pub(crate) held: HeldFiles,
    pub(crate) losses: Vec<LaneLoss>,
    pub(crate) statistics: std::collections::BTreeMap<String, u64>,
    pub(crate) missing: Vec<String>,
}

impl Output {
    fn push(&self, chunk: Chunk) {
        self.shared.bytes.fetch_add(chunk.data.len() as u64, Ordering::Relaxed);
        if matches!(chunk.header.lane.kind, LaneKind::Sched | LaneKind::Sample) {
            self.shared.records.fetch_add(u64::from(chunk.header.records), Ordering::Relaxed);
        }
        self.buffer.push(chunk);
    }
}

impl Collector {
    /// Loads and attaches everything: when it returns, the machine is recorded.
    pub(crate) fn start(
        options: &RecordOptions,
        buffer: Arc<TraceBuffer>,
        shared: Arc<Shared>,
    ) -> Result<Self, CaptureError> {
        let host = Host::at(Path::new("/"));
        let online = host.online_cpus();
        let mut ebpf = EbpfSource::load(options, &host)?;
        let mappings = MappingRings::open(&online)
            .inspect_err(|error| ebpf.missing.push(format!("mappings of new files are not recorded: {error}")))
            .ok();
        let output = Output { buffer: buffer.clone(), shared };
        let mut clock = Stage::new(Lane { kind: LaneKind::Clock, cpu: 0 }, syscollect_records::ClockRecord::SIZE);
        let first = read_clocks(ebpf.clock_source);
        clock.data().extend_from_slice(clock_record(&first).as_bytes());
        ebpf.attach(options, &online)?;
        let second = read_clocks(ebpf.clock_source);
        clock.data().extend_from_slice(clock_record(&second).as_bytes());
        let session = describe(options, &host, &ebpf, tick_rate(&first, &second));
        let counters = Counters::open(Path::new("/"), host.possible_cpus());
        // Two clock readings come first in the file: without them nothing has a
        // time, however early the recorder is killed or the disk is full.
        clock.flush(second.ticks, |_| 0, &mut |chunk| output.push(chunk));
        output.push(definition_chunk(&Definition::Session(Box::new(session.clone()))));
        output.push(definition_chunk(&Definition::Counters(counters.definitions())));
        let notes = Notes::start(buffer, ebpf.clock_source)
            .map_err(|error| CaptureError::system("cannot start a thread", error))?;
        let counter_stage =
            Stage::new(Lane { kind: LaneKind::Counter, cpu: 0 }, syscollect_records::CounterRecord::SIZE);
        Ok(Self {
            ebpf,
            mappings,
            notes,
            output,
            clock,
            counters,
            counter_stage,
            host,
            online,
            session,
            last_losses: Vec::new(),
            first_reading: first,
        })
    }

    /// What this machine lacks.
    pub(crate) fn missing(&self) -> &[String] {
        &self.ebpf.missing
    }

    /// What the capture says of the machine.
    pub(crate) fn session(&self) -> &SessionInfo {
        &self.session
    }

    /// Collects until told to stop.
    pub(crate) fn run(mut self) -> Ended {
        go_first();
        let mut sleep = SHORTEST_SLEEP;
        let mut last_reading: Option<Instant> = None;
        while !self.output.shared.stop.load(Ordering::Acquire) {
            let fullest = self.drain(false);
            if last_reading.is_none_or(|at| at.elapsed() >= READING_INTERVAL) {
                last_reading = Some(Instant::now());
                self.read_clocks_and_counters();
                self.follow_cpus();
                self.note_losses();
            }
            sleep = next_sleep(sleep, fullest);
            std::thread::park_timeout(sleep);
        }
        self.end()
    }

    fn now(&self) -> Ticks {
        ticks_now(self.ebpf.clock_source)
    }

    fn drain(&mut self, all: bool) -> f64 {
        let now = self.now();
        let Self { ebpf, mappings, notes, output, .. } = self;
        let fullest = ebpf.drain(now, all, &mut |chunk| output.push(chunk));
        if let Some(mappings) = mappings {
            mappings.drain(now, &mut |seen| notes.seen(seen), &mut |chunk| output.push(chunk));
        }
        fullest
    }

    fn read_clocks_and_counters(&mut self) {
        let pair = read_clocks(self.ebpf.clock_source);
        self.clock.data().extend_from_slice(clock_record(&pair).as_bytes());
        let data = self.counter_stage.data();
        self.counters.poll(pair.ticks.0, pair.monotonic, &mut |record| data.extend_from_slice(record.as_bytes()));
        self.flush_readings(false);
    }

    fn flush_readings(&mut self, all: bool) {
        let now = self.now();
        let output = &self.output;
        for stage in [&mut self.clock, &mut self.counter_stage] {
            if all || stage.is_due() {
                stage.flush(now, |_| 0, &mut |chunk| output.push(chunk));
            }
        }
    }

    /// CPUs that came up since the last look are recorded too; the events of
    /// CPUs that went away died with them.
    fn follow_cpus(&mut self) {
        let online = self.host.online_cpus();
        if online.is_empty() || online == self.online {
            return;
        }
        for cpu in online.iter().filter(|cpu| !self.online.contains(cpu)) {
            if let Err(error) = self.ebpf.add_cpu(*cpu) {
                self.ebpf.missing.push(format!("CPU {cpu} came up and is not recorded: {error}"));
            }
            if let Some(Err(error)) = self.mappings.as_mut().map(|mappings| mappings.add_cpu(*cpu)) {
                self.ebpf.missing.push(format!("mappings made on CPU {cpu} are not recorded: {error}"));
            }
        }
        self.online = online;
    }

    /// Tells the capture what was lost, when that changed, so that a recorder
    /// that is killed has said it.
    fn note_losses(&mut self) {
        let losses = self.losses();
        if losses == self.last_losses {
            return;
        }
        self.output.shared.lost.store(losses.iter().map(|loss| loss.count).sum(), Ordering::Relaxed);
        self.output.push(definition_chunk(&Definition::Losses(losses.clone())));
        self.last_losses = losses;
    }

    /// The session as it is known in the end: the exact tick rate, the clocks
    /// of CPUs that came up, what turned out to be missing.
    fn describe_again(&mut self) {
        self.session.tick_rate_hz = tick_rate(&self.first_reading, &read_clocks(self.ebpf.clock_source));
        self.session.clocks = clocks_in_nanoseconds(&self.ebpf, self.session.tick_rate_hz);
        self.session.notes.clone_from(&self.ebpf.missing);
        self.output.push(definition_chunk(&Definition::Session(Box::new(self.session.clone()))));
    }

    fn losses(&self) -> Vec<LaneLoss> {
        let mut losses = self.ebpf.losses();
        losses.extend(self.mappings.iter().flat_map(MappingRings::losses));
        losses
    }

    fn end(mut self) -> Ended {
        self.ebpf.detach(&self.online);
        self.drain(true);
        self.read_clocks_and_counters();
        self.flush_readings(true);
        self.note_losses();
        self.describe_again();
        let statistics = self.ebpf.statistics();
        Ended { losses: self.losses(), statistics, missing: self.ebpf.missing, held: self.notes.finish() }
    }
}

/// The next sleep, so that the fullest lane is found as full as wanted.
fn next_sleep(last: Duration, fullest: f64) -> Duration {
    let factor = (WANTED_FILL / fullest.max(0.01)).clamp(0.1, 2.0);
    last.mul_f64(factor).clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
}

/// On a machine whose CPUs are all busy the collector must still come in time;
/// it needs little. Where raising its priority is not permitted, it goes without.
fn go_first() {
    // SAFETY: the thread's own priority; no memory is involved.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -19) };
}

/// Everything that is known at the start.
fn describe(options: &RecordOptions, host: &Host, ebpf: &EbpfSource, tick_rate_hz: f64) -> SessionInfo {
    SessionInfo {
        recorder_command: options.command_line.clone(),
        clock_source: ebpf.clock_source,
        tick_rate_hz,
        clocks: clocks_in_nanoseconds(ebpf, tick_rate_hz),
        sample_rate_hz: options.sample_rate_hz,
        sample_event: ebpf.sample_event().unwrap_or_default().to_owned(),
        stacks: options.stacks.names(),
        filter_pids: options.pids.clone(),
        notes: ebpf.missing.clone(),
        ..host.session()
    }
}

/// The clocks' error bounds, which were found in ticks, in nanoseconds.
fn clocks_in_nanoseconds(ebpf: &EbpfSource, tick_rate_hz: f64) -> Vec<CpuClock> {
    let mut clocks = ebpf.clocks.clone();
    clocks.iter_mut().for_each(|clock| clock.error_bound_ns *= 1e9 / tick_rate_hz);
    clocks
}

/// Ticks per second between two readings.
fn tick_rate(earlier: &ClockPair, later: &ClockPair) -> f64 {
    let nanoseconds = later.monotonic_raw.saturating_sub(earlier.monotonic_raw).max(1);
    later.ticks.0.saturating_sub(earlier.ticks.0).max(1) as f64 * 1e9 / nanoseconds as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_the_lanes_the_shorter_the_sleep() {
        let ms = Duration::from_millis;
        assert_eq!(next_sleep(ms(20), 0.25), ms(20));
        assert_eq!(next_sleep(ms(20), 0.5), ms(10));
        assert_eq!(next_sleep(ms(20), 1.0), ms(5));
        assert_eq!(next_sleep(ms(30), 0.0), LONGEST_SLEEP);
        assert_eq!(next_sleep(ms(1), 1.0), SHORTEST_SLEEP);
    }
}
