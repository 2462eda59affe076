//! Hits of probes and functions: such whose arguments are as asked for, and calls and pairs that
//! take too long.

use crate::cause::{Cause, Condition, NamePattern};
use crate::found::{CANNOT_FIRE, FoundCause, Occurrence, TriggerSet, Triggers};
use crate::scopes::Scopes;
use crate::threads::Threads;
use crate::zones::TicksLimits;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_merge::{ArgumentLayout, ArgumentValue, Calls, Hit};
use syscollect_store::{ProbeArgument, ProbeDefinition, ProbeRole};

/// Threads of which it is followed what is open.
const MOST_THREADS: usize = 1 << 16;
/// Pairs that are open of a thread.
const MOST_OPEN: usize = 64;
/// Probes that are asked for.
const MOST_PROBES: usize = 1 << 16;

/// A probe that triggers ask for.
#[derive(Debug)]
struct AskedProbe {
    role: ProbeRole,
    pair: u32,
    /// Of a beginning: whether one may begin while another is open, where that is known.
    nests: Option<bool>,
    name: Arc<str>,
    arguments: Vec<ProbeArgument>,
    /// Those that want each hit.
    hits: Triggers,
    /// Those that want to know how long it took: of beginnings.
    durations: Triggers,
}

/// Calls of functions that are open on a thread.
#[derive(Debug, Default)]
struct OpenCalls {
    calls: Calls,
    /// In the same order.
    began: Vec<BegunHit>,
}

/// When something began, and by which probe: all functions are of one pair.
#[derive(Clone, Copy, Debug)]
struct BegunHit {
    at: u64,
    probe: u32,
}

/// What is open of a thread.
#[derive(Debug, Default)]
struct OpenProbes {
    calls: OpenCalls,
    pairs: Vec<(u32, BegunHit)>,
}

/// Follows hits.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    asked_hits: Vec<(usize, NamePattern, Vec<Condition>)>,
    asked_functions: Vec<(usize, NamePattern)>,
    asked_pairs: Vec<(usize, NamePattern)>,
    probes: FxHashMap<u32, AskedProbe>,
    /// By trigger, file and name: which of the probes there it counts.
    counted: FxHashMap<(usize, Arc<str>, Arc<str>), CountedProbes>,
    /// Those for which there is something that is called as they ask.
    pub(crate) seen: TriggerSet,
    open: FxHashMap<u32, OpenProbes>,
    /// Whatever is open may have ended in what is not seen.
    is_blind: bool,
    /// Hits, calls and pairs that were more than are followed at a time.
    unfollowed: u64,
    /// Arguments that triggers ask for and that no probe of theirs has.
    missing_arguments: FxHashMap<usize, Option<MissingArgument>>,
}

/// The probes at one place of a file that a trigger counts: a place that is recorded for several
/// purposes, as `--usdt` and in a `--zone`, has a probe for each, and all are hit at once.
#[derive(Debug)]
struct CountedProbes {
    role: ProbeRole,
    pair: u32,
    /// Whether they have the arguments that the trigger asks for.
    has_arguments: bool,
    probes: Vec<u32>,
}

/// A probe that has not the argument that is asked for.
#[derive(Debug)]
struct MissingArgument {
    probe: Arc<str>,
    argument: String,
    /// What it has.
    others: String,
}

