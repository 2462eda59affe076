//! The report, from what was summed up.

mod gpu;
mod off_cpu;
mod programs;
mod sleepers;
mod tree;
mod worst;

use super::account::ThreadAccount;
use super::data::*;
use super::durations::Durations;
use super::hints;
use super::samples::{Function, UNNAMED, by_function, truncated};
use super::unresolved;
use super::wait_for::is_recorder;
use super::{ProcessFilter, ReportExporter, Waker};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use syscollect_model::{
    BuildId, CpuId, Loss, ModuleId, ModuleKind, ProcessId, RecorderSummary, StackId, Tables,
    ThreadId, records_lost, records_overwritten,
};

impl ReportExporter {
    pub(super) fn build(
        &self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Report {
        let start_ns = self.first.unwrap_or_default() + self.overwritten_ns;
        let duration_ns = self.last.saturating_sub(start_ns);
        let processes = self.processes(tables);
        Report {
            schema_version: REPORT_SCHEMA_VERSION,
            recording: self.recording.clone(),
            process: self.options.process.as_ref().map(ToString::to_string),
            process_children: matches!(self.options.process, Some(ProcessFilter::Family(_))),
            start_ns,
            duration_ns,
            recorded_ns: recorder
                .filter(|recorder| self.options.part.is_none() && recorder.duration_ns > 0)
                .map(|recorder| recorder.duration_ns),
            overwritten_ns: self.overwritten_ns,
            is_overwritten: self.is_overwritten(losses),
            events: self.counts,
            cpus: self.cpus(duration_ns),
            processes_by_name: self.by_name(&processes),
            processes: self.table(processes, |row| (row.activity.busiest_first(), row.pid)),
            threads: self.threads(tables),
            functions: self.functions(tables),
            off_cpu: self.off_cpu(tables),
            trees: self.trees(tables),
            worst: self.worst_waits(tables),
            others: self.others(tables),
            wakeups: self.wakeups(tables),
            run_queue: self.run_queue(),
            longest_wait: self
                .scheduling
                .longest_wait
                .map(|(waited, since, thread)| self.waiter(waited, since, thread, tables)),
            longest_program_wait: self.longest_program_wait(tables),
            migrations: self.cpu_pairs(),
            slices: self.slice_rows(tables),
            callers: self.caller_rows(tables),
            instants: self.instant_rows(tables),
            frames: self.frame_rows(tables),
            locks: self.lock_rows(tables),
            memory: self.pool_rows(tables),
            gpu_queues: self.gpu_queue_rows(tables),
            gpu: self.gpu_rows(tables),
            gpu_waits: self.fence_wait_rows(tables),
            crashes: self.crash_rows(tables),
            counters: self.counter_rows(tables),
            lost: records_lost(losses),
            overwritten: records_overwritten(losses),
            unreported_gaps: self.scheduling.unreported_gaps,
            missing_stacks: 0,
            losses: losses.iter().map(loss_row).collect(),
            unresolved: self.unresolved(tables),
        }
    }

    /// The first rows in the order of `key`.
    pub(super) fn table<T, K: Ord>(&self, mut rows: Vec<T>, key: impl Fn(&T) -> K) -> Table<T> {
        rows.sort_by_cached_key(key);
        let total = rows.len();
        rows.truncate(self.options.rows);
        Table { total, rows }
    }

    fn cpus(&self, duration_ns: u64) -> Vec<CpuRow> {
        self.scheduling
            .cpus()
            .iter()
            .map(|(number, cpu)| CpuRow {
                cpu: number,
                busy_ns: cpu.busy,
                idle_ns: cpu.idle,
                unknown_ns: duration_ns.saturating_sub(cpu.busy + cpu.idle),
                switches: cpu.switches,
            })
            .collect()
    }

    /// The threads that did something and are asked for.
    fn active(&self) -> impl Iterator<Item = (ThreadId, &ThreadAccount)> {
        self.scheduling.accounts().filter(|(_, account)| account.chosen && account.is_active())
    }

    /// What is left out of the tables.
    fn others(&self, tables: &Tables) -> OtherProcesses {
        let mut processes = std::collections::BTreeSet::new();
        let mut others = OtherProcesses::default();
        for (_, account) in
            self.scheduling.accounts().filter(|(_, account)| !account.chosen && account.is_active())
        {
            processes.insert(tables.process(account.process).pid);
            others.on_cpu_ns = others.on_cpu_ns.saturating_add(account.times.on_cpu_ns);
        }
        others.processes = processes.len();
        others
    }

    fn threads(&self, tables: &Tables) -> Table<ThreadRow> {
        let rows = self.active().map(|(thread, account)| {
            let (row, process) = (tables.thread(thread), tables.process(account.process));
            ThreadRow {
                tid: row.tid,
                name: tables.thread_name(thread).into(),
                pid: process.pid,
                process: tables.process_name(account.process).into(),
                activity: account.activity(),
            }
        });
        // Equal rows stay in the order of the tables.
        self.table(rows.collect(), |row| (row.activity.busiest_first(), row.tid))
    }

    fn processes(&self, tables: &Tables) -> Vec<ProcessRow> {
        let mut rows = BTreeMap::<ProcessId, ProcessRow>::new();
        // Some traces tell of processes and of none of their threads.
        let reported =
            self.scheduling.accounts().filter(|(_, account)| account.chosen && account.reported);
        rows.extend(reported.map(|(_, account)| (account.process, ProcessRow::default())));
        for (_, account) in self.active() {
            let row = rows.entry(account.process).or_default();
            row.threads += 1;
            row.activity.add(&account.activity());
        }
        for (process, row) in &mut rows {
            row.pid = tables.process(*process).pid;
            row.name = tables.process_name(*process).into();
        }
        rows.into_values().collect()
    }

    /// The sums over processes of one name, where there are several.
    fn by_name(&self, processes: &[ProcessRow]) -> Table<ProcessNameRow> {
        let mut rows = BTreeMap::<&str, ProcessNameRow>::new();
        for process in processes {
            let row = rows.entry(&process.name).or_default();
            row.processes += 1;
            row.threads += process.threads;
            row.activity.add(&process.activity);
        }
        let several = rows
            .into_iter()
            .map(|(name, row)| ProcessNameRow { name: name.to_owned(), ..row })
            .filter(|row| row.processes > 1);
        self.table(several.collect(), |row| (row.activity.busiest_first(), row.name.clone()))
    }

    fn functions(&self, tables: &Tables) -> Functions {
        let rows: Vec<FunctionRow> = by_function(&self.samples, tables)
            .into_iter()
            .map(|(Function { module, name, range_only }, hits)| FunctionRow {
                function: name.map_or(UNNAMED, |name| tables.strings.get(name)).to_owned(),
                range_only,
                module: module_path(module, tables).to_owned(),
                kernel: module_kind(module, tables).is_kernel(),
                module_kind: module_kind(module, tables),
                self_samples: hits.own,
                total: hits.total,
            })
            .collect();
        let hit = rows.iter().filter(|row| row.self_samples > 0).cloned().collect();
        let (truncated, truncated_in) = self.truncated(self.samples.stacks(), tables);
        Functions {
            samples: self.samples.all,
            kernel_samples: self.samples.in_kernel,
            idle_samples: self.samples.idle,
            without_stack: self.samples.without_stack,
            truncated,
            truncated_in,
            lacks_python: hints::lacks_python(&rows),
            by_self: self
                .table(hit, |row| (Reverse((row.self_samples, row.total)), function_key(row))),
            by_total: self
                .table(rows, |row| (Reverse((row.total, row.self_samples)), function_key(row))),
        }
    }

    /// How many of the stacks lack their outer frames, and where these end.
    pub(super) fn truncated(
        &self,
        stacks: impl Iterator<Item = (StackId, u64)>,
        tables: &Tables,
    ) -> (u64, Table<TruncatedRow>) {
        let truncated = truncated(stacks, tables);
        let rows = truncated.iter().map(|((cut, module), count)| TruncatedRow {
            reason: cut.reason().to_owned(),
            module: module_path(*module, tables).to_owned(),
            count: *count,
        });
        let rows = self.table(rows.collect(), |row| {
            (Reverse(row.count), row.reason.clone(), row.module.clone())
        });
        (truncated.values().sum(), rows)
    }

    fn wakeups(&self, tables: &Tables) -> Wakeups {
        let pairs = self.wakes.iter().map(|(pair, count)| (*pair, *count)).collect();
        let sorted = self.table(pairs, |((waker, wakee), count)| {
            let (kind, waker_tid, _) = waker_names(*waker, tables);
            (Reverse(*count), kind, waker_tid, tables.thread(*wakee).tid, *waker, *wakee)
        });
        let rows = sorted.rows.into_iter().map(|((waker, wakee), count)| {
            let (kind, waker_tid, waker) = waker_names(waker, tables);
            WakeRow {
                waker_kind: kind,
                waker: waker.into(),
                waker_tid,
                wakee: tables.thread_name(wakee).into(),
                wakee_tid: tables.thread(wakee).tid,
                count,
            }
        });
        let pairs = Table { total: sorted.total, rows: rows.collect() };
        Wakeups { count: self.wake_count, by_interrupt: self.interrupt_wakes, pairs }
    }

    fn run_queue(&self) -> RunQueueReport {
        let (wakeup, preemption) =
            (&self.scheduling.after_wakeup, &self.scheduling.after_preemption);
        let mut all = Durations::new(3);
        all.merge(wakeup);
        all.merge(preemption);
        RunQueueReport {
            all: all.distribution(),
            after_wakeup: wakeup.distribution(),
            after_preemption: preemption.distribution(),
            histogram: all.buckets(),
        }
    }

    /// Whether a part was asked for that ended before what was kept of the recording begins.
    fn is_overwritten(&self, losses: &[Loss]) -> bool {
        self.options.part.is_some()
            && !self.overwritten.is_over()
            && records_overwritten(losses) > 0
            && self.counts.switches + self.counts.wakeups + self.counts.samples == 0
    }

    /// The longest wait for a CPU of a program: threads of the kernel give way to others, and the
    /// recorder is not what anybody wanted to know of. The first of equals.
    fn longest_program_wait(&self, tables: &Tables) -> Option<Waiter> {
        let accounts =
            self.scheduling.accounts().filter(|(_, account)| is_program(account, tables));
        let waited = accounts.filter(|(_, account)| account.longest_wait > 0);
        let (thread, account) = waited.max_by_key(|(thread, account)| {
            (account.longest_wait, Reverse((account.longest_wait_since, *thread)))
        })?;
        Some(self.waiter(account.longest_wait, account.longest_wait_since, thread, tables))
    }

    fn cpu_pairs(&self) -> Table<MigrationRow> {
        self.table(
            self.migrations
                .iter()
                .map(|((from, to), count)| migration_row(*from, *to, *count))
                .collect(),
            |row| (Reverse(row.count), row.machine, row.from_cpu, row.to_cpu),
        )
    }

    fn unresolved(&self, tables: &Tables) -> Table<UnresolvedRow> {
        let modules = unresolved::by_module(&self.samples, &self.scheduling.off_cpu, tables);
        let rows = modules.into_iter().map(|(module, found)| UnresolvedRow {
            module: module_path(module, tables).to_owned(),
            module_kind: module_kind(module, tables),
            build_id: module
                .map_or_else(BuildId::default, |id| tables.module(id).build_id.clone())
                .to_string(),
            places: found.addresses.len() as u64,
            samples: found.samples,
            blocked_ns: found.blocked,
            debug_package: String::new(),
        });
        self.table(rows.collect(), |row| {
            (Reverse((row.samples, row.blocked_ns)), row.module.clone(), row.build_id.clone())
        })
    }
}

fn is_program(account: &ThreadAccount, tables: &Tables) -> bool {
    let process = account.process;
    account.chosen && !tables.process(process).kernel && !is_recorder(process, tables)
}

fn function_key(row: &FunctionRow) -> (String, String) {
    (row.function.clone(), row.module.clone())
}

fn migration_row(from_cpu: CpuId, to_cpu: CpuId, count: u64) -> MigrationRow {
    MigrationRow {
        machine: from_cpu.machine,
        from_cpu: from_cpu.number,
        to_cpu: to_cpu.number,
        count,
    }
}

fn module_kind(module: Option<ModuleId>, tables: &Tables) -> ModuleKind {
    module.map_or(ModuleKind::File, |module| tables.module(module).kind)
}

fn module_path(module: Option<ModuleId>, tables: &Tables) -> &str {
    module.map_or("", |module| tables.strings.get(tables.module(module).path))
}

pub(super) fn waker_names(waker: Waker, tables: &Tables) -> (WakerKind, u32, Cow<'_, str>) {
    match waker {
        Waker::Thread(thread) => {
            let row = tables.thread(thread);
            (WakerKind::Thread, row.tid, tables.thread_name(thread))
        }
        Waker::Interrupt => (WakerKind::Interrupt, 0, "".into()),
        Waker::Unknown => (WakerKind::Unknown, 0, "".into()),
    }
}

fn loss_row(loss: &Loss) -> LossRow {
    LossRow {
        origin: loss.origin.clone(),
        cpu: loss.cpu.map(|cpu| cpu.number),
        machine: loss.machine(),
        cause: loss.cause,
        user: loss.user,
        count: loss.count,
    }
}
