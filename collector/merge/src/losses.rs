//! Losses, each counted once although several places tell of them.
//!
//! What the recorder counted (`Definition::Losses`) is exact, but ends where the
//! recorder was killed. Records in the lanes say that something was lost right
//! before them; chunks that are missing show as jumps of the lane's numbers. So
//! per lane:
//!
//! - lost before the collector: what was declared, or, if that is more, what the
//!   lane's own records tell (the capture was cut off before the last count);
//! - lost between collector and file: what was declared;
//! - damaged: what is missing beyond that, and chunks that do not verify.

use crate::chunk_queue::Decode;
use std::collections::{BTreeMap, BTreeSet};
use syscollect_model::{
    CpuId, Event, Lane, LaneIndex, LaneKind, Loss, LossCause, LossOrigin, MachineId, Retention,
    Time,
};
use syscollect_store::{CaptureReader, Damage, LaneLoss};

type Key = (LossOrigin, Option<u32>);

/// Losses of one lane.
#[derive(Clone, Debug, Default)]
struct LaneLosses {
    declared: BTreeMap<LossCause, u64>,
    /// How many of those are of programs of a user.
    of_users: BTreeMap<(LossCause, u32), u64>,
    /// How many of what was read and could not be told are.
    told_of_users: BTreeMap<(LossCause, u32), u64>,
    /// Reported by records of the lane: lost before the collector.
    reported: u64,
    /// Missing between the chunks that have headers.
    missing: u64,
    /// In chunks that have headers but do not verify.
    unreadable: u64,
    undecodable: u64,
    /// Read, and not kept in memory.
    beyond_share: u64,
}

/// All that is known of losses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    /// Of whose recording.
    machine: MachineId,
    lanes: BTreeMap<Key, LaneLosses>,
    /// What was declared and explains the gaps to come, by lane.
    unexplained: BTreeMap<Lane, GapCauses>,
    /// Lanes whose next gap is what was left out of what is played, and is in the recording.
    left_out: BTreeSet<Lane>,
    /// The recorder came to its end, so that what it declared is all.
    complete: bool,
}

/// Causes that act between the collector and the file: whole chunks.
fn drops_chunks(cause: LossCause) -> bool {
    matches!(
        cause,
        LossCause::BufferFull | LossCause::Overwritten | LossCause::DiskFull | LossCause::Damaged
    )
}

/// How losses name a lane: those that are of no CPU are one.
fn lane_key(lane: Lane) -> Key {
    (lane.kind.into(), lane.cpu().map(|cpu| cpu.number))
}

impl Losses {
    /// An event that tells of a loss.
    pub(crate) fn event(
        &self,
        lane: Lane,
        cause: LossCause,
        count: u64,
        between: Option<(Time, Time)>,
    ) -> Event {
        let lane = Lane { machine: self.machine, ..lane };
        Event::Loss(Loss::of_lane(lane, cause, count, between))
    }

    /// What the recorder declared and what the file's headers miss.
    pub(crate) fn new(
        machine: MachineId,
        reader: &CaptureReader,
        declared: &[LaneLoss],
        complete: bool,
    ) -> Self {
        let mut losses = Self { machine, complete, ..Self::default() };
        losses.declare(declared);
        for damage in reader.damage() {
            if let Damage::Gap { lane, records, chunks, .. } = damage {
                let entry = losses.lane(*lane);
                let missing = missing_records(lane.kind, *chunks, *records);
                entry.missing = entry.missing.saturating_add(missing);
            }
        }
        losses
    }

