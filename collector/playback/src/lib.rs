//! What every source of events needs to be played into an exporter.
//!
//! **Duties.** [`Recording`] is what the rest of syscollect sees of a source: a capture, a Windows
//! trace. The parts that sources share are here: the merge by time ([`order`]); [`Engine`], which
//! decoders tell events with ([`Present`], [`Threads`] with rows for those that nothing announced,
//! [`Tracks`], and [`Sink`] with [`Output`] and [`Tally`]); who lived when ([`Lifetimes`],
//! [`LifecycleEvent`]); [`CodeAddresses`] with their [`Names`] and the rows of frames made of them
//! ([`Framer`]); [`Rows`] for what overlaps; and [`AnyExporter`], into which they play.
//!
//! **Non-goals.** No format of a source (`syscollect-merge` plays captures,
//! `syscollect-etl` Windows traces), no look-up of names, no output format.
//!
//! ```
//! use syscollect_playback::order::{Cursor, Merge};
//!
//! struct Countdown(u32);
//! impl Cursor for Countdown {
//!     type Key = u32;
//!     type Item = u32;
//!     fn key(&self) -> Option<u32> { (self.0 > 0).then(|| 10 - self.0) }
//!     fn take(&mut self) -> u32 { self.0 -= 1; 9 - self.0 }
//! }
//! let merged: Vec<u32> = Merge::new(vec![Countdown(2), Countdown(3)]).map(|(_, item)|
//! item).collect(); assert_eq!(merged, [7, 8, 8, 9, 9]);
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod any_exporter;
mod before;
mod code_addresses;
mod engine;
mod event_tally;
mod event_type;
mod lifecycle;
mod lifetimes;
mod names;
mod null_exporter;
pub mod order;
mod output;
mod present;
mod python;
mod recording;
mod rows;
mod sink;
mod tally;
pub mod testing;
mod thread_ids;
mod threads;
mod tracks;
mod unannounced;

pub use any_exporter::{AnyExporter, Stopped, stoppable};
pub use code_addresses::{
    CodeAddress, CodeAddressId, CodeAddresses, Locator, ModuleKey, UnnamedCode,
};
pub use engine::{AddedRows, Engine, EngineParts};
pub use event_tally::EventTally;
pub use event_type::EventType;
pub use lifecycle::LifecycleEvent;
pub use lifetimes::{Lifetime, Lifetimes};
pub use names::{Framer, Names, Validity};
pub use null_exporter::NullExporter;
pub use output::Output;
pub use present::Present;
pub use python::PythonCodes;
pub use recording::{PdbIdentity, Played, Recording, UnresolvedModule, WindowsImage};
pub use rows::{AssignedRow, Rows};
pub use sink::Sink;
pub use tally::Tally;
pub use threads::Threads;
pub use tracks::Tracks;
pub use unannounced::{UnannouncedThreads, unknown_name};
