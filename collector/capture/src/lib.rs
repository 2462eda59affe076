//! Recording a machine into a capture file.
//!
//! **Duties.** Everything that opens a kernel interface: loading and attaching
//! the kernel programs (`bpf/`), perf events, /proc and /sys; draining the
//! lanes into chunks in time; noting what would be gone later (processes,
//! mappings, files held open); reading all clocks; and [`support()`], which
//! tells what this machine can do and why not.
//!
//! **Non-goals.** No record is decoded, sorted or named here: a recording is
//! bytes on their way from lane to file. No format besides the capture's.
//!
//! ```no_run
//! use std::{fs::File, thread, time::Duration};
//! use syscollect_capture::{RecordOptions, Recording, Stacks};
//! use syscollect_model::StopReason;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = RecordOptions {
//!     sample_rate_hz: 999,
//!     stacks: Stacks { samples: true, offcpu: true, wakers: false, ..Stacks::default() },
//!     ..RecordOptions::default()
//! };
//! let recording = Recording::start(options, File::create("machine.syscap")?)?;
//! thread::sleep(Duration::from_secs(1));
//! let recorded = recording.stop(StopReason::Duration)?;
//! println!("{} events, {} losses", recorded.records, recorded.losses.len());
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod affinity;
mod arch;
mod attach_method;
mod bpf_attempts;
mod bpf_calls;
mod bpf_object;
mod btf;
mod by_user;
mod child_process;
mod chunk_sink;
mod clock;
mod collector;
mod command_lines;
mod committed_object;
mod counters;
mod descriptor_passing;
mod disk_reserve;
mod ebpf;
mod error;
mod fair_queue;
mod files;
mod fold;
mod gpu_clients;
mod hexadecimal;
mod host;
mod interrupts;
mod jvm;
mod kernel_texts;
mod kernel_types;
mod lane;
mod mapped_map;
mod mapping_pace;
mod memory;
mod metadata;
mod options;
mod perf;
mod perf_maps;
mod priority;
pub mod privileges;
mod probes;
mod readings;
mod recorded;
mod recorder_log;
mod recording;
mod replay;
mod ring_buffers;
mod shares;
mod sleepers;
mod snapshot;
mod snapshot_requests;
mod snapshots;
mod source;
mod stage;
mod support;
mod tee;
mod tracepoints;
mod unwind;
mod usage;
mod worker;
mod zones;

pub use descriptor_passing::{
    Datagram, ask_for_senders, is_unix_stream, receive_datagram, send as send_descriptors,
    send_at_once,
};
pub use error::CaptureError;
pub use fair_queue::payer_of;
pub use files::{EndedFile, RecordingFiles, Rotation};
#[doc(hidden)]
pub use kernel_texts::{read_kernel_text, read_perf_records, read_process_texts};
pub use memory::available_memory;
pub use options::{RecordOptions, Stacks, Tracepoints, UnwindMethod};
pub use priority::{
    RaisedSession, all_go_before_many, go_before_most, goes_before_many, restore_session,
};
pub use recorded::Recorded;
pub use recording::{Progress, Recording};
pub use snapshots::{Held, SnapshotOrder, SnapshotTaker, TakenSnapshot};
pub use support::{Capability, Machine, support};
pub use tee::{Tee, Teed, WatchDemand, Watched};
#[doc(hidden)]
pub use tracepoints::{AtTracepoint, TracepointCost, mount_tracepoints};
pub use unwind::{StackCopy, StacksInMemory};
pub use usage::{CostAccount, cpu_time, peak_memory, thread_cpu_time};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use zones::hostile_programs;
