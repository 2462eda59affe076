//! A small game server, marked with all that the crate offers.
//!
//! ```sh
//! cargo run --release -p syscollect-usdt-client --example frames -- 20 &
//! sudo syscollect -d 5 -o frames.pftrace
//! ```
//!
//! What to look for in the trace of process `frames`:
//!
//! - thread `game`: 30 frames a second, each with input, physics and drawing; every 40th takes too
//!   long, and says so;
//! - threads `worker 0` to `worker 2`: jobs from a queue, each with a number, a kind and its
//!   result. They share one lock, and `save` keeps it over a slow write: the other workers wait,
//!   and the trace says for what;
//! - thread `network`: requests that overlap, on tracks of their own (async zones), with markers
//!   when they are answered;
//! - plots of the queue's length, of the sun's height (a sine), of bytes sent, and a counter of
//!   requests in flight.

use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use syscollect_usdt_client::lock::{Condvar, Mutex};
use syscollect_usdt_client::{
    AsyncZone, Counter, Field, FieldFormat, Schema, StaticString, Task, Zone, frame_mark, location,
    message, plot, set_thread_name, zone,
};

static RUNNING: AtomicBool = AtomicBool::new(true);
static IN_FLIGHT: Counter = Counter::new("requests in flight", "");
static FRAME: StaticString = StaticString::new("frame");
static ANSWERED: Schema = Schema::new(
    "request answered",
    "network",
    &[
        Field::new("path", "Path", FieldFormat::Text),
        Field::new("bytes", "Size", FieldFormat::Bytes),
        Field::new("took", "Took", FieldFormat::Duration),
    ],
);

/// What the threads share.
struct World {
    jobs: Mutex<VecDeque<Job>>,
    more: Condvar,
    scores: Mutex<Vec<u64>>,
}

/// Something for a worker to do.
struct Job {
    number: u64,
    kind: JobKind,
}

#[derive(Clone, Copy, Debug)]
enum JobKind {
    Path,
    Light,
    Save,
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10.0);
    println!("running for {seconds} seconds as process {}", std::process::id());
    let world = World {
        jobs: Mutex::named("job queue", VecDeque::new()),
        more: Condvar::new(),
        scores: Mutex::named("scores", vec![0; 64]),
    };
    std::thread::scope(|scope| {
        for index in 0..3 {
            let world = &world;
            scope.spawn(move || worker(index, world));
        }
        scope.spawn(network);
        game(Duration::from_secs_f64(seconds), &world);
        RUNNING.store(false, Ordering::Relaxed);
        world.more.notify_all();
    });
}

