//! Who slept from beginning to end, in words.

use crate::report::data::*;
use crate::report::text::printer::Printer;
use crate::report::text::stack::StackText;
use crate::report::text::words::{blocked_in_label, count, grouped, shown};
use crate::report::text::worst::thread_label;

/// Names of threads in a row.
const NAMES: usize = 3;

/// Who slept all the time. Of a whole machine these are most threads, and most of them had
/// nothing to do: they are one line, where nobody asked for more.
pub(super) fn print_sleepers(asleep: &AsleepThroughout, out: &mut Printer) {
    if asleep.threads == 0 {
        return;
    }
    let threads = count(asleep.threads as u64, "thread");
    let idle = match (asleep.idle_threads, asleep.threads) {
        (0, _) => String::new(),
        (idle, all) if idle == all => ", all idle".to_owned(),
        (idle, _) => format!(", {} of them idle", grouped(idle as u64)),
    };
    out.title(&format!("{ASLEEP_TITLE}: {threads}{idle}"));
    let AsleepThroughout { rows, held_up_rows, with_idle, .. } = asleep;
    let wanted = if *with_idle { rows.total } else { *held_up_rows };
    if wanted > 0 {
        out.line("  (asleep in Processes and Threads; in no time of Off the CPU)");
    }
    let reported = rows.rows.len().min(wanted);
    rows.rows.iter().take(reported).for_each(|row| print_sleeper_row(row, out));
    if reported < wanted {
        let left = count((wanted - reported) as u64, "more row");
        out.line(&format!("  and {left}: --rows {} shows all", rows.total));
    }
    if !with_idle && let Some(others) = had_nothing_to_do(asleep) {
        let and = if wanted > 0 { "and " } else { "" };
        out.line(&format!("  {and}{others}: --rows {} shows them, too", rows.total));
    }
}

fn print_sleeper_row(row: &SleeperRow, out: &mut Printer) {
    let place = blocked_in_label(row.blocked_in.as_deref(), &row.state, row.io_wait);
    let zone = row.zone.as_deref().map_or_else(String::new, |zone| format!(", in {}", shown(zone)));
    let holds = match row.held_up {
        0 => String::new(),
        1 => "; another waits for a lock that it has".to_owned(),
        others => format!("; {} wait for a lock that it has", count(others as u64, "other")),
    };
    out.line(&format!("  {}, {}: {place}{zone}{holds}", who(row), row.waits_for));
    StackText::below_a_row(&row.stack).print(out);
}

/// Who may hang, for the first sentences. A semaphore may be a wait for work: many programs of
/// a machine sleep so for ever, and only of processes that were asked for it is news.
pub(super) fn hanging(asleep: &AsleepThroughout, of_some: bool) -> Option<String> {
    let kinds = [
        (Suspicion::HoldsUpOthers, "with a lock that others wait for"),
        (Suspicion::Uninterruptible, "uninterruptibly"),
        (Suspicion::Lock, "on a lock"),
        (Suspicion::Semaphore, "on a semaphore or futex"),
        (Suspicion::FileLock, "on a file lock"),
    ];
    let words = kinds.iter().filter_map(|(suspicion, how)| {
        let rows = asleep.rows.rows.iter().filter(|row| {
            let is_news = of_some
                || row.class == WaitClass::Blocked
                || *suspicion == Suspicion::HoldsUpOthers;
            row.suspicion == *suspicion && is_news
        });
        let threads = match of_some || *suspicion != Suspicion::Semaphore {
            true => asleep.of(*suspicion),
            false => rows.clone().map(|row| row.threads).sum(),
        };
        let mut who: Vec<_> = rows.map(|row| short_label(row, of_some)).collect();
        who.dedup();
        let others = if who.len() > NAMES { " and others" } else { "" };
        who.truncate(NAMES);
        let who =
            if who.is_empty() { who.concat() } else { format!(" ({}{others})", who.join(", ")) };
        (threads > 0).then(|| format!("{} {how}{who}", count(threads as u64, "thread")))
    });
    let words: Vec<_> = words.collect();
    (!words.is_empty()).then(|| format!("{ASLEEP_TITLE}: {}.", words.join(", ")))
}

/// `python3 10`, or of processes that were asked for `looker 12`.
fn short_label(row: &SleeperRow, of_some: bool) -> String {
    match (row.tid, &row.thread_names[..]) {
        (Some(tid), [name]) if of_some => format!("{} {tid}", shown(name)),
        _ => format!("{} {}", shown(&row.process), row.pid),
    }
}

/// `looker (12) of python3 (10)`, and `3 threads (looker, reader) of python3 (10)`.
fn who(row: &SleeperRow) -> String {
    if let (Some(tid), [name]) = (row.tid, &row.thread_names[..]) {
        return thread_label(name, tid, &row.process, row.pid);
    }
    let which = match row.processes {
        1 => row.pid.to_string(),
        processes => format!("{processes} processes"),
    };
    let names = match &row.thread_names[..] {
        [] => String::new(),
        [name] if *name == row.process => String::new(),
        names => {
            let some: Vec<_> = names.iter().take(NAMES).map(|name| shown(name)).collect();
            let more = if names.len() > NAMES { ", …" } else { "" };
            format!(" ({}{more})", some.join(", "))
        }
    };
    let threads = count(row.threads as u64, "thread");
    format!("{threads}{names} of {} ({which})", shown(&row.process))
}

/// `27 idle threads, and 3 that wait for a child process`.
fn had_nothing_to_do(asleep: &AsleepThroughout) -> Option<String> {
    let children = asleep.of(Suspicion::Child);
    let wait = if children == 1 { "waits" } else { "wait" };
    match (asleep.idle_threads, children) {
        (0, 0) => None,
        (idle, 0) => Some(count(idle as u64, "idle thread")),
        (0, children) => {
            Some(format!("{} that {wait} for a child process", count(children as u64, "thread")))
        }
        (idle, children) => Some(format!(
            "{}, {} that {wait} for a child process",
            count(idle as u64, "idle thread"),
            grouped(children as u64)
        )),
    }
}
