//! A small capture whose content is known, and the question that every test of
//! damage asks: is what can be read true, and is the rest counted?
#![allow(dead_code, reason = "each test needs a part of it")]
#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::collections::BTreeMap;
use syscollect_model::{Lane, LaneKind, RecorderSummary, SessionInfo, StopReason, Ticks, Unit};
use syscollect_store::{
    CaptureReader, CaptureWriter, Chunk, ChunkHeader, CounterDefinition, Damage, Definition,
};

/// A chunk of `records` records, all bytes made from lane and number.
pub(crate) fn chunk(
    lane: Lane,
    sequence: u64,
    records_before: u64,
    records: u32,
    stride: u32,
) -> Chunk {
    let length = records * stride;
    let seed = sequence * 31 + u64::from(lane.index) * 7 + lane.kind as u64;
    let data = (0..u64::from(length)).map(|at| (at * seed % 11 + seed) as u8).collect();
    let first = Ticks(1_000 * (sequence + 1));
    let last = Ticks(first.0 + 900);
    let current_tid = 100 + sequence as u32;
    Chunk {
        header: ChunkHeader {
            lane,
            sequence,
            first,
            last,
            current_tid,
            stride,
            records_before,
            records,
            length,
        },
        data,
    }
}

/// Chunks of one lane in order.
pub(crate) fn lane_chunks(lane: Lane, records: &[u32], stride: u32) -> Vec<Chunk> {
    let mut before = 0;
    let chunks = (0..).zip(records).map(|(sequence, records)| {
        let chunk = chunk(lane, sequence, before, *records, stride);
        before += u64::from(*records);
        chunk
    });
    chunks.collect()
}

/// The capture of the tests of damage.
pub(crate) struct Scenario {
    /// What was recorded, by lane and number.
    pub(crate) chunks: BTreeMap<(Lane, u64), Chunk>,
    /// What was defined.
    pub(crate) definitions: Vec<Definition>,
    /// The file.
    pub(crate) file: Vec<u8>,
    /// Where the first copies of chunks end in the file, in the order of writing.
    pub(crate) ends: Vec<(Lane, u64)>,
}

impl Scenario {
    /// Two CPUs' switches, samples, stacks and tasks between definitions.
    pub(crate) fn small() -> Self {
        let counter =
            CounterDefinition { name: "memory".into(), unit: Unit::Bytes, ..Default::default() };
        let definitions = vec![
            Definition::Session(Box::new(SessionInfo {
                hostname: "sea".into(),
                ..Default::default()
            })),
            Definition::Counters(vec![counter]),
            Definition::Summary(Box::new(RecorderSummary {
                stop_reason: StopReason::Duration,
                ..Default::default()
            })),
        ];
        let mut writer = CaptureWriter::create(Vec::new()).unwrap();
        let mut ends = Vec::new();
        writer.define(&definitions[0]).unwrap();
        let lanes = [
            lane_chunks(Lane::new(LaneKind::SchedStack, 0), &[2, 1], 72),
            lane_chunks(Lane::new(LaneKind::Sched, 0), &[9, 4, 6], 16),
            lane_chunks(Lane::new(LaneKind::Sample, 1), &[5, 3], 24),
            lane_chunks(Lane::new(LaneKind::Task, 0), &[2], 56),
        ];
        for chunk in lanes.iter().flatten() {
            writer.write(chunk).unwrap();
            ends.push((chunk.header.lane, writer.bytes()));
        }
        writer.define(&definitions[1]).unwrap();
        writer.define(&definitions[2]).unwrap();
        let file = writer.finish().unwrap();
        let chunks = lanes
            .into_iter()
            .flatten()
            .map(|chunk| ((chunk.header.lane, chunk.header.sequence), chunk))
            .collect();
        Self { chunks, definitions, file, ends }
    }

    /// Records that a lane produced.
    pub(crate) fn produced(&self, lane: Lane) -> u64 {
        let of_lane = self.chunks.iter().filter(|((of, _), _)| *of == lane);
        of_lane.map(|(_, chunk)| u64::from(chunk.header.records)).sum()
    }

    /// All lanes of records.
    pub(crate) fn lanes(&self) -> Vec<Lane> {
        let mut lanes: Vec<Lane> = self.chunks.keys().map(|(lane, _)| *lane).collect();
        lanes.dedup();
        lanes
    }

    /// Reads all of a lane: records that are there and records that are counted
    /// as lost. What is there must be what was recorded under that number.
    pub(crate) fn account(&self, reader: &CaptureReader, lane: Lane) -> (u64, u64) {
        let (mut there, mut lost) = (0, 0);
        for entry in reader.chunks(lane) {
            match reader.read(entry) {
                Ok(chunk) => {
                    assert_eq!(
                        Some(&chunk),
                        self.chunks.get(&(lane, entry.sequence)),
                        "a chunk changed"
                    );
                    there += u64::from(chunk.header.records);
                }
                Err(_) => lost += u64::from(entry.records),
            }
        }
        for damage in reader.damage() {
            if let Damage::Gap { lane: of, records, .. } = damage
                && *of == lane
            {
                lost += records.unwrap_or(0);
            }
        }
        (there, lost)
    }

    /// The definitions that can be read, without the writer's own.
    pub(crate) fn read_definitions(reader: &CaptureReader) -> Vec<Definition> {
        let definitions = reader.definitions().filter_map(Result::ok);
        definitions.filter(|definition| !matches!(definition, Definition::Lanes(_))).collect()
    }
}
