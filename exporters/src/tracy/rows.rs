//! The threads of the file: those of the machine, and others that stand for
//! what belongs to no thread.

use super::zones::Zones;
use rustc_hash::FxHashMap;
use syscollect_model::{CpuId, MachineId, ProcessId, Scope, StackId, Tables, ThreadId, TrackId};

/// The index of a thread has 16 bits, and index 0 is taken by thread 0.
const MAX_ROWS: usize = (1 << 16) - 1;
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
}

/// A row's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowId(pub(crate) u32);

impl RowId {
    /// The index in the file's table of threads.
    pub(crate) fn thread_index(self) -> u16 {
        // There are at most `MAX_ROWS`.
        self.0 as u16 + 1
    }
}

/// All rows, in the order in which they were first seen.
#[derive(Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    threads: Vec<u32>,
    others: FxHashMap<Owner, u32>,
    /// Events that found no row left.
    pub(crate) refused: u64,
}

impl Rows {
    /// The row of a thread; `None`, and counted, when there are too many. The
    /// idle thread has none: it is on all CPUs at once.
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
        let row = self.add(Owner::Thread(thread))?;
        if thread.index() >= self.threads.len() {
            self.threads.resize(thread.index() + 1, NONE);
        }
        self.threads[thread.index()] = row.0;
        Some(row)
    }

    /// The row of something that is no thread.
    pub(crate) fn other(&mut self, owner: Owner) -> Option<RowId> {
        if let Some(row) = self.others.get(&owner) {
            return Some(RowId(*row));
        }
        let row = self.add(owner)?;
        self.others.insert(owner, row.0);
        Some(row)
    }

    fn add(&mut self, owner: Owner) -> Option<RowId> {
        if self.rows.len() == MAX_ROWS {
            self.refused += 1;
            return None;
        }
        self.rows.push(Row {
            owner,
            intervals: Vec::new(),
            running: false,
            woken: -1,
            woken_by: None,
            samples: Vec::new(),
            zones: Zones::default(),
            messages: Vec::new(),
        });
        Some(RowId(self.rows.len() as u32 - 1))
    }

    #[inline]
    pub(crate) fn get(&mut self, row: RowId) -> &mut Row {
        &mut self.rows[row.0 as usize]
    }

    pub(crate) fn all(&self) -> &[Row] {
        &self.rows
    }

    /// The number that each row has as a thread of the file.
    ///
    /// A thread id that was used again is another thread, so its later owners
    /// get a number above 32 bits: the count of former owners there, the id below. The bits from 48
    /// on are the machine.
    pub(crate) fn numbers(&self, tables: &Tables) -> Vec<u64> {
        // Number 0 stands for no thread.
        let mut owners: FxHashMap<(MachineId, u32), u64> =
            FxHashMap::from_iter([((MachineId::FIRST, 0), 1)]);
        let numbers = self.rows.iter().map(|row| match row.owner {
            Owner::Thread(thread) => {
                let row = tables.thread(thread);
                let machine = tables.machine_of(thread);
                let former = owners.entry((machine, row.tid)).or_default();
                *former += 1;
                u64::from(machine.0) << 48 | (*former - 1) << 32 | u64::from(row.tid)
            }
            Owner::IdleCpu(cpu) => 1 << 60 | u64::from(cpu.machine.0) << 32 | u64::from(cpu.number),
            Owner::Track(track) => 2 << 60 | u64::from(track.0),
            Owner::Losses => 3 << 60,
        });
        numbers.collect()
    }
}

/// The names of a row: of its process, and its own.
pub(crate) fn names(owner: Owner, tables: &Tables) -> (String, String) {
    match owner {
        Owner::Thread(thread) => names_of_thread(thread, tables),
        Owner::IdleCpu(cpu) => ("idle".into(), cpu.label()),
        Owner::Losses => ("syscollect".into(), "losses".into()),
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
        Owner::IdleCpu(_) | Owner::Losses => None,
    }
}

/// Where each row is among the others: those of one process together, in the
/// order of the processes; before them the machine's, behind them idle CPUs.
pub(crate) fn group_hints(rows: &[Row], tables: &Tables) -> Vec<i32> {
    let mut ranks: FxHashMap<ProcessId, i32> = FxHashMap::default();
    rows.iter()
        .map(|row| match (row.owner, process(row.owner, tables)) {
            (Owner::IdleCpu(_), _) => i32::MAX,
            (_, None) => 0,
            (_, Some(process)) => {
                let next = ranks.len() as i32 + 1;
                *ranks.entry(process).or_insert(next)
            }
        })
        .collect()
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
