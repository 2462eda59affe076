//! The report in words, for a terminal.
//!
//! Names come from the recorded machine: control characters in them are
//! escaped, so that they cannot do anything to the terminal.

mod gpu;
mod off_cpu;
mod programs;
mod sleepers;
mod tree;
pub(super) mod worst;

use super::columns::{clipped, duration, grouped, percent, table, wrapped};
use super::data::*;
use super::durations::sum_ns;
use super::filter::shown_pids;
use super::hints;
use syscollect_model::{CalendarTime, CpuId, LossCause, ModuleKind, OperatingSystem, SampleEvent};

/// Modules whose stacks are cut that are told.
const CUTS: usize = 5;
/// Characters of the longest bar of the histogram.
const BAR: usize = 40;

impl Report {
    /// The report as text in lines of `width` characters, as far as that is
    /// possible without cutting figures.
    pub fn text(&self, width: usize) -> String {
        let mut out = ReportText { text: String::new(), width };
        out.paragraph(&self.verdict());
        out.text.push('\n');
        out.head(self);
        out.cpus(&self.cpus);
        out.processes(self);
        out.threads(self);
        out.functions(&self.functions, &self.recording.sample_event);
        out.off_cpu(&self.off_cpu);
        out.wakeups(&self.wakeups);
        out.run_queue(&self.run_queue);
        out.migrations(&self.migrations);
        out.programs(self);
        out.unresolved(self);
        out.losses(self);
        out.text
    }
}

pub(super) struct ReportText {
    pub(super) text: String,
    pub(super) width: usize,
}

