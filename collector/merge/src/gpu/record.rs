//! A tracepoint's record and its fields.

use crate::engine::Engine;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use syscollect_model::{
    Event, Field, Scope, Slice, StringId, Tables, ThreadId, Track, TrackKind, TrackRole, Value,
};
use syscollect_playback::Stopped;
use syscollect_records::TracepointRecord;
use syscollect_store::{TracepointDefinition, TracepointField, TracepointFieldKind};

/// Most fields of a tracepoint that is shown as it is.
const MOST_FIELDS: usize = 16;

/// Keeps rows of what tracepoints tell apart from those of other tracks of the same name.
pub(super) const TRACEPOINTS: u64 = 1 << 59;

/// A tracepoint of the recorded kernel.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoint {
    /// Its subsystem.
    pub(crate) system: String,
    /// Its name.
    pub(crate) name: String,
    /// The same as a string of the tables.
    pub(crate) label: StringId,
    fields: Vec<(StringId, TracepointField)>,
}

/// The tracepoints of a capture by number.
#[derive(Debug, Default)]
pub(crate) struct TracepointTable {
    tracepoints: FxHashMap<u32, Tracepoint>,
    has_scheduler: bool,
    has_requests: bool,
}

impl TracepointTable {
    /// Adds tracepoints; of one that is there already the first definition counts.
    pub(crate) fn add(&mut self, definitions: &[TracepointDefinition], tables: &mut Tables) {
        for definition in definitions {
            self.tracepoints.entry(definition.tracepoint).or_insert_with(|| {
                let fields = definition
                    .fields
                    .iter()
                    .map(|field| (tables.strings.intern(&field.name), field.clone()))
                    .collect();
                let label = tables.strings.intern(&definition.name);
                Tracepoint {
                    system: definition.system.clone(),
                    name: definition.name.clone(),
                    label,
                    fields,
                }
            });
        }
        let has_scheduler = self.has("gpu_scheduler", ["drm_sched_job", "drm_sched_job_queue"]);
        let has_requests = self.has("i915", ["i915_request_queue", "i915_request_add"]);
        (self.has_scheduler, self.has_requests) = (has_scheduler, has_requests);
    }

    fn has(&self, system: &str, names: [&str; 2]) -> bool {
        self.tracepoints.values().any(|tracepoint| {
            tracepoint.system == system && names.contains(&tracepoint.name.as_str())
        })
    }

    /// Whether the kernel tells of the jobs of its scheduler, in either generation of names.
    pub(crate) fn has_scheduler(&self) -> bool {
        self.has_scheduler
    }

    /// Whether it tells of the requests of i915.
    pub(crate) fn has_requests(&self) -> bool {
        self.has_requests
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Tracepoint> {
        self.tracepoints.get(&number)
    }
}

/// The number in a field of a tracepoint's record, sign-extended where it is signed; `bytes` are
/// those of the kernel's own record. `None` where it is no number, or was not kept.
pub fn field_number(bytes: &[u8], field: &TracepointField) -> Option<u64> {
    let start = usize::from(field.offset);
    let bytes = bytes.get(start..start + usize::from(field.size))?;
    if field.kind != TracepointFieldKind::Number || bytes.len() > 8 {
        return None;
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    let value = u64::from_le_bytes(word) << unused;
    Some(if field.signed { (value as i64 >> unused) as u64 } else { value >> unused })
}

/// The string in a field of a tracepoint's record, as far as it was kept; `None` where it is none.
pub fn field_string<'a>(bytes: &'a [u8], field: &TracepointField) -> Option<Cow<'a, str>> {
    let (offset, size) = (usize::from(field.offset), usize::from(field.size));
    let range = match field.kind {
        TracepointFieldKind::Text => offset..offset + size,
        TracepointFieldKind::TextElsewhere | TracepointFieldKind::TextRelative => {
            let place =
                bytes.get(offset..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
            let base = if field.kind == TracepointFieldKind::TextRelative { offset + 4 } else { 0 };
            let start = base + (place & 0xffff) as usize;
            start..start + (place >> 16) as usize
        }
        TracepointFieldKind::Number | TracepointFieldKind::Bytes => return None,
    };
    // A text that was not kept whole is shown as far as it was.
    let bytes = bytes.get(range.start..range.end.min(bytes.len()))?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]))
}

/// A record with what is known of its layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescribedRecord<'a> {
    pub(crate) head: TracepointRecord,
    pub(crate) tracepoint: &'a Tracepoint,
    /// The others that the kernel has.
    pub(crate) table: &'a TracepointTable,
    bytes: &'a [u8],
}

impl<'a> DescribedRecord<'a> {
    /// `None` where nobody has defined the tracepoint, or the record is cut.
    pub(crate) fn new(bytes: &'a [u8], table: &'a TracepointTable) -> Option<Self> {
        let head = TracepointRecord::from_bytes(bytes)?;
        let bytes = bytes.get(TracepointRecord::SIZE..)?.get(..usize::from(head.bytes))?;
        Some(Self { head, tracepoint: table.get(head.tracepoint)?, table, bytes })
    }

