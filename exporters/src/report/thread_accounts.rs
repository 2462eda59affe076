//! The books of all threads, and what processes and threads did.

use super::account::{LongestWait, ThreadAccount};
use super::data::{OtherProcesses, ProcessNameRow, ProcessRow, Table, ThreadRow, Times};
use super::filter::{Family, ProcessFilter};
use super::row_maker::{RowMaker, WaitSpan};
use super::wait_for::is_recorder;
use crate::gaps::Gaps;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};
use syscollect_model::{ProcessId, Scope, Tables, ThreadId, TrackId};

/// The books of all threads that were heard of, those of idle first.
#[derive(Debug)]
pub(super) struct ThreadAccounts {
    /// When the session begins, nanoseconds.
    origin: u64,
    /// Whom the report is about; `None` is the whole machine.
    filter: Option<ProcessFilter>,
    /// By machine, the processes of which everything is recorded; `None` for all.
    recorded: Vec<Option<ProcessFilter>>,
    accounts: Vec<ThreadAccount>,
}

/// What a thread has done until now.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadTimes {
    pub(super) thread: ThreadId,
    pub(super) times: Times,
}

impl ThreadAccounts {
    pub(super) fn new(filter: Option<ProcessFilter>) -> Self {
        Self { origin: 0, filter, recorded: Vec::new(), accounts: Vec::new() }
    }

    /// The thread's books. Those of threads that began later begin there.
    #[inline]
    pub(super) fn get(&mut self, thread: ThreadId, tables: &Tables) -> &mut ThreadAccount {
        if thread.index() >= self.accounts.len() {
            self.add_up_to(thread, tables);
        }
        &mut self.accounts[thread.index()]
    }

    #[cold]
    fn add_up_to(&mut self, last: ThreadId, tables: &Tables) {
        for index in self.accounts.len()..=last.index() {
            let row = tables.thread(ThreadId(index as u32));
            let since = row.start.map_or(self.origin, |start| start.0.max(self.origin));
            let chosen = self.is_chosen_process(row.process, tables);
            let mut account = ThreadAccount::new(row.process, chosen, since);
            account.is_partial = !self.is_recorded(row.process, tables);
            self.accounts.push(account);
        }
    }

    /// Whether all that the process does is recorded, and not only what concerns others.
    fn is_recorded(&mut self, process: ProcessId, tables: &Tables) -> bool {
        let new = tables.machines.iter().skip(self.recorded.len());
        self.recorded.extend(new.map(|machine| match &machine.filter_pids[..] {
            [] => None,
            pids => Some(ProcessFilter::Family(Family::new(pids.to_vec()))),
        }));
        let machine = usize::from(tables.process(process).machine.0);
        let filter = self.recorded.get(machine).and_then(Option::as_ref);
        filter.is_none_or(|filter| filter.matches(process, tables))
    }

