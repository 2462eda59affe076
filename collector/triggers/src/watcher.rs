//! Watches a recording that goes on.

use crate::cause::{Cause, DurationLimit, ExitCondition};
use crate::client_logs::ClientLogs;
use crate::duration_limit::TicksLimit;
use crate::error::TriggerError;
use crate::found::{FoundCause, MOST_TRIGGERS, Occurrence};
use crate::hits::Hits;
use crate::pace::{PaceVerdict, TriggerPace, UserCounts};
use crate::payers::{Payer, PayerRule};
use crate::scopes::Scopes;
use crate::threads::{KNOWN_AFTER_END_SECONDS, Threads};
use crate::thresholds::{Thresholds, ValueSource};
use crate::tracepoints::Tracepoints;
use crate::trigger::{Trigger, UserCondition};
use crate::waits::Waits;
use crate::zones::{TicksLimits, ZoneContext, Zones};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;
use syscollect_merge::{LiveRecord, LiveRecords};
use syscollect_model::{
    Lane, LaneKind, Ticks, Unit, bytes, duration, is_crash_signal, signal_name,
};
use syscollect_records::{RecordKind, TaskRecord};
use syscollect_store::{Chunk, Definition, KnownProcess, LeftOutChunks};

/// Firings of one trigger by one user that wait for [`Watcher::fired`] to be called: whatever fires
/// without end leaves room to what is rare.
const MOST_FIRINGS_OF_EACH: u32 = 16;
/// Firings of all, of which a user has as many as are left to others.
const MOST_FIRINGS: usize = 1024;
/// Users of whom it is told what came of their causes.
const MOST_USERS_TOLD: usize = 4;
/// Users of whom it is told apart what is usual, of all triggers: each may take 100 KB.
const MOST_USUAL_USERS: usize = 256;

/// How much younger the records of a chunk that was left out may be than what is decided on when
/// that is told, seconds: records are on their way for a fraction of that.
const BLIND_SECONDS: f64 = 1.0;

/// How often it is looked which zones do not end.
const LOOK_SECONDS: f64 = 0.1;

/// A trigger fired.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// Its name.
    pub trigger: String,
    /// Which of the watcher's triggers it is, from 0.
    pub index: u32,
    /// Where on the timeline its cause lies.
    pub at: Ticks,
    /// When that began, where it took time.
    pub began: Ticks,
    /// When the snapshot is to be taken.
    pub due: Ticks,
    /// The thread that it is about, if it is about one.
    pub tid: Option<u32>,
    /// Its process, where that is known.
    pub pid: Option<u32>,
    /// The user who caused it, where that is known and it is somebody's.
    pub user: Option<u32>,
    /// Whose share it takes.
    pub payer: Payer,
    /// What happened, in words: some of them are names that programs made up.
    pub reason: String,
    /// Only the last part of what is held is wanted.
    pub last: Option<Duration>,
}

/// How often a trigger's cause was seen, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TriggerStatus {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// How often its cause was seen.
    pub events: u64,
    /// How often it fired.
    pub fired: u64,
    /// How often it did not because it rested.
    pub paused: u64,
    /// How often it did not because there were as many snapshots as there may be.
    pub limited: u64,
    /// How often nothing came of it because more waited to be taken than may.
    pub crowded: u64,
    /// What its limit is now, where that depends on what is usual; why it cannot fire.
    pub note: String,
    /// The same of each user, of those with most.
    pub users: Vec<UserCounts>,
}

/// Watches a recording that goes on, see the [`crate`].
pub struct Watcher {
    triggers: Vec<WatchedTrigger>,
    records: LiveRecords,
    threads: Threads,
    hits: Hits,
    tracepoints: Tracepoints,
    logs: ClientLogs,
    zones: Zones,
    thresholds: Thresholds,
    scopes: Scopes,
    /// What needs to know how long a tick is.
    timed: Option<TimedCauses>,
    wants_waits: bool,
    wants_exits: bool,
    /// Kinds of lanes of which chunks were left out that no program wrote, and until when what is
    /// open may have ended in them; `None` until it is known how far the recording is.
    blind: FxHashMap<LaneKind, Option<u64>>,
    /// Programs that ended, and when: what they wrote before comes a moment later.
    ended_programs: VecDeque<(u64, Vec<u32>)>,
    found: Vec<FoundCause>,
    firings: Vec<Firing>,
    /// Of how many of them a user pays.
    paid: FxHashMap<Payer, usize>,
    /// Signals that were not decided on.
    signals: u32,
    /// All before was decided on.
    decided: u64,
}

