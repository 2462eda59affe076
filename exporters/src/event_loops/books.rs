//! What is known of one thread that may be a loop.

use super::stretch::{Stretch, StretchActivity, StretchEnd};
use super::{Departure, LEAST_RETURNS, LoopSample, LoopSummary, LoopWait, Sleep, WaitTier};
use syscollect_model::{CpuId, LoopMark, ThreadId};

/// Stretches over the limit that are kept until it is known whether the thread is a loop: the
/// first ones.
pub(super) const MOST_KEPT: usize = 4;
/// So many samples of a stretch would have found a thread in its wait that polls, for it to be
/// sure that it did not come back: that none does is then as unlikely as 1 in 20,000.
pub(super) const ENOUGH_SAMPLES: u64 = 10;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState<B> {
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
    state: ThreadState<B>,
    /// Until when it is accounted for.
    at: u64,
    /// Since when it does that.
    since: u64,
    times: CpuTimes,
    /// It sleeps in a wait of a tier.
    waits: bool,
    /// It has begun, and its first wait is still to come.
    is_new: bool,
    /// Its waits without futexes, and with them; one alone once it is known to be a loop.
    tiers: Vec<TierBooks<B>>,
    is_loop: bool,
}

/// How long a thread was on a CPU, or waited for one, in all.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTimes {
    on_cpu: u64,
    waiting: u64,
}

/// How a thread comes back to the waits of a tier.
#[derive(Debug)]
struct TierBooks<B> {
    tier: WaitTier,
    /// Since when it sleeps in one, if it does.
    waits_since: Option<u64>,
    /// The last one, and how long that was.
    wait: Option<LoopWait>,
    waited: u64,
    away: Option<OpenStretch<B>>,
    awake: AwakeSamples,
    /// How often it slept in one again.
    count: u64,
    /// How often a sample found it back.
    seen_awake: u64,
    /// How often after a longer time than the limit, without that for which it waited for a CPU.
    over_limit: u64,
    /// How often that was not longer than it had waited before.
    mostly_waited: u64,
    /// How long it was away in all that.
    time: u64,
    /// Stretches that may be none, because it polls.
    unsure: u64,
    kept: Vec<Stretch<B>>,
}

/// Samples of a thread since it last slept in a wait.
#[derive(Clone, Copy, Debug, Default)]
struct AwakeSamples {
    all: u64,
    /// In the kernel's function of a wait.
    in_wait: u64,
    /// How often one was there after another one had been, or elsewhere.
    returns: u64,
}

impl AwakeSamples {
    /// It comes back without sleeping.
    fn polls(self) -> bool {
        self.returns >= LEAST_RETURNS
    }

    /// Whether so many samples elsewhere say that it did not come back.
    fn rule_out(self, elsewhere: u64) -> bool {
        elsewhere.saturating_mul(self.in_wait) >= self.all.saturating_mul(ENOUGH_SAMPLES)
    }
}

/// It is in none.
#[derive(Debug)]
struct OpenStretch<B> {
    since: u64,
    /// Before it.
    times: CpuTimes,
    may_be_longer: bool,
    /// It begins with a sample in its wait, not with a sleep there.
    begins_awake: bool,
    /// A sample has found it outside of its wait.
    was_elsewhere: bool,
    activity: StretchActivity<B>,
}

impl<B> OpenStretch<B> {
    fn new(since: u64, times: CpuTimes) -> Self {
        Self {
            since,
            times,
            may_be_longer: false,
            begins_awake: false,
            was_elsewhere: false,
            activity: StretchActivity::default(),
        }
    }

    fn of_unknown_beginning(since: u64, times: CpuTimes) -> Self {
        Self { may_be_longer: true, ..Self::new(since, times) }
    }

    fn begun_awake(since: u64, times: CpuTimes) -> Self {
        Self { begins_awake: true, ..Self::new(since, times) }
    }
}

/// How it comes back to a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Return {
    Asleep,
    Awake,
}

impl<B: Copy + Eq> TierBooks<B> {
    fn new(tier: WaitTier) -> Self {
        Self {
            tier,
            waits_since: None,
            wait: None,
            waited: 0,
            away: None,
            awake: AwakeSamples::default(),
            count: 0,
            seen_awake: 0,
            over_limit: 0,
            mostly_waited: 0,
            time: 0,
            unsure: 0,
            kept: Vec::new(),
        }
    }

