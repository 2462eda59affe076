//! Which processes an export is limited to.

use std::convert::Infallible;
use std::str::FromStr;
use syscollect_model::{ProcessId, Tables};

/// Processes by id or by name.
///
/// ```
/// use syscollect_exporters::ProcessFilter;
/// use syscollect_model::Tables;
///
/// let filter: ProcessFilter = "swapper".parse()?;
/// assert!(filter.keeps(Tables::IDLE_PROCESS, &Tables::default()));
/// assert_eq!("17".parse(), Ok(ProcessFilter::Pid(17)), "a number is a process id");
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessFilter {
    /// Every process that had this id.
    Pid(u32),
    /// Every process of this name, or whose program's file has it.
    Name(String),
}

impl ProcessFilter {
    /// Whether a process is one of them.
    pub fn keeps(&self, process: ProcessId, tables: &Tables) -> bool {
        let row = tables.process(process);
        match self {
            Self::Pid(pid) => row.pid == *pid,
            Self::Name(name) => {
                // The kernel cuts names after 15 bytes; the command line has the whole.
                let program = row.command_line.first().map(|path| path.rsplit('/').next().unwrap_or(path));
                tables.strings.get(row.name) == name || program == Some(name)
            }
        }
    }
}

impl FromStr for ProcessFilter {
    type Err = Infallible;

    /// A number is a process id, everything else a name.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Pid))
    }
}
