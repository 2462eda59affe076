//! End-to-end tests without a kernel: chunks in, readable text out.
//!
//! **Duties.** [`FakeMachine`] writes captures of a machine whose every event
//! is told by the test; [`golden`] plays them into text and compares it with
//! the files in `golden/`. Set `UPDATE_GOLDEN=1` to write these anew, and read
//! the difference before it is committed. [`tracy_reader`] reads Tracy files as
//! strictly as no viewer does, and [`tracy_viewer`] the live protocol. [`reference_capture`] is a
//! capture whose figures every viewer has to show, and [`shown`] reads what it does show.
//!
//! **Non-goals.** Nothing here needs root, BPF or the machine it runs on; tests
//! of the real kernel are `cargo xtask privileged`.
//!
//! ```
//! use syscollect_tests::{FakeMachine, golden};
//!
//! let mut machine = FakeMachine::new(1);
//! machine.switch(0, 1, 0, 42);
//! let (lines, played) = golden::text(&mut golden::open(machine.finish()));
//! assert!(lines.contains("cpu0 switch ? [0] (runnable) -> <42>/42 [0]"));
//! assert_eq!(played.events, 1);
//! ```

pub mod client;
pub mod cuts;
pub mod etl;
pub mod golden;
pub mod gpu;
mod machine;
pub mod perf;
pub mod reference_capture;
pub mod scheduling_load;
pub mod shown;
pub mod tracepoint;
pub mod tracy_reader;
pub mod tracy_viewer;
pub mod unnamed;
pub mod unwind_oracle;

pub use client::{FakeProgram, FakeThread};
pub use machine::{
    FIRST_BOOTTIME, FIRST_RAW, FIRST_TICKS, FakeMachine, Hit, Host, Stacks, TICKS_PER_US, ticks,
};