    /// Whether it comes back as a loop does.
    fn is_regular(&self) -> bool {
        let returns = self.count + self.seen_awake;
        let seldom_long = self.over_limit * 2 <= returns;
        match self.tier {
            WaitTier::WithFutexes => {
                self.count >= LEAST_RETURNS && seldom_long && self.mostly_waited * 2 >= self.count
            }
            WaitTier::Idle if self.wait.is_some_and(LoopWait::is_of_events) => {
                self.count >= LEAST_RETURNS || (self.seen_awake >= LEAST_RETURNS && seldom_long)
            }
            WaitTier::Idle => self.count >= LEAST_RETURNS && seldom_long,
            WaitTier::Marked => true,
        }
    }
}

impl<B: Copy + Eq> LoopBooks<B> {
    /// What it does before its first wait is no stretch where the thread is new.
    pub(super) fn new(thread: ThreadId, limit: u64, is_new: bool) -> Self {
        Self {
            thread,
            limit,
            state: ThreadState::Unknown,
            at: 0,
            since: 0,
            times: CpuTimes::default(),
            waits: false,
            is_new,
            tiers: WaitTier::UNMARKED.map(TierBooks::new).into(),
            is_loop: false,
        }
    }

    /// What is told of the thread as a loop, if it is one.
    pub(super) fn summary(&self) -> Option<LoopSummary> {
        let tier = self.tiers.first().filter(|_| self.is_loop)?;
        Some(LoopSummary {
            thread: self.thread,
            wait: tier.wait?,
            returns: tier.count,
            seen_awake: tier.seen_awake,
            away: tier.time,
            unsure: tier.unsure,
        })
    }

    /// Whether it ran on another CPU from before that time on, and so until now.
    pub(super) fn runs_elsewhere(&self, cpu: CpuId, since: u64) -> bool {
        matches!(self.state, ThreadState::OnCpu(own) if own != cpu) && self.since <= since
    }

    pub(super) fn runs_on(&self, cpu: CpuId) -> bool {
        self.state == ThreadState::OnCpu(cpu)
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.state == ThreadState::Unknown
    }

    /// What it did lasts until now.
    fn account(&mut self, now: u64) {
        let time = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        match self.state {
            ThreadState::Unknown => {}
            ThreadState::OnCpu(_) => self.times.on_cpu += time,
            ThreadState::Runnable => self.times.waiting += time,
            ThreadState::Asleep(what) => {
                for away in self.tiers.iter_mut().filter_map(|tier| tier.away.as_mut()) {
                    away.activity.sleep(what, time);
                }
            }
        }
    }

    fn becomes(&mut self, now: u64, state: ThreadState<B>) {
        (self.state, self.since) = (state, now);
    }

    /// Its loop says that it waits, or goes on.
    pub(super) fn mark(&mut self, now: u64, mark: LoopMark) {
        self.account(now);
        if !self.is_marked() {
            // What it waits in is what it says, from now on.
            self.tiers = vec![TierBooks::new(WaitTier::Marked)];
            (self.is_loop, self.waits, self.is_new) = (true, false, false);
        }
        let times = self.times;
        let [tier] = &mut self.tiers[..] else { return };
        match mark {
            LoopMark::Waits => {
                tier.waits_since = Some(now);
                self.come_back(0, LoopWait::Marked, now, Return::Asleep);
            }
            LoopMark::Turns => {
                // Where a wait is missing it may have been short, or long.
                tier.unsure += u64::from(tier.away.is_some());
                tier.wait = Some(LoopWait::Marked);
                tier.waits_since = None;
                tier.away = Some(OpenStretch::new(now, times));
            }
        }
    }

    /// Whether its waits are those that it marks.
    fn is_marked(&self) -> bool {
        matches!(&self.tiers[..], [tier] if tier.tier == WaitTier::Marked)
    }

    /// It is in no wait.
    fn is_up(&mut self, now: u64) {
        let is_first = self.state == ThreadState::Unknown && !self.is_new;
        if self.is_marked() || (!std::mem::take(&mut self.waits) && !is_first) {
            return;
        }
        for tier in &mut self.tiers {
            if let Some(since) = tier.waits_since.take() {
                tier.waited = now.saturating_sub(since);
                tier.awake = AwakeSamples::default();
                tier.away = Some(OpenStretch::new(now, self.times));
            } else if is_first && tier.away.is_none() {
                tier.away = Some(OpenStretch::of_unknown_beginning(now, self.times));
            }
        }
    }

