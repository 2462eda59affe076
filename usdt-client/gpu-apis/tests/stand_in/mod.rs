//! Drivers without a device: they write time stamps when a test says so, and complain where a
//! program does what no driver allows.
// Each test program uses a part; helpers of tests fail as tests do.
#![allow(dead_code, clippy::unwrap_used)]

#[cfg(feature = "glow")]
pub(crate) mod opengl;
#[cfg(feature = "ash")]
pub(crate) mod vulkan;
