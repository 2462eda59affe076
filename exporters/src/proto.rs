//! The protobuf wire format, as much of it as a writer needs.
//!
//! Source of fact: the encoding page of the Protocol Buffers documentation
//! (protobuf.dev/programming-guides/encoding).

/// Appends a base-128 varint.
#[inline]
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    // One reservation, then plain stores: this runs several times per event.
    let mut bytes = [0u8; 10];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    out.extend_from_slice(&bytes[..=length]);
}

/// A message whose fields are appended to a buffer.
pub(crate) struct Message<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Message<'a> {
    /// The fields of a message go to the end of `out`.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    #[inline]
    fn tag(&mut self, field: u32, wire_type: u32) {
        push_varint(self.out, u64::from(field << 3 | wire_type));
    }

    /// An unsigned integer, an enum or a bool.
    #[inline]
    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        self.tag(field, 0);
        push_varint(self.out, value);
    }

    /// A signed integer (int32, int64): negative ones take ten bytes.
    #[inline]
    pub(crate) fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value as u64);
    }

    /// A double.
    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// An integer of eight bytes (fixed64).
    pub(crate) fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, 1);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes, or packed varints, or a message that is already encoded.
    #[inline]
    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, 2);
        push_varint(self.out, value.len() as u64);
        self.out.extend_from_slice(value);
    }

    /// A string.
    pub(crate) fn string(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// A string that is left out when it is empty: an absent text means the same and takes no room.
    pub(crate) fn string_if(&mut self, field: u32, value: &str) {
        if !value.is_empty() {
            self.string(field, value);
        }
    }

    /// Fields that are already encoded.
    pub(crate) fn encoded(&mut self, fields: &[u8]) {
        self.out.extend_from_slice(fields);
    }

    /// A message inside this one.
    ///
    /// Its length stands before it and is known only after it. One byte is left
    /// for it, which suffices nearly always; a longer message is moved up.
    #[inline]
    pub(crate) fn message<R>(&mut self, field: u32, fill: impl FnOnce(&mut Message<'_>) -> R) -> R {
        self.tag(field, 2);
        let length_at = self.out.len();
        self.out.push(0);
        let result = fill(&mut Message { out: self.out });
        let length = self.out.len() - length_at - 1;
        if length < 0x80 {
            self.out[length_at] = length as u8;
        } else {
            self.make_room_for_length(length_at, length);
        }
        result
    }

    #[cold]
    fn make_room_for_length(&mut self, length_at: usize, length: usize) {
        let mut varint = Vec::with_capacity(10);
        push_varint(&mut varint, length as u64);
        self.out.splice(length_at..=length_at, varint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The reference decoder: as the encoding page describes it, bit by bit.
    fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
        let mut value = 0u128;
        for (index, byte) in bytes.iter().enumerate() {
            value |= u128::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Some((u64::try_from(value).ok()?, &bytes[index + 1..]));
            }
        }
        None
    }

    #[test]
    fn the_documentations_examples_come_out() {
        let mut out = Vec::new();
        Message::new(&mut out).uint(1, 150);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        Message::new(&mut out).string(2, "testing");
        assert_eq!(out, *b"\x12\x07testing");
        out.clear();
        Message::new(&mut out).message(3, |inner| inner.uint(1, 150));
        assert_eq!(out, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        out.clear();
        Message::new(&mut out).int(1, -2);
        assert_eq!(out, [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        out.clear();
        Message::new(&mut out).double(1, 1.0);
        assert_eq!(out, [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    }

    proptest! {
        #[test]
        fn every_integer_is_read_back(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            push_varint(&mut out, value);
            let shortest = (64 - value.leading_zeros()).div_ceil(7).max(1) as usize;
            prop_assert_eq!(out.len(), shortest);
            prop_assert_eq!(read_varint(&out), Some((value, &[][..])));
        }

        #[test]
        fn messages_of_any_length_nest(lengths in prop::collection::vec(0usize..40_000, 1..5)) {
            let mut out = Vec::new();
            fn nest(message: &mut Message<'_>, lengths: &[usize]) {
                let Some((length, rest)) = lengths.split_first() else { return };
                message.bytes(1, &vec![7; *length]);
                message.message(2, |inner| nest(inner, rest));
            }
            nest(&mut Message::new(&mut out), &lengths);
            let mut bytes = &out[..];
            for length in lengths {
                prop_assert_eq!(bytes[0], 0x0a);
                let (found, rest) = read_varint(&bytes[1..]).unwrap();
                prop_assert_eq!(found as usize, length);
                let rest = &rest[length..];
                prop_assert_eq!(rest[0], 0x12);
                let (found, rest) = read_varint(&rest[1..]).unwrap();
                prop_assert_eq!(found as usize, rest.len());
                bytes = rest;
            }
            prop_assert!(bytes.is_empty());
        }
    }
}
