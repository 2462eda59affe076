//! What was found: a cause of a trigger.

use std::sync::Arc;
use syscollect_model::Unit;

/// Triggers that are watched for at a time: a wait has a bit for each.
pub(crate) const MOST_TRIGGERS: usize = 64;

/// How the note of a trigger begins that cannot fire, with what is recorded.
pub const CANNOT_FIRE: &str = "it cannot";

/// A cause of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundCause {
    /// Which trigger.
    pub(crate) trigger: usize,
    /// Where on the timeline: ticks.
    pub(crate) at: u64,
    /// The thread, if it is of one.
    pub(crate) tid: Option<u32>,
    /// The user who pays for the program that it is of, where the recorder knows that otherwise
    /// than by the thread.
    pub(crate) payer: Option<u32>,
    pub(crate) what: Occurrence,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Occurrence {
    /// Something with a name took so many ticks.
    Took { kind: &'static str, name: Arc<str>, ticks: u64 },
    /// Something with a name that began then has not ended for so many ticks.
    Stuck { kind: &'static str, name: Arc<str>, began: u64, ticks: u64 },
    /// A thread waited so many ticks, from then on.
    Waited { how: &'static str, began: u64, ticks: u64 },
    /// A process ended: a code as `wait` gives it.
    Ended { status: u32 },
    /// Something with a name was hit.
    Hit { name: Arc<str> },
    /// A message was sent.
    Message(String),
    /// Something with a name has this value.
    Value { name: Arc<str>, value: f64, unit: Option<Arc<Unit<String>>> },
    /// Somebody sent the recorder a signal.
    Signal,
}

impl Occurrence {
    /// When it began, where it is noticed at that time; what takes no time, then.
    pub(crate) fn began(&self, at: u64) -> u64 {
        match self {
            Self::Took { ticks, .. } => at.saturating_sub(*ticks),
            Self::Stuck { began, .. } | Self::Waited { began, .. } => *began,
            _ => at,
        }
    }
}

/// Some of the triggers, a bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TriggerSet(u64);

impl TriggerSet {
    pub(crate) fn add(&mut self, triggers: &[usize]) {
        triggers.iter().for_each(|trigger| self.0 |= 1 << trigger);
    }

    pub(crate) fn has(self, trigger: usize) -> bool {
        self.0 >> trigger & 1 == 1
    }
}

/// Numbers of triggers.
pub(crate) type Triggers = Vec<usize>;
