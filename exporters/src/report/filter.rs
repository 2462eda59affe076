//! Which process a report is about.

use std::fmt;
use std::str::FromStr;
use syscollect_model::{ProcessId, Tables};

/// The kernel cuts the names of tasks to this many bytes (`TASK_COMM_LEN` less the zero).
const KERNEL_NAME_BYTES: usize = 15;

/// One process by its id, or all processes of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessFilter {
    /// Every process that had this id.
    Pid(u32),
    /// Every process of this name: the last that the kernel knew, or the file name of its program.
    Name(String),
}

impl ProcessFilter {
    /// Whether the process is meant.
    pub fn matches(&self, process: ProcessId, tables: &Tables) -> bool {
        let row = tables.process(process);
        match self {
            Self::Pid(pid) => row.pid == *pid,
            Self::Name(name) => {
                let known = tables.strings.get(row.name);
                let program = row.command_line.first().map(String::as_str);
                let file = program.and_then(|path| path.rsplit('/').next());
                known == name
                    || (is_windows_program(known) && known.eq_ignore_ascii_case(name))
                    || file == Some(name)
                    || (known.len() == KERNEL_NAME_BYTES && name.get(..KERNEL_NAME_BYTES) == Some(known))
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

impl fmt::Display for ProcessFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "{pid}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}
