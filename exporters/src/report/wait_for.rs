//! What threads wait for, by the functions that they sleep in, and whether that is work.
//!
//! The rules, of which the first that applies counts:
//!
//! 1. The innermost function of the kernel's part of the stack that is not the scheduler's own is
//!    in [`KERNEL`]. A wait for a futex is what the program's own functions next to it say
//!    ([`USER`], [`USER_PARTS`]), and so it is for events ([`BY_EVENTS`]): a lock (Python's global
//!    one first) before a pool's way to wait, and that before a primitive, because locks and pools
//!    are made of primitives. What is made of locks of Python, its functions say ([`wait_python`]);
//!    where a function that also works waits for work, it calls a runtime's way to wait itself
//!    ([`WORK_LOOPS`], [`RUNTIME_WAITS`]).
//! 2. It is the main function of a kernel thread: such a thread waits for its next work.
//! 3. The stack went through the kernel's way to wait for I/O, or the switch says so.
//! 4. The state: what is uninterruptible is blocked; kernel threads have states of their own for
//!    idling. Of everything else nothing is claimed.
//!
//! Where no stack was taken, only the function that the switch names counts.
//!
//! Of the recorder it is known what its threads wait for when others' may wait for an answer: for
//! what the machine does, which is no time that anybody lacks.

use super::data::WaitClass;
use super::off_cpu::Reason;
use super::wait_names::{
    BY_EVENTS, HELD_BACK, IO, KERNEL, KERNEL_THREAD, RUNTIME_WAITS, SCHEDULER, USER, USER_PARTS,
    WORK_LOOPS,
};
use super::wait_python;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use syscollect_model::{FrameId, ProcessId, SleepState, StackId, Tables};

/// Frames of the program that are looked at, from the system call on.
const USER_FRAMES: usize = 8;

/// Declares what threads wait for, each with its name, which the report's JSON has.
macro_rules! waits {
    ($($wait:ident = $name:literal,)*) => {
        /// What a thread waits for. The order is that of equal rows.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        pub enum WaitFor {
            $(#[doc = $name] #[serde(rename = $name)] $wait,)*
        }

        impl WaitFor {
            /// What is waited for, in the terms of the field.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$wait => $name,)*
                }
            }
        }
    };
}

waits! {
    Lock = "lock",
    Gil = "Python's GIL",
    PythonLock = "Python lock",
    PythonSemaphore = "Python semaphore",
    PythonBarrier = "Python barrier",
    PythonFuture = "Python future",
    PythonQueueRoom = "Python queue (put, join)",
    ChannelRoom = "channel full",
    FileLock = "file lock",
    KernelLock = "kernel lock",
    Completion = "kernel completion",
    Io = "I/O",
    Page = "page of a file or swap",
    Fuse = "FUSE server",
    PipeRoom = "pipe full",
    Child = "child process",
    ThreadEnd = "thread join",
    Connect = "connect",
    Stopped = "stopped",
    Tracer = "tracer",
    Uninterruptible = "uninterruptible sleep",
    Futex = "futex",
    Condition = "condition variable",
    Semaphore = "semaphore",
    Parked = "unpark",
    Channel = "channel message",
    PipeData = "pipe data",
    PipePeer = "FIFO peer",
    Socket = "socket data",
    UnixSocket = "Unix socket data",
    EventFd = "eventfd",
    Unknown = "unknown",
    Events = "events (epoll, poll, select)",
    IoUring = "io_uring",
    Sleep = "sleep",
    Timer = "timer",
    Signal = "signal",
    Connection = "accept",
    Terminal = "terminal input",
    FileChanges = "inotify",
    Pool = "work of a pool",
    PythonQueue = "Python queue (get)",
    PythonEvent = "Python event or condition",
    Kernel = "kernel work",
    VirtualCpu = "virtual CPU",
    Recorder = "the recorder, or what it records",
}

use WaitFor::*;

impl WaitFor {
    /// Whether the thread has nothing to do meanwhile.
    ///
    /// A thread that waits for another of its program, or for data, may wait for work as well as
    /// for an answer: nothing that is recorded says which.
    pub(crate) fn class(self) -> WaitClass {
        match self {
            Lock | Gil | PythonLock | PythonSemaphore | PythonBarrier | PythonFuture
            | PythonQueueRoom | ChannelRoom | FileLock | KernelLock | Completion | Io | Page
            | Fuse | PipeRoom | Child | ThreadEnd | Connect | Stopped | Tracer
            | Uninterruptible => WaitClass::Blocked,
            Futex | Condition | Semaphore | Parked | Channel | PipeData | PipePeer | Socket
            | UnixSocket | EventFd | Unknown => WaitClass::Undecided,
            Events | IoUring | Sleep | Timer | Signal | Connection | Terminal | FileChanges
            | Pool | PythonQueue | PythonEvent | Kernel | VirtualCpu | Recorder => WaitClass::Idle,
        }
    }