/// A trigger with what came of it.
struct WatchedTrigger {
    trigger: Trigger,
    pace: TriggerPace,
    status: TriggerStatus,
}

struct TimedCauses {
    ticks_per_second: f64,
    waits: Option<Waits>,
    limits: TicksLimits,
    look_every: u64,
}

impl Watcher {
    /// Watches for these triggers.
    ///
    /// # Errors
    ///
    /// [`TriggerError`] where two have one name, one can never fire, or there are more than 64.
    pub fn new(triggers: Vec<Trigger>) -> Result<Self, TriggerError> {
        if triggers.len() > MOST_TRIGGERS {
            return Err(TriggerError::TooMany(triggers.len()));
        }
        for (index, trigger) in triggers.iter().enumerate() {
            if triggers[..index].iter().any(|before| before.name == trigger.name) {
                return Err(TriggerError::SameName(trigger.name.clone()));
            }
            if let Some(why) = trigger.never() {
                return Err(TriggerError::Never { name: trigger.name.clone(), why });
            }
            if let Some(UserCondition::Name(user)) = &trigger.user {
                return Err(TriggerError::UnknownUser(user.clone()));
            }
        }
        let causes = || triggers.iter().map(|trigger| &trigger.cause).enumerate();
        let is = |wanted: fn(&Cause) -> bool| causes().any(|(_, cause)| wanted(cause));
        Ok(Self {
            records: LiveRecords::default(),
            threads: Threads::default(),
            hits: Hits::new(causes()),
            tracepoints: Tracepoints::new(causes()),
            logs: ClientLogs::new(causes()),
            zones: Zones::new(causes()),
            thresholds: Thresholds::new(causes()),
            scopes: Scopes::new((0..).zip(&triggers)),
            timed: None,
            wants_waits: is(|cause| {
                matches!(
                    cause,
                    Cause::Waiting(..) | Cause::Blocked(..) | Cause::Uninterruptible(..)
                )
            }),
            wants_exits: is(|cause| matches!(cause, Cause::Exit(..) | Cause::Crash(_))),
            blind: FxHashMap::default(),
            ended_programs: VecDeque::new(),
            found: Vec::new(),
            firings: Vec::new(),
            paid: FxHashMap::default(),
            signals: 0,
            decided: 0,
            triggers: triggers.into_iter().map(WatchedTrigger::new).collect(),
        })
    }

    /// Who pays for what a user does, as for the ids that a user has besides; without this each
    /// user does.
    #[must_use]
    pub fn paid_by(mut self, payer: fn(u32) -> u32) -> Self {
        self.threads.payer_rule = PayerRule(payer);
        self
    }

    /// Whether chunks of such lanes are to be fed.
    pub fn wants(&self, kind: LaneKind) -> bool {
        match kind {
            LaneKind::Definition | LaneKind::Clock | LaneKind::Task => true,
            LaneKind::Sched => self.wants_waits,
            LaneKind::Counter => self.thresholds.are_asked(),
            LaneKind::Probe => self.hits.are_asked(),
            LaneKind::Tracepoint => self.tracepoints.are_asked(),
            LaneKind::Zone | LaneKind::ZoneLog => self.logs.are_asked(),
            _ => false,
        }
    }

    /// The next chunk of its lane.
    pub fn feed(&mut self, chunk: Chunk) {
        match chunk.header.lane.kind {
            LaneKind::Definition => self.define(&chunk.data),
            LaneKind::ZoneLog => self.logs.feed(&chunk.data),
            kind if self.wants(kind) => self.records.feed(chunk),
            _ => {}
        }
    }

    /// Chunks were left out here. The next one of their lane says so, too, but may come much later,
    /// and until then other lanes' records would be taken for the end of what ended in them: what
    /// is open is forgotten, and what begins beside them, in records that wait to be decided on or
    /// come soon, is not followed. Where a program wrote them, that holds for this program alone.
    pub fn left_out(&mut self, left_out: &LeftOutChunks) {
        match (left_out.lane.kind, left_out.producer) {
            (LaneKind::Zone, Some(producer)) => {
                self.zones.left_out(left_out.lane, producer.program);
            }
            (kind, _) => {
                self.blind.insert(kind, None);
            }
        }
    }