    /// What the recorder has declared in all, in place of what it had before.
    pub(crate) fn declare(&mut self, declared: &[LaneLoss]) {
        for lane in self.lanes.values_mut() {
            lane.declared.clear();
            lane.of_users.clear();
        }
        for loss in declared.iter().filter(|loss| loss.count > 0) {
            let lane = self.lanes.entry((loss.origin.clone(), cpu_of(loss))).or_default();
            let count = lane.declared.entry(loss.cause).or_default();
            *count = count.saturating_add(loss.count);
            if let Some(user) = loss.user {
                let count = lane.of_users.entry((loss.cause, user)).or_default();
                *count = count.saturating_add(loss.count);
            }
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut LaneLosses {
        self.lanes.entry(lane_key(lane)).or_default()
    }

    /// What of a lane that was decoded to its end could not be.
    pub(crate) fn not_decoded(&mut self, cursor: &dyn Decode) {
        self.unreadable(cursor.lane(), cursor.queue().unreadable());
        self.undecodable(cursor.lane(), cursor.undecodable());
    }

    /// Records of chunks that do not verify.
    pub(crate) fn unreadable(&mut self, lane: Lane, count: u64) {
        let entry = self.lane(lane);
        entry.unreadable = entry.unreadable.saturating_add(count);
    }

    /// Records whose meaning is not known here.
    pub(crate) fn undecodable(&mut self, lane: Lane, count: u64) {
        let entry = self.lane(lane);
        entry.undecodable = entry.undecodable.saturating_add(count);
    }

    /// Records that are there, of a process that has more than its share of what can be kept.
    pub(crate) fn beyond_share(&mut self, lane: Lane, count: u64) {
        let entry = self.lane(lane);
        entry.beyond_share = entry.beyond_share.saturating_add(count);
    }

    /// Items that a program of this user wrote and that are nothing, or more than its share.
    pub(crate) fn of_program(
        &mut self,
        lane: Lane,
        user: Option<u32>,
        cause: LossCause,
        count: u64,
    ) {
        match cause {
            LossCause::BeyondShare => self.beyond_share(lane, count),
            _ => self.undecodable(lane, count),
        }
        if let Some(user) = user.filter(|_| count > 0) {
            let theirs = self.lane(lane).told_of_users.entry((cause, user)).or_default();
            *theirs = theirs.saturating_add(count);
        }
    }

    /// Records that the lane's own records say were lost before them.
    pub(crate) fn reported(&mut self, lane: Lane, count: u64) {
        let entry = self.lane(lane);
        entry.reported = entry.reported.saturating_add(count);
    }

    /// The recorder came to its end, so that what it declared is all.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    fn totals_of(
        &self,
        (origin, _): &Key,
        lane: &LaneLosses,
    ) -> impl Iterator<Item = (LossCause, u64)> + use<> {
        // A program may tell of what it lost before the recording began.
        let declared = self.complete && *origin == LaneKind::Zone.into();
        lane.totals(if declared { 0 } else { lane.reported })
    }

    /// Whether records of any lane of this kind are missing.
    pub(crate) fn any_of(&self, kind: LaneKind) -> bool {
        self.lanes
            .iter()
            .any(|(key, lane)| key.0 == kind.into() && self.totals_of(key, lane).next().is_some())
    }

    /// Whether a record is missing that may have told what is mapped where.
    pub(crate) fn of_mappings(&self) -> bool {
        LaneKind::ALL.into_iter().any(|kind| kind.traits().tells_mappings && self.any_of(kind))
    }

    /// Why records of the lane were lost before the collector: the cause that
    /// was declared most often.
    pub(crate) fn cause_before_collector(&self, lane: Lane) -> LossCause {
        let declared = self.lanes.get(&lane_key(lane)).map(|lane| &lane.declared);
        let causes = declared.into_iter().flatten().filter(|(cause, _)| !drops_chunks(**cause));
        causes.max_by_key(|(_, count)| **count).map_or(LossCause::LaneFull, |(cause, _)| *cause)
    }

    /// Who plays what is recorded left out chunks of the lane: too much waited.
    pub(crate) fn left_out(&mut self, lane: Lane) {
        self.left_out.insert(lane);
    }

    /// The parts of a gap between the lane's chunks, each with its cause.
    pub(crate) fn explain_gap(&mut self, lane: Lane, count: u64) -> Vec<(LossCause, u64)> {
        if count == 0 {
            return Vec::new();
        }
        if self.left_out.remove(&lane) {
            let is_of_program = matches!(lane.kind, LaneKind::Zone | LaneKind::ZoneLog);
            let cause = if is_of_program { LossCause::BeyondShare } else { LossCause::BufferFull };
            return vec![(cause, count)];
        }
        let Self { lanes, unexplained, .. } = self;
        let causes = unexplained.entry(lane).or_insert_with(|| {
            let declared = lanes.get(&lane_key(lane)).map(|lane| &lane.declared);
            let causes = declared.into_iter().flatten().filter(|(cause, _)| drops_chunks(**cause));
            GapCauses { declared: causes.map(|(cause, count)| (*cause, *count)).collect() }
        });
        causes.divide(count)
    }

    /// The losses by lane, cause and user, without those of which there are none.
    pub(crate) fn totals(&self) -> Vec<Loss> {
        let mut totals = Vec::new();
        for (key @ (origin, cpu), lane) in &self.lanes {
            for (cause, count) in self.totals_of(key, lane) {
                totals.extend(lane.by_user(cause, count).map(|(user, count)| Loss {
                    origin: origin.clone(),
                    cpu: cpu.map(|number| CpuId { machine: self.machine, number }),
                    cause,
                    user,
                    count,
                    between: None,
                }));
            }
        }
        totals
    }
}

/// The CPU that a declared loss is of. Recorders of before told the index of any lane as one.
fn cpu_of(loss: &LaneLoss) -> Option<u32> {
    let LossOrigin::Lane(kind) = loss.origin else { return loss.cpu };
    let is_cpu = kind.traits().index == LaneIndex::Cpu;
    loss.cpu.filter(|cpu| is_cpu && *cpu != u32::from(Lane::SLEEPERS))
}

impl LaneLosses {
    fn totals(&self, reported: u64) -> impl Iterator<Item = (LossCause, u64)> + use<> {
        let mut by_cause = self.declared.clone();
        let missing = self.missing.saturating_sub(self.declared_count(true));
        for (cause, count) in [
            (LossCause::LaneFull, reported.saturating_sub(self.declared_count(false))),
            (LossCause::Damaged, missing.saturating_add(self.unreadable)),
            (LossCause::Undecodable, self.undecodable),
            (LossCause::BeyondShare, self.beyond_share),
        ] {
            let entry = by_cause.entry(cause).or_default();
            *entry = entry.saturating_add(count);
        }
        by_cause.into_iter().filter(|(_, count)| *count > 0)
    }

