//! Rows as the file's threads: which number, names and place each has.

use super::rows::{self, Row, RowId, RowOwner, Rows};
use super::strings::{FileStrings, pointer};
use super::wire::Payload;
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use syscollect_model::{MachineId, ProcessId, Tables};

/// A row as a thread of the file.
#[derive(Debug)]
pub(crate) struct FileThread {
    /// What it is called by wherever it is meant.
    pub(crate) number: u64,
    /// The index in the file's table of threads; 0 is thread 0.
    pub(crate) index: u16,
    /// The index in the table of external threads; 0 for those that never ran.
    pub(crate) external: u16,
    /// Where it is among the others: those of one process together, in the order of the
    /// processes; before them the machine's, behind them idle CPUs.
    pub(crate) group_hint: i32,
    /// The whole name; of the process; of the thread.
    names: [u32; 3],
}

/// All of them.
pub(crate) struct Threads {
    all: Vec<FileThread>,
    /// Which one stands for each row, by its id: its own, or that of the rows that are left out.
    positions: Vec<u32>,
}

impl Threads {
    /// The threads of at most 65,535 rows.
    pub(crate) fn new(rows: &Rows, strings: &mut FileStrings, tables: &Tables) -> Self {
        let mut numbers = Numbers::default();
        let mut hints = GroupHints::default();
        let mut external = 0;
        let mut all = Vec::new();
        for row in rows.all() {
            let (process, thread) = rows::names(row.owner, tables);
            let names = [&format!("{process} / {thread}"), &process, &thread];
            external += u16::from(!row.intervals.is_empty());
            all.push(FileThread {
                number: numbers.next(row.owner, tables),
                index: all.len() as u16 + 1,
                external: if row.intervals.is_empty() { 0 } else { external },
                group_hint: hints.next(row.owner, tables),
                names: names.map(|name| strings.intern(name)),
            });
        }
        let rest = rows.all().iter().position(|row| row.owner == RowOwner::LeftOut);
        let rest = rest.unwrap_or_default() as u32;
        Self { all, positions: rows.positions().map(|position| position.unwrap_or(rest)).collect() }
    }

    /// What stands for a row.
    pub(crate) fn of(&self, row: RowId) -> &FileThread {
        &self.all[self.positions[row.0 as usize] as usize]
    }

    /// All rows with what stands for them.
    pub(crate) fn of_rows<'a>(
        &'a self,
        rows: &'a Rows,
    ) -> impl Iterator<Item = (&'a Row, &'a FileThread)> + Clone {
        rows.all().iter().zip(&self.all)
    }

    fn externals(&self) -> impl Iterator<Item = &FileThread> {
        self.all.iter().filter(|thread| thread.external != 0)
    }

    /// Writes the tables of threads.
    pub(crate) fn write<W: Write>(&self, out: &mut Payload<W>) -> io::Result<()> {
        out.count(self.all.len())?;
        for FileThread { number, names: [name, ..], .. } in &self.all {
            out.u64(*number)?;
            out.u64(pointer(*name))?;
        }
        // The viewer's list of CPUs asks here for the processes.
        out.count(self.externals().count())?;
        for FileThread { number, names: [_, process, thread], .. } in self.externals() {
            out.u64(*number)?;
            out.u64(pointer(*process))?;
            out.u64(pointer(*thread))?;
        }
        // Every thread is local, so that the viewer shows it; index 0 is thread 0 in both tables.
        out.count(1 + self.all.len())?;
        out.u64(0)?;
        self.all.iter().try_for_each(|thread| out.u64(thread.number))?;
        out.count(1 + self.externals().count())?;
        out.u64(0)?;
        self.externals().try_for_each(|thread| out.u64(thread.number))
    }

    /// Writes of which process each thread is.
    pub(crate) fn write_processes<W: Write>(
        &self,
        out: &mut Payload<W>,
        rows: &Rows,
        tables: &Tables,
    ) -> io::Result<()> {
        let pids = self.of_rows(rows).filter_map(|(row, thread)| {
            Some((thread.number, tables.process(rows::process(row.owner, tables)?).pid))
        });
        out.count(pids.clone().count())?;
        for (number, pid) in pids {
            out.u64(number)?;
            out.u64(pid.into())?;
        }
        Ok(())
    }
}

/// The numbers of threads.
///
/// A thread id that was used again is another thread, so its later owners get a number above 32
/// bits: the count of former owners there, the id below. The bits from 48 on are the machine.
struct Numbers(FxHashMap<(MachineId, u32), u64>);

impl Default for Numbers {
    fn default() -> Self {
        // Number 0 stands for no thread.
        Self(FxHashMap::from_iter([((MachineId::FIRST, 0), 1)]))
    }
}

impl Numbers {
    fn next(&mut self, owner: RowOwner, tables: &Tables) -> u64 {
        match owner {
            RowOwner::Thread(thread) => {
                let tid = tables.thread(thread).tid;
                let machine = tables.machine_of(thread);
                let former = self.0.entry((machine, tid)).or_default();
                *former += 1;
                u64::from(machine.0) << 48 | (*former - 1) << 32 | u64::from(tid)
            }
            RowOwner::IdleCpu(cpu) => {
                1 << 60 | u64::from(cpu.machine.0) << 32 | u64::from(cpu.number)
            }
            RowOwner::Track(track) => 2 << 60 | u64::from(track.0),
            RowOwner::Losses => 3 << 60,
            RowOwner::LeftOut => 4 << 60,
        }
    }
}

/// See [`FileThread::group_hint`].
#[derive(Default)]
struct GroupHints(FxHashMap<ProcessId, i32>);

impl GroupHints {
    fn next(&mut self, owner: RowOwner, tables: &Tables) -> i32 {
        match (owner, rows::process(owner, tables)) {
            (RowOwner::IdleCpu(_), _) => i32::MAX,
            (_, None) => 0,
            (_, Some(process)) => {
                let next = self.0.len() as i32 + 1;
                *self.0.entry(process).or_insert(next)
            }
        }
    }
}
