//! What a mark costs while nobody records, and while somebody does.
//!
//! The collector is a thread of this process, so no root is needed. Times are
//! CPU times of the measuring thread, so that a busy machine does no harm.
//!
//! `cargo bench -p syscollect-usdt-client`

mod reader;

use criterion::{Bencher, Criterion, criterion_group, criterion_main};
use reader::{Reader, timed};
use std::hint::black_box;
use std::time::Duration;
use syscollect_usdt_client::{lock, message, plot, zone};

/// Measures one mark, off or on.
macro_rules! mark {
    ($criterion:ident, $reader:ident, $name:literal, $turn:expr) => {
        let name = format!("{}, {}", $name, if $reader.is_some() { "on" } else { "off" });
        $criterion.bench_function(&name, |bencher: &mut Bencher<'_>| {
            bencher.iter_custom(|turns| match $reader {
                Some(reader) => reader.timed(turns, $turn),
                None => timed(turns, $turn),
            });
        });
    };
}

fn nested(depth: u32) {
    let _zone = zone!("nested");
    if depth > 1 {
        nested(depth - 1);
    }
}

fn zones(criterion: &mut Criterion, reader: Option<&Reader>) {
    mark!(criterion, reader, "zone", |_| {
        let _zone = zone!("zone");
    });
    mark!(criterion, reader, "8 nested zones", |_| nested(8));
    mark!(criterion, reader, "zone with text", |_| zone!("zone").text("a short text"));
    mark!(criterion, reader, "zone with a value", |index| zone!("zone").value(index));
}

fn other_marks(criterion: &mut Criterion, reader: Option<&Reader>) {
    mark!(criterion, reader, "message", |_| message!("a text that is sent once"));
    mark!(criterion, reader, "message with a number", |index| message!("number {index}"));
    mark!(criterion, reader, "plot", |index| plot!("plot", index));
    let bare = std::sync::Mutex::new(());
    mark!(criterion, reader, "bare mutex", |_| drop(black_box(bare.lock())));
    let wrapped = lock::Mutex::named("mutex", ());
    mark!(criterion, reader, "mutex", |_| drop(black_box(wrapped.lock())));
}

fn all(criterion: &mut Criterion) {
    criterion
        .bench_function("empty loop", |bencher| bencher.iter_custom(|turns| timed(turns, |_| ())));
    criterion.bench_function("two rdtsc", |bencher| {
        bencher.iter_custom(|turns| {
            timed(turns, |_| {
                // SAFETY: no preconditions.
                black_box(unsafe { (core::arch::x86_64::_rdtsc(), core::arch::x86_64::_rdtsc()) });
            })
        });
    });
    zones(criterion, None);
    other_marks(criterion, None);
    let reader = Reader::attach();
    zones(criterion, Some(&reader));
    other_marks(criterion, Some(&reader));
    assert_eq!(reader.lost(), 0, "what found no room was measured");
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600));
    targets = all
}
criterion_main!(benches);
