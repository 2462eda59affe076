//! What events refer to and what is said once: JSON, one value per chunk.
//!
//! Readers ignore unknown fields and unknown definitions; fields are only
//! added, with a default. That is the compatibility promise of the format.

use serde::{Deserialize, Serialize};
use syscollect_model::{LossCause, Mapping, RecorderSummary, SessionInfo, SymbolTable};

/// One definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Definition {
    /// The machine and the recording; may come again, the last one counts.
    Session(Box<SessionInfo>),
    /// Processes that were there when the recording began (or were noted later).
    Processes(Vec<KnownProcess>),
    /// Mappings that were there when the recording began.
    Mappings(Vec<Mapping>),
    /// What the numbers in counter records mean.
    Counters(Vec<CounterDefinition>),
    /// Cumulative losses; the last one of the file counts.
    Losses(Vec<LaneLoss>),
    /// Names of addresses.
    Symbols(SymbolTable),
    /// What the recorder says of itself; written last, so its absence means
    /// that the recording was cut off.
    Summary(Box<RecorderSummary>),
}

/// A process as read from the kernel when the recording began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownProcess {
    /// Its id in the initial pid namespace.
    pub pid: u32,
    /// Its parent.
    pub parent_pid: u32,
    /// Its arguments; empty for kernel threads.
    pub command_line: Vec<String>,
    /// A kernel thread.
    pub kernel: bool,
    /// Its threads, the main one included.
    pub threads: Vec<KnownThread>,
}

/// A thread as read from the kernel when the recording began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownThread {
    /// Its id in the initial pid namespace.
    pub tid: u32,
    /// Its name.
    pub name: String,
}

/// A polled counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterDefinition {
    /// The number that records carry.
    pub counter: u64,
    /// Its name.
    pub name: String,
    /// Its unit: `"%"`, `"bytes"`, `"W"`, `"kHz"`.
    pub unit: String,
    /// Its CPU, if it belongs to one.
    pub cpu: Option<u32>,
}

/// Losses of one lane for one cause, over the whole recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneLoss {
    /// Name of the lane's kind.
    pub lane: String,
    /// Its CPU.
    pub cpu: Option<u32>,
    /// Name of the kind of record, where it is known.
    #[serde(default)]
    pub record: String,
    /// Why.
    pub cause: LossCause,
    /// How many records.
    pub count: u64,
}
