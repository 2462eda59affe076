//! The text of a trigger, word by word.

use crate::cause::{Comparison, Condition, DurationLimit, NamePattern, Operand};
use crate::error::TriggerError;
use std::iter::Peekable;
use std::time::Duration;

/// What a text is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Up to a space, a comma or a comparison.
    Word(String),
    /// Between quotes, of which those within are escaped.
    Quoted(String),
    Compare(Comparison),
    Comma,
}

/// Units of durations, in nanoseconds, the longest first.
pub(crate) const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// What a number without a unit lacks.
const UNIT: &str = "a unit behind the number (ns, us, ms, s, m or h)";

/// Reads tokens one after the other.
pub(crate) struct Parser {
    tokens: std::vec::IntoIter<Token>,
    peeked: Option<Token>,
}

impl Parser {
    pub(crate) fn new(text: &str) -> Result<Self, TriggerError> {
        let tokens = tokens(text)?.into_iter();
        let mut parser = Self { tokens, peeked: None };
        parser.peeked = parser.tokens.next();
        Ok(parser)
    }

    pub(crate) fn peek(&self) -> Option<&Token> {
        self.peeked.as_ref()
    }

    pub(crate) fn next(&mut self) -> Option<Token> {
        std::mem::replace(&mut self.peeked, self.tokens.next())
    }

    /// Takes the next token if it is that.
    pub(crate) fn takes(&mut self, token: &Token) -> bool {
        let takes = self.peek() == Some(token);
        if takes {
            self.next();
        }
        takes
    }

    /// Takes the next token if it is that word.
    pub(crate) fn takes_word(&mut self, word: &str) -> bool {
        self.takes(&Token::Word(word.to_owned()))
    }

    /// The error of something else standing here.
    pub(crate) fn expected(&self, what: impl Into<String>) -> TriggerError {
        let found = match self.peek() {
            Some(Token::Word(word)) => word.clone(),
            Some(Token::Quoted(string)) => string.clone(),
            Some(Token::Compare(comparison)) => comparison.to_string(),
            Some(Token::Comma) => ",".to_owned(),
            None => String::new(),
        };
        TriggerError::Syntax { expected: what.into(), found }
    }

    /// A word.
    pub(crate) fn word(&mut self, what: &str) -> Result<String, TriggerError> {
        match self.peek() {
            Some(Token::Word(_)) => {}
            _ => return Err(self.expected(what)),
        }
        let Some(Token::Word(word)) = self.next() else { return Err(self.expected(what)) };
        Ok(word)
    }

    /// A word or a string in quotes; where it is none of these words.
    pub(crate) fn name(&mut self, but: &[&str]) -> Option<NamePattern> {
        match self.peek()? {
            Token::Word(word) if but.contains(&word.as_str()) => return None,
            Token::Word(_) | Token::Quoted(_) => {}
            Token::Compare(_) | Token::Comma => return None,
        }
        match self.next()? {
            Token::Word(name) | Token::Quoted(name) => Some(NamePattern(name)),
            _ => None,
        }
    }

    /// `in server`; `None` where there is no `in`.
    pub(crate) fn program(&mut self) -> Result<Option<NamePattern>, TriggerError> {
        match self.takes_word("in") {
            true => self.named("a program or thread").map(Some),
            false => Ok(None),
        }
    }

    /// The name of something.
    pub(crate) fn named(&mut self, what: &str) -> Result<NamePattern, TriggerError> {
        self.name(&[]).ok_or_else(|| self.expected(format!("the name of {what}")))
    }

    pub(crate) fn comparison(&mut self) -> Result<Comparison, TriggerError> {
        match self.peek() {
            Some(Token::Compare(comparison)) => {
                let comparison = *comparison;
                self.next();
                Ok(comparison)
            }
            _ => Err(self.expected("a comparison like >")),
        }
    }

    fn greater(&mut self) -> Result<(), TriggerError> {
        match self.takes(&Token::Compare(Comparison::Greater)) {
            true => Ok(()),
            false => Err(self.expected("> and a duration")),
        }
    }

    /// `> 20ms`
    pub(crate) fn longer(&mut self) -> Result<Duration, TriggerError> {
        self.greater()?;
        self.duration()
    }

    /// `> 20ms`, `> 3x p99`, or `> 3x p99 and > 20ms`.
    pub(crate) fn limit(&mut self) -> Result<DurationLimit, TriggerError> {
        self.greater()?;
        let factor = match self.peek() {
            Some(Token::Word(word)) => word.strip_suffix('x').and_then(|word| word.parse().ok()),
            _ => None,
        };
        let Some(factor) = factor.filter(|factor: &f64| factor.is_finite() && *factor > 0.0) else {
            return self.duration().map(DurationLimit::Fixed);
        };
        self.next();
        let percentile = match self.peek() {
            Some(Token::Word(word)) => word.strip_prefix('p').and_then(|word| word.parse().ok()),
            _ => None,
        };
        match percentile.filter(|percentile: &f64| *percentile > 0.0 && *percentile < 100.0) {
            Some(percentile) => {
                self.next();
                let least = if self.takes_word("and") { self.longer()? } else { Duration::ZERO };
                Ok(DurationLimit::Percentile { factor, percentile, least })
            }
            None => Err(self.expected("a percentile like p99")),
        }
    }

