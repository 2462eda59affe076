//! The file's strings.

use std::borrow::Cow;
use std::fmt::Write;
use syscollect_model::StringTable;

/// An index of 24 bits, one of which values means none.
const MAX_TEXTS: usize = (1 << 24) - 2;
/// Names of locks, pools and frame sets: the viewer prints them into 1024 bytes.
const MAX_SHORT: usize = 900;

/// Every string of the file, once.
#[derive(Default)]
pub(crate) struct FileStrings {
    rows: StringTable,
    /// Strings that found no room.
    pub(crate) refused: u64,
}

impl FileStrings {
    /// The index of a text, made fit for the viewer. The last index stands for all that find no
    /// room.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        self.intern_clean(clean(text))
    }

    /// The same for what is drawn as lines.
    pub(crate) fn intern_lines(&mut self, text: &str) -> u32 {
        self.intern_clean(clean_lines(text))
    }

    /// The same for what the viewer puts into a buffer of a fixed size, without asking for its
    /// length.
    pub(crate) fn intern_short(&mut self, text: &str) -> u32 {
        self.intern_clean(short_name(text).into())
    }

    fn intern_clean(&mut self, clean: Cow<'_, str>) -> u32 {
        if self.rows.len() < MAX_TEXTS {
            return self.rows.intern(&clean);
        }
        self.rows.find(&clean).unwrap_or_else(|| {
            self.refused += 1;
            self.rows.intern("[too many strings]")
        })
    }

    pub(crate) fn rows(&self) -> &StringTable {
        &self.rows
    }
}

/// What stands for a string where the file wants a pointer: any number that differs, and not 0.
pub(crate) fn pointer(text: u32) -> u64 {
    u64::from(text) + 1
}

/// The viewer's strings end at the first NUL and are drawn as they are: a line
/// break in a name would fall over its neighbours.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    escaped(text, char::is_control)
}

/// The same for what is drawn as lines.
pub(crate) fn clean_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character.is_control() && character != '\n')
}

/// The same for what the viewer puts into a buffer of a fixed size.
pub(crate) fn short_name(text: &str) -> String {
    let clean = clean(text);
    let short = cut(&clean, MAX_SHORT);
    if short.len() < clean.len() { format!("{short}...") } else { clean.into_owned() }
}

/// The same for those characters that are to go.
fn escaped(text: &str, goes: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&goes) {
        return text.into();
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if goes(character) {
            let _ = write!(clean, "{}", character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean.into()
}

/// The longest beginning of `text` that has at most `bytes` bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_told_and_others_kept() {
        assert_eq!(clean("a\0b\nc"), "a\\u{0}b\\nc");
        assert_eq!(clean("żółw \\ \u{fffd}"), "żółw \\ \u{fffd}");
    }

    #[test]
    fn lines_stay_lines_where_they_are_drawn_so() {
        let mut strings = FileStrings::default();
        strings.intern_lines("a\0b\nc");
        assert_eq!(strings.rows().get(0), "a\\u{0}b\nc");
    }

    #[test]
    fn what_goes_into_a_buffer_is_short() {
        let mut strings = FileStrings::default();
        strings.intern_short(&"é".repeat(1_000));
        strings.intern_short("lock");
        assert_eq!((strings.rows().get(0).len(), strings.rows().get(1)), (903, "lock"));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("ab", 5), "ab");
        assert_eq!(cut("aé", 2), "a");
    }

    #[test]
    fn a_string_is_stored_once() {
        let mut strings = FileStrings::default();
        assert_eq!([strings.intern("a"), strings.intern("b"), strings.intern("a")], [0, 1, 0]);
        assert_eq!(strings.rows().len(), 2);
    }
}
