//! The threads of the file: those of the machine, and others that stand for
//! what belongs to no thread.
//!
//! The format has room for 65,535. Who begins threads without end must take neither their rows from
//! programs that do more, nor memory: the rows with the fewest events are left out, those of
//! threads that have ended as soon as there are twice as many, and one row stands for them all.

use super::messages::Message;
use super::plots::CpuUsage;
use super::zones::Zones;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{CpuId, MachineId, ProcessId, Scope, StackId, Tables, ThreadId, TrackId};

/// The index of a thread has 16 bits, and index 0 is taken by thread 0.
const MAX_ROWS: usize = (1 << 16) - 1;
/// Nothing: no row, no stack.
const NONE: u32 = u32::MAX;

/// What a thread of the file stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowOwner {
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

/// When a thread was woken, and on which CPU, where the file has room for that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowWakeup {
    pub(crate) time: i64,
    pub(crate) cpu: Option<u8>,
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
    pub(crate) owner: RowOwner,
    id: RowId,
    pub(crate) intervals: Vec<Interval>,
    /// The last interval has not ended.
    pub(crate) running: bool,
    /// By what it was woken for the interval to come, if by anything.
    pub(crate) wakeup: Option<RowWakeup>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) zones: Zones,
    pub(crate) messages: Vec<Message>,
    /// How many events are its own that lie elsewhere: zones until all are placed, events of
    /// locks, memory and GPU jobs.
    pub(crate) elsewhere: u64,
    /// The thread has ended: nothing more comes.
    pub(crate) ended: bool,
}

impl Row {
    fn new(owner: RowOwner, id: RowId) -> Self {
        Self {
            owner,
            id,
            intervals: Vec::new(),
            running: false,
            wakeup: None,
            samples: Vec::new(),
            zones: Zones::default(),
            messages: Vec::new(),
            elsewhere: 0,
            ended: false,
        }
    }

    /// How much there is to see of it.
    fn events(&self) -> u64 {
        let here = self.intervals.len() + self.samples.len() + self.messages.len();
        here as u64 + self.elsewhere
    }

    /// The machine's own are few, and always stay.
    fn is_indispensable(&self) -> bool {
        matches!(self.owner, RowOwner::Losses | RowOwner::IdleCpu(_) | RowOwner::LeftOut)
    }
}

/// What a row is called, which stays when others are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowId(pub(crate) u32);

/// All rows, in the order in which they were first seen.
pub(crate) struct Rows {
    rows: Vec<Row>,
    /// How many the file has room for.
    room: usize,
    /// With so many some are left out.
    most: usize,
    /// The index of each row in `rows`, by its id.
    positions: Vec<u32>,
    threads: Vec<u32>,
    others: FxHashMap<RowOwner, u32>,
    pub(crate) left_out: LeftOutRows,
    /// Of rows that are gone already: what ran then is known all the same.
    usage_of_gone: CpuUsage,
}

/// How much was left out, for want of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOutRows {
    pub(crate) rows: u64,
    pub(crate) events: u64,
}

impl Default for Rows {
    fn default() -> Self {
        Self::new(MAX_ROWS)
    }
}

impl Rows {
    fn new(room: usize) -> Self {
        let (rows, positions, threads) = Default::default();
        let (others, left_out, usage_of_gone) = Default::default();
        Self { rows, room, most: 2 * room, positions, threads, others, left_out, usage_of_gone }
    }

    /// The row of a thread; `None`, and counted, where it was left out. The idle thread has none:
    /// it is on all CPUs at once.
    #[inline]
    pub(crate) fn thread(&mut self, thread: ThreadId) -> Option<RowId> {
        match self.threads.get(thread.index()) {
            Some(row) if *row != NONE => self.present(RowId(*row)),
            _ => self.new_thread(thread),
        }
    }

    /// Whether a thread had a row that was left out.
    pub(crate) fn is_left_out(&self, thread: ThreadId) -> bool {
        let row = self.threads.get(thread.index()).filter(|row| **row != NONE);
        row.is_some_and(|row| self.positions[*row as usize] == NONE)
    }