    fn field(&self, name: &str) -> Option<&'a TracepointField> {
        self.tracepoint.fields.iter().map(|(_, field)| field).find(|field| field.name == name)
    }

    /// The number in a field; `None` where there is no such field, or it was not kept.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.field(name).and_then(|field| self.number_of(field))
    }

    /// The first of several names that a field has had.
    pub(crate) fn one_of(&self, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|name| self.number(name))
    }

    /// The text in a field.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.field(name).and_then(|field| self.text_of(field))
    }

    fn number_of(&self, field: &TracepointField) -> Option<u64> {
        field_number(self.bytes, field)
    }

    fn text_of(&self, field: &TracepointField) -> Option<Cow<'a, str>> {
        field_string(self.bytes, field)
    }

    /// Its numbers that it has of these, as fields with labels.
    pub(super) fn labeled(
        &self,
        engine: &mut Engine<'_>,
        labels: &[(&str, &str)],
        value: fn(u64) -> Value,
    ) -> Vec<Field> {
        let known = labels.iter().filter_map(|(key, label)| Some((self.number(key)?, label)));
        known
            .map(|(number, label)| Field::named(engine.tables.strings.intern(label), value(number)))
            .collect()
    }

    /// The thread that was current; interrupts have none of their own.
    pub(super) fn thread(&self, engine: &mut Engine<'_>) -> Option<ThreadId> {
        let TracepointRecord { interrupt, tid, tgid, .. } = self.head;
        (interrupt == 0).then(|| engine.thread_of(tid, Some(tgid)))
    }

    /// Emits it with all its fields, beside the thread that did it: no rule knows more of it.
    pub(super) fn emit_as_instant(&self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        let name = engine.tables.strings.intern(&self.tracepoint.system);
        let thread = self.thread(engine).filter(|thread| *thread != Tables::IDLE_THREAD);
        let track = engine.track(
            Track {
                scope: thread.map_or(Scope::Machine(engine.machine), Scope::Thread),
                name,
                kind: TrackKind::Slices(TrackRole::Named),
            },
            TRACEPOINTS,
        );
        let slice = Slice { fields: self.fields(), ..Slice::named(self.tracepoint.label) };
        engine.emit(&Event::Instant(track, slice))
    }

    /// All that can be shown.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let fields = self.tracepoint.fields.iter().take(MOST_FIELDS);
        fields
            .filter_map(|(name, field)| Some(Field::named(*name, self.value_of(field)?)))
            .collect()
    }

    fn value_of(&self, field: &TracepointField) -> Option<Value> {
        match self.text_of(field) {
            Some(text) => Some(Value::Text(text.into())),
            None if field.signed => {
                self.number_of(field).map(|number| Value::Signed(number as i64))
            }
            None => self.number_of(field).map(Value::Unsigned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(
        name: &str,
        offset: u16,
        size: u16,
        signed: bool,
        kind: TracepointFieldKind,
    ) -> TracepointField {
        TracepointField { name: name.into(), offset, size, signed, kind }
    }

    fn table(fields: Vec<TracepointField>) -> TracepointTable {
        let definition = TracepointDefinition {
            tracepoint: 7,
            system: "dma_fence".into(),
            name: "emit".into(),
            fields,
        };
        let mut table = TracepointTable::default();
        table.add(&[definition], &mut Tables::default());
        table
    }

    fn record(bytes: &[u8]) -> Vec<u8> {
        let head = TracepointRecord {
            tracepoint: 7,
            bytes: bytes.len() as u16,
            ..TracepointRecord::default()
        };
        [head.as_bytes(), bytes].concat()
    }

    #[test]
    fn fields_are_read_by_name_wherever_this_kernel_put_them() {
        let table = table(vec![
            field("driver", 8, 4, false, TracepointFieldKind::TextElsewhere),
            field("context", 12, 4, false, TracepointFieldKind::Number),
            field("delta", 16, 2, true, TracepointFieldKind::Number),
            field("comm", 18, 6, false, TracepointFieldKind::Text),
            field("name", 24, 4, false, TracepointFieldKind::TextRelative),
        ]);
        let mut bytes = vec![0; 8];
        bytes.extend((32u32 | 5 << 16).to_le_bytes());
        bytes.extend(9u32.to_le_bytes());
        bytes.extend((-2i16).to_le_bytes());
        bytes.extend(b"comm\0?");
        bytes.extend((9u32 | 4 << 16).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(b"vgem\0gfx\0");
        let bytes = record(&bytes);
        let reading = DescribedRecord::new(&bytes, &table).unwrap();
        assert_eq!(reading.text("driver").as_deref(), Some("vgem"));
        assert_eq!(
            (reading.number("context"), reading.number("delta")),
            (Some(9), Some(-2i64 as u64))
        );
        assert_eq!(
            (reading.text("comm").as_deref(), reading.text("name").as_deref()),
            (Some("comm"), Some("gfx"))
        );
        assert_eq!((reading.number("driver"), reading.number("missing")), (None, None));
        assert_eq!(reading.one_of(&["seqno", "context"]), Some(9));
        assert_eq!(reading.fields().len(), 5);
    }

    proptest! {
        #[test]
        fn any_layout_over_any_bytes_is_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            layout in prop::collection::vec((any::<u16>(), any::<u16>(), any::<bool>(), 0u8..5), 0..8),
        ) {
            let kinds = [
                TracepointFieldKind::Number,
                TracepointFieldKind::Text,
                TracepointFieldKind::TextElsewhere,
                TracepointFieldKind::TextRelative,
                TracepointFieldKind::Bytes,
            ];
            let fields = layout.into_iter().map(|(offset, size, signed, kind)| {
                field("x", offset % 80, size, signed, kinds[usize::from(kind)])
            });
            let (table, bytes) = (table(fields.collect()), record(&bytes));
            if let Some(reading) = DescribedRecord::new(&bytes, &table) {
                reading.fields();
                reading.number("x");
                reading.text("x");
            }
        }
    }
}
