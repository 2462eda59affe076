//! Processes and threads: what a reader of the file knows of them, and when.
//!
//! Rules of trace_processor (v55.3) that shape this file:
//! - `ProcessTree` names processes (the first word of the command line is the
//!   name shown) and says which thread belongs to which;
//! - `task_newtask` sets `start_ts` and the parent, and makes the thread
//!   runnable with the creator as its waker; `sched_process_free` sets `end_ts`
//!   and gives the id back, of the process too if it is the first thread;
//! - `task_rename` names the thread, and the process with its first thread;
//! - `sched_process_exit` and `sched_process_exec` are shown as events only.

use super::context::Context;
use super::fields::{ftrace, packet, process_tree as tree};
use super::intern::WrittenIds;
use super::names::Names;
use super::packets::Sequence;
use super::sched::Scheduling;
use crate::ExportError;
use crate::proto::Message;
use rustc_hash::FxHashMap;
use std::io::Write;
use syscollect_model::{CpuId, OffCpu, ProcessId, SleepState, StringId, Tables, ThreadId, Time};

/// `CLONE_THREAD`: the new task is a thread of its creator's process.
const CLONE_THREAD: u64 = 0x10000;
/// Rows in one `ProcessTree`, so that its packet stays well under Perfetto's 512 KB.
const TREE_ROWS: usize = 256;

/// A thread that has begun to exit.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// Its last sign of life.
    last: Time,
    /// It has left its CPU for the last time.
    left: bool,
}

/// All processes and threads.
pub(crate) struct Threads {
    pub(crate) names: Names,
    sequence: Sequence,
    known_processes: WrittenIds,
    ended_processes: WrittenIds,
    /// Whose thread id it is at the moment.
    owners: FxHashMap<u32, ThreadId>,
    /// Threads that have started, until it is known who started them.
    starting: FxHashMap<ThreadId, Time>,
    ending: FxHashMap<ThreadId, Ending>,
    /// How many of them each process has.
    ending_of: FxHashMap<ProcessId, u32>,
    /// When threads whose id was given back were there for the last time.
    gone: FxHashMap<ThreadId, Time>,
}

impl Threads {
    pub(crate) fn new(sequence: Sequence) -> Self {
        Self {
            names: Names::default(),
            sequence,
            known_processes: WrittenIds::default(),
            ended_processes: WrittenIds::default(),
            owners: FxHashMap::default(),
            starting: FxHashMap::default(),
            ending: FxHashMap::default(),
            ending_of: FxHashMap::default(),
            gone: FxHashMap::default(),
        }
    }

    /// `time`, or the last moment at which the reader knows the thread. A
    /// sample may fall between the record of a thread's last switch and the end
    /// of that switch; for a later one the reader would make another thread.
    #[inline]
    pub(crate) fn while_known(&self, time: Time, thread: ThreadId) -> Time {
        match self.gone.get(&thread) {
            Some(last) => time.min(*last),
            None => time,
        }
    }

