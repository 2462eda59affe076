//! Captures played as sessions: lanes merged by ticks, records turned into the
//! model's events.
//!
//! **Duties.** [`Session::open`] reads what events refer to: the clock map, processes and threads
//! with their lives, mappings, stacks, names, losses.
//! [`Recording::unresolved`](syscollect_playback::Recording::unresolved) says which places have no
//! name yet, for whoever can name them. [`Recording::play`](syscollect_playback::Recording::play)
//! merges all lanes and gives every event, in order of time, to an
//! [`Exporter`](syscollect_model::Exporter), with exact losses at the end.
//!
//! **Non-goals.** No file format (that is `syscollect-store`), no look-up of
//! names (`syscollect-symbolize`), no output format (`syscollect-exporters`).
//! Nothing after this crate sees ticks.
//!
//! Memory grows with definitions, not with events; of threads that nothing announced 262,144 get a
//! row each, the rest share one. Damaged input never panics: what cannot be read is counted.
//!
//! ```no_run
//! use syscollect_merge::Session;
//! use syscollect_playback::Recording;
//! use syscollect_store::CaptureReader;
//!
//! # fn play(exporter: &mut impl syscollect_model::Exporter) -> Result<(), Box<dyn std::error::Error>> {
//! let mut session = Session::open(CaptureReader::open("load.syscap".as_ref())?)?;
//! for module in session.unresolved() {
//!     println!("{} places of {} have no name", module.offsets.len(), module.path);
//! }
//! # let Ok(played) = session.play(exporter) else { return Ok(()) };
//! println!("{} events, {} lost", played.events, played.lost);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod chunk_queue;
mod counters;
mod decoders;
mod definitions;
mod engine;
mod error;
mod first_functions;
mod followed_zones;
mod forgetting;
mod gpu;
mod held;
mod kernel_functions;
mod knowledge;
mod lane;
mod learner;
mod lifecycle;
mod live;
mod live_records;
mod losses;
mod mappings;
mod open;
mod playing;
mod probes;
mod python;
mod record_cursor;
mod recorder_marks;
mod recordings;
mod samples;
mod scheduling;
mod session;
mod sleepers;
mod source;
mod sources;
mod stack_shares;
mod stacks;
mod tasks;
#[cfg(test)]
mod testing;
mod unwinding;
mod zones;

pub use error::MergeError;
pub use followed_zones::FollowedZones;
pub use forgetting::HeldRows;
pub use gpu::record::{field_number, field_string};
pub use kernel_functions::{is_in_every_wait, is_of_recording};
pub use live::{Live, play_live};
pub use live_records::{LiveRecord, LiveRecords};
pub use mappings::{MemoryChange, each_memory_change};
pub use open::End;
pub use playing::Playing;
pub use probes::calls::Calls;
pub use probes::hit::{ArgumentLayout, ArgumentValue, Hit};
pub use recordings::Recordings;
pub use session::Session;
pub use stacks::{SentStack, each_stack};
pub use unwinding::{ProcessCode, Unwinder, UserStack};
pub use zones::log::{each_definition, gpu_context_name};
