//! The definitions of [`event_loops`](super) once more, slow and simple: what a thread did is a
//! list, and each question is answered by looking through it.

use super::books::{ENOUGH_SAMPLES, MOST_KEPT};
use super::stretch::{
    AsleepFor, MOST_SLEEPS, MOST_STACKS, SampledStack, Stretch, StretchActivity, StretchEnd,
};
use super::*;
use std::collections::BTreeMap;
use syscollect_model::SchedulingGap;

/// What comes to the recogniser.
#[derive(Clone, Copy, Debug)]
pub(super) enum LoopEvent {
    Switch(LoopSwitch<u8>),
    Wakeup(ThreadId),
    Start(ThreadId),
    End(ThreadId),
    Asleep(ThreadId, Sleep<u8>),
    Sample(LoopSample),
    Gap(SchedulingGap),
}

/// What is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// By thread, in order of time.
    pub(super) stretches: BTreeMap<ThreadId, Vec<Stretch<u8>>>,
    /// By thread, one after another.
    pub(super) loops: BTreeMap<ThreadId, Vec<LoopSummary>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fact {
    OnCpu(CpuId),
    Runnable,
    Asleep(Sleep<u8>),
    /// Known until then, which may be before or after other facts.
    Lost(u64),
    Sample(LoopSample),
}

impl Fact {
    fn is_state(self) -> bool {
        !matches!(self, Self::Sample(_))
    }

    fn wait_of(self, tier: WaitTier) -> Option<LoopWait> {
        match self {
            Self::Asleep(Sleep { wait, .. }) => wait.filter(|wait| tier.has(*wait)),
            _ => None,
        }
    }
}

/// A thread from its beginning to its end, or to an exec.
#[derive(Debug, Default)]
struct Life {
    is_new: bool,
    facts: Vec<(u64, Fact)>,
    end: Option<(u64, StretchEnd)>,
}

impl Life {
    fn state(&self) -> Option<(u64, Fact)> {
        let last = self.facts.iter().rev().find(|(_, fact)| fact.is_state());
        last.copied().filter(|(_, fact)| !matches!(fact, Fact::Lost(_)))
    }

    fn lose(&mut self, now: u64, since: Option<u64>) {
        let until = since.unwrap_or(last_time(&self.facts));
        self.facts.push((now, Fact::Lost(until)));
    }
}

/// But for the time for which it waited for a CPU.
fn own_time(stretch: &Stretch<u8>) -> u64 {
    stretch.length() - stretch.activity.waiting.min(stretch.length())
}

/// Until when what they tell is known.
fn last_time(facts: &[(u64, Fact)]) -> u64 {
    let times = facts.iter().map(|(time, fact)| match fact {
        Fact::Lost(until) => *until,
        _ => *time,
    });
    times.max().unwrap_or(0)
}

/// A stretch that is over, of one tier.
#[derive(Debug)]
struct Closing {
    /// The fact that closes it; as many as there are where the thread's life does.
    at: usize,
    is_return: bool,
    sleeps: bool,
    /// It was not longer than the wait before it.
    is_shorter_than_wait: bool,
    is_unsure: bool,
    stretch: Stretch<u8>,
}

pub(super) fn judge(limit: u64, events: &[(u64, LoopEvent)], end: u64) -> Verdict {
    let mut lives = BTreeMap::<ThreadId, Vec<Life>>::new();
    let mut on_cpus = BTreeMap::<CpuId, ThreadId>::new();
    for (now, event) in events {
        distribute(*now, event, &mut lives, &mut on_cpus);
    }
    let mut verdict = Verdict::default();
    for (thread, lives) in lives {
        for mut life in lives {
            life.end.get_or_insert((end, StretchEnd::Recording));
            judge_life(limit, thread, &life, &mut verdict);
        }
    }
    verdict
}