    #[inline]
    fn present(&mut self, row: RowId) -> Option<RowId> {
        let is_there = self.positions[row.0 as usize] != NONE;
        self.left_out.events += u64::from(!is_there);
        is_there.then_some(row)
    }

    #[cold]
    fn new_thread(&mut self, thread: ThreadId) -> Option<RowId> {
        if thread == Tables::IDLE_THREAD {
            return None;
        }
        if self.rows.len() >= self.most {
            for row in self.leave_out(|row| row.ended && !row.running) {
                self.usage_of_gone.add(&row.intervals, 0);
            }
            self.most = 2 * self.rows.len().max(self.room);
        }
        let row = self.add(RowOwner::Thread(thread));
        if thread.index() >= self.threads.len() {
            self.threads.resize(thread.index() + 1, NONE);
        }
        self.threads[thread.index()] = row.0;
        Some(row)
    }

    /// The row of something that is no thread.
    pub(crate) fn other(&mut self, owner: RowOwner) -> RowId {
        if let Some(row) = self.others.get(&owner) {
            return RowId(*row);
        }
        let row = self.add(owner);
        self.others.insert(owner, row.0);
        row
    }

    fn add(&mut self, owner: RowOwner) -> RowId {
        let id = RowId(self.positions.len() as u32);
        self.positions.push(self.rows.len() as u32);
        self.rows.push(Row::new(owner, id));
        id
    }

    /// How much of the CPUs all threads used until `last`, before [`Self::fit`].
    pub(crate) fn usage(&mut self, last: i64) -> CpuUsage {
        let mut usage = std::mem::take(&mut self.usage_of_gone);
        self.rows.iter().for_each(|row| usage.add(&row.intervals, last));
        usage
    }

    /// All is known: leaves out what the file has no room for, and gives it. Then there is a row
    /// that stands for it.
    pub(crate) fn fit(&mut self) -> Vec<Row> {
        if self.rows.len() <= self.room && self.left_out.rows == 0 {
            return Vec::new();
        }
        self.other(RowOwner::LeftOut);
        self.leave_out(|_| true)
    }

    /// Leaves out rows for which that holds, until there is room for all or none is left: those
    /// with the fewest events first, of those with as many the later ones.
    fn leave_out(&mut self, may_go: impl Fn(&Row) -> bool) -> Vec<Row> {
        let too_many = self.rows.len().saturating_sub(self.room);
        let may_go = self.rows.iter().filter(|row| !row.is_indispensable() && may_go(row));
        let mut order: Vec<_> = may_go.map(|row| (row.events(), Reverse(row.id))).collect();
        order.sort_unstable();
        for (events, Reverse(row)) in order.into_iter().take(too_many) {
            self.left_out.rows += 1;
            self.left_out.events += events;
            self.positions[row.0 as usize] = NONE;
        }
        let all = std::mem::take(&mut self.rows).into_iter();
        let (rows, gone) = all.partition(|row| self.positions[row.id.0 as usize] != NONE);
        self.rows = rows;
        for (position, row) in (0..).zip(&self.rows) {
            self.positions[row.id.0 as usize] = position;
        }
        gone
    }

    /// A row, if it was not left out.
    pub(crate) fn find(&self, row: RowId) -> Option<&Row> {
        self.rows.get(self.positions[row.0 as usize] as usize)
    }

    /// A row that [`Self::thread`] or [`Self::other`] has just given.
    #[inline]
    pub(crate) fn get(&mut self, row: RowId) -> &mut Row {
        &mut self.rows[self.positions[row.0 as usize] as usize]
    }

    /// Those that were not left out, to change.
    pub(crate) fn all_mut(&mut self) -> &mut [Row] {
        &mut self.rows
    }

    /// Those that were not left out.
    pub(crate) fn all(&self) -> &[Row] {
        &self.rows
    }

    /// The index of each row in [`Self::all`], by its id; `None` for those that were left out.
    pub(crate) fn positions(&self) -> impl Iterator<Item = Option<u32>> {
        self.positions.iter().map(|position| (*position != NONE).then_some(*position))
    }
}

