//! A trigger as it is written.

use crate::cause::{Cause, Condition, DurationLimit, ExitCondition, NamePattern, Operand};
use crate::error::TriggerError;
use crate::parser::{Parser, Token, write_duration, write_name, write_quoted};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use syscollect_model::SIGNALS;

/// How long a trigger rests after a snapshot where nothing else is said: a storm of causes must not
/// fill a disk.
const PAUSE: Duration = Duration::from_secs(10);

/// A cause, and what is to come of it.
///
/// As text: `NAME: CAUSE, user www, after 2s, limit 5, pause 1m, last 20s`, of which all but the
/// cause may be left out. Causes:
///
/// ```text
/// zone "load page" > 200ms        frame > 33ms         function malloc > 1ms
/// pair request__start > 3x p99    hit open if path == "/etc/passwd"
/// tracepoint oom:mark_victim      waiting server > 20ms
/// blocked server > 5s             uninterruptible > 2s
/// exit server code nonzero        exit signal KILL     crash
/// message in server "timed out"   counter "CPU pressure" > 50
/// plot "queue length" > 1000       signal
/// ```
///
/// Behind the name of a zone, frame, function, pair, hit or plot, `in NAME` asks for that of a
/// program or thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// What its snapshots are called by.
    pub name: String,
    /// What it waits for.
    pub cause: Cause,
    /// The program or thread that has to do what takes too long, is hit, or has a value.
    pub program: Option<NamePattern>,
    /// The user who has to be the one that causes it.
    pub user: Option<UserCondition>,
    /// So long after its cause the snapshot is taken.
    pub after: Duration,
    /// At most so many snapshots for what each user causes; `None` for any number.
    pub limit: Option<u32>,
    /// After a snapshot nothing that the same user does fires it for so long.
    pub pause: Duration,
    /// Only the last part of what is held; `None` for all.
    pub last: Option<Duration>,
}

/// A user who is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserCondition {
    /// By the number.
    Number(u32),
    /// By the name, which is nobody's before [`Trigger::with_users`].
    Name(String),
}

impl UserCondition {
    pub(crate) fn number(&self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Name(_) => None,
        }
    }
}

/// Bytes of a thread's name that the kernel keeps.
const LONGEST_NAME: usize = 15;

/// The words that begin causes.
const CAUSES: &str = "a cause (zone, frame, function, pair, hit, tracepoint, waiting, blocked, \
                      uninterruptible, exit, crash, message, counter, plot, signal)";

impl FromStr for Trigger {
    type Err = TriggerError;

    fn from_str(text: &str) -> Result<Self, TriggerError> {
        let mut parser = Parser::new(text)?;
        let name = match parser.peek() {
            Some(Token::Word(word)) => word.strip_suffix(':').map(str::to_owned),
            _ => None,
        };
        if name.is_some() {
            parser.next();
        }
        let kind = parser.word(CAUSES)?;
        let mut program = None;
        let Some(cause) = cause(&kind, &mut parser, &mut program)? else {
            return Err(TriggerError::Syntax { expected: CAUSES.to_owned(), found: kind });
        };
        let name = name.filter(|name| !name.is_empty()).unwrap_or(kind);
        let mut trigger = Self {
            name,
            cause,
            program,
            user: None,
            after: Duration::ZERO,
            limit: None,
            pause: PAUSE,
            last: None,
        };
        while parser.takes(&Token::Comma) {
            match parser.word(PARTS)?.as_str() {
                "user" => trigger.user = Some(user(&mut parser)?),
                "after" => trigger.after = parser.duration()?,
                "limit" => trigger.limit = Some(parser.number("a number of snapshots")?),
                "pause" => trigger.pause = parser.duration()?,
                "last" => trigger.last = Some(parser.duration()?),
                other => {
                    return Err(TriggerError::Syntax {
                        expected: PARTS.to_owned(),
                        found: other.to_owned(),
                    });
                }
            }
        }
        match parser.peek() {
            None => Ok(trigger),
            Some(_) => Err(parser.expected("a comma")),
        }
    }
}

/// What may follow a cause.
const PARTS: &str = "user, after, limit, pause or last";

