//! Events of providers, as instants on the thread that wrote them.
//!
//! Not every event is something that happens. What describes a state that was there
//! before or stays there after the recording is counted and not drawn, or the
//! timeline would show thousands of marks where nothing happened: all
//! events of providers whose name ends in `Rundown`, those of the opcodes that
//! manifests share for the start and the end of data collection, and the
//! manifests that an `EventSource` writes into its own events.

use super::engine::{Engine, TraceEngine};
use super::names;
use super::schemas::Schemas;
use crate::payload::{self, Payload, TraceLogging};
use crate::{Class, Guid, Record};
use rustc_hash::FxHashMap;
use syscollect_model::{
    CpuId, Event, Field, Fields, Scope, Slice, StringId, Strings, Tables, ThreadId, Value,
};
use syscollect_playback::EventType;

/// Opcodes that all manifests share: `win:DC_Start` and `win:DC_Stop`.
const DATA_COLLECTION: std::ops::RangeInclusive<u8> = 3..=4;
/// Id and task of the event by which an `EventSource` tells its manifest.
const MANIFEST: u16 = 0xfffe;
/// Fields of one event; more are left out.
const MOST_FIELDS: usize = 64;
/// Bytes of a text in a field.
const LONGEST_TEXT: usize = 512;

/// Decodes events of providers, as far as nothing else does.
#[derive(Debug)]
pub(super) struct Providers<'a> {
    schemas: &'a Schemas,
    providers: FxHashMap<Guid, ProviderName>,
    /// Names of events that do not say them.
    events: FxHashMap<EventKind, StringId>,
}

#[derive(Clone, Copy, Debug)]
struct ProviderName {
    name: StringId,
    /// Its events describe what is there.
    is_rundown: bool,
}

/// What tells the kinds of events apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct EventKind {
    provider: Guid,
    id: u16,
    opcode: u8,
    version: u16,
}

impl<'a> Providers<'a> {
    pub(super) fn new(schemas: &'a Schemas) -> Self {
        Self { schemas, providers: FxHashMap::default(), events: FxHashMap::default() }
    }

    /// An event that this thread wrote. Gives the number under which it waits; `None` where it is
    /// only counted.
    pub(super) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        thread: Option<ThreadId>,
    ) -> Option<u64> {
        let Class::Provider { provider, id, opcode, task, .. } = record.class else { return None };
        let reported = match payload::decode(record) {
            Payload::TraceLogging(reported) => Some(reported),
            Payload::Malformed => {
                engine.source.undecodable += 1;
                return None;
            }
            _ => None,
        };
        let of = self.provider(provider, reported.as_ref(), &mut engine.tables);
        if of.is_rundown || DATA_COLLECTION.contains(&opcode) || (id, task) == (MANIFEST, MANIFEST)
        {
            return None;
        }
        let name =
            match reported.as_ref().map(TraceLogging::event_name).filter(|name| !name.is_empty()) {
                Some(name) => engine.tables.strings.intern(&name.to_string_lossy()),
                None => {
                    let kind = EventKind { provider, id, opcode, version: record.version };
                    self.event(kind, record, &mut engine.tables)
                }
            };
        let fields = match reported {
            Some(reported) => reported.fields(),
            None => self.schemas.of(record).map(|schema| schema.fields(record)).unwrap_or_default(),
        };
        let fields = named_fields(fields, &mut engine.tables.strings);
        let slice = Slice { category: Some(of.name), fields, ..Slice::named(name) };
        let scope = thread.map_or(Scope::Cpu(CpuId::new(record.cpu.into())), Scope::Thread);
        let track = engine.events_track(scope);
        Some(engine.push_event(EventType::ProviderEvent, Event::Instant(track, slice)))
    }

    /// The name of a provider: as its event says it, or its manifest in the file, or as it is
    /// generally known.
    fn provider(
        &mut self,
        guid: Guid,
        reported: Option<&TraceLogging<'_>>,
        tables: &mut Tables,
    ) -> ProviderName {
        *self.providers.entry(guid).or_insert_with(|| {
            let reported =
                reported.and_then(TraceLogging::provider_name).filter(|name| !name.is_empty());
            let name = reported.map(|name| name.to_string_lossy().into_owned());
            let name = name.or_else(|| self.schemas.provider(guid).map(str::to_owned));
            let name = name.or_else(|| names::provider(guid).map(str::to_owned));
            let name = name.unwrap_or_else(|| guid.to_string());
            ProviderName {
                name: tables.strings.intern(&name),
                is_rundown: name.ends_with("Rundown"),
            }
        })
    }

    /// The name of an event that does not say it: as its manifest in the file has it, or as it is
    /// generally known.
    fn event(&mut self, kind: EventKind, record: &Record<'_>, tables: &mut Tables) -> StringId {
        let EventKind { provider, id, .. } = kind;
        *self.events.entry(kind).or_insert_with(|| {
            let schema = self.schemas.of(record);
            let name = schema.map(payload::EventSchema::event_name).filter(|name| !name.is_empty());
            let name = name.or_else(|| names::event(provider, id).map(str::to_owned));
            tables.strings.intern(&name.unwrap_or_else(|| format!("Event {id}")))
        })
    }
}

