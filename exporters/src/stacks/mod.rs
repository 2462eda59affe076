//! Stacks added up: what flame graphs, folded stacks and pprof profiles are made of.

mod flamegraph;
mod folded;
mod pprof;
mod totals;

pub use flamegraph::FlamegraphExporter;
pub use folded::FoldedExporter;
pub use pprof::PprofExporter;

use crate::ProcessFilter;

/// Which stacks are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StackKind {
    /// CPU samples, by number.
    #[default]
    OnCpu,
    /// Where threads blocked, by microseconds until they ran again.
    OffCpu,
    /// Where threads woke others, by number.
    Wakers,
    /// Where threads hit probes and entered functions and zones, by number.
    Probes,
}

impl StackKind {
    /// In words, for titles.
    fn title(self, idle: bool) -> &'static str {
        match self {
            Self::OnCpu => "On-CPU samples",
            Self::OffCpu if idle => "Off-CPU time (until threads that blocked ran again)",
            Self::OffCpu => {
                "Off-CPU time (until threads that blocked ran again; without idle threads)"
            }
            Self::Wakers => "Wakeups by the waker's stack",
            Self::Probes => "Hits of probes, and entries of functions and zones",
        }
    }

    /// What is counted.
    fn unit(self) -> &'static str {
        match self {
            Self::OnCpu => "samples",
            Self::OffCpu => "microseconds",
            Self::Wakers => "wakeups",
            Self::Probes => "hits",
        }
    }
}

/// What a picture of stacks shows.
#[derive(Clone, Debug, Default)]
pub struct StackOptions {
    /// Which stacks.
    pub kind: StackKind,
    /// Of these processes only.
    pub process: Option<ProcessFilter>,
    /// Also samples of idle CPUs, and time off the CPU of threads that had nothing to do.
    pub idle: bool,
}
