//! GPUs in words.

use crate::report::data::*;
use crate::report::text::printer::Printer;
use crate::report::text::words::{duration, grouped, percent, shown};

/// An error of a GPU's clock from which on it is told, nanoseconds: calibrations are better.
const CLOCK_ERROR_SHOWN_NS: u64 = 100_000;

pub(super) fn print_gpu_jobs(
    title: &str,
    jobs: &Table<GpuRow>,
    session_ns: u64,
    out: &mut Printer,
) {
    let (begun, others): (Vec<&GpuRow>, Vec<_>) =
        jobs.rows.iter().partition(|row| row.ran.count + row.waited.count > 0);
    let cut = if jobs.rows.len() < jobs.total {
        format!(", the first {} rows", jobs.rows.len())
    } else {
        String::new()
    };
    if !begun.is_empty() {
        out.title(&format!("{title}{cut}"));
        let rows = begun.into_iter().map(|row| {
            let GpuRow { ran, waited, .. } = row;
            let [busy, longest] = [ran.total_ns, ran.max_ns].map(|value| of(ran, value));
            let share = if ran.count == 0 { "-".into() } else { percent(ran.total_ns, session_ns) };
            let [p50, p90, p99, max] = percentiles(waited);
            [busy, share, grouped(row.jobs), longest, p50, p90, p99, max, owner(row)]
        });
        out.table(
            ["busy", "%", "jobs", "longest", "delay p50", "p90", "p99", "max", "queue"],
            rows,
        );
    }
    if !others.is_empty() {
        out.title(&format!(
            "{title}{cut}: from submission to end, for no driver tells when these began"
        ));
        let rows = others.into_iter().map(|row| {
            let [p50, p90, p99, max] = percentiles(&row.took);
            [grouped(row.jobs), p50, p90, p99, max, owner(row)]
        });
        out.table(["jobs", "p50", "p90", "p99", "max", "queue"], rows);
    }
}

pub(super) fn print_gpu_zones(zones: &Table<GpuZoneRow>, out: &mut Printer) {
    if zones.rows.is_empty() {
        return;
    }
    out.title_of_rows("GPU zones, and how long they waited for the GPU", zones);
    let rows = zones.rows.iter().map(|row| {
        let GpuZoneRow { ran, waited, .. } = row;
        let [total, mean, p50, p99, max] =
            [ran.total_ns, ran.mean_ns, ran.p50_ns, ran.p99_ns, ran.max_ns].map(|ns| of(ran, ns));
        let [delay, delay_p99] = [waited.p50_ns, waited.p99_ns].map(|value| of(waited, value));
        let untimed = match row.untimed {
            0 => String::new(),
            untimed => format!("; {untimed} without times"),
        };
        let owner =
            row.pid.map_or_else(String::new, |pid| format!(" of {} ({pid})", shown(&row.process)));
        let error = clock_error(row.clock_error_ns);
        let place = format!("{} on {}{owner}{untimed}{error}", shown(&row.name), shown(&row.queue));
        [total, grouped(row.zones), mean, p50, p99, max, delay, delay_p99, place]
    });
    out.table(["total", "zones", "mean", "p50", "p99", "max", "wait p50", "p99", "zone"], rows);
}

pub(super) fn print_fence_waits(waits: &Table<FenceWaitRow>, out: &mut Printer) {
    if waits.rows.is_empty() {
        return;
    }
    out.title_of_rows("Longest waits for fences", waits);
    let rows =
        waits.rows.iter().map(|row| [duration(row.waited_ns), duration(row.at_ns), wait(row)]);
    out.table(["waited", "after", "thread and fence"], rows);
}

/// Unknown where nothing is counted.
fn of(all: &Distribution, value: u64) -> String {
    if all.count == 0 { "-".into() } else { duration(value) }
}

fn percentiles(all: &Distribution) -> [String; 4] {
    [all.p50_ns, all.p90_ns, all.p99_ns, all.max_ns].map(|value| of(all, value))
}

fn owner(row: &GpuRow) -> String {
    let owner =
        row.pid.map_or_else(String::new, |pid| format!(" of {} ({pid})", shown(&row.process)));
    shown(&row.queue) + &owner + &missing(row) + &clock_error(row.clock_error_ns)
}

/// How wrong times may be, where that is more than what is shown can leave out.
fn clock_error(nanoseconds: u64) -> String {
    match nanoseconds {
        ..CLOCK_ERROR_SHOWN_NS => String::new(),
        _ => format!("; times are up to {} off", duration(nanoseconds)),
    }
}

fn wait(row: &FenceWaitRow) -> String {
    let own = format!("{} ({})", row.thread, row.tid);
    let process = match row.thread == row.process {
        true => String::new(),
        false => format!(" of {} ({})", shown(&row.process), row.pid),
    };
    // The driver may have another word for the timeline of its queue.
    let timeline = row.queue.as_ref().unwrap_or(&row.timeline);
    let mut sentence = format!("{}{process}: {} {}", shown(&own), shown(timeline), row.fence);
    match &row.submitted_by {
        Some(thread) if *thread == own => sentence += ", its own job",
        Some(thread) => sentence += &format!(", a job of {}", shown(thread)),
        None => {}
    }
    if let Some(signaler) = &row.signaled_by {
        sentence += &format!(", signaled by {}", shown(signaler));
    }
    if row.unfinished {
        sentence += ", not signaled when the recording ended";
    }
    sentence
}

/// What is wrong with some of the jobs.
fn missing(row: &GpuRow) -> String {
    let counts = [
        (row.failed, "failed"),
        (row.unfinished, "not ended"),
        (row.without_beginning, "without a beginning"),
        (row.untimed, "without times"),
    ];
    let sentences: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    if sentences.is_empty() { String::new() } else { format!("; {}", sentences.join(", ")) }
}
