//! What is known of one thread that may be a loop.

use super::stretch::{Spent, Stretch, StretchEnd};
use super::{Departure, LEAST_RETURNS, LoopSample, LoopSummary, LoopWait, Sleep, Tier};
use syscollect_model::{CpuId, ThreadId};

/// Stretches over the limit that are kept until it is known whether the thread is a loop: the
/// first ones.
const MOST_KEPT: usize = 4;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity<B> {
    Unknown,
    OnCpu(CpuId),
    Runnable,
    Asleep(B),
}

/// A thread. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct LoopBooks<B> {
    thread: ThreadId,
    limit: u64,
    activity: Activity<B>,
    /// Until when it is accounted for.
    at: u64,
    /// Since when it does that.
    since: u64,
    /// It has begun, and its first wait is still to come.
    is_new: bool,
    /// Its waits without futexes, and with them; one alone once it is known to be a loop.
    returns: Vec<Returns<B>>,
    is_loop: bool,
}

/// How a thread comes back to its waits.
#[derive(Debug)]
struct Returns<B> {
    tier: Tier,
    /// It is in one.
    waits: bool,
    /// The last one.
    wait: Option<LoopWait>,
    away: Option<Away<B>>,
    count: u64,
    over_limit: u64,
    time: u64,
    kept: Vec<Stretch<B>>,
}

/// It is in none.
#[derive(Debug)]
struct Away<B> {
    since: u64,
    may_be_longer: bool,
    /// A sample has found it outside of its wait.
    was_elsewhere: bool,
    spent: Spent<B>,
}

impl<B> Away<B> {
    fn new(since: u64, may_be_longer: bool) -> Self {
        Self { since, may_be_longer, was_elsewhere: false, spent: Spent::default() }
    }
}

impl<B: Copy + Eq> Returns<B> {
    fn new(tier: Tier) -> Self {
        Self {
            tier,
            waits: false,
            wait: None,
            away: None,
            count: 0,
            over_limit: 0,
            time: 0,
            kept: Vec::new(),
        }
    }

    /// Whether it comes back as a loop does.
    fn is_regular(&self) -> bool {
        let is_of_loops = matches!(self.wait, Some(LoopWait::Events | LoopWait::IoUring));
        self.count >= LEAST_RETURNS && (is_of_loops || self.over_limit * 2 <= self.count)
    }
}

impl<B: Copy + Eq> LoopBooks<B> {
    pub(super) fn new(thread: ThreadId, limit: u64) -> Self {
        Self {
            thread,
            limit,
            activity: Activity::Unknown,
            at: 0,
            since: 0,
            is_new: false,
            returns: Tier::ALL.map(Returns::new).into(),
            is_loop: false,
        }
    }

    /// What is told of the thread as a loop, if it is one.
    pub(super) fn summary(&self, thread: ThreadId) -> Option<LoopSummary> {
        let returns = self.returns.first().filter(|_| self.is_loop)?;
        let wait = returns.wait?;
        Some(LoopSummary { thread, wait, returns: returns.count, away: returns.time })
    }

    /// Whether it ran on another CPU from before that time on, and so until now.
    pub(super) fn runs_elsewhere(&self, cpu: CpuId, since: u64) -> bool {
        matches!(self.activity, Activity::OnCpu(own) if own != cpu) && self.since <= since
    }

    /// What it did lasts until now.
    fn account(&mut self, now: u64) {
        let time = now.saturating_sub(self.at);
        for away in self.returns.iter_mut().filter_map(|returns| returns.away.as_mut()) {
            match self.activity {
                Activity::Unknown => {}
                Activity::OnCpu(_) => away.spent.on_cpu += time,
                Activity::Runnable => away.spent.waiting += time,
                Activity::Asleep(what) => away.spent.sleep(what, time),
            }
        }
        self.at = self.at.max(now);
    }

    fn becomes(&mut self, now: u64, activity: Activity<B>) {
        (self.activity, self.since) = (activity, now);
    }

    /// It is in no wait.
    fn is_up(&mut self, now: u64) {
        let was_unknown = self.activity == Activity::Unknown;
        for returns in &mut self.returns {
            if std::mem::take(&mut returns.waits) {
                returns.away = Some(Away::new(now, false));
            } else if was_unknown && returns.away.is_none() && !self.is_new {
                returns.away = Some(Away::new(now, true));
            }
        }
    }

    pub(super) fn begin_anew(&mut self) {
        if self.activity == Activity::Unknown {
            self.is_new = true;
        }
    }

    pub(super) fn enter(&mut self, now: u64, cpu: CpuId) {
        if let Activity::OnCpu(_) = self.activity {
            // When it left that CPU is missing.
            self.lose(0);
        }
        self.account(now);
        self.is_up(now);
        self.becomes(now, Activity::OnCpu(cpu));
    }

    pub(super) fn wake(&mut self, now: u64) {
        if let Activity::OnCpu(_) | Activity::Runnable = self.activity {
            return;
        }
        self.account(now);
        self.is_up(now);
        self.becomes(now, Activity::Runnable);
    }

