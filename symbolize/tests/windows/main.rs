//! Naming code of Windows modules with the symbol files of the fixtures, which lie beside the
//! repository. Without them these tests say so, and pass only where nobody promised them.
// Helpers of tests may panic, too.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod common;
mod damage;
mod names;
mod server;
mod stores;
mod streams;
