//! Who lived when: processes and threads, from what was there when the
//! recording began and from the records of fork, exec, exit and rename.

use crate::held::OldestHeld;
use crate::lane::Record;
use crate::losses::Losses;
use crate::mappings::text;
use crate::sleepers::{Sleeper, Sleepers};
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{
    AddressSpaces, ClockMap, Forgotten, Lane, MachineId, Process, ProcessId, SignalExit, StringId,
    Tables, Thread, ThreadId, Ticks, Time, is_crash_signal, signal_name,
};
use syscollect_playback::{LifecycleEvent, unknown_name};
use syscollect_records::{RecordKind, TaskRecord};
use syscollect_store::KnownProcess;

/// What the kernel told of the machine's tasks, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskEvent {
    /// A record of this kind begins; what follows comes from it.
    Record(RecordKind),
    /// Something happens to a process or thread.
    Lifecycle(LifecycleEvent),
    /// A signal ends a process.
    SignalExit(SignalExit),
    /// A thread was seen asleep.
    Asleep(Sleeper),
    /// The thread goes on as another one: an exec gave it the id of its process.
    Replace { old: ThreadId, new: ThreadId },
    /// Records of the lane were lost before the collector.
    Lost(Lane, u64),
    /// Records of the lane are missing from the capture.
    Missing(Lane, u64),
}

impl From<LifecycleEvent> for TaskEvent {
    fn from(event: LifecycleEvent) -> Self {
        Self::Lifecycle(event)
    }
}

/// What [`TaskHistory`] is told at the end.
#[derive(Debug, Default)]
pub(crate) struct TaskHistory {
    /// What each thread id means before the first step.
    pub(crate) initial: Vec<(u32, ThreadId)>,
    /// The first names of threads that were there before and got others later.
    pub(crate) first_names: Vec<(ThreadId, StringId)>,
    /// The steps, in the order of the merged lanes.
    pub(crate) lifecycle: Vec<(u64, TaskEvent)>,
}

impl TaskHistory {
    /// Which threads had these ids, and since which ticks.
    pub(crate) fn lifetimes(&self, tids: &FxHashSet<u32>) -> FxHashMap<u32, Vec<(u64, ThreadId)>> {
        let mut lifetimes = FxHashMap::<u32, Vec<(u64, ThreadId)>>::default();
        let initial = self.initial.iter().map(|(tid, thread)| (0, *tid, *thread));
        let bound = self.lifecycle.iter().filter_map(|(ticks, event)| match event {
            TaskEvent::Lifecycle(LifecycleEvent::Bind(tid, thread)) => {
                Some((*ticks, *tid, *thread))
            }
            _ => None,
        });
        for (ticks, tid, thread) in initial.chain(bound).filter(|(_, tid, _)| tids.contains(tid)) {
            lifetimes.entry(tid).or_default().push((ticks, thread));
        }
        lifetimes
    }

    /// Nothing is held of what was before these ticks but its state: who lives then did not begin
    /// in what is told, and who has ended is not told of.
    pub(crate) fn begin_at(
        &mut self,
        OldestHeld { ticks, time }: OldestHeld,
        machine: MachineId,
        tables: &mut Tables,
    ) {
        let lives_on = |end: Option<Time>| end.is_none_or(|end| end >= time);
        // Rows have the last names; an earlier one is told where that comes later.
        let later = self.lifecycle.iter().filter(|(at, _)| *at >= ticks.0);
        let renamed: FxHashSet<ThreadId> = later
            .filter_map(|(_, event)| match event {
                TaskEvent::Lifecycle(LifecycleEvent::ThreadName(thread, _)) => Some(*thread),
                _ => None,
            })
            .collect();
        self.first_names.retain(|(thread, _)| renamed.contains(thread));
        self.lifecycle.retain(|(at, event)| match event {
            _ if *at >= ticks.0 => true,
            TaskEvent::Lifecycle(event) => match event {
                LifecycleEvent::ProcessStart(_) | LifecycleEvent::ThreadStart(_) => false,
                LifecycleEvent::ThreadName(thread, _) => renamed.contains(thread),
                _ => true,
            },
            TaskEvent::SignalExit(_) => false,
            _ => true,
        });
        let Tables { processes, threads, .. } = tables;
        for row in threads.iter_mut().filter(|row| lives_on(row.end)) {
            if processes[row.process.index()].machine == machine {
                row.start = row.start.filter(|start| *start >= time);
            }
        }
        for row in processes.iter_mut().filter(|row| row.machine == machine && lives_on(row.end)) {
            row.start = row.start.filter(|start| *start >= time);
        }
    }
}

