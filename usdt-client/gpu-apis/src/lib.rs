//! Zones of GPU work, by interface: what `syscollect_usdt_client::gpu` leaves to the program
//! (queries that are written and read, clocks that are read together) is done here.
//!
//! | feature | module | interface |
//! |---|---|---|
//! | `ash` | `vulkan` | Vulkan |
//! | `glow` | `opengl` | OpenGL |
//! | `opencl3` | `opencl` | OpenCL |
//! | `wgpu` | `webgpu` | wgpu |
//!
//! In each, one object stands for a queue or context of the interface, marks work with a guard, and
//! has a function `collect`, which a program calls once a frame: it tells of what the GPU has done,
//! waits for nothing, and reads the clocks now and then.

mod calibration;
#[cfg(any(test, feature = "wgpu"))]
mod frames;
#[cfg(feature = "opencl3")]
pub mod opencl;
#[cfg(feature = "glow")]
pub mod opengl;
#[cfg(feature = "ash")]
pub mod vulkan;
#[cfg(feature = "wgpu")]
pub mod webgpu;

pub use calibration::ClockReading;