    pub(super) fn leave(&mut self, now: u64, cpu: CpuId, departure: Departure<B>) {
        let known = match self.activity {
            Activity::OnCpu(own) => own == cpu,
            Activity::Unknown => true,
            Activity::Runnable | Activity::Asleep(_) => false,
        };
        if !known {
            // That it came onto this CPU is missing, and what it did before with it.
            self.lose(0);
        }
        self.account(now);
        match departure {
            Departure::Runnable => {
                self.is_up(now);
                self.becomes(now, Activity::Runnable);
            }
            Departure::Asleep(sleep) => self.sleep(now, sleep),
            Departure::Ended => {}
        }
    }

    pub(super) fn seen_asleep(&mut self, now: u64, sleep: Sleep<B>) {
        if self.activity == Activity::Unknown && !self.is_new {
            self.account(now);
            self.sleep(now, sleep);
        }
    }

    fn sleep(&mut self, now: u64, sleep: Sleep<B>) {
        let Sleep { wait, what } = sleep;
        let is_first = self.activity == Activity::Unknown;
        for index in 0..self.returns.len() {
            let is_wait = wait.filter(|wait| self.returns[index].tier.has(*wait));
            if let Some(wait) = is_wait {
                self.come_back(index, wait, now, true);
                self.returns[index].waits = true;
                self.is_new = false;
            } else if is_first && self.returns[index].away.is_none() && !self.is_new {
                self.returns[index].away = Some(Away::new(now, true));
            }
        }
        self.becomes(now, Activity::Asleep(what));
        self.recognise();
    }

    pub(super) fn sample(&mut self, now: u64, sample: &LoopSample) {
        let LoopSample { cpu, stack, wait, .. } = *sample;
        if self.activity == Activity::Unknown {
            self.account(now);
            self.is_up(now);
            self.becomes(now, Activity::OnCpu(cpu));
        }
        self.account(now);
        for index in 0..self.returns.len() {
            let Some(away) = &mut self.returns[index].away else { continue };
            away.spent.sample(stack);
            let Some(wait) = wait else {
                away.was_elsewhere = true;
                continue;
            };
            if away.was_elsewhere {
                self.come_back(index, wait, now, false);
                self.returns[index].away = Some(Away::new(now, false));
            }
        }
    }

    /// A stretch ends, by a sleep or because it was seen there.
    fn come_back(&mut self, index: usize, wait: LoopWait, now: u64, sleeps: bool) {
        let returns = &mut self.returns[index];
        returns.wait = Some(wait);
        let Some(away) = returns.away.take() else { return };
        let time = now.saturating_sub(away.since);
        if !away.may_be_longer {
            returns.count += u64::from(sleeps);
            returns.over_limit += u64::from(time > self.limit && sleeps);
            returns.time = returns.time.saturating_add(time);
        }
        self.close(index, away, now, StretchEnd::Returned);
    }

    fn close(&mut self, index: usize, away: Away<B>, until: u64, end: StretchEnd) {
        let Away { since, may_be_longer, spent, .. } = away;
        let returns = &mut self.returns[index];
        // Of one that has never been in a wait nothing is said.
        let Some(wait) = returns.wait else { return };
        if until.saturating_sub(since) <= self.limit {
            return;
        }
        if self.is_loop || returns.kept.len() < MOST_KEPT {
            let thread = self.thread;
            returns.kept.push(Stretch { thread, wait, since, until, may_be_longer, end, spent });
        }
    }

    /// Whether it is a loop, and by which of its waits.
    fn recognise(&mut self) {
        if self.is_loop {
            return;
        }
        let [idle, all] = &self.returns[..] else { return };
        let by_futexes = all.count > idle.count * 2;
        let chosen = if by_futexes { all } else { idle };
        if chosen.is_regular() {
            let tier = chosen.tier;
            self.returns.retain(|returns| returns.tier == tier);
            self.is_loop = true;
        }
    }

    /// What it did is known up to then, and not what it does now.
    pub(super) fn lose(&mut self, since: u64) {
        let until = if since == 0 { self.at } else { since };
        if until > self.at {
            self.account(until);
        }
        for index in 0..self.returns.len() {
            self.returns[index].waits = false;
            let Some(mut away) = self.returns[index].away.take() else { continue };
            if until < self.at {
                // What was accounted for since then may have been in other stretches.
                away.spent = Spent::default();
            }
            self.close(index, away, until, StretchEnd::Unknown);
        }
        self.is_new = false;
        let at = self.at;
        self.becomes(at, Activity::Unknown);
    }

    /// What was counted of a loop is not told.
    pub(super) fn forget(&mut self) {
        for returns in self.returns.iter_mut().filter(|_| self.is_loop) {
            (returns.count, returns.over_limit, returns.time) = (0, 0, 0);
        }
    }

    pub(super) fn finish(&mut self, now: u64) {
        self.account(now);
        for index in 0..self.returns.len() {
            self.returns[index].waits = false;
            if let Some(away) = self.returns[index].away.take() {
                self.close(index, away, now, StretchEnd::Recording);
            }
        }
        self.becomes(now, Activity::Unknown);
    }

    /// Hands over the stretches of a loop.
    #[inline]
    pub(super) fn give(&mut self, found: &mut Vec<Stretch<B>>) {
        if self.is_loop
            && let Some(returns) = self.returns.first_mut()
        {
            found.append(&mut returns.kept);
        }
    }
}
