//! What is printed does nothing to a terminal, whoever wrote it: recorded programs, captures from
//! elsewhere, or the user's own options.
//!
//! Everything that the program says passes here: standard error through `eprint_line!` and `eprint_styled!`,
//! standard output through [`print()`] and [`print_json`]. [`printable`] is for single values,
//! whose line breaks would forge lines; errors are lines, but for [`Advice`].

use crate::terminal::{Style, Terminal};
use std::fmt::{Arguments, Write as _};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use syscollect_model::is_unprintable;

/// One value, such as a name or a path, without what a terminal obeys.
pub(crate) fn printable(text: &str) -> String {
    escaped(text, |_| 0)
}

/// Lines: the same, but that they stay lines.
pub(crate) fn printable_lines(text: &str) -> String {
    escaped(text, |rest| usize::from(rest.starts_with('\n')))
}

/// Lines in which the colours of `style` stay.
fn styled_lines(text: &str, style: Style) -> String {
    escaped(text, |rest| match rest.starts_with('\n') {
        true => 1,
        false => {
            style.codes().iter().find(|code| rest.starts_with(**code)).map_or(0, |code| code.len())
        }
    })
}

/// Lines in which every colour stays: what clap made of values that were escaped before.
fn coloured_lines(text: &str) -> String {
    escaped(text, |rest| {
        let Some(parameters) = rest.strip_prefix("\u{1b}[") else {
            return usize::from(rest.starts_with('\n'));
        };
        let length = parameters.find(|c: char| !c.is_ascii_digit() && c != ';');
        length
            .filter(|length| parameters[*length..].starts_with('m'))
            .map_or(0, |length| length + 3)
    })
}

/// Escapes what a terminal obeys. `kept` says how many bytes at the beginning of the rest stay as
/// they are.
fn escaped(text: &str, kept: impl Fn(&str) -> usize) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find(is_unprintable) {
        shown.push_str(&rest[..position]);
        rest = &rest[position..];
        let length = match kept(rest) {
            0 => {
                let character = rest.chars().next().unwrap_or_default();
                shown.extend(character.escape_default());
                character.len_utf8()
            }
            length => {
                shown.push_str(&rest[..length]);
                length
            }
        };
        rest = &rest[length..];
    }
    shown + rest
}

/// JSON in which nothing is left that a terminal obeys: the same values, written otherwise.
fn json_lines(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // Within a string JSON has these as escapes already; what is left lays the text out.
            '\n' => shown.push(character),
            // Writing to a String never fails.
            c if is_unprintable(c) => {
                let units = &mut [0; 2];
                for unit in c.encode_utf16(units) {
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
            c => shown.push(c),
        }
    }
    shown
}

/// A line for standard error: a line break in what it tells of would forge another one. Whoever
/// reads it may leave early, which ends nothing.
pub(crate) fn print_line(words: Arguments<'_>) {
    to_stderr(&line(words));
}

/// An error of several lines, each of which is ours: what they tell of others was made
/// [`printable`] before it came in.
// On Windows nothing that is said before a recording takes more than a line.
#[cfg_attr(windows, allow(dead_code))]
#[derive(Debug)]
pub(crate) struct Advice(pub(crate) String);

impl std::fmt::Display for Advice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Advice {}

/// The same as [`print_line()`] of an error that has lines.
pub(crate) fn print_advice(advice: &Advice) {
    to_stderr(&advice_lines(advice));
}

fn advice_lines(advice: &Advice) -> String {
    printable_lines(&format!("syscollect: {advice}\n"))
}

fn line(words: Arguments<'_>) -> String {
    printable(&words.to_string()) + "\n"
}

/// Lines for standard error, with the colours of `style`.
pub(crate) fn print_styled(words: Arguments<'_>, style: Style) {
    to_stderr(&styled_lines(&words.to_string(), style));
}

fn to_stderr(text: &str) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lines) = &mut *held {
        lines.extend(text.lines().map(str::to_owned));
        let excess = lines.len().saturating_sub(MOST_HELD);
        lines.drain(..excess);
        return;
    }
    drop(held);
    // Nobody is left to be told of an error.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Lines that wait while something else has the terminal: the newest.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);
const MOST_HELD: usize = 100;

