//! What is measured, with each crate used as its documentation shows.

use crate::measure::Subject;
use crate::reader::{Reader, timed};
use crate::tracy;
use fastrace::collector::{Config, Reporter, SpanRecord};
use fastrace::local::LocalSpan;
use fastrace::prelude::{Span, SpanContext};
use std::hint::black_box;
use std::time::Duration;
use syscollect_usdt_client::tracing_layer::ZoneLayer;
use syscollect_usdt_client::{message, plot, zone};
use tracing_subscriber::layer::SubscriberExt;

/// The row that others are compared with.
pub(crate) const OWN: &str = "syscollect";
/// Turns of a round where nothing is recorded, and where something is.
const MANY: u64 = 1_000_000;
const SOME: u64 = 40_000;
/// Turns between which consumers get time.
const BATCH: u64 = 1000;

fn subject<'a>(
    what: &'static str,
    by: &'static str,
    state: &'static str,
    turns: u64,
    run: impl Fn(u64) -> Duration + 'a,
) -> Subject<'a> {
    Subject { what, by, state, turns, run: Box::new(run) }
}

/// Runs batches, and something between them that does not count.
fn in_batches(turns: u64, mut batch: impl FnMut(u64) -> Duration, between: impl Fn()) -> Duration {
    (0..turns / BATCH).fold(Duration::ZERO, |total, _| {
        between();
        total + batch(BATCH)
    })
}

fn own_zone(_: u64) {
    let _zone = zone!("zone");
}

fn tracy_zone(_: u64) {
    let _zone = tracy_client::span!("zone", 0);
}

fn tracing_zone(_: u64) {
    let _zone = tracing::info_span!("zone").entered();
}

fn fastrace_zone(_: u64) {
    let _zone = LocalSpan::enter_with_local_parent("zone");
}

fn puffin_zone(_: u64) {
    puffin::profile_scope!("zone");
}

/// A zone with its stack, so many functions below the measurement.
#[inline(never)]
fn below(depth: u32, zone: fn()) {
    if depth > 0 {
        below(depth - 1, zone);
        black_box(depth);
    } else {
        zone();
    }
}

fn own_zone_with_stack() {
    let _zone = zone!("zone", stack);
}

/// As many addresses as it takes at most.
fn tracy_zone_with_stack() {
    let _zone = tracy_client::span!("zone", 62);
}

/// While nobody listens.
pub(crate) fn off() -> Vec<Subject<'static>> {
    tracy_client::Client::start();
    vec![
        subject("empty loop", "", "", MANY, |turns| timed(turns, |_| ())),
        subject("two rdtsc", "", "", MANY, |turns| {
            timed(turns, |_| {
                // SAFETY: no preconditions.
                black_box(unsafe { (core::arch::x86_64::_rdtsc(), core::arch::x86_64::_rdtsc()) });
            })
        }),
        subject("zone", OWN, "off", MANY, |turns| timed(turns, own_zone)),
        subject("zone", "tracy-client", "not connected", MANY, |turns| timed(turns, tracy_zone)),
        subject("zone", "tracing", "no subscriber", MANY, |turns| timed(turns, tracing_zone)),
        subject("zone", "fastrace", "no parent", MANY, |turns| timed(turns, fastrace_zone)),
        subject("zone", "puffin", "off", MANY, |turns| timed(turns, puffin_zone)),
    ]
}

/// While somebody listens.
pub(crate) fn on(reader: &Reader) -> Vec<Subject<'_>> {
    fastrace::set_reporter(NullExporter, Config::default());
    puffin::set_scopes_on(true);
    let mut subjects = vec![
        subject("zone", OWN, "recorded", SOME, |turns| reader.timed(turns, own_zone)),
        subject("zone", "tracy-client", "connected", SOME, |turns| tracy_timed(turns, tracy_zone)),
        subject("zone", "tracing", "no-op subscriber", SOME, |turns| {
            tracing::subscriber::with_default(NoOperation, || timed(turns, tracing_zone))
        }),
        subject("zone", "tracing", "registry without a layer", SOME, |turns| {
            tracing::subscriber::with_default(tracing_subscriber::registry(), || {
                timed(turns, tracing_zone)
            })
        }),
        subject("zone", "tracing", "syscollect's layer, recorded", SOME, |turns| {
            let subscriber = tracing_subscriber::registry().with(ZoneLayer::new());
            tracing::subscriber::with_default(subscriber, || reader.timed(turns, tracing_zone))
        }),
        subject("zone", "fastrace", "a parent, reported to nobody", SOME, |turns| {
            in_batches(turns, fastrace_batch, pause)
        }),
        subject("zone", "puffin", "on, no sink", SOME, |turns| {
            in_batches(turns, puffin_batch, || puffin::GlobalProfiler::lock().new_frame())
        }),
    ];
    subjects.extend(other_marks(reader));
    subjects.extend(stacks(reader));
    subjects
}

