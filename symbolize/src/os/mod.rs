//! What looking at files that are in use asks of the system.
//!
//! Recordings of Linux are named on Linux, where their files are. Elsewhere
//! there are no such files, and every look-up says so.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::*;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
