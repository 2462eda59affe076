//! GPUs in words.

use super::columns::{duration, grouped, percent};
use super::data::*;
use super::text::{Text, shown, some_of};

impl Text {
    pub(super) fn gpus(&mut self, report: &Report) {
        let Report { gpu_queues: queues, gpu, gpu_waits, duration_ns, .. } = report;
        // The same twice where each queue has jobs of one process.
        if queues.total < gpu.total {
            self.gpu_jobs("GPU jobs by queue", queues, *duration_ns);
        }
        self.gpu_jobs("GPU jobs by queue and process", gpu, *duration_ns);
        self.fence_waits(gpu_waits);
    }

    fn gpu_jobs(&mut self, title: &str, jobs: &Table<GpuRow>, session_ns: u64) {
        if jobs.rows.is_empty() {
            return;
        }
        self.title(&some_of(title, jobs.rows.len(), jobs.total));
        let rows = jobs.rows.iter().map(|row| {
            let (ran, waited) = (&row.ran, &row.waited);
            // Without a beginning nobody knows for how long the GPU was busy.
            let of = |all: &Distribution, value: u64| if all.count == 0 { "-".into() } else { duration(value) };
            let share = if ran.count == 0 { "-".into() } else { percent(ran.total_ns, session_ns) };
            let [busy, longest] = [ran.total_ns, ran.max_ns].map(|value| of(ran, value));
            let [p50, p90, p99, max] =
                [waited.p50_ns, waited.p90_ns, waited.p99_ns, waited.max_ns].map(|value| of(waited, value));
            let owner = row.pid.map_or_else(String::new, |pid| format!(" of {} ({pid})", shown(&row.process)));
            let queue = shown(&row.queue) + &owner + &missing(row);
            [busy, share, grouped(row.jobs), longest, p50, p90, p99, max, queue]
        });
        let heads = ["busy", "%", "jobs", "longest", "delay p50", "p90", "p99", "max", "queue"];
        self.table(heads, rows);
    }

    fn fence_waits(&mut self, waits: &Table<FenceWaitRow>) {
        if waits.rows.is_empty() {
            return;
        }
        self.title(&some_of("Longest waits for fences", waits.rows.len(), waits.total));
        let rows = waits.rows.iter().map(|row| {
            let mut said = format!(
                "{} ({}) of {} ({}): {} {}",
                shown(&row.thread),
                row.tid,
                shown(&row.process),
                row.pid,
                shown(&row.timeline),
                row.fence
            );
            if let Some(queue) = &row.queue {
                said += &format!(", a job of {}", shown(queue));
            }
            if let Some(thread) = &row.submitted_by {
                said += &format!(" by {}", shown(thread));
            }
            if let Some(signaler) = &row.signaled_by {
                said += &format!(", signaled by {}", shown(signaler));
            }
            if row.unfinished {
                said += ", not signaled when the recording ended";
            }
            [duration(row.waited_ns), duration(row.at_ns), said]
        });
        self.table(["waited", "after", "thread and fence"], rows);
    }
}

/// What is wrong with some of the jobs.
fn missing(row: &GpuRow) -> String {
    let counts =
        [(row.failed, "failed"), (row.unfinished, "not ended"), (row.without_beginning, "without a beginning")];
    let said: Vec<_> = counts.iter().filter(|(count, _)| *count > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if said.is_empty() { String::new() } else { format!("; {}", said.join(", ")) }
}