/// The kinds of records that tell of tasks.
const KINDS: [RecordKind; 4] =
    [RecordKind::Fork, RecordKind::Exec, RecordKind::Exit, RecordKind::Rename];

/// The thread that an id means now.
#[derive(Clone, Copy, Debug)]
struct KnownThread {
    thread: ThreadId,
    /// Its beginning was observed, or at least something after it.
    observed: bool,
    ended: bool,
}

/// What is known of tasks while their records are read.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    machine: MachineId,
    /// When each process last got other memory by a task record, ticks.
    resets: FxHashMap<u32, u64>,
    /// What was read of processes while the recording ran, latest first.
    notes: Vec<KnownProcess>,
    sleepers: Sleepers,
    threads: FxHashMap<u32, KnownThread>,
    processes: FxHashMap<u32, ProcessId>,
    /// Threads of the process that are known to live.
    living: FxHashMap<ProcessId, u32>,
    /// Processes whose main thread has ended.
    headless: FxHashSet<ProcessId>,
    /// Threads that dumped the cores of their processes.
    dumpers: FxHashMap<ProcessId, ThreadId>,
    /// Threads whose first name is in the history.
    named: FxHashSet<ThreadId>,
    /// When the names of threads that were there had been read at the latest, ticks.
    names_read: FxHashMap<ThreadId, u64>,
    /// What threads were renamed to last; rows do not have it yet.
    renamed: FxHashMap<ThreadId, StringId>,
    pub(crate) history: TaskHistory,
}

impl Tasks {
    /// Whether a row is the thread that has its id now, and lives.
    pub(crate) fn is_living(&self, thread: ThreadId, row: &Thread) -> bool {
        let known = self.threads.get(&row.tid);
        known.is_some_and(|known| known.thread == thread && !known.ended)
    }

    /// Whether a row is the process that has its id now, as far as is known.
    pub(crate) fn is_current(&self, process: ProcessId, row: &Process) -> bool {
        row.end.is_none() && self.processes.get(&row.pid) == Some(&process)
    }

    /// Whether somebody of whom something is known has the id of a process.
    pub(crate) fn has_process(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Since which ticks the program runs of a process of which something is known.
    pub(crate) fn runs_since(&self, pid: u32) -> Option<u64> {
        self.has_process(pid).then(|| self.resets.get(&pid).copied().unwrap_or(0))
    }

    /// Forgets threads and processes that are gone, and says which names are needed.
    pub(crate) fn forget(&mut self, forgotten: &mut Forgotten) {
        let Forgotten { threads, processes, .. } = &*forgotten;
        self.threads.retain(|_, known| !threads.contains(&known.thread));
        self.processes.retain(|_, process| !processes.contains(process));
        self.living.retain(|process, _| !processes.contains(process));
        self.headless.retain(|process| !processes.contains(process));
        self.named.retain(|thread| !threads.contains(thread));
        self.names_read.retain(|thread, _| !threads.contains(thread));
        self.renamed.retain(|thread, _| !threads.contains(thread));
        let Self { resets, processes, .. } = self;
        resets.retain(|pid, _| processes.contains_key(pid));
        self.renamed.values().for_each(|name| forgotten.uses(*name));
    }

    /// What is held of them.
    pub(crate) fn held(&self) -> usize {
        let Self { threads, processes, living, headless, named, .. } = self;
        let rows = threads.len() + processes.len() + living.len() + headless.len() + named.len();
        rows + self.names_read.len() + self.renamed.len() + self.resets.len()
    }

    pub(crate) fn new(machine: MachineId) -> Self {
        Self { machine, ..Self::default() }
    }
}

/// Builds the rows and the history of tasks, one record after the other.
pub(crate) struct TaskBuilder<'a> {
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) tables: &'a mut Tables,
    pub(crate) spaces: &'a mut AddressSpaces,
    pub(crate) clock: &'a ClockMap,
    /// When a mapping lane saw a process begin a new program, ticks, ascending.
    pub(crate) execs: &'a FxHashMap<u32, Vec<u64>>,
}

