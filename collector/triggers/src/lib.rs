//! Triggers: what of a recording that goes on is worth a snapshot.
//!
//! **Duties.** [`Trigger`] is a cause with what is to come of it, as people write it. [`Watcher`]
//! is fed with the chunks of a recording that goes on, each lane's in their order, and says which
//! triggers [fired](Watcher::fired), where on the timeline, and why. It decides up to where
//! [nothing comes before](Watcher::nothing_before), in order of time, so that it does not matter
//! which CPU's records arrive first. What it remembers of programs, which are not trusted, has a
//! bound, and what records that were lost could have ended is forgotten.
//!
//! **Non-goals.** No I/O, no threads, no clock: who feeds it looks when it wants. It takes no
//! snapshots. It names nothing but threads, zones and probes: stacks are for its readers.
//!
//! ```
//! use syscollect_model::Ticks;
//! use syscollect_triggers::{Trigger, Watcher};
//!
//! let stall: Trigger = "stall: waiting server > 20ms, after 1s, pause 1m".parse()?;
//! assert_eq!(stall.name, "stall");
//! let mut watcher = Watcher::new(vec![stall])?;
//! // The chunks of a recording go to `watcher.feed`; then, some milliseconds later:
//! watcher.nothing_before(Ticks(1_000_000));
//! for firing in watcher.fired() {
//!     println!("{}: {}", firing.trigger, firing.reason);
//! }
//! # Ok::<(), syscollect_triggers::TriggerError>(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod cause;
mod client_logs;
mod duration_limit;
mod error;
mod found;
mod hits;
mod pace;
mod parser;
mod payers;
mod scopes;
mod threads;
mod thresholds;
mod tracepoints;
mod trigger;
mod wait_table;
mod waits;
mod watcher;
mod zones;

pub use cause::{Cause, Comparison, Condition, DurationLimit, ExitCondition, NamePattern, Operand};
pub use error::TriggerError;
pub use found::CANNOT_FIRE;
pub use pace::UserCounts;
pub use payers::Payer;
pub use trigger::{Trigger, UserCondition, read_triggers};
pub use watcher::{Firing, TriggerStatus, Watcher};
