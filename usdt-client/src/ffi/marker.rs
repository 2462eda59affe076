//! Typed markers: `struct syscollect_schema`.

use super::{sized_text, text, value};
use crate::arena::Arena;
use crate::log::{self, CachedNumber};
use crate::marker::{self, FieldValue, MAX_FIELDS, When};
use core::ffi::c_char;
use syscollect_zone_protocol::log::{EntryWords, SchemaField};
use syscollect_zone_protocol::{FieldFormat, MarkerPhase};

/// The type of a [`CValue`] that is a text.
const TEXT: u32 = 4;

/// `struct syscollect_field`.
#[repr(C)]
pub struct CField {
    name: *const c_char,
    label: *const c_char,
    format: u32,
}

/// `struct syscollect_schema`.
#[repr(C)]
pub struct CSchema {
    name: *const c_char,
    category: *const c_char,
    fields: *const CField,
    field_count: u32,
    number: CachedNumber,
}

/// `struct syscollect_value`.
#[repr(C)]
pub struct CValue {
    kind: u32,
    bits: u64,
    text: *const c_char,
}

/// `struct syscollect_when`.
#[repr(C)]
pub struct CWhen {
    ticks: u64,
    thread: u32,
}

/// The first [`MAX_FIELDS`] of what lies there.
///
/// # Safety
/// Null, or so many of them, which last as long as the result.
unsafe fn fields<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { core::slice::from_raw_parts(first, (count as usize).min(MAX_FIELDS)) }
}

impl CSchema {
    fn number(&self, arena: &Arena) -> u32 {
        self.number.or_define(arena, || {
            // SAFETY: whoever fills the struct says so: its parts last as long as the program.
            let (name, category, fields) = unsafe {
                (text(self.name), text(self.category), fields(self.fields, self.field_count))
            };
            let fields = fields.iter().map(|field| {
                // SAFETY: as above.
                let (name, label) = unsafe { (text(field.name), text(field.label)) };
                let format = u8::try_from(field.format).ok().and_then(FieldFormat::from_number);
                SchemaField {
                    name: name.as_bytes(),
                    label: label.as_bytes(),
                    format: format.unwrap_or(FieldFormat::Text),
                }
            });
            log::define(EntryWords::new().schema(name, category, fields), arena)
        })
    }
}

/// Records a marker, or half of one (phase 1 and 2), now or at another time.
///
/// # Safety
/// The schema and its parts last as long as the program; there are so many values as `count` says,
/// and their texts have their lengths or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_marker_recorded(
    schema: *const CSchema,
    phase: u8,
    when: *const CWhen,
    values: *const CValue,
    count: u32,
) {
    // SAFETY: as the caller says.
    let (schema, when) = unsafe { (schema.as_ref(), when.as_ref()) };
    let (Some(schema), Some(phase)) = (schema, MarkerPhase::from_number(phase)) else { return };
    // SAFETY: as the caller says.
    let values = unsafe { fields(values, count) };
    let mut fields = [FieldValue::Text(""); MAX_FIELDS];
    for (field, given) in fields.iter_mut().zip(values) {
        *field = match given.kind {
            // SAFETY: as the caller says.
            TEXT => FieldValue::Text(unsafe {
                sized_text(given.text, usize::try_from(given.bits).unwrap_or(usize::MAX))
            }),
            kind => FieldValue::Number(value(kind as u8, given.bits)),
        };
    }
    let when = when.map(|when| When { ticks: when.ticks, thread: when.thread });
    marker::record(phase, when, &fields[..values.len()], |arena| schema.number(arena));
}
