//! What is missing, counted by place and cause.

use crate::{CpuId, Lane, LaneKind, MachineId, Time, grouped};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A number of records that were produced and are not in the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What they were lost from.
    pub origin: LossOrigin,
    /// Its CPU, if it has one.
    pub cpu: Option<CpuId>,
    /// Why.
    pub cause: LossCause,
    /// Whose programs wrote them, where that is known: a user id.
    pub user: Option<u32>,
    /// How many records.
    pub count: u64,
    /// When, as far as it is known: the last event before, the first after.
    pub between: Option<(Time, Time)>,
}

/// What records were lost from, which tells what they would have told.
///
/// In captures and reports it is its [`name`](Self::name).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>", into = "String")]
pub enum LossOrigin {
    /// Lanes of this kind.
    Lane(LaneKind),
    /// Single events, of a source that does not tell them apart.
    Events,
    /// Whole buffers of such a source, of which nobody knows how many events they held.
    Buffers,
    /// What a later version of syscollect calls so.
    Unknown(Box<str>),
}

impl LossOrigin {
    const EVENTS: &str = "events";
    const BUFFERS: &str = "buffers";

    /// `"sched"`, `"samples"`, ...: as a person reads it.
    pub fn name(&self) -> &str {
        match self {
            Self::Lane(kind) => kind.name(),
            Self::Events => Self::EVENTS,
            Self::Buffers => Self::BUFFERS,
            Self::Unknown(name) => name,
        }
    }

    /// What is called so.
    pub fn from_name(name: &str) -> Self {
        match name {
            Self::EVENTS => Self::Events,
            Self::BUFFERS => Self::Buffers,
            _ => LaneKind::from_name(name).map_or_else(|| Self::Unknown(name.into()), Self::Lane),
        }
    }

    /// What its records would have told; of those of a later version, no more than that they are
    /// missing.
    pub fn domain(&self) -> LossDomain {
        match self {
            Self::Lane(kind) => kind.traits().loss,
            Self::Events | Self::Buffers => LossDomain::Everything,
            Self::Unknown(_) => LossDomain::Other,
        }
    }
}

/// By name, as lists of losses are read.
impl Ord for LossOrigin {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for LossOrigin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<LaneKind> for LossOrigin {
    fn from(kind: LaneKind) -> Self {
        Self::Lane(kind)
    }
}

impl From<Cow<'_, str>> for LossOrigin {
    fn from(name: Cow<'_, str>) -> Self {
        Self::from_name(&name)
    }
}

impl From<LossOrigin> for String {
    fn from(origin: LossOrigin) -> Self {
        origin.name().to_owned()
    }
}

/// What lost records would have told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub cpu: Option<CpuId>,
    /// From the last record before; `None` where that is not known.
    pub since: Option<Time>,
}

impl Loss {
    /// Records of a lane.
    pub fn of_lane(
        lane: Lane,
        cause: LossCause,
        count: u64,
        between: Option<(Time, Time)>,
    ) -> Self {
        Self { origin: lane.kind.into(), cpu: lane.cpu(), cause, user: None, count, between }
    }

    /// Whether it is of the same place, cause and user, so that both are one number.
    pub fn is_of_the_kind(&self, other: &Self) -> bool {
        self.origin == other.origin && Self::kind(self) == Self::kind(other)
    }

    fn kind(loss: &Self) -> (Option<CpuId>, LossCause, Option<u32>) {
        (loss.cpu, loss.cause, loss.user)
    }

    /// Whether these are items that a program wrote and that are nothing, or more than its share:
    /// they tell of nobody else.
    pub fn is_of_own_program(&self) -> bool {
        self.origin == LossOrigin::Lane(LaneKind::Zone)
            && matches!(self.cause, LossCause::Undecodable | LossCause::BeyondShare)
    }

    /// On which machine; what is lost of none of its CPUs counts for the first.
    pub fn machine(&self) -> MachineId {
        self.cpu.map_or(MachineId::FIRST, |cpu| cpu.machine)
    }

    /// What the loss makes unknown of what ran: every exporter that shows runs
    /// of threads ends them by this, and by nothing else of a loss. `None` where
    /// what was lost tells nothing of what ran.
    pub fn scheduling_gap(&self) -> Option<SchedulingGap> {
        let affects = self.count > 0 && self.origin.domain().affects_scheduling();
        affects.then(|| SchedulingGap { cpu: self.cpu, since: self.between.map(|(last, _)| last) })
    }
}

