//! What making seconds of scheduling costs, CPU time for each record: `cargo bench -p
//! syscollect-activity`.

use syscollect_activity::Activity;
use syscollect_model::{Lane, LaneKind, SessionInfo, Ticks};
use syscollect_records::{ClockRecord, RecordKind, SchedRecord, Stamp, task_state};
use syscollect_store::{Chunk, ChunkHeader, Definition};

/// A tick is a nanosecond.
const TICKS_PER_SECOND: u64 = 1_000_000_000;
const CPUS: u64 = 4;
const EVENTS_PER_SECOND: u64 = 300_000;
const SECONDS: u64 = 10;
/// How often lanes are emptied, ticks.
const DRAIN: u64 = 20_000_000;

fn chunk(lane: Lane, drain: u64, records: &[(u64, Vec<u8>)]) -> Chunk {
    let data: Vec<u8> = records.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    let header = ChunkHeader {
        lane,
        sequence: drain,
        first: Ticks(records[0].0),
        last: Ticks(records[records.len() - 1].0),
        current_tid: 0,
        stride: records[0].1.len() as u32,
        records_before: drain * records.len() as u64,
        records: records.len() as u32,
        length: data.len() as u32,
    };
    Chunk { header, data }
}

/// Wakeups, and switches to those who were woken and back to the idle thread.
fn sched(at: u64, cpu: u64, number: u64) -> Vec<u8> {
    let tid = 1000 + (cpu * 250 + number / 3 % 250) as u32;
    let (kind, tid, state) = match number % 3 {
        0 => (RecordKind::Waking, tid, 0),
        1 => (RecordKind::Switch, tid, 0),
        _ => (RecordKind::Switch, 0, task_state::INTERRUPTIBLE),
    };
    let record = SchedRecord { stamp: Stamp::new(at, kind), tid, state, ..Default::default() };
    record.as_bytes().to_vec()
}

/// What this thread took of CPUs, nanoseconds: others may keep them busy.
fn cpu_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("it is Linux");
    let first = text.split(' ').next().expect("it has fields");
    first.parse().expect("the first is a number")
}

fn nanoseconds_per_record() -> f64 {
    let mut activity = Activity::default();
    let info = SessionInfo { tick_rate_hz: TICKS_PER_SECOND as f64, ..SessionInfo::default() };
    let session = Definition::Session(Box::new(info));
    session.chunks().into_iter().for_each(|chunk| activity.feed(chunk));
    let reading = |ticks| {
        let stamp = Stamp::new(ticks, RecordKind::Clock);
        let record = ClockRecord {
            stamp,
            monotonic: ticks,
            monotonic_raw: ticks,
            boottime: ticks,
            realtime: ticks,
            ..ClockRecord::default()
        };
        (ticks, record.as_bytes().to_vec())
    };
    let readings = [reading(0), reading(TICKS_PER_SECOND)];
    activity.feed(chunk(Lane::new(LaneKind::Clock, 0), 0, &readings));

    let per_drain = EVENTS_PER_SECOND * DRAIN / TICKS_PER_SECOND / CPUS;
    let mut chunks = Vec::new();
    for drain in 0..SECONDS * TICKS_PER_SECOND / DRAIN {
        for cpu in 0..CPUS {
            let records: Vec<_> = (0..per_drain)
                .map(|number| {
                    let at = drain * DRAIN + number * (DRAIN / per_drain) + cpu;
                    (at, sched(at, cpu, drain * per_drain + number))
                })
                .collect();
            chunks.push(chunk(Lane::new(LaneKind::Sched, cpu as u16), drain, &records));
        }
    }
    let records: u64 = chunks.iter().map(|chunk| u64::from(chunk.header.records)).sum();
    let began = cpu_time();
    for (number, chunk) in chunks.into_iter().enumerate() {
        activity.feed(chunk);
        if (number as u64 + 1).is_multiple_of(CPUS) {
            activity.nothing_before(Ticks((number as u64 + 1) / CPUS * DRAIN));
        }
    }
    let took = cpu_time() - began;
    assert_eq!(activity.history().len() as u64, SECONDS - 1, "the first begins at a drain");
    took as f64 / records as f64
}

fn main() {
    let best = (0..5).map(|_| nanoseconds_per_record()).fold(f64::MAX, f64::min);
    println!("{best:.1} ns/record");
}