impl ReportText {
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(&clipped(line, self.width.max(40)));
        self.text.push('\n');
    }

    /// Whole sentences, in as many lines as they need.
    pub(super) fn paragraph(&mut self, sentences: &str) {
        let words: Vec<String> = sentences.split(' ').map(str::to_owned).collect();
        wrapped(&mut self.text, self.width.max(40), 0, usize::MAX, &words);
    }

    /// A section's title; what it says of the number of rows.
    pub(super) fn title(&mut self, title: &str) {
        self.text.push('\n');
        self.line(title);
    }

    pub(super) fn table<const N: usize>(
        &mut self,
        heads: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        table(&mut self.text, self.width, heads, rows);
    }

    pub(super) fn head(&mut self, report: &Report) {
        let Recording { recorder, .. } = &report.recording;
        self.line(&format!(
            "{:<10} {}; {}",
            "Recorded",
            machine(&report.recording.machine()),
            shown(recorder)
        ));
        if let Some(began) = report.recording.began_unix_ns {
            let began = CalendarTime::of_unix(began / 1_000_000_000);
            self.line(&format!("{:<10} {began} UTC", "Began"));
        }
        for (number, other) in (1..).zip(&report.recording.other_machines) {
            self.line(&format!("{:<10} {}", format!("Machine {number}"), machine(other)));
        }
        let Recording { complete, reached_max_size, .. } = report.recording;
        let cut = match (complete, reached_max_size) {
            (false, _) => ", of a recording that was cut off",
            (true, true) => ", of a recording that stopped at --max-size",
            (true, false) => "",
        };
        let length = report.shown_length();
        let all = report.recorded_ns.unwrap_or(report.overwritten_ns + report.duration_ns);
        let of = match report.overwritten_ns {
            0 if all == length || all <= report.duration_ns => String::new(),
            0 => format!(", of a recording of {}", duration(all)),
            _ => format!(", the end of {}", duration(all)),
        };
        self.line(&format!("{:<10} {}{of}{cut}", "Duration", duration(length)));
        self.events(&report.events);
        if let Some(process) = &report.process {
            self.line(&format!(
                "{:<10} only {}{}, but for CPUs and losses",
                "Process",
                shown(process),
                if report.process_children { "" } else { ", without its children" }
            ));
            self.others(report);
        }
        let others = &report.recording.other_machines;
        let machines = std::iter::once(report.recording.machine()).chain(others.iter().cloned());
        for machine in machines.filter(|machine| !machine.filter_pids.is_empty()) {
            let (pids, hostname) = (shown_pids(&machine.filter_pids), shown(&machine.hostname));
            let on = if others.is_empty() { String::new() } else { format!(" on {hostname}") };
            self.line(&format!(
                "{:<10} only of process {pids}{on} everything was recorded: others are partial",
                "Note"
            ));
        }
        if report.overwritten > 0 {
            let overwritten = grouped(report.overwritten);
            self.line(&format!(
                "{:<10} {overwritten} records by newer ones, as asked",
                "Overwritten"
            ));
        }
        let shortfall = report.shortfall();
        let lost = match report.lost {
            0 => shortfall.instead_of_losses(),
            lost => format!("*** {} ***", grouped(lost)),
        };
        self.line(&format!("{:<10} {lost}", "Lost"));
        for line in shortfall.beside_losses().filter(|_| report.lost > 0) {
            self.line(&format!("{:<10} {line}", ""));
        }
    }

    /// Who else did something.
    fn others(&mut self, report: &Report) {
        let OtherProcesses { processes, on_cpu_ns } = report.others;
        if processes == 0 {
            return;
        }
        let others = if processes == 1 {
            "1 other process".into()
        } else {
            format!("{} other processes", grouped(processes as u64))
        };
        // What they did while none of these ran is not known.
        if report.recording.is_filtered() {
            let words = format!("{others}, as far as they concern these: --all shows that");
            return self.line(&format!("{:<10} {words}", ""));
        }
        let whole = sum_ns(report.cpus.iter().map(CpuRow::whole_ns));
        let share = format!("{} % of the CPUs' time", percent(on_cpu_ns, whole));
        self.line(&format!("{:<10} {others}, {share}", ""));
    }

    fn events(&mut self, events: &EventCounts) {
        let EventCounts {
            switches, wakeups, migrations, samples, slices, instants, counters, ..
        } = *events;
        let EventCounts { messages, locks, memory, gpu_jobs, .. } = *events;
        let of_the_machine = [
            (switches, "switch", "switches"),
            (wakeups, "wakeup", "wakeups"),
            (migrations, "migration", "migrations"),
            (samples, "sample", "samples"),
            (counters, "counter value", "counter values"),
        ];
        let of_programs = [
            (slices, "slice", "slices"),
            (instants - messages, "instant", "instants"),
            (messages, "message", "messages"),
            (locks, "lock event", "lock events"),
            (memory, "allocation or free", "allocations and frees"),
            (gpu_jobs, "GPU job", "GPU jobs"),
        ];
        let mut head = "Events";
        for counts in [&of_the_machine[..], &of_programs[..]] {
            let counts = counts.iter().filter(|(count, ..)| *count > 0);
            let words: Vec<_> = counts
                .map(|(count, one, many)| match count {
                    1 => format!("1 {one}"),
                    _ => format!("{} {many}", grouped(*count)),
                })
                .collect();
            if !words.is_empty() {
                self.line(&format!("{head:<10} {}", words.join(", ")));
                head = "";
            }
        }
    }

    fn cpus(&mut self, cpus: &[CpuRow]) {
        if cpus.is_empty() {
            return;
        }
        self.title("CPUs");
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
        self.table(["busy", "%", "idle", "unknown", "switches", "CPU"], rows);
    }

    fn processes(&mut self, report: &Report) {
        let rows = report.processes.rows.iter().map(|row| {
            let threads = match row.threads {
                // Traces without switches tell of no thread what it did.
                0 => String::new(),
                threads => format!(", {}", count(threads as u64, "thread")),
            };
            let name = format!("{} ({}{threads})", shown(&row.name), row.pid);
            task(report, &row.activity, name)
        });
        self.tasks(report, "Processes", report.processes.total, rows);
        let rows = report.processes_by_name.rows.iter().map(|row| {
            let name =
                format!("{} ({} processes)", shown(&row.name), grouped(row.processes as u64));
            task(report, &row.activity, name)
        });
        let title = "Processes of one name together,";
        self.tasks(report, title, report.processes_by_name.total, rows);
    }

    fn threads(&mut self, report: &Report) {
        let rows = report.threads.rows.iter().map(|row| {
            let process = if row.tid == row.pid {
                String::new()
            } else {
                format!(" of {}", shown(&row.process))
            };
            let name = format!("{} ({}){process}", shown(&row.name), row.tid);
            task(report, &row.activity, name)
        });
        self.tasks(report, "Threads", report.threads.total, rows);
    }

    /// A table of processes or threads, if there are any.
    fn tasks(
        &mut self,
        report: &Report,
        what: &str,
        total: usize,
        rows: impl ExactSizeIterator<Item = [String; 9]>,
    ) {
        if total == 0 {
            return;
        }
        self.title(&some_of(&format!("{what} by {}", order(report)), rows.len(), total));
        if self.width >= WIDE {
            return self.table(TASK_HEADS, rows);
        }
        let kept: [usize; 8] =
            std::array::from_fn(|column| column + usize::from(column >= UNKNOWN));
        let narrow = rows.map(|mut row| kept.map(|column| std::mem::take(&mut row[column])));
        self.table(kept.map(|column| TASK_HEADS[column]), narrow);
    }

    /// Where stacks end that lack their outer frames.
    pub(super) fn truncated_in(&mut self, rows: &[TruncatedRow]) {
        for TruncatedRow { reason, module, count } in rows.iter().take(CUTS) {
            let module =
                if module.is_empty() { "code of no known file".into() } else { shown(module) };
            self.line(&format!("  {:>10} {reason}: {module}", grouped(*count)));
        }
        let others = rows.get(CUTS..).unwrap_or_default();
        if !others.is_empty() {
            let count = others.iter().map(|row| row.count).sum();
            self.line(&format!("  {:>10} at {} other places", grouped(count), others.len()));
        }
    }

    fn functions(&mut self, functions: &Functions, sample_event: &SampleEvent) {
        let Functions {
            samples,
            kernel_samples,
            idle_samples,
            without_stack,
            truncated,
            truncated_in,
            lacks_python,
            by_self,
            by_total,
        } = functions;
        if samples + idle_samples == 0 {
            return;
        }
        let [samples_text, kernel, idle] =
            [samples, kernel_samples, idle_samples].map(|count| grouped(*count));
        self.title(&format!(
            "Functions: {samples_text} samples, {kernel} of them in the kernel ({idle} of idle \
             CPUs are left out)"
        ));
        if *without_stack > 0 {
            self.line(&format!("  {} have no stack and are in no row", grouped(*without_stack)));
        }
        if *truncated > 0 {
            self.line(&format!(
                "  {} ({} %) have a stack that lacks its outer frames",
                grouped(*truncated),
                percent(*truncated, *samples)
            ));
            self.truncated_in(&truncated_in.rows);
        }
        for (order, Table { total, rows }) in [("self", by_self), ("total", by_total)] {
            if rows.is_empty() {
                continue;
            }
            self.title(&some_of(&format!("Functions by {order} samples"), rows.len(), *total));
            let rows = rows.iter().map(|row| {
                let FunctionRow { self_samples, total, kernel, .. } = *row;
                let place = match row.module_kind {
                    _ if kernel => "kernel",
                    ModuleKind::Python => "python",
                    _ => "user",
                };
                let [own, all] = [self_samples, total].map(grouped);
                [
                    own,
                    percent(self_samples, *samples),
                    all,
                    percent(total, *samples),
                    place.to_owned(),
                    function(row),
                ]
            });
            self.table(["self", "%", "total", "%", "code", "function"], rows);
        }
        if *lacks_python {
            self.note(hints::PYTHON);
        }
        if *sample_event == SampleEvent::CpuClock && by_self.rows.iter().any(hints::is_late) {
            self.note(hints::TIMER);
        }
    }

    /// Why something is not shown, and what shows it.
    pub(super) fn note(&mut self, hint: &str) {
        let words: Vec<String> = hint.split(' ').map(str::to_owned).collect();
        wrapped(&mut self.text, self.width, 2, usize::MAX, &words);
    }

    fn wakeups(&mut self, wakeups: &Wakeups) {
        let Wakeups { count, by_interrupt, pairs } = wakeups;
        if *count == 0 {
            return;
        }
        let title = some_of("Who wakes whom", pairs.rows.len(), pairs.total);
        self.title(&format!(
            "{title} ({} wakeups, {} by interrupts)",
            grouped(*count),
            grouped(*by_interrupt)
        ));
        let rows = pairs.rows.iter().map(|row| {
            let waker = match row.waker_kind {
                WakerKind::Thread => format!("{} ({})", shown(&row.waker), row.waker_tid),
                WakerKind::Interrupt => "[interrupt]".to_owned(),
                WakerKind::Unknown => "[unknown]".to_owned(),
            };
            [
                grouped(row.count),
                percent(row.count, *count),
                format!("{waker} -> {} ({})", shown(&row.wakee), row.wakee_tid),
            ]
        });
        self.table(["times", "%", "waker -> woken"], rows);
    }

    fn run_queue(&mut self, run_queue: &RunQueueReport) {
        if run_queue.all.count == 0 {
            return;
        }
        self.title("Run-queue latency: runnable until on CPU");
        let kinds = [
            (&run_queue.all, "all waits"),
            (&run_queue.after_wakeup, "after a wakeup"),
            (&run_queue.after_preemption, "after a preemption"),
        ];
        let rows = kinds.into_iter().filter(|(all, _)| all.count > 0).map(|(all, name)| {
            let [mean, p50, p90, p99, p999, max] =
                [all.mean_ns, all.p50_ns, all.p90_ns, all.p99_ns, all.p999_ns, all.max_ns]
                    .map(duration);
            [grouped(all.count), mean, p50, p90, p99, p999, max, name.to_owned()]
        });
        self.table(["waits", "mean", "p50", "p90", "p99", "p99.9", "max", ""], rows);
        let most = run_queue.histogram.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
        let rows = run_queue.histogram.iter().map(|bucket| {
            let bar = (bucket.count as f64 * BAR as f64 / most as f64).ceil() as usize;
            [
                duration(bucket.from_ns),
                duration(bucket.to_ns),
                grouped(bucket.count),
                "#".repeat(bar),
            ]
        });
        self.table(["from", "to", "waits", ""], rows);
    }

    fn migrations(&mut self, migrations: &Table<MigrationRow>) {
        if migrations.rows.is_empty() {
            return;
        }
        self.title(&some_of("Migrations", migrations.rows.len(), migrations.total));
        self.table(
            ["times", "move"],
            migrations.rows.iter().map(|row| {
                let [from, to] =
                    [row.from_cpu, row.to_cpu].map(|number| CpuId { machine: row.machine, number });
                [grouped(row.count), format!("{from} -> {to}")]
            }),
        );
    }

    fn unresolved(&mut self, report: &Report) {
        let unresolved = &report.unresolved;
        if unresolved.rows.is_empty() {
            return;
        }
        self.title(&some_of(
            "Code without names, by module",
            unresolved.rows.len(),
            unresolved.total,
        ));
        let rows = unresolved.rows.iter().map(|row| {
            let module = if row.module.is_empty() {
                "[no file: generated, or its mapping is missing]".into()
            } else {
                shown(&row.module)
            };
            let module = match row.debug_package.as_str() {
                "" => module,
                package => format!("{module} ({})", shown(package)),
            };
            [grouped(row.samples), duration(row.blocked_ns), grouped(row.places), module]
        });
        self.table(["samples", "asleep", "places", "module"], rows);
        if report.recording.os != OperatingSystem::Windows {
            let complete = report.recording.complete;
            hints::of_unnamed(&unresolved.rows, complete).for_each(|hint| self.note(hint));
        }
    }

    fn losses(&mut self, report: &Report) {
        if report.lost == 0 {
            return;
        }
        self.title(&format!("Lost: {} records", grouped(report.lost)));
        let rows = report
            .losses
            .iter()
            .filter(|loss| loss.count > 0 && loss.cause != LossCause::Overwritten)
            .map(|loss| {
                let cpu = loss.cpu.map(|number| CpuId { machine: loss.machine, number });
                let cpu = cpu.map_or_else(String::new, |cpu| format!(" of {cpu}"));
                let user = loss.user.map(|user| format!(" of user {user}'s programs"));
                let whose = cpu + &user.unwrap_or_default();
                [
                    grouped(loss.count),
                    format!("{}{whose}: {}", shown(loss.origin.name()), loss.cause.name()),
                ]
            });
        self.table(["records", "from"], rows);
    }
}

