//! Threads that wait for a CPU, or sleep, longer than they may: found while they still do.

use crate::cause::{Cause, NamePattern};
use crate::found::{FoundCause, Occurrence};
use crate::threads::Threads;
use crate::wait_table::{ThreadWait, WaitKind, WaitTable};
use std::time::Duration;
use syscollect_records::{RecordKind, SchedRecord, sched_flags, task_state};

/// Threads of which it is known how they wait; of more it is not looked at.
const MOST_THREADS: usize = 1 << 18;

/// How long after its beginning a recording may still tell who slept then.
const LISTED_WITHIN: Duration = Duration::from_secs(60);

/// Nobody knows which thread it is.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug)]
struct WaitRule {
    trigger: usize,
    who: Option<NamePattern>,
    of: fn(WaitKind) -> bool,
    how: &'static str,
    /// Ticks.
    longer: u64,
}

/// The waits of a machine's threads.
#[derive(Debug)]
pub(crate) struct Waits {
    rules: Vec<WaitRule>,
    waits: WaitTable,
    /// Who has each CPU, by its number; [`UNKNOWN`].
    current: Vec<u32>,
    /// How long a wait may be of which no rule has anything to say, by [`WaitKind`].
    shortest_of: [u64; 3],
    /// When one of those that wait now has waited too long at the earliest.
    next_look: u64,
    shortest: u64,
    /// Any wait may have ended in what is not seen.
    is_blind: bool,
    unfollowed: u64,
    /// Those that do not wait may be forgotten to make room, once until it is looked again.
    may_make_room: bool,
    /// It may still be told who slept when the recording began: whoever is in the table had an
    /// event, by which it is known better.
    is_listing: bool,
    /// How long that is; and until when, once it is known when it began.
    listed_within: u64,
    listed_until: Option<u64>,
}

impl Waits {
    /// Those that these causes are about; `None` where none is.
    pub(crate) fn new<'c>(
        causes: impl Iterator<Item = (usize, &'c Cause)>,
        ticks: impl Fn(Duration) -> u64,
    ) -> Option<Self> {
        let rules = causes.filter_map(|(trigger, cause)| {
            let (who, longer, how): (_, _, &'static str) = match cause {
                Cause::Waiting(who, longer) => (who, longer, "waits for a CPU"),
                Cause::Blocked(who, longer) => (who, longer, "is blocked"),
                Cause::Uninterruptible(who, longer) => (who, longer, "is blocked uninterruptibly"),
                _ => return None,
            };
            let of: fn(WaitKind) -> bool = match cause {
                Cause::Waiting(..) => |kind| kind == WaitKind::Runnable,
                Cause::Blocked(..) => |kind| kind != WaitKind::Runnable,
                _ => |kind| kind == WaitKind::Uninterruptible,
            };
            Some(WaitRule { trigger, who: who.clone(), of, how, longer: ticks(*longer) })
        });
        let rules: Vec<WaitRule> = rules.collect();
        let kinds = [WaitKind::Runnable, WaitKind::Interruptible, WaitKind::Uninterruptible];
        let shortest_of = kinds.map(|kind| {
            let rules = rules.iter().filter(|rule| (rule.of)(kind));
            rules.map(|rule| rule.longer).min().unwrap_or(u64::MAX)
        });
        let shortest = rules.iter().map(|rule| rule.longer).min()?;
        Some(Self {
            rules,
            waits: WaitTable::new(),
            current: Vec::new(),
            shortest_of,
            next_look: 0,
            shortest,
            is_blind: false,
            unfollowed: 0,
            may_make_room: true,
            is_listing: true,
            listed_within: ticks(LISTED_WITHIN),
            listed_until: None,
        })
    }

    /// Waits that were more than are followed at a time.
    pub(crate) fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// A chunk of a CPU's lane begins: who is current (`u32::MAX`: that is not known), and whether
    /// records are missing, which may have ended any wait.
    pub(crate) fn chunk(&mut self, cpu: u16, current: u32, is_missing: bool) {
        if is_missing {
            self.forget_waits();
        }
        self.set_current(cpu, current);
    }

    /// A thread was seen asleep at that time, in a state as proc_pid_stat(5) has it. Where no event
    /// has told of it, it has slept since before the recording, and counts from then on.
    pub(crate) fn seen_asleep(&mut self, tid: u32, state: char, at: u64) {
        let kind = match state {
            'S' => WaitKind::Interruptible,
            'D' => WaitKind::Uninterruptible,
            _ => return,
        };
        if !self.is_listing || self.waits.contains(tid) {
            return;
        }
        self.set(tid, Some(kind), at);
        self.next_look = 0;
    }

