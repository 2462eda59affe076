//! The rows of a table: threads or processes of a second, as far as they are asked for, in order.

use super::functions::{self, FunctionFigures};
use super::view::Recorded;
use crate::escape::printable;
use rustc_hash::FxHasher;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use syscollect_activity::{
    Interval, OtherActivity, SpanKind, TaskTimes, ThreadName, Waker, WakerShare, ZoneActivity,
};
use syscollect_model::grouped;

/// What the rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Subject {
    /// Threads
    #[default]
    Threads,
    /// Processes, with the sums of their threads
    Processes,
    /// Zones and frames of instrumented programs
    Zones,
    /// Functions in which threads ran and were blocked
    Functions,
    /// Who called a function, and what it called
    #[value(skip)]
    Calls,
}

/// A column, by which rows can be sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Column {
    /// The number of the thread or process
    Id,
    /// The process that a thread is of; how many threads of a process did anything
    Of,
    /// The name
    Name,
    /// Time on a CPU
    #[default]
    Cpu,
    /// Runnable, but others had the CPU
    Wait,
    /// Blocked uninterruptibly, mostly by disks
    Unint,
    /// Blocked interruptibly: asleep
    Sleep,
    /// How often it left a CPU
    Switches,
    /// How often it was woken
    Wakeups,
    /// The longest wait for a CPU that ended
    MaxWait,
    /// Who woke it most
    Waker,
    /// Of zones: a zone, a frame, or a zone of a GPU
    Kind,
    /// How many ended
    Count,
    /// How long they took together
    Time,
    /// What half of them did not exceed
    P50,
    /// What nine of ten did not exceed
    P90,
    /// What 99 of a hundred did not exceed
    P99,
    /// The longest
    Longest,
    /// Of functions: on a CPU, with what they called
    CpuAll,
    /// Blocked in the function itself
    Off,
    /// Blocked, with what it called
    OffAll,
    /// The file that a function is in
    Module,
    /// Of zones: the process's name
    Process,
    /// How many zones were open all the time
    Open,
    /// Since when the oldest of these is open
    OpenFor,
    /// Part of the function that is unfolded
    #[value(skip)]
    Share,
}

impl Column {
    /// Those of a table, from left to right.
    pub(super) fn of(subject: Subject) -> &'static [Self] {
        use Column::{
            Count, Cpu, CpuAll, Id, Kind, Longest, MaxWait, Module, Name, Of, Off, OffAll, Open,
            OpenFor, P50, P90, P99, Process, Share, Sleep, Switches, Time, Unint, Wait, Waker,
            Wakeups,
        };
        match subject {
            Subject::Threads => {
                &[Id, Of, Name, Cpu, Wait, Unint, Sleep, Switches, Wakeups, MaxWait, Waker]
            }
            Subject::Processes => {
                &[Id, Of, Name, Cpu, Wait, Unint, Sleep, Switches, Wakeups, MaxWait]
            }
            Subject::Zones => {
                &[Of, Process, Kind, Count, Time, P50, P90, P99, Longest, Open, OpenFor, Name]
            }
            Subject::Functions => &[Cpu, CpuAll, Off, OffAll, Module, Name],
            Subject::Calls => &[Share, CpuAll, OffAll, Name],
        }
    }

    /// This one, or what that table is sorted by where it has no such column.
    pub(super) fn or_usual(self, subject: Subject) -> Self {
        match subject {
            subject if Self::of(subject).contains(&self) => self,
            Subject::Zones => Self::Time,
            Subject::Calls => Self::Share,
            Subject::Threads | Subject::Processes | Subject::Functions => Self::Cpu,
        }
    }

    /// What stands above it.
    pub(super) fn title(self, subject: Subject) -> &'static str {
        match (self, subject) {
            (Self::Id, Subject::Threads) => "TID",
            (Self::Id, _) | (Self::Of, Subject::Threads | Subject::Zones) => "PID",
            (Self::Of, _) => "THREADS",
            (Self::Name, Subject::Functions | Subject::Calls) => "FUNCTION",
            (Self::Name, _) => "NAME",
            (Self::CpuAll, Subject::Calls) | (Self::Cpu, _) => "CPU%",
            (Self::Wait, _) => "WAIT%",
            (Self::Unint, _) => "UNINT%",
            (Self::Sleep, _) => "SLEEP%",
            (Self::Switches, _) => "SWITCHES",
            (Self::Wakeups, _) => "WAKEUPS",
            (Self::MaxWait, _) => "MAX-WAIT",
            (Self::Waker, _) => "WOKEN BY",
            (Self::Kind, _) => "KIND",
            (Self::Count, _) => "COUNT",
            (Self::Time, _) => "TIME%",
            (Self::P50, _) => "P50",
            (Self::P90, _) => "P90",
            (Self::P99, _) => "P99",
            (Self::Longest, _) => "LONGEST",
            (Self::CpuAll, _) => "CPU+%",
            (Self::Off, _) | (Self::OffAll, Subject::Calls) => "OFF%",
            (Self::OffAll, _) => "OFF+%",
            (Self::Module, _) => "MODULE",
            (Self::Share, _) => "SHARE%",
            (Self::Process, _) => "PROCESS",
            (Self::Open, _) => "OPEN",
            (Self::OpenFor, _) => "OPEN-FOR",
        }
    }

    /// Its width, and how wide a table has to be that has it. The last one takes what is left.
    pub(super) fn widths(self, subject: Subject) -> Widths {
        let (width, least) = match self {
            Self::Of if subject == Subject::Zones => (7, 90),
            Self::Id => (7, 0),
            Self::Of => (7, 100),
            Self::Name => (16, 0),
            Self::Cpu => (6, 0),
            Self::Wait => (6, 40),
            Self::Unint => (6, 52),
            Self::Sleep => (6, 60),
            Self::Switches => (8, 66),
            Self::Wakeups => (8, 100),
            Self::MaxWait => (8, 76),
            Self::Waker => (8, 80),
            Self::Kind => (5, 100),
            Self::Count => (8, 0),
            Self::Time => (7, 30),
            Self::P50 | Self::P99 | Self::Longest => (8, 60),
            Self::P90 => (8, 100),
            Self::CpuAll => (6, 30),
            Self::Off | Self::OffAll => (7, 40),
            Self::Module => (16, 76),
            Self::Share => (6, 0),
            Self::Process => (12, 40),
            Self::Open => (5, 100),
            Self::OpenFor => (8, 50),
        };
        Widths { width, least }
    }

    /// Text begins at the left, figures end at the right.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::Waker | Self::Kind | Self::Module | Self::Process)
    }
}

