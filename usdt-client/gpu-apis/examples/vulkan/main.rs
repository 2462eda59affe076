//! Frames of copies by Vulkan, on a GPU or on Mesa's lavapipe: two threads record command buffers,
//! and a third one submits them in another order.
//!
//! `syscollect record -o vulkan.syscap -- cargo run --release --features ash --example vulkan`

#[path = "../marked/mod.rs"]
mod marked;
mod setup;

use ash::vk;
use marked::{MarkedGpuWork, MarkedZones, without_driver};
use setup::{Copies, Setup};
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use syscollect_gpu_apis::vulkan::{VulkanQueue, VulkanRecorder};
use syscollect_usdt_client::gpu::GpuZoneDetails;
use syscollect_usdt_client::{frame_mark, location, set_thread_name};

type AnyError = Box<dyn Error + Send + Sync>;

const QUEUE: &str = "Vulkan example";
const FRAMES: usize = 100;
/// Frames that the GPU may have at a time.
const IN_FLIGHT: usize = 2;
const THREADS: usize = 2;
/// Zones that are waited for one by one.
const ALONE: usize = 20;
/// Zones in flight of a thread: those of the frames in flight, and of one that is being recorded.
const PAIRS: usize = 64;

/// What a thread is asked to record for a frame.
#[derive(Clone, Copy)]
struct FrameSlot {
    frame: usize,
    commands: vk::CommandBuffer,
}

/// A thread that records.
struct Worker {
    asked: Sender<FrameSlot>,
    recorded: Receiver<Result<(), AnyError>>,
    thread: std::thread::JoinHandle<Result<u64, AnyError>>,
    commands: [vk::CommandBuffer; IN_FLIGHT],
}

impl Worker {
    fn start(
        number: usize,
        setup: &Arc<Setup>,
        queue: &Arc<VulkanQueue>,
    ) -> Result<Self, AnyError> {
        let commands = setup.command_buffers::<IN_FLIGHT>()?;
        // SAFETY: `main` waits for the device and for this thread before it destroys the device.
        let recorder = unsafe { VulkanRecorder::<PAIRS>::new(Arc::clone(queue))? };
        let copies = Copies::new(setup)?;
        let (asked, jobs) = channel::<FrameSlot>();
        let (answer, recorded) = channel();
        let setup = Arc::clone(setup);
        let thread =
            std::thread::Builder::new().name(format!("recorder {number}")).spawn(move || {
                for slot in jobs {
                    let result = record(number, &setup, &recorder, &copies, slot);
                    answer.send(result)?;
                }
                // The device was waited for.
                recorder.collect()?;
                Ok(recorder.refused() + recorder.outstanding() as u64)
            })?;
        Ok(Self { asked, recorded, thread, commands })
    }
}

/// A thread's part of a frame.
fn record(
    number: usize,
    setup: &Setup,
    recorder: &VulkanRecorder<PAIRS>,
    copies: &Copies,
    slot: FrameSlot,
) -> Result<(), AnyError> {
    recorder.collect()?;
    let FrameSlot { frame, commands } = slot;
    setup.begin(commands)?;
    {
        let text = format!("frame {frame} of thread {number}");
        let details =
            GpuZoneDetails { text: &text, color: 0x33_66_99, ..GpuZoneDetails::default() };
        // SAFETY: the buffer is being recorded until `end`, and is submitted once.
        let _part = unsafe { recorder.zone_with(commands, location!("part"), &details) };
        {
            // SAFETY: as above.
            let _fill = unsafe { recorder.zone(commands, location!("fill", 0xff_cc_00)) };
            copies.fill(setup, commands, frame as u32);
        }
        // SAFETY: as above.
        let _copy = unsafe { recorder.zone(commands, location!("copy")) };
        copies.copy(setup, commands);
    }
    setup.end(commands)
}

/// Work that the GPU has to itself, waited for at once: what the GPU's clock says of it is less
/// than what the program has waited, and not much less.
fn alone(setup: &Arc<Setup>, queue: &Arc<VulkanQueue>) -> Result<Duration, AnyError> {
    // SAFETY: each submission is waited for below.
    let recorder = unsafe { VulkanRecorder::<PAIRS>::new(Arc::clone(queue))? };
    let copies = Copies::new(setup)?;
    let [commands] = setup.command_buffers::<1>()?;
    let fence = setup.fence(false)?;
    let mut waited = Duration::ZERO;
    for value in 0..ALONE {
        setup.begin(commands)?;
        {
            // SAFETY: the buffer is being recorded until `end`, and is submitted once.
            let _alone = unsafe { recorder.zone(commands, location!("alone")) };
            copies.fill(setup, commands, value as u32);
            copies.copy(setup, commands);
        }
        setup.end(commands)?;
        let submitted = Instant::now();
        setup.submit(&[commands], fence)?;
        setup.wait(fence)?;
        waited += submitted.elapsed();
        recorder.collect()?;
    }
    setup.destroy_fence(fence);
    Ok(waited)
}

fn main() -> Result<(), AnyError> {
    set_thread_name("submitter");
    let setup = Arc::new(Setup::new().unwrap_or_else(|error| without_driver(error)));
    // SAFETY: the setup outlives what is made of it, and has enabled `hostQueryReset`.
    let queue = unsafe { VulkanQueue::new(setup.vulkan(), setup.family, QUEUE)? };
    let mut workers = Vec::new();
    for number in 0..THREADS {
        workers.push(Worker::start(number, &setup, &queue)?);
    }
    let fences = [setup.fence(true)?, setup.fence(true)?];
    for frame in 0..FRAMES {
        let slot = frame % IN_FLIGHT;
        // The buffers of this slot are free again.
        setup.wait(fences[slot])?;
        for worker in &workers {
            worker.asked.send(FrameSlot { frame, commands: worker.commands[slot] })?;
        }
        for worker in &workers {
            worker.recorded.recv()??;
        }
        // The last thread's first.
        let commands: Vec<_> = workers.iter().rev().map(|worker| worker.commands[slot]).collect();
        setup.submit(&commands, fences[slot])?;
        frame_mark!();
    }
    setup.wait_idle()?;
    let mut without_times = 0;
    for Worker { asked, thread, .. } in workers {
        drop(asked);
        without_times += thread.join().map_err(|_| "a thread panicked")??;
    }
    fences.into_iter().for_each(|fence| setup.destroy_fence(fence));
    let waited = alone(&setup, &queue)?;
    let clocks = queue.read_clocks();
    drop(queue);
    let each = (FRAMES * THREADS) as u64;
    let zones = [
        MarkedZones { name: "part", count: each },
        MarkedZones { name: "fill", count: each },
        MarkedZones { name: "copy", count: each },
        MarkedZones { name: "alone", count: ALONE as u64 },
    ];
    let device = &setup.device_name;
    MarkedGpuWork { device, queue: QUEUE, zones: &zones, without_times, clocks, waited }.print();
    Ok(())
}