    fn declared_count(&self, chunks: bool) -> u64 {
        let counts = self.declared.iter().filter(|(cause, _)| drops_chunks(**cause) == chunks);
        counts.fold(0u64, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// A loss by whose programs wrote what was lost; what is of nobody that is known comes last.
    fn by_user(
        &self,
        cause: LossCause,
        count: u64,
    ) -> impl Iterator<Item = (Option<u32>, u64)> + use<> {
        let mut rows = Vec::new();
        let mut left = count;
        let mut of_users = BTreeMap::<u32, u64>::new();
        for known in [&self.of_users, &self.told_of_users] {
            for ((_, user), theirs) in known.range((cause, 0)..=(cause, u32::MAX)) {
                let all = of_users.entry(*user).or_default();
                *all = all.saturating_add(*theirs);
            }
        }
        for (user, theirs) in of_users {
            let theirs = left.min(theirs);
            rows.push((Some(user), theirs));
            left -= theirs;
        }
        rows.push((None, left));
        rows.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// How many records are missing where so many chunks are, with so many records as far as these are
/// counted.
fn missing_records(kind: LaneKind, chunks: u64, records: Option<u64>) -> u64 {
    // What waits in memory for the recording's end (folded, or stacks while overwriting) is put
    // together to fewer chunks than came.
    let is_joined = kind.traits().retention == Retention::Folded || kind.is_stack();
    records.unwrap_or(if is_joined { 0 } else { chunks })
}

/// Divides the gaps of a lane among the causes, in the order they come.
#[derive(Clone, Debug, Default)]
struct GapCauses {
    declared: Vec<(LossCause, u64)>,
}

impl GapCauses {
    /// The parts of a gap of `count` records: what was declared, then damage.
    fn divide(&mut self, mut count: u64) -> Vec<(LossCause, u64)> {
        let mut parts = Vec::new();
        for (cause, left) in &mut self.declared {
            let part = count.min(*left);
            if part > 0 {
                parts.push((*cause, part));
            }
            (*left, count) = (*left - part, count - part);
        }
        if count > 0 {
            parts.push((LossCause::Damaged, count));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_store::LostRecord;

    const LANE: Lane = Lane::new(LaneKind::Sched, 1);

    fn lane(declared: &[(LossCause, u64)]) -> Losses {
        let mut losses = Losses::default();
        losses.lane(LANE).declared = declared.iter().copied().collect();
        losses
    }

    fn totals(losses: &Losses) -> Vec<(LossCause, u64)> {
        losses.totals().into_iter().map(|loss| (loss.cause, loss.count)).collect()
    }

    #[test]
    fn what_programs_wrote_wrong_or_too_much_is_told_by_their_users() {
        let mut losses = Losses::default();
        let zones = Lane::new(LaneKind::Zone, 3);
        losses.of_program(zones, Some(1000), LossCause::BeyondShare, 7);
        losses.of_program(zones, Some(1001), LossCause::Undecodable, 2);
        losses.of_program(zones, None, LossCause::Undecodable, 4);
        losses.undecodable(zones, 1);
        // What the recorder declares anew takes none of that away.
        losses.declare(&[]);
        let totals: Vec<_> =
            losses.totals().iter().map(|loss| (loss.cause, loss.user, loss.count)).collect();
        let expected = [
            (LossCause::Undecodable, Some(1001), 2),
            (LossCause::Undecodable, None, 5),
            (LossCause::BeyondShare, Some(1000), 7),
        ];
        assert_eq!(totals, expected);
        assert!(losses.totals().iter().all(Loss::is_of_own_program));
    }

    #[test]
    fn what_was_declared_is_not_counted_again_where_it_shows() {
        let mut losses = lane(&[(LossCause::LaneFull, 10), (LossCause::BufferFull, 100)]);
        losses.reported(LANE, 8);
        losses.lane(LANE).missing = 100;
        assert_eq!(totals(&losses), [(LossCause::LaneFull, 10), (LossCause::BufferFull, 100)]);
    }

    #[test]
    fn what_is_lost_of_a_users_programs_is_theirs() {
        let mut losses = Losses::default();
        // What was declared last counts, and nothing of what came before.
        losses.declare(&[of_user(Some(7), 1_000)]);
        losses.declare(&[of_user(Some(1001), 40), of_user(None, 2), of_user(Some(1001), 2)]);
        let rows: Vec<_> = losses.totals().iter().map(|loss| (loss.user, loss.count)).collect();
        assert_eq!(rows, [(Some(1001), 42), (None, 2)]);
    }

    #[test]
    fn what_is_lost_of_sleepers_stacks_is_of_no_cpu_and_explains_their_gap() {
        for cpu in [None, Some(u32::from(Lane::SLEEPERS))] {
            let mut losses = Losses::default();
            let origin = LaneKind::SchedStack.into();
            let cause = LossCause::Overwritten;
            losses.declare(&[LaneLoss { origin, cpu, cause, ..of_user(None, 19) }]);
            losses.lane(Lane::new(LaneKind::SchedStack, Lane::SLEEPERS)).missing = 19;
            let rows: Vec<_> =
                losses.totals().into_iter().map(|loss| (loss.cpu, loss.cause)).collect();
            assert_eq!(rows, [(None, LossCause::Overwritten)]);
        }
    }

    fn of_user(user: Option<u32>, count: u64) -> LaneLoss {
        LaneLoss {
            origin: LaneKind::Zone.into(),
            cpu: None,
            record: LostRecord::Any,
            cause: LossCause::LaneFull,
            user,
            count,
        }
    }

    #[test]
    fn a_recorder_that_was_killed_declared_too_little() {
        let mut losses = lane(&[(LossCause::Nested, 10)]);
        losses.reported(LANE, 25);
        assert_eq!(totals(&losses), [(LossCause::LaneFull, 15), (LossCause::Nested, 10)]);
    }

    #[test]
    fn what_is_missing_beyond_the_declared_is_damage() {
        let mut losses = lane(&[(LossCause::BufferFull, 100)]);
        losses.lane(LANE).missing = 140;
        losses.unreadable(LANE, 5);
        assert_eq!(totals(&losses), [(LossCause::BufferFull, 100), (LossCause::Damaged, 45)]);
    }

    #[test]
    fn chunks_that_were_put_together_lack_nothing() {
        for kind in [LaneKind::Task, LaneKind::SchedStack, LaneKind::SampleStack] {
            assert_eq!(missing_records(kind, 5, None), 0, "{}", kind.name());
            assert_eq!(missing_records(kind, 5, Some(7)), 7, "{}", kind.name());
        }
        assert_eq!(missing_records(LaneKind::Definition, 5, None), 5);
    }

    #[test]
    fn a_gap_is_explained_until_the_declared_is_used_up() {
        let mut losses = lane(&[(LossCause::LaneFull, 7), (LossCause::BufferFull, 30)]);
        assert_eq!(losses.explain_gap(LANE, 20), [(LossCause::BufferFull, 20)]);
        let parts = [(LossCause::BufferFull, 10), (LossCause::Damaged, 15)];
        assert_eq!(losses.explain_gap(LANE, 25), parts);
        assert_eq!(losses.explain_gap(LANE, 0), []);
    }
}
