//! What programs say of themselves, in words.

use crate::report::data::*;
use crate::report::text::printer::{Printer, REMARK, WordBlock};
use crate::report::text::stack::StackText;
use crate::report::text::words::{bytes, duration, grouped, number, shown};
use syscollect_model::Unit;

pub(super) fn print_crashes(crashes: &Table<CrashRow>, out: &mut Printer) {
    if crashes.rows.is_empty() {
        return;
    }
    out.title_of_rows("Crashes", crashes);
    for row in &crashes.rows {
        let address =
            if row.address == 0 { String::new() } else { format!(" at {:#x}", row.address) };
        let thread = format!("{} ({})", shown(&row.thread), row.tid);
        let process = format!("{} ({})", shown(&row.process), row.pid);
        let at = duration(row.at_ns);
        let signal = format!("{} ({})", shown(&row.signal), shown(&row.code));
        let end = row.end.as_deref().map_or_else(|| "not seen to end by it".into(), shown);
        out.line(&format!("  {signal}{address} after {at}: {thread} of {process}, {end}"));
        StackText::below_a_row(&row.stack).print(out);
        if !row.open.is_empty() {
            let open: Vec<_> = row.open.iter().map(|name| shown(name)).collect();
            out.wrapped(BELOW_A_CRASH, &format!("in {}", open.join(" > ")));
        }
        if !row.before.is_empty() {
            let before: Vec<_> = row.before.iter().map(event_before).collect();
            out.wrapped(BELOW_A_CRASH, &format!("before: {}", before.join("; ")));
        }
    }
}

/// Where it is said what a thread did before it crashed.
const BELOW_A_CRASH: WordBlock = WordBlock { indent: 11, lines: 4 };

fn event_before(event: &EventBeforeCrash) -> String {
    format!("{} {}, {}", event.kind, shown(&event.name), duration(event.before_ns))
}

pub(super) fn print_signal_exits(exits: &Table<SignalExitRow>, out: &mut Printer) {
    if exits.rows.is_empty() {
        return;
    }
    out.title_of_rows("Processes that signals ended", exits);
    for row in &exits.rows {
        let dumped = if row.core_dumped { ", core dumped" } else { "" };
        let (signal, process) = (shown(&row.signal), shown(&row.process));
        let at = duration(row.at_ns);
        let thread = row.tid.map(|tid| format!("{} ({tid}) of ", shown(&row.thread)));
        let who = format!("{}{process} ({})", thread.unwrap_or_default(), row.pid);
        out.line(&format!("  {signal} after {at}: {who}{dumped}"));
    }
}

pub(super) fn print_frames(frames: &Table<FrameRow>, out: &mut Printer) {
    if frames.rows.is_empty() {
        return;
    }
    out.title_of_rows("Frames", frames);
    let rows = frames.rows.iter().map(|row| {
        let all = &row.durations;
        let [mean, p50, p99, max] = [all.mean_ns, all.p50_ns, all.p99_ns, all.max_ns].map(duration);
        let process =
            row.pid.map_or_else(String::new, |pid| format!(" of {} ({pid})", shown(&row.process)));
        [
            grouped(all.count),
            mean,
            p50,
            p99,
            max,
            format!(
                "{}{process}{REMARK}{}",
                shown(&row.name),
                unfinished(row.unfinished, row.unfinished_ns)
            ),
        ]
    });
    out.table(["frames", "mean", "p50", "p99", "max", "set"], rows);
}

pub(super) fn print_slices(slices: &Table<SliceRow>, out: &mut Printer) {
    if slices.rows.is_empty() {
        return;
    }
    out.title_of_rows("Slices by total time", slices);
    let rows = slices.rows.iter().map(|row| {
        let all = &row.durations;
        let [total, mean, p50, p99, max] =
            [all.total_ns, all.mean_ns, all.p50_ns, all.p99_ns, all.max_ns].map(duration);
        let on_cpu = duration(row.thread.on_cpu_ns);
        let off_cpu = duration(row.thread.waiting_ns.saturating_add(row.thread.blocked_ns));
        let blocked = row.blocked_in.as_ref().and_then(|reason| {
            let function = shown(reason.function.as_deref()?);
            Some(format!("; {} in {function}", duration(reason.blocked_ns)))
        });
        let location = location(row.location.as_ref());
        let unfinished = unfinished(row.unfinished, row.unfinished_ns);
        let is_async = if row.scope == SliceScope::Process { " (async)" } else { "" };
        let remark = location + is_async + &unfinished + &blocked.unwrap_or_default();
        [
            total,
            grouped(all.count),
            mean,
            p50,
            p99,
            max,
            on_cpu,
            off_cpu,
            format!("{}{REMARK}{remark}", shown(&row.name)),
        ]
    });
    out.table(["total", "times", "mean", "p50", "p99", "max", "on CPU", "off CPU", "slice"], rows);
    let mut nested = slices.rows.iter().filter(|row| has_nested(&row.durations));
    if let Some(first) = nested.next() {
        let others = if nested.next().is_some() { " and others" } else { "" };
        out.note(&format!(
            "({}{others} ran in another run of the same: total, on CPU and off CPU have such \
             time once, mean, p50, p99 and max are of each run)",
            shown(&first.name)
        ));
    }
}