    /// Any wait may have ended.
    fn forget_waits(&mut self) {
        self.waits.iter_mut().for_each(|(_, wait)| wait.kind = None);
    }

    /// Who has a CPU from now on; who had it, or [`UNKNOWN`].
    #[inline]
    fn set_current(&mut self, cpu: u16, tid: u32) -> u32 {
        let cpu = usize::from(cpu);
        if cpu >= self.current.len() {
            self.current.resize(cpu + 1, UNKNOWN);
        }
        std::mem::replace(&mut self.current[cpu], tid)
    }

    /// Whether events of this time are missing that nothing tells of yet: no wait is followed then.
    pub(crate) fn set_blind(&mut self, is_blind: bool) {
        self.is_blind = is_blind;
        if is_blind {
            self.forget_waits();
        }
    }

    /// A scheduling event of a CPU, behind all that was told before.
    #[inline]
    pub(crate) fn on(
        &mut self,
        cpu: u16,
        at: u64,
        record: &SchedRecord,
        threads: &Threads,
        found: &mut Vec<FoundCause>,
    ) {
        const SWITCH: u8 = RecordKind::Switch as u8;
        const WAKING: u8 = RecordKind::Waking as u8;
        const WAKEUP_NEW: u8 = RecordKind::WakeupNew as u8;
        const RESUME: u8 = RecordKind::Resume as u8;
        match record.stamp.split().1 {
            SWITCH => {
                let previous = self.set_current(cpu, record.tid);
                if previous != UNKNOWN {
                    self.set(previous, wait_of(record), at);
                }
                if let Some(before) = self.set(record.tid, None, at) {
                    self.look_behind(before, FoundAt { tid: record.tid, at }, threads, found);
                }
            }
            WAKING | WAKEUP_NEW => {
                if let Some(before) = self.set(record.tid, Some(WaitKind::Runnable), at) {
                    self.look_behind(before, FoundAt { tid: record.tid, at }, threads, found);
                }
            }
            RESUME => {
                if record.state | record.prio | record.next_prio != 0 {
                    self.forget_waits();
                }
                self.set_current(cpu, record.tid);
            }
            _ => {}
        }
    }

    /// How a thread waits from now on, if a rule asks for that and its end will be seen; how it did
    /// before, if that was for longer than some rule allows.
    #[inline]
    fn set(&mut self, tid: u32, kind: Option<WaitKind>, at: u64) -> Option<ThreadWait> {
        // Idle threads have a CPU of their own, and its number of nothing else.
        if tid == 0 {
            return None;
        }
        let is_followed =
            |kind: &WaitKind| !self.is_blind && self.shortest_of[*kind as usize] != u64::MAX;
        let kind = kind.filter(is_followed);
        let Some(known) = self.waits.get(tid) else {
            self.add(tid, ThreadWait { kind, since: at, found: 0 });
            return None;
        };
        let shortest = known.kind.map_or(u64::MAX, |kind| self.shortest_of[kind as usize]);
        let before = (at.saturating_sub(known.since) > shortest).then_some(*known);
        // Field by field: a copy of all at once would wait until each has reached the cache.
        known.kind = kind;
        known.since = at;
        known.found = 0;
        before
    }

    #[cold]
    fn add(&mut self, tid: u32, wait: ThreadWait) {
        if self.waits.len() >= MOST_THREADS && std::mem::take(&mut self.may_make_room) {
            self.is_listing = false;
            self.waits.retain_waiting();
        }
        if self.waits.len() < MOST_THREADS {
            self.waits.add(tid, wait);
        } else {
            self.unfollowed += u64::from(wait.kind.is_some());
        }
    }

    /// A wait is over that was longer than some rule allows: whether it was too long, if that was
    /// not found before.
    #[cold]
    fn look_behind(
        &self,
        mut wait: ThreadWait,
        FoundAt { tid, at }: FoundAt,
        threads: &Threads,
        found: &mut Vec<FoundCause>,
    ) {
        wait.look(tid, at, &self.rules, threads, found);
    }

    /// Looks who waits for too long by now.
    pub(crate) fn look(&mut self, now: u64, threads: &Threads, found: &mut Vec<FoundCause>) {
        let listed_within = self.listed_within;
        if now > *self.listed_until.get_or_insert(now.saturating_add(listed_within)) {
            self.is_listing = false;
        }
        self.may_make_room = true;
        if now < self.next_look {
            return;
        }
        if !self.is_listing {
            self.waits.retain_waiting();
        }
        let mut next = now.saturating_add(self.shortest);
        for (tid, wait) in self.waits.iter_mut() {
            next = next.min(wait.look(tid, now, &self.rules, threads, found));
        }
        self.next_look = next;
    }
}

