//! Tracepoints of the kernel whose fields are as asked for.

use crate::cause::{Cause, Condition};
use crate::found::{FoundCause, Occurrence};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_merge::{field_number, field_string};
use syscollect_records::{RecordKind, TracepointRecord};
use syscollect_store::{TracepointDefinition, TracepointField};

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
}

impl Tracepoints {
    pub(crate) fn new<'c>(causes: impl Iterator<Item = (usize, &'c Cause)>) -> Self {
        let asked = causes.filter_map(|(trigger, cause)| match cause {
            Cause::Tracepoint(name, conditions) => {
                Some((trigger, name.clone(), conditions.clone()))
            }
            _ => None,
        });
        Self { asked: asked.collect(), tracepoints: FxHashMap::default() }
    }

    pub(crate) fn are_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// What their numbers mean.
    pub(crate) fn add(&mut self, definitions: &[TracepointDefinition]) {
        for TracepointDefinition { tracepoint, system, name, fields } in definitions {
            let name = format!("{system}:{name}");
            let is_asked = self.asked.iter().any(|(_, asked, _)| *asked == name);
            if is_asked && self.tracepoints.len() < MOST_TRACEPOINTS {
                let asked = AskedTracepoint { name: name.into(), fields: fields.clone() };
                self.tracepoints.entry(*tracepoint).or_insert(asked);
            }
        }
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
                found.push(FoundCause { trigger: *trigger, at, tid, what });
            }
        }
    }
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