/// How much room a column takes, and when it is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    pub(super) width: u16,
    pub(super) least: u16,
}

/// Which rows are asked for, and in which order.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) subject: Subject,
    pub(super) sort: Column,
    pub(super) is_reversed: bool,
    /// Part of a name, whatever its case, or a number.
    pub(super) filter: String,
    /// Only threads, or functions, of this process.
    pub(super) of_process: Option<u32>,
    /// The function that is unfolded, as its row is marked.
    pub(super) of_function: Option<u32>,
}

/// A thread, a process, or the sum of those that are not kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// `None` of a sum.
    pub(super) id: Option<u32>,
    /// The process of a thread, the number of threads of a process.
    pub(super) of: u32,
    /// What a terminal obeys is escaped.
    pub(super) name: String,
    pub(super) times: TaskTimes,
    pub(super) switches: u64,
    /// Of these, how often it was preempted.
    pub(super) preempted: Option<u32>,
    pub(super) wakeups: u64,
    pub(super) longest_wait: u64,
    pub(super) waker: Option<WakerShare>,
    /// What a row of zones has instead.
    pub(super) zones: Option<ZoneActivity>,
    /// What a row of functions has instead.
    pub(super) function: Option<FunctionFigures>,
}

/// The rows of a second.
pub(super) fn rows(recorded: Recorded<'_>, second: &Interval, selection: &Selection) -> Vec<Row> {
    let mut rows: Vec<Row> = match selection.subject {
        Subject::Threads => threads(second, selection.of_process),
        Subject::Processes => processes(second),
        Subject::Zones => second.zones.iter().map(zones).collect(),
        Subject::Functions => functions::functions(recorded, second, selection.of_process),
        Subject::Calls => return functions::calls(recorded, second, selection),
    };
    let filter = selection.filter.to_lowercase();
    if !filter.is_empty() {
        // Threads of a process of that name, too.
        let of_name = second.processes.iter().filter(|process| {
            let name = process.name.map(|name| name.to_string().to_lowercase());
            selection.subject == Subject::Threads && name.is_some_and(|it| it.contains(&filter))
        });
        let of_name: HashSet<u32> = of_name.map(|process| process.pid).collect();
        // What marks others is no number of theirs.
        let has_number = matches!(selection.subject, Subject::Threads | Subject::Processes);
        rows.retain(|row| {
            let id = has_number && row.id.is_some_and(|id| id.to_string() == filter);
            id || row.of.to_string() == filter && selection.subject != Subject::Processes
                || row.of != 0 && of_name.contains(&row.of)
                || row.zones.is_some() && process(row).to_lowercase().contains(&filter)
                || row.name.to_lowercase().contains(&filter)
                || row
                    .function
                    .as_ref()
                    .is_some_and(|it| it.module.to_lowercase().contains(&filter))
        });
    }
    sort(&mut rows, selection);
    // Nobody can say which of them others would be.
    let shows_all = filter.is_empty() && selection.of_process.is_none();
    let others = match selection.subject {
        Subject::Threads => second.other_threads,
        Subject::Processes => second.other_processes,
        Subject::Zones => OtherActivity { count: second.other_zones, ..Default::default() },
        Subject::Functions | Subject::Calls => {
            rows.extend(functions::others(second).filter(|_| shows_all));
            return rows;
        }
    };
    if others.count > 0 && shows_all {
        rows.push(Row {
            name: format!("{} others", others.count),
            times: others.times,
            switches: others.switches,
            wakeups: others.wakeups,
            ..Row::default()
        });
    }
    rows
}

