//! Frames of copies by wgpu, on a GPU or on Mesa's lavapipe.
//!
//! `syscollect record -o wgpu.syscap -- cargo run --release --features wgpu-example --example wgpu`

#[path = "marked/mod.rs"]
mod marked;

use marked::{MarkedGpuWork, MarkedZones, without_driver};
use std::error::Error;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use syscollect_gpu_apis::webgpu::WgpuQueue;
use syscollect_usdt_client::gpu::GpuZoneDetails;
use syscollect_usdt_client::{frame_mark, location};

const QUEUE: &str = "wgpu example";
const FRAMES: u64 = 100;
/// Frames that the GPU may have at a time.
const IN_FLIGHT: usize = 2;
/// Zones that are waited for one by one.
const ALONE: u64 = 20;
/// Bytes that are cleared and copied.
const BYTES: u64 = 4 << 20;

type AnyError = Box<dyn Error>;

/// Waits for what is ready at once, as all of wgpu is outside of browsers.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::yield_now();
    }
}

/// A device with time stamps.
struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    from: wgpu::Buffer,
    to: wgpu::Buffer,
}

impl Gpu {
    fn new() -> Result<Self, AnyError> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter = ready(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
        let required_features =
            wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS;
        let (device, queue) = ready(adapter.request_device(&wgpu::DeviceDescriptor {
            required_features,
            ..wgpu::DeviceDescriptor::default()
        }))?;
        let buffer = || {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: BYTES,
                usage: wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let (from, to) = (buffer(), buffer());
        Ok(Self { device, queue, from, to })
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    fn copy(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.copy_buffer_to_buffer(&self.from, 0, &self.to, 0, BYTES);
    }

    fn wait(&self, submission: Option<wgpu::SubmissionIndex>) -> Result<(), AnyError> {
        let wait = wgpu::PollType::Wait { submission_index: submission, timeout: None };
        self.device.poll(wait)?;
        Ok(())
    }
}

fn main() -> Result<(), AnyError> {
    let gpu = Gpu::new().unwrap_or_else(|error| without_driver(error));
    let queue = WgpuQueue::new(&gpu.device, &gpu.queue, QUEUE, IN_FLIGHT + 2, 64)?;
    let mut in_flight = std::collections::VecDeque::new();
    for frame in 0..FRAMES {
        let mut encoder = gpu.encoder();
        let text = format!("frame {frame}");
        let details = GpuZoneDetails { text: &text, ..GpuZoneDetails::default() };
        let whole = queue.zone_with(&mut encoder, location!("frame", 0x33_66_99), &details);
        let clear = queue.zone(&mut encoder, location!("clear", 0xff_cc_00));
        encoder.clear_buffer(&gpu.from, 0, None);
        clear.end(&mut encoder);
        {
            let pass = queue.pass(location!("pass"));
            let timestamp_writes = pass.compute();
            let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
            drop(encoder.begin_compute_pass(&descriptor));
        }
        let copy = queue.zone(&mut encoder, location!("copy"));
        gpu.copy(&mut encoder);
        copy.end(&mut encoder);
        whole.end(&mut encoder);
        queue.resolve(&mut encoder);
        in_flight.push_back(gpu.queue.submit([encoder.finish()]));
        queue.submitted();
        if in_flight.len() > IN_FLIGHT {
            gpu.wait(in_flight.pop_front())?;
        }
        queue.collect();
        frame_mark!();
    }
    gpu.wait(None)?;
    queue.collect();
    let mut waited = Duration::ZERO;
    for _ in 0..ALONE {
        let mut encoder = gpu.encoder();
        let alone = queue.zone(&mut encoder, location!("alone"));
        encoder.clear_buffer(&gpu.from, 0, None);
        gpu.copy(&mut encoder);
        alone.end(&mut encoder);
        queue.resolve(&mut encoder);
        let commands = encoder.finish();
        let submitted = Instant::now();
        let submission = gpu.queue.submit([commands]);
        queue.submitted();
        gpu.wait(Some(submission))?;
        waited += submitted.elapsed();
        queue.collect();
    }
    let zones = [
        MarkedZones { name: "frame", count: FRAMES },
        MarkedZones { name: "clear", count: FRAMES },
        MarkedZones { name: "pass", count: FRAMES },
        MarkedZones { name: "copy", count: FRAMES },
        MarkedZones { name: "alone", count: ALONE },
    ];
    let device = &gpu.device.adapter_info().name;
    let without_times = queue.refused() + queue.outstanding() as u64;
    MarkedGpuWork { device, queue: QUEUE, zones: &zones, without_times, clocks: None, waited }
        .print();
    Ok(())
}
