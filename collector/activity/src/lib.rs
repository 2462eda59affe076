//! Activity: what a recording that goes on says of each of its seconds.
//!
//! **Duties.** [`Activity`] is fed with the chunks of a recording that goes on, each lane's in
//! their order, and makes an [`Interval`] of each second of the recording's own time: who had which
//! CPU, which threads ran, waited for a CPU or were blocked and for how long, who woke them, and
//! how long they waited until they ran; how long zones, of GPUs too, and frames took that
//! instrumented programs say ended; and, once
//! [that is asked for](Activity::follow_functions), in which functions they ran and were blocked.
//! What goes on when a second ends is split there, so that on each CPU the times of all threads, of
//! idleness and of what is not known are exactly one second.
//! The last minutes are [kept](Activity::history), in bounded memory: of a second that has more
//! threads than are kept, the others are one sum. Where records are missing, what they could have
//! changed counts as not known until it is told again, and the second says that it is incomplete.
//!
//! **Non-goals.** No I/O, no threads, no clock: who feeds it looks when it wants. It draws nothing
//! and sorts nothing for a view. It finds no names of functions: whoever shows them
//! [asks what has none](Functions::ask), and [adds](Functions::add_names) what was found.
//!
//! ```
//! use syscollect_activity::Activity;
//! use syscollect_model::Ticks;
//!
//! let mut activity = Activity::default();
//! // The chunks of a recording go to `activity.feed`; then, some milliseconds later:
//! activity.nothing_before(Ticks(1_000_000));
//! for second in activity.history() {
//!     let busy: u64 = second.cpus.iter().map(|cpu| cpu.busy).sum();
//!     println!("second {}: {:.1} CPUs were busy", second.number, second.share(busy));
//! }
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod activity;
mod functions;
mod histogram;
mod history;
mod interval;
mod machine;
mod names;
mod rows;
mod wakers;
mod zone_names;
mod zones;

pub use activity::Activity;
pub use functions::{
    CallTree, CallTreeBuilder, CodeFunction, FunctionActivity, FunctionWeight, Functions,
    StackFrame, StackWeight, UnfoldedCall, UnfoldedCalls, UnnamedAddresses,
};
pub use histogram::Histogram;
pub use interval::{
    CpuActivity, Interval, OtherActivity, ProcessActivity, SpanKind, TaskTimes, ThreadActivity,
    ZoneActivity,
};
pub use names::ThreadName;
pub use wakers::{Waker, WakerShare};