fn current(lives: &mut BTreeMap<ThreadId, Vec<Life>>, thread: ThreadId) -> &mut Life {
    let lives = lives.entry(thread).or_default();
    if lives.last().is_none_or(|life| life.end.is_some()) {
        lives.push(Life::default());
    }
    lives.last_mut().unwrap()
}

fn distribute(
    now: u64,
    event: &LoopEvent,
    lives: &mut BTreeMap<ThreadId, Vec<Life>>,
    on_cpus: &mut BTreeMap<CpuId, ThreadId>,
) {
    match *event {
        LoopEvent::Switch(LoopSwitch { cpu, previous, next }) => {
            let ran = on_cpus.remove(&cpu);
            if let Some(next) = next {
                on_cpus.insert(cpu, next);
            }
            if let Some(ran) = ran.filter(|ran| previous.is_none_or(|it| it.thread != *ran)) {
                let life = current(lives, ran);
                if matches!(life.state(), Some((_, Fact::OnCpu(own))) if own == cpu) {
                    life.lose(now, None);
                }
            }
            if let Some(LeavingThread { thread, departure }) = previous {
                leave(now, cpu, current(lives, thread), departure);
            }
            if let Some(next) = next {
                let life = current(lives, next);
                if matches!(life.state(), Some((_, Fact::OnCpu(_)))) {
                    life.lose(now, None);
                }
                life.facts.push((now, Fact::OnCpu(cpu)));
            }
        }
        LoopEvent::Wakeup(thread) => {
            let life = current(lives, thread);
            if !matches!(life.state(), Some((_, Fact::OnCpu(_) | Fact::Runnable))) {
                life.facts.push((now, Fact::Runnable));
            }
        }
        LoopEvent::Start(thread) => {
            // What was open is dropped: its end is before its beginning.
            current(lives, thread).end = Some((0, StretchEnd::ThreadEnded));
            lives.entry(thread).or_default().push(Life { is_new: true, ..Life::default() });
        }
        LoopEvent::End(thread) => {
            current(lives, thread).end = Some((now, StretchEnd::ThreadEnded));
        }
        LoopEvent::Asleep(thread, sleep) => {
            let life = current(lives, thread);
            if life.state().is_none() {
                life.facts.push((now, Fact::Asleep(sleep)));
            }
        }
        LoopEvent::Sample(sample) => {
            let life = current(lives, sample.thread);
            if life.state().is_none() {
                life.facts.push((now, Fact::OnCpu(sample.cpu)));
                on_cpus.insert(sample.cpu, sample.thread);
            }
            life.facts.push((now, Fact::Sample(sample)));
        }
        LoopEvent::Gap(SchedulingGap { cpu, since }) => {
            let since = since.map(|since| since.0.min(now));
            for life in lives.values_mut().filter_map(|lives| lives.last_mut()) {
                let Some((time, state)) = life.state().filter(|_| life.end.is_none()) else {
                    continue;
                };
                let is_other = |own| cpu.is_some_and(|cpu| cpu != own);
                let runs_elsewhere = matches!(state, Fact::OnCpu(own) if is_other(own));
                if !(runs_elsewhere && time <= since.unwrap_or(0)) {
                    life.lose(now, since);
                }
            }
            on_cpus.retain(|id, _| cpu.is_some_and(|cpu| cpu != *id));
        }
    }
}

fn leave(now: u64, cpu: CpuId, life: &mut Life, departure: Departure<u8>) {
    let is_known = match life.state() {
        None => true,
        Some((_, Fact::OnCpu(own))) => own == cpu,
        Some(_) => false,
    };
    if departure == Departure::Ended {
        life.end = Some((now, StretchEnd::ThreadEnded));
        return;
    }
    if !is_known {
        life.lose(now, None);
    }
    life.facts.push((
        now,
        match departure {
            Departure::Asleep(sleep) => Fact::Asleep(sleep),
            _ => Fact::Runnable,
        },
    ));
}

