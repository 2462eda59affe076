//! Event loops in words.

use crate::report::data::{EventLoopRow, EventLoopsReport, StretchEndKind, StretchRow, Table};
use crate::report::text::printer::{Printer, WordBlock};
use crate::report::text::words::{count, duration, grouped, percent, shown};
use crate::report::text::worst::{moment, thread_label};

/// What a thread did in a stretch, below it.
const MEANWHILE: WordBlock = WordBlock { indent: 24, lines: 3 };
/// Sleeps that are named of one stretch.
const SLEEPS: usize = 3;

pub(super) fn print_event_loops(report: &EventLoopsReport, out: &mut Printer) {
    let EventLoopsReport { limit_ns, left_out, loops, stretches } = report;
    if loops.rows.is_empty() {
        return;
    }
    let limit = duration(*limit_ns);
    if stretches.total == 0 {
        let threads = count(loops.total as u64, "event loop");
        out.title(&format!("{threads}: none was away from its wait for more than {limit}"));
    } else {
        print_loops(&limit, loops, out);
        out.title_of_rows("Longest stretches in which an event loop did not wait", stretches);
        stretches.rows.iter().for_each(|row| print_stretch(row, out));
    }
    for row in loops.rows.iter().filter(|row| row.unsure > 0) {
        let who = thread_label(&row.thread, row.tid, &row.process, row.pid);
        let unsure = count(row.unsure, "more time");
        out.note(&format!(
            "{who} polls without sleeping: {unsure} samples do not say whether it came back"
        ));
    }
    if *left_out > 0 {
        out.note("there were too many threads: not all were looked at");
    }
}

fn print_loops(limit: &str, loops: &Table<EventLoopRow>, out: &mut Printer) {
    let title = format!("Event loops, and stretches of more than {limit} without their wait");
    out.title_of_rows(&title, loops);
    let rows = loops.rows.iter().map(|row| {
        let at = row.longest_at_ns.map_or_else(String::new, moment);
        let who = thread_label(&row.thread, row.tid, &row.process, row.pid);
        let longest = if row.over_limit > 0 { duration(row.longest_ns) } else { String::new() };
        let returns = grouped(row.returns + row.seen_awake);
        [grouped(row.over_limit), longest, at, returns, format!("{who}, {}", row.waits_in)]
    });
    out.table(["over", "longest", "at", "returns", "thread, and what it waits in"], rows);
}

fn print_stretch(row: &StretchRow, out: &mut Printer) {
    let who = thread_label(&row.thread, row.tid, &row.process, row.pid);
    let is_open =
        matches!(row.end, StretchEndKind::RecordsMissing | StretchEndKind::RecordingEnded);
    let is_least = row.may_be_longer || is_open;
    let least = if is_least { ", at least" } else { "" };
    let (length, at) = (duration(row.length_ns), moment(row.at_ns));
    out.line(&format!("  {length:>7} at {at}  {who}{least}"));
    out.wrapped(MEANWHILE, &meanwhile(row));
}

/// `180 ms on CPU in parse_records, 50 ms blocked: I/O in write_journal (fdatasync)`.
fn meanwhile(row: &StretchRow) -> String {
    let mut parts = Vec::new();
    if row.on_cpu_ns > 0 {
        let functions = row
            .functions
            .iter()
            .map(|hit| format!("{} ({})", shown(&hit.function), percent(hit.samples, row.samples)));
        let functions: Vec<_> = functions.collect();
        let place = if functions.is_empty() { "" } else { " in " };
        parts.push(format!("{} on CPU{place}{}", duration(row.on_cpu_ns), functions.join(", ")));
    }
    if row.waiting_ns > 0 {
        parts.push(format!("{} waiting for a CPU", duration(row.waiting_ns)));
    }
    for sleep in row.blocked_in.iter().take(SLEEPS) {
        parts.push(format!("{} asleep: {}", duration(sleep.blocked_ns), shown(&sleep.what)));
    }
    let named: u64 = row.blocked_in.iter().take(SLEEPS).map(|sleep| sleep.blocked_ns).sum();
    if row.blocked_ns > named {
        parts.push(format!("{} asleep in others", duration(row.blocked_ns - named)));
    }
    if row.unknown_ns > 0 {
        parts.push(format!("{} unknown", duration(row.unknown_ns)));
    }
    if row.may_have_returned {
        parts.push("it may have come back without sleeping".to_owned());
    }
    if row.may_be_longer {
        parts.push("it may have begun earlier".to_owned());
    }
    match row.end {
        StretchEndKind::Returned => {}
        StretchEndKind::RecordsMissing => {
            parts.push("records are missing from its end on".to_owned());
        }
        StretchEndKind::ThreadEnded => parts.push("then the thread ended".to_owned()),
        StretchEndKind::RecordingEnded => parts.push("it lasted at the end".to_owned()),
    }
    parts.join(", ")
}
