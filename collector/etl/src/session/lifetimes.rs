//! Who lived when: processes and threads, from their beginnings and ends and
//! from what is told of those that were there.

use rustc_hash::FxHashMap;
use syscollect_model::{
    ClockMap, MachineId, Process, ProcessId, StringId, Tables, Thread, ThreadId, Ticks,
};
use syscollect_playback::{LifecycleEvent, Lifetimes, unknown_name};

/// What a record says of a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifecycleKind {
    Start,
    End,
    /// It is there: reported at the beginning or at the end of a recording.
    Rundown,
    /// It ended earlier, but something holds it.
    Defunct,
}

/// A record about a process.
#[derive(Clone, Debug)]
pub(super) struct ProcessRecord {
    pub(super) at: u64,
    pub(super) kind: LifecycleKind,
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) name: String,
    pub(super) command_line: String,
}

/// A record about a thread.
#[derive(Clone, Debug)]
pub(super) struct ThreadRecord {
    pub(super) at: u64,
    pub(super) kind: LifecycleKind,
    pub(super) tid: u32,
    pub(super) pid: u32,
    /// Empty where it has none.
    pub(super) name: String,
}

/// A thread gets a name.
#[derive(Clone, Debug)]
pub(super) struct RenameRecord {
    pub(super) at: u64,
    pub(super) tid: u32,
    pub(super) name: String,
}

/// All that was read of processes and threads, in no particular order.
#[derive(Debug, Default)]
pub(super) struct LifecycleRecords {
    pub(super) processes: Vec<ProcessRecord>,
    pub(super) threads: Vec<ThreadRecord>,
    pub(super) renames: Vec<RenameRecord>,
    pub(super) observed: HeaderThreads,
}

/// Threads that headers of records name.
#[derive(Debug, Default)]
pub(super) struct HeaderThreads {
    /// The process that each was first observed in, by thread id.
    processes: FxHashMap<u32, u32>,
    /// The process that each was last observed in, by thread id; a fast way to know that nothing is
    /// new.
    last: Vec<u32>,
}

/// Thread ids whose process is looked up by index.
const DENSE: usize = 1 << 20;

impl HeaderThreads {
    /// A thread was observed in a process.
    #[inline]
    pub(super) fn on(&mut self, pid: u32, tid: u32) {
        match self.last.get(tid as usize) {
            Some(last) if *last == pid => {}
            _ => self.add(pid, tid),
        }
    }

    #[cold]
    fn add(&mut self, pid: u32, tid: u32) {
        // What the kernel does for nobody.
        if tid == u32::MAX || tid == 0 || pid == u32::MAX {
            return;
        }
        let index = tid as usize;
        if index < DENSE {
            if self.last.len() <= index {
                self.last.resize((index + 1).next_power_of_two(), u32::MAX);
            }
            self.last[index] = pid;
        }
        self.processes.entry(tid).or_insert(pid);
    }
}

/// What happens to processes and threads, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskEvent {
    /// Something happens to a process or thread.
    Lifecycle(LifecycleEvent),
    /// The thread that stands for a process begins, ends or is there: see [`Builder::stand_ins`].
    StandIn(ThreadId, LifecycleKind),
}

impl From<LifecycleEvent> for TaskEvent {
    fn from(event: LifecycleEvent) -> Self {
        Self::Lifecycle(event)
    }
}

/// The result: rows are in the tables, steps say what happens to them.
#[derive(Debug)]
pub(super) struct History {
    /// What ids mean before the first step.
    pub(super) initial: Vec<(u32, ThreadId)>,
    /// By raw time.
    pub(super) lifecycle: Vec<(u64, TaskEvent)>,
    /// When processes of an id ended: pid, raw time.
    pub(super) process_ends: Vec<(u32, u64)>,
    /// What was told of each process, and when.
    reported: Vec<(ProcessId, LifecycleKind, u64)>,
    processes: Lifetimes<ProcessId>,
    threads: Lifetimes<ThreadId>,
}