/// How many records of these were lost: all but those that `--overwrite` was asked to drop for
/// newer ones.
///
/// What a recording, `info` and `report` call lost is this, of losses that were read from the
/// capture.
pub fn records_lost(losses: &[Loss]) -> u64 {
    sum(losses, |loss| loss.cause != LossCause::Overwritten)
}

/// How many records of these gave way to newer ones, as `--overwrite` asks.
pub fn records_overwritten(losses: &[Loss]) -> u64 {
    sum(losses, |loss| loss.cause == LossCause::Overwritten)
}

/// How many of these are items of programs of which nobody else lost any
/// ([`Loss::is_of_own_program`]); they are among [`records_lost`].
pub fn items_of_own_programs(losses: &[Loss]) -> u64 {
    sum(losses, Loss::is_of_own_program)
}

/// So many of them, in words.
pub fn own_items_text(count: u64) -> String {
    let (items, mean) = if count == 1 { ("item", "means") } else { ("items", "mean") };
    let are = if count == 1 { "is" } else { "are" };
    let count = grouped(count);
    format!("{count} {items} of programs that {mean} nothing or {are} beyond their shares")
}

/// What is missing though no record is counted as lost for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// How often a CPU ran something else than its events say ([`OnCpu`](crate::OnCpu)).
    pub gaps: u64,
    /// Events that lack their stack or a part of it.
    pub stacks: u64,
}

impl Shortfall {
    /// Of two recordings together.
    pub fn and(self, other: Self) -> Self {
        Self {
            gaps: self.gaps.saturating_add(other.gaps),
            stacks: self.stacks.saturating_add(other.stacks),
        }
    }

    /// What is said of losses where no record is counted as lost.
    pub fn instead_of_losses(self) -> String {
        let Self { gaps, stacks } = self;
        let gaps = match gaps_text(gaps) {
            Some(gaps) => format!(" that was counted; {gaps}"),
            None => String::new(),
        };
        match stacks {
            0 => format!("nothing{gaps}"),
            _ => format!("no event, but {} or parts of them{gaps}", stacks_text(stacks)),
        }
    }

    /// What is said of it beside losses: a line for each.
    pub fn beside_losses(self) -> impl Iterator<Item = String> {
        let stacks =
            (self.stacks > 0).then(|| format!("{} or parts of them", stacks_text(self.stacks)));
        stacks.into_iter().chain(gaps_text(self.gaps))
    }
}

fn stacks_text(events: u64) -> String {
    match events {
        1 => "the stack of 1 event".to_owned(),
        _ => format!("the stacks of {} events", grouped(events)),
    }
}

fn gaps_text(gaps: u64) -> Option<String> {
    let times = match gaps {
        0 => return None,
        1 => "once".to_owned(),
        _ => format!("{} times", grouped(gaps)),
    };
    Some(format!("{times} a CPU ran something else than its events say: some are missing"))
}

fn sum(losses: &[Loss], is_counted: impl Fn(&Loss) -> bool) -> u64 {
    losses
        .iter()
        .filter(|loss| is_counted(loss))
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
    /// Older than what is kept, as was asked: overwritten by newer events, or before the `--last` of a
    /// snapshot.
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
        let gap = SchedulingGap { cpu: Some(CpuId::new(3)), since: Some(Time(5)) };
        assert_eq!(loss(LaneKind::Sched.into(), 1).scheduling_gap(), Some(gap));
        assert_eq!(loss(LossOrigin::Buffers, 1).scheduling_gap(), Some(gap));
        let unknown = LossOrigin::Unknown("page faults".into());
        for other in [LaneKind::Sample.into(), LaneKind::Task.into(), unknown] {
            assert_eq!(loss(other, 1).scheduling_gap(), None);
        }
        assert_eq!(loss(LaneKind::Sched.into(), 0).scheduling_gap(), None, "nothing was lost");
    }

    fn loss(origin: LossOrigin, count: u64) -> Loss {
        Loss {
            origin,
            cpu: Some(CpuId::new(3)),
            cause: LossCause::LaneFull,
            user: None,
            count,
            between: Some((Time(5), Time(9))),
        }
    }
    #[test]
    fn an_origin_is_its_name_in_a_file_whoever_wrote_it() {
        let origins = [
            (LaneKind::SchedStack.into(), "\"sched stacks\""),
            (LossOrigin::Buffers, "\"buffers\""),
            (LossOrigin::Unknown("page faults".into()), "\"page faults\""),
        ];
        for (origin, text) in origins {
            assert_eq!(serde_json::to_string(&origin).unwrap(), text);
            assert_eq!(serde_json::from_str::<LossOrigin>(text).unwrap(), origin);
        }
    }
}
