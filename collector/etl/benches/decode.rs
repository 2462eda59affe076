//! What a byte of an uncompressed trace costs.
//!
//! - `scan`: buffers and record headers read, in the order of the file;
//! - `merged`: the same, merged by time.
//!
//! `expanded` is the merge of a compressed trace, by bytes of its file.
//!
//! Each of a trace of the graphics kernel's events (about 100 bytes each) and
//! of one of scheduling events (about 60), repeated to a quarter of a gigabyte.
//!
//! `cargo bench -p syscollect-etl`; needs the fixtures (tests/fixtures/README.md).
#![allow(missing_docs, reason = "criterion's macros make functions without documentation")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use syscollect_etl::Record;
use syscollect_etl::file::Trace;
use syscollect_tests::etl::{GPUVIS, PERFVIEW, SYNTHETIC, fixture, repeated};

const LENGTH: usize = 256 << 20;

fn decode(criterion: &mut Criterion) {
    for (name, file) in [("graphics", GPUVIS), ("scheduling", SYNTHETIC)] {
        let Ok(trace) = Trace::from_bytes(vec![repeated(&fixture(file), LENGTH)]) else { continue };
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10).throughput(Throughput::Bytes(trace.bytes()));
        group.bench_function("scan", |bencher| bencher.iter(|| scan(&trace)));
        group.bench_function("merged", |bencher| bencher.iter(|| merged(&trace)));
        group.finish();
    }
    let Ok(trace) = Trace::from_bytes(vec![fixture(PERFVIEW)]) else { return };
    let mut group = criterion.benchmark_group("samples");
    group.throughput(Throughput::Bytes(trace.bytes()));
    group.bench_function("expanded", |bencher| bencher.iter(|| merged(&trace)));
    group.finish();
}

fn scan(trace: &Trace) -> u64 {
    let mut sum = 0;
    trace.scan(|_, record| sum ^= taste(record));
    sum
}

fn merged(trace: &Trace) -> u64 {
    let (mut sum, mut merged) = (0, trace.merged());
    while let Some((_, record)) = merged.next() {
        sum ^= taste(&record);
    }
    sum
}

/// Looks at everything a record has, so that nothing of it is left out.
fn taste(record: &Record<'_>) -> u64 {
    black_box(record);
    record.timestamp
}

criterion_group!(benches, decode);
criterion_main!(benches);
