//! What an event costs to collect and to write for Tracy: synthetic sessions into a sink.

mod synthetic;
#[path = "synthetic/zones.rs"]
mod zones;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use synthetic::Shape;
use syscollect_exporters::TracyExporter;

const EVENTS: u64 = 200_000;

fn tracy(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tracy");
    group.sample_size(10).throughput(Throughput::Elements(EVENTS));
    for (name, event_stacks) in [("no-stacks", false), ("off-cpu-stacks", true)] {
        let shape = Shape { cpus: 4, threads: 64, stacks: 2_000, event_stacks };
        let mut tables = synthetic::tables(shape);
        group.bench_function(BenchmarkId::new("export", name), |bencher| {
            bencher.iter(|| {
                let mut exporter = TracyExporter::new(std::io::sink());
                synthetic::play(&mut exporter, &mut tables, shape, EVENTS)
                    .expect("a sink takes everything");
                black_box(exporter.finish().expect("a sink takes everything"))
            });
        });
    }
    group.finish();
}

fn instrumented(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tracy");
    group.sample_size(10).throughput(Throughput::Elements(EVENTS));
    let mut tables = zones::tables();
    group.bench_function("zones", |bencher| {
        bencher.iter(|| {
            let mut exporter = TracyExporter::new(std::io::sink());
            zones::play(&mut exporter, &mut tables, EVENTS).expect("a sink takes everything");
            black_box(exporter.finish().expect("a sink takes everything"))
        });
    });
    group.finish();
}

criterion_group!(benches, tracy, instrumented);
criterion_main!(benches);
