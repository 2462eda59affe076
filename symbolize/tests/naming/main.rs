//! Naming code of this very program, of libc and of the vDSO, whatever happens to the files.
// Helpers of tests may panic, too.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod build_id;
mod common;
#[cfg(target_os = "linux")]
mod debuginfod;
#[cfg(target_os = "linux")]
mod kept_files;
mod links;
mod mini_debug;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod modules;
#[cfg(target_os = "linux")]
mod perf_maps;
mod pinned;
mod ranges;
mod symbol_files;
