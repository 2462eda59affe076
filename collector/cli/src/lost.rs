//! What was lost of a recording, the same for `record` and for whoever reads the capture later.

use crate::terminal::Style;
use std::collections::BTreeMap;
use std::fmt::Write;
use syscollect_model::{
    CpuId, LaneKind, Loss, LossCause, LossOrigin, Shortfall, grouped, own_items_text, records_lost,
    records_overwritten,
};
use syscollect_playback::{Played, Recording};
use syscollect_store::LaneLoss;

/// Most lines about losses; a machine has many lanes, and all are in `info`.
const LOSS_LINES: usize = 8;

/// What was lost, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost {
    losses: Vec<Loss>,
    /// Events of the capture that nobody has read since they were written; what of them cannot be
    /// read is not known.
    unread: Option<u64>,
    /// What else is missing.
    shortfall: Shortfall,
}

impl Lost {
    /// What a recording lost whose events were all played.
    pub(crate) fn read(session: &impl Recording, played: &Played) -> Self {
        let shortfall = Shortfall { gaps: played.unreported_gaps, stacks: played.missing_stacks };
        Self { losses: session.losses().to_vec(), unread: None, shortfall }
    }

    /// What is known of one of which only the definitions were read; `events` were not.
    #[cfg_attr(windows, expect(dead_code, reason = "only the recorder of Linux needs it"))]
    pub(crate) fn unread(session: &impl Recording, events: u64) -> Self {
        Self { losses: session.losses().to_vec(), unread: Some(events), ..Self::default() }
    }

    /// What is known of one of which nothing was read back.
    #[cfg_attr(windows, expect(dead_code, reason = "only the recorder of Linux needs it"))]
    pub(crate) fn unopened(events: u64) -> Self {
        Self { unread: Some(events), ..Self::default() }
    }

    /// With what the recorder itself counted: a full disk may have kept that out of the capture.
    #[cfg_attr(windows, expect(dead_code, reason = "only the recorder of Linux needs it"))]
    pub(crate) fn at_least(mut self, counted: &[LaneLoss]) -> Self {
        for loss in counted {
            let counted_as = Loss {
                origin: loss.origin.clone(),
                cpu: loss.cpu.map(CpuId::new),
                cause: loss.cause,
                user: loss.user,
                count: loss.count,
                between: None,
            };
            let count = counted
                .iter()
                .filter(|other| {
                    (&other.origin, other.cpu, other.cause, other.user)
                        == (&loss.origin, loss.cpu, loss.cause, loss.user)
                })
                .fold(0u64, |sum, other| sum.saturating_add(other.count));
            match self.losses.iter_mut().find(|known| known.is_of_the_kind(&counted_as)) {
                Some(known) => known.count = known.count.max(count),
                None => self.losses.push(Loss { count, ..counted_as }),
            }
        }
        self
    }

    /// Those of another file of the same recording, too.
    #[cfg_attr(windows, expect(dead_code, reason = "only the recorder of Linux needs it"))]
    pub(crate) fn add(&mut self, other: Self) {
        for loss in other.losses {
            match self.losses.iter_mut().find(|known| known.is_of_the_kind(&loss)) {
                Some(known) => known.count = known.count.saturating_add(loss.count),
                None => self.losses.push(loss),
            }
        }
        self.shortfall = self.shortfall.and(other.shortfall);
        self.unread = match (self.unread, other.unread) {
            (Some(some), Some(more)) => Some(some.saturating_add(more)),
            (one, another) => one.or(another),
        };
    }

    /// Whether something was lost against the user's will, stacks of events that are there
    /// included: what `--fail-on-loss` asks for. Gaps that no loss tells
    /// of are none: kernels leave some switches out that no tracer sees, and every recording of
    /// such a machine would fail.
    pub(crate) fn is_lossy(&self) -> bool {
        self.records() > 0 || self.shortfall.stacks > 0
    }

    /// Records lost against the user's will.
    fn records(&self) -> u64 {
        records_lost(&self.losses)
    }

    /// Records that gave way to newer ones, as `--overwrite` asks.
    pub(crate) fn overwritten(&self) -> u64 {
        records_overwritten(&self.losses)
    }

    /// Parts of the files are not there, rather than events among others.
    pub(crate) fn lacks_parts(&self) -> bool {
        self.losses.iter().any(|loss| loss.count > 0 && is_lacking(loss))
    }

    /// Several lines: what gave way to newer events, what was lost of `events` and what else there
    /// were, and where.
    pub(crate) fn text(&self, events: u64, style: Style) -> String {
        let mut text = String::new();
        // Writing to a String never fails.
        match self.overwritten() {
            0 => {}
            count => {
                let _ = writeln!(text, "Older events, not kept as asked: {}", grouped(count));
            }
        }
        match self.records() {
            0 => text.push_str(&self.nothing(style)),
            lost => text.push_str(&self.something(lost, events, style)),
        }
        text
    }

