//! The view on terminals of several sizes, and what keys do.

use super::cost::OwnCost;
use super::draw::{Shown, draw};
use super::lines;
use super::rows::{Column, Row, Selection, Subject};
use super::view::{Recorded, Request, View};
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use syscollect_activity::{
    CpuActivity, Functions, Histogram, Interval, OtherActivity, ProcessActivity, SpanKind,
    TaskTimes, ThreadActivity, ThreadName, Waker, WakerShare, ZoneActivity,
};
use syscollect_model::{Ticks, is_unprintable};

/// A tick is a microsecond.
pub(super) const SECOND: u64 = 1_000_000;

fn thread(tid: u32, pid: u32, name: &str, running: u64, runnable: u64) -> ThreadActivity {
    let times = TaskTimes {
        running,
        runnable,
        interruptible: SECOND.saturating_sub(running + runnable),
        ..TaskTimes::default()
    };
    ThreadActivity {
        tid,
        pid,
        name: Some(ThreadName::new(name.as_bytes())),
        times,
        switches: tid * 3,
        preempted: tid / 2,
        wakeups: tid * 2,
        longest_wait: u64::from(tid) * 11,
        waker: Some(WakerShare { waker: Waker::Interrupt, wakeups: tid }),
        has_ended: false,
    }
}

fn process(pid: u32, name: &str, running: u64) -> ProcessActivity {
    ProcessActivity {
        pid,
        name: Some(ThreadName::new(name.as_bytes())),
        times: TaskTimes { running, ..TaskTimes::default() },
        threads: 2,
        switches: 10,
        wakeups: 5,
        longest_wait: 70,
    }
}

fn zones(kind: SpanKind, name: &str, count: u64, p50: u64) -> ZoneActivity {
    ZoneActivity {
        kind,
        pid: 40,
        name: name.into(),
        queue: None,
        count,
        total: count * p50,
        p50,
        p90: p50 * 2,
        p99: p50 * 5,
        longest: p50 * 7,
        process: Some(ThreadName::new(b"server")),
        open: 0,
        open_for: 0,
    }
}

pub(super) fn second(number: u64) -> Interval {
    let cpu = |cpu: u16| {
        let busy = u64::from(cpu + 1) * 150_000;
        let unknown = if cpu == 3 { 200_000 } else { 0 };
        let idle = SECOND - busy - unknown;
        CpuActivity { cpu, busy, idle, unknown, switches: 100, current: None }
    };
    let mut latency = Histogram::default();
    (1..=200).for_each(|number| latency.add(number * 10));
    let server = Waker::Thread(41, Some(ThreadName::new(b"client")));
    let mut threads = vec![
        ThreadActivity {
            waker: Some(WakerShare { waker: server, wakeups: 70 }),
            ..thread(42, 40, "server", 612_345, 101_000)
        },
        thread(41, 40, "client", 300_000, 5),
        ThreadActivity { has_ended: true, ..thread(7, 7, "make", 20_000, 0) },
        ThreadActivity { waker: None, pid: 0, name: None, ..thread(99, 0, "", 10, 0) },
    ];
    threads.extend((200..230).map(|tid| thread(tid, 200, &format!("worker/{tid}"), 5, 1)));
    let disk = TaskTimes { uninterruptible: SECOND, ..TaskTimes::default() };
    threads.push(ThreadActivity { times: disk, ..thread(9, 9, "kworker/u8:2+ev", 0, 0) });
    Interval {
        number,
        start: Ticks(number * SECOND),
        ticks: SECOND,
        cpus: (0..4).map(cpu).collect(),
        threads,
        other_threads: OtherActivity { count: 1976, switches: 9, ..OtherActivity::default() },
        processes: vec![process(40, "server", 912_345), process(200, "workers", 150)],
        zones: vec![
            zones(SpanKind::Frame, "Frame", 60, 16_600),
            zones(SpanKind::Zone, "GET /index", 1200, 430),
            ZoneActivity {
                queue: Some("gfx\u{7}".into()),
                ..zones(SpanKind::GpuZone, "shadows", 60, 2_300)
            },
            ZoneActivity {
                queue: Some("copy".into()),
                ..zones(SpanKind::GpuZone, "shadows", 4, 1_000)
            },
            zones(SpanKind::Zone, "a\u{1b}[31mb", 3, 2),
            ZoneActivity { open: 2, open_for: 61 * SECOND, ..zones(SpanKind::Zone, "stuck", 0, 0) },
        ],
        other_zones: 17,
        sleeping: 412,
        latency,
        switches: 12_345,
        wakeups: 6_789,
        new_threads: 3,
        ended_threads: 1,
        ..Interval::default()
    }
}