fn user(parser: &mut Parser) -> Result<UserCondition, TriggerError> {
    let NamePattern(name) = parser.named("a user, or a number")?;
    Ok(match name.parse() {
        Ok(number) => UserCondition::Number(number),
        Err(_) => UserCondition::Name(name),
    })
}

/// The cause that a word begins, and the program that it asks for.
fn cause(
    kind: &str,
    parser: &mut Parser,
    program: &mut Option<NamePattern>,
) -> Result<Option<Cause>, TriggerError> {
    let mut named = |parser: &mut Parser, what| {
        let name = parser.named(what)?;
        *program = parser.program()?;
        Ok(name)
    };
    Ok(Some(match kind {
        "zone" => Cause::Zone(named(parser, "a zone")?, parser.limit()?),
        "frame" => {
            let set = parser.name(&["in"]);
            *program = parser.program()?;
            Cause::Frame(set, parser.limit()?)
        }
        "function" => Cause::Function(named(parser, "a function")?, parser.limit()?),
        "pair" => Cause::Pair(named(parser, "the probe where a pair begins")?, parser.limit()?),
        "hit" => Cause::Hit(named(parser, "a probe or a function")?, parser.conditions()?),
        "tracepoint" => Cause::Tracepoint(
            parser.named("a tracepoint (sched:sched_switch)")?.0,
            parser.conditions()?,
        ),
        "waiting" => Cause::Waiting(parser.name(&[]), parser.longer()?),
        "blocked" => Cause::Blocked(parser.name(&[]), parser.longer()?),
        "uninterruptible" => Cause::Uninterruptible(parser.name(&[]), parser.longer()?),
        "exit" => Cause::Exit(parser.name(&EXIT_WORDS), exit(parser)?),
        "crash" => Cause::Crash(parser.name(&[])),
        "message" => {
            let who = parser.program()?;
            let part = parser.next();
            let Some(Token::Quoted(part) | Token::Word(part)) = part else {
                return Err(parser.expected("what is in the message, in quotes"));
            };
            Cause::Message(who, part)
        }
        "counter" => {
            Cause::Counter(parser.named("a counter")?, parser.comparison()?, parser.value()?)
        }
        "plot" => Cause::Plot(named(parser, "a plot")?, parser.comparison()?, parser.value()?),
        "signal" => Cause::Signal,
        _ => return Ok(None),
    }))
}

/// What follows the name of who ends.
const EXIT_WORDS: [&str; 2] = ["code", "signal"];

fn exit(parser: &mut Parser) -> Result<ExitCondition, TriggerError> {
    if parser.takes_word("code") {
        return match parser.takes_word("nonzero") {
            true => Ok(ExitCondition::Nonzero),
            false => Ok(ExitCondition::Code(parser.number("a code up to 255, or nonzero")?)),
        };
    }
    if !parser.takes_word("signal") {
        return Ok(ExitCondition::Any);
    }
    let expected = parser.expected("a signal like SEGV");
    let word = parser.word("a signal like SEGV")?;
    let name = word.strip_prefix("SIG").unwrap_or(&word);
    let by_name = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let number = by_name.or_else(|| word.parse().ok().filter(|number| (1..=64).contains(number)));
    number.map(ExitCondition::Signal).ok_or(expected)
}

impl Trigger {
    /// The same with the number of the user who is asked for by a name.
    ///
    /// # Errors
    ///
    /// [`TriggerError::UnknownUser`] where `number` knows none.
    pub fn with_users(
        mut self,
        number: impl Fn(&str) -> Option<u32>,
    ) -> Result<Self, TriggerError> {
        if let Some(UserCondition::Name(name)) = &self.user {
            let number = number(name).ok_or_else(|| TriggerError::UnknownUser(name.clone()))?;
            self.user = Some(UserCondition::Number(number));
        }
        Ok(self)
    }

