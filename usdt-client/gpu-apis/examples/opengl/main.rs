//! Frames drawn by OpenGL into memory, on a GPU or on Mesa's llvmpipe.
//!
//! `syscollect record -o opengl.syscap -- cargo run --release --features glow --example opengl`

#[path = "../marked/mod.rs"]
mod marked;
mod setup;

use glow::HasContext as _;
use marked::{MarkedGpuWork, MarkedZones, without_driver};
use setup::{Picture, Window};
use std::collections::VecDeque;
use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};
use syscollect_gpu_apis::opengl::OpenGlContext;
use syscollect_usdt_client::gpu::GpuZoneDetails;
use syscollect_usdt_client::{frame_mark, location};

/// Frames that the GPU may have at a time.
const IN_FLIGHT: usize = 2;
/// Zones in flight.
const PAIRS: usize = 64;
/// As long as is waited for a frame, nanoseconds.
const A_SECOND: i32 = 1_000_000_000;

type AnyError = Box<dyn Error>;

const QUEUE: &str = "OpenGL example";
const FRAMES: u64 = 100;
/// Zones that are waited for one by one.
const ALONE: u64 = 20;

fn main() -> Result<(), AnyError> {
    let window = Window::new().unwrap_or_else(|error| without_driver(error));
    let gl = Rc::new(window.functions());
    // SAFETY: the context is current on this thread until the window is dropped.
    let context = unsafe { OpenGlContext::<_, PAIRS>::new(Rc::clone(&gl), QUEUE, 64)? };
    let picture = Picture::new(&gl)?;
    let mut in_flight = VecDeque::new();
    for frame in 0..FRAMES {
        {
            let text = format!("frame {frame}");
            let details = GpuZoneDetails { text: &text, ..GpuZoneDetails::default() };
            let _frame = context.zone_with(location!("frame", 0x33_66_99), &details);
            {
                let _clear = context.zone(location!("clear"));
                picture.clear(&gl, frame);
            }
            {
                let _draw = context.zone(location!("draw", 0xff_cc_00));
                picture.draw(&gl);
            }
        }
        // A program with a window swaps its buffers instead.
        // SAFETY: the context is current, and its fences are waited for once.
        unsafe {
            in_flight.push_back(gl.fence_sync(glow::SYNC_GPU_COMMANDS_COMPLETE, 0)?);
            gl.flush();
            if in_flight.len() > IN_FLIGHT
                && let Some(oldest) = in_flight.pop_front()
            {
                gl.client_wait_sync(oldest, 0, A_SECOND);
                gl.delete_sync(oldest);
            }
        }
        context.collect();
        frame_mark!();
    }
    let mut waited = Duration::ZERO;
    for frame in 0..ALONE {
        // SAFETY: the context is current.
        unsafe { gl.finish() };
        let called = Instant::now();
        {
            let _alone = context.zone(location!("alone"));
            // What draws tile after tile, as llvmpipe does, writes a time stamp in each: the last
            // one counts, so the beginning has to be behind another flush than the drawing.
            // SAFETY: as above.
            unsafe { gl.flush() };
            picture.clear(&gl, frame);
            picture.draw(&gl);
        }
        // SAFETY: as above.
        unsafe { gl.finish() };
        waited += called.elapsed();
        context.collect();
    }
    context.collect();
    let zones = [
        MarkedZones { name: "frame", count: FRAMES },
        MarkedZones { name: "clear", count: FRAMES },
        MarkedZones { name: "draw", count: FRAMES },
        MarkedZones { name: "alone", count: ALONE },
    ];
    // SAFETY: the context is current.
    let device = unsafe { gl.get_parameter_string(glow::RENDERER) };
    let without_times = context.refused() + context.outstanding() as u64;
    let clocks = context.read_clocks();
    MarkedGpuWork { device: &device, queue: QUEUE, zones: &zones, without_times, clocks, waited }
        .print();
    drop(context);
    picture.delete(&gl);
    Ok(())
}
