//! Patterns of names.

use std::fmt;
use std::str::FromStr;

/// Longer patterns are a mistake.
const PATTERN_MAX: usize = 1024;

/// A pattern of names: `*` is any text, `?` any character, `[a-z]` one of these,
/// `[!a-z]` none of these, `\` takes the next character as it is. Everything else is itself;
/// upper and lower case differ.
///
/// Matching takes at most pattern times text steps and no memory.
///
/// ```
/// use syscollect_probes::Glob;
/// let glob: Glob = "function__*".parse().unwrap();
/// assert!(glob.matches("function__entry") && !glob.matches("line"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
    parts: Vec<GlobPart>,
}

/// What a part of a pattern stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobPart {
    Exactly(char),
    AnyOne,
    AnyText,
    OneOf { ranges: Vec<(char, char)>, negated: bool },
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// There is nothing to match.
    #[error("the pattern is empty; `*` matches everything")]
    Empty,
    /// It is longer than 1024 bytes.
    #[error("the pattern is longer than {PATTERN_MAX} bytes")]
    TooLong,
    /// A `[` without its `]`.
    #[error("{0:?} has a `[` without its `]`; write `\\[` for the character itself")]
    OpenClass(String),
    /// A class that ends before it begins.
    #[error("{0:?} has a range that runs backwards")]
    BackwardRange(String),
    /// A `\` at the end.
    #[error("{0:?} ends with a `\\` that takes nothing")]
    OpenEscape(String),
}

impl Glob {
    /// The pattern that only `name` matches.
    pub fn exact(name: &str) -> Self {
        let text = name
            .chars()
            .flat_map(|c| "*?[\\".contains(c).then_some('\\').into_iter().chain([c]))
            .collect();
        Self { text, parts: name.chars().map(GlobPart::Exactly).collect() }
    }

