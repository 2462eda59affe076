//! What is shown while work goes on, and how figures are written.
//!
//! Progress moves on a terminal only; elsewhere, as in a log, what takes long says now and then how
//! far it is. Colours besides obey `NO_COLOR`
//! (<https://no-color.org>).

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::confine;
use syscollect_model::{bytes, grouped};

/// Standard error: a terminal with somebody before it, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    live: bool,
    /// Where nothing moves: lines tell that long work goes on.
    tells: bool,
    style: Style,
}

/// How text may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    coloured: bool,
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
        Self::new(stream.is_terminal(), &variable("TERM"), &variable("NO_COLOR"))
    }

    fn new(terminal: bool, term: &str, no_color: &str) -> Self {
        let live = terminal && term != "dumb";
        Self { live, tells: !live, style: Style::new(live && no_color.is_empty()) }
    }

    /// Where nobody watches, or something else is shown.
    fn silent() -> Self {
        Self { live: false, tells: false, style: Style::new(false) }
    }

    /// For work that goes on beside what the terminal shows.
    #[cfg_attr(windows, expect(dead_code, reason = "only the recorder of Linux needs it"))]
    pub(crate) fn quiet() -> Self {
        Self::silent()
    }

    /// Somewhere nobody watches.
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Self::silent()
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
            Some(duration) => {
                self.bar("recording", duration.as_millis() as u64, "{wide_bar} {msg}")
            }
            None => self.bar("recording", 0, "{msg}, Ctrl-C stops"),
        };
        // The line may be drawn before anything is known.
        bar.set_message(elapsed_text(Duration::ZERO));
        RecordingProgress { bar, pace: RecentRate::default() }
    }

    /// Shows work of `total` steps.
    pub(crate) fn work(&self, what: &'static str, total: u64) -> ExportBar {
        self.working(self.bar(what, total.max(1), "{wide_bar} {percent} %"))
    }

    /// Shows work that cannot tell how far it is.
    pub(crate) fn busy(&self, what: &'static str) -> ExportBar {
        let bar = self.bar(what, 0, "{elapsed}");
        let ticked = bar.clone();
        let ticks = self.live.then(|| PeriodicWork::every(TICK, || move || ticked.tick()));
        let mut bar = self.working(bar);
        bar._ticks = ticks;
        bar
    }

    fn working(&self, bar: ProgressBar) -> ExportBar {
        let signs = self.tells.then(|| progress_lines(bar.clone()));
        ExportBar { bar, _signs: signs, _ticks: None }
    }

    fn bar(&self, what: &'static str, total: u64, rest: &str) -> ProgressBar {
        let target = if self.live {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar =
            ProgressBar::with_draw_target((total > 0).then_some(total), target).with_prefix(what);
        if let Ok(style) = ProgressStyle::with_template(&format!("{{prefix}} {rest}")) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

impl Style {
    const ALARM: &str = "\x1b[1;31m";
    const GOOD: &str = "\x1b[32m";
    const PLAIN: &str = "\x1b[0m";

    pub(crate) fn new(coloured: bool) -> Self {
        Self { coloured }
    }

    /// Whether there are colours.
    pub(crate) fn is_coloured(self) -> bool {
        self.coloured
    }

    /// The codes that its texts may have.
    pub(crate) fn codes(self) -> &'static [&'static str] {
        if self.coloured { &[Self::ALARM, Self::GOOD, Self::PLAIN] } else { &[] }
    }

    /// Text that must not be missed.
    pub(crate) fn alarm(self, text: &str) -> String {
        self.code(Self::ALARM, text)
    }

    /// Text that is well.
    pub(crate) fn good(self, text: &str) -> String {
        self.code(Self::GOOD, text)
    }

    fn code(self, code: &str, text: &str) -> String {
        if self.coloured { format!("{code}{text}{}", Self::PLAIN) } else { text.to_owned() }
    }
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Events so far; `None` where nobody counts them.
    pub(crate) events: Option<u64>,
    /// Bytes in the file, or in all of them.
    pub(crate) bytes: u64,
    /// What was lost.
    pub(crate) lost: u64,
    /// Bytes that are free where the file lies.
    pub(crate) disk_free: Option<u64>,
    /// Bytes that are kept in memory, where the newest are.
    pub(crate) kept: Option<u64>,
}

impl Progress {
    /// `61.0 s, 1,234,567 events, 45.6 MB (44.9 MB a minute, the disk lasts for 3 h), nothing
    /// lost`.
    fn line(&self, elapsed: Duration, bytes_a_minute: Option<f64>) -> String {
        let mut line = elapsed_text(elapsed) + ", ";
        if let Some(events) = self.events {
            line += &format!("{} events, ", grouped(events));
        }
        line += &match self.kept {
            Some(kept) => format!("{} kept in memory", bytes(kept)),
            None => bytes(self.bytes) + &self.pace(bytes_a_minute),
        };
        line += &match self.lost {
            0 => ", nothing lost so far".to_owned(),
            lost => format!(", {} LOST", grouped(lost)),
        };
        line
    }

    fn pace(&self, bytes_a_minute: Option<f64>) -> String {
        let Some(pace) = bytes_a_minute.filter(|pace| *pace >= 1.0) else { return String::new() };
        let disk = self.disk_free.map_or_else(String::new, |free| {
            format!(", the disk lasts for {}", rough(free as f64 / pace))
        });
        format!(" ({} a minute{disk})", bytes(pace as u64))
    }
}

/// `61.0 s`, as the moving line has it.
fn elapsed_text(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

/// `40 s`, `12 min`, `3 h`, `20 days`: so many minutes, as rough as they are known.
fn rough(minutes: f64) -> String {
    match minutes {
        ..2.0 => format!("{:.0} s", minutes * 60.0),
        ..120.0 => format!("{minutes:.0} min"),
        ..2_880.0 => format!("{:.0} h", minutes / 60.0),
        _ => format!("{:.0} days", minutes / 1_440.0),
    }
}

/// How far back the pace is measured.
const PACE_WINDOW: Duration = Duration::from_secs(30);
/// A pace of less time than this says little.
const SHORTEST_PACE: Duration = Duration::from_secs(2);

/// How many bytes come in a minute, by the last half of one.
#[derive(Debug, Default)]
struct RecentRate(VecDeque<(Duration, u64)>);

impl RecentRate {
    /// Notes how many bytes there are; what comes in a minute, once that can be told.
    fn note(&mut self, elapsed: Duration, bytes: u64) -> Option<f64> {
        if self
            .0
            .back()
            .is_none_or(|(last, _)| elapsed.saturating_sub(*last) >= Duration::from_secs(1))
        {
            self.0.push_back((elapsed, bytes));
        }
        while self.0.len() > 2
            && self.0.get(1).is_some_and(|(at, _)| elapsed.saturating_sub(*at) >= PACE_WINDOW)
        {
            self.0.pop_front();
        }
        let (since, before) = *self.0.front()?;
        let time = elapsed.saturating_sub(since);
        (time >= SHORTEST_PACE)
            .then(|| bytes.saturating_sub(before) as f64 * 60.0 / time.as_secs_f64())
    }
}

/// A recording's line; removed when it is dropped.
pub(crate) struct RecordingProgress {
    bar: ProgressBar,
    pace: RecentRate,
}

impl RecordingProgress {
    /// Shows how far it is.
    pub(crate) fn update(&mut self, elapsed: Duration, progress: &Progress) {
        if self.bar.is_hidden() {
            return;
        }
        let pace = self.pace.note(elapsed, progress.bytes);
        self.bar.set_position(elapsed.as_millis() as u64);
        self.bar.set_message(progress.line(elapsed, pace));
    }
}

impl Drop for RecordingProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar; removed when it is dropped.
pub(crate) struct ExportBar {
    bar: ProgressBar,
    _signs: Option<PeriodicWork>,
    _ticks: Option<PeriodicWork>,
}

impl ExportBar {
    /// So many steps are done.
    pub(crate) fn position(&self, done: u64) {
        self.bar.set_position(done);
    }
}

impl Drop for ExportBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How often long work tells where nothing moves.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);

/// How often a line moves that shows nothing but time.
const TICK: Duration = Duration::from_millis(200);

/// What is done now and then by a thread, until this is dropped. Where no thread can be had (users
/// of the machine may have taken all) it is not done.
struct PeriodicWork {
    _end: Sender<()>,
}

impl PeriodicWork {
    /// `begin` is called in the thread.
    fn every<W: FnMut()>(interval: Duration, begin: impl FnOnce() -> W + Send + 'static) -> Self {
        let (end, ended) = channel();
        let _ = std::thread::Builder::new().name("progress".into()).spawn(move || {
            let mut work = begin();
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                work();
            }
        });
        Self { _end: end }
    }
}

