//! What every source of events needs to be played into an exporter.
//!
//! **Duties.** [`Recording`] is what the rest of syscollect sees of a source: a
//! capture, a Windows trace. The parts that sources share are here: [`AnyExporter`], into which they play, the merge by
//! time ([`order`]), [`Output`] with its range of time, [`CodeAddresses`] with
//! their [`Names`] and the rows of frames made of them ([`Framer`]), what thread
//! ids mean while time goes on ([`ThreadIds`]), threads that nothing announced
//! ([`UnannouncedThreads`]), [`Tracks`], rows for what overlaps ([`Rows`]), and counts of what
//! occurred ([`EventTally`]).
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
//! let merged: Vec<u32> = Merge::new(vec![Countdown(2), Countdown(3)]).map(|(_, item)| item).collect();
//! assert_eq!(merged, [7, 8, 8, 9, 9]);
//! ```

mod any_exporter;
mod code_addresses;
mod event_tally;
mod event_type;
mod names;
mod null_exporter;
pub mod order;
mod output;
mod python;
mod recording;
mod rows;
mod slices;
mod thread_ids;
mod tracks;
mod unannounced;

pub use any_exporter::{AnyExporter, Stopped, stoppable};
pub use code_addresses::{
    ANONYMOUS, CodeAddress, CodeAddressId, CodeAddresses, KERNEL, Locator, ModuleKey,
};
pub use event_tally::EventTally;
pub use event_type::EventType;
pub use names::{Framer, Names};
pub use null_exporter::NullExporter;
pub use output::Output;
pub use python::PythonCodes;
pub use recording::{PdbIdentity, Played, Recording, UnresolvedModule, WindowsImage};
pub use rows::{Placed, Rows};
pub use slices::unfinished;
pub use thread_ids::ThreadIds;
pub use tracks::Tracks;
pub use unannounced::{UnannouncedThreads, unknown_name};