    /// The one name that it matches, if it has no wildcards.
    pub fn as_exact(&self) -> Option<String> {
        self.parts
            .iter()
            .map(|part| if let GlobPart::Exactly(c) = part { Some(*c) } else { None })
            .collect()
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `name` is as the pattern says.
    pub fn matches(&self, name: &str) -> bool {
        let mut rest = name.chars();
        let mut part = 0;
        // Where to go on when what follows the last `*` does not fit: one character later.
        // Only the last one matters, for earlier ones have taken as little as they can.
        let mut retry = None;
        loop {
            if self.parts.get(part) == Some(&GlobPart::AnyText) {
                part += 1;
                retry = Some((part, rest.clone()));
                continue;
            }
            let here = rest.clone().next();
            match (self.parts.get(part), here) {
                (None, None) => return true,
                (Some(wanted), Some(found)) if wanted.takes(found) => {
                    rest.next();
                    part += 1;
                }
                _ => {
                    let Some((after, text)) = &mut retry else { return false };
                    if text.next().is_none() {
                        return false;
                    }
                    (part, rest) = (*after, text.clone());
                }
            }
        }
    }
}

impl GlobPart {
    fn takes(&self, character: char) -> bool {
        match self {
            Self::Exactly(own) => *own == character,
            Self::AnyOne | Self::AnyText => true,
            Self::OneOf { ranges, negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *negated
            }
        }
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        match text.len() {
            0 => return Err(GlobError::Empty),
            1..=PATTERN_MAX => {}
            _ => return Err(GlobError::TooLong),
        }
        let mut parts = Vec::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            parts.push(match character {
                '*' if parts.last() == Some(&GlobPart::AnyText) => continue,
                '*' => GlobPart::AnyText,
                '?' => GlobPart::AnyOne,
                '[' => class(&mut rest, text)?,
                '\\' => GlobPart::Exactly(
                    rest.next().ok_or_else(|| GlobError::OpenEscape(text.to_owned()))?,
                ),
                other => GlobPart::Exactly(other),
            });
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

/// What follows a `[`, to its `]`. A `]` that comes first is a member.
fn class(rest: &mut std::str::Chars<'_>, text: &str) -> Result<GlobPart, GlobError> {
    let negated = rest.as_str().starts_with(['!', '^']);
    if negated {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        let first = match rest.next().ok_or_else(|| GlobError::OpenClass(text.to_owned()))? {
            ']' if !ranges.is_empty() => return Ok(GlobPart::OneOf { ranges, negated }),
            first => first,
        };
        // A `-` before the `]` is a member.
        let mut after = rest.clone();
        let last = match (after.next(), after.next()) {
            (Some('-'), Some(last)) if last != ']' => {
                *rest = after;
                last
            }
            _ => first,
        };
        if last < first {
            return Err(GlobError::BackwardRange(text.to_owned()));
        }
        ranges.push((first, last));
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern.parse::<Glob>().unwrap().matches(name)
    }

    #[test]
    fn stars_take_any_text_and_none() {
        for name in ["fopen", "fopen64", "fopen_unlocked"] {
            assert!(matches("fopen*", name));
            assert!(matches("*f*o*n*", name));
        }
        assert!(matches("*", "") && matches("a**b", "ab") && matches("a*b*c", "abbbcbc"));
        assert!(!matches("a*b", "abc") && !matches("*entry", "entry_") && !matches("a", ""));
    }

    #[test]
    fn a_class_takes_one_of_its_characters() {
        assert!(
            matches("[a-c]x", "bx")
                && matches("[]]", "]")
                && matches("[a-]", "-")
                && matches("[!a]", "b")
        );
        assert!(!matches("[a-c]x", "dx") && !matches("[!a-c]", "a") && !matches("[ab]", ""));
        assert!(matches(r"operator\[\]*", "operator[](int)"));
    }

    #[test]
    fn a_question_mark_takes_a_character_not_a_byte() {
        assert!(matches("?", "ü") && !matches("?", "ab"));
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        assert_eq!("".parse::<Glob>(), Err(GlobError::Empty));
        assert_eq!("a[b".parse::<Glob>(), Err(GlobError::OpenClass("a[b".into())));
        assert_eq!("[".parse::<Glob>(), Err(GlobError::OpenClass("[".into())));
        assert_eq!("[z-a]".parse::<Glob>(), Err(GlobError::BackwardRange("[z-a]".into())));
        assert_eq!("a\\".parse::<Glob>(), Err(GlobError::OpenEscape("a\\".into())));
        assert_eq!("a".repeat(1025).parse::<Glob>(), Err(GlobError::TooLong));
    }

    #[test]
    fn a_pattern_of_stars_on_a_long_name_ends_soon() {
        let pattern: Glob = "*a".repeat(500).parse().unwrap();
        assert!(!pattern.matches(&("a".repeat(50_000) + "b")));
    }

    /// The textbook definition, which is exponential.
    fn slow(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|taken| slow(rest, &text[taken..])),
            ['?', rest @ ..] => !text.is_empty() && slow(rest, &text[1..]),
            [c, rest @ ..] => text.first() == Some(c) && slow(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn the_quick_way_agrees_with_the_definition(
            pattern in "[ab*?]{1,8}",
            text in "[ab]{0,10}",
        ) {
            let by: Vec<char> = pattern.chars().collect();
            let of: Vec<char> = text.chars().collect();
            prop_assert_eq!(matches(&pattern, &text), slow(&by, &of));
        }

        #[test]
        fn no_text_is_a_hang_or_a_panic(pattern in ".{0,40}", text in ".{0,40}") {
            if let Ok(glob) = pattern.parse::<Glob>() {
                glob.matches(&text);
            }
        }

        #[test]
        fn an_exact_pattern_takes_its_name_alone_and_reads_back(
            name in ".{1,20}",
            other in ".{1,20}",
        ) {
            let glob = Glob::exact(&name);
            prop_assert!(glob.matches(&name));
            prop_assert_eq!(glob.matches(&other), name == other);
            prop_assert_eq!(glob.as_str().parse::<Glob>().unwrap(), glob.clone());
            prop_assert_eq!(glob.as_exact(), Some(name));
        }
    }
}