    /// Tells everyone whether records are missing beside those up to now, which come next.
    fn set_blind(&mut self, now: u64, timed: &mut TimedCauses) {
        let is_blind = |kind| self.blind.contains_key(&kind);
        if let Some(waits) = &mut timed.waits {
            waits.set_blind(is_blind(LaneKind::Sched));
        }
        self.hits.set_blind(is_blind(LaneKind::Probe));
        let longest = (BLIND_SECONDS * timed.ticks_per_second) as u64;
        let latest = now.saturating_add(longest);
        self.zones.set_blind(self.decided, latest);
        self.blind.retain(|_, until| now < *until.get_or_insert(latest));
    }

    fn define(&mut self, json: &[u8]) {
        // Lists of mappings and names are long, and not asked for.
        if !DEFINITIONS.iter().any(|name| Definition::is_named(json, name)) {
            return;
        }
        match Definition::from_json(json) {
            Ok(Some(Definition::Session(info))) => {
                self.records.describe(&info);
                if self.timed.is_none() && info.tick_rate_hz >= 1.0 {
                    self.begin(info.tick_rate_hz);
                }
            }
            Ok(Some(Definition::Processes(list))) => {
                list.iter().for_each(|process| self.threads.add(process));
                let waits = self.timed.as_mut().and_then(|timed| timed.waits.as_mut());
                waits.into_iter().for_each(|waits| see_sleepers(waits, &list));
            }
            Ok(Some(Definition::Clients(list))) => {
                self.records.add_programs(&list);
                self.logs.add_programs(&list);
            }
            Ok(Some(Definition::Counters(list))) => self.thresholds.add(&list),
            Ok(Some(Definition::Probes(list))) => self.hits.add(&list),
            Ok(Some(Definition::Tracepoints(list))) => self.tracepoints.add(&list),
            _ => {}
        }
    }

    fn begin(&mut self, ticks_per_second: f64) {
        let ticks = |time: Duration| (time.as_secs_f64() * ticks_per_second) as u64;
        let causes = || self.triggers.iter().map(|of| &of.trigger.cause).enumerate();
        let limits = causes().filter_map(|(trigger, cause)| match cause {
            Cause::Zone(_, limit)
            | Cause::Frame(_, limit)
            | Cause::Function(_, limit)
            | Cause::Pair(_, limit) => Some((trigger, *limit)),
            _ => None,
        });
        let is_usual = |limit: &DurationLimit| matches!(limit, DurationLimit::Percentile { .. });
        let usual = limits.clone().filter(|(_, limit)| is_usual(limit)).count();
        let most_users = MOST_USUAL_USERS / usual.max(1);
        let limits = limits.map(|(trigger, limit)| {
            (trigger, TicksLimit::new(limit, ticks_per_second, most_users))
        });
        let limits = limits.collect();
        let waits = Waits::new(causes(), ticks);
        let look_every = (LOOK_SECONDS * ticks_per_second) as u64;
        self.timed = Some(TimedCauses { ticks_per_second, waits, limits, look_every });
        self.threads.set_tick_rate(ticks_per_second);
        for WatchedTrigger { trigger, pace, .. } in &mut self.triggers {
            *pace = TriggerPace::new(trigger.limit, ticks(trigger.pause));
        }
    }

    /// No record of before these ticks comes any more: decides on all before.
    pub fn nothing_before(&mut self, now: Ticks) {
        self.records.nothing_before(now);
        let Some(mut timed) = self.timed.take() else { return };
        self.set_blind(now.0, &mut timed);
        // What was found is decided in between: it could be much.
        let mut records = std::mem::take(&mut self.records);
        records.take_each(|lane, at, record| {
            self.on(lane, at.0, record, &mut timed);
            if !self.found.is_empty() {
                self.decide(timed.ticks_per_second);
            }
        });
        self.records = records;
        if let Some(waits) = &mut timed.waits {
            waits.look(now.0, &self.threads, &mut self.found);
        }
        self.look_at_zones(now.0, &mut timed);
        self.look_at_signals(now.0);
        self.decide(timed.ticks_per_second);
        let known_for = (KNOWN_AFTER_END_SECONDS * timed.ticks_per_second) as u64;
        self.forget_programs(now.0.saturating_sub(known_for));
        self.timed = Some(timed);
        self.decided = self.decided.max(now.0);
    }

