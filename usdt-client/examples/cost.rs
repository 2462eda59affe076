//! What a mark costs: off, and on with a reader that keeps up.
//!
//! `cargo run --release -p syscollect-usdt-client --example cost`

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use syscollect_usdt_client::gpu::{GpuApi, GpuContext, GpuTicks};
use syscollect_usdt_client::{
    AsyncZone, FrameImage, frame_image, location, message, plot, testing, zone,
};

/// Nanoseconds per turn: the best of several runs.
fn measure(turns: u64, mut turn: impl FnMut(u64)) -> f64 {
    (0..15)
        .map(|_| {
            let start = Instant::now();
            for index in 0..turns {
                turn(black_box(index));
            }
            start.elapsed().as_nanos() as f64 / turns as f64
        })
        .fold(f64::MAX, f64::min)
}

fn two_readings(_: u64) {
    // SAFETY: rdtsc has no preconditions on x86-64.
    unsafe {
        black_box(core::arch::x86_64::_rdtsc());
        black_box(core::arch::x86_64::_rdtsc());
    }
}

/// A zone with its stack, so many functions deep.
#[inline(never)]
fn zone_with_stack(depth: u32) {
    if depth > 0 {
        zone_with_stack(depth - 1);
        black_box(depth);
    } else {
        let _zone = zone!("with stack", stack);
    }
}

/// What an image takes from the thread that hands it over, beside a copy of its pixels, and from
/// the one that packs it: microseconds.
fn image(width: u32, height: u32) {
    const IMAGES: u32 = 100;
    let rgba: Vec<u8> =
        (0..width * height * 4).map(|byte| (byte % 251 * (byte / 977 % 5)) as u8).collect();
    let mut copied = vec![0; rgba.len()];
    let copy = measure(20, |_| black_box(&mut copied).copy_from_slice(black_box(&rgba)));
    let image = FrameImage { rgba: &rgba, width, height, frames_ago: 0, is_flipped: false };
    let before = packing();
    let mut handed = [0; IMAGES as usize].map(|_: u128| {
        let start = Instant::now();
        frame_image(&image);
        let took = start.elapsed().as_nanos();
        std::thread::sleep(std::time::Duration::from_millis(20));
        took
    });
    handed.sort_unstable();
    let (median, packed) = (handed[handed.len() / 2] / 1000, (packing() - before) / 1000);
    println!(
        "     image {width} x {height}: handed over {median} us (a copy {:.0}), packed {} us",
        copy / 1000.0,
        packed / u64::from(IMAGES)
    );
}

/// CPU time of the thread that packs images, nanoseconds.
fn packing() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |task: std::fs::DirEntry, name| std::fs::read_to_string(task.path().join(name));
    let mut packers = tasks.filter(|task| {
        let name = std::fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim() == "syscollect-img")
    });
    let used = packers.next().and_then(|task| read(task, "schedstat").ok());
    used.and_then(|used| used.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Ends the reader, also when writing the figures fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn main() {
    const OFF: u64 = 50_000_000;
    const ON: u64 = 20_000;
    let empty = measure(OFF, |_| {});
    let off = measure(OFF, |_| {
        let _zone = zone!("off");
    });
    println!("off: empty turn {empty:.3} ns, with a zone {off:.3} ns: {:.3} ns more", off - empty);

    let queue = GpuContext::new(GpuApi::Custom, "queue", GpuTicks::NANOSECONDS);
    let off = measure(OFF, |_| drop(queue.begin(location!("off"))));
    println!("     with a GPU zone {off:.3} ns: {:.3} ns more", off - empty);

    testing::raise();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        plot!("first", 1);
        scope.spawn(|| {
            let mut reader = testing::Drain::open().expect("an arena");
            while !stop.load(Ordering::Relaxed) {
                reader.discard();
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        println!("on:  two rdtsc        {:.2} ns", measure(ON, two_readings));
        let zone = measure(ON, |_| {
            let _zone = zone!("on");
        });
        println!("     zone             {zone:.2} ns");
        println!(
            "     zone with value  {:.2} ns",
            measure(ON, |index| {
                let zone = zone!("on");
                zone.value(index);
            })
        );
        for depth in [0, 8, 24, 100] {
            let time = measure(ON / 10, |_| zone_with_stack(depth));
            println!("     with stack, {depth:3} callers more than none  {time:.1} ns");
        }
        println!(
            "     async zone       {:.2} ns",
            measure(ON, |_| drop(AsyncZone::begin(location!("async"))))
        );
        let queue = GpuContext::new(GpuApi::Custom, "queue", GpuTicks::NANOSECONDS);
        println!(
            "     GPU zone         {:.2} ns",
            measure(ON, |_| drop(queue.begin(location!("GPU"))))
        );
        let zone = queue.begin(location!("GPU")).id();
        println!(
            "     GPU zone's times {:.2} ns",
            measure(ON, |index| queue.resolve(zone, index, index + 1))
        );
        println!("     plot             {:.2} ns", measure(ON, |index| plot!("plot", index)));
        println!("     message          {:.2} ns", measure(ON, |_| message!("a message")));
        println!("     message, 1 word  {:.2} ns", measure(ON, |index| message!("number {index}")));
        image(320, 180);
        image(960, 540);
    });
    println!("     lost             {}", testing::Drain::open().map_or(0, |reader| reader.lost()));
}
