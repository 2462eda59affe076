//! Drawing: a second of the machine on a screen of any size.

use super::cost::OwnCost;
use super::rows::{Column, Row, Subject, cell, duration, waker_text};
use super::view::{Recorded, View};
use crate::escape::printable;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect};
use ratatui_core::style::{Color, Modifier, Style};
use syscollect_activity::{CpuActivity, Interval};
use syscollect_model::{bytes, grouped};

/// A CPU with its bar takes so many columns.
const CPU_WIDTH: u16 = 20;
const BAR_WIDTH: usize = 9;

const HELP: &[&str] = &[
    "up, down, page up/down, home, end   mark a row",
    "p  processes   t  threads   z  zones, of GPUs too, and frames of programs",
    "f  functions, of the marked process, or of all: counted from then on",
    "Enter  the marked process's threads, or the function's calls   Esc  all, back",
    "<  >  sort by the column beside     r  the other way round",
    "/  show only names that contain a text, or a number",
    "space  pause, go on",
    "left, right  a second back, forward   [ ]  ten seconds",
    "s  write a snapshot of what is held   Ctrl-Z  back to the shell   q  quit",
    "",
    "CPU%    on a CPU, of one CPU          WAIT%   runnable, others had the CPU",
    "UNINT%  blocked, mostly by a disk     SLEEP%  blocked until something wakes it",
    "MAX-WAIT  the longest wait for a CPU  WOKEN BY  who woke it most; + it ended",
    "Times are of one second; figures are of what was recorded, all of it unless",
    "INCOMPLETE stands above.",
];

/// What a screen shows.
pub(super) struct Shown<'a> {
    pub(super) recorded: Recorded<'a>,
    pub(super) cost: &'a OwnCost,
    /// Colours are wanted.
    pub(super) is_coloured: bool,
}

/// Draws it; where the cursor belongs, if anywhere.
pub(super) fn draw(shown: &Shown<'_>, view: &mut View, buffer: &mut Buffer) -> Option<Position> {
    let area = buffer.area;
    let mut canvas = Canvas { buffer, area, y: 0, is_coloured: shown.is_coloured };
    let Some((second, newer)) = view.second(shown.recorded.history) else {
        canvas.line("syscollect top: waits for the first second", Style::new());
        return None;
    };
    canvas.title(second, newer, view);
    canvas.cpus(second);
    canvas.sums(second);
    canvas.line(&shown.cost.line(), Style::new());
    if view.shows_help {
        canvas.y += 1;
        HELP.iter().for_each(|line| canvas.line(line, Style::new()));
        return None;
    }
    // One line for the titles, and at the end one for what is marked and one for keys.
    let visible = usize::from(area.height.saturating_sub(canvas.y + 3));
    let rows = view.rows(shown.recorded, second, visible);
    canvas.titles(view);
    for row in rows.iter().skip(view.first).take(visible) {
        let is_marked = view.marked.is_some() && row.id == view.marked;
        canvas.row(second, row, view.selection.subject, is_marked);
    }
    canvas.y = canvas.y.max(area.height.saturating_sub(2));
    let marked = rows.iter().find(|row| view.marked.is_some() && row.id == view.marked);
    let subject = view.selection.subject;
    let details = marked.map(|row| details(shown.recorded, second, row));
    let details = details.unwrap_or_else(|| lacks(second, subject));
    canvas.line(&details, Style::new());
    canvas.last_line(view)
}

struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    y: u16,
    is_coloured: bool,
}