/// Where it may be found that a thread waited too long.
#[derive(Clone, Copy, Debug)]
struct FoundAt {
    tid: u32,
    at: u64,
}

impl ThreadWait {
    /// Notes by which rules it is too long; when it will be by another at the earliest.
    fn look(
        &mut self,
        tid: u32,
        now: u64,
        rules: &[WaitRule],
        threads: &Threads,
        found: &mut Vec<FoundCause>,
    ) -> u64 {
        let Some(kind) = self.kind else { return u64::MAX };
        let ticks = now.saturating_sub(self.since);
        let mut next = u64::MAX;
        for (index, rule) in rules.iter().enumerate() {
            let bit = 1 << index;
            if self.found & bit != 0 || !(rule.of)(kind) {
                continue;
            }
            if ticks <= rule.longer {
                next = next.min(self.since.saturating_add(rule.longer).saturating_add(1));
                continue;
            }
            if rule.who.is_some() && !threads.knows(tid) {
                // Its name comes a moment later.
                next = next.min(now.saturating_add(rule.longer / 4 + 1));
                continue;
            }
            self.found |= bit;
            // From here on it was too long.
            let at = self.since.saturating_add(rule.longer);
            if threads.matches(tid, rule.who.as_ref()) {
                let what = Occurrence::Waited { how: rule.how, began: self.since, ticks };
                let (trigger, tid) = (rule.trigger, Some(tid));
                found.push(FoundCause { trigger, at, tid, payer: None, what });
            }
        }
        next
    }
}

