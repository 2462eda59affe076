//! Text as payloads hold it.

use std::borrow::Cow;
use std::fmt;

/// UTF-16 text, little-endian, without its final zero. It need not be aligned.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Utf16<'a>(pub &'a [u8]);

/// Text of single bytes, without its final zero: ASCII, or UTF-8 where the writer meant it so.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Ascii<'a>(pub &'a [u8]);

impl<'a> Utf16<'a> {
    /// Its characters; what is no character comes as the replacement character.
    pub fn characters(self) -> impl Iterator<Item = char> + 'a {
        let units = self.0.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        char::decode_utf16(units).map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.len() < 2
    }

    /// As a string; what is no character comes as the replacement character.
    pub fn to_string_lossy(self) -> String {
        let mut text = String::with_capacity(self.0.len() / 2);
        text.extend(self.characters());
        text
    }
}

impl<'a> Ascii<'a> {
    /// As a string; what is no UTF-8 comes as the replacement character.
    pub fn to_string_lossy(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.0)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.characters().try_for_each(|character| fmt::Write::write_char(f, character))
    }
}

impl fmt::Debug for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string_lossy(), f)
    }
}

impl fmt::Display for Ascii<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string_lossy())
    }
}

impl fmt::Debug for Ascii<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string_lossy(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_odd_length_and_half_a_pair_is_still_text() {
        let text = Utf16(&[0x41, 0, 0x00, 0xd8, 0x42, 0, 0x43]);
        assert_eq!(text.to_string_lossy(), "A\u{fffd}B");
        assert_eq!(text.to_string(), "A\u{fffd}B");
        assert_eq!(Ascii(&[b'a', 0xff]).to_string(), "a\u{fffd}");
    }
}
