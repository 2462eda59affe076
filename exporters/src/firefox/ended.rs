//! A session at its end: its threads in the file's order, with the names and ids they go by.

use super::counters::{Counter, Display, display, display_pool};
use super::meta::ProfileSpan;
use super::threads::ThreadState;
use crate::heap::PoolKey;
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use syscollect_model::{ProcessId, Scope, SessionInfo, StringId, Tables, ThreadId, Time, TrackId};

/// Everything that is written, besides the shared tables.
#[derive(Default)]
pub(super) struct EndedProfile {
    pub(super) span: ProfileSpan,
    pub(super) meta: Value,
    pub(super) threads: Vec<EndedThread>,
    pub(super) counters: Vec<EndedCounter>,
}

/// A thread with what the format says of it.
pub(super) struct EndedThread {
    pub(super) state: Box<ThreadState>,
    process: ProcessId,
    pub(super) name: String,
    pub(super) process_name: String,
    pub(super) pid: String,
    pub(super) tid: String,
    pub(super) main: bool,
    /// It is a queue of a GPU, not a thread.
    pub(super) queue: bool,
    /// Start and end, nanoseconds since the origin; of the process, and of the thread.
    pub(super) process_lifetime: (u64, Option<u64>),
    pub(super) lifetime: (u64, Option<u64>),
}

impl EndedThread {
    /// Whether it is of process 0, the machine.
    pub(super) fn is_of_machine(&self) -> bool {
        self.process == Tables::IDLE_PROCESS
    }

    /// Its time on CPUs.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.state.samples.iter().map(|row| row.cpu_ns).sum()
    }
}

/// A counter with what the format says of it.
pub(super) struct EndedCounter {
    pub(super) name: String,
    pub(super) category: &'static str,
    pub(super) display: Value,
    pub(super) pid: String,
    pub(super) main_thread: usize,
    /// Nanoseconds of the session, and the growth since the row before.
    pub(super) rows: Vec<(u64, f64)>,
}

/// Ids by number: one that was used twice gets `.1` and so on, as the viewer takes them for
/// identities.
#[derive(Default)]
struct Ids(FxHashMap<u32, u32>);

impl Ids {
    fn take(&mut self, id: u32) -> String {
        let used = self.0.entry(id).or_default();
        *used += 1;
        match *used {
            1 => id.to_string(),
            times => format!("{id}.{}", times - 1),
        }
    }
}

/// The threads that have a state, in the order in which the viewer is to show them.
pub(super) fn threads(
    states: Vec<Option<Box<ThreadState>>>,
    session: &SessionInfo,
    span: ProfileSpan,
    tables: &Tables,
) -> Vec<EndedThread> {
    let mut list = named(states, session, span, tables);
    busiest_first(&mut list);
    list
}

/// Process 0, the machine, stands first, then processes and their threads by CPU time, each one's
/// first thread first.
fn busiest_first(list: &mut [EndedThread]) {
    let mut sums: FxHashMap<ProcessId, u64> = FxHashMap::default();
    for thread in &*list {
        let sum = sums.entry(thread.process).or_default();
        *sum = sum.saturating_add(thread.cpu_ns());
    }
    list.sort_by_cached_key(|thread| {
        let sum = sums.get(&thread.process).copied().unwrap_or_default();
        (
            !thread.is_of_machine(),
            Reverse(sum),
            thread.process,
            !thread.main,
            Reverse(thread.cpu_ns()),
        )
    });
}