fn threads(second: &Interval, of_process: Option<u32>) -> Vec<Row> {
    let threads = second.threads.iter();
    let asked = threads.filter(|thread| of_process.is_none_or(|pid| thread.pid == pid));
    let row = |thread: &syscollect_activity::ThreadActivity| Row {
        id: Some(thread.tid),
        of: thread.pid,
        name: shown_name(thread.name, thread.has_ended),
        times: thread.times,
        switches: u64::from(thread.switches),
        preempted: Some(thread.preempted),
        wakeups: u64::from(thread.wakeups),
        longest_wait: thread.longest_wait,
        waker: thread.waker,
        ..Row::default()
    };
    asked.map(row).collect()
}

fn processes(second: &Interval) -> Vec<Row> {
    let row = |process: &syscollect_activity::ProcessActivity| Row {
        id: Some(process.pid),
        of: process.threads,
        name: match process.pid {
            0 => "(not known)".into(),
            _ => shown_name(process.name, false),
        },
        times: process.times,
        switches: process.switches,
        wakeups: process.wakeups,
        longest_wait: process.longest_wait,
        ..Row::default()
    };
    second.processes.iter().map(row).collect()
}

fn zones(zones: &ZoneActivity) -> Row {
    let mut hasher = FxHasher::default();
    (zones.kind, zones.pid, &zones.queue, &zones.name).hash(&mut hasher);
    let name = match &zones.queue {
        Some(queue) => printable(&format!("{queue}: {}", zones.name)),
        None => printable(&zones.name),
    };
    Row {
        // Only what marks it.
        id: Some(hasher.finish() as u32),
        of: zones.pid,
        name,
        zones: Some(zones.clone()),
        ..Row::default()
    }
}

/// A name without what a terminal obeys; that of a thread that ended has a mark.
fn shown_name(name: Option<ThreadName>, has_ended: bool) -> String {
    let name = name.map_or_else(|| "?".to_owned(), |name| printable(&name.to_string()));
    if has_ended { format!("{name} +") } else { name }
}

/// The largest first, but names from A to Z and numbers from the smallest.
fn sort(rows: &mut [Row], selection: &Selection) {
    let sort = selection.sort.or_usual(selection.subject);
    let zones =
        |row: &Row, of: fn(&ZoneActivity) -> u64| u64::MAX - row.zones.as_ref().map_or(0, of);
    let function =
        |row: &Row, of: fn(&FunctionFigures) -> u64| u64::MAX - row.function.as_ref().map_or(0, of);
    let key = |row: &Row| match sort {
        Column::Id => u64::from(row.id.unwrap_or(0)),
        Column::Of if selection.subject == Subject::Processes => u64::MAX - u64::from(row.of),
        Column::Of => u64::from(row.of),
        Column::Name
        | Column::Waker
        | Column::Kind
        | Column::Module
        | Column::Share
        | Column::Process => 0,
        Column::Open => zones(row, |zones| zones.open),
        Column::OpenFor => zones(row, |zones| zones.open_for),
        Column::Cpu if row.function.is_some() => function(row, |it| it.ran),
        Column::CpuAll => function(row, |it| it.ran_all),
        Column::Off => function(row, |it| it.blocked),
        Column::OffAll => function(row, |it| it.blocked_all),
        Column::Cpu => u64::MAX - row.times.running,
        Column::Wait => u64::MAX - row.times.runnable,
        Column::Unint => u64::MAX - row.times.uninterruptible,
        Column::Sleep => u64::MAX - row.times.interruptible,
        Column::Switches => u64::MAX - row.switches,
        Column::Wakeups => u64::MAX - row.wakeups,
        Column::MaxWait => u64::MAX - row.longest_wait,
        Column::Count => zones(row, |zones| zones.count),
        Column::Time => zones(row, |zones| zones.total),
        Column::P50 => zones(row, |zones| zones.p50),
        Column::P90 => zones(row, |zones| zones.p90),
        Column::P99 => zones(row, |zones| zones.p99),
        Column::Longest => zones(row, |zones| zones.longest),
    };
    let text = |row: &Row| match sort {
        Column::Name => row.name.to_lowercase(),
        Column::Waker => waker_text(row.waker).to_lowercase(),
        Column::Kind => kind(row).to_owned(),
        Column::Process => process(row).to_lowercase(),
        Column::Module => row.function.as_ref().map_or_else(String::new, |it| it.module.clone()),
        _ => String::new(),
    };
    // Of functions that have nothing themselves, those that call most.
    let with_calls = |row: &Row| function(row, |it| it.ran_all.saturating_add(it.blocked_all));
    rows.sort_by_cached_key(|row| (key(row), text(row), with_calls(row), row.id));
    if selection.is_reversed {
        rows.reverse();
    }
}