    /// Somebody sent the recorder so many signals, which is decided on next time.
    pub fn signalled(&mut self, times: u32) {
        self.signals = self.signals.saturating_add(times);
    }

    fn look_at_signals(&mut self, now: u64) {
        for _ in 0..std::mem::take(&mut self.signals) {
            let triggers = self.triggers.iter().zip(0..);
            let asked = triggers.filter(|(of, _)| of.trigger.cause == Cause::Signal);
            self.found.extend(asked.map(|(_, trigger)| FoundCause {
                trigger,
                at: now,
                tid: None,
                payer: None,
                what: Occurrence::Signal,
            }));
        }
    }

    fn look_at_zones(&mut self, now: u64, timed: &mut TimedCauses) {
        let Self { logs, thresholds, threads, scopes, found, ended_programs, .. } = self;
        let ended = ended_programs.iter().flat_map(|(_, clients)| clients);
        let ended: FxHashSet<u32> = ended.copied().collect();
        let (limits, look_every) = (&mut timed.limits, timed.look_every);
        let context =
            &mut ZoneContext { logs, limits, thresholds, threads, scopes, found, look_every };
        self.zones.look(now, |client| !ended.contains(&client), context);
    }

    #[inline]
    fn on(&mut self, lane: &Lane, at: u64, record: LiveRecord<'_>, timed: &mut TimedCauses) {
        let Self { threads, found, .. } = self;
        match record {
            LiveRecord::Sched(record) => {
                if let Some(waits) = &mut timed.waits {
                    waits.on(lane.index, at, &record.event, threads, found);
                }
            }
            LiveRecord::ChunkStart { current_tid, is_missing } => {
                if let (LaneKind::Sched, Some(waits)) = (lane.kind, &mut timed.waits) {
                    waits.chunk(lane.index, current_tid, is_missing);
                }
            }
            LiveRecord::Task(record) => self.on_task(at, record),
            LiveRecord::Counter(record) => self.thresholds.on_counter(at, record, found),
            LiveRecord::ZoneStart(chunk, is_missing) => {
                self.zones.chunk(*lane, chunk, is_missing);
            }
            LiveRecord::Zone(words) => {
                let Self { logs, thresholds, scopes, .. } = self;
                let TimedCauses { limits, look_every, .. } = timed;
                let look_every = *look_every;
                let context = &mut ZoneContext {
                    logs,
                    limits,
                    thresholds,
                    threads,
                    scopes,
                    found,
                    look_every,
                };
                self.zones.on(*lane, at, words, context);
            }
            LiveRecord::Hit(bytes) => {
                self.hits.on(at, bytes, &mut timed.limits, threads, &self.scopes, found);
            }
            LiveRecord::Tracepoint(bytes) => self.tracepoints.on(at, bytes, found),
            LiveRecord::Sample(_) => {}
            LiveRecord::Missing => {
                if lane.kind == LaneKind::Probe {
                    self.hits.missing();
                }
            }
        }
    }

    fn on_task(&mut self, at: u64, record: &TaskRecord) {
        self.threads.on(at, record);
        if RecordKind::from_number(record.stamp.split().1) != Some(RecordKind::Exit) {
            return;
        }
        let TaskRecord { tid, tgid, exit_code: status, .. } = *record;
        self.hits.ended(tid);
        // The first thread may be gone long before the others, or make room for one that begins
        // another program; of what ends all at once each thread has the code.
        if self.threads.runs(tgid) {
            return;
        }
        if self.wants_exits {
            let what = Occurrence::Ended { status };
            for (trigger, WatchedTrigger { trigger: Trigger { cause, .. }, .. }) in
                self.triggers.iter().enumerate()
            {
                let who = match cause {
                    Cause::Exit(who, how) if how.is_of(status) => who,
                    Cause::Crash(who) if is_crash_signal((status & 0x7f) as u8) => who,
                    _ => continue,
                };
                if self.threads.matches(tgid, who.as_ref()) {
                    let (tid, what) = (Some(tgid), what.clone());
                    self.found.push(FoundCause { trigger, at, tid, payer: None, what });
                }
            }
        }
        let clients = self.logs.take_clients_of(tgid);
        if !clients.is_empty() {
            self.ended_programs.push_back((at, clients));
        }
    }

