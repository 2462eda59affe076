//! Zones of a GPU, without one: a thread plays a device whose clock has 32 bits, drifts, and is
//! read now and then. With a real one, its queries take the place of what that thread sends back.
//!
//! `syscollect -o gpu.pftrace -- cargo run --release -p syscollect-usdt-client --example gpu`

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use syscollect_usdt_client::gpu::{
    GpuApi, GpuContext, GpuTicks, GpuZoneId, HostTime, QueryPair, QueryRing,
};
use syscollect_usdt_client::{frame_mark, location, set_thread_name};

/// Pairs of queries; two frames that are in flight need 12.
const PAIRS: usize = 32;
const FRAMES: u64 = 120;

/// Work for the device: how long it takes, which queries it writes, and what lies in it.
struct Work {
    pair: Option<QueryPair>,
    takes: Duration,
    inside: Vec<Work>,
}

/// A device's clock: ticks of 40 ns, of which it counts 50 millionths too many, in 32 bits.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn ticks(self) -> u64 {
        let nanoseconds = self.0.elapsed().as_nanos() as f64 * (1.0 + 50e-6);
        // It wraps a second from the beginning.
        ((nanoseconds / 40.0) as u64).wrapping_sub(25_000_000) & 0xffff_ffff
    }
}

/// The value of a query.
struct Written {
    query: u32,
    ticks: u64,
}

/// Does the work, as a device does.
fn execute(work: &Work, clock: Clock, written: &Sender<Written>) {
    let write = |query| drop(written.send(Written { query, ticks: clock.ticks() }));
    work.pair.into_iter().for_each(|pair| write(pair.begin()));
    work.inside.iter().for_each(|inside| execute(inside, clock, written));
    std::thread::sleep(work.takes);
    work.pair.into_iter().for_each(|pair| write(pair.end()));
}

fn device(submitted: &Receiver<Work>, clock: Clock, written: &Sender<Written>) {
    set_thread_name("device");
    submitted.iter().for_each(|work| execute(&work, clock, written));
}

/// The program's side of the device.
struct Renderer {
    queue: GpuContext,
    queries: QueryRing<GpuZoneId, PAIRS>,
    /// Values of queries that were written and not read.
    values: [Option<u64>; PAIRS * 2],
    written: Receiver<Written>,
    resolved: u64,
}

impl Renderer {
    /// Submits a frame.
    fn frame(&mut self, submit: &Sender<Work>) {
        let frame = self.queue.begin(location!("frame", 0x33_66_99));
        let pair = self.queries.take(frame.id());
        let shadows = self.queue.begin(location!("shadows"));
        let takes = Duration::from_micros(300);
        let mut inside =
            vec![Work { pair: self.queries.take(shadows.id()), takes, inside: Vec::new() }];
        drop(shadows);
        let lights = self.queue.begin(location!("lights", 0xff_cc_00));
        let takes = Duration::from_micros(700);
        inside.push(Work { pair: self.queries.take(lights.id()), takes, inside: Vec::new() });
        drop(lights);
        // Nobody listens only where the device has ended.
        drop(submit.send(Work { pair, takes: Duration::from_micros(500), inside }));
    }

    /// Tells of what the device has done, without waiting for it.
    fn resolve(&mut self) {
        for Written { query, ticks } in self.written.try_iter() {
            self.values[query as usize] = Some(ticks);
        }
        let Self { queue, queries, values, resolved, .. } = self;
        let mut read = Vec::new();
        queries.resolve(
            |range, into| {
                for (query, value) in range.zip(into) {
                    *value = values[query as usize];
                    read.push(query);
                }
            },
            |zone, times| {
                queue.resolve(zone, times.began, times.ended);
                *resolved += 1;
            },
        );
        // What was read whole is over: a program resets these queries.
        for pair in read.as_chunks::<2>().0 {
            let [begin, end] = pair.map(|query| query as usize);
            if values[begin].is_some() && values[end].is_some() {
                (values[begin], values[end]) = (None, None);
            }
        }
    }
}

fn main() {
    let clock = Clock(Instant::now());
    let (submit, submitted) = channel();
    let (send, written) = channel();
    let thread = std::thread::spawn(move || device(&submitted, clock, &send));
    let ticks = GpuTicks { nanoseconds: 40.0, bits: 32 };
    let mut renderer = Renderer {
        queue: GpuContext::new(GpuApi::Custom, "example queue", ticks),
        queries: QueryRing::new(),
        values: [None; PAIRS * 2],
        written,
        resolved: 0,
    };
    for frame in 0..FRAMES {
        if frame % 30 == 0 {
            renderer.queue.calibrate(HostTime::Now, clock.ticks(), 1_000);
        }
        renderer.frame(&submit);
        renderer.resolve();
        frame_mark!();
        std::thread::sleep(Duration::from_millis(16));
    }
    drop(submit);
    if thread.join().is_err() {
        println!("the device is lost");
    }
    renderer.resolve();
    let (resolved, refused) = (renderer.resolved, renderer.queries.refused());
    println!("{FRAMES} frames: {resolved} zones resolved, {refused} without a query");
}
