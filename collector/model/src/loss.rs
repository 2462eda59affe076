//! What is missing, counted by place and cause.

use crate::Time;
use serde::{Deserialize, Serialize};

/// A number of records that were produced and are not in the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The lane they were lost from: `"sched"`, `"samples"`, ...
    pub lane: String,
    /// What these records would have told.
    pub domain: LossDomain,
    /// Its CPU, if it has one.
    pub cpu: Option<u32>,
    /// Why.
    pub cause: LossCause,
    /// How many records.
    pub count: u64,
    /// When, as far as it is known: the last event before, the first after.
    pub between: Option<(Time, Time)>,
}

/// What lost records would have told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossDomain {
    /// Switches and wakeups: what ran on a CPU.
    Scheduling,
    /// Anything: the source does not tell them apart.
    Everything,
    /// Samples, stacks, zones, probes, definitions, ...: nothing of what ran.
    Other,
}

impl LossDomain {
    /// Whether what runs on a CPU is unknown from such a loss on.
    pub fn affects_scheduling(self) -> bool {
        match self {
            Self::Scheduling | Self::Everything => true,
            Self::Other => false,
        }
    }
}

/// A time of which it is not known what ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulingGap {
    /// Where; `None` is every CPU.
    pub cpu: Option<u32>,
    /// From the last record before; `None` where that is not known.
    pub since: Option<Time>,
}

impl Loss {
    /// What the loss makes unknown of what ran: every exporter that shows runs
    /// of threads ends them by this, and by nothing else of a loss. `None` where
    /// what was lost tells nothing of what ran.
    pub fn scheduling_gap(&self) -> Option<SchedulingGap> {
        let affects = self.count > 0 && self.domain.affects_scheduling();
        affects.then(|| SchedulingGap { cpu: self.cpu, since: self.between.map(|(last, _)| last) })
    }
}

/// How many records of these were lost: all but those that `--overwrite` was asked to drop for
/// newer ones.
///
/// What a recording, `info` and `report` call lost is this, of losses that were read from the
/// capture.
pub fn records_lost(losses: &[Loss]) -> u64 {
    sum(losses, |cause| cause != LossCause::Overwritten)
}

/// How many records of these gave way to newer ones, as `--overwrite` asks.
pub fn records_overwritten(losses: &[Loss]) -> u64 {
    sum(losses, |cause| cause == LossCause::Overwritten)
}

fn sum(losses: &[Loss], is_counted: impl Fn(LossCause) -> bool) -> u64 {
    losses
        .iter()
        .filter(|loss| is_counted(loss.cause))
        .fold(0, |sum, loss| sum.saturating_add(loss.count))
}

/// Why records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossCause {
    /// The lane was full: the collector came too late.
    LaneFull,
    /// An event happened inside the recording of another.
    Nested,
    /// The clock of a CPU that was just coming up could not be read.
    ClockUnreadable,
    /// The trace buffer was full: the disk came too late.
    BufferFull,
    /// Overwritten by newer events, as `--overwrite` asks.
    Overwritten,
    /// The disk was full or refused to write.
    DiskFull,
    /// A chunk of the file is damaged or missing.
    Damaged,
    /// The file lacks it: it ends early, or holds nothing where it should be.
    Missing,
    /// The recorder held it in memory when it was cut off, or when its file was copied.
    NotWritten,
    /// The records could not be decoded.
    Undecodable,
    /// A program's memory could not be taken over: it ended before that.
    NotTaken,
    /// One program produced more than its share of what a recorder keeps for all.
    BeyondShare,
}

impl LossCause {
    /// The cause in words, as messages and `info --json` print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LaneFull => "lane-full",
            Self::Nested => "nested",
            Self::ClockUnreadable => "clock-unreadable",
            Self::BufferFull => "buffer-full",
            Self::Overwritten => "overwritten",
            Self::DiskFull => "disk-full",
            Self::Damaged => "damaged",
            Self::Missing => "missing",
            Self::NotWritten => "not-written",
            Self::Undecodable => "undecodable",
            Self::NotTaken => "not-taken",
            Self::BeyondShare => "beyond-share",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lost_switches_make_unknown_what_ran() {
        let loss = |domain, count| Loss {
            lane: "a lane".into(),
            domain,
            cpu: Some(3),
            cause: LossCause::LaneFull,
            count,
            between: Some((Time(5), Time(9))),
        };
        let gap = SchedulingGap { cpu: Some(3), since: Some(Time(5)) };
        assert_eq!(loss(LossDomain::Scheduling, 1).scheduling_gap(), Some(gap));
        assert_eq!(loss(LossDomain::Everything, 1).scheduling_gap(), Some(gap));
        assert_eq!(loss(LossDomain::Other, 1).scheduling_gap(), None);
        assert_eq!(loss(LossDomain::Scheduling, 0).scheduling_gap(), None, "nothing was lost");
    }
}
