//! Events of providers, as instants on the thread that wrote them.

use super::context::Context;
use super::delay::PUSHED;
use super::gpu::Gpu;
use super::kinds::Kind;
use super::names;
use super::play::{Pending, Player, Target};
use crate::payload::{self, Payload, TraceLogging};
use crate::{Class, Guid, Record};
use rustc_hash::FxHashMap;
use syscollect_model::{Event, Exporter, Field, Fields, Scope, Slice, StringId, Tables, ThreadId, Value};

/// Names of providers and of their events, as they were found.
#[derive(Debug, Default)]
pub(super) struct ProviderNames {
    providers: FxHashMap<Guid, StringId>,
    events: FxHashMap<(Guid, u16, u8), StringId>,
}

impl ProviderNames {
    fn provider(&mut self, guid: Guid, told: Option<&TraceLogging<'_>>, tables: &mut Tables) -> StringId {
        *self.providers.entry(guid).or_insert_with(|| {
            let told = told.and_then(TraceLogging::provider_name).filter(|name| !name.is_empty());
            let name = told.map(|name| name.to_string_lossy().into_owned());
            let name = name.or_else(|| names::provider(guid).map(str::to_owned));
            tables.strings.intern(&name.unwrap_or_else(|| guid.to_string()))
        })
    }

    fn event(&mut self, (guid, id, opcode): (Guid, u16, u8), tables: &mut Tables) -> StringId {
        *self.events.entry((guid, id, opcode)).or_insert_with(|| {
            let name = names::event(guid, id).map(str::to_owned);
            tables.strings.intern(&name.unwrap_or_else(|| format!("Event {id}")))
        })
    }
}

impl<E: Exporter> Player<'_, E> {
    /// An event of a provider.
    pub(super) fn provider(&mut self, record: &Record<'_>) -> (u32, Target) {
        let Class::Provider { provider, id, opcode, .. } = record.class else {
            return (self.tid(record), Target::Nothing);
        };
        let thread = record.task.filter(|task| task.tid != u32::MAX).map(|task| self.thread(task.tid));
        if Gpu::wants(&provider) {
            self.with_gpu(thread, |gpu, context| gpu.record(context, record));
            return (self.tid(record), Target::Nothing);
        }
        let told = match payload::decode(record) {
            Payload::TraceLogging(told) => Some(told),
            Payload::Malformed => {
                self.undecodable += 1;
                return (self.tid(record), Target::Nothing);
            }
            _ => None,
        };
        let category = Some(self.provider_names.provider(provider, told.as_ref(), self.tables));
        let name = match told.as_ref().map(TraceLogging::event_name).filter(|name| !name.is_empty()) {
            Some(name) => self.tables.strings.intern(&name.to_string_lossy()),
            None => self.provider_names.event((provider, id, opcode), self.tables),
        };
        let fields = told.map(|told| self.fields(&told)).unwrap_or_default();
        let slice = Slice { category, fields, ..Slice::named(name) };
        let number = self.mark(record, thread, slice);
        (self.tid(record), Target::Slot(number))
    }

    fn mark(&mut self, record: &Record<'_>, thread: Option<ThreadId>, slice: Slice) -> u64 {
        let scope = thread.map_or(Scope::Cpu(record.cpu.into()), Scope::Thread);
        let track = self.track(scope, self.words.events, 0);
        self.push(Some(Kind::Provider), Pending::Event(Box::new(Event::Instant(track, slice))), 0, 0)
    }

    fn fields(&mut self, told: &TraceLogging<'_>) -> Fields {
        let strings = &mut self.tables.strings;
        let field = |field: payload::Field| Field { name: strings.intern(&field.name), value: value(field.value) };
        told.fields().into_iter().map(field).collect()
    }

    /// Calls the state of the GPUs, and lets wait what it tells.
    pub(super) fn with_gpu(&mut self, thread: Option<ThreadId>, call: impl FnOnce(&mut Gpu, &mut Context<'_>)) {
        let mut context =
            Context { now: self.now, thread, tables: self.tables, tracks: self.tracks, told: &mut self.told };
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
        other => Value::Text(other.to_string().into()),
    }
}