fn judge_life(limit: u64, thread: ThreadId, life: &Life, verdict: &mut Verdict) {
    let tiers = WaitTier::UNMARKED.map(|tier| TierHistory::of(limit, thread, life, tier));
    let found = (0..life.facts.len()).find_map(|at| {
        let looks = matches!(life.facts[at].1, Fact::Asleep(_) | Fact::Sample(_));
        if !looks {
            return None;
        }
        let [idle, all] = [0, 1].map(|tier| tiers[tier].counts(limit, at));
        if all.count > idle.count * 2 && all.is_regular {
            return Some((at, 1));
        }
        idle.is_regular.then_some((at, 0))
    });
    let Some((at, tier)) = found else { return };
    let counts = tiers[tier].counts(limit, life.facts.len());
    verdict.loops.entry(thread).or_default().push(LoopSummary {
        thread,
        wait: counts.wait.unwrap(),
        returns: counts.count,
        seen_awake: counts.seen_awake,
        away: counts.time,
        unsure: counts.unsure,
    });
    let closings = tiers[tier].closings.iter();
    let long = closings.filter(|it| it.stretch.length() > limit && !it.is_unsure);
    let before = long.clone().filter(|it| it.at <= at).count();
    let told = long.enumerate().filter(|(index, _)| *index < MOST_KEPT || *index >= before);
    let told: Vec<_> = told.map(|(_, it)| it.stretch.clone()).collect();
    if !told.is_empty() {
        verdict.stretches.entry(thread).or_default().extend(told);
    }
}

/// What a tier makes of a life.
struct TierHistory {
    tier: WaitTier,
    closings: Vec<Closing>,
    /// Facts that say what it waits in.
    waits: Vec<(usize, LoopWait)>,
}

/// How its waits were come back to, up to a fact.
struct TierCounts {
    wait: Option<LoopWait>,
    count: u64,
    seen_awake: u64,
    time: u64,
    unsure: u64,
    is_regular: bool,
}

impl TierHistory {
    fn counts(&self, limit: u64, at: usize) -> TierCounts {
        let wait = self.waits.iter().rfind(|(named, _)| *named <= at);
        let wait = wait.map(|(_, wait)| *wait);
        let closed: Vec<_> = self.closings.iter().filter(|it| it.at <= at).collect();
        let returns: Vec<_> =
            closed.iter().filter(|it| it.is_return && !it.stretch.may_be_longer).collect();
        let slept: Vec<_> = returns.iter().filter(|it| it.sleeps).collect();
        let (count, seen_awake) = (slept.len() as u64, (returns.len() - slept.len()) as u64);
        let over = returns.iter().filter(|it| own_time(&it.stretch) > limit).count();
        let short = slept.iter().filter(|it| it.is_shorter_than_wait).count();
        let seldom_long = over * 2 <= returns.len();
        let is_of_events = wait.is_some_and(LoopWait::is_of_events);
        let often = |count: u64| count >= LEAST_RETURNS;
        let is_regular = match self.tier {
            WaitTier::WithFutexes => often(count) && seldom_long && short * 2 >= slept.len(),
            WaitTier::Idle if is_of_events => often(count) || (often(seen_awake) && seldom_long),
            WaitTier::Idle => often(count) && seldom_long,
            WaitTier::Marked => true,
        };
        let time = returns.iter().map(|it| it.stretch.length()).sum();
        let unsure = closed.iter().filter(|it| it.is_unsure).count() as u64;
        TierCounts { wait, count, seen_awake, time, unsure, is_regular }
    }
}

/// Where a stretch begins.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    at: usize,
    may_be_longer: bool,
    is_awake: bool,
    waited: u64,
    /// The first fact since it last slept in a wait.
    run: usize,
}

/// How a stretch is closed.
#[derive(Clone, Copy, Debug)]
struct ClosingFact {
    at: usize,
    until: u64,
    end: StretchEnd,
    sleeps: bool,
    /// The last one that is known.
    wait: Option<LoopWait>,
}

