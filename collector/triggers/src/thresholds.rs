//! Values that cross what they may be: once until they came back.

use crate::cause::{Cause, Comparison, NamePattern};
use crate::found::{CANNOT_FIRE, FoundCause, Occurrence, TriggerSet, Triggers};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::Arc;
use syscollect_model::Unit;
use syscollect_records::CounterRecord;
use syscollect_store::{CounterDefinition, Producer, ProducerShares};

/// Values that are followed at a time.
const MOST_VALUES: usize = 1 << 16;
/// Names of counters that are kept, for whoever asks for one that is not there.
const MOST_NAMES: usize = 64;

/// Whose value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ValueSource {
    /// A counter of the recording, by its number.
    Counter(u64),
    /// A plot of that program, by its number.
    Plot(Producer, u32),
}

/// A counter that triggers ask for.
#[derive(Clone, Debug)]
struct AskedCounter {
    name: Arc<str>,
    unit: Arc<Unit<String>>,
    triggers: Arc<Triggers>,
}

/// Follows values.
#[derive(Debug, Default)]
pub(crate) struct Thresholds {
    /// By trigger.
    limits: FxHashMap<usize, (Comparison, f64)>,
    counters: Vec<(usize, NamePattern)>,
    /// The counters that are asked for.
    asked: FxHashMap<u64, AskedCounter>,
    /// What the counters are called that there are.
    known: BTreeSet<String>,
    /// Those that are beyond now.
    beyond: FxHashSet<(usize, ValueSource)>,
    /// How many of them are whose plots.
    shares: ProducerShares,
    /// Those for which there is something that is called as they ask.
    pub(crate) seen: TriggerSet,
    unfollowed: u64,
}

