//! What a record says, field by field.

/// A payload as 64-bit Windows writes it: fields one behind the other without padding, numbers
/// little-endian, pointers of eight bytes.
///
/// ```
/// use syscollect_tests::etl::Payload;
///
/// let payload = Payload::default().u32(7).pointer(0x1000).utf16("a");
/// assert_eq!(payload.bytes.len(), 4 + 8 + 4);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Payload {
    /// The bytes so far.
    pub bytes: Vec<u8>,
}

impl Payload {
    /// Bytes as they are.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// A number of two bytes.
    #[must_use]
    pub fn u16(self, value: u16) -> Self {
        self.raw(&value.to_le_bytes())
    }

    /// A number of four bytes.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.raw(&value.to_le_bytes())
    }

    /// Numbers of four bytes.
    #[must_use]
    pub fn u32s(self, values: &[u32]) -> Self {
        values.iter().fold(self, |payload, value| payload.u32(*value))
    }

    /// A number of eight bytes.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    /// An address, or the key of an object.
    #[must_use]
    pub fn pointer(self, value: u64) -> Self {
        self.u64(value)
    }

    /// Addresses.
    #[must_use]
    pub fn pointers(self, values: &[u64]) -> Self {
        values.iter().fold(self, |payload, value| payload.pointer(*value))
    }

    /// A text of two bytes a unit, with its final zero.
    #[must_use]
    pub fn utf16(self, text: &str) -> Self {
        text.encode_utf16().chain([0]).fold(self, Self::u16)
    }

    /// A text of one byte a letter, with its final zero.
    #[must_use]
    pub fn ascii(self, text: &str) -> Self {
        self.raw(text.as_bytes()).raw(&[0])
    }
}