    pub(super) fn enter(&mut self, now: u64, cpu: CpuId) {
        if let ThreadState::OnCpu(_) = self.state {
            // When it left that CPU is missing.
            self.lose(None);
        }
        self.account(now);
        self.is_up(now);
        self.becomes(now, ThreadState::OnCpu(cpu));
    }

    pub(super) fn wake(&mut self, now: u64) {
        if let ThreadState::OnCpu(_) | ThreadState::Runnable = self.state {
            return;
        }
        self.account(now);
        self.is_up(now);
        self.becomes(now, ThreadState::Runnable);
    }

    pub(super) fn leave(&mut self, now: u64, cpu: CpuId, departure: Departure<B>) {
        let known = match self.state {
            ThreadState::OnCpu(own) => own == cpu,
            ThreadState::Unknown => true,
            ThreadState::Runnable | ThreadState::Asleep(_) => false,
        };
        if !known {
            // That it came onto this CPU is missing, and what it did before with it.
            self.lose(None);
        }
        self.account(now);
        match departure {
            Departure::Runnable => {
                self.is_up(now);
                self.becomes(now, ThreadState::Runnable);
            }
            Departure::Asleep(sleep) => self.sleep(now, sleep),
            Departure::Ended => self.end(now),
        }
    }

    pub(super) fn seen_asleep(&mut self, now: u64, sleep: Sleep<B>) {
        if self.state == ThreadState::Unknown {
            self.account(now);
            self.sleep(now, sleep);
        }
    }

    fn sleep(&mut self, now: u64, sleep: Sleep<B>) {
        let Sleep { wait, what } = sleep;
        let is_first = self.state == ThreadState::Unknown && !self.is_new;
        self.becomes(now, ThreadState::Asleep(what));
        if self.is_marked() || (wait.is_none() && !is_first) {
            return;
        }
        for index in 0..self.tiers.len() {
            let tier = &mut self.tiers[index];
            if let Some(wait) = wait.filter(|wait| tier.tier.has(*wait)) {
                tier.waits_since = Some(now);
                self.come_back(index, wait, now, Return::Asleep);
                (self.waits, self.is_new) = (true, false);
            } else if is_first && tier.away.is_none() {
                tier.away = Some(OpenStretch::of_unknown_beginning(now, self.times));
            }
        }
        self.recognise();
    }

    /// Whether nothing was known of it before.
    pub(super) fn sample(&mut self, now: u64, sample: &LoopSample) -> bool {
        let LoopSample { cpu, stack, wait, .. } = *sample;
        let is_first = self.state == ThreadState::Unknown;
        if is_first {
            self.account(now);
            self.is_up(now);
            self.becomes(now, ThreadState::OnCpu(cpu));
        }
        self.account(now);
        if self.is_marked() {
            for away in self.tiers.iter_mut().filter_map(|tier| tier.away.as_mut()) {
                away.activity.sample(stack);
            }
            return is_first;
        }
        for index in 0..self.tiers.len() {
            let tier = &mut self.tiers[index];
            let Some(away) = &mut tier.away else {
                if let Some(wait) = wait.filter(|_| tier.waits_since.is_none()) {
                    // It polls before it has slept in a wait.
                    tier.wait = Some(wait);
                    tier.awake = AwakeSamples { all: 1, in_wait: 1, returns: 0 };
                    tier.away = Some(OpenStretch::begun_awake(now, self.times));
                }
                continue;
            };
            away.activity.sample(stack);
            tier.awake.all += u64::from(stack.is_some());
            let Some(wait) = wait else {
                away.was_elsewhere |= stack.is_some();
                continue;
            };
            tier.awake.in_wait += 1;
            // The first one may find it on its way out of the wait that has woken it.
            if away.was_elsewhere || tier.awake.in_wait > 1 {
                tier.awake.returns += 1;
                self.come_back(index, wait, now, Return::Awake);
                self.tiers[index].away = Some(OpenStretch::begun_awake(now, self.times));
            }
        }
        self.is_new &= wait.is_none();
        self.recognise();
        is_first
    }

    /// A stretch ends in a wait.
    fn come_back(&mut self, index: usize, wait: LoopWait, now: u64, how: Return) {
        let tier = &mut self.tiers[index];
        tier.wait = Some(wait);
        let Some(away) = tier.away.take() else { return };
        let time = now.saturating_sub(away.since);
        // A busy machine makes nobody another kind of thread.
        let own = time.saturating_sub(self.times.waiting - away.times.waiting);
        if !away.may_be_longer {
            match how {
                Return::Asleep => tier.count += 1,
                Return::Awake => tier.seen_awake += 1,
            }
            tier.mostly_waited += u64::from(own <= tier.waited && how == Return::Asleep);
            tier.over_limit += u64::from(own > self.limit);
            tier.time = tier.time.saturating_add(time);
        }
        let is_awake = away.begins_awake || how == Return::Awake;
        self.close(index, away, now, StretchEnd::Returned, is_awake);
    }

