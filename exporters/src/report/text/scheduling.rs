//! Who woke whom, how long that took until they ran, and where they were moved.

use crate::report::data::*;
use crate::report::text::printer::Printer;
use crate::report::text::words::{duration, grouped, percent, shown, some_of};
use syscollect_model::CpuId;

/// Characters of the longest bar of the histogram.
const BAR: usize = 40;

pub(super) fn print_wakeups(wakeups: &Wakeups, out: &mut Printer) {
    let Wakeups { count, by_interrupt, pairs } = wakeups;
    if *count == 0 {
        return;
    }
    let title = some_of("Who wakes whom", pairs.rows.len(), pairs.total);
    out.title(&format!(
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
    out.table(["times", "%", "waker -> woken"], rows);
}

pub(super) fn print_run_queue(run_queue: &RunQueueReport, out: &mut Printer) {
    if run_queue.all.count == 0 {
        return;
    }
    out.title("Run-queue latency: runnable until on CPU");
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
    out.table(["waits", "mean", "p50", "p90", "p99", "p99.9", "max", ""], rows);
    let most = run_queue.histogram.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
    let rows = run_queue.histogram.iter().map(|bucket| {
        let bar = (bucket.count as f64 * BAR as f64 / most as f64).ceil() as usize;
        [duration(bucket.from_ns), duration(bucket.to_ns), grouped(bucket.count), "#".repeat(bar)]
    });
    out.table(["from", "to", "waits", ""], rows);
}

pub(super) fn print_migrations(migrations: &Table<MigrationRow>, out: &mut Printer) {
    if migrations.rows.is_empty() {
        return;
    }
    out.title_of_rows("Migrations", migrations);
    out.table(
        ["times", "move"],
        migrations.rows.iter().map(|row| {
            let [from, to] =
                [row.from_cpu, row.to_cpu].map(|number| CpuId { machine: row.machine, number });
            [grouped(row.count), format!("{from} -> {to}")]
        }),
    );
}
