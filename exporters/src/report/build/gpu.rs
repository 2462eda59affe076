//! The report's part on GPUs.

use crate::labels;
use crate::report::ReportExporter;
use crate::report::build::programs::{OTHERS, process};
use crate::report::data::*;
use crate::report::fence_waits::FenceWait;
use crate::report::gpu::GpuTotals;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{ProcessId, StringId, Tables, ThreadId};

impl ReportExporter {
    pub(in crate::report) fn gpu_queue_rows(&self, tables: &Tables) -> Table<GpuRow> {
        let mut queues: FxHashMap<StringId, GpuTotals> = FxHashMap::default();
        for (key, totals) in self.gpu.rows.iter() {
            queues.entry(key.queue).or_default().merge(totals);
        }
        let rows = queues
            .iter()
            .map(|(queue, totals)| row(tables.strings.get(*queue), None, totals, tables));
        self.with_others(rows.collect(), tables)
    }

    pub(in crate::report) fn gpu_rows(&self, tables: &Tables) -> Table<GpuRow> {
        let rows = self.gpu.rows.iter();
        let rows = rows
            .map(|(key, totals)| row(tables.strings.get(key.queue), key.process, totals, tables));
        self.with_others(rows.collect(), tables)
    }

    fn with_others(&self, mut rows: Vec<GpuRow>, tables: &Tables) -> Table<GpuRow> {
        if self.gpu.rows.left_out().jobs > 0 {
            rows.push(row(OTHERS, None, self.gpu.rows.left_out(), tables));
        }
        self.table(rows, |row| {
            (Reverse((row.ran.total_ns, row.took.total_ns, row.jobs)), row.queue.clone(), row.pid)
        })
    }

    pub(in crate::report) fn fence_wait_rows(&self, tables: &Tables) -> Table<FenceWaitRow> {
        let start = self.first.unwrap_or_default();
        let waits = &self.gpu.waits.longest;
        Table {
            total: waits.count,
            rows: waits
                .sorted()
                .into_iter()
                .map(|(.., wait)| fence_wait_row(wait, start, tables))
                .collect(),
        }
    }
}

fn fence_wait_row(wait: &FenceWait, start: u64, tables: &Tables) -> FenceWaitRow {
    let thread = tables.thread(wait.thread);
    let (pid, process) = process(thread.process, tables);
    FenceWaitRow {
        at_ns: wait.since.saturating_sub(start),
        waited_ns: wait.waited,
        unfinished: wait.unfinished,
        tid: thread.tid,
        thread: tables.strings.get(thread.name).to_owned(),
        pid,
        process,
        timeline: wait.timeline.to_string(),
        fence: wait.fence.map(labels::fence).unwrap_or_default(),
        signaled_by: (!wait.signaled_by.is_empty()).then(|| wait.signaled_by.to_string()),
        queue: wait.job.map(|(queue, _)| tables.strings.get(queue).to_owned()),
        submitted_by: wait.job.and_then(|(_, thread)| thread).map(|id| named(id, tables)),
    }
}

fn row(queue: &str, owner: Option<ProcessId>, totals: &GpuTotals, tables: &Tables) -> GpuRow {
    let (pid, process) = owner.map(|id| process(id, tables)).unzip();
    GpuRow {
        queue: queue.to_owned(),
        pid,
        process: process.unwrap_or_default(),
        jobs: totals.jobs,
        failed: totals.failed,
        unfinished: totals.unfinished,
        without_beginning: totals.without_beginning,
        ran: totals.ran.distribution(),
        waited: totals.waited.distribution(),
        took: totals.took.distribution(),
    }
}

fn named(thread: ThreadId, tables: &Tables) -> String {
    let row = tables.thread(thread);
    format!("{} ({})", tables.strings.get(row.name), row.tid)
}
