//! The threads of the file: those of the machine, and others that stand for
//! what belongs to no thread.
//!
//! The format has room for 65,535. Which they are is decided when all is known: a program that
//! begins threads without end must not take the places of those that do something. So the rows
//! with the fewest events are left out, and one row stands for them.

use super::zones::Zones;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{CpuId, MachineId, ProcessId, Scope, StackId, Tables, ThreadId, TrackId};

/// Nothing: no row, no stack.
const NONE: u32 = u32::MAX;

/// What a thread of the file stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A thread.
    Thread(ThreadId),
    /// Samples of an idle CPU: thread 0 is on all of them.
    IdleCpu(CpuId),
    /// Slices and instants that have no thread, or share one with another track.
    Track(TrackId),
    /// Messages of losses.
    Losses,
    /// Threads that have no row.
    LeftOut,
}

/// A time on a CPU. Times are nanoseconds since the file's zero; -1 is never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) wakeup: i64,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) cpu: u8,
    /// The CPU that woke the thread.
    pub(crate) wakeup_cpu: u8,
    pub(crate) state: i8,
}

/// A stack at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) time: i64,
    stack: u32,
    /// Taken when the thread left its CPU.
    pub(crate) off_cpu: bool,
    pub(crate) kernel: bool,
}

impl Sample {
    pub(crate) fn new(time: i64, stack: Option<StackId>, off_cpu: bool, kernel: bool) -> Self {
        Self { time, stack: stack.map_or(NONE, |id| id.0), off_cpu, kernel }
    }

    pub(crate) fn stack(&self) -> Option<StackId> {
        (self.stack != NONE).then_some(StackId(self.stack))
    }
}

/// A thread of the file with all that it has.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) owner: Owner,
    pub(crate) intervals: Vec<Interval>,
    /// The last interval has not ended.
    pub(crate) running: bool,
    /// When it was woken for the interval to come; -1 where nobody has.
    pub(crate) woken: i64,
    /// Which CPU woke it.
    pub(crate) woken_by: Option<u8>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) zones: Zones,
    /// Indices of messages, in their order.
    pub(crate) messages: Vec<u32>,
    /// How many events that lie elsewhere are its own: of locks, memory and GPU jobs.
    pub(crate) elsewhere: u64,
    /// The file has no room for it; its events are gone.
    pub(crate) left_out: bool,
}

impl Row {
    fn new(owner: Owner) -> Self {
        Self {
            owner,
            intervals: Vec::new(),
            running: false,
            woken: -1,
            woken_by: None,
            samples: Vec::new(),
            zones: Zones::default(),
            messages: Vec::new(),
            elsewhere: 0,
            left_out: false,
        }
    }

    /// How much there is to see of it.
    pub(crate) fn events(&self) -> u64 {
        let here =
            self.intervals.len() + self.samples.len() + self.zones.len() + self.messages.len();
        here as u64 + self.elsewhere
    }

    /// The machine's own are few, and always stay.
    fn is_indispensable(&self) -> bool {
        matches!(self.owner, Owner::Losses | Owner::IdleCpu(_) | Owner::LeftOut)
    }
}

/// A row's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowId(pub(crate) u32);

/// All rows, in the order in which they were first seen.
#[derive(Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    threads: Vec<u32>,
    others: FxHashMap<Owner, u32>,
}

impl Rows {
    /// The row of a thread. The idle thread has none: it is on all CPUs at once.
    #[inline]
    pub(crate) fn thread(&mut self, thread: ThreadId) -> Option<RowId> {
        match self.threads.get(thread.index()) {
            Some(row) if *row != NONE => Some(RowId(*row)),
            _ => self.new_thread(thread),
        }
    }

    #[cold]
    fn new_thread(&mut self, thread: ThreadId) -> Option<RowId> {
        if thread == Tables::IDLE_THREAD {
            return None;
        }
        let row = self.add(Owner::Thread(thread));
        if thread.index() >= self.threads.len() {
            self.threads.resize(thread.index() + 1, NONE);
        }
        self.threads[thread.index()] = row.0;
        Some(row)
    }