    /// What programs called their zones is of no use any more, nor is what they had open, where
    /// they ended before that time.
    fn forget_programs(&mut self, before: u64) {
        let over = self.ended_programs.partition_point(|(at, _)| *at < before);
        if over == 0 {
            return;
        }
        let over = self.ended_programs.drain(..over);
        let clients: FxHashSet<u32> = over.flat_map(|(_, clients)| clients).collect();
        self.zones.forget(|client| clients.contains(&client));
        self.thresholds.forget(
            |source| matches!(source, ValueSource::Plot(of, _) if clients.contains(&of.program)),
        );
        self.logs.forget(&clients);
    }

    /// Decides which of what was found fires.
    fn decide(&mut self, ticks_per_second: f64) {
        // Who waits is found in no order, and the first may be the last that a limit allows.
        self.found.sort_by_key(|found| (found.at, found.trigger, found.tid));
        for found in std::mem::take(&mut self.found) {
            let FoundCause { trigger: index, at, tid, payer, what } = found;
            let user = self.threads.user_of(tid, payer);
            if !self.scopes.admit(index, tid, user, &self.threads) {
                continue;
            }
            let payer = self.threads.payer(user);
            let WatchedTrigger { trigger, pace, status } = &mut self.triggers[index];
            status.events += 1;
            let (verdict, share) = pace.on(payer, at, self.decided);
            let paid = self.paid.get(&payer).copied().unwrap_or(0);
            let is_crowded =
                share.waiting >= MOST_FIRINGS_OF_EACH || self.firings.len() + paid >= MOST_FIRINGS;
            match verdict {
                PaceVerdict::Paused => status.paused += 1,
                PaceVerdict::Limited => status.limited += 1,
                PaceVerdict::Fires if is_crowded => {
                    status.crowded += 1;
                    share.counts.crowded += 1;
                }
                PaceVerdict::Fires => {
                    status.fired += 1;
                    share.counts.fired += 1;
                    share.waiting += 1;
                    self.paid.insert(payer, paid + 1);
                    let after = (trigger.after.as_secs_f64() * ticks_per_second) as u64;
                    self.firings.push(Firing {
                        trigger: trigger.name.clone(),
                        index: index as u32,
                        at: Ticks(at),
                        began: Ticks(what.began(at)),
                        due: Ticks(at.saturating_add(after)),
                        tid,
                        pid: tid.and_then(|tid| self.threads.process(tid)),
                        user,
                        payer,
                        reason: what.reason(tid, user, &self.threads, ticks_per_second),
                        last: trigger.last,
                    });
                }
            }
        }
    }

    /// What fired since this was last called, in order of time.
    pub fn fired(&mut self) -> Vec<Firing> {
        let mut firings = std::mem::take(&mut self.firings);
        if !firings.is_empty() {
            self.triggers.iter_mut().for_each(|trigger| trigger.pace.taken());
            self.paid.clear();
        }
        firings.sort_by_key(|firing| firing.at);
        firings
    }

    /// What came of each trigger so far.
    pub fn statuses(&self) -> Vec<TriggerStatus> {
        let limits = self.timed.as_ref().map(|timed| &timed.limits);
        let statuses = self.triggers.iter().enumerate().map(|(trigger, of)| {
            let usual = limits.and_then(|limits| limits.get(&trigger)?.usual());
            let unseen = self.is_unseen(trigger).then(|| "nothing is called so yet".to_owned());
            let unseen = self.thresholds.note(trigger).or(unseen);
            let note = unseen.or(usual).or_else(|| self.hits.note(trigger));
            let note = note.or_else(|| self.tracepoints.note(trigger)).unwrap_or_default();
            let users = of.pace.counts(MOST_USERS_TOLD);
            TriggerStatus { note, users, ..of.status.clone() }
        });
        statuses.collect()
    }