    /// `20ms`, `20 ms`
    pub(crate) fn duration(&mut self) -> Result<Duration, TriggerError> {
        let word = match self.peek() {
            Some(Token::Word(word)) => word.clone(),
            _ => String::new(),
        };
        let read = match word.parse::<f64>() {
            Ok(_) => {
                self.next();
                let unit = match self.peek() {
                    Some(Token::Word(unit)) => unit.as_str(),
                    _ => "",
                };
                duration(&(word + unit)).ok_or_else(|| self.expected(UNIT))
            }
            Err(_) => duration(&word).ok_or_else(|| self.expected("a duration like 20ms")),
        };
        let duration = read?;
        self.next();
        Ok(duration)
    }

    pub(crate) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, TriggerError> {
        let read = match self.peek() {
            Some(Token::Word(word)) => word.parse().ok(),
            _ => None,
        };
        let number = read.ok_or_else(|| self.expected(what))?;
        self.next();
        Ok(number)
    }

    pub(crate) fn value(&mut self) -> Result<f64, TriggerError> {
        let before = self.expected("a number");
        self.number("a number")
            .and_then(|value: f64| value.is_finite().then_some(value).ok_or(before))
    }

    /// `if size > 4096 and path == "/etc/passwd"`; none where there is no `if`.
    pub(crate) fn conditions(&mut self) -> Result<Vec<Condition>, TriggerError> {
        let mut conditions = Vec::new();
        let mut goes_on = self.takes_word("if");
        while goes_on {
            let field = self.word("the name or number of an argument or field")?;
            let comparison = self.comparison()?;
            let operand = match self.peek() {
                Some(Token::Quoted(string)) => {
                    let string = string.clone();
                    self.next();
                    Operand::String(string)
                }
                _ => Operand::Number(
                    self.value().map_err(|_| self.expected("a number, or a string in quotes"))?,
                ),
            };
            conditions.push(Condition { field, comparison, operand });
            goes_on = self.takes_word("and");
        }
        Ok(conditions)
    }
}

/// A duration with its unit.
fn duration(word: &str) -> Option<Duration> {
    let digits = word.find(|char: char| !char.is_ascii_digit() && char != '.')?;
    let (number, unit) = word.split_at(digits);
    let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let whole: f64 = number.parse().ok()?;
    let nanoseconds = match number.parse::<u64>() {
        Ok(number) => number.checked_mul(*nanoseconds)?,
        Err(_) => {
            let nanoseconds = (whole * *nanoseconds as f64).round();
            (nanoseconds < u64::MAX as f64).then_some(nanoseconds as u64)?
        }
    };
    Some(Duration::from_nanos(nanoseconds))
}

fn tokens(text: &str) -> Result<Vec<Token>, TriggerError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let compare = Comparison::ALL.iter().find(|(_, sign)| rest.starts_with(sign));
        let (token, after) = match (first, compare) {
            (',', _) => (Token::Comma, &rest[1..]),
            (_, Some((comparison, sign))) => (Token::Compare(*comparison), &rest[sign.len()..]),
            ('"', _) => {
                let mut chars = rest[1..].chars().peekable();
                let (string, length) = quoted(&mut chars).ok_or_else(|| TriggerError::Syntax {
                    expected: "a closing quote".to_owned(),
                    found: String::new(),
                })?;
                (Token::Quoted(string), &rest[1 + length..])
            }
            _ => {
                let end = rest.find(is_delimiter).unwrap_or(rest.len()).max(first.len_utf8());
                (Token::Word(rest[..end].to_owned()), &rest[end..])
            }
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// What ends a word.
fn is_delimiter(char: char) -> bool {
    char.is_whitespace() || matches!(char, ',' | '"' | '<' | '>' | '=' | '!')
}

/// A string up to its closing quote, and how many bytes it takes with that.
fn quoted(chars: &mut Peekable<std::str::Chars<'_>>) -> Option<(String, usize)> {
    let (mut string, mut length) = (String::new(), 0);
    loop {
        let mut char = chars.next()?;
        length += char.len_utf8();
        match char {
            '"' => return Some((string, length)),
            '\\' => {
                char = chars.next()?;
                length += char.len_utf8();
            }
            _ => {}
        }
        string.push(char);
    }
}

/// As it is written: in quotes where it would not be read as a name otherwise.
pub(crate) fn write_name(name: &str, but: &[&str]) -> String {
    let is_plain = !name.is_empty() && !name.contains(is_delimiter) && !name.ends_with(':');
    match is_plain && !but.contains(&name) {
        true => name.to_owned(),
        false => write_quoted(name),
    }
}

pub(crate) fn write_quoted(string: &str) -> String {
    format!("\"{}\"", string.replace('\\', "\\\\").replace('"', "\\\""))
}

/// In the largest unit that says it without decimals.
pub(crate) fn write_duration(duration: Duration) -> String {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let unit = UNITS.iter().find(|(_, unit)| nanoseconds >= *unit && nanoseconds % unit == 0);
    let (name, unit) = unit.copied().unwrap_or(("s", 1_000_000_000));
    format!("{}{name}", nanoseconds / unit)
}
