//! What an event costs in a Firefox profile and in added-up stacks: synthetic sessions into a sink.

mod synthetic;
#[path = "synthetic/zones.rs"]
mod zones;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use synthetic::Shape;
use syscollect_exporters::{
    FirefoxExporter, FirefoxOptions, FoldedExporter, PprofExporter, StackOptions,
};

const EVENTS: u64 = 200_000;
const SHAPE: Shape = Shape { cpus: 4, threads: 64, stacks: 2_000, event_stacks: true };

fn firefox(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("firefox");
    group.sample_size(10).throughput(Throughput::Elements(EVENTS));
    for (name, sched_markers) in [("samples", false), ("sched-markers", true)] {
        let mut tables = synthetic::tables(SHAPE);
        group.bench_function(BenchmarkId::new("export", name), |bencher| {
            bencher.iter(|| {
                let options = FirefoxOptions { gzip: true, sched_markers, ..Default::default() };
                let mut exporter = FirefoxExporter::new(std::io::sink(), options);
                synthetic::play(&mut exporter, &mut tables, SHAPE, EVENTS)
                    .expect("nothing refuses an event");
                black_box(exporter.finish().expect("a sink takes everything"))
            });
        });
    }
    group.finish();
}

fn stacks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("stacks");
    group.sample_size(10).throughput(Throughput::Elements(EVENTS));
    let mut tables = synthetic::tables(SHAPE);
    group.bench_function("folded", |bencher| {
        bencher.iter(|| {
            let mut exporter = FoldedExporter::new(std::io::sink(), StackOptions::default());
            synthetic::play(&mut exporter, &mut tables, SHAPE, EVENTS)
                .expect("nothing refuses an event");
            black_box(exporter.finish().expect("a sink takes everything"))
        });
    });
    group.bench_function("pprof", |bencher| {
        bencher.iter(|| {
            let mut exporter = PprofExporter::new(std::io::sink(), None);
            synthetic::play(&mut exporter, &mut tables, SHAPE, EVENTS)
                .expect("nothing refuses an event");
            black_box(exporter.finish().expect("a sink takes everything"))
        });
    });
    group.finish();
}

fn instrumented(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("firefox");
    group.sample_size(10).throughput(Throughput::Elements(EVENTS));
    let mut tables = zones::tables();
    group.bench_function("zones", |bencher| {
        bencher.iter(|| {
            let mut exporter = FirefoxExporter::new(
                std::io::sink(),
                FirefoxOptions { gzip: true, ..Default::default() },
            );
            zones::play(&mut exporter, &mut tables, EVENTS).expect("nothing refuses an event");
            black_box(exporter.finish().expect("a sink takes everything"))
        });
    });
    group.finish();
}

criterion_group!(benches, firefox, instrumented, stacks);
criterion_main!(benches);
