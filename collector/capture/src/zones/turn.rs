//! A turn of the collector: whose rings are looked at, in which order, and what that may cost.
//!
//! The collector thread goes before everything else on its CPU, so a turn has
//! a bound, whatever programs have put into their rings; what is left over
//! waits for the next turn, which goes on where this one stopped. Users are
//! served in turn, and of each user the programs in turn: who brings many
//! programs waits longer for each of them, and not others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::stage::Flush;

/// Rings that are looked at in a turn: two cache lines each, of which none may be at hand.
const LOOKS: usize = 4096;
/// Bytes that are copied in a turn: a millisecond's work, after which the lanes of the kernel are
/// seen to.
const BYTES: usize = 2 << 20;
/// Looks and bytes after which it is another program's turn.
const LOOKS_OF_A_VISIT: usize = 64;
const BYTES_OF_A_VISIT: usize = 256 << 10;
/// How long the last turn of a recording may take.
const LONGEST_LAST_TURN: Duration = Duration::from_secs(1);
/// A ring that was empty is looked at no sooner than after so long: a thread needs twice as long to
/// fill it.
const IDLE: Duration = Duration::from_millis(5);
/// A program without rings, of which there may be thousands: nothing but its log can have anything
/// new.
const IDLE_PROGRAM: Duration = Duration::from_millis(50);

/// What a turn may still cost.
pub(super) struct TurnBudget {
    /// When it began.
    pub(super) now: Instant,
    /// Whether everything is to be taken, and nothing stays waiting for company.
    pub(super) all: bool,
    /// How long what was taken may wait for company.
    pub(super) longest_wait: Duration,
    /// Whether the program that is visited has used up what it may have for now: its rings stay as
    /// they are.
    pub(super) is_held_back: bool,
    /// Bytes that a lane may hold back.
    pub(super) room: usize,
    looks: usize,
    bytes: usize,
    visit: (usize, usize),
}

impl TurnBudget {
    /// A turn that begins now.
    pub(super) fn new(flush: Flush) -> Self {
        Self {
            now: Instant::now(),
            all: flush.is_all(),
            longest_wait: flush.longest_wait(),
            is_held_back: false,
            room: usize::MAX,
            looks: LOOKS,
            bytes: BYTES,
            visit: (0, 0),
        }
    }

    /// A program's visit begins.
    fn begin_visit(&mut self) {
        self.visit = (LOOKS_OF_A_VISIT, BYTES_OF_A_VISIT);
        self.looks = self.looks.saturating_sub(1);
    }

    /// Counts a ring that was looked at, and the bytes that it held.
    pub(super) fn count_ring(&mut self, bytes: usize) {
        self.looks = self.looks.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.visit = (self.visit.0.saturating_sub(1), self.visit.1.saturating_sub(bytes));
    }

    /// Bytes that were copied in this turn.
    pub(super) fn copied(&self) -> usize {
        BYTES - self.bytes
    }

    /// Whether it is another program's turn.
    pub(super) fn is_visit_over(&self) -> bool {
        self.visit.0 == 0 || self.visit.1 == 0 || self.is_over()
    }

    /// Whether the turn has cost what it may.
    pub(super) fn is_over(&self) -> bool {
        match self.all {
            true => self.now.elapsed() >= LONGEST_LAST_TURN,
            false => self.looks == 0 || self.bytes == 0,
        }
    }

    /// Whether something that was found empty then is to be looked at.
    pub(super) fn is_time_for(&self, empty_at: Option<Instant>) -> bool {
        self.is_due(empty_at, IDLE)
    }

    fn is_due(&self, last: Option<Instant>, pause: Duration) -> bool {
        self.all || last.is_none_or(|at| self.now.duration_since(at) >= pause)
    }
}

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitOutcome {
    /// There are rings that were not looked at.
    Unfinished,
    /// All was looked at.
    Finished,
    /// It is full for now: nothing of it was looked at.
    HeldBack,
    /// There is nothing to look at.
    Idle,
}

/// The order in which programs are visited.
#[derive(Default)]
pub(super) struct VisitOrder {
    users: Vec<UserPrograms>,
    first: usize,
}

struct UserPrograms {
    user: u32,
    /// Clients to be visited in this turn.
    next: VecDeque<u32>,
    /// Those that were.
    visited: Vec<u32>,
    idle: Vec<u32>,
    idle_since: Option<Instant>,
}