pub(super) fn print_instants(instants: &Table<InstantRow>, out: &mut Printer) {
    if instants.rows.is_empty() {
        return;
    }
    out.title_of_rows("Instants", instants);
    out.table(
        ["times", "instant"],
        instants.rows.iter().map(|row| [grouped(row.count), shown(&row.name)]),
    );
}

pub(super) fn print_locks(locks: &Table<LockRow>, out: &mut Printer) {
    if locks.rows.is_empty() {
        return;
    }
    out.title_of_rows("Locks by time waited", locks);
    let rows = locks.rows.iter().map(|row| {
        let [waited, longest, held, longest_hold] =
            [row.wait_ns, row.longest_wait_ns, row.held_ns, row.longest_hold_ns].map(duration);
        let holder = row.holders.first().map_or_else(String::new, |holder| {
            format!(", most by {} ({})", shown(&holder.name), holder.tid)
        });
        let name = format!(
            "{}{} of {} ({})",
            shown(&row.name),
            location(row.location.as_ref()),
            shown(&row.process),
            row.pid
        );
        let counts = [row.waits, row.contended, row.holds].map(grouped);
        let [waits, contended, holds] = counts;
        [waited, waits, contended, longest, held, holds, longest_hold, name + &holder]
    });
    let heads = ["waited", "waits", "contended", "longest", "held", "holds", "longest", "lock"];
    out.table(heads, rows);
}

pub(super) fn print_memory(memory: &Table<PoolRow>, out: &mut Printer) {
    if memory.rows.is_empty() {
        return;
    }
    out.title_of_rows("Memory by pool", memory);
    let rows = memory.rows.iter().map(|row| {
        let [peak, live, all] = [row.peak_bytes, row.live_bytes, row.allocated_bytes].map(bytes);
        let counts = [row.allocations, row.frees, row.live_allocations].map(grouped);
        let [allocations, frees, left] = counts;
        let pool = row.pool.as_deref().map_or("heap".into(), shown);
        [
            peak,
            live,
            left,
            all,
            allocations,
            frees,
            format!("{pool} of {} ({})", shown(&row.process), row.pid),
        ]
    });
    out.table(["peak", "at end", "left", "in all", "allocations", "frees", "pool"], rows);
}

pub(super) fn print_counters(counters: &Table<CounterRow>, out: &mut Printer) {
    if counters.rows.is_empty() {
        return;
    }
    out.title_of_rows("Counters", counters);
    let rows = counters.rows.iter().map(|row| {
        let [min, mean, max, last] =
            [row.min, row.mean, row.max, row.last].map(|value| match row.unit {
                Unit::Bytes if value >= 0.0 => bytes(value as u64),
                _ => number(value),
            });
        let unit = match &row.unit {
            Unit::Number | Unit::Bytes => String::new(),
            unit => format!(" [{}]", shown(unit.text())),
        };
        [
            grouped(row.count),
            min,
            mean,
            max,
            last,
            format!("{}{unit} of {}", shown(&row.name), shown(&row.owner)),
        ]
    });
    out.table(["values", "min", "mean", "max", "last", "counter"], rows);
}

/// Whether runs of the row were within one another: their times are more than the total, which has
/// that once. The mean is rounded down.
fn has_nested(durations: &Distribution) -> bool {
    durations.total_ns < durations.mean_ns.saturating_mul(durations.count)
}

fn location(location: Option<&SourceLocation>) -> String {
    // The path's end says enough; the whole is in the JSON.
    location.map_or_else(String::new, |location| {
        let file = location.file.rsplit('/').next().unwrap_or_default();
        format!(" ({}:{})", shown(file), location.line)
    })
}

fn unfinished(count: u64, open_ns: u64) -> String {
    match count {
        0 => String::new(),
        _ => format!(" ({count} unfinished, open for {})", duration(open_ns)),
    }
}
