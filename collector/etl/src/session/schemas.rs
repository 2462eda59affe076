//! What manifests say about kinds of events, where a merging tool put it into the file.

use crate::payload::{EventInfo, EventKey, EventSchema};
use crate::{Guid, Record};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Bytes of descriptions that are kept: those of some ten thousand kinds of events.
const MOST_BYTES: usize = 2 << 20;

/// What the file tells about kinds of events, each kind once.
///
/// Memory is bounded by the bytes of the descriptions, whatever their names refer to.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    known: FxHashMap<EventKey, EventSchema>,
    providers: FxHashMap<Guid, String>,
    bytes: usize,
}

impl Schemas {
    /// Takes a description; the first of a kind counts, and what is damaged does not.
    #[cold]
    pub(super) fn learn(&mut self, info: EventInfo<'_>) {
        if self.bytes + info.0.len() > MOST_BYTES {
            return;
        }
        let Some(schema) = info.parse() else { return };
        if let Entry::Vacant(place) = self.known.entry(schema.key) {
            self.bytes += info.0.len();
            if let EventKey::Manifest { provider, .. } = schema.key
                && !schema.provider_name.is_empty()
            {
                self.providers.entry(provider).or_insert_with(|| schema.provider_name.clone());
            }
            place.insert(schema);
        }
    }

    /// What is known about a record's kind.
    #[inline]
    pub(super) fn of(&self, record: &Record<'_>) -> Option<&EventSchema> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&EventKey::of(record)?)
    }

    /// The name of a provider, as its manifest says it.
    pub(super) fn provider(&self, guid: Guid) -> Option<&str> {
        self.providers.get(&guid).map(String::as_str)
    }

    /// The name of an event in any version, by provider or class, and id or type.
    pub(super) fn event_names(&self) -> FxHashMap<(Guid, u16), String> {
        let mut schemas: Vec<_> = self.known.values().collect();
        // The newest version is the last.
        schemas.sort_by_key(|schema| version(schema.key));
        let names = schemas.into_iter().map(|schema| {
            let key = match schema.key {
                EventKey::Manifest { provider, id, .. } => (provider, id),
                EventKey::Classic { class, opcode, .. } => (class, opcode.into()),
            };
            (key, schema.event_name())
        });
        names.filter(|(_, name)| !name.is_empty()).collect()
    }
}

fn version(key: EventKey) -> u16 {
    match key {
        EventKey::Manifest { version, .. } | EventKey::Classic { version, .. } => version,
    }
}