impl TaskBuilder<'_> {
    /// Takes processes that were there when the recording began, or were noted later.
    pub(crate) fn add_processes(&mut self, known: &[KnownProcess]) {
        let notes = known.iter().filter(|process| process.noted > Ticks(0));
        self.tasks.notes.extend(notes.cloned());
        self.tasks.notes.sort_by_key(|process| std::cmp::Reverse(process.noted));
        known
            .iter()
            .filter(|process| process.noted == Ticks(0))
            .for_each(|process| self.known(process));
    }

    /// Takes what a task lane gives; items come in the merged order. What is lost, or tells of no
    /// task, is counted.
    pub(crate) fn on(&mut self, ticks: u64, lane: Lane, item: &Record, losses: &mut Losses) {
        match item {
            Record::Chunk(start) => self.missing(ticks, lane, start.missing.records),
            Record::Task(task) => {
                losses.reported(lane, u64::from(task.lost_before));
                if !self.record(ticks, lane, task) {
                    losses.undecodable(lane, 1);
                }
            }
            _ => losses.undecodable(lane, 1),
        }
    }

    /// Notes that records of the lane are missing from the capture here.
    fn missing(&mut self, ticks: u64, lane: Lane, count: u64) {
        if count > 0 {
            self.event(ticks, TaskEvent::Missing(lane, count));
        }
    }

    /// Takes a record of the lane; records come in the merged order. `false`
    /// when it is of no kind that tells of tasks.
    fn record(&mut self, ticks: u64, lane: Lane, record: &TaskRecord) -> bool {
        self.apply_notes(ticks);
        let (_, number) = record.stamp.split();
        let Some(kind) = RecordKind::from_number(number).filter(|kind| KINDS.contains(kind)) else {
            return false;
        };
        if record.lost_before > 0 {
            self.event(ticks, TaskEvent::Lost(lane, u64::from(record.lost_before)));
        }
        self.event(ticks, TaskEvent::Record(kind));
        // The idle tasks, all of thread id 0, are forked when a CPU comes up.
        if record.tid == 0 {
            return true;
        }
        let time = self.clock.time(Ticks(ticks));
        match kind {
            RecordKind::Fork => self.fork(ticks, time, record),
            RecordKind::Exec => self.exec(ticks, time, record),
            RecordKind::Exit => self.exit(ticks, time, record),
            _ => {
                let thread = self.existing(ticks, record);
                self.rename(ticks, thread, &text(&record.comm));
            }
        }
        true
    }

    fn event(&mut self, ticks: u64, event: impl Into<TaskEvent>) {
        self.tasks.history.lifecycle.push((ticks, event.into()));
    }

    /// A process that was there when the recording began.
    fn known(&mut self, known: &KnownProcess) {
        let main = known.threads.iter().find(|thread| thread.tid == known.pid);
        let name = main
            .or(known.threads.first())
            .map_or_else(|| unknown_name(known.pid), |thread| thread.name.clone());
        let process = match self.tasks.processes.get(&known.pid) {
            Some(process) => {
                let process = *process;
                self.name_unknown(process, &name);
                process
            }
            None => self.add_process(known.pid, Some(known.parent_pid), &name, None),
        };
        let row = &mut self.tables.processes[process.index()];
        // How its threads sleep comes behind, without.
        if !known.command_line.is_empty() {
            row.command_line.clone_from(&known.command_line);
        }
        row.kernel = known.kernel;
        for thread in known.threads.iter().filter(|thread| thread.tid != 0) {
            if !self.tasks.threads.contains_key(&thread.tid) {
                let id = self.add_thread(thread.tid, process, &thread.name, None, false);
                self.tasks.names_read.insert(id, known.names_read.0);
                self.tasks.history.initial.push((thread.tid, id));
            }
            self.add_sleeper(known, thread);
        }
    }

    /// A process of which only threads were heard of has this name.
    fn name_unknown(&mut self, process: ProcessId, name: &str) {
        let row = &mut self.tables.processes[process.index()];
        if self.tables.strings.get(row.name) == unknown_name(row.pid) {
            row.name = self.tables.strings.intern_passing(name);
        }
    }

    fn add_sleeper(&mut self, process: &KnownProcess, thread: &syscollect_store::KnownThread) {
        if let Some(sleep) = &thread.asleep
            && let Some(known) = self.tasks.threads.get(&thread.tid)
        {
            let (seen_at, strings) = (process.states_read.0, &mut self.tables.strings);
            let sleeper = Sleeper::new(seen_at, thread.tid, known.thread, sleep, strings);
            sleeper.into_iter().for_each(|sleeper| self.tasks.sleepers.add(sleeper));
        }
    }

    /// Tells who was seen asleep before these ticks, and lives.
    fn emit_sleepers(&mut self, ticks: u64) {
        while let Some(sleeper) = self.tasks.sleepers.next(ticks) {
            let known = self.tasks.threads.get(&sleeper.tid);
            if known.is_some_and(|known| known.thread == sleeper.thread && !known.ended) {
                self.event(sleeper.seen_at, TaskEvent::Asleep(sleeper));
            }
        }
    }

    /// What was read of processes before `ticks` belongs to those of that time.
    pub(crate) fn apply_notes(&mut self, ticks: u64) {
        while let Some(note) = self.tasks.notes.pop_if(|note| note.noted.0 <= ticks) {
            self.emit_sleepers(note.noted.0);
            if note.states_read > Ticks(0) {
                // Of who sleeps when a snapshot is taken all else was told before.
                note.threads.iter().for_each(|thread| self.add_sleeper(&note, thread));
            } else if let Some(process) = self.tasks.processes.get(&note.pid) {
                let process = *process;
                let row = &mut self.tables.processes[process.index()];
                // Names that were read at the end come without command lines.
                if note.names_read == Ticks(0) || !note.command_line.is_empty() {
                    row.command_line.clone_from(&note.command_line);
                }
                row.kernel = note.kernel;
                self.apply_noted_names(process, &note);
            } else {
                self.known(&note);
            }
        }
        self.emit_sleepers(ticks);
    }

    /// Names that were read at the end, because renames were left out: what differs from them was
    /// one.
    fn apply_noted_names(&mut self, process: ProcessId, note: &KnownProcess) {
        if note.names_read == Ticks(0) {
            return;
        }
        for noted in &note.threads {
            let of_now = self.tasks.threads.get(&noted.tid);
            let Some(known) = of_now.filter(|known| !known.ended) else {
                continue;
            };
            let row = self.tables.thread(known.thread);
            if row.process == process && self.name_of(known.thread) != noted.name {
                self.rename(note.noted.0, known.thread, &noted.name);
            }
        }
    }

    fn fork(&mut self, ticks: u64, time: Time, record: &TaskRecord) {
        let name = text(&record.comm);
        let new_process = record.tid == record.tgid;
        if let Some(known) = self.tasks.threads.get_mut(&record.tid).filter(|known| !known.observed)
        {
            // The list of tasks was read after this fork: it is the same thread.
            known.observed = true;
            let thread = known.thread;
            let process = self.tables.thread(thread).process;
            self.tables.threads[thread.index()].start = Some(time);
            if new_process {
                let row = &mut self.tables.processes[process.index()];
                (row.start, row.parent_pid) = (Some(time), Some(record.parent_tgid));
            }
            return self.begin(ticks, record, process, thread, &name);
        }
        let process = if new_process {
            let process =
                self.add_process(record.tgid, Some(record.parent_tgid), &name, Some(time));
            let parent = self.tasks.processes.get(&record.parent_tgid);
            let kernel = parent.is_some_and(|parent| self.tables.process(*parent).kernel);
            self.tables.processes[process.index()].kernel = kernel;
            process
        } else {
            self.process_of(record, "")
        };
        let thread = self.add_thread(record.tid, process, &name, Some(time), true);
        self.begin(ticks, record, process, thread, &name);
    }

    /// The events of a task's beginning, and the memory it begins with.
    fn begin(
        &mut self,
        ticks: u64,
        record: &TaskRecord,
        process: ProcessId,
        thread: ThreadId,
        name: &str,
    ) {
        self.event(ticks, LifecycleEvent::Bind(record.tid, thread));
        if record.tid == record.tgid {
            self.spaces.fork(record.parent_tgid, record.tgid, Ticks(ticks));
            self.tasks.resets.insert(record.tgid, ticks);
            self.event(ticks, LifecycleEvent::ProcessStart(process));
        }
        self.event(ticks, LifecycleEvent::ThreadStart(thread));
        let name = self.tables.strings.intern_passing(name);
        self.tasks.named.insert(thread);
        self.event(ticks, LifecycleEvent::ThreadName(thread, name));
    }

    fn exec(&mut self, ticks: u64, time: Time, record: &TaskRecord) {
        let before = if record.parent_tid == 0 { record.tid } else { record.parent_tid };
        let thread = if before == record.tid {
            self.existing(ticks, record)
        } else {
            self.take_over(ticks, time, record)
        };
        let process = self.tables.thread(thread).process;
        let comm = text(&record.comm);
        let name = self.tables.strings.intern_passing(&comm);
        let row = &mut self.tables.processes[process.index()];
        row.command_line.clear();
        row.kernel = false;
        self.empty_memory(ticks, record.tgid);
        self.event(ticks, LifecycleEvent::ProcessExec(process, name));
        self.rename(ticks, thread, &comm);
    }

    /// A thread other than the main one calls exec: all others end, and it gets
    /// the id of the process. That is another thread here, so that each row has one id.
    fn take_over(&mut self, ticks: u64, time: Time, record: &TaskRecord) -> ThreadId {
        let before = TaskRecord { tid: record.parent_tid, ..*record };
        let old = self.existing(ticks, &before);
        let process = self.tables.thread(old).process;
        self.end_thread(ticks, time, record.parent_tid, old);
        self.tasks.headless.remove(&process);
        let name = self.name_of(old).to_owned();
        let new = self.add_thread(record.tid, process, &name, Some(time), true);
        self.event(ticks, LifecycleEvent::Bind(record.tid, new));
        self.event(ticks, TaskEvent::Replace { old, new });
        self.event(ticks, LifecycleEvent::ThreadStart(new));
        new
    }

    /// What was mapped before an exec is gone. The mapping lane says so more
    /// exactly, because the new program's mappings come before the record of
    /// exec; where it has lost that, unnamed is better than wrongly named.
    fn empty_memory(&mut self, ticks: u64, pid: u32) {
        let before = self.tasks.resets.insert(pid, ticks).unwrap_or(0);
        let is_known = self.execs.get(&pid).is_some_and(|list| {
            let at = list.partition_point(|at| *at <= ticks);
            at.checked_sub(1).is_some_and(|last| list[last] > before)
        });
        if !is_known {
            self.spaces.exec(pid, Ticks(ticks));
        }
    }

    fn exit(&mut self, ticks: u64, time: Time, record: &TaskRecord) {
        let comm = text(&record.comm);
        let unseen = self
            .tasks
            .threads
            .get(&record.tid)
            .filter(|known| !known.observed)
            .map(|known| known.thread);
        if let Some(thread) = unseen.filter(|_| !comm.is_empty()) {
            // The list of tasks was read while the recording ran and may show
            // who came after; the name in the record is certain.
            let name = self.tables.strings.intern_passing(&comm);
            self.tables.rename(thread, name);
        }
        let thread = self.existing(ticks, record);
        if !comm.is_empty() && self.name_of(thread) != comm {
            // Renames in between were left out or lost.
            self.rename(ticks, thread, &comm);
        }
        let process = self.tables.thread(thread).process;
        if record.tid == record.tgid {
            self.tasks.headless.insert(process);
        }
        if record.exit_code & 0x80 != 0 {
            self.tasks.dumpers.entry(process).or_insert(thread);
        }
        let ends_process = self.tasks.headless.contains(&process)
            && self.tasks.living.get(&process).is_none_or(|count| *count <= 1);
        if ends_process {
            self.signal_exit(ticks, process, record.exit_code);
        }
        self.end_thread(ticks, time, record.tid, thread);
        if ends_process {
            self.tasks.headless.remove(&process);
            self.tables.processes[process.index()].end = Some(time);
            self.event(ticks, LifecycleEvent::ProcessEnd(process));
        }
    }

    /// Tells of the signal that ends a process, if one does. All threads that it ends have the code
    /// of the process; who ended before has another, so the last one's counts. Only the thread that
    /// dumped the core says so: the others had their codes before that was done.
    fn signal_exit(&mut self, ticks: u64, process: ProcessId, code: u32) {
        let signal = (code & 0x7f) as u8;
        let dumper = self.tasks.dumpers.remove(&process);
        if signal != 0 {
            let exit = SignalExit {
                process,
                thread: dumper,
                signal: self.tables.strings.intern(&signal_name(signal)),
                is_crash: is_crash_signal(signal),
                has_core_dump: dumper.is_some(),
            };
            self.event(ticks, TaskEvent::SignalExit(exit));
        }
    }

    fn end_thread(&mut self, ticks: u64, time: Time, tid: u32, thread: ThreadId) {
        if let Some(known) = self.tasks.threads.get_mut(&tid) {
            known.ended = true;
        }
        let row = &mut self.tables.threads[thread.index()];
        row.end = Some(time);
        if let Some(living) = self.tasks.living.get_mut(&row.process) {
            *living = living.saturating_sub(1);
        }
        self.event(ticks, LifecycleEvent::ThreadEnd(thread));
    }

    fn rename(&mut self, ticks: u64, thread: ThreadId, name: &str) {
        self.first_name(ticks, thread);
        let id = self.tables.strings.intern_passing(name);
        self.tasks.renamed.insert(thread, id);
        self.event(ticks, LifecycleEvent::ThreadName(thread, id));
    }

    /// Puts a thread's first name into the history, before it gets another at
    /// `ticks`; unless its name was read after that, and so is not the first.
    fn first_name(&mut self, ticks: u64, thread: ThreadId) {
        let known_before = self.tasks.names_read.get(&thread).is_none_or(|read| ticks > *read);
        if self.tasks.named.insert(thread)
            && known_before
            && self.tables.thread(thread).start.is_none()
        {
            self.tasks.history.first_names.push((thread, self.tables.thread(thread).name));
        }
    }

    /// What the thread is called after all records so far.
    fn name_of(&self, thread: ThreadId) -> &str {
        let renamed = self.tasks.renamed.get(&thread).copied();
        self.tables.strings.get(renamed.unwrap_or_else(|| self.tables.thread(thread).name))
    }

    /// Gives rows the last names of their threads.
    pub(crate) fn name_rows(&mut self) {
        for (thread, name) in self.tasks.renamed.drain() {
            self.tables.rename(thread, name);
        }
    }

    /// The thread of a record that is not its beginning.
    fn existing(&mut self, ticks: u64, record: &TaskRecord) -> ThreadId {
        if let Some(known) = self.tasks.threads.get_mut(&record.tid).filter(|known| !known.ended) {
            known.observed = true;
            return known.thread;
        }
        let first = !self.tasks.threads.contains_key(&record.tid);
        let name = text(&record.comm);
        let process = self.process_of(record, &name);
        let thread = self.add_thread(record.tid, process, &name, None, true);
        self.tasks.named.insert(thread);
        if first {
            // It was there all the time, so its earlier events belong to it.
            self.tasks.history.initial.push((record.tid, thread));
        } else {
            self.event(ticks, LifecycleEvent::Bind(record.tid, thread));
        }
        thread
    }

    fn process_of(&mut self, record: &TaskRecord, name: &str) -> ProcessId {
        match self.tasks.processes.get(&record.tgid) {
            Some(process) => *process,
            None if record.tid == record.tgid => self.add_process(record.tgid, None, name, None),
            None => self.add_process(record.tgid, None, &unknown_name(record.tgid), None),
        }
    }

    fn add_process(
        &mut self,
        pid: u32,
        parent_pid: Option<u32>,
        name: &str,
        start: Option<Time>,
    ) -> ProcessId {
        let name = self.tables.strings.intern_passing(name);
        let row = Process::named(self.tasks.machine, pid, name);
        let id = self.tables.add_process(Process { parent_pid, start, ..row });
        self.tasks.processes.insert(pid, id);
        id
    }

    fn add_thread(
        &mut self,
        tid: u32,
        process: ProcessId,
        name: &str,
        start: Option<Time>,
        observed: bool,
    ) -> ThreadId {
        let name = self.tables.strings.intern_passing(name);
        let thread = self.tables.add_thread(Thread { start, ..Thread::named(tid, process, name) });
        *self.tasks.living.entry(process).or_default() += 1;
        let before = self.tasks.threads.insert(tid, KnownThread { thread, observed, ended: false });
        if let Some(before) = before.filter(|known| !known.ended) {
            // Its end was lost, but it cannot live any more.
            let process = self.tables.thread(before.thread).process;
            if let Some(living) = self.tasks.living.get_mut(&process) {
                *living = living.saturating_sub(1);
            }
        }
        thread
    }
}
