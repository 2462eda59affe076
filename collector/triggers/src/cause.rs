//! What a trigger waits for.

use std::fmt;
use std::time::Duration;

/// What a trigger waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// A zone of an instrumented program took longer.
    Zone(NamePattern, DurationLimit),
    /// A frame did: of the set of that name, or of any.
    Frame(Option<NamePattern>, DurationLimit),
    /// A call of a function that is probed did.
    Function(NamePattern, DurationLimit),
    /// What lies between the probes of a pair did; it is called as the probe where it begins.
    Pair(NamePattern, DurationLimit),
    /// A probe or a function was hit, and its arguments were so.
    Hit(NamePattern, Vec<Condition>),
    /// A tracepoint of the kernel was, and its fields were so.
    Tracepoint(String, Vec<Condition>),
    /// A thread is runnable and has had no CPU for longer.
    Waiting(Option<NamePattern>, Duration),
    /// A thread sleeps for longer.
    Blocked(Option<NamePattern>, Duration),
    /// A thread sleeps for longer, and no signal could wake it.
    Uninterruptible(Option<NamePattern>, Duration),
    /// A process ended so.
    Exit(Option<NamePattern>, ExitCondition),
    /// A process was ended by what its own fault was: a signal such as SIGSEGV or SIGABRT.
    Crash(Option<NamePattern>),
    /// An instrumented program sent a message with that in it.
    Message(Option<NamePattern>, String),
    /// A counter of the recording crossed a value.
    Counter(NamePattern, Comparison, f64),
    /// A plot or counter of an instrumented program did.
    Plot(NamePattern, Comparison, f64),
    /// Somebody sends the recorder SIGUSR1.
    Signal,
}

/// A name; with `*` at its end, all that begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(pub String);

impl NamePattern {
    /// Whether that is such a name.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => self.0 == name,
        }
    }
}

/// How long something may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DurationLimit {
    /// So long.
    Fixed(Duration),
    /// So many times as long as the part of that many percent of the last minute took at most.
    Percentile {
        /// A number above 0.
        factor: f64,
        /// Above 0 and below 100.
        percentile: f64,
        /// And longer than that, too.
        least: Duration,
    },
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCondition {
    /// In any way.
    Any,
    /// With this code.
    Code(u8),
    /// With any code but 0.
    Nonzero,
    /// By this signal.
    Signal(u8),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

impl Comparison {
    /// Each with its sign.
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::GreaterOrEqual, ">="),
        (Self::LessOrEqual, "<="),
        (Self::Equal, "=="),
        (Self::NotEqual, "!="),
        (Self::Greater, ">"),
        (Self::Less, "<"),
    ];

    /// Whether two values are so.
    pub fn holds<T: PartialOrd>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = Self::ALL.iter().find(|(comparison, _)| comparison == self);
        f.write_str(sign.map_or("", |(_, sign)| sign))
    }
}

/// What an argument or a field is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A number.
    Number(f64),
    /// A string.
    String(String),
}

/// What an argument or a field has to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Its name, or of an argument its number, from 0.
    pub field: String,
    /// How.
    pub comparison: Comparison,
    /// With what.
    pub operand: Operand,
}

impl Condition {
    /// Whether a number is so.
    pub(crate) fn of_number(&self, value: f64) -> bool {
        matches!(self.operand, Operand::Number(operand) if self.comparison.holds(&value, &operand))
    }

    /// Whether a string is so.
    pub(crate) fn of_string(&self, value: &str) -> bool {
        match &self.operand {
            Operand::String(operand) => self.comparison.holds(&value, &operand.as_str()),
            Operand::Number(_) => false,
        }
    }
}
