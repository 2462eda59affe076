//! Time off the CPU in words: what held threads up first, what had nothing to do last.

use crate::report::data::*;
use crate::report::text::functions::print_truncated;
use crate::report::text::printer::{Printer, WordBlock};
use crate::report::text::stack::StackText;
use crate::report::text::words::{
    blocked_in_label, count, duration, grouped, percent, shown, some_of,
};

/// Of so many stacks that may have held somebody up one is shown that may have waited for work.
const UNDECIDED_SHARE: usize = 3;

pub(super) fn print_off_cpu(off_cpu: &OffCpuReport, out: &mut Printer) {
    let OffCpuReport { blocked, undecided, idle, .. } = off_cpu;
    if off_cpu.reasons.rows.is_empty() {
        return;
    }
    let [held, unclear, nothing] =
        [blocked, undecided, idle].map(|class| duration(class.blocked_ns));
    out.title(&format!(
        "Off the CPU: {held} blocked, {unclear} undecided, {nothing} idle ({} in all)",
        duration(off_cpu.blocked_ns)
    ));
    print_reasons("Blocked, by what was waited for", &blocked.reasons, out);
    print_reasons("Undecided, waits for work or for an answer", &undecided.reasons, out);
    print_idle(idle, out);
    let [held, unclear] = [blocked, undecided].map(|class| &class.program_stacks);
    print_stacks("Blocked, by program and stack", held, held.rows.len(), out);
    let rows = unclear.rows.len();
    // All that there are are no more than the user wants to see.
    let is_all = rows == unclear.total;
    let few = if held.rows.is_empty() || is_all { rows } else { rows.div_ceil(UNDECIDED_SHARE) };
    print_stacks("Undecided, by program and stack", unclear, few, out);
    if off_cpu.stacks.total > 0 && off_cpu.without_stack_ns > 0 {
        out.line(&format!("  {} have no stack", duration(off_cpu.without_stack_ns)));
    }
    if off_cpu.truncated > 0 {
        out.line(&format!(
            "  {} of {} sleeps ({} %) have a stack that lacks its outer frames",
            grouped(off_cpu.truncated),
            grouped(off_cpu.with_stack),
            percent(off_cpu.truncated, off_cpu.with_stack)
        ));
        print_truncated(&off_cpu.truncated_in.rows, out);
    }
}

fn print_reasons(title: &str, reasons: &Table<ReasonRow>, out: &mut Printer) {
    if reasons.rows.is_empty() {
        return;
    }
    out.title_of_rows(title, reasons);
    let rows = reasons.rows.iter().map(|row| {
        let [sum, mean, most] = total(row.blocked_ns, row.count, row.max_ns);
        let place = blocked_in_label(row.blocked_in.as_deref(), &row.state, row.io_wait);
        [sum, grouped(row.count), mean, most, format!("{}: {place}", row.waits_for)]
    });
    out.table(["time", "times", "mean", "max", "waits for"], rows);
}

/// Who had nothing to do, in a few lines.
fn print_idle(idle: &WaitsOfClass, out: &mut Printer) {
    if idle.kinds.is_empty() {
        return;
    }
    let threads = count(idle.threads as u64, "thread");
    out.title(&format!("Idle: {threads}, {}", duration(idle.blocked_ns)));
    let kinds = idle.kinds.iter().map(|WaitRow { waits_for, threads, blocked_ns, .. }| {
        format!("{waits_for} {} of {threads}", duration(*blocked_ns))
    });
    out.wrapped(WordBlock::of_any_height(2), &kinds.collect::<Vec<_>>().join("; "));
}

fn print_stacks(title: &str, stacks: &Table<StackRow>, rows: usize, out: &mut Printer) {
    if rows == 0 {
        return;
    }
    out.title(&some_of(title, rows, stacks.total));
    for row in stacks.rows.iter().take(rows) {
        print_stack(row, out);
    }
}

fn print_stack(row: &StackRow, out: &mut Printer) {
    let [sum, mean, most] = total(row.blocked_ns, row.count, row.max_ns);
    let which = match row.processes {
        Some(processes) if processes > 1 => format!("{processes} processes"),
        _ => row.pid.to_string(),
    };
    let process = format!("{} ({which})", shown(&row.process));
    let times = if row.count == 1 {
        "once".into()
    } else {
        format!("{} times, mean {mean}, max {most}", grouped(row.count))
    };
    out.line(&format!("  {sum:>7}  {times}: {process}, {}", row.waits_for));
    StackText::below_a_row(&row.stack).print(out);
}

/// Sum, mean and maximum.
fn total(sum: u64, count: u64, most: u64) -> [String; 3] {
    [sum, sum / count.max(1), most].map(duration)
}