    /// How much was lost. A Windows trace may lack whole buffers, and nobody knows how many events
    /// were in those; records of mappings and stacks are no events. Renames beyond a share are
    /// those of a process that renames itself without end, and tell of nobody else; nor do items of
    /// programs that are nothing, or more than their share.
    fn heading(&self, lost: u64, events: u64) -> String {
        let buffers = self.lost_of(|origin| *origin == LossOrigin::Buffers).min(lost);
        let beside: BTreeMap<&str, u64> = self
            .against_the_users_will()
            .filter(|loss| is_beside_events(&loss.origin))
            .map(|loss| (loss.origin.name(), self.lost_of(|origin| *origin == loss.origin)))
            .collect();
        let renames = self.lost_where(is_rename_beyond_share);
        let own_items = self.lost_where(Loss::is_of_own_program);
        let of_events = lost
            .saturating_sub(buffers)
            .saturating_sub(renames)
            .saturating_sub(own_items)
            .saturating_sub(beside.values().fold(0, |sum, more| sum.saturating_add(*more)));
        let mut parts = Vec::new();
        if of_events > 0 && buffers == 0 {
            let all = of_events.saturating_add(events);
            let share = of_events as f64 * 100.0 / all as f64;
            parts.push(format!("{} of {} events ({share:.2} %)", grouped(of_events), grouped(all)));
        } else if of_events > 0 {
            parts.push(format!("{} events", grouped(of_events)));
        }
        match buffers {
            0 => {}
            1 => parts.push("1 buffer".into()),
            buffers => parts.push(format!("{} buffers", grouped(buffers))),
        }
        parts.extend(
            beside.iter().map(|(name, count)| format!("{} {name} records", grouped(*count))),
        );
        if renames > 0 {
            parts.push(format!("{} renames beyond their processes' shares", grouped(renames)));
        }
        if own_items > 0 {
            parts.push(own_items_text(own_items));
        }
        let no_event = match (of_events, buffers, renames, own_items) {
            (0, 0, 0, 0) => ", and no event",
            (0, 0, ..) => ", and no other event",
            _ => "",
        };
        parts.join(" and ") + no_event
    }

    fn against_the_users_will(&self) -> impl Iterator<Item = &Loss> {
        self.losses.iter().filter(|loss| loss.cause != LossCause::Overwritten && loss.count > 0)
    }

    fn lost_of(&self, which: impl Fn(&LossOrigin) -> bool) -> u64 {
        self.lost_where(|loss| which(&loss.origin))
    }

    fn lost_where(&self, which: impl Fn(&Loss) -> bool) -> u64 {
        let lost = self.against_the_users_will().filter(|loss| which(loss));
        lost.fold(0, |sum: u64, loss| sum.saturating_add(loss.count))
    }

    fn nothing(&self, style: Style) -> String {
        match self.unread {
            None if self.shortfall == Shortfall::default() => style.good("Lost: nothing") + "\n",
            None => format!("Lost: {}\n", self.shortfall.instead_of_losses()),
            Some(events) => format!(
                "{}; not read back yet: {} events (`syscollect info` reads them)\n",
                style.good("Lost while recording: nothing"),
                grouped(events)
            ),
        }
    }

    fn something(&self, lost: u64, events: u64, style: Style) -> String {
        let heading = format!("*** LOST {} ***", self.heading(lost, events));
        let mut text = style.alarm(&heading) + "\n";
        let mut losses: Vec<_> = self.against_the_users_will().collect();
        losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
        for loss in losses.iter().take(LOSS_LINES) {
            text.push_str(&(style.alarm(&format!("    {}", loss_text(loss))) + "\n"));
        }
        if let Some(more) = losses.len().checked_sub(LOSS_LINES).filter(|more| *more > 0) {
            let _ = writeln!(text, "    and {more} more: see syscollect info");
        }
        for line in self.shortfall.beside_losses() {
            let _ = writeln!(text, "    {line}");
        }
        if let Some(events) = self.unread {
            let _ = writeln!(
                text,
                "    not read back yet: {} events (`syscollect info` reads them)",
                grouped(events)
            );
        }
        text
    }
}

fn is_lacking(loss: &Loss) -> bool {
    matches!(loss.cause, LossCause::Missing | LossCause::NotWritten)
}

/// Whether records of a lane tell of events rather than being some.
fn is_beside_events(origin: &LossOrigin) -> bool {
    matches!(origin, LossOrigin::Lane(kind) if !kind.traits().events)
}

