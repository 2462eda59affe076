//! Naming code of Windows modules with images and symbol files: those that these tests make, and
//! real ones.
// Helpers of tests may panic, too.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod common;
mod damage;
mod fixtures;
mod names;
mod server;
mod stores;
mod streams;
