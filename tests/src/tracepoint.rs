//! A kernel tracepoint of a fake machine, laid out as kernels lay them out.

use syscollect_records::TracepointRecord;
use syscollect_store::{Definition, TracepointDefinition, TracepointField, TracepointFieldKind};

use crate::FakeMachine;

/// Bytes of the fields that all tracepoints have.
const COMMON_BYTES: u16 = 8;
/// Bytes of a place that says where a text is.
const PLACE_BYTES: u16 = 4;

/// A field's name, and how many bytes it has; [`TEXT`] for a text that lies behind the fixed part.
pub type FakeField<'a> = (&'a str, u16);
/// Stands for the size of a text.
pub const TEXT: u16 = 0;

/// A field's value.
#[derive(Clone, Copy, Debug)]
pub enum FakeValue<'a> {
    /// As many bytes of it as the field has.
    Number(u64),
    /// A text of any length.
    Text(&'a str),
}

impl From<u64> for FakeValue<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for FakeValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

/// A tracepoint whose records a test writes.
#[derive(Clone, Debug)]
pub struct FakeTracepoint {
    definition: TracepointDefinition,
}

impl FakeTracepoint {
    /// Defines it; each field lies at the next place that its size allows.
    pub fn new(
        machine: &mut FakeMachine,
        number: u32,
        (system, name): (&str, &str),
        fields: &[FakeField<'_>],
    ) -> Self {
        let mut end = COMMON_BYTES;
        let fields = fields
            .iter()
            .map(|(name, size)| {
                let (kind, size) = match *size {
                    TEXT => (TracepointFieldKind::TextElsewhere, PLACE_BYTES),
                    size => (TracepointFieldKind::Number, size),
                };
                let offset = end.next_multiple_of(size);
                end = offset + size;
                TracepointField { name: (*name).to_owned(), offset, size, signed: false, kind }
            })
            .collect();
        let definition = TracepointDefinition {
            tracepoint: number,
            system: system.to_owned(),
            name: name.to_owned(),
            fields,
        };
        machine.define(&Definition::Tracepoints(vec![definition.clone()]));
        Self { definition }
    }

    /// A thread comes by; the values are those of the fields in their order.
    pub fn fire(
        &self,
        machine: &mut FakeMachine,
        (cpu, us): (u16, u64),
        tid: u32,
        values: &[FakeValue<'_>],
    ) {
        self.record(machine, (cpu, us), tid, 0, values);
    }

    /// An interrupt comes by while a thread is current.
    pub fn interrupt(
        &self,
        machine: &mut FakeMachine,
        (cpu, us): (u16, u64),
        tid: u32,
        values: &[FakeValue<'_>],
    ) {
        self.record(machine, (cpu, us), tid, 1, values);
    }

    fn record(
        &self,
        machine: &mut FakeMachine,
        (cpu, us): (u16, u64),
        tid: u32,
        interrupt: u16,
        values: &[FakeValue<'_>],
    ) {
        let fields = &self.definition.fields;
        assert_eq!(fields.len(), values.len(), "{} has other fields", self.definition.name);
        let end =
            fields.iter().map(|field| field.offset + field.size).max().unwrap_or(COMMON_BYTES);
        let mut bytes = vec![0; usize::from(end)];
        for (field, value) in fields.iter().zip(values) {
            let (number, text) = match value {
                FakeValue::Number(number) => (*number, ""),
                FakeValue::Text(text) => {
                    ((text.len() as u64 + 1) << 16 | bytes.len() as u64, *text)
                }
            };
            let (at, size) = (usize::from(field.offset), usize::from(field.size));
            bytes[at..at + size].copy_from_slice(&number.to_le_bytes()[..size]);
            if let FakeValue::Text(_) = value {
                bytes.extend(text.bytes().chain([0]));
            }
        }
        let head = TracepointRecord {
            tid,
            tgid: tid,
            tracepoint: self.definition.tracepoint,
            interrupt,
            ..TracepointRecord::default()
        };
        machine.tracepoint(cpu, us, head, &bytes);
    }
}