/// The names of a row: of its process, and its own.
pub(crate) fn names(owner: RowOwner, tables: &Tables) -> (String, String) {
    match owner {
        RowOwner::Thread(thread) => names_of_thread(thread, tables),
        RowOwner::IdleCpu(cpu) => ("idle".into(), cpu.label()),
        RowOwner::Losses => ("syscollect".into(), "losses".into()),
        RowOwner::LeftOut => ("syscollect".into(), "threads without a row".into()),
        RowOwner::Track(id) => {
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
pub(crate) fn process(owner: RowOwner, tables: &Tables) -> Option<ProcessId> {
    match owner {
        RowOwner::Thread(thread) => Some(tables.thread(thread).process),
        RowOwner::Track(track) => match tables.track(track).scope {
            Scope::Process(process) => Some(process),
            Scope::Thread(thread) => Some(tables.thread(thread).process),
            Scope::Machine(_) | Scope::Cpu(_) => None,
        },
        RowOwner::IdleCpu(_) | RowOwner::Losses | RowOwner::LeftOut => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds that many events to a thread.
    fn count_events(rows: &mut Rows, thread: u32, times: u64) {
        let row = rows.thread(ThreadId(thread)).unwrap();
        rows.get(row).elsewhere += times;
    }

    fn owners(rows: &Rows) -> Vec<RowOwner> {
        rows.all().iter().map(|row| row.owner).collect()
    }

    #[test]
    fn where_all_have_room_nobody_is_left_out() {
        let mut rows = Rows::new(3);
        (1..=3).for_each(|thread| count_events(&mut rows, thread, 1));
        assert!(rows.fit().is_empty());
        assert_eq!((rows.all().len(), rows.left_out), (3, LeftOutRows::default()));
    }

    #[test]
    fn threads_that_end_go_while_more_come_and_those_that_do_more_stay() {
        let mut rows = Rows::new(4);
        rows.other(RowOwner::Losses);
        count_events(&mut rows, 1, 5);
        for thread in 2..100 {
            count_events(&mut rows, thread, 1);
            let row = rows.thread(ThreadId(thread)).unwrap();
            rows.get(row).ended = true;
        }
        assert!(rows.all().len() <= 8, "some went before the end: {}", rows.all().len());
        assert!(rows.is_left_out(ThreadId(50)) && rows.thread(ThreadId(50)).is_none());
        count_events(&mut rows, 100, 4);
        let gone = rows.fit();
        assert!(gone.iter().all(|row| row.events() == 1));
        let [busy, last] = [1, 100].map(|thread| RowOwner::Thread(ThreadId(thread)));
        assert_eq!(owners(&rows), [RowOwner::Losses, busy, last, RowOwner::LeftOut]);
        // What comes of a thread that was left out is counted with what it had.
        assert_eq!(rows.left_out, LeftOutRows { rows: 98, events: 98 + 1 });
    }

    #[test]
    fn what_rows_ran_that_are_gone_counts_for_the_cpus() {
        let (mut rows, step) = (Rows::new(2), 100_000_000);
        for thread in 1..=10 {
            let row = rows.thread(ThreadId(thread)).unwrap();
            let row = rows.get(row);
            let start = i64::from(thread - 1) * step / 10;
            let (wakeup, end) = (start, start + step / 20);
            row.intervals.push(Interval { wakeup, start, end, cpu: 0, wakeup_cpu: 0, state: -1 });
            row.ended = true;
        }
        assert!(rows.left_out.rows > 0);
        assert_eq!(rows.usage(step).values(1, step), [(step, 50.0)]);
    }

    #[test]
    fn of_threads_that_live_none_is_left_out_before_the_end() {
        let mut rows = Rows::new(3);
        (1..100).for_each(|thread| count_events(&mut rows, thread, u64::from(thread)));
        assert_eq!(rows.all().len(), 99);
        let row = rows.thread(ThreadId(7)).unwrap();
        assert_eq!(rows.fit().len(), 97);
        assert_eq!(owners(&rows)[..2], [98, 99].map(|thread| RowOwner::Thread(ThreadId(thread))));
        assert!(rows.find(row).is_none());
    }
}
