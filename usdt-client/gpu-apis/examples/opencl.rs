//! Copies by OpenCL, on a GPU or on pocl.
//!
//! `syscollect record -o opencl.syscap -- cargo run --release --features opencl3 --example opencl`

#[path = "marked/mod.rs"]
mod marked;

use marked::{MarkedGpuWork, MarkedZones, without_driver};
use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, CommandQueue};
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device, get_all_devices};
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE};
use std::error::Error;
use std::ptr;
use std::time::{Duration, Instant};
use syscollect_gpu_apis::opencl::{OpenClQueue, OpenClRecorder};
use syscollect_usdt_client::gpu::GpuZoneDetails;
use syscollect_usdt_client::{frame_mark, location};

const QUEUE: &str = "OpenCL example";
const FRAMES: u64 = 100;
/// Zones that are waited for one by one.
const ALONE: u64 = 20;
/// Words that are filled and copied.
const WORDS: usize = 1 << 20;
const BYTES: usize = WORDS * size_of::<u32>();

fn main() -> Result<(), Box<dyn Error>> {
    let devices = get_all_devices(CL_DEVICE_TYPE_ALL).unwrap_or_else(|error| without_driver(error));
    let device = devices.first().unwrap_or_else(|| without_driver("there is no device"));
    let device = Device::new(*device);
    let context = Context::from_device(&device)?;
    let commands = CommandQueue::create_default(&context, CL_QUEUE_PROFILING_ENABLE)?;
    // SAFETY: the device makes the memory of both.
    let (mut from, mut to) = unsafe {
        (
            Buffer::<u32>::create(&context, CL_MEM_READ_WRITE, WORDS, ptr::null_mut())?,
            Buffer::<u32>::create(&context, CL_MEM_READ_WRITE, WORDS, ptr::null_mut())?,
        )
    };
    let queue = OpenClQueue::new(&commands, &device, QUEUE)?;
    let recorder = OpenClRecorder::new(queue.clone(), 64);
    for frame in 0..FRAMES {
        {
            let text = format!("frame {frame}");
            let details = GpuZoneDetails { text: &text, ..GpuZoneDetails::default() };
            let mut zone = recorder.zone_with(location!("frame", 0x33_66_99), &details);
            let filled = recorder.enqueue(location!("fill", 0xff_cc_00), || {
                // SAFETY: all of the buffer is filled; it lives until the queue has finished.
                unsafe { commands.enqueue_fill_buffer(&mut from, &[frame as u32], 0, BYTES, &[]) }
            })?;
            zone.command(&filled);
            let copied = recorder.enqueue(location!("copy"), || {
                // SAFETY: both are that long, and live until the queue has finished.
                unsafe { commands.enqueue_copy_buffer(&from, &mut to, 0, 0, BYTES, &[]) }
            })?;
            zone.command(&copied);
        }
        commands.flush()?;
        recorder.collect();
        frame_mark!();
        std::thread::sleep(Duration::from_millis(5));
    }
    commands.finish()?;
    let mut waited = Duration::ZERO;
    for value in 0..ALONE {
        let enqueued = Instant::now();
        let filled = recorder.enqueue(location!("alone"), || {
            // SAFETY: as above.
            unsafe { commands.enqueue_fill_buffer(&mut from, &[value as u32], 0, BYTES, &[]) }
        })?;
        filled.wait()?;
        waited += enqueued.elapsed();
        recorder.collect();
    }
    commands.finish()?;
    recorder.collect();
    let zones = [
        MarkedZones { name: "frame", count: FRAMES },
        MarkedZones { name: "fill", count: FRAMES },
        MarkedZones { name: "copy", count: FRAMES },
        MarkedZones { name: "alone", count: ALONE },
    ];
    let (device, clocks) = (device.name()?, queue.read_clocks());
    let without_times = recorder.refused() + recorder.outstanding() as u64;
    MarkedGpuWork { device: &device, queue: QUEUE, zones: &zones, without_times, clocks, waited }
        .print();
    Ok(())
}