/// Columns of a table of processes or threads. Who is asleep may have nothing to do: what was
/// blocked is told further down.
const TASK_HEADS: [&str; 9] =
    ["on CPU", "%", "waiting", "asleep", "unknown", "switches", "preempted", "samples", "name"];
/// The one that narrow lines go without.
const UNKNOWN: usize = 4;
/// Characters of lines that have room for all of them.
const WIDE: usize = 90;

/// A row of [`TASK_HEADS`].
fn task(report: &Report, activity: &Activity, name: String) -> [String; 9] {
    let Activity { times, counts, .. } = activity;
    let Times { on_cpu_ns, waiting_ns, blocked_ns, unknown_ns } = *times;
    let [on_cpu, waiting, blocked, unknown] =
        [on_cpu_ns, waiting_ns, blocked_ns, unknown_ns].map(duration);
    let share = percent(on_cpu_ns, report.duration_ns);
    let [switches, preemptions, samples] =
        [counts.switches, counts.preemptions, counts.samples].map(grouped);
    [on_cpu, share, waiting, blocked, unknown, switches, preemptions, samples, name]
}

/// The machine, as far as it is known: Windows traces name no host.
fn machine(of: &RecordedMachine) -> String {
    let RecordedMachine { hostname, os, kernel_release, cpus, .. } = of;
    let parts = [
        shown(hostname),
        format!("{} {}", shown(os.name()), shown(kernel_release)),
        count(*cpus as u64, "CPU"),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// What threads are ordered by: without switches nobody knows how long they ran.
fn order(report: &Report) -> &'static str {
    if report.events.switches == 0 && report.events.samples > 0 { "samples" } else { "time on CPU" }
}

/// `do_wait (interruptible)`.
pub(super) fn blocked_in_label(blocked_in: Option<&str>, state: &str, io_wait: bool) -> String {
    let place = blocked_in.map_or("?".into(), shown);
    let io = if io_wait { ", for I/O" } else { "" };
    format!("{place} ({state}{io})")
}

/// The function and the file name of its module, which is in the label of a function without a
/// name.
fn function(row: &FunctionRow) -> String {
    let file = row.module.rsplit(['/', '\\']).next().unwrap_or_default();
    match row.module_kind {
        _ if row.range_only => shown(&row.function),
        _ if file.is_empty() => format!("{} (no file)", shown(&row.function)),
        // All plain kernel code has the same module, and Python's functions.
        ModuleKind::Kernel | ModuleKind::Python => shown(&row.function),
        _ => format!("{} ({})", shown(&row.function), shown(file)),
    }
}

/// The title, with the number of rows where not all are shown.
pub(super) fn some_of(title: &str, shown: usize, total: usize) -> String {
    if shown == total {
        title.to_owned()
    } else {
        format!("{title}: {shown} of {}", grouped(total as u64))
    }
}

pub(super) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{} {what}s", grouped(number)) }
}

/// Without what could do something to the terminal; backslashes of Windows' paths stay as they are.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}