impl VisitOrder {
    /// A program to be visited from now on.
    pub(super) fn add(&mut self, user: u32, client: u32) {
        match self.users.iter_mut().find(|known| known.user == user) {
            Some(known) => known.next.push_back(client),
            None => self.users.push(UserPrograms {
                user,
                next: [client].into(),
                visited: Vec::new(),
                idle: Vec::new(),
                idle_since: None,
            }),
        }
    }

    /// A program that was idle has something.
    pub(super) fn wake(&mut self, client: u32) {
        for user in &mut self.users {
            if let Some(at) = user.idle.iter().position(|idle| *idle == client) {
                user.next.push_back(user.idle.swap_remove(at));
            }
        }
    }

    /// Visits programs until all were visited or the turn is over. `visit` says `None` for one that
    /// is no more.
    pub(super) fn run(
        &mut self,
        turn: &mut TurnBudget,
        mut visit: impl FnMut(u32, &mut TurnBudget) -> Option<VisitOutcome>,
    ) {
        for user in &mut self.users {
            user.next.extend(user.visited.drain(..));
            if turn.is_due(user.idle_since, IDLE_PROGRAM) {
                user.next.extend(user.idle.drain(..));
                user.idle_since = Some(turn.now);
            }
        }
        self.first = self.first.wrapping_add(1);
        let (mut left, mut at) = (self.users.len(), self.first);
        while left > 0 && !turn.is_over() {
            let count = self.users.len();
            let user = &mut self.users[at % count];
            at = at.wrapping_add(1);
            let Some(client) = user.next.pop_front() else {
                left -= 1;
                continue;
            };
            left = count;
            turn.begin_visit();
            match visit(client, turn) {
                Some(VisitOutcome::Unfinished) => user.next.push_back(client),
                Some(VisitOutcome::Finished | VisitOutcome::HeldBack) => user.visited.push(client),
                Some(VisitOutcome::Idle) => user.idle.push(client),
                None => {}
            }
        }
        self.users.retain(|user| {
            !(user.next.is_empty() && user.visited.is_empty() && user.idle.is_empty())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_one_program_is_served_beside_one_with_a_hundred() {
        let mut order = VisitOrder::default();
        (0..100).for_each(|client| order.add(1001, client));
        order.add(1002, 500);
        let mut served = Vec::new();
        for _ in 0..10 {
            order.run(&mut TurnBudget::new(Flush::USUAL), |client, turn| {
                served.push(client);
                // Every ring is full.
                turn.count_ring(BYTES_OF_A_VISIT);
                Some(VisitOutcome::Finished)
            });
        }
        let of_the_one = served.iter().filter(|client| **client == 500).count();
        assert_eq!(of_the_one, 10, "in each turn");
        let mut others: Vec<u32> = served.into_iter().filter(|client| *client != 500).collect();
        assert_eq!(others.len(), 10 * (BYTES / BYTES_OF_A_VISIT - 1));
        others.dedup();
        assert_eq!(
            others,
            (0..70).collect::<Vec<u32>>(),
            "each turn goes on where the last one stopped"
        );
    }

    #[test]
    fn a_program_that_is_not_finished_is_visited_again_after_the_others() {
        let mut order = VisitOrder::default();
        (0..3).for_each(|client| order.add(7, client));
        let (mut served, mut again) = (Vec::new(), true);
        order.run(&mut TurnBudget::new(Flush::USUAL), |client, _| {
            served.push(client);
            let unfinished = client == 0 && std::mem::take(&mut again);
            Some(if unfinished { VisitOutcome::Unfinished } else { VisitOutcome::Finished })
        });
        assert_eq!(served, [0, 1, 2, 0]);
    }

    #[test]
    fn what_is_idle_is_seldom_visited_and_what_is_gone_never() {
        let mut order = VisitOrder::default();
        (0..3).for_each(|client| order.add(7, client));
        let mut visits = [0; 3];
        let mut turn = TurnBudget::new(Flush::USUAL);
        for _ in 0..50 {
            turn =
                TurnBudget { now: turn.now + IDLE_PROGRAM / 10, ..TurnBudget::new(Flush::USUAL) };
            order.run(&mut turn, |client, _| {
                visits[client as usize] += 1;
                [Some(VisitOutcome::Finished), Some(VisitOutcome::Idle), None][client as usize]
            });
        }
        assert_eq!((visits[0], visits[2]), (50, 1));
        assert!((5..=6).contains(&visits[1]), "{visits:?}");
    }
}