impl Canvas<'_> {
    /// Text at a place of the present line, as far as there is room.
    fn text(&mut self, x: u16, text: &str, width: u16, style: Style) {
        let left = self.area.width.saturating_sub(x);
        if self.y < self.area.height && left > 0 {
            let width = usize::from(width.min(left));
            self.buffer.set_stringn(x, self.y, text, width, style);
        }
    }

    fn line(&mut self, text: &str, style: Style) {
        self.text(0, text, self.area.width, style);
        self.y += 1;
    }

    fn colour(&self, colour: Color) -> Style {
        if self.is_coloured { Style::new().fg(colour) } else { Style::new() }
    }

    fn title(&mut self, second: &Interval, newer: usize, view: &View) {
        let mut title = match view.selection.subject {
            Subject::Threads => "syscollect top: threads".to_owned(),
            Subject::Processes => "syscollect top: processes".to_owned(),
            Subject::Zones => "syscollect top: zones and frames".to_owned(),
            Subject::Functions => "syscollect top: functions".to_owned(),
            Subject::Calls => "syscollect top: calls".to_owned(),
        };
        if let Some(pid) = view.selection.of_process {
            title += &format!(" of process {pid}");
        }
        if !view.selection.filter.is_empty() {
            title += &format!(" with {}", printable(&view.selection.filter));
        }
        let mut state = match (view.at, newer) {
            (None, _) => "live".to_owned(),
            (Some(_), 0) => "paused".to_owned(),
            (Some(_), newer) => format!("paused, {newer} s ago"),
        };
        let shows_zones = view.selection.subject == Subject::Zones;
        let shows_functions = matches!(view.selection.subject, Subject::Functions | Subject::Calls);
        let functions = second.functions.as_ref().filter(|_| shows_functions);
        let is_incomplete = second.is_incomplete
            || (shows_zones && second.zones_incomplete)
            || functions.is_some_and(|functions| functions.is_incomplete);
        let width = usize::from(self.area.width);
        if is_incomplete {
            let missing = match &second.zones_incomplete_users[..] {
                [first, more @ ..] if shows_zones && !second.is_incomplete => {
                    let more = if more.is_empty() { "" } else { " and others" };
                    format!("zones of user {first}{more}")
                }
                _ => "records are missing".to_owned(),
            };
            let long = format!("INCOMPLETE: {missing}  {state}");
            let has_room = title.chars().count() + long.len() < width;
            state = if has_room { long } else { format!("INCOMPLETE  {state}") };
        }
        // The state goes before the title where there is no room for both.
        let x = width.saturating_sub(state.len()) as u16;
        self.text(0, &title, x.saturating_sub(1), Style::new().add_modifier(Modifier::BOLD));
        let style = match is_incomplete {
            true => self.colour(Color::Red).add_modifier(Modifier::BOLD),
            false => Style::new(),
        };
        self.line_at(x, &state, style);
    }

    fn line_at(&mut self, x: u16, text: &str, style: Style) {
        self.text(x, text, self.area.width, style);
        self.y += 1;
    }

    /// A bar for each CPU, or a digit where that needs too many lines.
    fn cpus(&mut self, second: &Interval) {
        let columns = (self.area.width / CPU_WIDTH).max(1);
        let most_lines = (self.area.height / 6).max(1);
        let count = second.cpus.len();
        if count <= usize::from(columns * most_lines) {
            for line in second.cpus.chunks(usize::from(columns)) {
                for (column, cpu) in line.iter().enumerate() {
                    let x = column as u16 * CPU_WIDTH;
                    let style = self.colour(load_colour(second, cpu));
                    self.text(x, &bar(second, cpu), CPU_WIDTH - 1, style);
                }
                self.y += 1;
            }
            return;
        }
        let each_line = usize::from(self.area.width.saturating_sub(6)).max(1);
        for (number, line) in second.cpus.chunks(each_line).take(most_lines.into()).enumerate() {
            self.text(0, &format!("{:>5}", number * each_line), 5, Style::new());
            let digits: String = line.iter().map(|cpu| digit(second, cpu)).collect();
            self.line_at(6, &digits, Style::new());
        }
    }

    fn sums(&mut self, second: &Interval) {
        let sum = |of: fn(&CpuActivity) -> u64| second.cpus.iter().map(of).sum::<u64>();
        let all = (second.cpus.len() as u64 * second.ticks).max(1) as f64;
        let percent = |ticks: u64| ticks as f64 * 100.0 / all;
        let unknown = match sum(|cpu| cpu.unknown) {
            0 => String::new(),
            ticks => format!(", {:.1} % not known", percent(ticks)),
        };
        let parts = [
            format!("CPUs {:.1} % busy{unknown}", percent(sum(|cpu| cpu.busy))),
            format!("switches {}", grouped(second.switches)),
            format!("wakeups {}", grouped(second.wakeups)),
            format!("asleep {}", grouped(second.sleeping)),
            format!("threads +{} -{}", second.new_threads, second.ended_threads),
        ];
        self.line(&fitting(&parts, self.area.width.into()), Style::new());
        self.line(&latency(second), Style::new());
    }

    fn titles(&mut self, view: &View) {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        self.text(0, &" ".repeat(self.area.width.into()), self.area.width, style);
        let subject = view.selection.subject;
        let mut x = 0;
        let sort = view.selection.sort.or_usual(subject);
        for column in shown(self.area.width, subject) {
            let width = self.width(column, x, subject);
            let title = column.title(subject);
            let is_sorted = column == sort;
            let style = if is_sorted { style.add_modifier(Modifier::BOLD) } else { style };
            let title = if is_sorted { format!("{title}*") } else { title.to_owned() };
            self.cell(column, x, width, &title, style);
            x += width + 1;
        }
        self.y += 1;
    }

    fn row(&mut self, second: &Interval, row: &Row, subject: Subject, is_marked: bool) {
        let style = match is_marked {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        if is_marked {
            self.text(0, &" ".repeat(self.area.width.into()), self.area.width, style);
        }
        let mut x = 0;
        for column in shown(self.area.width, subject) {
            let width = self.width(column, x, subject);
            self.cell(column, x, width, &cell(second, row, column, subject), style);
            x += width + 1;
        }
        self.y += 1;
    }

    /// The last column takes what is left.
    fn width(&self, column: Column, x: u16, subject: Subject) -> u16 {
        match Column::of(subject).last() {
            Some(last) if *last == column && column.is_text() => self.area.width.saturating_sub(x),
            _ => column.widths(subject).width,
        }
    }

    fn cell(&mut self, column: Column, x: u16, width: u16, text: &str, style: Style) {
        if column.is_text() {
            self.text(x, text, width, style);
        } else {
            // Figures are ASCII: one that is too long sticks out to the left, over the space.
            let free = usize::from(width).saturating_sub(text.len()) as u16;
            self.text(x + free, text, width + 1, style);
        }
    }

    /// What is typed, the last thing that was said, or the keys.
    fn last_line(&mut self, view: &View) -> Option<Position> {
        let y = self.y;
        if view.is_typing {
            let typed = format!("Names that contain: {}", printable(&view.selection.filter));
            self.line(&typed, Style::new());
            let x = typed.chars().count().min(usize::from(self.area.width.saturating_sub(1)));
            return (y < self.area.height).then_some(Position::new(x as u16, y));
        }
        let keys = "q quit h help p processes t threads f functions z zones / filter <> sort";
        let (text, style) = match view.message.is_empty() {
            true => (keys, self.colour(Color::Cyan)),
            false => (view.message.as_str(), Style::new().add_modifier(Modifier::BOLD)),
        };
        self.line(text, style);
        None
    }
}