    /// Why it can never fire, if that can be told.
    pub(crate) fn never(&self) -> Option<&'static str> {
        let is_empty = |name: &NamePattern| name.0.is_empty();
        let name = match &self.cause {
            Cause::Zone(name, _)
            | Cause::Function(name, _)
            | Cause::Pair(name, _)
            | Cause::Hit(name, _)
            | Cause::Counter(name, ..)
            | Cause::Plot(name, ..) => is_empty(name),
            Cause::Tracepoint(name, _) => !name.contains(':'),
            Cause::Waiting(name, _)
            | Cause::Blocked(name, _)
            | Cause::Uninterruptible(name, _)
            | Cause::Exit(name, _)
            | Cause::Crash(name)
            | Cause::Message(name, _) => name.as_ref().is_some_and(is_empty),
            // The main set has no name, and nor has who is recorded.
            Cause::Frame(..) | Cause::Signal => false,
        };
        let who = match &self.cause {
            Cause::Waiting(who, _)
            | Cause::Blocked(who, _)
            | Cause::Uninterruptible(who, _)
            | Cause::Exit(who, _)
            | Cause::Crash(who)
            | Cause::Message(who, _) => who.as_ref(),
            _ => None,
        };
        let who = who.or(self.program.as_ref());
        if who.is_some_and(|NamePattern(who)| who.trim_end_matches('*').len() > LONGEST_NAME) {
            return Some(
                "the kernel keeps 15 bytes of a thread's name: write these, or end it by *",
            );
        }
        if self.user.is_some() && matches!(self.cause, Cause::Counter(..) | Cause::Signal) {
            return Some("counters of the machine, and signals to the recorder, are of no user");
        }
        if self.last == Some(Duration::ZERO) {
            return Some("of the last 0 s there is nothing");
        }
        if self.last.is_some_and(|last| last <= self.after) {
            return Some(
                "what it fires for lies `after` before the end of the snapshot, which has no more \
                 than `last` of it: let `last` be longer",
            );
        }
        let name = name || self.program.as_ref().is_some_and(is_empty);
        match (name, self.limit) {
            (true, _) if matches!(self.cause, Cause::Tracepoint(..)) => {
                Some("a tracepoint is named with its subsystem, as in oom:mark_victim")
            }
            (true, _) => Some("nothing has an empty name"),
            (_, Some(0)) => Some("its limit is 0 snapshots"),
            _ => None,
        }
    }
}

/// Reads the triggers of a file: one a line. From a `#` on that begins a line, or stands behind a
/// space and not in quotes, a line is a comment; empty lines say nothing.
///
/// # Errors
///
/// [`TriggerError::Line`] for the first line that is no trigger.
pub fn read_triggers(text: &str) -> Result<Vec<Trigger>, TriggerError> {
    let lines = text.lines().map(|line| without_comment(line).trim()).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty());
    let read = |(text, line): (&str, usize)| {
        text.parse().map_err(|error| TriggerError::Line { line, error: Box::new(error) })
    };
    lines.map(read).collect()
}

fn without_comment(line: &str) -> &str {
    let (mut in_quotes, mut before) = (false, ' ');
    for (at, char) in line.char_indices() {
        match char {
            '#' if !in_quotes && before.is_whitespace() => return &line[..at],
            '"' if before != '\\' => in_quotes = !in_quotes,
            _ => {}
        }
        before = if before == '\\' { ' ' } else { char };
    }
    line
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        write_cause(f, &self.cause, self.program.as_ref())?;
        match &self.user {
            Some(UserCondition::Number(number)) => write!(f, ", user {number}")?,
            Some(UserCondition::Name(name)) => write!(f, ", user {}", write_name(name, &[]))?,
            None => {}
        }
        let duration = |duration: Duration| write_duration(duration);
        if !self.after.is_zero() {
            write!(f, ", after {}", duration(self.after))?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit {limit}")?;
        }
        if self.pause != PAUSE {
            write!(f, ", pause {}", duration(self.pause))?;
        }
        match self.last {
            Some(last) => write!(f, ", last {}", duration(last)),
            None => Ok(()),
        }
    }
}