    /// Whether functions of the kernel tell more of it than its name does.
    fn is_in_kernel(self) -> bool {
        matches!(
            self,
            KernelLock | Completion | Io | Page | Fuse | Uninterruptible | Unknown | Kernel
        )
    }
}

type ByName = LazyLock<FxHashMap<&'static str, WaitFor>>;

static KERNEL_BY_NAME: ByName = LazyLock::new(|| KERNEL.iter().copied().collect());
static USER_BY_NAME: ByName = LazyLock::new(|| USER.iter().copied().collect());

/// Compilers add endings to parts and copies of a function: `do_wait.part.0`.
fn without_ending(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}

/// C++ has them behind its names.
fn without_parameters(function: &str) -> &str {
    let end = function.strip_suffix(" const").unwrap_or(function);
    let name = end.strip_suffix(')').and_then(|end| end.rsplit_once('('));
    name.map_or(function, |(name, _)| name)
}

pub(super) fn of_kernel_function(function: &str) -> Option<WaitFor> {
    KERNEL_BY_NAME.get(without_ending(function)).copied()
}

/// Rust's closures are called by the function that they are in: `send::{{closure}}`, and
/// `send::{closure#1}` with the newer names.
fn without_closures(function: &str) -> &str {
    let mut function = function;
    while let Some(end) = type_end(function) {
        function = &function[..end];
    }
    function
}

fn type_end(name: &str) -> Option<usize> {
    Some(name.rfind("::{")?).filter(|_| name.ends_with('}'))
}

pub(super) fn of_user_function(function: &str) -> Option<WaitFor> {
    let plain = function.trim_start_matches('_');
    let plain = plain.split('@').next().unwrap_or(plain);
    if let Some(wait) = USER_BY_NAME.get(without_parameters(plain)) {
        return Some(*wait);
    }
    let plain = without_closures(function).chars();
    let plain: String = plain.filter(|c| !matches!(c, '<' | '>')).collect();
    USER_PARTS
        .iter()
        .find(|(begin, end, _)| plain.starts_with(begin) && plain.ends_with(end))
        .map(|(_, _, wait)| *wait)
}

/// What threads waited for that left the CPU so. Each stack is looked at once.
pub(crate) struct WaitsFor<'a> {
    tables: &'a Tables,
    cached: CachedWaits,
}

impl<'a> WaitsFor<'a> {
    pub(crate) fn new(tables: &'a Tables) -> Self {
        Self { tables, cached: CachedWaits::default() }
    }

    pub(crate) fn of(
        &mut self,
        process: ProcessId,
        stack: Option<StackId>,
        reason: Reason,
    ) -> WaitFor {
        self.cached.of(process, stack, reason, self.tables)
    }
}

/// The same while tables grow; always to be asked with the same ones.
#[derive(Debug, Default)]
pub(super) struct CachedWaits {
    cached: FxHashMap<(Option<StackId>, Reason), WaitFor>,
}

impl CachedWaits {
    pub(super) fn of(
        &mut self,
        process: ProcessId,
        stack: Option<StackId>,
        reason: Reason,
        tables: &Tables,
    ) -> WaitFor {
        let cached = self.cached.entry((stack, reason));
        match *cached.or_insert_with(|| wait_for(stack, reason, tables)) {
            wait if wait.class() == WaitClass::Undecided && is_recorder(process, tables) => {
                Recorder
            }
            wait => wait,
        }
    }
}

/// Whether the process is the one that recorded its machine: it was there all the time, so its id
/// was nobody else's.
pub(super) fn is_recorder(process: ProcessId, tables: &Tables) -> bool {
    let row = tables.process(process);
    row.pid != 0 && row.pid == tables.machine(row.machine).recorder_pid
}

fn wait_for(stack: Option<StackId>, reason: Reason, tables: &Tables) -> WaitFor {
    let frames = stack.map_or(&[][..], |stack| tables.stack(stack));
    let in_stack = of_stack(frames, tables);
    match in_stack
        .or_else(|| of_kernel_function(tables.strings.get(reason.blocked_in?)))
        .unwrap_or_else(|| of_state(reason))
    {
        // The kernel counts such waits as I/O if operations are under way.
        IoUring if reason.io_wait => Io,
        wait => wait,
    }
}

/// What the state says, where no function does.
fn of_state(reason: Reason) -> WaitFor {
    match reason.state {
        SleepState::Idle | SleepState::Parked => Kernel,
        SleepState::Stopped => Stopped,
        SleepState::Traced => Tracer,
        _ if reason.io_wait => Io,
        SleepState::Uninterruptible => Uninterruptible,
        SleepState::Interruptible
        | SleepState::Runnable
        | SleepState::Dead
        | SleepState::Zombie => Unknown,
    }
}

