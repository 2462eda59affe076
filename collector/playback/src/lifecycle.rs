//! What happens to processes and threads.

use syscollect_model::{Event, ProcessId, StringId, ThreadId};

/// A step in the life of a process or thread, which every source tells of. The tables have its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleEvent {
    /// From now on the id means this thread; nothing is told of it.
    Bind(u32, ThreadId),
    /// A process started.
    ProcessStart(ProcessId),
    /// A process began another program, of that name.
    ProcessExec(ProcessId, StringId),
    /// A process ended.
    ProcessEnd(ProcessId),
    /// A thread started.
    ThreadStart(ThreadId),
    /// A thread is called so from now on.
    ThreadName(ThreadId, StringId),
    /// A thread ended.
    ThreadEnd(ThreadId),
}

impl LifecycleEvent {
    /// What exporters are told; `None` where nothing is.
    pub(crate) fn event(self) -> Option<Event> {
        Some(match self {
            Self::Bind(..) => return None,
            Self::ProcessStart(process) => Event::ProcessStart(process),
            Self::ProcessExec(process, name) => Event::ProcessExec(process, name),
            Self::ProcessEnd(process) => Event::ProcessEnd(process),
            Self::ThreadStart(thread) => Event::ThreadStart(thread),
            Self::ThreadName(thread, name) => Event::ThreadName(thread, name),
            Self::ThreadEnd(thread) => Event::ThreadEnd(thread),
        })
    }
}