impl Hits {
    pub(crate) fn new<'c>(causes: impl Iterator<Item = (usize, &'c Cause)>) -> Self {
        let mut hits = Self::default();
        for (trigger, cause) in causes {
            match cause {
                Cause::Hit(name, conditions) => {
                    hits.asked_hits.push((trigger, name.clone(), conditions.clone()));
                }
                Cause::Function(name, _) => hits.asked_functions.push((trigger, name.clone())),
                Cause::Pair(name, _) => hits.asked_pairs.push((trigger, name.clone())),
                _ => {}
            }
        }
        hits
    }

    pub(crate) fn are_asked(&self) -> bool {
        !(self.asked_hits.is_empty()
            && self.asked_functions.is_empty()
            && self.asked_pairs.is_empty())
    }

    /// What the numbers of probes mean.
    pub(crate) fn add(&mut self, definitions: &[ProbeDefinition]) {
        for definition in definitions {
            self.define(definition);
        }
    }

    fn define(&mut self, definition: &ProbeDefinition) {
        let ProbeDefinition { probe, role, pair, nests, name, arguments, .. } = definition;
        let asked = |asked: &[(usize, NamePattern)]| -> Triggers {
            let asked = asked.iter().filter(|(_, pattern)| pattern.matches(name));
            asked.map(|(trigger, _)| *trigger).collect()
        };
        let hits = self.asked_hits.iter().filter(|(_, pattern, _)| pattern.matches(name));
        // A return is no hit of the function.
        let hits: Triggers = match role.is_end() && *role != ProbeRole::ZoneEnd {
            true => Vec::new(),
            false => hits.map(|(trigger, ..)| *trigger).collect(),
        };
        let name: Arc<str> = name.as_str().into();
        let hits = self.counted_once(definition, &name, hits);
        self.note_arguments(&name, &hits, arguments);
        let durations = match role {
            ProbeRole::FunctionEntry => asked(&self.asked_functions),
            ProbeRole::ZoneBegin => asked(&self.asked_pairs),
            _ => Vec::new(),
        };
        self.seen.add(&hits);
        self.seen.add(&durations);
        if self.probes.len() >= MOST_PROBES {
            self.unfollowed += 1;
            return;
        }
        if !hits.is_empty() || !durations.is_empty() || role.is_end() {
            let (role, pair, nests) = (*role, *pair, *nests);
            let arguments = arguments.clone();
            let asked = AskedProbe { role, pair, nests, name, arguments, hits, durations };
            self.probes.entry(*probe).or_insert(asked);
        }
    }

    /// Those of the triggers that count the hits of this probe: where another is at the same place
    /// for another purpose, the first counts that has what is asked for.
    fn counted_once(
        &mut self,
        definition: &ProbeDefinition,
        name: &Arc<str>,
        hits: Triggers,
    ) -> Triggers {
        let ProbeDefinition { probe, role, pair, path, arguments, .. } = definition;
        let path: Arc<str> = path.as_str().into();
        let has_arguments = |asked: usize| {
            let asked = self.asked_hits.iter().filter(|(trigger, ..)| *trigger == asked);
            let mut conditions = asked.flat_map(|(.., conditions)| conditions);
            conditions.all(|condition| argument_of(arguments, condition).is_some())
        };
        let mut counts = hits;
        counts.retain(|trigger| {
            let has_arguments = has_arguments(*trigger);
            let key = (*trigger, path.clone(), name.clone());
            let counted = self.counted.entry(key).or_insert(CountedProbes {
                role: *role,
                pair: *pair,
                has_arguments,
                probes: Vec::new(),
            });
            if (counted.role, counted.pair) != (*role, *pair) {
                if counted.has_arguments || !has_arguments {
                    return false;
                }
                for other in counted.probes.drain(..) {
                    if let Some(other) = self.probes.get_mut(&other) {
                        other.hits.retain(|other| other != trigger);
                    }
                }
                (counted.role, counted.pair) = (*role, *pair);
            }
            counted.has_arguments |= has_arguments;
            counted.probes.push(*probe);
            true
        });
        counts
    }

    /// Notes which of the triggers that ask for this probe's hits ask for what it has not.
    fn note_arguments(&mut self, probe: &Arc<str>, hits: &Triggers, arguments: &[ProbeArgument]) {
        for (trigger, _, conditions) in &self.asked_hits {
            if !hits.contains(trigger) {
                continue;
            }
            let missing = conditions.iter().find(|one| argument_of(arguments, one).is_none());
            let Some(condition) = missing else {
                // One probe that has them all is enough.
                self.missing_arguments.insert(*trigger, None);
                continue;
            };
            self.missing_arguments.entry(*trigger).or_insert_with(|| {
                let (probe, argument) = (Arc::clone(probe), condition.field.clone());
                Some(MissingArgument { probe, argument, others: names_of(arguments) })
            });
        }
    }

    /// Why a trigger cannot fire.
    pub(crate) fn note(&self, trigger: usize) -> Option<String> {
        let MissingArgument { probe, argument, others } =
            self.missing_arguments.get(&trigger)?.as_ref()?;
        Some(format!("{CANNOT_FIRE}: {probe} has no argument {argument}, {others}"))
    }

    /// Hits, calls and pairs that were more than are followed at a time.
    pub(crate) fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// Hits are missing: what was open may have ended.
    pub(crate) fn missing(&mut self) {
        self.open.clear();
    }

    /// Whether hits of this time are missing that nothing tells of yet: nothing is timed then.
    pub(crate) fn set_blind(&mut self, is_blind: bool) {
        self.is_blind = is_blind;
        if is_blind {
            self.open.clear();
        }
    }

    /// A thread has ended.
    pub(crate) fn ended(&mut self, tid: u32) {
        self.open.remove(&tid);
    }

    /// A hit, behind all that was told before.
    pub(crate) fn on(
        &mut self,
        at: u64,
        bytes: &[u8],
        limits: &mut TicksLimits,
        threads: &Threads,
        scopes: &Scopes,
        found: &mut Vec<FoundCause>,
    ) {
        let Some(hit) = Hit::new(bytes) else { return };
        let Some(probe) = self.probes.get(&hit.record.probe) else { return };
        let tid = hit.record.tid;
        for (trigger, _, conditions) in &self.asked_hits {
            if probe.hits.contains(trigger) && probe.fulfils(&hit, conditions) {
                let what = Occurrence::Hit { name: Arc::clone(&probe.name) };
                let (trigger, tid) = (*trigger, Some(tid));
                found.push(FoundCause { trigger, at, tid, payer: None, what });
            }
        }
        let begins = !probe.durations.is_empty();
        if self.is_blind || !begins && !probe.role.is_end() {
            return;
        }
        if !begins && !self.open.contains_key(&tid) {
            return;
        }
        if self.open.len() >= MOST_THREADS && !self.open.contains_key(&tid) {
            self.unfollowed += 1;
            return;
        }
        let open = self.open.entry(tid).or_default();
        let sp = hit.record.stack_pointer;
        let begun = BegunHit { at, probe: hit.record.probe };
        let began = match probe.role {
            ProbeRole::FunctionEntry => {
                self.unfollowed += u64::from(!open.calls.enter(sp, probe.pair, begun));
                None
            }
            // The return address has been taken off the stack.
            ProbeRole::FunctionReturn => open.calls.exit(sp.wrapping_sub(8), probe.pair),
            ProbeRole::FunctionExit => open.calls.exit(sp, probe.pair),
            ProbeRole::ZoneBegin => {
                self.unfollowed += u64::from(!open.begin(probe, begun));
                None
            }
            ProbeRole::ZoneEnd => {
                let last = open.pairs.iter().rposition(|(pair, _)| *pair == probe.pair);
                last.map(|last| open.pairs.remove(last).1)
            }
            _ => None,
        };
        let kind = if probe.role == ProbeRole::ZoneEnd { "pair" } else { "function" };
        let Some(began) = began else { return };
        let Some(AskedProbe { name, durations, .. }) = self.probes.get(&began.probe) else {
            return;
        };
        let ticks = at.saturating_sub(began.at);
        let user = threads.user(tid);
        let payer = threads.payer(user);
        for trigger in durations.iter().copied() {
            if !scopes.admit(trigger, Some(tid), user, threads) {
                continue;
            }
            if limits.get_mut(&trigger).is_some_and(|limit| limit.is_exceeded(payer, ticks, at)) {
                let what = Occurrence::Took { kind, name: Arc::clone(name), ticks };
                found.push(FoundCause { trigger, at, tid: Some(tid), payer: None, what });
            }
        }
    }
}

