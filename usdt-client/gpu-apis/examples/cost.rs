//! What a zone costs the program with Vulkan, beside the driver: one that does nothing.
//!
//! `syscollect record -o cost.syscap -- cargo run --release --features ash --example cost`

use ash::vk::{self, Handle as _};
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::time::Instant;
use syscollect_gpu_apis::vulkan::{VulkanQueue, VulkanRecorder};
use syscollect_usdt_client::gpu::{GpuApi, GpuContext, GpuTicks};
use syscollect_usdt_client::{location, ticks};

const ZONES: usize = 64;
const ROUNDS: usize = 2_000;

unsafe extern "system" fn create(
    _: vk::Device,
    _: *const vk::QueryPoolCreateInfo<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    pool: *mut vk::QueryPool,
) -> vk::Result {
    // SAFETY: the caller's place.
    unsafe { pool.write(vk::QueryPool::from_raw(1)) };
    vk::Result::SUCCESS
}

extern "system" fn destroy(_: vk::Device, _: vk::QueryPool, _: *const vk::AllocationCallbacks<'_>) {
}

extern "system" fn reset(_: vk::Device, _: vk::QueryPool, _: u32, _: u32) {}

extern "system" fn write(
    _: vk::CommandBuffer,
    _: vk::PipelineStageFlags,
    _: vk::QueryPool,
    _: u32,
) {
}

/// All is there.
unsafe extern "system" fn results(
    _: vk::Device,
    _: vk::QueryPool,
    _: u32,
    count: u32,
    _: usize,
    data: *mut c_void,
    _: vk::DeviceSize,
    _: vk::QueryResultFlags,
) -> vk::Result {
    for index in 0..count as usize {
        // SAFETY: the caller has room for as many.
        unsafe { data.cast::<[u64; 2]>().add(index).write([index as u64, 1]) };
    }
    vk::Result::SUCCESS
}

/// Nanoseconds of one of so many.
fn of_one(count: usize, mut work: impl FnMut()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_nanos() as f64 / count as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let load = |name: &CStr| match name.to_bytes() {
        b"vkCreateQueryPool" => create as *const c_void,
        b"vkDestroyQueryPool" => destroy as *const c_void,
        b"vkResetQueryPool" => reset as *const c_void,
        b"vkCmdWriteTimestamp" => write as *const c_void,
        b"vkGetQueryPoolResults" => results as *const c_void,
        _ => std::ptr::null(),
    };
    let context = GpuContext::new(GpuApi::Vulkan, "cost", GpuTicks::NANOSECONDS);
    // SAFETY: the functions have the types of their names, and the device is none.
    let recorder = unsafe {
        let device = ash::Device::load_with(load, vk::Device::from_raw(1));
        VulkanRecorder::<{ ZONES * 2 }>::new(VulkanQueue::without_clock(device, context))?
    };
    let commands = vk::CommandBuffer::from_raw(1);
    let (mut zone, mut collected, mut read) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        zone = zone.min(of_one(ZONES, || {
            for _ in 0..ZONES {
                // SAFETY: as above.
                drop(unsafe { recorder.zone(commands, location!("zone")) });
            }
        }));
        collected = collected.min(of_one(ZONES, || {
            let _ = recorder.collect();
        }));
        read = read.min(of_one(ZONES, || {
            for _ in 0..ZONES {
                black_box(ticks() ^ ticks());
            }
        }));
        // So that the recorder keeps up.
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    println!("a zone, begin and end: {zone:.1} ns; its times: {collected:.1} ns");
    println!("two readings of the clock: {read:.1} ns; without a query: {}", recorder.refused());
    Ok(())
}
