//! What is shown while work goes on, and how figures are written.
//!
//! Progress appears on a terminal only; colours besides obey `NO_COLOR`
//! (<https://no-color.org>).

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Standard error: a terminal with somebody before it, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    live: bool,
    style: Style,
}

/// How text may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    colored: bool,
}

impl Terminal {
    /// What standard error is.
    pub(crate) fn stderr() -> Self {
        Self::of(&std::io::stderr())
    }

    /// What standard output is.
    pub(crate) fn stdout() -> Self {
        Self::of(&std::io::stdout())
    }

    fn of(stream: &impl IsTerminal) -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        Self::new(stream.is_terminal(), &variable("TERM"), &variable("NO_COLOR"))
    }

    fn new(terminal: bool, term: &str, no_color: &str) -> Self {
        let live = terminal && term != "dumb";
        Self { live, style: Style { colored: live && no_color.is_empty() } }
    }

    /// Somewhere nobody watches.
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Self::new(false, "", "")
    }

    /// Whether progress is shown.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// How text may look.
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// Shows a recording that runs.
    pub(crate) fn recording(&self, duration: Option<Duration>) -> RecordingProgress {
        let bar = match duration {
            Some(duration) => self.bar("recording", duration.as_millis() as u64, "{wide_bar} {msg}"),
            None => self.bar("recording", 0, "{msg}, Ctrl-C stops"),
        };
        RecordingProgress { bar }
    }

    /// Shows work of `total` steps.
    pub(crate) fn work(&self, what: &'static str, total: u64) -> Bar {
        Bar(self.bar(what, total.max(1), "{wide_bar} {percent} %"))
    }

    /// Shows work that cannot tell how far it is.
    pub(crate) fn busy(&self, what: &'static str) -> Bar {
        let bar = self.bar(what, 0, "{elapsed}");
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar(bar)
    }

    fn bar(&self, what: &'static str, total: u64, rest: &str) -> ProgressBar {
        let target = if self.live { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target((total > 0).then_some(total), target).with_prefix(what);
        if let Ok(style) = ProgressStyle::with_template(&format!("{{prefix}} {rest}")) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    }
}

impl Style {
    /// Text that must not be missed.
    pub(crate) fn alarm(self, text: &str) -> String {
        self.code("1;31", text)
    }

    /// Text that is well.
    pub(crate) fn good(self, text: &str) -> String {
        self.code("32", text)
    }

    fn code(self, code: &str, text: &str) -> String {
        if self.colored { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Events so far; `None` where nobody counts them.
    pub(crate) events: Option<u64>,
    /// Bytes in the file.
    pub(crate) bytes: u64,
    /// What was lost.
    pub(crate) lost: u64,
}

/// A recording's line; removed when it is dropped.
pub(crate) struct RecordingProgress {
    bar: ProgressBar,
}

impl RecordingProgress {
    /// Shows how far it is.
    pub(crate) fn update(&self, elapsed: Duration, progress: &Progress) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(elapsed.as_millis() as u64);
        let lost = if progress.lost > 0 { format!(", {} LOST", grouped(progress.lost)) } else { String::new() };
        let events = progress.events.map_or_else(String::new, |events| format!("{} events, ", grouped(events)));
        self.bar.set_message(format!("{:.1} s, {events}{}{lost}", elapsed.as_secs_f64(), bytes(progress.bytes)));
    }
}

impl Drop for RecordingProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar; removed when it is dropped.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// So many steps are done.
    pub(crate) fn position(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12.3 MB`, in powers of 1000, as file managers show it.
pub(crate) fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["bytes", "kB", "MB", "GB"] {
        if value < 999.95 {
            return if unit == "bytes" { format!("{number} bytes") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// `1.50 s`, `12.3 ms`, `4 us`.
pub(crate) fn duration(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0..1_000_000 => format!("{:.0} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

/// Text of a capture, which may come from anywhere, without what would move the
/// cursor or change the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_for_terminals_and_colours_for_those_who_want_them() {
        assert!(Terminal::new(true, "xterm", "").is_live());
        assert!(!Terminal::new(false, "xterm", "").is_live());
        assert!(!Terminal::new(true, "dumb", "").is_live());
        let plain = Terminal::new(true, "xterm", "1");
        assert!(plain.is_live());
        assert_eq!(plain.style().alarm("lost"), "lost");
        assert_ne!(Terminal::new(true, "xterm", "").style().alarm("lost"), "lost");
    }

    #[test]
    fn figures_read_easily() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(grouped).each_ref().map(|s| &**s));
        assert_eq!(bytes(999), "999 bytes");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(999_999), "1.0 MB", "rounded up to the next unit");
        assert_eq!(bytes(2_500_000_000_000), "2.5 TB");
        assert_eq!(duration(1_500_000_000), "1.50 s");
        assert_eq!(duration(12_340_000), "12.3 ms");
        assert_eq!(duration(4_000), "4 us");
    }

    #[test]
    fn a_name_does_nothing_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(printable("\"plain\" text, ünïcode"), "\"plain\" text, ünïcode");
    }
}
