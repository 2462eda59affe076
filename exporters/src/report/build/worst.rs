//! The longest waits, from what was kept of them.

use crate::report::ReportExporter;
use crate::report::account::Wait;
use crate::report::build::waker_names;
use crate::report::data::*;
use crate::report::off_cpu::state_name;
use crate::report::stack_labels::labels;
use crate::report::worst::Woken;
use syscollect_model::{Tables, ThreadId};

impl ReportExporter {
    pub(in crate::report) fn worst_waits(&self, tables: &Tables) -> WorstWaits {
        let worst = &self.scheduling.worst;
        let for_cpu = worst.for_cpu.sorted().into_iter().map(|(waited, since, wait)| CpuWaitRow {
            waiter: Waiter {
                unknown_ns: wait.unknown,
                ..self.waiter(waited, since, wait.thread, tables)
            },
            preempted: wait.began == Wait::Preemption,
            woken_by: wait.woken.map(|woken| waker(woken, tables)),
            cpu: wait.cpu,
            meanwhile: wait
                .meanwhile
                .most
                .iter()
                .map(|(thread, ran)| ran_row(*thread, *ran, tables))
                .collect(),
            other_threads: wait.meanwhile.others.0,
            other_threads_ns: wait.meanwhile.others.1,
            meanwhile_unknown_ns: wait.meanwhile.unknown,
            meanwhile_is_part: wait.meanwhile.is_part,
        });
        let blocked =
            worst.blocked.sorted().into_iter().map(|(waited, since, wait)| BlockedWaitRow {
                waiter: Waiter {
                    unknown_ns: wait.unknown,
                    ..self.waiter(waited, since, wait.thread, tables)
                },
                blocked_in: wait.off_cpu.blocked_in.map(|name| tables.strings.get(name).to_owned()),
                waits_for: wait.waits_for.name().to_owned(),
                state: state_name(wait.off_cpu.state).to_owned(),
                io_wait: wait.off_cpu.io_wait,
                stack: labels(wait.off_cpu.stack, tables),
                woken_by: wait.woken.map(|woken| waker(woken, tables)),
            });
        let locks = self.locks.books().longest.sorted().into_iter().map(|(waited, since, wait)| {
            LockWaitRow {
                waiter: self.waiter(waited, since, wait.thread, tables),
                lock: tables.strings.get(tables.lock(wait.lock).name).to_owned(),
                holder: wait.holder.map(|holder| {
                    let row = tables.thread(holder);
                    format!("{} ({})", tables.strings.get(row.name), row.tid)
                }),
                obtained: wait.obtained,
            }
        });
        WorstWaits {
            for_cpu: Table { total: worst.for_cpu.count, rows: for_cpu.collect() },
            blocked: Table { total: worst.blocked.count, rows: blocked.collect() },
            idle_left_out: worst.idle_left_out,
            locks: Table { total: self.locks.books().longest.count, rows: locks.collect() },
        }
    }

    pub(in crate::report) fn waiter(
        &self,
        waited_ns: u64,
        since: u64,
        thread: ThreadId,
        tables: &Tables,
    ) -> Waiter {
        let row = tables.thread(thread);
        let process = tables.process(row.process);
        Waiter {
            waited_ns,
            unknown_ns: 0,
            at_ns: since.saturating_sub(self.began),
            tid: row.tid,
            thread: tables.thread_name(thread).into(),
            pid: process.pid,
            process: tables.process_name(row.process).into(),
        }
    }
}

fn waker(woken: Woken, tables: &Tables) -> WakerRow {
    let (kind, tid, thread) = waker_names(woken.waker, tables);
    let stack = labels(woken.stack, tables);
    WakerRow { kind, thread: thread.into(), tid, cpu: woken.cpu, stack }
}

fn ran_row(thread: ThreadId, ran_ns: u64, tables: &Tables) -> RanRow {
    let row = tables.thread(thread);
    RanRow { tid: row.tid, thread: tables.thread_name(thread).into(), ran_ns }
}
