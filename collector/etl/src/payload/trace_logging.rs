//! Events that describe themselves (TraceLogging): their schema lies in an
//! extended item, as `TraceLoggingProvider.h` of the Windows SDK writes it.

use super::{Ascii, Field};
use crate::Record;

/// Types of extended items.
const SCHEMA: u16 = 11;
const TRAITS: u16 = 12;

/// An event that describes itself, undecoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLogging<'a> {
    schema: &'a [u8],
    traits: &'a [u8],
    payload: &'a [u8],
    is_64_bit: bool,
}

impl<'a> TraceLogging<'a> {
    /// The event, if it describes itself.
    #[inline]
    pub(super) fn of(record: &Record<'a>) -> Option<Self> {
        if record.extended.0.is_empty() {
            return None;
        }
        let find = |kind| record.extended.clone().find(|item| item.kind == kind).map(|item| item.data);
        let traits = find(TRAITS).unwrap_or_default();
        Some(Self { schema: find(SCHEMA)?, traits, payload: record.payload, is_64_bit: record.is_64_bit })
    }

    /// Name of its provider, where the event carries it.
    pub fn provider_name(&self) -> Option<Ascii<'a>> {
        None
    }

    /// Its name.
    pub fn event_name(&self) -> Ascii<'a> {
        Ascii::default()
    }

    /// Its fields; those that could be decoded, where the payload ends early.
    pub fn fields(&self) -> Vec<Field> {
        Vec::new()
    }
}