    fn close(
        &mut self,
        index: usize,
        away: OpenStretch<B>,
        until: u64,
        end: StretchEnd,
        is_awake: bool,
    ) {
        let OpenStretch { since, may_be_longer, mut activity, times, .. } = away;
        let tier = &mut self.tiers[index];
        // Of one that has never been in a wait nothing is said.
        let Some(wait) = tier.wait else { return };
        if until.saturating_sub(since) <= self.limit {
            return;
        }
        activity.on_cpu = self.times.on_cpu - times.on_cpu;
        activity.waiting = self.times.waiting - times.waiting;
        let polls = is_awake && tier.awake.polls();
        if polls && !tier.awake.rule_out(activity.samples()) {
            tier.unsure += 1;
            return;
        }
        let is_unseen = activity.on_cpu > self.limit && activity.stacks.is_empty();
        let is_unseen = is_unseen && wait != LoopWait::Marked;
        let may_have_returned = !polls && (is_awake || is_unseen);
        if self.is_loop || tier.kept.len() < MOST_KEPT {
            tier.kept.push(Stretch {
                thread: self.thread,
                wait,
                since,
                until,
                may_be_longer,
                may_have_returned,
                end,
                activity,
            });
        }
    }

    /// Whether it is a loop, and by which of its waits.
    fn recognise(&mut self) {
        if self.is_loop {
            return;
        }
        let [idle, all] = &self.tiers[..] else { return };
        let by_futexes = all.count > idle.count * 2 && all.is_regular();
        if by_futexes || idle.is_regular() {
            let chosen = if by_futexes { all.tier } else { idle.tier };
            self.tiers.retain(|tier| tier.tier == chosen);
            self.is_loop = true;
        }
    }

    /// What it did is known up to then, or up to its last event, and not what it does now.
    pub(super) fn lose(&mut self, since: Option<u64>) {
        let until = since.unwrap_or(self.at);
        if until > self.at {
            self.account(until);
        }
        self.waits = false;
        // Marks are others' records, and what is missing of these is not known to have been.
        let unmarked = if self.is_marked() { 0 } else { self.tiers.len() };
        for index in 0..unmarked {
            self.tiers[index].waits_since = None;
            if let Some(mut away) = self.tiers[index].away.take() {
                if until < self.at {
                    // What was accounted for since then may have been in other stretches.
                    (away.activity, away.times) = (StretchActivity::default(), self.times);
                }
                let is_awake = away.begins_awake;
                self.close(index, away, until, StretchEnd::Unknown, is_awake);
            }
            let tier = &mut self.tiers[index];
            (tier.awake, tier.waited) = (AwakeSamples::default(), 0);
        }
        let at = self.at;
        self.becomes(at, ThreadState::Unknown);
    }

    /// What was counted of a loop is not told.
    pub(super) fn forget(&mut self) {
        for tier in self.tiers.iter_mut().filter(|_| self.is_loop) {
            (tier.count, tier.seen_awake, tier.over_limit) = (0, 0, 0);
            (tier.time, tier.unsure) = (0, 0);
        }
    }

    /// The thread ends.
    pub(super) fn end(&mut self, now: u64) {
        self.close_all(now, StretchEnd::ThreadEnded);
    }

    /// The recording does.
    pub(super) fn finish(&mut self, now: u64) {
        self.close_all(now, StretchEnd::Recording);
    }

    fn close_all(&mut self, now: u64, end: StretchEnd) {
        self.account(now);
        self.waits = false;
        for index in 0..self.tiers.len() {
            self.tiers[index].waits_since = None;
            if let Some(away) = self.tiers[index].away.take() {
                let is_awake = away.begins_awake;
                self.close(index, away, now, end, is_awake);
            }
        }
        self.becomes(now, ThreadState::Unknown);
    }

    /// Hands over the stretches of a loop.
    #[inline]
    pub(super) fn give(&mut self, found: &mut Vec<Stretch<B>>) {
        if self.is_loop
            && let Some(tier) = self.tiers.first_mut()
            && !tier.kept.is_empty()
        {
            found.append(&mut tier.kept);
        }
    }
}