/// The threads with their ids, by process and in the order in which they were met.
fn named(
    states: Vec<Option<Box<ThreadState>>>,
    session: &SessionInfo,
    span: ProfileSpan,
    tables: &Tables,
) -> Vec<EndedThread> {
    let mut ids: Vec<(ThreadId, Box<ThreadState>)> = (0u32..)
        .zip(states)
        .filter_map(|(index, state)| state.map(|state| (ThreadId(index), state)))
        .collect();
    ids.sort_by_key(|(id, _)| {
        let row = tables.thread(*id);
        (row.process, row.tid != tables.process(row.process).pid, *id)
    });
    let machine = if session.hostname.is_empty() { "Machine" } else { &session.hostname };
    let (mut pids, mut tids) = (Ids::default(), Ids::default());
    let mut list: Vec<EndedThread> = Vec::with_capacity(ids.len());
    for (id, state) in ids {
        let row = tables.thread(id);
        let process = tables.process(row.process);
        let before = list.last().filter(|before| before.process == row.process);
        let (pid, main) = before
            .map_or_else(|| (pids.take(process.pid), true), |before| (before.pid.clone(), false));
        let idle = row.process == Tables::IDLE_PROCESS;
        list.push(EndedThread {
            state,
            process: row.process,
            name: if idle { "idle" } else { tables.strings.get(row.name) }.to_owned(),
            process_name: match idle {
                true => machine.to_owned(),
                false => tables.process_name(row.process).into(),
            },
            pid,
            tid: tids.take(row.tid),
            main,
            queue: false,
            process_lifetime: lifetime(process.start, process.end, span.origin),
            lifetime: lifetime(row.start, row.end, span.origin),
        });
    }
    list
}

/// When it began and ended, in nanoseconds from `origin` on.
fn lifetime(start: Option<Time>, end: Option<Time>, origin: u64) -> (u64, Option<u64>) {
    let start = start.map_or(0, |time| time.0.saturating_sub(origin));
    (start, end.map(|time| time.0.saturating_sub(origin)))
}

/// Adds a thread for each queue of a GPU, beside the threads of its process.
pub(super) fn add_queues(
    threads: &mut Vec<EndedThread>,
    queues: BTreeMap<(ProcessId, StringId), Box<ThreadState>>,
    tables: &Tables,
) {
    for ((process, name), state) in queues {
        let Some(beside) = threads.iter().find(|thread| thread.process == process) else {
            continue;
        };
        let queue = EndedThread {
            state,
            process,
            name: format!("GPU: {}", tables.strings.get(name)),
            process_name: beside.process_name.clone(),
            pid: beside.pid.clone(),
            // No thread of a system has such an id.
            tid: format!("queue {}", threads.len()),
            main: false,
            queue: true,
            process_lifetime: beside.process_lifetime,
            lifetime: beside.process_lifetime,
        };
        threads.push(queue);
    }
}

/// The counters, each at the first thread of its process; those of processes that are left out are
/// too.
pub(super) fn counters(
    counters: &BTreeMap<TrackId, Counter>,
    pools: &BTreeMap<PoolKey, Counter>,
    threads: &[EndedThread],
    tables: &Tables,
) -> Vec<EndedCounter> {
    let mut list = Vec::new();
    for (track, counter) in counters {
        let process = process_of(tables.track(*track).scope, tables);
        let display = display(*track, list.len(), tables);
        list.extend(ended_counter(process, counter, display, threads));
    }
    for ((process, pool), counter) in pools {
        let display = display_pool(pool.map(|name| tables.strings.get(name)), list.len());
        list.extend(ended_counter(*process, counter, display, threads));
    }
    list
}

/// The counter at the first thread of its process; `None` where that is left out.
fn ended_counter(
    process: ProcessId,
    counter: &Counter,
    display: Display,
    threads: &[EndedThread],
) -> Option<EndedCounter> {
    let main_thread = threads.iter().position(|thread| thread.process == process)?;
    Some(EndedCounter {
        name: display.name,
        category: display.category,
        display: display.config,
        pid: threads[main_thread].pid.clone(),
        main_thread,
        rows: counter.rows(display.scale).collect(),
    })
}

/// The process under which something of that scope lies.
pub(super) fn process_of(scope: Scope, tables: &Tables) -> ProcessId {
    match scope {
        Scope::Machine(_) | Scope::Cpu(_) => Tables::IDLE_PROCESS,
        Scope::Process(id) => id,
        Scope::Thread(id) => tables.thread(id).process,
    }
}

/// The first thread of a process, or whichever of its threads is known.
pub(super) fn main_thread(process: ProcessId, tables: &Tables) -> ThreadId {
    let pid = tables.process(process).pid;
    let mut found = Tables::IDLE_THREAD;
    for (index, row) in tables.threads.numbered().filter(|(_, row)| row.process == process) {
        if row.tid == pid {
            return ThreadId(index);
        }
        if found == Tables::IDLE_THREAD {
            found = ThreadId(index);
        }
    }
    found
}