fn write_cause(
    f: &mut fmt::Formatter<'_>,
    cause: &Cause,
    program: Option<&NamePattern>,
) -> fmt::Result {
    let program =
        program.map_or(String::new(), |program| format!(" in {}", write_name(&program.0, &[])));
    let name = |name: &NamePattern| write_name(&name.0, &[]);
    let who = |who: &Option<NamePattern>, but: &[&str]| {
        who.as_ref().map_or(String::new(), |who| format!(" {}", write_name(&who.0, but)))
    };
    let longer = |duration: &Duration| write_duration(*duration);
    match cause {
        Cause::Zone(zone, limit) => write!(f, "zone {}{program} > {limit}", name(zone)),
        Cause::Frame(set, limit) => write!(f, "frame{}{program} > {limit}", who(set, &["in"])),
        Cause::Function(function, limit) => {
            write!(f, "function {}{program} > {limit}", name(function))
        }
        Cause::Pair(pair, limit) => write!(f, "pair {}{program} > {limit}", name(pair)),
        Cause::Hit(probe, conditions) => {
            write!(f, "hit {}{program}{}", name(probe), written(conditions))
        }
        Cause::Tracepoint(tracepoint, conditions) => {
            let tracepoint = write_name(tracepoint, &[]);
            write!(f, "tracepoint {tracepoint}{}", written(conditions))
        }
        Cause::Waiting(thread, time) => {
            write!(f, "waiting{} > {}", who(thread, &[]), longer(time))
        }
        Cause::Blocked(thread, time) => {
            write!(f, "blocked{} > {}", who(thread, &[]), longer(time))
        }
        Cause::Uninterruptible(thread, time) => {
            write!(f, "uninterruptible{} > {}", who(thread, &[]), longer(time))
        }
        Cause::Exit(process, condition) => {
            write!(f, "exit{}{condition}", who(process, &EXIT_WORDS))
        }
        Cause::Crash(process) => write!(f, "crash{}", who(process, &[])),
        Cause::Message(process, part) => {
            let of = process.as_ref().map_or(String::new(), |who| format!(" in {}", name(who)));
            write!(f, "message{of} {}", write_quoted(part))
        }
        Cause::Counter(counter, comparison, value) => {
            write!(f, "counter {} {comparison} {value}", name(counter))
        }
        Cause::Plot(plot, comparison, value) => {
            write!(f, "plot {}{program} {comparison} {value}", name(plot))
        }
        Cause::Signal => f.write_str("signal"),
    }
}

fn written(conditions: &[Condition]) -> String {
    let mut text = String::new();
    for (index, Condition { field, comparison, operand }) in conditions.iter().enumerate() {
        let word = if index == 0 { "if" } else { "and" };
        let operand = match operand {
            Operand::Number(number) => number.to_string(),
            Operand::String(string) => write_quoted(string),
        };
        text.push_str(&format!(" {word} {field} {comparison} {operand}"));
    }
    text
}

impl fmt::Display for ExitCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::Code(code) => write!(f, " code {code}"),
            Self::Nonzero => f.write_str(" code nonzero"),
            Self::Signal(number) => match SIGNALS.iter().find(|(_, known)| known == number) {
                Some((name, _)) => write!(f, " signal {name}"),
                None => write!(f, " signal {number}"),
            },
        }
    }
}