impl OpenProbes {
    /// A zone of a pair begins; whether it takes no other's place that may end yet.
    fn begin(&mut self, probe: &AskedProbe, begun: BegunHit) -> bool {
        if probe.nests == Some(false) {
            // The one before is over, however it ended.
            self.pairs.retain(|(pair, _)| *pair != probe.pair);
        }
        let is_full = self.pairs.len() >= MOST_OPEN;
        if is_full {
            // The outermost, or one of which the end was never told. An end of this one must not be
            // taken for that of one before.
            self.pairs.remove(0);
        }
        self.pairs.push((probe.pair, begun));
        !is_full || probe.nests.is_none()
    }
}

impl OpenCalls {
    /// A call begins; whether it is followed.
    fn enter(&mut self, stack_pointer: u64, function: u32, begun: BegunHit) -> bool {
        if !self.calls.has_room() {
            return false;
        }
        let left = self.calls.enter(stack_pointer, function);
        self.began.truncate(self.began.len().saturating_sub(left));
        self.began.push(begun);
        true
    }

    /// The call that ends.
    fn exit(&mut self, entered: u64, function: u32) -> Option<BegunHit> {
        let end = self.calls.exit(entered, function);
        self.began.truncate(self.began.len().saturating_sub(end.unfinished));
        if end.ended { self.began.pop() } else { None }
    }
}

impl AskedProbe {
    /// Whether the arguments are so.
    fn fulfils(&self, hit: &Hit<'_>, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| {
            let argument = argument_of(&self.arguments, condition);
            let value = argument
                .and_then(|(index, argument)| hit.argument(index, ArgumentLayout::from(argument)));
            match value {
                Some(ArgumentValue::Text(text)) => condition.of_string(&text),
                Some(ArgumentValue::Unsigned(value) | ArgumentValue::Address(value)) => {
                    condition.of_number(value as f64)
                }
                Some(ArgumentValue::Signed(value)) => condition.of_number(value as f64),
                Some(ArgumentValue::Float(value)) => condition.of_number(value),
                Some(ArgumentValue::Unreadable) | None => false,
            }
        })
    }
}

/// The argument that a condition is about, and which it is.
fn argument_of<'a>(
    arguments: &'a [ProbeArgument],
    condition: &Condition,
) -> Option<(usize, &'a ProbeArgument)> {
    let by_name = arguments.iter().position(|it| it.name == condition.field);
    let index = by_name.or_else(|| condition.field.parse().ok())?;
    Some((index, arguments.get(index)?))
}

/// The arguments that there are, in words.
fn names_of(arguments: &[ProbeArgument]) -> String {
    match arguments {
        [] => "nor any other: of functions none are recorded, of USDT probes those that they tell"
            .into(),
        _ => {
            let names: Vec<&str> = arguments.iter().map(|it| it.name.as_str()).collect();
            format!("but {}", names.join(", "))
        }
    }
}