/// How the task that a switch leaves waits; `None` if it has ended, or waits for what it was told
/// to wait for (stopped, traced, parked, idle).
fn wait_of(switch: &SchedRecord) -> Option<WaitKind> {
    if switch.flags & sched_flags::PREEMPTED != 0 {
        return Some(WaitKind::Runnable);
    }
    // The lowest bit counts, as in the kernel.
    match switch.state & switch.state.wrapping_neg() {
        0 => Some(WaitKind::Runnable),
        task_state::INTERRUPTIBLE => Some(WaitKind::Interruptible),
        task_state::UNINTERRUPTIBLE => Some(WaitKind::Uninterruptible),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_records::Stamp;

    fn event(kind: RecordKind, tid: u32, state: u8) -> SchedRecord {
        SchedRecord { stamp: Stamp::new(0, kind), tid, state, ..SchedRecord::default() }
    }

    /// A tick is a millisecond.
    fn waits(causes: &[Cause]) -> Waits {
        Waits::new(causes.iter().enumerate(), |time| time.as_millis() as u64).expect("they wait")
    }

    struct Machine {
        waits: Waits,
        threads: Threads,
        found: Vec<FoundCause>,
    }

    impl Machine {
        fn new(causes: &[Cause]) -> Self {
            Self { waits: waits(causes), threads: Threads::default(), found: Vec::new() }
        }

        fn on(&mut self, cpu: u16, at: u64, record: SchedRecord) {
            self.waits.on(cpu, at, &record, &self.threads, &mut self.found);
        }

        /// Who was found by then: trigger, thread and ticks.
        fn found(&mut self, now: u64) -> Vec<(usize, u32, u64)> {
            self.waits.look(now, &self.threads, &mut self.found);
            let mut found: Vec<_> = self
                .found
                .drain(..)
                .filter_map(|found| match found.what {
                    Occurrence::Waited { ticks, .. } => Some((found.trigger, found.tid?, ticks)),
                    _ => None,
                })
                .collect();
            found.sort_unstable();
            found
        }
    }

    const MS20: Duration = Duration::from_millis(20);

    #[test]
    fn a_thread_that_waits_too_long_for_a_cpu_is_found_once_and_while_it_still_does() {
        let mut machine = Machine::new(&[Cause::Waiting(None, MS20)]);
        machine.on(0, 100, event(RecordKind::Waking, 7, 0));
        assert_eq!(machine.found(120), [], "20 ms are not more than 20 ms");
        assert_eq!(machine.found(121), [(0, 7, 21)]);
        assert_eq!(machine.found(150), []);
        machine.on(1, 160, event(RecordKind::Switch, 7, 0));
        assert_eq!(machine.found(900), [], "it runs, and was found before");
    }

    #[test]
    fn a_wait_that_ended_before_anybody_looked_is_found_too() {
        let mut machine = Machine::new(&[Cause::Waiting(None, MS20)]);
        machine.on(0, 100, event(RecordKind::Waking, 7, 0));
        machine.on(1, 130, event(RecordKind::Switch, 7, 0));
        machine.on(0, 140, event(RecordKind::Waking, 8, 0));
        machine.on(1, 150, event(RecordKind::Switch, 8, 0));
        assert_eq!(machine.found(150), [(0, 7, 30)]);
    }

    #[test]
    fn who_is_preempted_waits_and_who_sleeps_is_blocked_until_it_is_woken() {
        let causes = [
            Cause::Waiting(None, MS20),
            Cause::Blocked(None, MS20),
            Cause::Uninterruptible(None, MS20),
        ];
        let mut machine = Machine::new(&causes);
        machine.on(0, 100, event(RecordKind::Switch, 7, 0));
        machine.on(0, 110, event(RecordKind::Switch, 8, task_state::INTERRUPTIBLE));
        machine.on(0, 115, event(RecordKind::Switch, 9, task_state::UNINTERRUPTIBLE));
        machine.on(0, 120, event(RecordKind::Switch, 6, 0));
        assert_eq!(machine.found(131), [(1, 7, 21)]);
        assert_eq!(machine.found(136), [(1, 8, 21), (2, 8, 21)]);
        machine.on(1, 138, event(RecordKind::Waking, 7, 0));
        assert_eq!(machine.found(141), [(0, 9, 21)]);
        assert_eq!(machine.found(159), [(0, 7, 21)]);
    }

    #[test]
    fn who_has_slept_since_before_the_recording_is_blocked_from_when_that_was_seen_on() {
        let causes = [Cause::Blocked(None, MS20), Cause::Uninterruptible(None, MS20)];
        let mut machine = Machine::new(&causes);
        machine.on(0, 100, event(RecordKind::Waking, 9, 0));
        for (tid, state) in [(7, 'S'), (8, 'D'), (6, 'R'), (5, 'T'), (9, 'S')] {
            machine.waits.seen_asleep(tid, state, 90);
        }
        // It had not been woken yet when its state was read.
        machine.waits.seen_asleep(4, 'S', 110);
        machine.on(0, 105, event(RecordKind::Waking, 4, 0));
        assert_eq!(machine.found(110), []);
        assert_eq!(machine.found(111), [(0, 7, 21), (0, 8, 21), (1, 8, 21)]);
        assert_eq!(machine.found(900), []);
        // A list of the next minute is of what has begun meanwhile.
        assert_eq!(machine.found(61_000), []);
        machine.waits.seen_asleep(3, 'S', 61_000);
        assert_eq!(machine.found(62_000), []);
    }

    #[test]
    fn nobody_who_ended_and_no_idle_cpu_waits() {
        let mut machine = Machine::new(&[Cause::Blocked(None, MS20), Cause::Waiting(None, MS20)]);
        machine.on(0, 100, event(RecordKind::Switch, 7, 0));
        machine.on(0, 110, event(RecordKind::Switch, 0, task_state::DEAD));
        machine.on(0, 120, event(RecordKind::Switch, 8, 0));
        assert_eq!(machine.found(900), []);
    }

    #[test]
    fn who_waits_before_its_name_is_known_is_found_when_it_is() {
        let mut machine = Machine::new(&[Cause::Waiting(Some(NamePattern("new".into())), MS20)]);
        machine.on(0, 100, event(RecordKind::Waking, 7, 0));
        assert_eq!(machine.found(121), []);
        let mut comm = [0; 16];
        comm[..3].copy_from_slice(b"new");
        let stamp = Stamp::new(122, RecordKind::Fork);
        let record =
            syscollect_records::TaskRecord { stamp, tid: 7, tgid: 7, comm, ..Default::default() };
        machine.threads.on(122, &record);
        assert_eq!(machine.found(140), [(0, 7, 40)]);
    }

    #[test]
    fn what_was_lost_may_have_ended_any_wait() {
        for lost in [false, true] {
            let mut machine = Machine::new(&[Cause::Waiting(None, MS20)]);
            machine.on(0, 100, event(RecordKind::Waking, 7, 0));
            machine.waits.chunk(1, 5, lost);
            machine.on(1, 105, event(RecordKind::Switch, 6, 0));
            let expected: &[_] = if lost { &[(0, 5, 35)] } else { &[(0, 5, 35), (0, 7, 40)] };
            assert_eq!(machine.found(140), expected);
            machine.on(1, 150, event(RecordKind::Waking, 8, 0));
            machine.on(1, 151, event(RecordKind::Resume, 6, 1));
            assert_eq!(machine.found(900), []);
        }
    }
}
