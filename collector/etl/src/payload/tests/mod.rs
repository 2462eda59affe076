//! Payloads written by hand, of both bitnesses and all versions.

mod any_bytes;
mod disks;
mod metadata;
mod processes;
mod samples;
mod self_describing;
mod threads;

use super::{Payload, decode};
use crate::{Class, ExtendedItems, Guid, Record, Task};

/// A payload being written.
#[derive(Clone)]
struct Bytes {
    bytes: Vec<u8>,
    is_64_bit: bool,
}

impl Bytes {
    fn new(is_64_bit: bool) -> Self {
        Self { bytes: Vec::new(), is_64_bit }
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn u8(self, value: u8) -> Self {
        self.raw(&[value])
    }

    fn u16(self, value: u16) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    /// A pointer; on 32 bits its lower half.
    fn pointer(self, value: u64) -> Self {
        if self.is_64_bit { self.u64(value) } else { self.u32(value as u32) }
    }

    fn utf16(mut self, text: &str) -> Self {
        for unit in text.encode_utf16().chain([0]) {
            self = self.u16(unit);
        }
        self
    }

    fn ascii(self, text: &str) -> Self {
        self.raw(text.as_bytes()).u8(0)
    }

    /// The user of a process: two pointers and a security identifier of so many parts.
    fn user(mut self, parts: u8) -> Self {
        self = self.pointer(0xffff_a000_1234_5678).pointer(0).raw(&[1, parts, 0, 0, 0, 0, 0, 5]);
        (0..parts).fold(self, |bytes, part| bytes.u32(part.into()))
    }

    fn kernel(&self, group: u8, opcode: u8, version: u16) -> Record<'_> {
        self.record(Class::Kernel { group, opcode }, version)
    }

    fn classic(&self, class: Guid, opcode: u8) -> Record<'_> {
        self.record(Class::Classic { class, opcode }, 2)
    }

    fn record(&self, class: Class, version: u16) -> Record<'_> {
        Record {
            timestamp: 1_000,
            class,
            cpu: 0,
            task: Some(Task { pid: 40, tid: 44 }),
            version,
            is_64_bit: self.is_64_bit,
            payload: &self.bytes,
            extended: ExtendedItems::default(),
        }
    }
}

/// Every cut of the payload before its `needed` bytes is too short, and says so.
fn is_malformed_when_shorter(record: &Record<'_>, needed: usize) {
    for length in 0..needed {
        let cut = Record { payload: &record.payload[..length], ..*record };
        assert_eq!(decode(&cut), Payload::Malformed, "{length} bytes of {needed}");
    }
    assert_ne!(
        decode(&Record { payload: &record.payload[..needed], ..*record }),
        Payload::Malformed
    );
}

const BITNESSES: [bool; 2] = [false, true];

/// An address as a pointer of this width can hold it.
fn address(value: u64, is_64_bit: bool) -> u64 {
    if is_64_bit { value } else { value & 0xffff_ffff }
}
