//! The shapes that every part of syscollect shares.
//!
//! **Duties.** Time ([`Ticks`], [`Time`] and the one conversion between them,
//! [`ClockMap`]); the events of a session ([`Event`]) and the tables they point
//! into ([`Tables`]: strings, frames, stacks, processes, threads, tracks);
//! what was lost ([`Loss`]); what is known of the machine ([`SessionInfo`]);
//! and [`Exporter`], the interface of everything that writes them.
//!
//! **Non-goals.** No source and no format: nothing here knows eBPF, ETW or
//! Perfetto. No I/O. No dependency on another crate of the workspace.
//!
//! ```
//! use syscollect_model::{ClockMap, ClockPair, Ticks};
//!
//! let pairs = [(0, 0), (3_000, 1_000)].map(|(ticks, ns)| ClockPair {
//!     ticks: Ticks(ticks),
//!     boottime: ns,
//!     monotonic: ns,
//!     monotonic_raw: ns,
//!     realtime: ns,
//!     uncertainty: 0,
//! });
//! let clock = ClockMap::new(pairs.into()).unwrap();
//! assert_eq!(clock.time(Ticks(1_500)).0, 500);
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod address_space;
mod calendar;
mod characters;
mod clock;
mod event;
mod figures;
mod forgotten;
mod frame_image;
mod gpu;
mod ids;
mod lane;
mod loss;
mod module_kind;
mod names;
mod nesting;
mod on_cpu;
mod per_cpu;
mod resources;
mod rows;
mod session;
mod severity;
mod signal;
mod slice;
mod stack_cut;
mod string_table;
mod strings;
mod symbols;
mod tables;
mod unit;

pub use address_space::{AddressSpaces, Mapping, ProgramMemory};
pub use calendar::CalendarTime;
pub use characters::is_unprintable;
pub use clock::{ClockError, ClockMap, ClockPair, Ticks, Time, TimeCursor};
pub use event::{Event, Exporter, LoopMark, Migration, OffCpu, Sample, SleepState, Switch, Wakeup};
pub use figures::{bytes, duration, grouped};
pub use forgotten::Forgotten;
pub use frame_image::FrameImage;
pub use gpu::{Fence, GpuJob, GpuJobEnd, GpuZone};
pub use ids::{
    FrameId, LocationId, LockId, ModuleId, ProcessId, SchemaId, StackId, StringId, ThreadId,
    TrackId,
};
pub use lane::{
    CpuId, Lane, LaneClock, LaneIndex, LaneKind, LaneTraits, MachineId, NextFile, Retention,
};
pub use loss::{
    Loss, LossCause, LossDomain, LossOrigin, SchedulingGap, Shortfall, items_of_own_programs,
    own_items_text, records_lost, records_overwritten,
};
pub use module_kind::ModuleKind;
pub use names::{
    OperatingSystem, ProgramTicks, RecorderWork, SampleEvent, StackOrigin, StopReason,
};
pub use nesting::Nesting;
pub use on_cpu::OnCpu;
pub use per_cpu::{MOST_CPUS, PerCpu};
pub use resources::{Crash, Lock, LockAction, LockEvent, MemoryEvent, SignalExit};
pub use rows::Rows;
pub use session::{
    ClockSource, CpuClock, CpuInfo, KernelModule, LogEntry, RecorderSummary, RefusedTable,
    SessionInfo, SnapshotMark, WorkCost,
};
pub use severity::Severity;
pub use signal::{SIGNALS, is_crash_signal, signal_code, signal_name};
pub use slice::{
    Field, FieldFormat, FieldRole, Fields, Location, Message, MessageText, Schema, SchemaField,
    Slice, SliceRole, SliceUpdate, Value, amend_fields,
};
pub use stack_cut::StackCut;
pub use string_table::StringTable;
pub use strings::Strings;
pub use symbols::{MemoryAt, Symbol, SymbolFrame, SymbolTable, naming_shortage};
pub use tables::{
    BuildId, Frame, Module, Process, Scope, Tables, Thread, Track, TrackKind, TrackRole,
};
pub use unit::Unit;