fn named_fields(fields: Vec<payload::Field>, strings: &mut Strings) -> Fields {
    let fields = fields.into_iter().take(MOST_FIELDS);
    fields.map(|field| Field::named(strings.intern(&field.name), value(field.value))).collect()
}

/// A field's value in the model's terms.
fn value(value: payload::Value) -> Value {
    match value {
        payload::Value::Unsigned(number) => Value::Unsigned(number),
        payload::Value::Signed(number) => Value::Signed(number),
        payload::Value::Hex(number) => Value::Address(number),
        payload::Value::Float(number) => Value::Float(number),
        other => Value::Text(cut(other.to_string()).into()),
    }
}

/// A text no longer than a field's may be, which says where it was cut.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::engine::Engine;
    use crate::session::testing::{KeptEvents, record};

    /// A provider that nobody knows.
    const UNKNOWN: Guid = Guid([7; 16]);

    fn event(id: u16, opcode: u8, task: u16) -> Record<'static> {
        let class = Class::Provider { provider: UNKNOWN, id, opcode, level: 4, task, keyword: 0 };
        Record { class, ..record(5) }
    }

    /// Whether the event waits to be shown.
    fn is_shown(
        providers: &mut Providers<'_>,
        engine: &mut Engine<'_>,
        id: u16,
        opcode: u8,
    ) -> bool {
        let thread = engine.thread(7);
        providers.on(engine, &event(id, opcode, 0), Some(thread)).is_some()
    }

    #[test]
    fn an_event_of_an_unknown_kind_goes_by_its_number_and_its_providers_guid() {
        let schemas = Schemas::default();
        let (mut reported, mut providers) = (KeptEvents::default(), Providers::new(&schemas));
        reported.by(|engine| assert!(is_shown(&mut providers, engine, 12, 0)));
        let [(_, Event::Instant(track, slice))] = &reported.events[..] else {
            panic!("{:?}", reported.events);
        };
        let strings = &reported.tables.strings;
        assert_eq!(strings.get(slice.name), "Event 12");
        assert_eq!(slice.category.map(|name| strings.get(name)), Some(&*UNKNOWN.to_string()));
        let Scope::Thread(thread) = reported.tables.track(*track).scope else {
            panic!("{track:?}")
        };
        assert_eq!(reported.tables.thread(thread).tid, 7);
    }

    #[test]
    fn what_no_thread_wrote_lies_on_its_cpu() {
        let schemas = Schemas::default();
        let (mut reported, mut providers) = (KeptEvents::default(), Providers::new(&schemas));
        let on_cpu_3 = Record { cpu: 3, ..event(12, 0, 0) };
        reported.by(|engine| providers.on(engine, &on_cpu_3, None));
        let (_, Event::Instant(track, _)) = &reported.events[0] else {
            panic!("{:?}", reported.events)
        };
        assert_eq!(reported.tables.track(*track).scope, Scope::Cpu(CpuId::new(3)));
    }

    #[test]
    fn what_describes_a_state_is_counted_and_not_shown() {
        let schemas = Schemas::default();
        let (mut reported, mut providers) = (KeptEvents::default(), Providers::new(&schemas));
        reported.by(|engine| {
            let shown = [2, 3, 4, 5].map(|opcode| is_shown(&mut providers, engine, 12, opcode));
            assert_eq!(shown, [true, false, false, true], "3 and 4 are what was there");
            let manifest = event(MANIFEST, 0, MANIFEST);
            assert_eq!(providers.on(engine, &manifest, None), None);
            assert!(is_shown(&mut providers, engine, MANIFEST, 0), "of another task");
        });
        assert_eq!(reported.events.len(), 3);
    }
}