impl fmt::Display for DurationLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(duration) => f.write_str(&write_duration(*duration)),
            Self::Percentile { factor, percentile, least } => {
                write!(f, "{factor}x p{percentile}")?;
                match least.is_zero() {
                    true => Ok(()),
                    false => write!(f, " and > {}", write_duration(*least)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Comparison;
    use proptest::prelude::*;

    fn trigger(text: &str) -> Trigger {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_trigger_is_written_as_it_is_read() {
        for text in [
            "stall: zone \"load page\" > 200ms, after 2s, limit 5, pause 1m, last 20s",
            "frame: frame > 33ms",
            "slow: frame render > 1500us",
            "malloc: function malloc > 1ms",
            "stall: zone request in server > 250ms, user 1001",
            "frame: frame in game > 33ms",
            "frame: frame \"in\" in \"my game\" > 33ms, user www-data, limit 5",
            "hit: hit open in server if 0 == 1",
            "plot: plot queue in server > 5",
            "died: crash server, user root",
            "pair: pair python:function__entry > 3x p99.9",
            "slow: zone request > 3x p99 and > 50ms, pause 1m",
            "passwd: hit open if 0 == \"/etc/passwd\" and flags != 0",
            "oom: tracepoint oom:mark_victim if pid > 100",
            "waiting: waiting server* > 20ms",
            "waiting: waiting > 20ms, pause 0s",
            "blocked: blocked \"my server\" > 5s",
            "d: uninterruptible > 2s",
            "exit: exit server code 3",
            "exit: exit code nonzero",
            "exit: exit \"code\" signal KILL",
            "exit: exit",
            "crash: crash server",
            "m: message in server \"timed \\\"out\\\"\"",
            "cpu: counter \"CPU usage\" > 90.5",
            "plot: plot queue <= 3",
            "asked: signal, after 1s, limit 5, pause 1m, last 20s",
        ] {
            assert_eq!(trigger(text).to_string(), text);
        }
        let apart = "waiting > 20 ms, pause 1.5 s";
        assert_eq!(trigger(apart).to_string(), "waiting: waiting > 20ms, pause 1500ms");
        assert_eq!(
            trigger("crash server").name,
            "crash",
            "without a name it is called by its cause"
        );
    }

    #[test]
    fn what_is_none_is_refused_with_what_is_missing() {
        for (text, said) in [
            ("", "a cause"),
            ("stall:", "a cause"),
            ("quake > 3", "a cause"),
            ("zone > 3ms", "the name of a zone"),
            ("zone request 3ms", "> and a duration"),
            ("zone request > 3", "a unit behind the number"),
            ("zone request > 3x q9", "a percentile like p99"),
            ("waiting server > 20ms after 3s", "a comma"),
            ("waiting server > 20ms, before 3s", "after, limit, pause or last"),
            ("exit server signal FUN", "a signal like SEGV"),
            ("exit server code 900", "a code up to 255"),
            ("hit open if path > oops", "a number, or a string in quotes"),
            ("message \"half", "a closing quote"),
            ("plot queue > inf", "a number"),
            ("asked: signal USR2", "a comma"),
        ] {
            let error = text.parse::<Trigger>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_has_a_trigger_a_line_and_an_error_says_which() {
        let read = read_triggers("# of the service\n\ncrash server\n  waiting > 1s\n");
        assert_eq!(read.unwrap().len(), 2);
        let error = read_triggers("crash\n\nboom\n").unwrap_err().to_string();
        assert!(error.starts_with("line 3: a cause"), "{error}");
    }

    #[test]
    fn what_could_never_happen_is_known() {
        for text in [
            "waiting averyverylongname > 1ms",
            "crash, last 0s",
            "zone a in \"\" > 1ms",
            "zone a in abcdefghijklmnop > 1ms",
            "signal, user root",
            "counter a > 1, user 0",
            "zone \"\" > 1ms",
            "tracepoint switch",
            "crash, limit 0",
            "blocked \"\" > 1s",
            "crash, after 20s, last 20s",
        ] {
            assert!(trigger(text).never().is_some(), "{text}");
        }
        for text in ["frame > 1ms", "crash, after 19s, last 20s", "crash, after 1m"] {
            assert_eq!(trigger(text).never(), None, "{text}");
        }
    }

    #[test]
    fn a_user_is_asked_for_by_number_or_by_a_name_that_somebody_has() {
        let number = |name: &str| (name == "www").then_some(33);
        for (text, user) in [("crash, user 7", 7), ("crash, user www", 33)] {
            let known = trigger(text).with_users(number).unwrap();
            assert_eq!(known.user, Some(UserCondition::Number(user)));
        }
        let error = trigger("crash, user nobody").with_users(number).unwrap_err();
        assert_eq!(error.to_string(), "there is no user \"nobody\"");
        let error = |text: &str| text.parse::<Trigger>().unwrap_err().to_string();
        let expected = "the name of a user, or a number is expected at its end";
        assert_eq!(error("crash, user"), expected);
        let expected = "the name of a program or thread is expected instead of \">\"";
        assert_eq!(error("zone a in > 1ms"), expected);
    }

    fn any_name() -> impl Strategy<Value = NamePattern> {
        ".{1,12}".prop_map(NamePattern)
    }

    fn any_user() -> impl Strategy<Value = UserCondition> {
        let name = "[a-z_]{1,9}".prop_map(UserCondition::Name);
        prop_oneof![any::<u32>().prop_map(UserCondition::Number), name]
    }

    fn any_limit() -> impl Strategy<Value = DurationLimit> {
        let least = prop_oneof![Just(Duration::ZERO), any_duration()];
        let percentile = (1u32..1000, 1u32..1000, least);
        let percentile = percentile.prop_map(|(factor, percentile, least)| {
            let (factor, percentile) = (f64::from(factor) / 8.0, f64::from(percentile) / 10.0);
            DurationLimit::Percentile { factor, percentile, least }
        });
        prop_oneof![any_duration().prop_map(DurationLimit::Fixed), percentile]
    }

    fn any_duration() -> impl Strategy<Value = Duration> {
        any::<u64>().prop_map(Duration::from_nanos)
    }

    fn any_comparison() -> impl Strategy<Value = Comparison> {
        prop::sample::select(Comparison::ALL.to_vec()).prop_map(|(comparison, _)| comparison)
    }

    fn any_condition() -> impl Strategy<Value = Condition> {
        let number = any::<i32>().prop_map(|number| Operand::Number(f64::from(number) / 4.0));
        let operand = prop_oneof![number, ".{0,9}".prop_map(Operand::String)];
        ("[a-z0-9_]{1,9}", any_comparison(), operand)
            .prop_map(|(field, comparison, operand)| Condition { field, comparison, operand })
    }

    fn any_cause() -> impl Strategy<Value = Cause> {
        let conditions = || prop::collection::vec(any_condition(), 0..3);
        let who = || prop::option::of(any_name());
        let exit = prop_oneof![
            Just(ExitCondition::Any),
            Just(ExitCondition::Nonzero),
            any::<u8>().prop_map(ExitCondition::Code),
            (1u8..=64).prop_map(ExitCondition::Signal),
        ];
        let value = || any::<i32>().prop_map(|value| f64::from(value) / 8.0);
        prop_oneof![
            (any_name(), any_limit()).prop_map(|(name, limit)| Cause::Zone(name, limit)),
            (who(), any_limit()).prop_map(|(set, limit)| Cause::Frame(set, limit)),
            (any_name(), any_limit()).prop_map(|(name, limit)| Cause::Function(name, limit)),
            (any_name(), any_limit()).prop_map(|(name, limit)| Cause::Pair(name, limit)),
            (any_name(), conditions()).prop_map(|(name, all)| Cause::Hit(name, all)),
            (any_name(), conditions()).prop_map(|(name, all)| Cause::Tracepoint(name.0, all)),
            (who(), any_duration()).prop_map(|(who, time)| Cause::Waiting(who, time)),
            (who(), any_duration()).prop_map(|(who, time)| Cause::Blocked(who, time)),
            (who(), any_duration()).prop_map(|(who, time)| Cause::Uninterruptible(who, time)),
            (who(), exit).prop_map(|(who, how)| Cause::Exit(who, how)),
            who().prop_map(Cause::Crash),
            (who(), ".{0,12}").prop_map(|(who, part)| Cause::Message(who, part)),
            (any_name(), any_comparison(), value()).prop_map(|(n, c, v)| Cause::Counter(n, c, v)),
            (any_name(), any_comparison(), value()).prop_map(|(n, c, v)| Cause::Plot(n, c, v)),
            Just(Cause::Signal),
        ]
    }

    proptest! {
        #[test]
        fn any_trigger_is_read_as_it_was_written(
            name in "[a-zA-Z0-9_-]{1,9}",
            cause in any_cause(),
            program in prop::option::of(any_name()),
            user in prop::option::of(any_user()),
            after in any_duration(),
            limit in prop::option::of(any::<u32>()),
            pause in any_duration(),
            last in prop::option::of(any_duration()),
        ) {
            let has_program = matches!(
                cause,
                Cause::Zone(..) | Cause::Frame(..) | Cause::Function(..) | Cause::Pair(..)
                    | Cause::Hit(..) | Cause::Plot(..)
            );
            let program = program.filter(|_| has_program);
            let trigger = Trigger { name, cause, program, user, after, limit, pause, last };
            prop_assert_eq!(trigger.to_string().parse(), Ok(trigger));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}") {
            let _ = text.parse::<Trigger>();
            let _ = read_triggers(&text);
        }
    }
}
