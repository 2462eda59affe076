//! Names of threads and processes that a viewer was told, beside those of the same recorder's
//! snapshot.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use syscollect_model::{Event, Tables};
use syscollect_tests::tracy_viewer::{ReceivedThread, ReceivedTimeline};

/// Names of a thread and its process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ThreadNames {
    process: String,
    thread: String,
}

/// All of a file.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By id, which several threads may have had. They are the last ones.
    threads: BTreeMap<u32, BTreeSet<ThreadNames>>,
    /// Threads that had another name before, by id.
    renamed: BTreeSet<u32>,
    /// Processes that did, or ran another program.
    renamed_processes: BTreeSet<u32>,
}

impl Names {
    /// Something may get another name.
    pub(super) fn event(&mut self, event: &Event, tables: &Tables) {
        match event {
            Event::ThreadName(thread, _) | Event::ThreadStart(thread) => {
                let thread = tables.thread(*thread);
                self.renamed.insert(thread.tid);
                let pid = tables.process(thread.process).pid;
                if thread.tid == pid {
                    self.renamed_processes.insert(pid);
                }
            }
            Event::ProcessExec(process, _) | Event::ProcessStart(process) => {
                self.renamed_processes.insert(tables.process(*process).pid);
            }
            _ => {}
        }
    }

    /// All was told.
    pub(super) fn end(&mut self, tables: &Tables) {
        for thread in tables.threads.iter() {
            let process = tables.process_name(thread.process).into_owned();
            let names = ThreadNames { process, thread: tables.strings.get(thread.name).into() };
            self.threads.entry(thread.tid).or_default().insert(names);
        }
    }

    /// What a viewer was told is what is here; of how many threads. A thread has for the viewer the
    /// name that it had when that asked, and a file has the last.
    pub(super) fn compare(&self, seen: &ReceivedTimeline) -> Result<usize> {
        let mut compared = 0;
        for (tid, told) in &seen.threads {
            let Some(known) = self.threads.get(tid) else { continue };
            let pid = seen.pids.get(tid);
            let is_renamed = pid.is_some_and(|pid| self.renamed_processes.contains(pid));
            if is_renamed || self.renamed.contains(tid) {
                continue;
            }
            let is_it = known.iter().any(|known| is_same(told, known));
            ensure!(is_it, "thread {tid} was told as {told:?}, and is {known:?} in the snapshot");
            compared += 1;
        }
        Ok(compared)
    }
}

/// Whether what was told of a thread is so. Not all of it may have been asked for.
fn is_same(told: &ReceivedThread, ThreadNames { process, thread }: &ThreadNames) -> bool {
    let label = format!("{process} / {thread}");
    let parts = [(&told.label, &label), (&told.name, thread), (&told.process, process)];
    parts.into_iter().all(|(told, known)| told.is_empty() || told == known)
}