impl History {
    /// Makes the rows of all processes and threads.
    pub(super) fn new(
        mut records: LifecycleRecords,
        tables: &mut Tables,
        clock: &ClockMap,
    ) -> Self {
        records.processes.sort_by_key(|record| record.at);
        records.threads.sort_by_key(|record| record.at);
        records.renames.sort_by_key(|record| record.at);
        let idle = tables.strings.intern("Idle");
        tables.processes[Tables::IDLE_PROCESS.index()].name = idle;
        tables.threads[Tables::IDLE_THREAD.index()].name = idle;
        let (processes, threads) = (Lifetimes::default(), Lifetimes::default());
        let (initial, lifecycle, process_ends, reported) = Default::default();
        let history = Self { initial, lifecycle, process_ends, reported, processes, threads };
        let mut builder = Builder { history, tables, clock };
        records.processes.iter().for_each(|record| builder.process(record));
        records.threads.iter().for_each(|record| builder.thread(record));
        builder.main_names();
        records.renames.iter().for_each(|record| builder.rename(record));
        let mut observed: Vec<(u32, u32)> = records.observed.processes.into_iter().collect();
        observed.sort_unstable();
        observed.into_iter().for_each(|(tid, pid)| builder.observe(tid, pid));
        builder.stand_ins();
        let mut history = builder.history;
        history.lifecycle.sort_by_key(|(at, _)| *at);
        history
    }

    /// The process that an id meant at a raw time.
    pub(super) fn process_at(&self, pid: u32, at: u64) -> Option<ProcessId> {
        if pid == 0 {
            Some(Tables::IDLE_PROCESS)
        } else {
            self.processes.last_at(pid, at).map(|(row, _)| row)
        }
    }

    /// The thread that an id meant at a raw time.
    pub(super) fn thread_at(&self, tid: u32, at: u64) -> Option<ThreadId> {
        if tid == 0 {
            Some(Tables::IDLE_THREAD)
        } else {
            self.threads.last_at(tid, at).map(|(row, _)| row)
        }
    }
}

struct Builder<'a> {
    history: History,
    tables: &'a mut Tables,
    clock: &'a ClockMap,
}