impl Thresholds {
    pub(crate) fn new<'c>(causes: impl Iterator<Item = (usize, &'c Cause)>) -> Self {
        let mut thresholds = Self::default();
        for (trigger, cause) in causes {
            let (comparison, value) = match cause {
                Cause::Counter(name, comparison, value) => {
                    thresholds.counters.push((trigger, name.clone()));
                    (*comparison, *value)
                }
                Cause::Plot(_, comparison, value) => (*comparison, *value),
                _ => continue,
            };
            thresholds.limits.insert(trigger, (comparison, value));
        }
        thresholds
    }

    /// Whether counters of the recording are asked for.
    pub(crate) fn are_asked(&self) -> bool {
        !self.counters.is_empty()
    }

    /// What the numbers of counters mean.
    pub(crate) fn add(&mut self, definitions: &[CounterDefinition]) {
        for CounterDefinition { counter, name, unit, .. } in definitions {
            if self.known.len() < MOST_NAMES {
                self.known.insert(name.clone());
            }
            let of = self.counters.iter().filter(|(_, pattern)| pattern.matches(name));
            let of: Vec<usize> = of.map(|(trigger, _)| *trigger).collect();
            if of.is_empty() {
                continue;
            }
            self.seen.add(&of);
            if self.asked.len() >= MOST_VALUES {
                self.unfollowed += 1;
                continue;
            }
            let (name, unit, triggers) =
                (name.as_str().into(), Arc::new(unit.clone()), Arc::new(of));
            self.asked.insert(*counter, AskedCounter { name, unit, triggers });
        }
    }

    /// Why a trigger's counter has no value, if there is none of that name.
    pub(crate) fn note(&self, trigger: usize) -> Option<String> {
        let is_missing = self.counters.iter().any(|(of, _)| *of == trigger)
            && !self.known.is_empty()
            && !self.seen.has(trigger);
        let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
        is_missing.then(|| format!("{CANNOT_FIRE}: there are the counters {}", known.join(", ")))
    }

    /// A counter has this value from now on.
    pub(crate) fn on_counter(
        &mut self,
        at: u64,
        record: &CounterRecord,
        found: &mut Vec<FoundCause>,
    ) {
        let Some(counter) = self.asked.get(&record.counter) else { return };
        let AskedCounter { name, unit, triggers } = counter.clone();
        let (source, value) = (ValueSource::Counter(record.counter), f64::from_bits(record.value));
        for trigger in triggers.iter().copied() {
            if self.crosses(trigger, source, value) {
                let (name, unit) = (Arc::clone(&name), Some(Arc::clone(&unit)));
                let what = Occurrence::Value { name, value, unit };
                found.push(FoundCause { trigger, at, tid: None, payer: None, what });
            }
        }
    }

    /// Whether this value is beyond what this trigger allows, and the one before was not.
    pub(crate) fn crosses(&mut self, trigger: usize, source: ValueSource, value: f64) -> bool {
        let Some((comparison, limit)) = self.limits.get(&trigger) else { return false };
        let key = (trigger, source);
        match comparison.holds(&value, limit) {
            true if self.beyond.contains(&key) => false,
            true if !self.has_room(source) => {
                self.unfollowed += 1;
                false
            }
            true => {
                if let ValueSource::Plot(producer, _) = source {
                    self.shares.add(producer, 1);
                }
                self.beyond.insert(key)
            }
            false => {
                if self.beyond.remove(&key) {
                    self.give_back(source);
                }
                false
            }
        }
    }

    /// Whether one more value that is beyond is followed.
    fn has_room(&self, source: ValueSource) -> bool {
        let free = MOST_VALUES.saturating_sub(self.beyond.len());
        match source {
            ValueSource::Counter(_) => free > 0,
            ValueSource::Plot(producer, _) => self.shares.room_for(producer, free) > 0,
        }
    }

    fn give_back(&mut self, source: ValueSource) {
        if let ValueSource::Plot(producer, _) = source {
            self.shares.remove(producer, 1);
        }
    }

    /// Values that were more than are followed at a time.
    pub(crate) fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// Programs have ended.
    pub(crate) fn forget(&mut self, is_over: impl Fn(ValueSource) -> bool) {
        for (_, source) in self.beyond.extract_if(|(_, source)| is_over(*source)) {
            if let ValueSource::Plot(producer, _) = source {
                self.shares.remove(producer, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_records::{RecordKind, Stamp};

    #[test]
    fn plots_of_one_user_leave_room_for_those_of_others() {
        let causes = [Cause::Plot(NamePattern("queue".into()), Comparison::Greater, 1.0)];
        let mut thresholds = Thresholds::new(causes.iter().enumerate());
        let enemy = Producer { user: 1_000, program: 1 };
        let honest = ValueSource::Plot(Producer { user: 1_001, program: 2 }, 7);
        let all = 2 * MOST_VALUES as u32;
        let taken =
            (0..all).filter(|plot| thresholds.crosses(0, ValueSource::Plot(enemy, *plot), 2.0));
        assert!(taken.count() < MOST_VALUES);
        assert!(thresholds.unfollowed() > 0);
        assert!(thresholds.crosses(0, honest, 2.0) && !thresholds.crosses(0, honest, 3.0));
        assert!(!thresholds.crosses(0, honest, 0.0) && thresholds.crosses(0, honest, 2.0));
        // Of a program that has ended nothing is left.
        thresholds.forget(|source| matches!(source, ValueSource::Plot(of, _) if of == enemy));
        assert_eq!((thresholds.beyond.len(), thresholds.shares.of_all()), (1, 1));
    }

    #[test]
    fn a_counter_is_found_once_until_it_came_back() {
        let causes = [Cause::Counter(NamePattern("CPU*".into()), Comparison::Greater, 90.0)];
        let mut thresholds = Thresholds::new(causes.iter().enumerate());
        let named = |counter, name: &str| CounterDefinition {
            counter,
            name: name.into(),
            ..CounterDefinition::default()
        };
        thresholds.add(&[named(1, "CPU usage"), named(2, "Memory used")]);
        let mut found = Vec::new();
        for (counter, value) in [(1, 90.0), (1, 91.0), (2, 99.0), (1, 95.0), (1, 10.0), (1, 100.0)]
        {
            let stamp = Stamp::new(0, RecordKind::Counter);
            let record = CounterRecord { stamp, counter, value: f64::to_bits(value) };
            thresholds.on_counter(5, &record, &mut found);
        }
        let values: Vec<_> = found
            .iter()
            .map(|found| match &found.what {
                Occurrence::Value { value, .. } => *value,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(values, [91.0, 100.0]);
        assert_eq!(thresholds.note(0), None);
        let causes = [Cause::Counter(NamePattern("CPU presure".into()), Comparison::Greater, 9.0)];
        let mut thresholds = Thresholds::new(causes.iter().enumerate());
        assert_eq!(thresholds.note(0), None, "nobody knows yet");
        thresholds.add(&[named(2, "Memory used"), named(1, "CPU pressure")]);
        let note = "it cannot: there are the counters CPU pressure, Memory used";
        assert_eq!(thresholds.note(0).as_deref(), Some(note));
    }
}
