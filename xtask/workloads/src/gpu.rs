//! A load that submits zones to a GPU that does not exist, and tells later when that did them.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use syscollect_usdt_client::gpu::{GpuApi, GpuContext, GpuTicks, GpuZoneId, HostTime};
use syscollect_usdt_client::{location, set_thread_name};

use crate::instrumented::wait_for_recorder;

/// How often what the GPU is done with is told.
const READ_EVERY: Duration = Duration::from_millis(20);
/// How long frames and copies are apart.
const FRAME: Duration = Duration::from_millis(2);
const COPY: Duration = Duration::from_millis(3);
/// How often the clocks are read.
const CALIBRATED_EVERY: Duration = Duration::from_millis(500);

/// The GPU's clock counts nanoseconds from there on.
#[derive(Clone, Copy)]
struct GpuClock(Instant);

impl GpuClock {
    fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// What the GPU does with a zone.
struct GpuWork<'a> {
    queue: &'a GpuContext,
    zone: GpuZoneId,
    /// `None` where nobody will know.
    times: Option<[u64; 2]>,
}

/// Zones by their names, as they were submitted.
#[derive(Default)]
struct SubmittedCounts {
    frames: AtomicU64,
    copies: AtomicU64,
    untimed: AtomicU64,
    lost: AtomicU64,
}

/// Frames with zones within them, copies that overlap each other, some of which have no times, and
/// zones of another queue whose times never come, for so long. Times are told late and backwards.
pub(crate) fn run(seconds: u64) -> Result<()> {
    wait_for_recorder()?;
    let clock = GpuClock(Instant::now());
    let new = |name| GpuContext::new(GpuApi::Vulkan, name, GpuTicks::NANOSECONDS);
    let [graphics, copies, lost] = ["graphics", "copies", "lost"].map(new);
    let counts = SubmittedCounts::default();
    let until = Duration::from_secs(seconds);
    let (send, done) = channel();
    std::thread::scope(|threads| {
        let (graphics, copies, lost, counts) = (&graphics, &copies, &lost, &counts);
        let by_copies = send.clone();
        threads.spawn(move || submit_frames(clock, graphics, &send, counts, until));
        threads.spawn(move || submit_copies(clock, [copies, lost], &by_copies, counts, until));
        threads.spawn(move || tell(clock, [graphics, copies], &done));
    });
    // Rings are taken over while the program lives.
    sleep(Duration::from_millis(200));
    let mut said = String::new();
    let SubmittedCounts { frames, copies, untimed, lost } = counts;
    for (name, count) in
        [("frames", frames), ("copies", copies), ("untimed", untimed), ("lost", lost)]
    {
        let comma = if said.is_empty() { "" } else { "," };
        write!(said, r#"{comma}"{name}":{}"#, count.into_inner())?;
    }
    println!("{{{said}}}");
    Ok(())
}

fn submit_frames<'a>(
    clock: GpuClock,
    graphics: &'a GpuContext,
    done: &Sender<GpuWork<'a>>,
    counts: &SubmittedCounts,
    until: Duration,
) {
    set_thread_name("render");
    while clock.0.elapsed() < until {
        let begins = clock.now() + 200_000;
        let frame = graphics.begin(location!("frame", 0x33_66_99));
        let shadows = graphics.begin(location!("shadows")).id();
        let lights = graphics.begin(location!("lights", 0xff_cc_00)).id();
        let frame = frame.id();
        let parts = [(frame, [0, 1_500]), (shadows, [0, 500]), (lights, [600, 1_400])];
        for (zone, times) in parts {
            let times = Some(times.map(|us| begins + us * 1_000));
            // Who tells ends last.
            drop(done.send(GpuWork { queue: graphics, zone, times }));
        }
        counts.frames.fetch_add(1, Ordering::Relaxed);
        sleep(FRAME);
    }
}

fn submit_copies<'a>(
    clock: GpuClock,
    [copies, lost]: [&'a GpuContext; 2],
    done: &Sender<GpuWork<'a>>,
    counts: &SubmittedCounts,
    until: Duration,
) {
    set_thread_name("upload");
    let mut number = 0_u64;
    while clock.0.elapsed() < until {
        number += 1;
        let begins = clock.now() + 100_000;
        let zone = copies.begin(location!("copy")).id();
        let is_untimed = number.is_multiple_of(50);
        let times = (!is_untimed).then_some([begins, begins + 4_000_000]);
        drop(done.send(GpuWork { queue: copies, zone, times }));
        let count = if is_untimed { &counts.untimed } else { &counts.copies };
        count.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(100) {
            drop(lost.begin(location!("lost")));
            counts.lost.fetch_add(1, Ordering::Relaxed);
        }
        sleep(COPY);
    }
}

/// Tells what the GPU is done with, the last first.
fn tell(clock: GpuClock, queues: [&GpuContext; 2], done: &Receiver<GpuWork<'_>>) {
    set_thread_name("reads queries");
    let mut calibrated: Option<Instant> = None;
    let (mut waiting, mut is_over) = (Vec::new(), false);
    while !is_over || !waiting.is_empty() {
        if calibrated.is_none_or(|at| at.elapsed() >= CALIBRATED_EVERY) {
            queues.iter().for_each(|queue| queue.calibrate(HostTime::Now, clock.now(), 1_000));
            calibrated = Some(Instant::now());
        }
        loop {
            match done.try_recv() {
                Ok(work) => waiting.push(work),
                Err(error) => {
                    is_over = error == std::sync::mpsc::TryRecvError::Disconnected;
                    break;
                }
            }
        }
        let now = clock.now();
        let is_done = |work: &GpuWork<'_>| work.times.is_none_or(|[_, ended]| ended <= now);
        let (done, still): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_done);
        waiting = still;
        for GpuWork { queue, zone, times } in done.into_iter().rev() {
            match times {
                Some([began, ended]) => queue.resolve(zone, began, ended),
                None => queue.resolve_without_times(zone),
            }
        }
        sleep(READ_EVERY);
    }
}