/// While this lives, what would go to standard error waits.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct HeldLines(());

#[cfg(target_os = "linux")]
impl HeldLines {
    pub(crate) fn begin() -> Self {
        *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
        Self(())
    }

    /// The lines that came so far, which whoever asks shows.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(target_os = "linux")]
impl Drop for HeldLines {
    fn drop(&mut self) {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
        held.into_iter().flatten().for_each(|line| to_stderr(&(line + "\n")));
    }
}

/// A finished text for standard output, in the colours of `style`.
///
/// # Errors
///
/// Standard output refuses it.
pub(crate) fn print(text: &str, style: Style) -> io::Result<()> {
    io::stdout().write_all(styled_lines(text, style).as_bytes())
}

/// JSON for standard output.
///
/// # Errors
///
/// Standard output refuses it.
pub(crate) fn print_json(json: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(json_lines(json).as_bytes())?;
    out.write_all(b"\n")
}

/// Shows a usage error whose values were escaped before, in clap's colours.
pub(crate) fn print_usage(error: &clap::Error) {
    let text = error.render();
    let text = match Terminal::stderr().style().is_coloured() {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    to_stderr(&coloured_lines(&text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_nothing_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(
            printable("\u{9b}2J\u{7f}\r\u{202e}txt\u{2066}"),
            "\\u{9b}2J\\u{7f}\\r\\u{202e}txt\\u{2066}"
        );
        assert_eq!(printable("\"plain\" text, ünïcode, C:\\x"), "\"plain\" text, ünïcode, C:\\x");
    }

    #[test]
    fn what_is_said_of_a_path_is_one_line() {
        let path = "e;v\nLost: nothing";
        let escaped = line(format_args!("syscollect: {path} ran"));
        assert_eq!(escaped, "syscollect: e;v\\nLost: nothing ran\n");
    }

    #[test]
    fn advice_keeps_its_lines() {
        let advice = Advice(format!("no rights.\n  Run: sudo {}", printable("a\nb")));
        assert_eq!(advice_lines(&advice), "syscollect: no rights.\n  Run: sudo a\\nb\n");
    }

    #[test]
    fn what_is_not_seen_is_shown() {
        let unseen = ['\u{200b}', '\u{200d}', '\u{202c}', '\u{2067}', '\u{feff}', '\u{e0041}'];
        for c in unseen {
            let shown = format!("sshd\\u{{{:x}}}", u32::from(c));
            assert_eq!(printable(&format!("sshd{c}")), shown);
            assert_eq!(printable_lines(&format!("sshd{c}\n")), shown + "\n");
        }
        assert_eq!(printable("e\u{301} 漢字 🦀"), "e\u{301} 漢字 🦀", "what is seen stays");
    }

    #[test]
    fn lines_stay_lines_and_only_colours_of_ours_stay() {
        assert_eq!(printable_lines("a\nb\u{1b}[31m\r\n"), "a\nb\\u{1b}[31m\\r\n");
        let style = Style::new(true);
        let text = format!("{}: \u{1b}[2J\n", style.alarm("lost"));
        assert_eq!(styled_lines(&text, style), text.replace("\u{1b}[2J", "\\u{1b}[2J"));
        assert_eq!(styled_lines("\u{1b}[32mx", Style::new(false)), "\\u{1b}[32mx");
    }

    #[test]
    fn usage_errors_keep_colours_and_nothing_else() {
        assert_eq!(
            coloured_lines("\u{1b}[1;31merror:\u{1b}[0m x\n"),
            "\u{1b}[1;31merror:\u{1b}[0m x\n"
        );
        assert_eq!(
            coloured_lines("\u{1b}[2J\u{1b}]0;t\u{7}\u{1b}["),
            "\\u{1b}[2J\\u{1b}]0;t\\u{7}\\u{1b}["
        );
    }

    #[test]
    fn json_keeps_its_values() {
        let name = "a\u{9b}b\u{7f}c\u{202e}d\n\u{1b}\u{200b}\u{e0041}";
        let text = json_lines(&serde_json::to_string_pretty(&[name]).unwrap());
        assert!(!text.chars().any(|c| is_unprintable(c) && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [name]);
    }
}
