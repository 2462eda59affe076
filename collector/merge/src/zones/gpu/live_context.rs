//! The zones of one context in a recording that goes on.
//!
//! Nothing begins before it is submitted. So of what ended before the earliest submission that has
//! no times yet, all is known that lies around it or within it: it gets its row and is told, in the
//! order of ends that a file has. Who waits in vain holds back the others only for a while; what is
//! told of such a zone later has a row of its own.

use super::live_clock::LiveGpuClock;
use super::placed::PlacedGpuZone;
use super::rows::{MOST_ROWS, NestedRow, NestedRows};
use super::written::{SubmittedZone, ToldTimes};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use syscollect_model::ThreadId;

/// The row of zones that come too late for another.
const LATE_ROW: u16 = MOST_ROWS as u16;
/// Zones without times of which nobody believes that any come. Where there are more, it is said of
/// the earliest that it has none.
const MOST_OVERDUE: usize = 1 << 14;

/// How long zones without times are waited for, ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuPatience {
    /// Until then they hold back what lies behind.
    pub(super) holds_back: u64,
    /// Then it is said that they have none.
    pub(super) waits: u64,
}

/// A zone that has no times yet, or of which the submission has not ended.
#[derive(Debug)]
pub(super) struct PendingGpuZone {
    pub(super) zone: SubmittedZone,
    pub(super) submission_ended: Option<u64>,
    /// They were told before its submission ended.
    pub(super) times: Option<ToldTimes>,
    pub(super) thread: ThreadId,
}

/// Where a zone stands in the order of submissions.
#[derive(Clone, Copy, Debug)]
struct Submission {
    ticks: u64,
    number: u32,
}

/// The order in which zones get rows: what lies around others comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BeginOrder {
    began: u64,
    ended: Reverse<u64>,
    submitted: u64,
    number: u32,
    /// Numbers may come again.
    serial: u64,
}

/// The order in which they are told: what lies within others comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EndOrder {
    ended: u64,
    depth: Reverse<u16>,
    serial: u64,
}

/// All of them that were not told.
#[derive(Debug)]
pub(super) struct LiveGpuContext {
    pub(super) clock: LiveGpuClock,
    pub(super) pending: FxHashMap<u32, PendingGpuZone>,
    /// Those of them that hold back others, and some that have their times by now.
    submissions: VecDeque<Submission>,
    /// Those that do so no more.
    overdue: VecDeque<Submission>,
    /// They have times and no row.
    timed: BTreeMap<BeginOrder, PlacedGpuZone>,
    rows: NestedRows,
    /// Where the last began that has a row.
    last_began: u64,
    /// The last of the first row: what lies in it is told with it.
    outermost: [u64; 2],
    late_ended: u64,
    placed: BTreeMap<EndOrder, PlacedGpuZone>,
    serial: u64,
}

impl LiveGpuContext {
    pub(super) fn new(clock: LiveGpuClock) -> Self {
        let (pending, submissions, overdue, timed, rows, placed) = Default::default();
        let (last_began, outermost, late_ended, serial) = Default::default();
        Self {
            clock,
            pending,
            submissions,
            overdue,
            timed,
            rows,
            last_began,
            outermost,
            late_ended,
            placed,
            serial,
        }
    }

    /// A zone is submitted.
    pub(super) fn submit(&mut self, zone: PendingGpuZone) {
        let SubmittedZone { ticks, number, .. } = zone.zone;
        self.submissions.push_back(Submission { ticks, number });
        self.pending.insert(number, zone);
        // One that waits holds the list, and those behind it come and go.
        if self.submissions.len() > 2 * self.pending.len() + 64 {
            let pending = &self.pending;
            self.submissions.retain(|submission| is_pending(pending, *submission));
        }
    }

    /// A zone has its times, or it is known that it has none.
    pub(super) fn timed(&mut self, zone: PlacedGpuZone) {
        self.serial += 1;
        let order = BeginOrder {
            began: zone.began.unwrap_or(zone.ticks),
            ended: Reverse(zone.ticks),
            submitted: zone.submitted,
            number: zone.number,
            serial: self.serial,
        };
        self.timed.insert(order, zone);
    }

    /// Zones of which nothing will be known, the earliest first.
    pub(super) fn give_up(&mut self, now: u64, patience: GpuPatience) -> Vec<PendingGpuZone> {
        let mut given_up = Vec::new();
        while let Some(first) = self.overdue.front().copied() {
            let is_over = now.saturating_sub(first.ticks) >= patience.waits;
            if !is_over && self.overdue.len() <= MOST_OVERDUE {
                break;
            }
            self.overdue.pop_front();
            if is_pending(&self.pending, first) {
                given_up.extend(self.pending.remove(&first.number));
            }
        }
        given_up
    }