/// Zones until a ring is full nearly, and marks that only two of the crates have.
fn other_marks(reader: &Reader) -> Vec<Subject<'_>> {
    vec![
        subject("zone, 40,000 in a row", OWN, "recorded", SOME, |turns| {
            reader.read();
            timed(turns, own_zone)
        }),
        subject("zone, 40,000 in a row", "tracy-client", "connected", SOME, |turns| {
            std::thread::sleep(Duration::from_millis(20));
            timed(turns, tracy_zone)
        }),
        subject("zone with text", OWN, "recorded", SOME, |turns| {
            reader.timed(turns, |_| zone!("zone").text("a short text"))
        }),
        subject("zone with text", "tracy-client", "connected", SOME, |turns| {
            tracy_timed(turns, |_| tracy_client::span!("zone", 0).emit_text("a short text"))
        }),
        subject("message", OWN, "recorded", SOME, |turns| {
            reader.timed(turns, |_| message!("a constant text"))
        }),
        subject("message", "tracy-client", "connected", SOME, |turns| {
            tracy_timed(turns, |_| tracy::client().message("a constant text", 0))
        }),
        subject("plot", OWN, "recorded", SOME, |turns| {
            reader.timed(turns, |index| plot!("plot", index as f64))
        }),
        subject("plot", "tracy-client", "connected", SOME, |turns| {
            tracy_timed(turns, |index| tracy_client::plot!("plot", index as f64))
        }),
    ]
}

/// Turns of a round of stacks, and how many functions lie between them and what is measured.
const STACKS: u64 = 2_000;

fn stacks(reader: &Reader) -> Vec<Subject<'_>> {
    let of_depth = |what, depth| {
        [
            subject(what, OWN, "recorded", STACKS, move |turns| {
                in_batches(
                    turns,
                    |batch| timed(batch, |_| below(depth, own_zone_with_stack)),
                    || {
                        reader.read();
                    },
                )
            }),
            subject(what, "tracy-client", "connected", STACKS, move |turns| {
                tracy_timed(turns, |_| below(depth, tracy_zone_with_stack))
            }),
        ]
    };
    let shallow = of_depth("zone with stack, 8 functions below", 8);
    shallow.into_iter().chain(of_depth("zone with stack, 24 functions below", 24)).collect()
}

/// What consumes gets time.
fn pause() {
    std::thread::sleep(Duration::from_micros(500));
}

fn tracy_timed(turns: u64, mut turn: impl FnMut(u64)) -> Duration {
    in_batches(turns, |batch| timed(batch, &mut turn), pause)
}

/// The parent's own cost is spread over its spans.
fn fastrace_batch(turns: u64) -> Duration {
    let root = Span::root("root", SpanContext::random());
    let time = {
        let _parent = root.set_local_parent();
        timed(turns, fastrace_zone)
    };
    drop(root);
    time
}

/// Below one scope: a thread's outermost scope hands over what is below it when it ends.
fn puffin_batch(turns: u64) -> Duration {
    timed(1, |_| {
        puffin::profile_scope!("outermost");
        for index in 0..turns {
            puffin_zone(black_box(index));
        }
    })
}

/// A reporter that drops all.
struct NullExporter;

impl Reporter for NullExporter {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        drop(spans);
    }
}

/// A subscriber that wants all and does nothing.
struct NoOperation;

impl tracing::Subscriber for NoOperation {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
