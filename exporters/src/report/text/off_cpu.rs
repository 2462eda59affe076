//! Time off the CPU in words: what held threads up first, what had nothing to do last.

use crate::report::columns::{duration, grouped, percent, wrapped};
use crate::report::data::*;
use crate::report::text::{ReportText, blocked_in_label, count, shown, some_of};

/// Of so many stacks that may have held somebody up one is shown that may have waited for work.
const UNDECIDED_SHARE: usize = 3;

impl ReportText {
    pub(in crate::report) fn off_cpu(&mut self, off_cpu: &OffCpuReport) {
        self.times_off_cpu(off_cpu);
        self.asleep_throughout(&off_cpu.asleep_throughout);
    }

    fn times_off_cpu(&mut self, off_cpu: &OffCpuReport) {
        let OffCpuReport { blocked, undecided, idle, .. } = off_cpu;
        if off_cpu.reasons.rows.is_empty() {
            return;
        }
        let [held, unclear, nothing] =
            [blocked, undecided, idle].map(|class| duration(class.blocked_ns));
        self.title(&format!(
            "Off the CPU: {held} blocked, {unclear} undecided, {nothing} idle ({} in all)",
            duration(off_cpu.blocked_ns)
        ));
        self.reasons("Blocked, by what was waited for", &blocked.reasons);
        self.reasons("Undecided, waits for work or for an answer", &undecided.reasons);
        self.idle(idle);
        let [held, unclear] = [blocked, undecided].map(|class| &class.program_stacks);
        self.stacks("Blocked, by program and stack", held, held.rows.len());
        let rows = unclear.rows.len();
        // All that there are are no more than the user wants to see.
        let is_all = rows == unclear.total;
        let few =
            if held.rows.is_empty() || is_all { rows } else { rows.div_ceil(UNDECIDED_SHARE) };
        self.stacks("Undecided, by program and stack", unclear, few);
        if off_cpu.stacks.total > 0 && off_cpu.without_stack_ns > 0 {
            self.line(&format!("  {} have no stack", duration(off_cpu.without_stack_ns)));
        }
        if off_cpu.truncated > 0 {
            self.line(&format!(
                "  {} of {} sleeps ({} %) have a stack that lacks its outer frames",
                grouped(off_cpu.truncated),
                grouped(off_cpu.with_stack),
                percent(off_cpu.truncated, off_cpu.with_stack)
            ));
            self.truncated_in(&off_cpu.truncated_in.rows);
        }
    }

    fn reasons(&mut self, title: &str, reasons: &Table<ReasonRow>) {
        if reasons.rows.is_empty() {
            return;
        }
        self.title(&some_of(title, reasons.rows.len(), reasons.total));
        let rows = reasons.rows.iter().map(|row| {
            let [sum, mean, most] = total(row.blocked_ns, row.count, row.max_ns);
            let place = blocked_in_label(row.blocked_in.as_deref(), &row.state, row.io_wait);
            [sum, grouped(row.count), mean, most, format!("{}: {place}", row.waits_for)]
        });
        self.table(["time", "times", "mean", "max", "waits for"], rows);
    }

    /// Who had nothing to do, in a few lines.
    fn idle(&mut self, idle: &WaitsOfClass) {
        if idle.kinds.is_empty() {
            return;
        }
        let threads = count(idle.threads as u64, "thread");
        self.title(&format!("Idle: {threads}, {}", duration(idle.blocked_ns)));
        let last = idle.kinds.len() - 1;
        let words = idle.kinds.iter().enumerate().flat_map(|(index, kind)| {
            let WaitRow { waits_for, threads, blocked_ns, .. } = kind;
            let end = if index == last { "" } else { ";" };
            let of = format!("{waits_for} {} of {threads}{end}", duration(*blocked_ns));
            of.split(' ').map(str::to_owned).collect::<Vec<_>>()
        });
        wrapped(&mut self.text, self.width, 2, usize::MAX, &words.collect::<Vec<_>>());
    }

    fn stacks(&mut self, title: &str, stacks: &Table<StackRow>, rows: usize) {
        if rows == 0 {
            return;
        }
        self.title(&some_of(title, rows, stacks.total));
        for row in stacks.rows.iter().take(rows) {
            self.stack(row);
        }
    }

    fn stack(&mut self, row: &StackRow) {
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
        self.line(&format!("  {sum:>7}  {times}: {process}, {}", row.waits_for));
        self.frames_of_stack(&row.stack);
    }
}

/// Sum, mean and maximum.
fn total(sum: u64, count: u64, most: u64) -> [String; 3] {
    [sum, sum / count.max(1), most].map(duration)
}