/// How many of a stack's innermost frames say no more than what was waited for: the kernel's ways
/// to sleep, or all of the kernel's part, but for where it shows why a program has to wait for the
/// kernel.
pub(super) fn redundant_frames(wait: WaitFor, frames: &[FrameId], tables: &Tables) -> usize {
    let kernel = frames.iter().take_while(|frame| is_kernel(frame, tables)).count();
    match wait.is_in_kernel() || kernel == frames.len() {
        true => frames
            .iter()
            .take_while(|frame| {
                is_kernel(frame, tables)
                    && SCHEDULER.contains(&without_ending(function(**frame, tables)))
            })
            .count(),
        false => kernel,
    }
}

/// A program may call its functions as it likes, but it cannot put them into the kernel.
pub(super) fn is_kernel(frame: &FrameId, tables: &Tables) -> bool {
    tables.frame(*frame).module.is_some_and(|module| tables.module(module).kind.is_kernel())
}

/// Rules 1 to 3, by a stack alone.
fn of_stack(frames: &[FrameId], tables: &Tables) -> Option<WaitFor> {
    let depth = frames.iter().take_while(|frame| is_kernel(frame, tables)).count();
    let (kernel, user) = frames.split_at(depth);
    let mut through_io = false;
    for (index, frame) in kernel.iter().enumerate() {
        let name = function(*frame, tables);
        match of_kernel_function(name) {
            Some(Futex) => return Some(of_futex(user, tables)),
            Some(Events) => return Some(of_events(user, tables)),
            Some(PipeData) if is_held_back(user, tables) => return Some(Recorder),
            Some(wait) => return Some(wait),
            None => {}
        }
        let name = without_ending(name);
        if IO.contains(&name) {
            through_io = true;
        } else if !SCHEDULER.contains(&name) {
            let caller = kernel.get(index + 1).map(|frame| function(*frame, tables));
            return match caller.map(without_ending) {
                _ if through_io => Some(Io),
                Some(KERNEL_THREAD) => Some(Kernel),
                _ => None,
            };
        }
    }
    through_io.then_some(Io)
}

/// Whether it is a program that the recorder starts, and lets run once all is attached.
fn is_held_back(user: &[FrameId], tables: &Tables) -> bool {
    let mut near = user.iter().take(USER_FRAMES).map(|frame| function(*frame, tables));
    near.any(|name| name.starts_with("syscollect::") && name.ends_with(HELD_BACK))
}

/// Whether one that waits for work and does it calls a way to wait itself.
fn is_work_loop<'n>(near: impl Iterator<Item = &'n str> + Clone) -> bool {
    let names = near.map(without_parameters);
    let mut pairs = names.clone().zip(names.skip(1));
    pairs.any(|(callee, caller)| RUNTIME_WAITS.contains(&callee) && WORK_LOOPS.contains(&caller))
}

/// Events are what a program is told by others, or by a part of itself for which it waits.
fn of_events(user: &[FrameId], tables: &Tables) -> WaitFor {
    let near = user.iter().take(USER_FRAMES).map(|frame| without_ending(function(*frame, tables)));
    let mut waits =
        near.filter_map(|name| BY_EVENTS.iter().find(|(function, _)| *function == name));
    waits.next().map_or(Events, |(_, wait)| *wait)
}

/// What the functions that wait for a futex make of it.
fn of_futex(user: &[FrameId], tables: &Tables) -> WaitFor {
    let near = user.iter().take(USER_FRAMES).map(|frame| function(*frame, tables));
    let waits: Vec<WaitFor> = near.clone().filter_map(of_user_function).collect();
    let first = waits.first().copied();
    let is_any_lock =
        near.clone().any(|name| wait_python::is_any_lock(name.trim_start_matches('_')));
    // Of programs without symbols: their lock of the interpreter is made of a condition.
    let may_be_lock = is_any_lock || matches!(first, None | Some(Semaphore | PythonQueue));
    [Gil, Lock, PythonLock, ThreadEnd]
        .into_iter()
        .find(|strong| waits.contains(strong))
        .or_else(|| wait_python::of_library(user, tables).filter(|_| may_be_lock))
        .or_else(|| is_work_loop(near).then_some(Pool))
        .or_else(|| {
            let weaker = [Pool, ChannelRoom, Channel, PythonQueue, Sleep, Signal];
            weaker.into_iter().find(|weaker| waits.contains(weaker))
        })
        .or_else(|| wait_python::of_any_lock(user, tables).filter(|_| is_any_lock))
        .or(first)
        .unwrap_or(if is_any_lock { Semaphore } else { Futex })
}

fn function(frame: FrameId, tables: &Tables) -> &str {
    tables.frame(frame).function.map_or("", |name| tables.strings.get(name))
}

#[cfg(test)]
mod tests;
