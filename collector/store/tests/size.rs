//! Bytes per event in the file, on records that look like a machine's.
#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod scenario;
mod synthetic;

use scenario::chunk;
use syscollect_model::{Lane, LaneKind};
use syscollect_store::{CaptureReader, CaptureWriter};

/// Writes the records in chunks of 64 KiB and reads them back; bytes of file per record.
fn bytes_per_record(data: &[u8], stride: u32) -> f64 {
    let lane = Lane::new(LaneKind::Sched, 0);
    let per_chunk = 65_536 / stride;
    let mut writer = CaptureWriter::create(Vec::new()).unwrap();
    for (sequence, part) in data.chunks((per_chunk * stride) as usize).enumerate() {
        let records = part.len() as u32 / stride;
        let mut chunk =
            chunk(lane, sequence as u64, sequence as u64 * u64::from(per_chunk), records, stride);
        chunk.data = part.to_vec();
        writer.write(&chunk).unwrap();
    }
    let file = writer.finish().unwrap();
    let size = file.len();
    let reader = CaptureReader::from_bytes(file).unwrap();
    let read: Vec<u8> =
        reader.chunks(lane).iter().flat_map(|entry| reader.read(entry).unwrap().data).collect();
    assert!(read == data, "what is read differs from what was written");
    size as f64 / (data.len() / stride as usize) as f64
}

#[test]
fn an_event_takes_at_most_8_bytes_and_with_stacks_16() {
    for threads in [2, 20, 200, 2_000] {
        let plain = bytes_per_record(&synthetic::sched_bytes(threads, 100_000), 16);
        let stacks = bytes_per_record(&synthetic::sched_stack_bytes(threads, 100_000), 24);
        println!(
            "{threads:5} threads: {plain:.2} bytes per event of 16, {stacks:.2} of 24 with stack \
             ids"
        );
        assert!(plain <= 8.0 && stacks <= 16.0);
    }
}