    /// Those of all threads but idle.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ThreadId, &ThreadAccount)> {
        (0..).map(ThreadId).zip(&self.accounts).skip(1)
    }

    /// All threads but idle.
    pub(super) fn ids(&self) -> impl Iterator<Item = ThreadId> + use<> {
        (1..self.accounts.len() as u32).map(ThreadId)
    }

    /// When the session begins.
    pub(super) fn origin(&self) -> u64 {
        self.origin
    }

    /// The session begins; called before any event.
    pub(super) fn begin(&mut self, now: u64) {
        self.origin = now;
    }

    /// The session begins later than it seemed: of what was before only the lives of tasks are
    /// told.
    pub(super) fn begin_anew(&mut self, now: u64) {
        self.origin = now;
        self.accounts.iter_mut().for_each(|account| account.begin_anew(now));
    }

    /// Events of any threads were overwritten until now.
    pub(super) fn doubt_sleepers(&mut self) {
        self.accounts.iter_mut().for_each(ThreadAccount::doubt_sleep);
    }

    /// What came until now is not told of.
    pub(super) fn forget_before(&mut self, now: u64, gaps: &Gaps) {
        self.origin = now;
        self.accounts.iter_mut().for_each(|account| account.forget_before(now, gaps));
    }

    /// Nothing is known of what threads did until now.
    pub(super) fn forget(&mut self, now: u64) {
        self.accounts.iter_mut().for_each(|account| account.forget(now));
    }

    /// Whether the report is about the thread. Idle belongs to the whole machine only.
    #[inline]
    pub(super) fn is_chosen(&mut self, thread: ThreadId, tables: &Tables) -> bool {
        self.filter.is_none() || self.get(thread, tables).chosen
    }

    pub(super) fn is_chosen_process(&self, process: ProcessId, tables: &Tables) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(process, tables))
    }

    /// Whether the report is about what nobody, or this process, did.
    pub(super) fn is_chosen_owner(&self, owner: Option<ProcessId>, tables: &Tables) -> bool {
        match owner {
            Some(process) => self.is_chosen_process(process, tables),
            None => self.filter.is_none(),
        }
    }

    pub(super) fn is_chosen_track(&mut self, track: TrackId, tables: &Tables) -> bool {
        match tables.track(track).scope {
            Scope::Machine(_) | Scope::Cpu(_) => self.filter.is_none(),
            Scope::Process(process) => self.is_chosen_process(process, tables),
            Scope::Thread(thread) => self.is_chosen(thread, tables),
        }
    }

    /// What the thread of a track has done until now; `None` for a track of no thread.
    pub(super) fn times_on_track(
        &mut self,
        now: u64,
        track: TrackId,
        tables: &Tables,
    ) -> Option<ThreadTimes> {
        let Scope::Thread(thread) = tables.track(track).scope else { return None };
        Some(ThreadTimes { thread, times: self.get(thread, tables).times_at(now) })
    }

    /// The threads that did something and are asked for.
    fn active(&self) -> impl Iterator<Item = (ThreadId, &ThreadAccount)> {
        self.iter().filter(|(_, account)| account.chosen && account.is_active())
    }

    pub(super) fn threads(&self, maker: RowMaker<'_>) -> Table<ThreadRow> {
        let rows = self.active().map(|(thread, account)| {
            let process = maker.process(account.process);
            ThreadRow {
                tid: maker.tables.thread(thread).tid,
                name: maker.tables.thread_name(thread).into(),
                pid: process.pid,
                process: process.name,
                activity: account.activity(),
            }
        });
        // Equal rows stay in the order of the tables.
        maker.table(rows.collect(), |row| (row.activity.busiest_first(), row.tid))
    }

    /// All of them, in the order of the tables.
    pub(super) fn processes(&self, maker: RowMaker<'_>) -> Vec<ProcessRow> {
        let mut rows = BTreeMap::<ProcessId, ProcessRow>::new();
        // Some traces tell of processes and of none of their threads.
        let reported = self.iter().filter(|(_, account)| account.chosen && account.reported);
        rows.extend(reported.map(|(_, account)| (account.process, ProcessRow::default())));
        for (_, account) in self.active() {
            let row = rows.entry(account.process).or_default();
            row.threads += 1;
            row.activity.add(&account.activity());
        }
        for (id, row) in &mut rows {
            let process = maker.process(*id);
            (row.pid, row.name) = (process.pid, process.name);
        }
        rows.into_values().collect()
    }

    /// What is left out of the tables.
    pub(super) fn others(&self, tables: &Tables) -> OtherProcesses {
        let mut processes = BTreeSet::new();
        let mut others = OtherProcesses::default();
        let left_out = self.iter().filter(|(_, account)| !account.chosen && account.is_active());
        for (_, account) in left_out {
            processes.insert(tables.process(account.process).pid);
            others.on_cpu_ns = others.on_cpu_ns.saturating_add(account.times.on_cpu_ns);
        }
        others.processes = processes.len();
        others
    }

    /// The longest wait for a CPU of a program: threads of the kernel give way to others, and the
    /// recorder is not what anybody wanted to know of. The first of equals.
    pub(super) fn longest_program_wait(&self, tables: &Tables) -> Option<WaitSpan> {
        let programs = self.iter().filter(|(_, account)| is_program(account, tables));
        let waits = programs.map(|(thread, account)| {
            let LongestWait { waited, since } = account.longest_wait;
            WaitSpan { waited, since, thread }
        });
        let waits = waits.filter(|wait| wait.waited > 0);
        waits.max_by_key(|wait| (wait.waited, Reverse((wait.since, wait.thread))))
    }
}

/// Of a thread that was got before.
impl Index<ThreadId> for ThreadAccounts {
    type Output = ThreadAccount;

    #[inline]
    fn index(&self, thread: ThreadId) -> &ThreadAccount {
        &self.accounts[thread.index()]
    }
}

impl IndexMut<ThreadId> for ThreadAccounts {
    #[inline]
    fn index_mut(&mut self, thread: ThreadId) -> &mut ThreadAccount {
        &mut self.accounts[thread.index()]
    }
}

fn is_program(account: &ThreadAccount, tables: &Tables) -> bool {
    let process = account.process;
    account.chosen && !tables.process(process).kernel && !is_recorder(process, tables)
}

/// The sums over processes of one name, where there are several.
pub(super) fn by_name(processes: &[ProcessRow], maker: RowMaker<'_>) -> Table<ProcessNameRow> {
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
    maker.table(several.collect(), |row| (row.activity.busiest_first(), row.name.clone()))
}