fn history() -> VecDeque<Arc<Interval>> {
    (0..20).map(|number| Arc::new(second(number))).collect()
}

pub(super) fn cost() -> OwnCost {
    OwnCost {
        cpu_percent: 3.4,
        view_percent: 0.42,
        peak_bytes: 61_000_000,
        held: Duration::from_secs(83),
        held_bytes: 201_000_000,
        ..OwnCost::default()
    }
}

/// The screen, a line for each of its lines.
fn screen(history: &VecDeque<Arc<Interval>>, view: &mut View, size: [u16; 2]) -> String {
    let functions = Functions::default();
    screen_of(Recorded { history, functions: &functions }, view, size)
}

pub(super) fn screen_of(recorded: Recorded<'_>, view: &mut View, size: [u16; 2]) -> String {
    let [width, height] = size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let shown = Shown { recorded, cost: &cost(), is_coloured: true };
    terminal
        .draw(|frame| {
            draw(&shown, view, frame.buffer_mut());
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width).max(1)).map(|line| {
        let text: String = line.iter().map(ratatui_core::buffer::Cell::symbol).collect();
        text.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

fn key(view: &mut View, history: &VecDeque<Arc<Interval>>, code: KeyCode) -> Option<Request> {
    press(view, history, KeyEvent::new(code, KeyModifiers::NONE))
}

fn press(view: &mut View, history: &VecDeque<Arc<Interval>>, key: KeyEvent) -> Option<Request> {
    view.key(key, Recorded { history, functions: &Functions::default() })
}

/// The rows of the first second.
fn rows(view: &mut View, history: &VecDeque<Arc<Interval>>) -> Vec<Row> {
    let recorded = Recorded { history, functions: &Functions::default() };
    view.rows(recorded, &history[0], 10)
}

fn keys(view: &mut View, history: &VecDeque<Arc<Interval>>, keys: &str) {
    for char in keys.chars() {
        key(view, history, KeyCode::Char(char));
    }
}

/// Compares with a file of what is right; with `SYSCOLLECT_BLESS` set it is written.
pub(super) fn same(name: &str, drawn: &str) {
    let path = format!("{}/src/top/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("SYSCOLLECT_BLESS").is_some() {
        std::fs::write(&path, drawn).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == drawn, "{name}: expected\n{golden}\nbut it is\n{drawn}");
}

#[test]
fn threads_on_a_terminal_of_80_by_24() {
    same("threads-80x24", &screen(&history(), &mut View::default(), [80, 24]));
}

#[test]
fn threads_on_a_terminal_of_120_by_40_with_one_marked() {
    let (history, mut view) = (history(), View::default());
    key(&mut view, &history, KeyCode::Down);
    same("threads-120x40", &screen(&history, &mut view, [120, 40]));
}

#[test]
fn processes_and_the_threads_of_one() {
    let (history, mut view) = (history(), View::default());
    keys(&mut view, &history, "p");
    key(&mut view, &history, KeyCode::Down);
    same("processes-80x24", &screen(&history, &mut view, [80, 24]));
    key(&mut view, &history, KeyCode::Enter);
    let threads = screen(&history, &mut view, [80, 24]);
    assert!(threads.contains("threads of process 40") && threads.contains("server"), "{threads}");
    assert!(!threads.contains("worker/"), "{threads}");
    key(&mut view, &history, KeyCode::Esc);
    assert_eq!((view.selection.subject, view.marked), (Subject::Processes, Some(40)));
}

#[test]
fn zones_and_frames_of_programs() {
    let (history, mut view) = (history(), View::default());
    keys(&mut view, &history, "z");
    key(&mut view, &history, KeyCode::Down);
    same("zones-80x24", &screen(&history, &mut view, [80, 24]));
    same("zones-120x40", &screen(&history, &mut view, [120, 40]));
    keys(&mut view, &history, "<");
    assert_eq!(view.selection.sort, Column::Count, "they are sorted by time at first");
    assert!(rows(&mut view, &history)[0].name.starts_with("GET"));
    keys(&mut view, &history, "t");
    let threads = screen(&history, &mut view, [80, 24]);
    assert!(threads.contains("CPU%*"), "{threads}");
}

#[test]
fn help_is_on_one_screen() {
    let (history, mut view) = (history(), View::default());
    keys(&mut view, &history, "h");
    same("help-80x24", &screen(&history, &mut view, [80, 24]));
    keys(&mut view, &history, "x");
    assert!(!view.shows_help);
}

#[test]
fn any_size_is_drawn_without_a_fault() {
    let history = history();
    for width in [0, 1, 7, 20, 39, 53, 200, 500] {
        for height in [0, 1, 2, 5, 9, 60] {
            let mut view = View::default();
            key(&mut view, &history, KeyCode::End);
            screen(&history, &mut view, [width, height]);
        }
    }
    let narrow = screen(&history, &mut View::default(), [44, 12]);
    assert!(narrow.contains("TID") && narrow.contains("WAIT%") && !narrow.contains("SLEEP%"));
    assert!(narrow.lines().all(|line| line.chars().count() <= 44));
}

#[test]
fn names_of_programs_do_nothing_to_the_terminal() {
    let mut hostile = second(0);
    let names = [
        "\u{1b}[2J\u{1b}]0;x\u{7}",
        "a\nb\r\tc",
        "\u{202e}txt.exe",
        "漢字漢字漢",
        "\u{200b}\u{9b}2J",
    ];
    for (thread, name) in hostile.threads.iter_mut().zip(names) {
        thread.name = Some(ThreadName::new(name.as_bytes()));
        let waker = Waker::Thread(1, thread.name);
        thread.waker = Some(WakerShare { waker, wakeups: 1 });
    }
    let history: VecDeque<_> = [Arc::new(hostile)].into();
    let mut view = View::default();
    keys(&mut view, &history, "/");
    keys(&mut view, &history, "\u{1b}[2J\u{9b}");
    for size in [[80, 24], [120, 40], [20, 9]] {
        view.selection.filter.truncate(if size[0] == 80 { 9 } else { 0 });
        for code in [KeyCode::Enter, KeyCode::Down] {
            key(&mut view, &history, code);
            let drawn = screen(&history, &mut view, size);
            let obeyed = drawn.chars().find(|char| is_unprintable(*char) && *char != '\n');
            assert_eq!(obeyed, None, "{drawn:?}");
        }
    }
    let recorded = Recorded { history: &history, functions: &Functions::default() };
    let printed = lines::text(recorded, &history[0], &cost(), &Selection::default(), 100);
    assert!(!printed.chars().any(|char| is_unprintable(char) && char != '\n'), "{printed:?}");
    assert!(printed.contains("\\u{1b}[2J") && printed.contains("漢字漢字漢"), "{printed}");
}

#[test]
fn more_cpus_than_have_room_are_a_digit_each() {
    let mut large = second(0);
    let cpu = |cpu: u16| CpuActivity {
        cpu,
        busy: u64::from(cpu % 11) * SECOND / 10,
        idle: SECOND - u64::from(cpu % 11) * SECOND / 10,
        unknown: 0,
        switches: 0,
        current: None,
    };
    large.cpus = (0..192).map(cpu).collect();
    let history: VecDeque<_> = [Arc::new(large)].into();
    let drawn = screen(&history, &mut View::default(), [80, 24]);
    let lines: Vec<&str> = drawn.lines().skip(1).take(3).collect();
    assert_eq!(
        lines[0],
        "    0 .1234567899.1234567899.1234567899.1234567899.1234567899.1234567899.1234567"
    );
    assert!(lines[1].starts_with("   74 8"), "{lines:?}");
    assert!(lines[2].starts_with("  148 "), "{lines:?}");
}

#[test]
fn what_is_incomplete_says_so() {
    let history: VecDeque<_> = [Arc::new(Interval { is_incomplete: true, ..second(0) })].into();
    let drawn = screen(&history, &mut View::default(), [80, 24]);
    assert!(drawn.lines().next().unwrap().contains("INCOMPLETE: records are missing"), "{drawn}");
    let of_zones =
        Interval { zones_incomplete: true, zones_incomplete_users: vec![1001], ..second(0) };
    let zones = [Arc::new(of_zones)].into();
    let drawn = screen(&zones, &mut View::default(), [80, 24]);
    assert!(!drawn.contains("INCOMPLETE"), "threads are whole: {drawn}");
    let mut view = View::default();
    keys(&mut view, &zones, "z");
    let drawn = screen(&zones, &mut view, [80, 24]);
    assert!(drawn.contains("INCOMPLETE: zones of user 1001  live"), "{drawn}");
    let narrow = |width| {
        let drawn = screen(&history, &mut View::default(), [width, 8]);
        drawn.lines().next().unwrap().to_owned()
    };
    assert_eq!(narrow(40), "syscollect top: threads INCOMPLETE  live");
    assert_eq!(narrow(30), "syscollect to INCOMPLETE  live");
}

#[test]
fn sums_without_room_are_left_out_whole() {
    let history = history();
    let line = |width| {
        let drawn = screen(&history, &mut View::default(), [width, 24]);
        drawn.lines().nth(if width < 80 { 3 } else { 2 }).unwrap().to_owned()
    };
    let all = "CPUs 37.5 % busy, 5.0 % not known  switches 12,345  wakeups 6,789  asleep 412  \
               threads +3 -1";
    assert_eq!(line(92), all);
    assert_eq!(line(97), all.replace("  ", "   "));
    assert_eq!(line(91), all.replace("  threads +3 -1", "").replace("  ", "   "));
    assert_eq!(line(66), "CPUs 37.5 % busy, 5.0 % not known  switches 12,345  wakeups 6,789");
    assert_eq!(line(60), "CPUs 37.5 % busy, 5.0 % not known   switches 12,345");
}

#[test]
fn looking_back_pauses_and_behind_the_newest_it_goes_on() {
    let (mut history, mut view) = (history(), View::default());
    key(&mut view, &history, KeyCode::Left);
    key(&mut view, &history, KeyCode::Left);
    assert_eq!(view.at, Some(17));
    assert!(screen(&history, &mut view, [80, 24]).contains("paused, 2 s ago"));
    history.push_back(Arc::new(second(20)));
    assert!(screen(&history, &mut view, [80, 24]).contains("paused, 3 s ago"), "it stays");
    keys(&mut view, &history, "[");
    assert_eq!(view.at, Some(7));
    keys(&mut view, &history, "[");
    assert_eq!(view.at, Some(0), "the oldest");
    history.drain(..5);
    assert!(screen(&history, &mut view, [80, 24]).contains("paused, 15 s ago"));
    keys(&mut view, &history, "]]");
    assert_eq!(view.at, None);
    keys(&mut view, &history, " ");
    assert!(screen(&history, &mut view, [80, 24]).contains("paused"));
    keys(&mut view, &history, " ");
    assert_eq!(view.at, None);
}

#[test]
fn rows_are_sorted_by_the_column_that_is_chosen_and_filtered_by_what_is_typed() {
    let (history, mut view) = (history(), View::default());
    let first = |view: &mut View| rows(view, &history)[0].id;
    assert_eq!(first(&mut view), Some(42));
    keys(&mut view, &history, ">>");
    assert_eq!((view.selection.sort, first(&mut view)), (Column::Unint, Some(9)));
    keys(&mut view, &history, ">>r");
    assert_eq!((view.selection.sort, first(&mut view)), (Column::Switches, Some(7)));
    keys(&mut view, &history, "/WORKER/22");
    assert_eq!(rows(&mut view, &history).len(), 10);
    key(&mut view, &history, KeyCode::Backspace);
    assert_eq!(rows(&mut view, &history).len(), 30);
    key(&mut view, &history, KeyCode::Enter);
    assert!(!view.is_typing && screen(&history, &mut view, [80, 24]).contains("with WORKER/2"));
    key(&mut view, &history, KeyCode::Esc);
    assert_eq!(view.selection.filter, "");
    keys(&mut view, &history, "/42");
    assert_eq!(rows(&mut view, &history).len(), 1, "a number is a thread's or its process's");
    key(&mut view, &history, KeyCode::Esc);
    keys(&mut view, &history, "/workers");
    assert_eq!(rows(&mut view, &history).len(), 30, "threads of a process of that name");
    key(&mut view, &history, KeyCode::Enter);
    keys(&mut view, &history, "z");
    view.selection.filter = "SERVER".into();
    assert_eq!(rows(&mut view, &history).len(), 6, "zones of a process of that name");
    view.selection.filter = "copy".into();
    assert_eq!(rows(&mut view, &history).len(), 1, "zones of a queue of that name");
    view.selection.filter = "stuck".into();
    assert_eq!(rows(&mut view, &history).len(), 1);
}

#[test]
fn what_is_marked_stays_marked_and_in_sight() {
    let (history, mut view) = (history(), View::default());
    screen(&history, &mut view, [80, 24]);
    key(&mut view, &history, KeyCode::End);
    let marked = view.marked;
    assert!(marked.is_some());
    let drawn = screen(&history, &mut view, [80, 24]);
    assert!(drawn.contains(&format!("{} worker/", marked.unwrap())), "{drawn}");
    key(&mut view, &history, KeyCode::PageUp);
    key(&mut view, &history, KeyCode::Home);
    assert_eq!(view.marked, Some(42));
    screen(&history, &mut view, [80, 24]);
    assert_eq!(view.first, 0);
    key(&mut view, &history, KeyCode::Esc);
    assert_eq!(view.marked, None);
}

#[test]
fn keys_that_ask_for_something() {
    let (history, mut view) = (history(), View::default());
    assert_eq!(key(&mut view, &history, KeyCode::Char('s')), Some(Request::Snapshot));
    assert_eq!(key(&mut view, &history, KeyCode::Char('q')), Some(Request::Quit));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    keys(&mut view, &history, "/q");
    assert_eq!(view.selection.filter, "q", "a q that is typed is a q");
    let suspend = KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL);
    assert_eq!(press(&mut view, &history, suspend), Some(Request::Suspend), "also while it types");
    assert_eq!(view.selection.filter, "q");
    assert_eq!(press(&mut view, &history, interrupt), Some(Request::Quit));
}

#[test]
fn before_the_first_second_there_is_a_word_and_keys_do_no_harm() {
    let (history, mut view) = (VecDeque::new(), View::default());
    for code in [KeyCode::Down, KeyCode::Left, KeyCode::Char(' '), KeyCode::Enter, KeyCode::Esc] {
        key(&mut view, &history, code);
    }
    assert!(screen(&history, &mut view, [80, 24]).contains("waits for the first second"));
}

#[test]
fn a_second_as_text_for_scripts() {
    let selection = Selection::default();
    let recorded = Recorded { history: &history(), functions: &Functions::default() };
    same("second", &lines::text(recorded, &second(0), &cost(), &selection, 6));
}
