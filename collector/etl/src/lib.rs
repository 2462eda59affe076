//! Windows event trace logs (`.etl`), read on any system.
//!
//! **Duties.** [`mod@file`] reads buffers and records of one or several files of a
//! recording, merged by their raw clock. [`payload`] decodes what records say.
//! [`session`] turns them into the model's events.
//!
//! **Non-goals.** No Windows call: this runs and is tested everywhere. No
//! recording (`syscollect-windows`), no look-up of names (`syscollect-symbolize`),
//! no output (`syscollect-exporters`).
//!
//! ```
//! use syscollect_etl::Session;
//! use syscollect_tests::etl::{FakeTrace, perf_info};
//! use syscollect_tests::golden;
//!
//! // Where a file is at hand: `Session::open(&["x.etl".into()])`.
//! let mut trace = FakeTrace::new(1);
//! let address = 0x7ff6_0000_1000_u64.to_le_bytes();
//! let thread = [101, 1].map(u32::to_le_bytes).concat();
//! trace.record(0, &perf_info(FakeTrace::START + 50, 0x0f, 46, 2, &[&address[..], &thread].concat()));
//!
//! let mut session = Session::from_bytes(vec![trace.finish()])?;
//! // Plays it into the exporter of text, as `Recording::play` does into any.
//! let (lines, played) = golden::text(&mut session);
//! assert_eq!(played.events_by_type["sample"], 1);
//! assert!(lines.contains("0x7ff600001000"));
//! # Ok::<(), syscollect_etl::EtlError>(())
//! ```
//!
//! What it does not do, and where it leaves something out, is told in [`session`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod file;
mod guid;
pub mod payload;
mod record;
pub mod session;

pub use guid::Guid;
pub use record::{Class, ExtendedItem, ExtendedItems, Record, Task};
pub use session::{EtlError, Session};
