//! Which process a report is about.

use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use syscollect_model::{ProcessId, Tables};

use super::text::words::shown;

/// The kernel cuts the names of tasks to this many bytes (`TASK_COMM_LEN` less the zero).
const KERNEL_NAME_BYTES: usize = 15;

/// Some of the processes of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessFilter {
    /// One by its id: every process that had it.
    Pid(u32),
    /// Every process of this name: the last that the kernel knew, or the file name of its program.
    Name(String),
    /// Some processes by their ids, and all that they begot.
    Family(Family),
}

/// Processes and their descendants, in one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    pids: Vec<u32>,
    /// Found when it is first asked for: a session names all of whom it knows a parent before its
    /// first event.
    members: OnceLock<FxHashSet<ProcessId>>,
}

impl Family {
    /// Those with these ids, and their descendants.
    pub fn new(pids: Vec<u32>) -> Self {
        Self { pids, members: OnceLock::new() }
    }

    fn has(&self, process: ProcessId, tables: &Tables) -> bool {
        self.pids.contains(&tables.process(process).pid)
            || self.members.get_or_init(|| self.descendants(tables)).contains(&process)
    }

    fn descendants(&self, tables: &Tables) -> FxHashSet<ProcessId> {
        let parents: FxHashMap<u32, Option<u32>> =
            tables.processes.iter().map(|row| (row.pid, row.parent_pid)).collect();
        let all = tables.processes.numbered().map(|(number, row)| (ProcessId(number), row));
        all.filter(|(_, row)| self.descends(row.pid, &parents)).map(|(id, _)| id).collect()
    }

    /// Whether the process has one of those among its ancestors.
    fn descends(&self, pid: u32, parents: &FxHashMap<u32, Option<u32>>) -> bool {
        // As deep as trees of processes are; the limit ends a circle that damage could describe.
        let mut above = Some(pid);
        (0..64).any(|_| {
            above = above.and_then(|pid| parents.get(&pid).copied().flatten());
            above.is_some_and(|pid| self.pids.contains(&pid))
        })
    }
}

impl ProcessFilter {
    /// Whether the process is meant.
    pub fn matches(&self, process: ProcessId, tables: &Tables) -> bool {
        let row = tables.process(process);
        match self {
            Self::Pid(pid) => row.pid == *pid,
            Self::Family(family) => family.has(process, tables),
            Self::Name(name) => {
                let known = tables.strings.get(row.name);
                let program = row.command_line.first().map(String::as_str);
                let file = program.and_then(|path| path.rsplit('/').next());
                known == name
                    // As the report shows it, whose characters nobody can type.
                    || (name.contains('\\') && shown(known) == *name)
                    || (is_windows_program(known) && known.eq_ignore_ascii_case(name))
                    || file == Some(name)
                    || (known.len() == KERNEL_NAME_BYTES
                        && name.get(..KERNEL_NAME_BYTES) == Some(known))
            }
        }
    }
}

/// Windows does not tell capital letters from small ones in the names of its programs.
fn is_windows_program(name: &str) -> bool {
    let at = name.len().saturating_sub(4);
    name.get(at..).is_some_and(|extension| extension.eq_ignore_ascii_case(".exe"))
}

impl FromStr for ProcessFilter {
    type Err = std::convert::Infallible;

    /// A number is a process id; anything else is a name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Pid))
    }
}

/// Ids that are shown of processes that a recording was limited to: a server may have hundreds.
const SHOWN_PIDS: usize = 6;

/// The first of them, in the order in which they were asked for, and how many more there are.
pub(super) fn shown_pids(pids: &[u32]) -> String {
    let mut words: Vec<_> = pids.iter().take(SHOWN_PIDS).map(u32::to_string).collect();
    if let Some(more) = pids.len().checked_sub(SHOWN_PIDS).filter(|more| *more > 0) {
        words.push(format!("{more} more"));
    }
    words.join(", ")
}

impl fmt::Display for ProcessFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "{pid}"),
            Self::Name(name) => f.write_str(name),
            Self::Family(Family { pids, .. }) => {
                let own = if let [_] = pids[..] { "its" } else { "their" };
                write!(f, "{} and {own} children", shown_pids(pids))
            }
        }
    }
}
