//! What a byte of an uncompressed trace costs on its way into the model.
//!
//! - `open`: the first pass, over what events refer to;
//! - `play`: the second, every event given to an exporter that keeps none;
//! - `whole`: both, which is what an export pays before it writes anything.
//!
//! Each of a trace of the graphics kernel's events (about 100 bytes each) and of
//! one of scheduling events (about 60), repeated to a quarter of a gigabyte.
//!
//! `cargo bench -p syscollect-etl --bench session`; needs the fixtures (tests/fixtures/README.md).
#![allow(missing_docs, reason = "criterion's macros make functions without documentation")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use syscollect_etl::session::Session;
use syscollect_playback::{NullExporter, Recording};
use syscollect_tests::etl::{GPUVIS, SYNTHETIC, fixture, repeated};

const LENGTH: usize = 256 << 20;

/// A long recording made of a fixture, in a folder.
fn long(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join("long.etl");
    std::fs::write(&path, repeated(&fixture(name), LENGTH)).ok()?;
    Some(path)
}

fn session(criterion: &mut Criterion) {
    for (name, file) in [("graphics", GPUVIS), ("scheduling", SYNTHETIC)] {
        let Ok(folder) = tempfile::tempdir() else { return };
        let Some(path) = long(folder.path(), file) else { continue };
        let open = || Session::open(std::slice::from_ref(&path)).ok();
        let mut group = criterion.benchmark_group(format!("session/{name}"));
        group.sample_size(10).throughput(Throughput::Bytes(LENGTH as u64));
        group.bench_function("open", |bencher| bencher.iter(open));
        group.bench_function("play", |bencher| {
            bencher.iter_batched(open, play, BatchSize::PerIteration);
        });
        group.bench_function("whole", |bencher| bencher.iter(|| play(open())));
        group.finish();
    }
}

fn play(session: Option<Session>) -> Option<Session> {
    let mut session = session?;
    let Ok(played) = session.play(&mut NullExporter::new());
    black_box(played);
    Some(session)
}

criterion_group!(benches, session);
criterion_main!(benches);
