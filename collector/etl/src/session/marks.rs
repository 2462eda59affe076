//! Events of providers, as instants on the thread that wrote them.
//!
//! Not every event is something that happens. What describes a state that was there
//! before or stays there after the recording is counted and not drawn, or the
//! timeline would show thousands of marks where nothing happened: all
//! events of providers whose name ends in `Rundown`, those of the opcodes that
//! manifests share for the start and the end of data collection, and the
//! manifests that an `EventSource` writes into its own events.

use super::clr_stacks;
use super::context::Context;
use super::delay::PUSHED;
use super::gpu::Gpu;
use super::names;
use super::play::{Pending, Player, Target};
use super::schemas::Schemas;
use crate::payload::{self, Payload, TraceLogging};
use crate::{Class, Guid, Record};
use rustc_hash::FxHashMap;
use syscollect_model::{Event, Field, Fields, Scope, Slice, StringId, Tables, ThreadId, Value};
use syscollect_playback::EventType;

/// Opcodes that all manifests share: `win:DC_Start` and `win:DC_Stop`.
const DATA_COLLECTION: std::ops::RangeInclusive<u8> = 3..=4;
/// Id and task of the event by which an `EventSource` tells its manifest.
const MANIFEST: u16 = 0xfffe;
/// Fields of one event; more are left out.
const MOST_FIELDS: usize = 64;
/// Bytes of a text in a field.
const LONGEST_TEXT: usize = 512;

/// Names of providers and of their events, as they were found.
#[derive(Debug, Default)]
pub(super) struct ProviderNames {
    providers: FxHashMap<Guid, ProviderName>,
    events: FxHashMap<(Guid, u16, u8, u16), StringId>,
}

#[derive(Clone, Copy, Debug)]
struct ProviderName {
    name: StringId,
    /// Its events describe what is there.
    is_rundown: bool,
}

impl ProviderNames {
    /// The name of a provider: as its event says it, or its manifest in the file, or as it is
    /// generally known.
    fn provider(
        &mut self,
        guid: Guid,
        told: Option<&TraceLogging<'_>>,
        schemas: &Schemas,
        tables: &mut Tables,
    ) -> ProviderName {
        *self.providers.entry(guid).or_insert_with(|| {
            let told = told.and_then(TraceLogging::provider_name).filter(|name| !name.is_empty());
            let name = told.map(|name| name.to_string_lossy().into_owned());
            let name = name.or_else(|| schemas.provider(guid).map(str::to_owned));
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
    fn event(
        &mut self,
        (provider, id, opcode): (Guid, u16, u8),
        record: &Record<'_>,
        schemas: &Schemas,
        tables: &mut Tables,
    ) -> StringId {
        *self.events.entry((provider, id, opcode, record.version)).or_insert_with(|| {
            let name = schemas
                .of(record)
                .map(payload::EventSchema::event_name)
                .filter(|name| !name.is_empty());
            let name = name.or_else(|| names::event(provider, id).map(str::to_owned));
            tables.strings.intern(&name.unwrap_or_else(|| format!("Event {id}")))
        })
    }
}

impl Player<'_> {
    /// An event of a provider.
    pub(super) fn provider(&mut self, record: &Record<'_>) -> (u32, Target) {
        let Class::Provider { provider, id, .. } = record.class else {
            return (self.tid(record), Target::Nothing);
        };
        if clr_stacks::is_stack(&provider, id) {
            self.clr_stack(record);
            return (self.tid(record), Target::Nothing);
        }
        let thread =
            record.task.filter(|task| task.tid != u32::MAX).map(|task| self.thread(task.tid));
        if Gpu::wants(&provider) {
            self.with_gpu(thread, |gpu, context| gpu.record(context, record));
            return (self.tid(record), Target::Nothing);
        }
        let tid = self.tid(record);
        let slot = self.instant(record, thread);
        if provider == clr_stacks::RUNTIME {
            self.clr_events.wrote(tid, slot);
        }
        (tid, slot.map_or(Target::Nothing, Target::Slot))
    }

    /// An event as an instant, and the number of its slot; `None` where it is only counted.
    fn instant(&mut self, record: &Record<'_>, thread: Option<ThreadId>) -> Option<u64> {
        let Class::Provider { provider, id, opcode, task, .. } = record.class else { return None };
        let told = match payload::decode(record) {
            Payload::TraceLogging(told) => Some(told),
            Payload::Malformed => {
                self.undecodable += 1;
                return None;
            }
            _ => None,
        };
        let of = self.provider_names.provider(provider, told.as_ref(), self.schemas, self.tables);
        if of.is_rundown || DATA_COLLECTION.contains(&opcode) || (id, task) == (MANIFEST, MANIFEST)
        {
            return None;
        }
        let name = match told.as_ref().map(TraceLogging::event_name).filter(|name| !name.is_empty())
        {
            Some(name) => self.tables.strings.intern(&name.to_string_lossy()),
            None => {
                self.provider_names.event((provider, id, opcode), record, self.schemas, self.tables)
            }
        };
        let fields = match told {
            Some(told) => told.fields(),
            None => self.schemas.of(record).map(|schema| schema.fields(record)).unwrap_or_default(),
        };
        let slice =
            Slice { category: Some(of.name), fields: self.fields(fields), ..Slice::named(name) };
        Some(self.mark(record, thread, slice))
    }

    fn mark(&mut self, record: &Record<'_>, thread: Option<ThreadId>, slice: Slice) -> u64 {
        let scope = thread.map_or(Scope::Cpu(record.cpu.into()), Scope::Thread);
        let track = self.track(scope, self.words.events, 0);
        self.push(
            Some(EventType::ProviderEvent),
            Pending::Event(Box::new(Event::Instant(track, slice))),
            0,
            0,
        )
    }

    fn fields(&mut self, fields: Vec<payload::Field>) -> Fields {
        let strings = &mut self.tables.strings;
        let field =
            |field: payload::Field| Field::named(strings.intern(&field.name), value(field.value));
        fields.into_iter().take(MOST_FIELDS).map(field).collect()
    }

    /// Calls the state of the GPUs, and lets wait what it tells.
    pub(super) fn with_gpu(
        &mut self,
        thread: Option<ThreadId>,
        call: impl FnOnce(&mut Gpu, &mut Context<'_>),
    ) {
        let mut context = Context {
            now: self.now,
            thread,
            tables: self.tables,
            tracks: self.tracks,
            told: &mut self.told,
        };
        call(&mut self.gpu, &mut context);
        let mut told = std::mem::take(&mut self.told);
        for (kind, time, event) in told.drain(..) {
            if time >= self.now {
                self.push(kind, Pending::Event(Box::new(event)), 0, 0);
            } else {
                let rank = match event {
                    Event::SliceEnd(_) => PUSHED - 1,
                    Event::SliceBegin(..) => PUSHED + 1,
                    _ => PUSHED,
                };
                self.insert(kind, time, rank, event);
            }
        }
        self.told = told;
    }
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
