//! A small recording made by hand: one CPU, a worker that runs twice.

use std::io::Write;
use syscollect_model::{
    CpuClock, CpuInfo, Lane, LaneKind, RecorderSummary, SessionInfo, StopReason, Ticks,
};
use syscollect_records::{ClockRecord, RecordKind, SchedRecord, Stamp};
use syscollect_store::{
    CaptureWriter, Chunk, ChunkHeader, Definition, KnownProcess, KnownThread, LaneLoss,
};

/// Switches in the recording.
pub(crate) const SWITCHES: u64 = 4;

fn chunk(kind: LaneKind, stride: u32, ticks: &[u64], data: Vec<u8>) -> Chunk {
    let header = ChunkHeader {
        lane: Lane::new(kind, 0),
        sequence: 0,
        first: Ticks(ticks[0]),
        last: Ticks(ticks[ticks.len() - 1]),
        current_tid: 0,
        stride,
        records_before: 0,
        records: ticks.len() as u32,
        length: data.len() as u32,
    };
    Chunk { header, data }
}

/// Clocks that agree, at one tick a nanosecond.
fn clock() -> Chunk {
    let ticks = [1_000_000, 9_000_000];
    let data = ticks.iter().flat_map(|ns| clock_record(*ns).as_bytes().to_vec()).collect();
    chunk(LaneKind::Clock, ClockRecord::SIZE as u32, &ticks, data)
}

fn clock_record(ns: u64) -> ClockRecord {
    ClockRecord {
        stamp: Stamp::new(ns, RecordKind::Clock),
        monotonic: ns,
        monotonic_raw: ns,
        boottime: ns,
        realtime: ns,
        uncertainty: 10,
    }
}

/// The worker, thread 70, comes and goes twice.
fn switches() -> Chunk {
    let ticks = [2_000_000, 3_000_000, 4_000_000, 5_000_000];
    let records = ticks.iter().zip([70, 0, 70, 0]).map(|(ticks, tid)| SchedRecord {
        stamp: Stamp::new(*ticks, RecordKind::Switch),
        tid,
        state: 1,
        prio: 120,
        next_prio: 120,
        flags: 0,
    });
    let data = records.flat_map(|record| record.as_bytes().to_vec()).collect();
    chunk(LaneKind::Sched, SchedRecord::SIZE as u32, &ticks, data)
}

fn session() -> SessionInfo {
    SessionInfo {
        recorder: "syscollect test".into(),
        kernel_release: "6.18.0".into(),
        cpus: vec![CpuInfo::default()],
        clocks: vec![CpuClock { cpu: 0, error_bound_ns: 42.0, method: "by hand".into() }],
        ..Default::default()
    }
}

/// What the recorder says of itself.
pub(crate) fn summary(stop_reason: StopReason) -> RecorderSummary {
    RecorderSummary { stop_reason, duration_ns: 8_000_000, ..Default::default() }
}

/// Records of a second CPU that no version of syscollect knows.
#[allow(dead_code)]
pub(crate) const UNDECODABLE: u64 = 3;

/// A chunk of [`UNDECODABLE`] records, which only whoever reads it finds out.
#[allow(dead_code)]
pub(crate) fn undecodable() -> Chunk {
    let ticks = [2_500_000, 3_500_000, 4_500_000];
    let data = ticks
        .iter()
        .flat_map(|ticks| [(ticks << 8 | 200u64).to_le_bytes(), [0; 8]].concat())
        .collect();
    let mut chunk = chunk(LaneKind::Sched, SchedRecord::SIZE as u32, &ticks, data);
    chunk.header.lane.index = 1;
    chunk
}

/// A chunk that contradicts the one before, without a loss: idle was to run, and thread 99 leaves.
#[allow(dead_code)]
pub(crate) fn gap() -> Chunk {
    let ticks = 6_000_000;
    let record = SchedRecord {
        stamp: Stamp::new(ticks, RecordKind::Switch),
        state: 1,
        prio: 120,
        ..SchedRecord::default()
    };
    let data = record.as_bytes().to_vec();
    let mut chunk = chunk(LaneKind::Sched, SchedRecord::SIZE as u32, &[ticks], data);
    let header = &mut chunk.header;
    (header.sequence, header.records_before, header.current_tid) = (1, SWITCHES, 99);
    chunk
}

/// Writes the recording; `end` is its summary, or nothing when it is cut off.
#[allow(dead_code)]
pub(crate) fn write_capture<W: Write>(out: W, losses: &[LaneLoss], end: Option<RecorderSummary>) {
    write_capture_with(out, &[], losses, end);
}

/// The same with more chunks.
pub(crate) fn write_capture_with<W: Write>(
    out: W,
    more: &[Chunk],
    losses: &[LaneLoss],
    end: Option<RecorderSummary>,
) {
    let mut writer = CaptureWriter::create(out).unwrap();
    let thread = KnownThread { tid: 70, name: "worker".into(), ..Default::default() };
    let process =
        KnownProcess { pid: 70, parent_pid: 1, threads: vec![thread], ..Default::default() };
    writer.define(&Definition::Session(Box::new(session()))).unwrap();
    writer.define(&Definition::Processes(vec![process])).unwrap();
    writer.write(&clock()).unwrap();
    writer.write(&switches()).unwrap();
    more.iter().for_each(|chunk| writer.write(chunk).unwrap());
    if let Some(summary) = end {
        writer.define(&Definition::Losses(losses.to_vec())).unwrap();
        writer.define(&Definition::Summary(Box::new(summary))).unwrap();
    }
    writer.finish().unwrap();
}