/// Keeps the CPU busy for about so many microseconds.
fn compute(microseconds: u64) -> u64 {
    let end = Instant::now() + Duration::from_micros(microseconds);
    let mut state = microseconds | 1;
    while Instant::now() < end {
        for _ in 0..200 {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    state
}

fn game(duration: Duration, world: &World) {
    set_thread_name("game");
    message!(color = 0x2f_9e44, "the game begins");
    let (start, period) = (Instant::now(), Duration::from_micros(33_333));
    let mut next = start;
    let mut number = 0;
    while start.elapsed() < duration {
        frame(number, world);
        frame_mark!();
        number += 1;
        next += period;
        let _zone = zone!("wait for the next frame", color = 0xad_b5bd);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    message!(color = 0x2f_9e44, "the game ends after {number} frames");
}

fn frame(number: u64, world: &World) {
    let zone = zone!("frame", color = 0x1c_7ed6);
    zone.tag(&FRAME, number);
    {
        let input = zone!("input");
        let keys = number % 7;
        compute(300 + 100 * keys);
        input.text(if keys == 0 { "jump" } else { "walk" });
    }
    physics(number, world);
    {
        let _draw = zone!("draw", color = 0x2f_9e44);
        for layer in 0..4_u64 {
            let zone = zone!("layer");
            zone.value(layer);
            compute(700);
        }
    }
    plot!("height of the sun", 60.0 * (number as f64 / 90.0 * TAU).sin(), unit = "°");
    if number % 40 == 39 {
        let _slow = zone!("garbage collection", color = 0xe0_3131);
        compute(30_000);
        message!(color = 0xe0_3131, "frame {number} was too slow");
    }
}

fn physics(number: u64, world: &World) {
    let zone = zone!("physics", color = 0xf0_8c00);
    let bodies = 20 + number % 5 * 10;
    zone.value(bodies);
    for _ in 0..bodies / 10 {
        let _step = zone!("step");
        compute(400);
    }
    let mut jobs = world.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for index in 0..3 {
        let kind = match (number + index) % 30 {
            0 => JobKind::Save,
            rest if rest % 2 == 0 => JobKind::Path,
            _ => JobKind::Light,
        };
        jobs.push_back(Job { number: number * 3 + index, kind });
    }
    plot!("jobs in the queue", jobs.len());
    drop(jobs);
    world.more.notify_all();
}

fn worker(index: u32, world: &World) {
    set_thread_name(&format!("worker {index}"));
    while let Some(job) = take_job(world) {
        run(&job, world);
    }
}

fn take_job(world: &World) -> Option<Job> {
    let _zone = zone!("wait for a job", color = 0xad_b5bd);
    let jobs = world.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut jobs = world
        .more
        .wait_while(jobs, |jobs| jobs.is_empty() && RUNNING.load(Ordering::Relaxed))
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let job = jobs.pop_front();
    plot!("jobs in the queue", jobs.len());
    job
}

fn run(job: &Job, world: &World) {
    static NUMBER: StaticString = StaticString::new("number");
    let zone = zone!("job", color = 0x70_48e8);
    zone.text_fmt(format_args!("{:?}", job.kind));
    zone.field(&NUMBER, job.number);
    let result = match job.kind {
        JobKind::Path => {
            let _zone = zone!("find a path");
            compute(2500)
        }
        JobKind::Light => {
            let _zone = zone!("spread the light");
            compute(4000)
        }
        JobKind::Save => compute(1000),
    };
    let _zone = zone!("add the score");
    let mut scores = world.scores.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let slot = job.number as usize % scores.len();
    scores[slot] = scores[slot].wrapping_add(result);
    if matches!(job.kind, JobKind::Save) {
        let zone = zone!("save, with the lock", color = 0xe0_3131);
        zone.text("a slow disk");
        std::thread::sleep(Duration::from_millis(12));
    }
}

/// A request that is being answered.
struct Request {
    number: u64,
    path: &'static str,
    begun: Instant,
    ready: Instant,
    zone: AsyncZone,
}

fn network() {
    set_thread_name("network");
    let mut open: Vec<Request> = Vec::new();
    let mut sent = 0_u64;
    for number in 0.. {
        if !RUNNING.load(Ordering::Relaxed) {
            return;
        }
        open.push(accept(number));
        let now = Instant::now();
        let (ready, rest) = open.into_iter().partition(|request| request.ready <= now);
        open = rest;
        for request in ready {
            sent += answer(request);
            plot!("bytes sent", sent, unit = "bytes");
        }
        let _zone = zone!("poll", color = 0xad_b5bd);
        std::thread::sleep(Duration::from_millis(15));
    }
}

fn accept(number: u64) -> Request {
    let zone = zone!("accept", color = 0x0c_8599);
    let path = ["/", "/map", "/players", "/map/tiles"][number as usize % 4];
    zone.text(path);
    compute(200);
    IN_FLIGHT.add(1);
    let name = format!("request {}", number % 8);
    let begun = Instant::now();
    Request {
        number,
        path,
        begun,
        ready: begun + Duration::from_millis(20 + number * 37 % 60),
        zone: AsyncZone::begin_with(location!("request", 0x0c_8599), Some(&Task::new(&name)), path),
    }
}

/// Returns the bytes that were sent.
fn answer(request: Request) -> u64 {
    let zone: Zone = zone!("answer", color = 0x0c_8599);
    zone.name(request.path);
    compute(500);
    let bytes = 1000 + request.number * 7919 % 50_000;
    zone.value(bytes);
    drop(request.zone);
    IN_FLIGHT.add(-1);
    let took = request.begun.elapsed().as_nanos() as u64;
    ANSWERED.mark(&[request.path.into(), bytes.into(), took.into()]);
    bytes
}