    /// Zones that have times though nobody said that their submission ended: those that hold back
    /// others no more, or all.
    pub(super) fn take_unended(&mut self, all: bool) -> Vec<PendingGpuZone> {
        let Self { pending, submissions, overdue, .. } = self;
        let others = submissions.iter().filter(|_| all);
        let is_unended = |submission: &&Submission| {
            is_pending(pending, **submission) && pending[&submission.number].times.is_some()
        };
        let unended = overdue.iter().chain(others).filter(is_unended);
        let unended: Vec<u32> = unended.map(|submission| submission.number).collect();
        unended.iter().filter_map(|number| pending.remove(number)).collect()
    }

    /// The earliest eighth of what has no times goes, or all of it.
    pub(super) fn take_earliest(&mut self, all: bool) -> Vec<PendingGpuZone> {
        let count = if all { self.pending.len() } else { self.pending.len().div_ceil(8) };
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count
            && let Some(first) = self.overdue.pop_front().or_else(|| self.submissions.pop_front())
        {
            if is_pending(&self.pending, first) {
                taken.extend(self.pending.remove(&first.number));
            }
        }
        taken
    }

    /// When the earliest that holds back others was submitted.
    pub(super) fn earliest(&self) -> Option<u64> {
        self.submissions.front().or(self.overdue.front()).map(|submission| submission.ticks)
    }

    /// Nothing is known of what begins from these ticks on.
    fn horizon(&mut self, now: u64, patience: GpuPatience) -> u64 {
        while let Some(first) = self.submissions.front().copied() {
            let waits = is_pending(&self.pending, first);
            if waits && now.saturating_sub(first.ticks) < patience.holds_back {
                return first.ticks;
            }
            self.submissions.pop_front();
            if waits {
                self.overdue.push_back(first);
            }
        }
        now
    }

    /// Gives rows to what may have them now, and hands out what may be told.
    pub(super) fn advance(
        &mut self,
        now: u64,
        patience: GpuPatience,
        told: &mut Vec<PlacedGpuZone>,
    ) {
        let horizon = self.horizon(now, patience);
        self.tell_until(horizon, told);
    }

    /// The same of all that has times, for nothing more comes.
    pub(super) fn finish(&mut self, told: &mut Vec<PlacedGpuZone>) {
        self.tell_until(u64::MAX, told);
    }

    fn tell_until(&mut self, horizon: u64, told: &mut Vec<PlacedGpuZone>) {
        while let Some(first) = self.timed.first_entry()
            && first.key().began < horizon
        {
            let zone = first.remove();
            self.place(zone);
        }
        let until = if self.outermost[1] > horizon { self.outermost[0] } else { horizon };
        while let Some(first) = self.placed.first_entry()
            && first.key().ended <= until
        {
            told.push(first.remove());
        }
    }

    fn place(&mut self, mut zone: PlacedGpuZone) {
        match zone.began {
            // It is no more than a moment, whatever lies around it.
            None => {}
            Some(began) if began < self.last_began => {
                let began = began.max(self.late_ended);
                zone.ticks = zone.ticks.max(began);
                (zone.began, zone.row, self.late_ended) = (Some(began), LATE_ROW, zone.ticks);
            }
            Some(began) => {
                let NestedRow { row, depth, span } = self.rows.place([began, zone.ticks]);
                self.last_began = began;
                (zone.began, zone.ticks) = (Some(span[0]), span[1]);
                zone.row = u16::try_from(row).unwrap_or(u16::MAX);
                zone.depth = u16::try_from(depth).unwrap_or(u16::MAX);
                if row == 0 {
                    self.outermost = span;
                }
            }
        }
        self.serial += 1;
        let order = EndOrder { ended: zone.ticks, depth: Reverse(zone.depth), serial: self.serial };
        self.placed.insert(order, zone);
    }

    /// Nobody wants to know what has times: how it is handed back.
    pub(super) fn forget_timed(&mut self) -> Vec<PlacedGpuZone> {
        self.rows = NestedRows::default();
        (self.outermost, self.late_ended) = ([0; 2], 0);
        let timed = std::mem::take(&mut self.timed).into_values();
        timed.chain(std::mem::take(&mut self.placed).into_values()).collect()
    }
}

fn is_pending(pending: &FxHashMap<u32, PendingGpuZone>, submission: Submission) -> bool {
    let zone = pending.get(&submission.number);
    zone.is_some_and(|pending| pending.zone.ticks == submission.ticks)
}