    /// Whether nothing has the name yet that a trigger asks for.
    fn is_unseen(&self, trigger: usize) -> bool {
        let seen = match &self.triggers[trigger].trigger.cause {
            Cause::Zone(..) | Cause::Frame(Some(_), _) | Cause::Plot(..) => self.logs.seen,
            Cause::Function(..) | Cause::Pair(..) | Cause::Hit(..) => self.hits.seen,
            Cause::Counter(..) => self.thresholds.seen,
            Cause::Tracepoint(..) => self.tracepoints.seen,
            _ => return false,
        };
        !seen.has(trigger)
    }

    /// Threads, zones, calls and names that were more than are followed at a time.
    pub fn unfollowed(&self) -> u64 {
        let waits = self.timed.as_ref().and_then(|timed| timed.waits.as_ref());
        waits.map_or(0, Waits::unfollowed)
            + self.zones.unfollowed()
            + self.hits.unfollowed()
            + self.logs.unfollowed()
            + self.thresholds.unfollowed()
            + self.threads.unfollowed()
    }
}

/// Tells of the threads that were asleep when that was read.
fn see_sleepers(waits: &mut Waits, list: &[KnownProcess]) {
    for KnownProcess { threads, states_read, .. } in list {
        for thread in threads {
            if let Some(sleep) = &thread.asleep {
                waits.seen_asleep(thread.tid, sleep.state, states_read.0);
            }
        }
    }
}

impl WatchedTrigger {
    fn new(trigger: Trigger) -> Self {
        let status = TriggerStatus {
            name: trigger.name.clone(),
            text: trigger.to_string(),
            ..TriggerStatus::default()
        };
        Self { pace: TriggerPace::new(trigger.limit, 0), trigger, status }
    }
}

impl ExitCondition {
    /// Whether a process ended so that `wait` gives this.
    fn is_of(self, status: u32) -> bool {
        let (signal, code) = ((status & 0x7f) as u8, (status >> 8) as u8);
        match self {
            Self::Any => true,
            Self::Code(wanted) => signal == 0 && code == wanted,
            Self::Nonzero => signal == 0 && code != 0,
            Self::Signal(wanted) => signal == wanted,
        }
    }
}

impl Occurrence {
    /// In words.
    fn reason(
        &self,
        tid: Option<u32>,
        user: Option<u32>,
        threads: &Threads,
        ticks_per_second: f64,
    ) -> String {
        let time = |ticks: u64| duration((ticks as f64 / ticks_per_second * 1e9) as u64);
        let who = tid.map(|tid| threads.label(tid, user));
        let of = who.as_ref().map_or(String::new(), |who| format!(" in {who}"));
        let who = who.unwrap_or_default();
        match self {
            Self::Took { kind, name, ticks } => format!("{kind} {name} took {}{of}", time(*ticks)),
            Self::Stuck { kind, name, ticks, .. } => {
                format!("{kind} {name} has not ended for {}{of}", time(*ticks))
            }
            Self::Waited { how, ticks, .. } => format!("{who} {how} for {}", time(*ticks)),
            Self::Ended { status } => match (status & 0x7f, status >> 8 & 0xff) {
                (0, code) => format!("{who} ended with code {code}"),
                (signal, _) => format!("{who} was ended by {}", signal_name(signal as u8)),
            },
            Self::Hit { name } => format!("{name} was hit{of}"),
            Self::Message(text) => format!("message{of}: {text}"),
            Self::Value { name, value, unit } => {
                format!("{name} is {}{of}", value_text(*value, unit.as_deref()))
            }
            Self::Signal => "SIGUSR1".to_owned(),
        }
    }
}

/// A value with its unit, as people write it; a program's as it said it.
fn value_text(value: f64, unit: Option<&Unit<String>>) -> String {
    match unit {
        None => value.to_string(),
        Some(Unit::Bytes) => bytes(value.max(0.0) as u64),
        Some(unit) => format!("{value:.1} {}", unit.text()).trim_end().to_owned(),
    }
}

/// Definitions that are read, by their names in JSON.
const DEFINITIONS: [&str; 6] =
    ["session", "processes", "clients", "counters", "probes", "tracepoints"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_with_their_units() {
        for (value, unit, text) in [
            (69.082_513, Some(Unit::Percent), "69.1 %"),
            (3_538_558_976.0, Some(Unit::Bytes), "3.54 GB"),
            (12.0, Some(Unit::Number), "12.0"),
            (-5.5, None, "-5.5"),
        ] {
            assert_eq!(value_text(value, unit.as_ref()), text);
        }
    }
}