/// Who woke it most: a name, and the number where there is room.
pub(super) fn waker_text(waker: Option<WakerShare>) -> String {
    match waker.map(|share| share.waker) {
        None => String::new(),
        Some(Waker::Thread(0, _)) => "idle".into(),
        Some(Waker::Thread(tid, name)) => format!("{} {tid}", shown_name(name, false)),
        Some(Waker::Interrupt) => "interrupt".into(),
        Some(Waker::Several) => "several".into(),
        Some(Waker::Unknown) => "not known".into(),
    }
}

/// What stands in a cell.
pub(super) fn cell(second: &Interval, row: &Row, column: Column, subject: Subject) -> String {
    let percent = |ticks| format!("{:.1}", second.share(ticks) * 100.0);
    match column {
        Column::Id => row.id.map(|id| id.to_string()).unwrap_or_default(),
        Column::Of if row.id.is_none() || (row.of == 0 && subject != Subject::Processes) => {
            String::new()
        }
        Column::Of => row.of.to_string(),
        Column::Name => row.name.clone(),
        Column::Cpu if row.function.is_some() => of_function(row, |it| percent(it.ran)),
        Column::Cpu => percent(row.times.running),
        Column::Wait => percent(row.times.runnable),
        Column::Unint => percent(row.times.uninterruptible),
        Column::Sleep => percent(row.times.interruptible),
        Column::Switches => row.switches.to_string(),
        Column::Wakeups => row.wakeups.to_string(),
        Column::MaxWait if row.longest_wait == 0 => String::new(),
        Column::MaxWait => duration(second, row.longest_wait),
        Column::Waker => waker_text(row.waker),
        Column::Kind => kind(row).to_owned(),
        Column::Process => process(row),
        Column::Open | Column::OpenFor if row.zones.as_ref().is_none_or(|it| it.open == 0) => {
            String::new()
        }
        Column::Open => figure(row, |zones| zones.open.to_string()),
        Column::OpenFor => figure(row, |zones| duration(second, zones.open_for)),
        Column::P50 | Column::P90 | Column::P99 | Column::Longest
            if row.zones.as_ref().is_some_and(|zones| zones.count == 0) =>
        {
            String::new()
        }
        Column::Count => figure(row, |zones| grouped(zones.count)),
        Column::Time => figure(row, |zones| percent(zones.total)),
        Column::P50 => figure(row, |zones| duration(second, zones.p50)),
        Column::P90 => figure(row, |zones| duration(second, zones.p90)),
        Column::P99 => figure(row, |zones| duration(second, zones.p99)),
        Column::Longest => figure(row, |zones| duration(second, zones.longest)),
        Column::CpuAll => of_function(row, |it| percent(it.ran_all)),
        Column::Off => of_function(row, |it| percent(it.blocked)),
        Column::OffAll => of_function(row, |it| percent(it.blocked_all)),
        Column::Module => of_function(row, |it| it.module.clone()),
        Column::Share => of_function(row, |it| format!("{:.1}", it.share * 100.0)),
    }
}

/// Titles between functions have no figures.
fn of_function(row: &Row, text: impl Fn(&FunctionFigures) -> String) -> String {
    let figures = row.function.as_ref().filter(|figures| **figures != FunctionFigures::default());
    figures.map(text).unwrap_or_default()
}

fn figure(row: &Row, text: impl Fn(&ZoneActivity) -> String) -> String {
    row.zones.as_ref().map(text).unwrap_or_default()
}

/// The name of the process that zones are of.
fn process(row: &Row) -> String {
    row.zones.as_ref().map_or_else(String::new, |zones| shown_name(zones.process, false))
}

fn kind(row: &Row) -> &'static str {
    match row.zones.as_ref().map(|zones| zones.kind) {
        Some(SpanKind::Zone) => "zone",
        Some(SpanKind::Frame) => "frame",
        Some(SpanKind::GpuZone) => "gpu",
        None => "",
    }
}

/// A time of that second as people write it.
pub(super) fn duration(second: &Interval, ticks: u64) -> String {
    syscollect_model::duration(second.nanoseconds(ticks))
}
