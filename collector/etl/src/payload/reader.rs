//! Reading a payload from its front.

use super::{Ascii, Utf16};
use crate::Guid;

/// A payload that is read from its front. Nothing is taken where there is too little.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    is_64_bit: bool,
}

macro_rules! integers {
    ($($name:ident $type:ty),*) => {
        $(
            #[inline]
            pub(crate) fn $name(&mut self) -> Option<$type> {
                self.array().map(<$type>::from_le_bytes)
            }
        )*
    };
}

impl<'a> Reader<'a> {
    /// Of a payload whose pointers have this width.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], is_64_bit: bool) -> Self {
        Self { bytes, is_64_bit }
    }

    integers!(u8 u8, u16 u16, u32 u32, u64 u64, i32 i32);

    /// A pointer, as wide as the payload's are.
    #[inline]
    pub(crate) fn pointer(&mut self) -> Option<u64> {
        if self.is_64_bit { self.u64() } else { self.u32().map(u64::from) }
    }

    /// The next bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// The next bytes, as many as the type says.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*taken)
    }

    /// Passes bytes over.
    #[inline]
    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        self.bytes(count).map(drop)
    }

    /// Passes pointers over.
    #[inline]
    pub(crate) fn skip_pointers(&mut self, count: usize) -> Option<()> {
        self.skip(count * self.pointer_size())
    }

    /// A GUID.
    pub(crate) fn guid(&mut self) -> Option<Guid> {
        self.array().map(Guid)
    }

    /// Text up to a zero byte, or to the end where there is none.
    #[inline]
    pub(crate) fn ascii(&mut self) -> Ascii<'a> {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(self.bytes.len());
        let (text, rest) = self.bytes.split_at(end);
        self.bytes = rest.get(1..).unwrap_or_default();
        Ascii(text)
    }

    /// UTF-16 text up to a zero, or to the end where there is none.
    #[inline]
    pub(crate) fn utf16(&mut self) -> Utf16<'a> {
        let units = self.bytes.chunks_exact(2).take_while(|unit| *unit != [0, 0]).count();
        let (text, rest) = self.bytes.split_at(units * 2);
        self.bytes = rest.get(2..).unwrap_or_default();
        Utf16(text)
    }

    /// UTF-16 text in a field of so many units.
    pub(crate) fn fixed_utf16(&mut self, units: usize) -> Option<Utf16<'a>> {
        let field = self.bytes(units * 2)?;
        Some(Reader::new(field, self.is_64_bit).utf16())
    }

    /// Passes the security identifier of a user over: nothing but a zero word,
    /// or two pointers, a revision, the number of its parts, and these.
    pub(crate) fn skip_sid(&mut self) -> Option<()> {
        let start = self.bytes;
        if self.u32()? == 0 {
            return Some(());
        }
        self.bytes = start;
        self.skip_pointers(2)?;
        let [_revision, parts] = self.array()?;
        self.skip(6 + 4 * usize::from(parts))
    }

    /// Bytes of a pointer.
    #[inline]
    pub(crate) fn pointer_size(&self) -> usize {
        if self.is_64_bit { 8 } else { 4 }
    }

    /// What is left.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}