    /// The row of something that is no thread.
    pub(crate) fn other(&mut self, owner: Owner) -> RowId {
        if let Some(row) = self.others.get(&owner) {
            return RowId(*row);
        }
        let row = self.add(owner);
        self.others.insert(owner, row.0);
        row
    }

    fn add(&mut self, owner: Owner) -> RowId {
        self.rows.push(Row::new(owner));
        RowId(self.rows.len() as u32 - 1)
    }

    /// Leaves out the rows with the fewest events, of those with as many the later ones, where
    /// there are more than `room`; gives what they had. Then there is a row that stands for them.
    pub(crate) fn leave_out(&mut self, room: usize) -> Vec<Row> {
        if self.rows.len() <= room {
            return Vec::new();
        }
        self.other(Owner::LeftOut);
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|index| {
            let row = &self.rows[*index];
            (Reverse(row.is_indispensable()), Reverse(row.events()), *index)
        });
        let left_out = order.into_iter().skip(room).map(|index| {
            let row = &mut self.rows[index];
            let empty = Row { left_out: true, ..Row::new(row.owner) };
            std::mem::replace(row, empty)
        });
        left_out.collect()
    }

    #[inline]
    pub(crate) fn get(&mut self, row: RowId) -> &mut Row {
        &mut self.rows[row.0 as usize]
    }

    pub(crate) fn all(&self) -> &[Row] {
        &self.rows
    }

    /// Those that the file has.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Row> + Clone {
        self.rows.iter().filter(|row| !row.left_out)
    }
}

/// The names of a row: of its process, and its own.
pub(crate) fn names(owner: Owner, tables: &Tables) -> (String, String) {
    match owner {
        Owner::Thread(thread) => names_of_thread(thread, tables),
        Owner::IdleCpu(cpu) => ("idle".into(), cpu.label()),
        Owner::Losses => ("syscollect".into(), "losses".into()),
        Owner::LeftOut => ("syscollect".into(), "threads without a row".into()),
        Owner::Track(id) => {
            let track = tables.track(id);
            let name = tables.strings.get(track.name).to_owned();
            match track.scope {
                Scope::Machine(machine) => (machine_name(machine, tables), name),
                Scope::Cpu(cpu) => {
                    (machine_name(cpu.machine, tables), format!("{} {name}", cpu.label()))
                }
                Scope::Process(process) => (tables.process_name(process).into(), name),
                Scope::Thread(thread) => {
                    let (process, thread) = names_of_thread(thread, tables);
                    (process, format!("{thread} {name}"))
                }
            }
        }
    }
}

fn names_of_thread(thread: ThreadId, tables: &Tables) -> (String, String) {
    let row = tables.thread(thread);
    (tables.process_name(row.process).into(), tables.strings.get(row.name).to_owned())
}

fn machine_name(machine: MachineId, tables: &Tables) -> String {
    match machine {
        MachineId::FIRST => "machine".to_owned(),
        machine => tables.machine_name(machine).into(),
    }
}

/// The process of a row, where it has one.
pub(crate) fn process(owner: Owner, tables: &Tables) -> Option<ProcessId> {
    match owner {
        Owner::Thread(thread) => Some(tables.thread(thread).process),
        Owner::Track(track) => match tables.track(track).scope {
            Scope::Process(process) => Some(process),
            Scope::Thread(thread) => Some(tables.thread(thread).process),
            Scope::Machine(_) | Scope::Cpu(_) => None,
        },
        Owner::IdleCpu(_) | Owner::Losses | Owner::LeftOut => None,
    }
}

/// The name of a track that is no row, with what it belongs to before it.
pub(crate) fn scoped_name(track: TrackId, tables: &Tables) -> String {
    let row = tables.track(track);
    let name = tables.strings.get(row.name);
    match row.scope {
        Scope::Machine(MachineId::FIRST) => name.to_owned(),
        Scope::Machine(machine) => format!("{} {name}", tables.machine_name(machine)),
        Scope::Cpu(cpu) => cpu.label_of(name),
        Scope::Process(id) => {
            format!("{} ({}) {name}", tables.process_name(id), tables.process(id).pid)
        }
        Scope::Thread(id) => {
            format!("{} ({}) {name}", tables.thread_name(id), tables.thread(id).tid)
        }
    }
}
