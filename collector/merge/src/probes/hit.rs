//! A hit and its arguments.

use std::borrow::Cow;
use syscollect_records::{PROBE_HAS_STACK, ProbeRecord, stack_id};
use syscollect_store::ProbeArgument;

/// A hit of a probe as it was written.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// What stands before its arguments.
    pub record: ProbeRecord,
    words: &'a [u8],
    strings: &'a [u8],
}

/// How a probe's argument is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentLayout {
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// It is a signed number.
    pub signed: bool,
    /// It is an IEEE number of `size` bytes.
    pub float: bool,
    /// `Some(true)`: a string. `Some(false)`: a number. `None`: a string where what was read looks
    /// like one.
    pub text: Option<bool>,
}

impl From<&ProbeArgument> for ArgumentLayout {
    fn from(argument: &ProbeArgument) -> Self {
        let ProbeArgument { size, signed, float, text, .. } = *argument;
        Self { size, signed, float, text }
    }
}

/// What an argument was.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgumentValue<'a> {
    /// A string, as far as it was kept.
    Text(Cow<'a, str>),
    /// A number without a sign.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// An IEEE number.
    Float(f64),
    /// It led to something that is no text.
    Address(u64),
    /// It could not be read.
    Unreadable,
}

impl<'a> Hit<'a> {
    /// Reads a hit; `None` where its words do not fit into it.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let record = ProbeRecord::from_bytes(bytes)?;
        let behind = bytes.get(ProbeRecord::SIZE..)?;
        let (words, strings) = behind.split_at_checked(usize::from(record.arguments) * 8)?;
        Some(Self { record, words, strings })
    }

    /// The id of its user stack; of none where it was recorded without.
    pub(crate) fn stack(&self) -> u32 {
        let has_stack = self.record.unreadable & PROBE_HAS_STACK != 0;
        // Behind all that came with it.
        let word = self.strings.last_chunk::<8>().filter(|_| has_stack);
        word.map_or(stack_id::NONE, |word| u64::from_le_bytes(*word) as u32)
    }

    /// The word of an argument.
    pub(crate) fn word(&self, index: usize) -> Option<u64> {
        let bytes = self.words.get(index.checked_mul(8)?..)?;
        self.readable(index).then_some(u64::from_le_bytes(*bytes.first_chunk()?))
    }

    fn readable(&self, index: usize) -> bool {
        index >= 32 || self.record.unreadable >> index & 1 == 0
    }

    /// The text that was read of an argument.
    pub(crate) fn text(&self, index: usize) -> Option<&'a [u8]> {
        if index >= 8 || self.record.texts >> index & 1 == 0 {
            return None;
        }
        let before = (self.record.texts & ((1u16 << index) - 1) as u8).count_ones();
        let mut rest = self.strings;
        for _ in 0..before {
            rest = rest.get(text_of(rest)?.1..)?;
        }
        text_of(rest).map(|(text, _)| text)
    }

    /// What an argument was; `None` where the hit has no such argument.
    pub fn argument(&self, index: usize, argument: ArgumentLayout) -> Option<ArgumentValue<'a>> {
        if index >= usize::from(self.record.arguments) {
            return None;
        }
        let text = self.text(index).filter(|_| argument.text != Some(false));
        if let Some(text) = text.filter(|text| argument.text == Some(true) || is_words(text)) {
            return Some(ArgumentValue::Text(String::from_utf8_lossy(text)));
        }
        let Some(word) = self.word(index) else { return Some(ArgumentValue::Unreadable) };
        Some(match argument.text {
            Some(true) => ArgumentValue::Address(word),
            _ if text.is_some() => ArgumentValue::Address(word),
            _ => number(word, argument),
        })
    }
}

/// The text at the start of these bytes, and how many bytes it takes in all.
fn text_of(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let length = usize::from(u16::from_le_bytes(*bytes.first_chunk()?));
    let text = bytes.get(4..4 + length)?;
    Some((text, (4 + length).next_multiple_of(8)))
}

/// Whether bytes look like a text that somebody wrote.
fn is_words(bytes: &[u8]) -> bool {
    // A text that was cut may end inside a character.
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.is_empty()
        && text
            .chars()
            .all(|character| !character.is_control() || matches!(character, '\t' | '\n' | '\r'))
}