/// Lines that tell how far work is.
fn progress_lines(bar: ProgressBar) -> PeriodicWork {
    PeriodicWork::every(SIGN_OF_LIFE, move || {
        confine::to_waiting();
        let began = Instant::now();
        move || {
            let done = bar.length().map(|total| (bar.position(), total));
            eprint_line!("syscollect: {}", sign_of_life(&bar.prefix(), done, began.elapsed()));
        }
    })
}

/// `exporting for 40 s, 12 % done`. It is never all: what is read to its end is not written yet.
fn sign_of_life(what: &str, done: Option<(u64, u64)>, elapsed: Duration) -> String {
    let far = done.map_or_else(String::new, |(done, total)| {
        format!(", {} % done", (done.saturating_mul(100) / total.max(1)).min(99))
    });
    format!("{what} for {} s{far}", elapsed.as_secs())
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
    fn where_nothing_moves_long_work_tells_how_far_it_is() {
        assert!(Terminal::new(false, "", "").tells && !Terminal::new(true, "xterm", "").tells);
        let minute = Duration::from_secs(60);
        assert_eq!(
            sign_of_life("exporting", Some((1_500, 10_000)), minute),
            "exporting for 60 s, 15 % done"
        );
        assert_eq!(
            sign_of_life("exporting", Some((10_000, 10_000)), minute),
            "exporting for 60 s, 99 % done"
        );
        assert_eq!(sign_of_life("naming functions", None, minute), "naming functions for 60 s");
    }

    #[test]
    fn the_moving_line_tells_losses_the_pace_and_how_long_the_disk_lasts() {
        let progress = Progress {
            events: Some(1_234_567),
            bytes: 45_600_000,
            disk_free: Some(9_000_000_000),
            ..Progress::default()
        };
        let minute = Duration::from_secs(61);
        assert_eq!(
            progress.line(minute, Some(50e6)),
            "61.0 s, 1,234,567 events, 45.6 MB (50.0 MB a minute, the disk lasts for 3 h), nothing \
             lost so far"
        );
        assert_eq!(
            progress.line(minute, None),
            "61.0 s, 1,234,567 events, 45.6 MB, nothing lost so far"
        );
        let lossy = Progress { lost: 5_000, kept: Some(8_000_000), ..progress };
        assert_eq!(
            lossy.line(minute, Some(50e6)),
            "61.0 s, 1,234,567 events, 8.00 MB kept in memory, 5,000 LOST"
        );
        assert_eq!(
            [0.5, 30.0, 600.0, 28_800.0].map(rough).each_ref().map(|s| &**s),
            ["30 s", "30 min", "10 h", "20 days"]
        );
    }

    #[test]
    fn the_moving_line_has_no_empty_part_before_there_are_figures() {
        for duration in [None, Some(Duration::from_secs(5))] {
            assert_eq!(Terminal::hidden().recording(duration).bar.message(), "0.0 s");
        }
    }

    #[test]
    fn the_pace_is_that_of_the_last_half_minute() {
        let mut pace = RecentRate::default();
        assert_eq!(pace.note(Duration::ZERO, 0), None);
        let mut last = None;
        // 1 MB a second for two minutes, then nothing.
        for second in 1..=160 {
            last = pace.note(Duration::from_secs(second), second.min(120) * 1_000_000);
            if second == 120 {
                assert!(last.is_some_and(|pace| (59e6..61e6).contains(&pace)), "{last:?}");
            }
        }
        assert_eq!(last, Some(0.0));
        assert!(pace.0.len() < 40, "{}", pace.0.len());
    }
}