/// The columns that a table of that width has.
fn shown(width: u16, subject: Subject) -> impl Iterator<Item = Column> {
    let columns = Column::of(subject).iter().copied();
    columns.filter(move |column| column.widths(subject).least <= width)
}

/// `  3 ||||      45.3`.
fn bar(second: &Interval, cpu: &CpuActivity) -> String {
    let cells = |ticks| (second.share(ticks) * BAR_WIDTH as f64).round() as usize;
    let busy = cells(cpu.busy).min(BAR_WIDTH);
    let unknown = cells(cpu.unknown).min(BAR_WIDTH - busy);
    let bar = "|".repeat(busy) + &"?".repeat(unknown);
    format!("{:>3} {bar:<BAR_WIDTH$} {:>5.1}", cpu.cpu, second.share(cpu.busy) * 100.0)
}

/// Tenths of the time that a CPU was busy.
fn digit(second: &Interval, cpu: &CpuActivity) -> char {
    if cpu.unknown > second.ticks / 2 {
        return '?';
    }
    match (second.share(cpu.busy) * 10.0).round() as u32 {
        0 if cpu.busy == 0 => '.',
        tenths => char::from_digit(tenths.min(9), 10).unwrap_or('9'),
    }
}

fn load_colour(second: &Interval, cpu: &CpuActivity) -> Color {
    match second.share(cpu.busy) {
        share if share >= 0.9 => Color::Red,
        share if share >= 0.5 => Color::Yellow,
        _ => Color::Green,
    }
}

