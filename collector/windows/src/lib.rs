//! Records a Windows machine into an `.etl` file.
//!
//! **Duties.** What a recording asks of ETW ([`Plan`]), the order of the calls
//! and that a session is always stopped ([`Session`]), the calls themselves
//! (`system`, on Windows), and the PDB identities of the images that were loaded,
//! which a kernel session does not write ([`identity()`]).
//!
//! **Non-goals.** No decoding (`syscollect-etl`). Nothing here runs while events
//! are recorded: Windows' own logger thread writes the file.
//!
//! All but `system` is plain Rust and tested everywhere. The feature `type-check`
//! compiles `system` on other systems too, where it can be checked but not linked.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod append;
mod error;
mod identify;
mod identity;
mod images;
// Only `system` uses all of them.
#[cfg_attr(not(any(windows, feature = "type-check")), allow(dead_code))]
mod layouts;
mod leftovers;
mod losses;
mod plan;
mod session;
#[cfg(any(windows, feature = "type-check"))]
pub mod system;

pub use error::{Error, Status};
pub use identify::identify;
pub use identity::{Identity, identity, identity_of};
pub use images::Image;
pub use layouts::{Counts, Properties};
pub use losses::losses;
pub use plan::{ClassicEvent, FREQUENCY_MAX, Options, Plan, Provider, RecordingContext, Stacks};
pub use session::{Control, Handle, Information, Session};
