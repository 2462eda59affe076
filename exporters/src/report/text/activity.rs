//! What CPUs, processes and threads did.

use crate::report::data::*;
use crate::report::text::printer::Printer;
use crate::report::text::words::{count, duration, grouped, percent, shown};

pub(super) fn print_cpus(cpus: &[CpuRow], out: &mut Printer) {
    if cpus.is_empty() {
        return;
    }
    out.title("CPUs");
    let rows = cpus.iter().map(|row| {
        let whole = row.whole_ns();
        let times = [row.busy_ns, row.idle_ns, row.unknown_ns].map(duration);
        let [busy, idle, unknown] = times;
        [
            busy,
            percent(row.busy_ns, whole),
            idle,
            unknown,
            grouped(row.switches),
            row.cpu.to_string(),
        ]
    });
    out.table(["busy", "%", "idle", "unknown", "switches", "CPU"], rows);
}

/// Columns of a table of processes or threads. Who is asleep may have nothing to do: what was
/// blocked is told further down.
const TASK_HEADS: [&str; 9] =
    ["on CPU", "%", "waiting", "asleep", "unknown", "switches", "preempted", "samples", "name"];
/// The one that narrow lines go without.
const UNKNOWN: usize = 4;
/// Characters of lines that have room for all of them.
const WIDE: usize = 90;

/// What all tables of processes and threads have in common.
pub(super) struct TaskTables {
    session_ns: u64,
    ordered_by: &'static str,
}

/// A process or thread, or several, of a table.
pub(super) struct TaskRow<'a> {
    name: String,
    activity: &'a Activity,
}

impl TaskTables {
    pub(super) fn of(report: &Report) -> Self {
        let EventCounts { switches, samples, .. } = report.events;
        // Without switches nobody knows how long threads ran.
        let ordered_by = if switches == 0 && samples > 0 { "samples" } else { "time on CPU" };
        Self { session_ns: report.duration_ns, ordered_by }
    }

    /// A table of processes or threads, if there are any.
    pub(super) fn print<'a, T>(&self, title: &str, tasks: &'a Table<T>, out: &mut Printer)
    where
        TaskRow<'a>: From<&'a T>,
    {
        if tasks.total == 0 {
            return;
        }
        out.title_of_rows(&format!("{title} by {}", self.ordered_by), tasks);
        let rows = tasks.rows.iter().map(|row| self.cells(row.into()));
        if out.width() >= WIDE {
            return out.table(TASK_HEADS, rows);
        }
        let kept: [usize; 8] =
            std::array::from_fn(|column| column + usize::from(column >= UNKNOWN));
        let narrow = rows.map(|mut row| kept.map(|column| std::mem::take(&mut row[column])));
        out.table(kept.map(|column| TASK_HEADS[column]), narrow);
    }

    /// A row of [`TASK_HEADS`].
    fn cells(&self, task: TaskRow<'_>) -> [String; 9] {
        let Activity { times, counts, .. } = task.activity;
        let Times { on_cpu_ns, waiting_ns, blocked_ns, unknown_ns } = *times;
        let [on_cpu, waiting, blocked, unknown] =
            [on_cpu_ns, waiting_ns, blocked_ns, unknown_ns].map(duration);
        let share = percent(on_cpu_ns, self.session_ns);
        let [switches, preemptions, samples] =
            [counts.switches, counts.preemptions, counts.samples].map(grouped);
        [on_cpu, share, waiting, blocked, unknown, switches, preemptions, samples, task.name]
    }
}

impl<'a> From<&'a ProcessRow> for TaskRow<'a> {
    fn from(row: &'a ProcessRow) -> Self {
        let ProcessRow { pid, name, threads, activity } = row;
        let threads = match threads {
            // Traces without switches tell of no thread what it did.
            0 => String::new(),
            threads => format!(", {}", count(*threads as u64, "thread")),
        };
        Self { name: format!("{} ({pid}{threads})", shown(name)), activity }
    }
}

impl<'a> From<&'a ProcessNameRow> for TaskRow<'a> {
    fn from(row: &'a ProcessNameRow) -> Self {
        let ProcessNameRow { name, processes, activity, .. } = row;
        let processes = grouped(*processes as u64);
        Self { name: format!("{} ({processes} processes)", shown(name)), activity }
    }
}

impl<'a> From<&'a ThreadRow> for TaskRow<'a> {
    fn from(row: &'a ThreadRow) -> Self {
        let ThreadRow { tid, name, pid, process, activity } = row;
        let process = match tid == pid {
            true => String::new(),
            false => format!(" of {}", shown(process)),
        };
        Self { name: format!("{} ({tid}){process}", shown(name)), activity }
    }
}
