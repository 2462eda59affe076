//! The longest waits in words.

use crate::report::data::*;
use crate::report::text::printer::{Printer, WordBlock};
use crate::report::text::stack::StackText;
use crate::report::text::words::{blocked_in_label, count, duration, shown};

/// Behind a wait that has no end.
const GOES_ON: &str = ", not over at the end";
/// Where what ran meanwhile is shown, below the wait.
const MEANWHILE: WordBlock = WordBlock { indent: 24, lines: 2 };
/// Where is shown who woke a thread, with a stack.
const WAKER: WordBlock = WordBlock { indent: 24, lines: 2 };

pub(super) fn print_cpu_waits(waits: &Table<CpuWaitRow>, recording: &Recording, out: &mut Printer) {
    if waits.rows.is_empty() {
        return;
    }
    out.title_of_rows("Longest waits for a CPU (runnable, not running)", waits);
    for row in &waits.rows {
        let began = match &row.woken_by {
            _ if row.preempted => "preempted".to_owned(),
            Some(waker) => format!("woken by {}", waker_label(waker)),
            None => "woken".to_owned(),
        };
        let Some(cpu) = row.cpu else {
            print_waiter(&row.waiter, &format!("{began}{GOES_ON}"), out);
            continue;
        };
        print_waiter(&row.waiter, &began, out);
        let ran = row.meanwhile.iter().map(|ran| (thread(&ran.thread, ran.tid), ran.ran_ns));
        let others = (row.other_threads > 0)
            .then(|| (count(row.other_threads as u64, "other thread"), row.other_threads_ns));
        let mut ran = ran
            .chain(others)
            .map(|(who, ran)| format!("{who} {}", duration(ran)))
            .collect::<Vec<_>>();
        let part = if row.meanwhile_is_part { "at least " } else { "" };
        let is_filtered = recording.is_filtered_on(cpu.machine);
        let words = match ran.is_empty() {
            true if is_filtered => {
                format!("{cpu} ran meanwhile what was not recorded (-p)")
            }
            true => format!("{cpu} ran meanwhile what was not recorded"),
            false => {
                ran.extend(unknown_label(row.meanwhile_unknown_ns, is_filtered));
                format!("{cpu} ran meanwhile: {part}{}", ran.join(", "))
            }
        };
        out.wrapped(MEANWHILE, &words);
    }
}

pub(super) fn print_blocked_waits(waits: &Table<BlockedWaitRow>, out: &mut Printer) {
    if waits.rows.is_empty() {
        return;
    }
    out.title_of_rows("Longest times blocked", waits);
    for row in &waits.rows {
        let place = blocked_in_label(row.blocked_in.as_deref(), &row.state, row.io_wait);
        let end = if row.goes_on { GOES_ON } else { "" };
        print_waiter(&row.waiter, &format!("{}: {place}{end}", row.waits_for), out);
        if !row.stack.frames.is_empty() {
            StackText::below_a_row(&row.stack).print(out);
        }
        match &row.woken_by {
            Some(waker) => print_waker(waker, out),
            None if row.goes_on => {}
            None => out.wrapped(MEANWHILE, "who woke it was not recorded"),
        }
    }
}

/// Who woke a thread, and where that was done, as far as there is a stack.
fn print_waker(waker: &WakerRow, out: &mut Printer) {
    let words = format!("woken by {}", waker_label(waker));
    if waker.stack.frames.is_empty() {
        return out.wrapped(MEANWHILE, &words);
    }
    let before = format!("{words}, in").split(' ').map(str::to_owned).collect();
    StackText { stack: &waker.stack, block: WAKER, before }.print(out);
}

pub(super) fn print_idle_left_out(times: usize, out: &mut Printer) {
    if times > 0 {
        let times = count(times as u64, "time");
        out.title(&format!("Idle threads were asleep {times}: --idle shows them, too"));
    }
}

pub(super) fn print_lock_waits(waits: &Table<LockWaitRow>, out: &mut Printer) {
    if waits.rows.is_empty() {
        return;
    }
    out.title_of_rows("Longest waits for locks", waits);
    for row in &waits.rows {
        let holder = row
            .holder
            .as_deref()
            .map_or(String::new(), |holder| format!(", held by {}", shown(holder)));
        let end = match (row.obtained, row.goes_on) {
            (true, _) => "",
            (false, true) => GOES_ON,
            (false, false) => ", given up",
        };
        print_waiter(&row.waiter, &format!("for {}{holder}{end}", shown(&row.lock)), out);
    }
}

/// Who slept all the time, where no thread blocked and woke, and that nobody waited, if it is so.
pub(super) fn print_what_was_instead(report: &Report, out: &mut Printer) {
    let WorstWaits { for_cpu, blocked, idle_left_out, locks } = &report.worst;
    let but = if *idle_left_out > 0 { " but idle ones" } else { "" };
    let asleep = report.off_cpu.asleep_throughout.pointer();
    let all = for_cpu.total + blocked.total + locks.total + report.gpu_waits.total;
    match asleep.filter(|_| blocked.total == 0) {
        Some(asleep) => {
            out.empty_line();
            out.paragraph(&format!("No thread{but} blocked and woke in this time; {asleep}"));
        }
        None if all == 0 => out.title(&format!(
            "No thread{but} waited for anything from its beginning to its end, as far as was \
             recorded"
        )),
        None => {}
    }
}

fn print_waiter(waiter: &Waiter, what: &str, out: &mut Printer) {
    let who = waiter_label(waiter);
    let unknown = match waiter.unknown_ns {
        0 => String::new(),
        unknown => format!(" (and {} of which nothing is known)", duration(unknown)),
    };
    out.line(&format!(
        "  {:>7} at {}  {who}, {what}{unknown}",
        duration(waiter.waited_ns),
        moment(waiter.at_ns)
    ));
}

/// `209 ms not recorded (-p)`, where only some processes were recorded, and `209 ms unknown`.
fn unknown_label(nanoseconds: u64, is_filtered: bool) -> Option<String> {
    let why = if is_filtered { "not recorded (-p)" } else { "unknown" };
    (nanoseconds > 0).then(|| format!("{} {why}", duration(nanoseconds)))
}

/// `cc1 (71)`, and `worker (72) of cc1 (71)`.
pub(super) fn waiter_label(waiter: &Waiter) -> String {
    thread_label(&waiter.thread, waiter.tid, &waiter.process, waiter.pid)
}

pub(super) fn thread_label(name: &str, tid: u32, process: &str, pid: u32) -> String {
    let who = thread(name, tid);
    if tid == pid { who } else { format!("{who} of {} ({pid})", shown(process)) }
}

/// A time of the recording to the microsecond, as `--from` and `--to` take it.
pub(super) fn moment(nanoseconds: u64) -> String {
    format!("{}.{:06}s", nanoseconds / 1_000_000_000, nanoseconds / 1_000 % 1_000_000)
}

fn thread(name: &str, tid: u32) -> String {
    // The idle task of every CPU has the id 0.
    if tid == 0 { "idle".to_owned() } else { format!("{} ({tid})", shown(name)) }
}

fn waker_label(waker: &WakerRow) -> String {
    match waker.kind {
        WakerKind::Thread => format!("{} on {}", thread(&waker.thread, waker.tid), waker.cpu),
        WakerKind::Interrupt => format!("an interrupt on {}", waker.cpu),
        WakerKind::Unknown => format!("an unknown thread on {}", waker.cpu),
    }
}
