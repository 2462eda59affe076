//! HotSpot, the virtual machine of OpenJDK: where it says what code it compiles.
//!
//! Compiled Java keeps no frame pointers, and no file has its unwind information. The machine itself
//! walks such frames by what it knows of each piece of code, and tells debuggers where it keeps
//! that: `libjvm.so` has a list of its structures' members. The kernel programs read these in the
//! process while it runs, without its help.
//!
//! **Duties.** Find the machine in an ELF file and say where in a process its list has what the
//! programs need ([`machine`]): OpenJDK 11 and newer; where its symbols say it, what leads to the
//! frames of virtual threads in the heap (OpenJDK 21 and newer), too. The file is foreign bytes: whatever it holds,
//! there is an answer or none, in bounded time and memory.
//!
//! **Non-goals.** Reading processes (the kernel programs do). Names of methods (the machine is asked
//! for these, or writes them itself). Java 8, which has one code heap and no list of them.
//!
//! ```
//! use syscollect_hotspot::{machine, may_hold_machine};
//!
//! assert!(may_hold_machine("/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so"));
//! assert!(machine(&b"no ELF file"[..]).is_err());
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod error;
mod file;
mod list;
mod relocated;

pub use error::HotspotFileError;
pub use file::{machine, may_hold_machine};
