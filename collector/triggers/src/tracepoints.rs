//! Tracepoints of the kernel whose fields are as asked for.

use crate::cause::{Cause, Condition, Operand};
use crate::found::{CANNOT_FIRE, FoundCause, Occurrence, TriggerSet};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_merge::{field_number, field_string};
use syscollect_records::{RecordKind, TracepointRecord};
use syscollect_store::{TracepointDefinition, TracepointField, TracepointFieldKind};

/// Tracepoints that are asked for.
const MOST_TRACEPOINTS: usize = 1 << 12;

#[derive(Debug)]
struct AskedTracepoint {
    name: Arc<str>,
    fields: Vec<TracepointField>,
}

/// Looks at tracepoints.
#[derive(Debug, Default)]
pub(crate) struct Tracepoints {
    /// By `subsystem:name`.
    asked: Vec<(usize, String, Vec<Condition>)>,
    tracepoints: FxHashMap<u32, AskedTracepoint>,
    /// Those whose tracepoint is recorded.
    pub(crate) seen: TriggerSet,
    /// Why triggers cannot fire whose tracepoint is.
    notes: FxHashMap<usize, String>,
}

impl Tracepoints {
    pub(crate) fn new<'c>(causes: impl Iterator<Item = (usize, &'c Cause)>) -> Self {
        let asked = causes.filter_map(|(trigger, cause)| match cause {
            Cause::Tracepoint(name, conditions) => {
                Some((trigger, name.clone(), conditions.clone()))
            }
            _ => None,
        });
        Self { asked: asked.collect(), ..Self::default() }
    }

    pub(crate) fn are_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// What their numbers mean.
    pub(crate) fn add(&mut self, definitions: &[TracepointDefinition]) {
        for TracepointDefinition { tracepoint, system, name, fields } in definitions {
            let name = format!("{system}:{name}");
            let asking = self.asked.iter().filter(|(_, asked, _)| *asked == name);
            let mut is_asked = false;
            for (trigger, _, conditions) in asking {
                is_asked = true;
                self.seen.add(&[*trigger]);
                let why = conditions.iter().find_map(|one| never(one, &name, fields));
                self.notes.extend(why.map(|why| (*trigger, why)));
            }
            if is_asked && self.tracepoints.len() < MOST_TRACEPOINTS {
                let asked = AskedTracepoint { name: name.into(), fields: fields.clone() };
                self.tracepoints.entry(*tracepoint).or_insert(asked);
            }
        }
    }

    /// Why a trigger cannot fire.
    pub(crate) fn note(&self, trigger: usize) -> Option<String> {
        self.notes.get(&trigger).cloned()
    }

    /// A record of a tracepoint.
    pub(crate) fn on(&self, at: u64, bytes: &[u8], found: &mut Vec<FoundCause>) {
        let Some(head) = TracepointRecord::from_bytes(bytes) else { return };
        if head.stamp.split().1 != RecordKind::Tracepoint as u8 {
            return;
        }
        let Some(tracepoint) = self.tracepoints.get(&head.tracepoint) else { return };
        let kept = bytes.get(TracepointRecord::SIZE..);
        let Some(bytes) = kept.and_then(|kept| kept.get(..usize::from(head.bytes))) else { return };
        for (trigger, name, conditions) in &self.asked {
            if **name == *tracepoint.name && tracepoint.fulfils(bytes, conditions) {
                let what = Occurrence::Hit { name: Arc::clone(&tracepoint.name) };
                // What an interrupt does is nobody's.
                let tid = (head.interrupt == 0 && head.tid != 0).then_some(head.tid);
                found.push(FoundCause { trigger: *trigger, at, tid, payer: None, what });
            }
        }
    }
}

/// Why the fields of a tracepoint are never so.
fn never(condition: &Condition, name: &str, fields: &[TracepointField]) -> Option<String> {
    let Condition { field, operand, .. } = condition;
    let Some(known) = fields.iter().find(|known| known.name == *field) else {
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        return Some(format!(
            "{CANNOT_FIRE}: {name} has no field {field}, but {}",
            names.join(", ")
        ));
    };
    let wanted = match operand {
        Operand::Number(_) => "number",
        Operand::String(_) => "text",
    };
    let has = match known.kind {
        TracepointFieldKind::Number if known.size <= 8 => "number",
        TracepointFieldKind::Number | TracepointFieldKind::Bytes => "",
        _ => "text",
    };
    (wanted != has).then(|| format!("{CANNOT_FIRE}: the field {field} of {name} is no {wanted}"))
}

impl AskedTracepoint {
    /// Whether the fields are so.
    fn fulfils(&self, bytes: &[u8], conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| {
            let field = self.fields.iter().find(|field| field.name == condition.field);
            field.is_some_and(|field| {
                if let Some(string) = field_string(bytes, field) {
                    return condition.of_string(&string);
                }
                let number = field_number(bytes, field);
                number.is_some_and(|number| {
                    // It is sign-extended where it is signed.
                    let value = if field.signed { number as i64 as f64 } else { number as f64 };
                    condition.of_number(value)
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Comparison;

    #[test]
    fn why_a_tracepoint_is_never_so_is_known_from_its_fields() {
        let asked = |name: &str, field: &str, operand| {
            let (field, comparison) = (field.into(), Comparison::Greater);
            Cause::Tracepoint(name.into(), vec![Condition { field, comparison, operand }])
        };
        let text = || Operand::String("x".into());
        let causes = [
            asked("oom:mark_victim", "pid", Operand::Number(1.0)),
            asked("task:task_rename", "comm", text()),
            asked("task:task_rename", "pid", text()),
            asked("task:task_rename", "newcomm", Operand::Number(1.0)),
            asked("task:task_rename", "newcomm", text()),
            asked("task:task_rename", "pid", Operand::Number(1.0)),
        ];
        let mut tracepoints = Tracepoints::new(causes.iter().enumerate());
        let field = |name: &str, size, kind| TracepointField {
            name: name.into(),
            size,
            kind,
            ..TracepointField::default()
        };
        let fields = vec![
            field("pid", 4, TracepointFieldKind::Number),
            field("newcomm", 16, TracepointFieldKind::Text),
        ];
        let (system, name) = ("task".into(), "task_rename".into());
        tracepoints.add(&[TracepointDefinition { tracepoint: 1, system, name, fields }]);
        let notes = (0..causes.len()).map(|trigger| tracepoints.note(trigger).unwrap_or_default());
        let expected = [
            "",
            "it cannot: task:task_rename has no field comm, but pid, newcomm",
            "it cannot: the field pid of task:task_rename is no text",
            "it cannot: the field newcomm of task:task_rename is no number",
            "",
            "",
        ];
        assert_eq!(notes.collect::<Vec<_>>(), expected);
        assert!(!tracepoints.seen.has(0) && tracepoints.seen.has(1));
    }
}
