//! What an event costs to sum up: synthetic sessions, the report built at the end.

mod synthetic;
#[path = "synthetic/zones.rs"]
mod zones;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use synthetic::Shape;
use syscollect_exporters::report::{ReportExporter, ReportOptions};

const EVENTS: u64 = 200_000;

fn report(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("report");
    group.sample_size(10).throughput(Throughput::Elements(EVENTS));
    for (name, event_stacks) in [("no-stacks", false), ("off-cpu-and-waker-stacks", true)] {
        let shape = Shape { cpus: 4, threads: 64, stacks: 2_000, event_stacks };
        let mut tables = synthetic::tables(shape);
        group.bench_function(BenchmarkId::new("sum-up", name), |bencher| {
            bencher.iter(|| {
                let mut exporter = ReportExporter::new(ReportOptions::default());
                let Ok(()) = synthetic::play(&mut exporter, &mut tables, shape, EVENTS);
                black_box(exporter.finish())
            });
        });
    }
    let mut program = zones::tables();
    group.bench_function(BenchmarkId::new("sum-up", "zones"), |bencher| {
        bencher.iter(|| {
            let mut exporter = ReportExporter::new(ReportOptions::default());
            let Ok(()) = zones::play(&mut exporter, &mut program, EVENTS);
            black_box(exporter.finish())
        });
    });
    group.finish();
}

criterion_group!(benches, report);
criterion_main!(benches);
