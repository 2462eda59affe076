//! Ten seconds of scheduling, as a recorder hands them on: what benchmarks of its readers read.

use syscollect_model::{Lane, LaneKind, SessionInfo, Ticks};
use syscollect_records::{ClockRecord, RecordKind, SchedRecord, Stamp, task_state};
use syscollect_store::{Chunk, ChunkHeader, Definition};

/// A tick is a nanosecond.
const TICKS_PER_SECOND: u64 = 1_000_000_000;
const CPUS: u64 = 4;
const EVENTS_PER_SECOND: u64 = 300_000;
/// How long the load lasts, seconds.
pub const SECONDS: u64 = 10;
/// How often lanes are emptied, ticks.
const DRAIN: u64 = 20_000_000;

/// What a reader of the load is told, in this order.
pub enum LoadStep {
    /// Read this.
    Chunk(Chunk),
    /// No later chunk has anything from before these ticks.
    NothingBefore(Ticks),
}

/// 300,000 events a second of four CPUs: wakeups, and switches to who was woken and back.
pub struct SchedulingLoad {
    /// The session and its clock, which are read before anything is measured.
    pub beginning: Vec<Chunk>,
    /// What is told then.
    pub steps: Vec<LoadStep>,
    /// How many records the steps have.
    pub records: u64,
}

impl SchedulingLoad {
    /// The same each time.
    #[expect(clippy::new_without_default, reason = "no load is the default of any other")]
    pub fn new() -> Self {
        let info = SessionInfo { tick_rate_hz: TICKS_PER_SECOND as f64, ..SessionInfo::default() };
        let mut beginning = Definition::Session(Box::new(info)).chunks();
        let readings = [clock_reading(0), clock_reading(TICKS_PER_SECOND)];
        beginning.push(chunk(Lane::new(LaneKind::Clock, 0), 0, &readings));

        let per_drain = EVENTS_PER_SECOND * DRAIN / TICKS_PER_SECOND / CPUS;
        let mut steps = Vec::new();
        let mut records = 0;
        for drain in 0..SECONDS * TICKS_PER_SECOND / DRAIN {
            for cpu in 0..CPUS {
                let of_cpu: Vec<_> = (0..per_drain)
                    .map(|number| {
                        let at = drain * DRAIN + number * (DRAIN / per_drain) + cpu;
                        sched(at, cpu, drain * per_drain + number)
                    })
                    .collect();
                records += of_cpu.len() as u64;
                let lane = Lane::new(LaneKind::Sched, cpu as u16);
                steps.push(LoadStep::Chunk(chunk(lane, drain, &of_cpu)));
            }
            steps.push(LoadStep::NothingBefore(Ticks((drain + 1) * DRAIN)));
        }
        Self { beginning, steps, records }
    }
}

/// A record, and when it was written.
struct Written {
    ticks: u64,
    bytes: Vec<u8>,
}

fn chunk(lane: Lane, drain: u64, records: &[Written]) -> Chunk {
    let data: Vec<u8> = records.iter().flat_map(|record| record.bytes.clone()).collect();
    let header = ChunkHeader {
        lane,
        sequence: drain,
        first: Ticks(records[0].ticks),
        last: Ticks(records[records.len() - 1].ticks),
        current_tid: 0,
        stride: records[0].bytes.len() as u32,
        records_before: drain * records.len() as u64,
        records: records.len() as u32,
        length: data.len() as u32,
    };
    Chunk { header, data }
}

fn clock_reading(ticks: u64) -> Written {
    let record = ClockRecord {
        stamp: Stamp::new(ticks, RecordKind::Clock),
        monotonic: ticks,
        monotonic_raw: ticks,
        boottime: ticks,
        realtime: ticks,
        ..ClockRecord::default()
    };
    Written { ticks, bytes: record.as_bytes().to_vec() }
}

/// Wakeups, and switches to those who were woken and back to the idle thread.
fn sched(ticks: u64, cpu: u64, number: u64) -> Written {
    let tid = 1000 + (cpu * 250 + number / 3 % 250) as u32;
    let (kind, tid, state) = match number % 3 {
        0 => (RecordKind::Waking, tid, 0),
        1 => (RecordKind::Switch, tid, 0),
        _ => (RecordKind::Switch, 0, task_state::INTERRUPTIBLE),
    };
    let stamp = Stamp::new(ticks, kind);
    let record = SchedRecord { stamp, tid, state, ..SchedRecord::default() };
    Written { ticks, bytes: record.as_bytes().to_vec() }
}

/// What this thread took of CPUs, nanoseconds: others may keep them busy.
pub fn cpu_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("it is Linux");
    let first = text.split(' ').next().expect("it has fields");
    first.parse().expect("the first is a number")
}
