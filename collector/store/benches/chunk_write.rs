//! Encoding and writing chunks, and reading them back. Throughput is in bytes
//! of records as they lie in the lanes.
#![allow(missing_docs, reason = "criterion_group generates an item without")]

#[path = "../tests/scenario/mod.rs"]
mod scenario;
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::io::Write;
use syscollect_model::{Lane, LaneKind};
use syscollect_store::{CaptureReader, CaptureWriter, Chunk, ReadBuffer};

const LANE: Lane = Lane::new(LaneKind::Sched, 0);

/// Chunks of 64 KiB with the records given.
fn chunks(data: &[u8], stride: u32) -> Vec<Chunk> {
    let per_chunk = 65_536 / stride;
    let parts = data.chunks((per_chunk * stride) as usize).enumerate();
    parts
        .map(|(sequence, part)| {
            let before = sequence as u64 * u64::from(per_chunk);
            let mut chunk =
                scenario::chunk(LANE, sequence as u64, before, part.len() as u32 / stride, stride);
            chunk.data = part.to_vec();
            chunk
        })
        .collect()
}

fn inputs() -> Vec<(String, Vec<Chunk>)> {
    let mut inputs = Vec::new();
    for threads in [2, 200] {
        inputs.push((
            format!("sched {threads} threads"),
            chunks(&synthetic::sched_bytes(threads, 1 << 19), 16),
        ));
        inputs.push((
            format!("stacks {threads} threads"),
            chunks(&synthetic::sched_stack_bytes(threads, 1 << 19), 24),
        ));
    }
    inputs
}

fn bytes(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|chunk| chunk.data.len() as u64).sum()
}

fn write<W: Write>(out: W, chunks: &[Chunk]) -> W {
    let mut writer = CaptureWriter::create(out).expect("a writable output");
    for chunk in chunks {
        writer.write(chunk).expect("a writable output");
    }
    writer.finish().expect("a writable output")
}

fn chunk_write(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunk_write");
    for (name, chunks) in inputs() {
        group.throughput(Throughput::Bytes(bytes(&chunks)));
        group.bench_with_input(BenchmarkId::new("to memory", &name), &chunks, |bencher, chunks| {
            let mut memory = Vec::new();
            bencher.iter(|| {
                memory.clear();
                memory = write(std::mem::take(&mut memory), chunks);
            });
        });
    }
    let (name, chunks) = inputs().swap_remove(2);
    group.throughput(Throughput::Bytes(bytes(&chunks)));
    group.bench_function(BenchmarkId::new("to a file", &name), |bencher| {
        bencher.iter(|| write(tempfile::tempfile().expect("a temporary file"), &chunks));
    });
    group.finish();
}

fn chunk_read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunk_read");
    for (name, chunks) in inputs() {
        let reader = CaptureReader::from_bytes(write(Vec::new(), &chunks)).expect("a capture");
        group.throughput(Throughput::Bytes(bytes(&chunks)));
        group.bench_with_input(BenchmarkId::new("read", &name), &reader, |bencher, reader| {
            let (mut data, mut buffer) = (Vec::new(), ReadBuffer::default());
            bencher.iter(|| {
                for entry in reader.chunks(LANE) {
                    black_box(
                        reader.read_into(entry, &mut data, &mut buffer).expect("a whole chunk"),
                    );
                }
            });
        });
    }
    group.finish();
}

/// Opening 100 MB: only headers are read, so throughput is in bytes of file.
fn open(criterion: &mut Criterion) {
    let chunks = chunks(&synthetic::sched_bytes(200, 20_400_000), 16);
    let file = write(tempfile::NamedTempFile::new().expect("a temporary file"), &chunks);
    let size = file.as_file().metadata().expect("a temporary file").len();
    let mut group = criterion.benchmark_group("open");
    group.throughput(Throughput::Bytes(size)).sample_size(20);
    group.bench_function(format!("{} MB", size / 1_000_000), |bencher| {
        bencher.iter(|| CaptureReader::open(file.path()).expect("a capture"));
    });
    group.finish();
}

criterion_group!(benches, chunk_write, chunk_read, open);
criterion_main!(benches);
