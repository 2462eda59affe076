//! Windows event trace logs (`.etl`), read on any system.
//!
//! **Duties.** [`mod@file`] reads buffers and records of one or several files of a
//! recording, merged by their raw clock. [`payload`] decodes what records say.
//! [`session`] turns them into the model's events.
//!
//! **Non-goals.** No Windows call: this runs and is tested everywhere. No
//! recording (`syscollect-windows`), no look-up of names (`syscollect-symbolize`),
//! no output (`syscollect-exporters`).

pub mod file;
mod guid;
pub mod payload;
mod record;
pub mod session;

pub use guid::Guid;
pub use record::{Class, ExtendedItem, ExtendedItems, Record, Task};
pub use session::{EtlError, Session};