/// A process may be renamed so often (`bpf/src/tasks.bpf.c`). What else is beyond a share of the
/// records of tasks is a user's.
fn is_rename_beyond_share(loss: &Loss) -> bool {
    loss.origin == LossOrigin::Lane(LaneKind::Task)
        && loss.cause == LossCause::BeyondShare
        && loss.user.is_none()
}

/// `12,345 sched records of CPU 3: lane-full`, `42 zones records of user 1001's programs:
/// lane-full`, and of Windows traces `7 events: lane-full`.
pub(crate) fn loss_text(loss: &Loss) -> String {
    let Loss { origin, cpu, cause, user, count, .. } = loss;
    let cpu = cpu.map_or(String::new(), |cpu| format!(" of {}", cpu.label()));
    let user = user.map_or(String::new(), |user| format!(" of user {user}'s programs"));
    let (name, count) = (origin.name(), *count);
    let what = match origin {
        // These say what they count.
        LossOrigin::Events | LossOrigin::Buffers if count == 1 => {
            name.trim_end_matches('s').to_owned()
        }
        LossOrigin::Events | LossOrigin::Buffers => name.to_owned(),
        LossOrigin::Lane(_) if is_rename_beyond_share(loss) => "renames".to_owned(),
        LossOrigin::Lane(_) | LossOrigin::Unknown(_) => format!("{name} records"),
    };
    format!("{} {what}{cpu}{user}: {}", grouped(count), cause.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Terminal;
    use syscollect_records::RecordKind;
    use syscollect_store::LostRecord;

    fn loss(lane: &str, cause: LossCause, count: u64) -> Loss {
        Loss {
            origin: LossOrigin::from_name(lane),
            cpu: Some(CpuId::new(1)),
            cause,
            user: None,
            count,
            between: None,
        }
    }

    fn counted(record: LostRecord, cause: LossCause, count: u64) -> LaneLoss {
        LaneLoss { origin: LaneKind::Sched.into(), cpu: Some(1), record, cause, user: None, count }
    }

    fn lost(losses: Vec<Loss>) -> Lost {
        Lost { losses, ..Lost::default() }
    }

    fn text(lost: &Lost) -> String {
        lost.text(99_000, Terminal::hidden().style())
    }

    #[test]
    fn a_loss_cannot_be_missed_and_the_largest_comes_first() {
        let both =
            vec![loss("sched", LossCause::LaneFull, 10), loss("sched", LossCause::BufferFull, 990)];
        let text = text(&lost(both));
        let at =
            |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} is not in {text}"));
        assert!(
            at("*** LOST 1,000 of 100,000 events (1.00 %) ***")
                < at("990 sched records of CPU 1: buffer-full")
        );
        assert!(at("buffer-full") < at("lane-full"));
        assert!(!text.contains("Lost: nothing"));
    }

    #[test]
    fn what_a_program_wrote_too_much_is_no_loss_of_events() {
        let beyond = Loss { user: Some(1001), ..loss("zones", LossCause::BeyondShare, 4_000_000) };
        let text_of = |losses: Vec<Loss>| text(&lost(losses)).lines().next().map(str::to_owned);
        assert_eq!(
            text_of(vec![beyond.clone(), loss("zones", LossCause::Undecodable, 5)]).as_deref(),
            Some(
                "*** LOST 4,000,005 items of programs that mean nothing or are beyond their \
                 shares, and no other event ***"
            )
        );
        assert_eq!(
            text_of(vec![beyond, loss("zones", LossCause::LaneFull, 1_000)]).as_deref(),
            Some(
                "*** LOST 1,000 of 100,000 events (1.00 %) and 4,000,000 items of programs that \
                 mean nothing or are beyond their shares ***"
            )
        );
    }

    #[test]
    fn a_trace_that_lacks_buffers_says_so_and_not_that_it_lost_events() {
        let missing = Loss { cpu: None, ..loss("buffers", LossCause::Missing, 37) };
        let lacking = text(&lost(vec![missing.clone()]));
        assert_eq!(lacking, "*** LOST 37 buffers ***\n    37 buffers: missing\n");
        let both = lost(vec![missing, loss("events", LossCause::LaneFull, 2)]);
        assert!(
            text(&both).starts_with("*** LOST 2 events and 37 buffers ***\n"),
            "{}",
            text(&both)
        );
        assert!(
            both.lacks_parts() && !lost(vec![loss("events", LossCause::LaneFull, 2)]).lacks_parts()
        );
    }

    #[test]
    fn records_of_mappings_are_no_events() {
        let mappings = loss("mappings", LossCause::BeyondShare, 1_776_527);
        let alone = text(&lost(vec![mappings.clone()]));
        assert!(
            alone.starts_with("*** LOST 1,776,527 mappings records, and no event ***\n"),
            "{alone}"
        );
        let both = text(&lost(vec![mappings, loss("sched", LossCause::LaneFull, 1_000)]));
        let heading =
            "*** LOST 1,000 of 100,000 events (1.00 %) and 1,776,527 mappings records ***";
        assert!(both.starts_with(heading), "{both}");
    }

    #[test]
    fn renames_without_end_are_told_apart_from_events_of_others() {
        let renames = loss("tasks", LossCause::BeyondShare, 4_000_000);
        let alone = text(&lost(vec![renames.clone()]));
        assert_eq!(
            alone,
            "*** LOST 4,000,000 renames beyond their processes' shares, and no other event \
             ***\n    4,000,000 renames of CPU 1: beyond-share\n"
        );
        let both = text(&lost(vec![renames, loss("tasks", LossCause::LaneFull, 1_000)]));
        let heading = "*** LOST 1,000 of 100,000 events (1.00 %) and 4,000,000 renames beyond \
                       their processes' shares ***";
        assert!(both.starts_with(heading), "{both}");
    }

    #[test]
    fn tasks_beyond_a_users_share_are_events_of_that_user() {
        let beyond = Loss { user: Some(1001), ..loss("tasks", LossCause::BeyondShare, 1_000) };
        assert_eq!(
            text(&lost(vec![beyond])),
            "*** LOST 1,000 of 100,000 events (1.00 %) ***\n    \
             1,000 tasks records of CPU 1 of user 1001's programs: beyond-share\n"
        );
    }

    #[test]
    fn gaps_that_no_loss_tells_of_are_said_and_no_reason_to_fail() {
        let shortfall = Shortfall { gaps: 13, stacks: 0 };
        let some = Lost { shortfall, ..Lost::default() };
        let sentence = "13 times a CPU ran something else than its events say: some are missing\n";
        assert_eq!(text(&some), format!("Lost: nothing that was counted; {sentence}"));
        assert!(!some.is_lossy());
        let mut both = lost(vec![loss("sched", LossCause::LaneFull, 10)]);
        both.add(some);
        assert!(text(&both).ends_with(&format!("lane-full\n    {sentence}")), "{}", text(&both));
    }

    #[test]
    fn stacks_that_are_lost_are_said_and_a_reason_to_fail() {
        let shortfall = Shortfall { gaps: 0, stacks: 1_200 };
        let stacks = Lost { shortfall, ..Lost::default() };
        let sentence = "the stacks of 1,200 events or parts of them\n";
        assert_eq!(text(&stacks), format!("Lost: no event, but {sentence}"));
        assert!(stacks.is_lossy());
        let mut both = lost(vec![loss("sched", LossCause::LaneFull, 10)]);
        both.add(stacks);
        assert!(text(&both).ends_with(&format!("lane-full\n    {sentence}")), "{}", text(&both));
    }

    #[test]
    fn losses_of_a_users_programs_say_so() {
        let theirs = Loss { user: Some(1001), ..loss("zones", LossCause::LaneFull, 7) };
        let text = text(&lost(vec![theirs]));
        assert!(
            text.contains("7 zones records of CPU 1 of user 1001's programs: lane-full"),
            "{text}"
        );
    }

    #[test]
    fn many_lanes_of_losses_stay_short() {
        let text =
            text(&lost((1..=64).map(|count| loss("sched", LossCause::LaneFull, count)).collect()));
        assert!(text.lines().count() < 16, "{text}");
        assert!(text.contains("and 56 more: see syscollect info"), "{text}");
    }

    #[test]
    fn what_overwriting_dropped_is_told_and_is_no_loss() {
        let overwritten = lost(vec![loss("sched", LossCause::Overwritten, 5_000)]);
        assert_eq!(overwritten.records(), 0);
        assert_eq!(text(&overwritten), "Older events, not kept as asked: 5,000\nLost: nothing\n");
    }

    #[test]
    fn nothing_is_said_of_what_nobody_has_read() {
        let unread = Lost { unread: Some(12_345), ..Lost::default() };
        let text = text(&unread);
        assert!(
            text.contains("not read back yet: 12,345 events") && !text.contains("Lost: nothing"),
            "{text}"
        );
    }

    #[test]
    fn what_the_recorder_counted_and_could_not_write_counts_and_what_it_wrote_does_not_count_twice()
    {
        let read = lost(vec![loss("sched", LossCause::LaneFull, 12)]);
        let counted = [
            counted(LostRecord::Kind(RecordKind::Switch), LossCause::LaneFull, 5),
            counted(LostRecord::Kind(RecordKind::Waking), LossCause::LaneFull, 5),
            counted(LostRecord::Any, LossCause::DiskFull, 30),
        ];
        assert_eq!(read.at_least(&counted).records(), 42);
    }
}
