//! Recordings of replayed chunks: the way from source to file, without a kernel.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::path::Path;

use syscollect_capture::{RecordOptions, Recorded, Recording};
use syscollect_model::{Lane, LaneKind, LossCause, StopReason, Ticks};
use syscollect_records::{RecordKind, SchedRecord, Stamp};
use syscollect_store::{BufferMode, CaptureReader, Chunk, ChunkHeader};

const RECORDS_PER_CHUNK: u64 = 4000;
const LANE: Lane = Lane::new(LaneKind::Sched, 1);

/// A chunk of switches between two tasks that hardly compresses.
fn chunk(sequence: u64) -> Chunk {
    let first = sequence * RECORDS_PER_CHUNK;
    let data: Vec<u8> = (first..first + RECORDS_PER_CHUNK)
        .flat_map(|index| record_at(index).as_bytes().to_vec())
        .collect();
    let header = ChunkHeader {
        lane: LANE,
        sequence,
        first: Ticks(1000 + first),
        last: Ticks(999 + first + RECORDS_PER_CHUNK),
        current_tid: 7,
        stride: SchedRecord::SIZE as u32,
        records_before: first,
        records: RECORDS_PER_CHUNK as u32,
        length: data.len() as u32,
    };
    Chunk { header, data }
}

fn record_at(index: u64) -> SchedRecord {
    let tid = (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32;
    SchedRecord { stamp: Stamp::new(1000 + index, RecordKind::Switch), tid, ..Default::default() }
}

fn record(chunks: Vec<Chunk>, path: &Path, mode: BufferMode, buffer_bytes: usize) -> Recorded {
    let options = RecordOptions { buffer_bytes, mode, ..RecordOptions::default() };
    let out = std::fs::File::create(path).unwrap();
    Recording::replay(options, chunks, out).unwrap().stop(StopReason::ReplayEnded).unwrap()
}

/// The chunks of the lane in the file.
fn read(path: &Path) -> Vec<Chunk> {
    let capture = CaptureReader::open(path).unwrap();
    assert!(capture.is_complete());
    capture.chunks(LANE).iter().map(|entry| capture.read(entry).unwrap()).collect()
}

#[test]
fn what_a_source_delivers_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replay.syscap");
    let chunks: Vec<Chunk> = (0..20).map(chunk).collect();
    let recorded = record(chunks.clone(), &path, BufferMode::Discard, 64 << 20);
    assert_eq!(read(&path), chunks);
    assert_eq!(recorded.records, 20 * RECORDS_PER_CHUNK);
    assert_eq!(recorded.losses, []);
    assert_eq!(recorded.error, None);
    assert_eq!(recorded.summary.stop_reason, StopReason::ReplayEnded);
}

#[test]
fn a_ring_keeps_the_newest_and_counts_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring.syscap");
    let chunks: Vec<Chunk> = (0..40).map(chunk).collect();
    let recorded = record(chunks.clone(), &path, BufferMode::Overwrite, 1 << 20);
    let kept = read(&path);
    assert!(!kept.is_empty() && kept.len() < 40, "{} chunks kept", kept.len());
    assert_eq!(kept, chunks[40 - kept.len()..], "the newest ones, whole");
    let [loss] = recorded.losses.as_slice() else { panic!("one loss: {:?}", recorded.losses) };
    assert_eq!((loss.cause, loss.cpu), (LossCause::Overwritten, Some(1)));
    assert_eq!(loss.count + kept.len() as u64 * RECORDS_PER_CHUNK, 40 * RECORDS_PER_CHUNK);
}