    /// Writes everything wanted that was there before the first event.
    pub(crate) fn begin<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        wanted: impl Fn(ThreadId) -> bool,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        let threads: Vec<ThreadId> = (0..tables.threads.len() as u32)
            .map(ThreadId)
            .filter(|id| {
                let row = tables.thread(*id);
                row.start.is_none() && tables.process(row.process).start.is_none() && wanted(*id)
            })
            .collect();
        for some in threads.chunks(TREE_ROWS) {
            self.write_tree(at, some)?;
        }
        Ok(())
    }

    /// Sees to it that the reader knows a thread before an event names it.
    #[inline]
    pub(crate) fn ensure<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        thread: ThreadId,
    ) -> Result<(), ExportError> {
        if self.names.contains(thread) {
            return Ok(());
        }
        self.introduce(at, sched, thread)
    }

    #[cold]
    fn introduce<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        thread: ThreadId,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        if self.starting.contains_key(&thread) {
            return self.started_by(at, sched, thread, None);
        }
        self.free_former_owner(at, sched, tables.thread(thread).tid)?;
        self.write_tree(at, &[thread])
    }

    /// Writes threads, and processes that are new, as a `ProcessTree`.
    fn write_tree<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        threads: &[ThreadId],
    ) -> Result<(), ExportError> {
        let Context { time, tables, .. } = *at;
        at.stream.packet(|message| {
            self.sequence.head(message, Some(time));
            message.message(packet::PROCESS_TREE, |message| {
                // Viewers know idle by themselves, and would show it as a process if it were
                // written.
                for id in threads.iter().filter(|id| **id != Tables::IDLE_THREAD) {
                    let row = tables.thread(*id);
                    if self.known_processes.insert(row.process.0) {
                        message.message(tree::PROCESSES, |fields| {
                            write_process(fields, row.process, tables);
                        });
                    }
                    message.message(tree::THREADS, |fields| {
                        fields.uint(tree::THREAD_TID, u64::from(row.tid));
                        fields.uint(tree::THREAD_TGID, u64::from(tables.process(row.process).pid));
                        fields.string(tree::THREAD_NAME, tables.strings.get(row.name));
                    });
                }
            });
        })?;
        for id in threads {
            self.names.set(*id, tables.thread(*id).name);
            self.owners.insert(tables.thread(*id).tid, *id);
        }
        Ok(())
    }

    /// A thread has started; that is written when its first wakeup tells by whom.
    pub(crate) fn start(&mut self, time: Time, thread: ThreadId) {
        if !self.names.contains(thread) {
            self.starting.entry(thread).or_insert(time);
        }
    }

    /// A process has started: its first thread has, whichever event of the two comes first.
    pub(crate) fn start_process(&mut self, time: Time, process: ProcessId, tables: &Tables) {
        let pid = tables.process(process).pid;
        // Rows are added as they are met, so the first thread is among the newest, if it is there
        // yet.
        let newest = tables.threads.numbered().rev().take(64);
        let found = newest.into_iter().find(|(_, row)| row.process == process && row.tid == pid);
        if let Some((index, _)) = found {
            self.start(time, ThreadId(index));
        }
    }

    /// The first wakeup of a thread: writes its start, if that was recorded, as the work of
    /// `creator`.
    #[inline]
    pub(crate) fn first_wakeup<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        thread: ThreadId,
        creator: Option<(CpuId, ThreadId)>,
    ) -> Result<(), ExportError> {
        if self.starting.contains_key(&thread) {
            self.started_by(at, sched, thread, creator)?;
        }
        Ok(())
    }

    /// Writes the start of a thread. Where `creator`, the thread and the CPU it
    /// ran on, is not known, it is the first thread of the creating process.
    fn started_by<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        thread: ThreadId,
        creator: Option<(CpuId, ThreadId)>,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        let Some(time) = self.starting.remove(&thread) else { return Ok(()) };
        let row = tables.thread(thread);
        self.free_former_owner(at, sched, row.tid)?;
        let process = tables.process(row.process);
        let first = row.tid == process.pid;
        let (cpu, creator) = match creator {
            Some((cpu, id)) => (cpu, tables.thread(id).tid),
            None if first => (first_cpu(thread, tables), process.parent_pid.unwrap_or(0)),
            None => (first_cpu(thread, tables), process.pid),
        };
        let is_new = self.known_processes.insert(row.process.0);
        if is_new && !first {
            // No first thread brings the process its name: threads of Windows have other ids than
            // their process.
            self.restate_process(at, time, row.process)?;
        }
        let name = tables.strings.get(row.name);
        sched.event(at.stream, time, cpu, creator, |event| {
            event.message(ftrace::TASK_NEWTASK, |fields| {
                fields.uint(ftrace::NEWTASK_PID, u64::from(row.tid));
                fields.string(ftrace::NEWTASK_COMM, name);
                fields.uint(ftrace::NEWTASK_CLONE_FLAGS, if first { 0 } else { CLONE_THREAD });
            });
        })?;
        self.names.set(thread, row.name);
        self.owners.insert(row.tid, thread);
        Ok(())
    }

    /// A thread has a new name.
    pub(crate) fn rename<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        (thread, name): (ThreadId, StringId),
    ) -> Result<(), ExportError> {
        let Context { time, tables, .. } = *at;
        self.ensure(at, sched, thread)?;
        let tid = tables.thread(thread).tid;
        let old = tables.strings.get(self.names.name(thread));
        let cpu = sched.cpu_of(thread).unwrap_or_else(|| first_cpu(thread, tables));
        sched.event(at.stream, time, cpu, tid, |event| {
            event.message(ftrace::TASK_RENAME, |fields| {
                fields.uint(ftrace::RENAME_PID, u64::from(tid));
                fields.string(ftrace::RENAME_OLDCOMM, old);
                fields.string(ftrace::RENAME_NEWCOMM, tables.strings.get(name));
            });
        })?;
        self.names.set(thread, name);
        // A name that a program gave to its first thread is none of the process.
        let process = tables.thread(thread).process;
        let row = tables.process(process);
        if row.pid == tid && row.name != name && !row.command_line.is_empty() {
            // A nanosecond later: of one time, the reader would take the rename last.
            return self.restate_process(at, Time(time.0.saturating_add(1)), process);
        }
        Ok(())
    }

    /// Writes a process again: the reader takes the name of its first thread for its own.
    fn restate_process<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        time: Time,
        process: ProcessId,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        at.stream.packet(|message| {
            self.sequence.head(message, Some(time));
            message.message(packet::PROCESS_TREE, |message| {
                message.message(tree::PROCESSES, |fields| write_process(fields, process, tables));
            });
        })
    }

    /// A process runs another program.
    pub(crate) fn exec<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        (process, name): (ProcessId, StringId),
    ) -> Result<(), ExportError> {
        let Context { time, tables, .. } = *at;
        let row = tables.process(process);
        let pid = u64::from(row.pid);
        let first = self.owners.get(&row.pid).copied();
        let cpu = first.and_then(|thread| sched.cpu_of(thread));
        let cpu = cpu.unwrap_or(CpuId { machine: row.machine, number: 0 });
        sched.event(at.stream, time, cpu, row.pid, |event| {
            event.message(ftrace::SCHED_PROCESS_EXEC, |fields| {
                fields.string(ftrace::EXEC_FILENAME, tables.strings.get(name));
                fields.uint(ftrace::EXEC_PID, pid);
                fields.uint(ftrace::EXEC_OLD_PID, pid);
            });
        })?;
        if row.command_line.is_empty() {
            return Ok(());
        }
        self.restate_process(at, time, process)
    }

    /// A thread begins to exit.
    pub(crate) fn end<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        thread: ThreadId,
    ) -> Result<(), ExportError> {
        let Context { time, tables, .. } = *at;
        self.ensure(at, sched, thread)?;
        let row = tables.thread(thread);
        let cpu = sched.cpu_of(thread).unwrap_or_else(|| first_cpu(thread, tables));
        let name = tables.strings.get(self.names.name(thread));
        sched.event(at.stream, time, cpu, row.tid, |event| {
            event.message(ftrace::SCHED_PROCESS_EXIT, |fields| {
                fields.string(ftrace::EXIT_COMM, name);
                fields.uint(ftrace::EXIT_PID, u64::from(row.tid));
                fields.uint(ftrace::EXIT_TGID, u64::from(tables.process(row.process).pid));
            });
        })?;
        if self.ending.insert(thread, Ending { last: time, left: false }).is_none() {
            *self.ending_of.entry(row.process).or_default() += 1;
        }
        Ok(())
    }

    /// A process has ended: its first thread's id may go.
    pub(crate) fn end_process<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        process: ProcessId,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        self.ended_processes.insert(process.0);
        let pid = tables.process(process).pid;
        let Some(thread) = self.owners.get(&pid).copied() else { return Ok(()) };
        match self.ending.get(&thread) {
            Some(ending) if ending.left && self.may_go(thread, tables) => {
                self.free(at, sched, thread, first_cpu(thread, tables))
            }
            _ => Ok(()),
        }
    }

    /// A thread came onto a CPU: an exiting one lives still.
    #[inline]
    pub(crate) fn arrived(&mut self, time: Time, thread: ThreadId) {
        if !self.ending.is_empty()
            && let Some(ending) = self.ending.get_mut(&thread)
        {
            ending.last = time;
        }
    }

    /// A thread left a CPU: for the last time, if it is about to exit and dead.
    #[inline]
    pub(crate) fn left<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        cpu: CpuId,
        (thread, off_cpu): (ThreadId, &OffCpu),
    ) -> Result<(), ExportError> {
        let Context { time, tables, .. } = *at;
        if self.ending.is_empty() {
            return Ok(());
        }
        let Some(ending) = self.ending.get_mut(&thread) else { return Ok(()) };
        ending.last = time;
        ending.left =
            !off_cpu.preempted && matches!(off_cpu.state, SleepState::Dead | SleepState::Zombie);
        if !ending.left || !self.may_go(thread, tables) {
            return Ok(());
        }
        self.free(at, sched, thread, cpu)?;
        self.end_process_with_its_last_thread(at, sched, thread, cpu)
    }

    /// The first thread of an ended process has waited for this one.
    fn end_process_with_its_last_thread<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        thread: ThreadId,
        cpu: CpuId,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        let Some(first) = self.first_thread(thread, tables).filter(|first| *first != thread) else {
            return Ok(());
        };
        match self.ending.get(&first) {
            Some(ending) if ending.left && self.may_go(first, tables) => {
                self.free(at, sched, first, cpu)
            }
            _ => Ok(()),
        }
    }

    /// The first thread of a thread's process, as far as the reader knows it.
    fn first_thread(&self, thread: ThreadId, tables: &Tables) -> Option<ThreadId> {
        let process = tables.thread(thread).process;
        let first = self.owners.get(&tables.process(process).pid).copied()?;
        (tables.thread(first).process == process).then_some(first)
    }

    /// A process is there as long as any of its threads: its first one waits
    /// until all others have left their CPUs for the last time. The reader
    /// would make new threads, of no process, for what comes later.
    fn may_go(&self, thread: ThreadId, tables: &Tables) -> bool {
        let row = tables.thread(thread);
        if row.tid != tables.process(row.process).pid {
            return true;
        }
        let all = self.ending_of.get(&row.process).copied().unwrap_or(0);
        self.ended_processes.contains(row.process.0)
            && all <= u32::from(self.ending.contains_key(&thread))
    }

    /// Writes that a thread's id is free again.
    fn free<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        thread: ThreadId,
        cpu: CpuId,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        let Some(ending) = self.ending.remove(&thread) else { return Ok(()) };
        let row = tables.thread(thread);
        let tid = row.tid;
        match self.ending_of.get_mut(&row.process) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.ending_of.remove(&row.process)),
        }
        if let Some(first) = self.first_thread(thread, tables)
            && let Some(waiting) = self.ending.get_mut(&first)
        {
            waiting.last = waiting.last.max(Time(ending.last.0.saturating_add(1)));
        }
        if self.owners.get(&tid) != Some(&thread) {
            return Ok(());
        }
        self.owners.remove(&tid);
        self.gone.insert(thread, ending.last);
        let name = tables.strings.get(self.names.name(thread));
        // A nanosecond after the last switch, which must still find its thread.
        sched.event(at.stream, Time(ending.last.0.saturating_add(1)), cpu, 0, |event| {
            event.message(ftrace::SCHED_PROCESS_FREE, |fields| {
                fields.string(ftrace::FREE_COMM, name);
                fields.uint(ftrace::FREE_PID, u64::from(tid));
            });
        })
    }

    /// Before a thread id is used again: its former owner is gone, if it was about to.
    fn free_former_owner<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        tid: u32,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        match self.owners.get(&tid).copied() {
            Some(former) => self.free(at, sched, former, first_cpu(former, tables)),
            None => Ok(()),
        }
    }

    /// Writes what was still waited for: starts without a wakeup, ends without a last switch.
    pub(crate) fn finish<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        let mut starting: Vec<_> =
            self.starting.iter().map(|(thread, time)| (*time, *thread)).collect();
        starting.sort_unstable();
        for (_, thread) in starting {
            self.started_by(at, sched, thread, None)?;
        }
        let mut ending: Vec<_> =
            self.ending.iter().map(|(thread, ending)| (ending.last, *thread)).collect();
        ending.sort_unstable();
        // Processes end with their first threads, so those go last.
        let (first, others): (Vec<_>, Vec<_>) =
            ending.into_iter().partition(|(_, thread)| is_main_thread(*thread, tables));
        for (_, thread) in others.into_iter().chain(first) {
            if self.may_go(thread, tables) {
                self.free(at, sched, thread, first_cpu(thread, tables))?;
            }
        }
        Ok(())
    }
}