impl TierHistory {
    fn of(limit: u64, thread: ThreadId, life: &Life, tier: WaitTier) -> Self {
        let (facts, mut found) = (&life.facts, Vec::new());
        let mut open: Option<Beginning> = None;
        let mut waits = Vec::new();
        for (at, (time, fact)) in facts.iter().enumerate() {
            let before = facts[..at].iter().rev().find(|(_, fact)| fact.is_state());
            let was_unknown = matches!(before, None | Some((_, Fact::Lost(_))));
            let was_waiting = before.filter(|(_, fact)| fact.wait_of(tier).is_some());
            let is_wait = |(_, it): &(u64, Fact)| match it {
                Fact::Sample(sample) => sample.wait.is_some(),
                it => it.wait_of(WaitTier::WithFutexes).is_some(),
            };
            let is_new = life.is_new && !facts[..at].iter().any(is_wait);
            let end = StretchEnd::Returned;
            let wait = waits.last().map(|(_, wait)| *wait);
            let mut closes = ClosingFact { at, until: *time, end, sleeps: false, wait };
            let new = Beginning { at, may_be_longer: false, is_awake: false, waited: 0, run: at };
            match fact {
                Fact::Lost(until) => {
                    closes.until = *until;
                    closes.end = StretchEnd::Unknown;
                    let open = open.take();
                    found.extend(open.and_then(|it| close(limit, thread, life, it, closes)));
                }
                fact if fact.wait_of(tier).is_some() => {
                    closes.wait = fact.wait_of(tier);
                    closes.sleeps = true;
                    waits.extend(closes.wait.map(|wait| (at, wait)));
                    let open = open.take();
                    found.extend(open.and_then(|it| close(limit, thread, life, it, closes)));
                }
                Fact::OnCpu(_) | Fact::Runnable | Fact::Asleep(_) => {
                    if let Some((since, _)) = was_waiting {
                        open = Some(Beginning { waited: time.saturating_sub(*since), ..new });
                    } else if was_unknown && !is_new && open.is_none() {
                        open = Some(Beginning { may_be_longer: true, ..new });
                    }
                }
                Fact::Sample(sample) => {
                    let Some(wait) = sample.wait else { continue };
                    let Some(begin) = open else {
                        if was_waiting.is_none() {
                            waits.push((at, wait));
                            open = Some(Beginning { is_awake: true, ..new });
                        }
                        continue;
                    };
                    let was_elsewhere = facts[begin.at + 1..at].iter().any(|(_, fact)| {
                        matches!(fact, Fact::Sample(it) if it.wait.is_none() && it.stack.is_some())
                    });
                    let mut run = facts[begin.run..at].iter();
                    let was_there =
                        run.any(|(_, fact)| matches!(fact, Fact::Sample(it) if it.wait.is_some()));
                    if was_elsewhere || was_there {
                        closes.wait = Some(wait);
                        waits.push((at, wait));
                        found.extend(close(limit, thread, life, begin, closes));
                        let Beginning { run, waited, .. } = begin;
                        open = Some(Beginning { is_awake: true, run, waited, ..new });
                    }
                }
            }
        }
        if let (Some(begin), Some((until, end))) = (open, life.end) {
            let (at, sleeps) = (facts.len(), false);
            let wait = waits.last().map(|(_, wait)| *wait);
            let closes = ClosingFact { at, until, end, sleeps, wait };
            found.extend(close(limit, thread, life, begin, closes));
        }
        Self { tier, closings: found, waits }
    }
}