impl Builder<'_> {
    fn event(&mut self, at: u64, event: LifecycleEvent) {
        self.history.lifecycle.push((at, event.into()));
    }

    fn process(&mut self, record: &ProcessRecord) {
        let &ProcessRecord { at, kind, pid, .. } = record;
        if pid == 0 {
            return;
        }
        let living = self.history.processes.living(pid);
        let row = match (kind, living) {
            (LifecycleKind::Start, _) | (_, None) => self.add_process(record),
            (_, Some(row)) => row,
        };
        self.describe(row, record);
        self.history.reported.push((row, kind, at));
        match kind {
            LifecycleKind::Start => {
                self.tables.processes[row.index()].start = Some(self.clock.time(Ticks(at)));
                self.event(at, LifecycleEvent::ProcessStart(row));
            }
            LifecycleKind::End => {
                self.tables.processes[row.index()].end = Some(self.clock.time(Ticks(at)));
                self.event(at, LifecycleEvent::ProcessEnd(row));
                self.history.process_ends.push((pid, at));
                self.history.processes.end(pid, at);
            }
            LifecycleKind::Rundown | LifecycleKind::Defunct => {}
        }
    }

    fn add_process(&mut self, record: &ProcessRecord) -> ProcessId {
        let since = match record.kind {
            LifecycleKind::Start => record.at,
            // One that ended before is told of again after its end.
            LifecycleKind::Defunct | LifecycleKind::End | LifecycleKind::Rundown => {
                self.history.processes.free_since(record.pid)
            }
        };
        let row = add_process(self.tables, record.pid);
        self.history.processes.begin(record.pid, row, since);
        row
    }

    /// What is said of it and was not known; a name may be the better one later.
    fn describe(&mut self, row: ProcessId, record: &ProcessRecord) {
        let name = (!record.name.is_empty()).then(|| self.tables.strings.intern(&record.name));
        let process = &mut self.tables.processes[row.index()];
        process.name = name.unwrap_or(process.name);
        process.parent_pid = Some(record.parent);
        // The system's own process: all its threads run in the kernel.
        process.kernel = record.pid == SYSTEM_PID;
        if process.command_line.is_empty() && !record.command_line.is_empty() {
            process.command_line = vec![record.command_line.clone()];
        }
    }

    fn thread(&mut self, record: &ThreadRecord) {
        let &ThreadRecord { at, kind, tid, pid, .. } = record;
        if tid == 0 {
            return;
        }
        let process = self.process_of(pid, at);
        let living = self.history.threads.living(tid);
        // A thread that moved to another process was another one.
        let living = living.filter(|row| self.tables.thread(*row).process == process);
        let row = match (kind, living) {
            (LifecycleKind::Start, _) | (_, None) => self.add_thread(record, process),
            (_, Some(row)) => row,
        };
        if !record.name.is_empty() {
            self.tables.threads[row.index()].name = self.tables.strings.intern(&record.name);
        }
        match kind {
            LifecycleKind::Start => {
                self.tables.threads[row.index()].start = Some(self.clock.time(Ticks(at)));
                self.event(at, LifecycleEvent::ThreadStart(row));
            }
            LifecycleKind::End => {
                self.tables.threads[row.index()].end = Some(self.clock.time(Ticks(at)));
                self.event(at, LifecycleEvent::ThreadEnd(row));
                self.history.threads.end(tid, at);
            }
            LifecycleKind::Rundown | LifecycleKind::Defunct => {}
        }
    }

    fn add_thread(&mut self, record: &ThreadRecord, process: ProcessId) -> ThreadId {
        let row = self.tables.add_thread(Thread::named(record.tid, process, UNNAMED));
        let since = match record.kind {
            LifecycleKind::Start => record.at,
            _ => self.history.threads.free_since(record.tid),
        };
        match since {
            0 => self.history.initial.push((record.tid, row)),
            since => self.event(since, LifecycleEvent::Bind(record.tid, row)),
        }
        self.history.threads.begin(record.tid, row, since);
        row
    }

    /// The process of an id at a time, with a row even where nothing told of it.
    fn process_of(&mut self, pid: u32, at: u64) -> ProcessId {
        if let Some(row) = self.history.process_at(pid, at) {
            return row;
        }
        let row = add_process(self.tables, pid);
        self.history.processes.begin(pid, row, 0);
        row
    }

    /// Threads without a name are called like their process.
    fn main_names(&mut self) {
        for thread in self.tables.threads.iter_mut() {
            if thread.name == UNNAMED {
                thread.name = self.tables.processes[thread.process.index()].name;
            }
        }
    }

    fn rename(&mut self, record: &RenameRecord) {
        let Some(row) = self.history.thread_at(record.tid, record.at) else { return };
        let name = self.tables.strings.intern(&record.name);
        self.tables.threads[row.index()].name = name;
        self.event(record.at, LifecycleEvent::ThreadName(row, name));
    }

    /// A thread for each process of which the trace tells no thread: where a trace tells of
    /// processes and not of their threads, every viewer would leave these processes out. It has the
    /// process's own id, which on Windows no thread has at the same time, and begins and ends with
    /// it.
    fn stand_ins(&mut self) {
        let mut has_thread = vec![false; self.tables.processes.len()];
        self.tables.threads.iter().for_each(|thread| has_thread[thread.process.index()] = true);
        let mut made = FxHashMap::<ProcessId, ThreadId>::default();
        let (mut ends, mut others) = (Vec::new(), Vec::new());
        for (process, kind, at) in std::mem::take(&mut self.history.reported) {
            if has_thread[process.index()] {
                continue;
            }
            let is_first = !made.contains_key(&process);
            let thread = *made.entry(process).or_insert_with(|| {
                let Process { pid, name, start, end, .. } = *self.tables.process(process);
                let thread = self.tables.add_thread(Thread::named(pid, process, UNNAMED));
                let row = &mut self.tables.threads[thread.index()];
                (row.name, row.start, row.end) = (name, start, end);
                thread
            });
            match kind {
                LifecycleKind::End => ends.push((at, TaskEvent::StandIn(thread, kind))),
                // That it is there says nothing new of what began.
                _ if is_first || kind == LifecycleKind::Start => {
                    others.push((at, TaskEvent::StandIn(thread, kind)));
                }
                _ => {}
            }
        }
        // Of one time a thread ends before its process, and begins after it.
        self.history.lifecycle.splice(0..0, ends);
        self.history.lifecycle.append(&mut others);
    }

    /// A thread that only headers of other records name.
    fn observe(&mut self, tid: u32, pid: u32) {
        if tid == 0 || self.history.threads.contains(tid) {
            return;
        }
        let process = self.process_of(pid, u64::MAX);
        let row = self.tables.add_thread(Thread::named(tid, process, UNNAMED));
        self.tables.threads[row.index()].name = self.tables.process(process).name;
        self.history.initial.push((tid, row));
        self.history.threads.begin(tid, row, 0);
    }
}

/// The process that runs the kernel's own threads.
const SYSTEM_PID: u32 = 4;
/// What a thread is called that nothing has named yet; the first row of the strings.
const UNNAMED: StringId = StringId(0);

/// Adds a process that is called by its id.
fn add_process(tables: &mut Tables, pid: u32) -> ProcessId {
    let name = tables.strings.intern(&unknown_name(pid));
    let row = Process::named(MachineId::FIRST, pid, name);
    tables.add_process(Process { kernel: pid == SYSTEM_PID, ..row })
}