fn is_main_thread(thread: ThreadId, tables: &Tables) -> bool {
    tables.thread(thread).tid == tables.process(tables.thread(thread).process).pid
}

fn write_process(fields: &mut Message<'_>, id: ProcessId, tables: &Tables) {
    let row = tables.process(id);
    fields.uint(tree::PROCESS_PID, u64::from(row.pid));
    if let Some(parent) = row.parent_pid {
        fields.uint(tree::PROCESS_PPID, u64::from(parent));
    }
    let name = tables.strings.get(row.name);
    match row.command_line.as_slice() {
        [] => {
            fields.string(tree::PROCESS_CMDLINE, name);
            fields.uint(tree::PROCESS_CMDLINE_IS_COMM, 1);
        }
        [line] if is_unsplit(line) => {
            [name, line].iter().for_each(|word| fields.string(tree::PROCESS_CMDLINE, word));
        }
        words => words.iter().for_each(|word| fields.string(tree::PROCESS_CMDLINE, word)),
    }
    if row.kernel {
        fields.uint(tree::PROCESS_IS_KTHREAD, 1);
    }
}

/// Whether this is a whole command line rather than its first word, as Windows tells it: up to a
/// space it names nothing.
fn is_unsplit(line: &str) -> bool {
    line.contains([' ', '"', '\\'])
}

/// Where events of a thread lie whose CPU is not known: on its machine's first.
fn first_cpu(thread: ThreadId, tables: &Tables) -> CpuId {
    CpuId { machine: tables.machine_of(thread), number: 0 }
}