fn close(
    limit: u64,
    thread: ThreadId,
    life: &Life,
    begin: Beginning,
    closes: ClosingFact,
) -> Option<Closing> {
    let ClosingFact { at, until, end, sleeps, wait } = closes;
    let (facts, is_return) = (&life.facts, end == StretchEnd::Returned);
    let since = facts[begin.at].0;
    let is_lost = end == StretchEnd::Unknown && until < last_time(&facts[..at]);
    let activity = match is_lost {
        true => StretchActivity::default(),
        false => activity_of(life, begin, (at, until)),
    };
    let run = facts[begin.run..facts.len().min(at + 1)].iter();
    let samples = run.filter_map(|(_, fact)| match fact {
        Fact::Sample(sample) => Some(sample),
        _ => None,
    });
    let samples: Vec<_> = samples.collect();
    let all = samples.iter().filter(|sample| sample.stack.is_some()).count() as u64;
    let in_wait = samples.iter().filter(|sample| sample.wait.is_some()).count() as u64;
    let is_awake = begin.is_awake || (is_return && !sleeps);
    let polls = is_awake && found_awake(&samples) >= LEAST_RETURNS;
    let length = until.saturating_sub(since);
    let is_unsure = length > limit && polls && activity.samples() * in_wait < all * ENOUGH_SAMPLES;
    let is_unseen = activity.on_cpu > limit && activity.stacks.is_empty();
    Some(Closing {
        at,
        is_return,
        sleeps,
        is_shorter_than_wait: length - activity.waiting.min(length) <= begin.waited,
        is_unsure,
        stretch: Stretch {
            thread,
            wait: wait?,
            since,
            until,
            may_be_longer: begin.may_be_longer,
            may_have_returned: !polls && (is_awake || is_unseen),
            end,
            activity,
        },
    })
}

/// How often a sample found the thread back: not where it may have been on its way out.
fn found_awake(samples: &[&LoopSample]) -> u64 {
    let mut seen = samples.iter().filter(|sample| sample.stack.is_some());
    let first = seen.next().is_some_and(|sample| sample.wait.is_some());
    let all = samples.iter().filter(|sample| sample.wait.is_some()).count() as u64;
    all - u64::from(first)
}

fn activity_of(life: &Life, begin: Beginning, end: (usize, u64)) -> StretchActivity<u8> {
    let (facts, (last, until)) = (&life.facts, end);
    let since = facts[begin.at].0;
    let mut activity = StretchActivity::default();
    let mut asleep = Vec::<(u8, u64)>::new();
    for (index, (from, fact)) in facts.iter().enumerate().take(last) {
        if !fact.is_state() {
            continue;
        }
        let next = facts[index + 1..last].iter().find(|(_, fact)| fact.is_state());
        let to = next.map_or(until, |(time, _)| *time).min(until);
        let time = to.saturating_sub((*from).max(since));
        match fact {
            Fact::OnCpu(_) => activity.on_cpu += time,
            Fact::Runnable => activity.waiting += time,
            Fact::Asleep(sleep) if time > 0 => {
                match asleep.iter_mut().find(|(what, _)| *what == sleep.what) {
                    Some((_, sum)) => *sum += time,
                    None => asleep.push((sleep.what, time)),
                }
            }
            _ => {}
        }
    }
    activity.asleep_others = asleep.iter().skip(MOST_SLEEPS).map(|(_, time)| *time).sum();
    let told = asleep.into_iter().take(MOST_SLEEPS);
    activity.asleep = told.map(|(what, time)| AsleepFor { what, time }).collect();
    let first = begin.at + usize::from(begin.is_awake);
    for (_, fact) in facts.iter().take(last + 1).skip(first) {
        let Fact::Sample(sample) = fact else { continue };
        let known = activity.stacks.iter().position(|it| Some(it.stack) == sample.stack);
        match (known, sample.stack) {
            (Some(known), _) => activity.stacks[known].count += 1,
            (None, Some(stack)) if activity.stacks.len() < MOST_STACKS => {
                activity.stacks.push(SampledStack { stack, count: 1 });
            }
            _ => activity.other_samples += 1,
        }
    }
    activity
}