/// `Run queue  p50 3.20 us   p90 20.1 us ...`.
pub(super) fn latency(second: &Interval) -> String {
    let waits = &second.latency;
    if waits.count() == 0 {
        return "Run-queue latency  nobody waited".into();
    }
    let percentile = |percent| duration(second, waits.percentile(percent).unwrap_or(0));
    format!(
        "Run-queue latency  p50 {}   p90 {}   p99 {}   longest {}",
        percentile(50.0),
        percentile(90.0),
        percentile(99.0),
        duration(second, waits.longest()),
    )
}

/// What a table lacks, where nothing is marked.
fn lacks(second: &Interval, subject: Subject) -> String {
    if !matches!(subject, Subject::Functions | Subject::Calls) {
        return String::new();
    }
    let Some(functions) = second.functions.as_ref() else {
        return "functions are counted from when they are asked for on".into();
    };
    let (_, stacks) = functions.tree.others();
    match (functions.sample_ticks, stacks + functions.beyond) {
        (0, _) => "without samples (--freq) nothing is known of functions that run".into(),
        (_, 0) => String::new(),
        (_, stacks) => format!("there was no room for {} stacks", grouped(stacks)),
    }
}

/// In which function a thread is blocked, and in which file that is.
fn blocked_in(recorded: Recorded<'_>, second: &Interval, tid: u32) -> Option<String> {
    let (functions, of) = (recorded.functions, second.functions.as_deref()?);
    let function = functions.blocked_in(of, tid)?;
    let name = printable(&functions.name(of, function));
    Some(match functions.module(of, function) {
        module if module.is_empty() => name,
        module => format!("{name} ({})", printable(&module)),
    })
}

/// As many of these as a line of that width has room for, from the first on; closer together where
/// more have room so.
fn fitting(parts: &[String], width: usize) -> String {
    let joined = |gap: &str| {
        let lines = (1..=parts.len()).rev().map(|count| (count, parts[..count].join(gap)));
        lines.into_iter().find(|(count, line)| *count == 1 || line.chars().count() <= width)
    };
    let [wide, close] = ["   ", "  "].map(|gap| joined(gap).unwrap_or_default());
    if close.0 > wide.0 { close.1 } else { wide.1 }
}

/// What a row has no column for.
fn details(recorded: Recorded<'_>, second: &Interval, row: &Row) -> String {
    if let Some(function) = &row.function {
        return match function.module.is_empty() {
            true => row.name.clone(),
            false => format!("{} ({})", row.name, function.module),
        };
    }
    if let Some(zones) = &row.zones {
        let text = |ticks| duration(second, ticks);
        let open = match zones.open {
            0 => String::new(),
            open => format!(", {open} open, the oldest for {}", text(zones.open_for)),
        };
        return format!(
            "{} of process {}: p50 {}, p90 {}, p99 {}, longest {}{open}",
            row.name,
            zones.pid,
            text(zones.p50),
            text(zones.p90),
            text(zones.p99),
            text(zones.longest)
        );
    }
    let percent = |ticks| second.share(ticks) * 100.0;
    let mut text = row.id.map(|id| format!("{id} {}:", row.name)).unwrap_or_default();
    if let Some(preempted) = row.preempted {
        if let Some(function) = row.id.and_then(|tid| blocked_in(recorded, second, tid)) {
            text += &format!(" blocked in {function},");
        }
        text +=
            &format!(" of process {}, {} switches ({preempted} preempted),", row.of, row.switches);
    }
    text += &format!(" {} wakeups", row.wakeups);
    if let Some(share) = row.waker {
        text += &format!(", {} by {}", share.wakeups, waker_text(row.waker));
    }
    for (what, ticks) in [("stopped", row.times.stopped), ("not known", row.times.unknown)] {
        if ticks > 0 {
            text += &format!(", {what} {:.1} %", percent(ticks));
        }
    }
    text
}

impl OwnCost {
    /// What the recorder takes and has lost.
    pub(super) fn line(&self) -> String {
        let lost = match (self.lost, self.unseen_chunks) {
            (0, 0) => "nothing".to_owned(),
            (lost, 0) => format!("{} EVENTS", grouped(lost)),
            (lost, unseen) => {
                format!("{} EVENTS, {} chunks not seen here", grouped(lost), grouped(unseen))
            }
        };
        format!(
            "Lost {lost}   recorder {:.1} % CPU (view {:.1} %), {}   holds {} s, {}",
            self.cpu_percent,
            self.view_percent,
            bytes(self.peak_bytes),
            self.held.as_secs(),
            bytes(self.held_bytes),
        )
    }
}