fn number(word: u64, argument: ArgumentLayout) -> ArgumentValue<'static> {
    let unused = 64 - 8 * u32::from(argument.size.clamp(1, 8));
    match (argument.float, argument.signed) {
        (true, _) if argument.size == 4 => ArgumentValue::Float(f32::from_bits(word as u32).into()),
        (true, _) => ArgumentValue::Float(f64::from_bits(word)),
        (_, true) => ArgumentValue::Signed((word << unused) as i64 >> unused),
        (_, false) => ArgumentValue::Unsigned(word << unused >> unused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn argument(size: u8, signed: bool, text: Option<bool>) -> ArgumentLayout {
        ArgumentLayout { size, signed, float: false, text }
    }

    fn hit(words: &[u64], strings: &[(u8, &[u8])], unreadable: u32) -> Vec<u8> {
        let bits = strings.iter().fold(0, |bits, (index, _)| bits | 1 << index);
        let record = ProbeRecord {
            arguments: words.len() as u8,
            texts: bits,
            unreadable,
            ..ProbeRecord::default()
        };
        let mut bytes = record.as_bytes().to_vec();
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        for (_, text) in strings {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(*text);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    #[test]
    fn numbers_have_the_size_and_sign_that_the_probe_says() {
        let bytes = hit(&[0xffff_ffff_ffff_fff6; 3], &[], 0);
        let hit = Hit::new(&bytes).unwrap();
        assert_eq!(hit.argument(0, argument(4, true, None)), Some(ArgumentValue::Signed(-10)));
        assert_eq!(
            hit.argument(1, argument(2, false, None)),
            Some(ArgumentValue::Unsigned(0xfff6))
        );
        assert_eq!(hit.argument(2, argument(8, true, None)), Some(ArgumentValue::Signed(-10)));
        assert_eq!(hit.argument(3, argument(8, true, None)), None, "there is no fourth");
    }

    #[test]
    fn a_text_is_shown_where_it_looks_like_one_or_the_probe_says_so() {
        let bytes = hit(&[0x1000, 0x2000, 0x3000], &[(0, b"main.py"), (2, b"\x01\x02")], 0);
        let hit = Hit::new(&bytes).unwrap();
        assert_eq!(hit.argument(0, argument(8, false, None)), text_value("main.py"));
        assert_eq!(
            hit.argument(0, argument(8, false, Some(false))),
            Some(ArgumentValue::Unsigned(0x1000))
        );
        assert_eq!(
            hit.argument(1, argument(8, false, Some(true))),
            Some(ArgumentValue::Address(0x2000))
        );
        assert_eq!(hit.argument(2, argument(8, false, None)), Some(ArgumentValue::Address(0x3000)));
        assert_eq!(hit.argument(2, argument(8, false, Some(true))), text_value("\x01\x02"));
    }

    fn text_value(text: &str) -> Option<ArgumentValue<'_>> {
        Some(ArgumentValue::Text(text.into()))
    }

    #[test]
    fn the_last_word_is_the_stack_where_the_hit_says_so() {
        let mut bytes = hit(&[1, 2], &[(0, b"main.py")], PROBE_HAS_STACK | 0b10);
        bytes.extend(70_u64.to_le_bytes());
        let with = Hit::new(&bytes).unwrap();
        assert_eq!(with.stack(), 70);
        assert_eq!(with.argument(1, argument(8, false, None)), Some(ArgumentValue::Unreadable));
        assert_eq!(with.text(0), Some(&b"main.py"[..]));
        let bytes = hit(&[1, 2], &[(0, b"main.py")], 0);
        assert_eq!(Hit::new(&bytes).unwrap().stack(), stack_id::NONE);
        let cut = hit(&[1], &[], PROBE_HAS_STACK);
        assert_eq!(Hit::new(&cut).unwrap().stack(), stack_id::NONE);
    }

    #[test]
    fn what_could_not_be_read_says_so() {
        let bytes = hit(&[0, 7], &[], 0b01);
        let hit = Hit::new(&bytes).unwrap();
        assert_eq!(hit.argument(0, argument(8, false, None)), Some(ArgumentValue::Unreadable));
        assert_eq!(hit.argument(1, argument(8, false, None)), Some(ArgumentValue::Unsigned(7)));
    }

    proptest! {
        #[test]
        fn bytes_of_any_content_are_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            size in any::<u8>(),
        ) {
            if let Some(hit) = Hit::new(&bytes) {
                hit.stack();
                for index in 0..40 {
                    hit.argument(index, argument(size, index % 2 == 0, None));
                    hit.argument(index, argument(size, true, Some(true)));
                }
            }
        }
    }
}
