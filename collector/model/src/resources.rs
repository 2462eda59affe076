//! Locks, memory, crashes: what programs tell of themselves beside zones.

use crate::{LocationId, LockId, ProcessId, StackId, StringId, ThreadId};

/// A lock of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Whose it is.
    pub process: ProcessId,
    /// Its name.
    pub name: StringId,
    /// Several readers may hold it together.
    pub shared: bool,
    /// Where it was made.
    pub location: Option<LocationId>,
}

/// Something that happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockEvent {
    /// The lock.
    pub lock: LockId,
    /// Who does it.
    pub thread: ThreadId,
    /// What.
    pub action: LockAction,
    /// As one of several readers.
    pub shared: bool,
    /// Where in the source.
    pub location: Option<LocationId>,
}

/// What happens to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockAction {
    /// The thread begins to wait.
    Wait,
    /// It has the lock.
    Obtain,
    /// It lets go.
    Release,
    /// It stops waiting without the lock.
    GiveUp,
}

/// Memory that is allocated or freed. Between threads these come in one order:
/// an address is never allocated twice without being freed, unless events are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// Who does it.
    pub thread: ThreadId,
    /// The pool it belongs to; `None` is the program's heap.
    pub pool: Option<StringId>,
    /// The address.
    pub address: u64,
    /// Bytes; `None` when the memory is freed.
    pub allocated: Option<u64>,
    /// Where in the code.
    pub stack: Option<StackId>,
}

/// A thread that takes its process down, as the program's own handler tells: what it claims is true
/// where a [`SignalExit`] of the process follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The thread.
    pub thread: ThreadId,
    /// The signal's name, `"SIGSEGV"`.
    pub signal: StringId,
    /// Why it was sent, `"SEGV_MAPERR"`.
    pub code: StringId,
    /// The address the signal is about; 0 where it has none.
    pub address: u64,
    /// Where it happened, without the handler's own frames.
    pub stack: Option<StackId>,
}

/// A process that a signal ended, as the kernel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalExit {
    /// The process.
    pub process: ProcessId,
    /// The thread that the signal struck, which the kernel tells where it dumped the core.
    pub thread: Option<ThreadId>,
    /// The signal's name, `"SIGSEGV"`.
    pub signal: StringId,
    /// It is a signal by which programs crash, not one by which somebody ends them.
    pub is_crash: bool,
    /// The kernel wrote the process's memory to a file or to a program.
    pub has_core_dump: bool,
}
