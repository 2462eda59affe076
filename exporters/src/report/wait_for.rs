//! What threads wait for, by the functions that they sleep in, and whether that is work.
//!
//! The rules, of which the first that applies counts:
//!
//! 1. The innermost function of the kernel's part of the stack that is not the scheduler's own is
//!    in [`KERNEL`]. A wait for a futex is what the program's own functions next to it say
//!    ([`USER`], [`USER_PARTS`]), and so it is for events ([`BY_EVENTS`]): a lock (Python's global one first) before a pool's way to wait,
//!    and that before a primitive, because locks and pools are made of primitives. What is made of
//!    locks of Python, its functions say ([`wait_python`]); where a function that also works waits
//!    for work, it calls a runtime's way to wait itself ([`WORK_LOOPS`], [`RUNTIME_WAITS`]).
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
use std::sync::LazyLock;
use syscollect_model::{FrameId, ProcessId, SleepState, StackId, Tables};

/// Frames of the program that are looked at, from the system call on.
const USER_FRAMES: usize = 8;

/// What a thread waits for. The order is that of equal rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum WaitFor {
    Lock,
    Gil,
    PythonLock,
    PythonSemaphore,
    PythonBarrier,
    PythonFuture,
    PythonQueueRoom,
    FileLock,
    KernelLock,
    Completion,
    Io,
    Page,
    Fuse,
    PipeRoom,
    Child,
    ThreadEnd,
    Connect,
    Stopped,
    Tracer,
    Uninterruptible,
    Futex,
    Condition,
    Semaphore,
    Parked,
    Channel,
    PipeData,
    PipePeer,
    Socket,
    UnixSocket,
    EventFd,
    Unknown,
    Events,
    IoUring,
    Sleep,
    Timer,
    Signal,
    Connection,
    Terminal,
    FileChanges,
    Pool,
    PythonQueue,
    PythonEvent,
    Kernel,
    VirtualCpu,
    Recorder,
}

use WaitFor::*;

impl WaitFor {
    /// What is waited for, in the terms of the field: a name of the report's JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Lock => "lock",
            Gil => "Python's GIL",
            PythonLock => "Python lock",
            PythonSemaphore => "Python semaphore",
            PythonBarrier => "Python barrier",
            PythonFuture => "Python future",
            PythonQueueRoom => "Python queue (put, join)",
            FileLock => "file lock",
            KernelLock => "kernel lock",
            Completion => "kernel completion",
            Io => "I/O",
            Page => "page of a file or swap",
            Fuse => "FUSE server",
            PipeRoom => "pipe full",
            Child => "child process",
            ThreadEnd => "thread join",
            Connect => "connect",
            Stopped => "stopped",
            Tracer => "tracer",
            Uninterruptible => "uninterruptible sleep",
            Futex => "futex",
            Condition => "condition variable",
            Semaphore => "semaphore",
            Parked => "unpark",
            Channel => "channel message",
            PipeData => "pipe data",
            PipePeer => "FIFO peer",
            Socket => "socket data",
            UnixSocket => "Unix socket data",
            EventFd => "eventfd",
            Unknown => "unknown",
            Events => "events (epoll, poll, select)",
            IoUring => "io_uring",
            Sleep => "sleep",
            Timer => "timer",
            Signal => "signal",
            Connection => "accept",
            Terminal => "terminal input",
            FileChanges => "inotify",
            Pool => "work of a pool",
            PythonQueue => "Python queue (get)",
            PythonEvent => "Python event or condition",
            Kernel => "kernel work",
            VirtualCpu => "virtual CPU",
            Recorder => "the recorder, or what it records",
        }
    }

    /// Whether the thread has nothing to do meanwhile.
    ///
    /// A thread that waits for another of its program, or for data, may wait for work as well as
    /// for an answer: nothing that is recorded says which.
    pub(crate) fn class(self) -> WaitClass {
        match self {
            Lock | Gil | PythonLock | PythonSemaphore | PythonBarrier | PythonFuture
            | PythonQueueRoom | FileLock | KernelLock | Completion | Io | Page | Fuse
            | PipeRoom | Child | ThreadEnd | Connect | Stopped | Tracer | Uninterruptible => {
                WaitClass::Blocked
            }
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

fn of_kernel_function(function: &str) -> Option<WaitFor> {
    KERNEL_BY_NAME.get(without_ending(function)).copied()
}

fn of_user_function(function: &str) -> Option<WaitFor> {
    let plain = function.trim_start_matches('_');
    let plain = plain.split('@').next().unwrap_or(plain);
    if let Some(wait) = USER_BY_NAME.get(without_parameters(plain)) {
        return Some(*wait);
    }
    let plain: String = function.chars().filter(|c| !matches!(c, '<' | '>')).collect();
    let is = |(begin, end, _): &&(&str, &str, _)| plain.starts_with(begin) && plain.ends_with(end);
    USER_PARTS.iter().find(is).map(|(_, _, wait)| *wait)
}

/// What threads waited for that left the CPU so. Each stack is looked at once.
pub(crate) struct WaitsFor<'a> {
    tables: &'a Tables,
    seen: SeenWaits,
}

impl<'a> WaitsFor<'a> {
    pub(crate) fn new(tables: &'a Tables) -> Self {
        Self { tables, seen: SeenWaits::default() }
    }

    pub(crate) fn of(
        &mut self,
        process: ProcessId,
        stack: Option<StackId>,
        reason: Reason,
    ) -> WaitFor {
        self.seen.of(process, stack, reason, self.tables)
    }
}

/// The same while tables grow; always to be asked with the same ones.
#[derive(Debug, Default)]
pub(super) struct SeenWaits {
    cached: FxHashMap<(Option<StackId>, Reason), WaitFor>,
}

impl SeenWaits {
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
fn is_recorder(process: ProcessId, tables: &Tables) -> bool {
    let row = tables.process(process);
    row.pid != 0 && row.pid == tables.machine(row.machine).recorder_pid
}

fn wait_for(stack: Option<StackId>, reason: Reason, tables: &Tables) -> WaitFor {
    let frames = stack.map_or(&[][..], |stack| tables.stack(stack));
    let in_stack = of_stack(frames, tables);
    let named = || of_kernel_function(tables.strings.get(reason.blocked_in?));
    match in_stack.or_else(named).unwrap_or_else(|| of_state(reason)) {
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
    let is_scheduler = |frame: &&FrameId| {
        is_kernel(frame, tables) && SCHEDULER.contains(&without_ending(function(**frame, tables)))
    };
    let kernel = frames.iter().take_while(|frame| is_kernel(frame, tables)).count();
    match wait.is_in_kernel() || kernel == frames.len() {
        true => frames.iter().take_while(is_scheduler).count(),
        false => kernel,
    }
}

/// A program may call its functions as it likes, but it cannot put them into the kernel.
fn is_kernel(frame: &FrameId, tables: &Tables) -> bool {
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
    let near = || user.iter().take(USER_FRAMES).map(|frame| function(*frame, tables));
    let waits: Vec<WaitFor> = near().filter_map(of_user_function).collect();
    let first = waits.first().copied();
    let strong = |one: WaitFor| waits.contains(&one).then_some(one);
    let is_any_lock = near().any(|name| wait_python::is_any_lock(name.trim_start_matches('_')));
    // Of programs without symbols: their lock of the interpreter is made of a condition.
    let may_be_lock = is_any_lock || matches!(first, None | Some(Semaphore | PythonQueue));
    let of_library = || wait_python::of_library(user, tables).filter(|_| may_be_lock);
    let of_any_lock = || wait_python::of_any_lock(user, tables).filter(|_| is_any_lock);
    [Gil, Lock, PythonLock, ThreadEnd]
        .into_iter()
        .find_map(strong)
        .or_else(of_library)
        .or_else(|| is_work_loop(near()).then_some(Pool))
        .or_else(|| [Pool, Channel, PythonQueue, Sleep, Signal].into_iter().find_map(strong))
        .or_else(of_any_lock)
        .or(first)
        .unwrap_or(if is_any_lock { Semaphore } else { Futex })
}

fn function(frame: FrameId, tables: &Tables) -> &str {
    tables.frame(frame).function.map_or("", |name| tables.strings.get(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{BuildId, Frame, Module, ModuleId, ModuleKind, Process};

    const QUEUE: &str = "/usr/lib/python3.11/lib-dynload/_queue.cpython-311-x86_64-linux-gnu.so";

    /// What a thread waits for with these functions of the kernel and of its program, innermost
    /// first. Those of Python may have a file after a bar; a file in their place is one without
    /// names.
    fn waits(kernel: &[&str], user: &[&str], state: SleepState, io_wait: bool) -> WaitFor {
        let mut tables = Tables::default();
        let kinds = [ModuleKind::Kernel, ModuleKind::File, ModuleKind::Python];
        let paths = kinds.map(|kind| kind.path().unwrap_or("/a"));
        for (kind, path) in kinds.into_iter().zip(paths).chain([(ModuleKind::File, QUEUE)]) {
            let path = tables.strings.intern(path);
            tables.modules.push(Module { path, build_id: BuildId::default(), kind });
        }
        let of = |name: &str| match name {
            _ if name.contains(".py)") => 2,
            _ if QUEUE.ends_with(name) && !name.is_empty() => 3,
            _ => 1,
        };
        let mut frames = Vec::new();
        for (module, name) in
            kernel.iter().map(|name| (0, name)).chain(user.iter().map(|name| (of(name), name)))
        {
            let (name, file) =
                name.split_once('|').map_or((*name, None), |(name, file)| (name, Some(file)));
            frames.push(FrameId(tables.frames.len() as u32));
            tables.frames.push(Frame {
                module: Some(ModuleId(module)),
                offset: tables.frames.len() as u64,
                function: (module != 3).then(|| tables.strings.intern(name)),
                function_start: 0,
                function_size: 0,
                range_only: false,
                file: file.map(|file| tables.strings.intern(file)),
                line: 0,
                inlined: false,
            });
        }
        let stack = (!frames.is_empty()).then(|| tables.intern_stack(&frames));
        let reason = Reason { blocked_in: None, state, io_wait };
        WaitsFor::new(&tables).of(Tables::IDLE_PROCESS, stack, reason)
    }

    fn sleeps(kernel: &[&str], user: &[&str]) -> WaitFor {
        waits(kernel, user, SleepState::Interruptible, false)
    }

    const FUTEX: [&str; 4] = ["__schedule", "schedule", "futex_do_wait", "__futex_wait"];

    #[test]
    fn a_function_is_known_whole_and_whatever_the_compiler_made_of_it() {
        assert_eq!(of_kernel_function("do_wait"), Some(Child));
        assert_eq!(of_kernel_function("poll_schedule_timeout.constprop.0"), Some(Events));
        assert_eq!(["do_wait_intr", "wait_woken", ""].map(of_kernel_function), [None; 3]);
    }

    #[test]
    fn each_function_is_there_once() {
        for table in [KERNEL, USER] {
            let mut names: Vec<_> = table.iter().map(|(name, _)| name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), table.len());
        }
        for name in SCHEDULER.iter().chain(IO) {
            assert_eq!(of_kernel_function(name), None, "{name} is a way to sleep, not a reason");
        }
    }

    #[test]
    fn threads_that_wait_for_events_times_and_people_are_idle() {
        let epoll = ["__schedule", "schedule", "schedule_hrtimeout_range_clock", "do_epoll_wait"];
        let tty = ["schedule_timeout", "wait_woken", "n_tty_read", "vfs_read"];
        let expected =
            [(&epoll[..], Events), (&tty, Terminal), (&["schedule", "do_nanosleep"], Sleep)];
        for (kernel, wait) in expected {
            assert_eq!((sleeps(kernel, &[]), wait.class()), (wait, WaitClass::Idle));
        }
    }

    #[test]
    fn a_kernel_thread_idles_in_its_own_function_and_not_where_that_one_works() {
        let kthread = ["kthread", "ret_from_fork", "ret_from_fork_asm"];
        let below = |inner: &[&'static str]| [inner, &kthread].concat();
        assert_eq!(sleeps(&below(&["schedule", "schedule_timeout", "kcompactd"]), &[]), Kernel);
        assert_eq!(sleeps(&below(&["schedule", "worker_thread"]), &[]), Kernel);
        let works = below(&["schedule", "some_driver", "process_one_work", "worker_thread"]);
        assert_eq!(sleeps(&works, &[]), Unknown);
        let writes = below(&["io_schedule", "wait_for_device", "kjournald2"]);
        assert_eq!(sleeps(&writes, &[]), Io);
        let locks = below(&["schedule_preempt_disabled", "__mutex_lock.constprop.0", "kcompactd"]);
        assert_eq!(sleeps(&locks, &[]), KernelLock);
    }

    #[test]
    fn what_a_futex_is_waited_for_is_what_the_program_says() {
        let futex = ["syscall", "std::sys::pal::unix::futex::futex_wait"];
        for (user, wait) in [
            (
                &["__futex_wait_common", "__GI___lll_lock_wait", "___pthread_mutex_lock", "t"][..],
                Lock,
            ),
            (&["pthread_cond_wait@@GLIBC_2.3.2", "worker"], Condition),
            (&["___pthread_cond_timedwait64", "PyCOND_TIMEDWAIT", "take_gil"], Gil),
            // Stripped, with the functions that extensions call.
            (&["pthread_cond_timedwait", "", "PyEval_RestoreThread", "PyThread_x"], Gil),
            (&["___pthread_mutex_lock", "take_gil", "PyEval_RestoreThread"], Gil),
            (&["__new_sem_wait_slow64", "PyThread_acquire_lock_timed"], Semaphore),
            (&["__pthread_clockjoin_ex", "main"], ThreadEnd),
            (&["runtime.futex.abi0", "runtime.notesleep", "runtime.stopm"], Pool),
            (&["runtime.futex", "runtime.notetsleepg", "os/signal.signal_recv"], Signal),
            (
                &[
                    "pthread_cond_wait",
                    "os::PlatformEvent::park()",
                    "ObjectMonitor::EnterI(JavaThread*)",
                    "ObjectMonitor::enter(JavaThread*)",
                ],
                Lock,
            ),
            (
                &[
                    "pthread_cond_timedwait",
                    "os::PlatformEvent::park(long)",
                    "JavaThread::sleep(long)",
                ],
                Sleep,
            ),
            (&["pthread_cond_timedwait", "Monitor::wait(long)", "CompileQueue::get()"], Pool),
            (&["new_sem_wait_slow64", "PosixSemaphore::wait()", "os::signal_wait()"], Signal),
            (&["pthread_cond_wait", "(anonymous namespace)::run()"], Condition),
            (&["new_sem_wait_slow64", "PosixSemaphore::wait()", "GangWorker::loop()"], Pool),
            (
                &["new_sem_wait_slow64", "PosixSemaphore::wait()", "task()", "GangWorker::loop()"],
                Semaphore,
            ),
            (
                &[
                    "pthread_cond_wait",
                    "uv_cond_wait",
                    "node::(anonymous namespace)::PlatformWorkerThread(void*)",
                ],
                Pool,
            ),
            (&["uv_cond_wait", "node::(anonymous namespace)::PlatformWorkerThread"], Pool),
            (&["pthread_cond_wait", "Monitor::wait(long)", "WatcherThread::sleep() const"], Pool),
            (&[futex[0], futex[1], "<std::sys::sync::mutex::futex::Mutex>::lock_contended"], Lock),
            (&[futex[0], "<std::sync::mpmc::list::Channel<a::B<C>>>::recv"], Channel),
            (
                &[
                    futex[0],
                    "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout",
                    "<rayon_core::sleep::Sleep>::sleep",
                ],
                Pool,
            ),
            (&["main"], Futex),
            (&[], Futex),
        ] {
            assert_eq!(sleeps(&FUTEX, user), wait, "{user:?}");
        }
        let far = [&["a"; USER_FRAMES][..], &["pthread_mutex_lock"]].concat();
        assert_eq!(sleeps(&FUTEX, &far), Futex, "what is far away says nothing");
    }

    /// What CPython waits in, of each version that has another.
    const SEM: [&str; 2] = ["__futex_abstimed_wait_common64", "__new_sem_wait_slow64"];
    const LOCK_3_8: [&str; 3] =
        ["PyThread_acquire_lock_timed", "acquire_timed", "lock_PyThread_acquire_lock"];
    const RLOCK_3_13: [&str; 4] = [
        "PyThread_acquire_lock_timed",
        "PyThread_acquire_lock_timed_with_retries",
        "acquire_timed",
        "rlock_acquire",
    ];
    const PARKED_3_13: [&str; 3] =
        ["_PySemaphore_PlatformWait", "_PySemaphore_Wait", "_PyParkingLot_Park"];

    #[test]
    fn who_waits_for_a_lock_of_a_database_is_blocked_however_it_is_told() {
        let polls = ["schedule", "do_epoll_wait", "__x64_sys_epoll_wait"];
        let latch = ["epoll_wait", "WaitEventSetWait", "WaitLatch"];
        let below = |outer: &[&'static str]| [&latch, outer].concat();
        assert_eq!(sleeps(&polls, &below(&["ProcSleep", "LockAcquireExtended"])), Lock);
        assert_eq!(sleeps(&polls, &below(&["secure_read", "PostgresMain"])), Events);
        let futex = ["schedule", "futex_wait_queue", "futex_wait"];
        let semaphore = ["__new_sem_wait_slow64", "PGSemaphoreLock", "LWLockAcquireOrWait"];
        assert_eq!(sleeps(&futex, &semaphore), Lock);
        assert_eq!(sleeps(&futex, &["pthread_cond_wait", "uv_cond_wait", "worker"]), Pool);
    }

    #[test]
    fn what_is_waited_for_in_a_lock_of_python_its_functions_say() {
        for (python, wait) in [
            // 3.8 to 3.10 have no classes.
            (&["run (states.py)", "wait (threading.py)"][..], PythonLock),
            (&["wait (threading.py)", "wait (threading.py)", "run (a.py)"], PythonEvent),
            (&["wait (threading.py)", "wait_for (threading.py)", "run (a.py)"], PythonEvent),
            (&["wait (threading.py)", "get (queue.py)", "run (a.py)"], PythonQueue),
            (&["wait (threading.py)", "put (queue.py)", "run (a.py)"], PythonQueueRoom),
            (&["wait (threading.py)", "acquire (threading.py)", "run (a.py)"], PythonSemaphore),
            (&["wait (threading.py)", "result (_base.py)", "run (a.py)"], PythonFuture),
            (&["_wait_for_tstate_lock (threading.py)", "join (threading.py)"], ThreadEnd),
            (&["wait (threading.py)", "wait (threading.py)", "get (pool.py)"], PythonFuture),
            // The pure Python RLock, and the lock of a condition.
            (&["acquire (threading.py)", "run (a.py)"], PythonLock),
            (&["__enter__ (threading.py)", "get (queue.py)", "_worker (thread.py)"], PythonLock),
            (
                &[
                    "wait (threading.py)",
                    "wait_for (threading.py)",
                    "_wait (threading.py)",
                    "wait (threading.py)",
                ],
                PythonBarrier,
            ),
            // 3.11 and newer.
            (&["<lambda> (states.py)", "named.<locals>.run (states.py)"], PythonLock),
            (&["Condition.wait (threading.py)", "Event.wait (threading.py)"], PythonEvent),
            (&["Condition.wait (threading.py)", "Timer.run (threading.py)"], PythonEvent),
            (&["Condition.wait (threading.py)", "Queue.get (queue.py)"], PythonQueue),
            (
                &["Condition.wait (threading.py)", "Semaphore.acquire (threading.py)"],
                PythonSemaphore,
            ),
            (&["Condition.wait (threading.py)", "Future.result (_base.py)"], PythonFuture),
            (
                &["Condition.wait (threading.py)", "Event.wait (threading.py)", "wait (_base.py)"],
                PythonFuture,
            ),
            (&["Thread._wait_for_tstate_lock (threading.py)"], ThreadEnd),
            (&["_worker (thread.py)", "Thread.run (threading.py)"], Pool),
            (&["wait (threading.py)|/usr/lib/python3.8/threading.py"], PythonEvent),
            (&["wait (threading.py)", "wait (_base.py)|/home/me/_base.py"], PythonEvent),
            (&["_worker (thread.py)|/home/me/thread.py"], PythonLock),
            (&["wait (my_threading.py)|/home/me/my_threading.py"], PythonLock),
            // Whether it is a lock, or made of one, only Python's functions say.
            (&[], Semaphore),
        ] {
            let calls = ["method_vectorcall_VARARGS_KEYWORDS", "call_function"];
            let symbols = [&SEM[..], &LOCK_3_8, &calls, python].concat();
            let exported = [&SEM[..], &LOCK_3_8[..1], &["", ""], python].concat();
            assert_eq!(sleeps(&FUTEX, &symbols), wait, "{python:?}");
            assert_eq!(sleeps(&FUTEX, &exported), wait, "{python:?}");
        }
    }

    #[test]
    fn functions_of_cpython_say_what_is_waited_for_where_pythons_are_not_in_the_stack() {
        for (cpython, wait) in [
            (&RLOCK_3_13[..], PythonLock),
            (&["PyThread_acquire_lock_timed", "acquire_timed", "rlock_acquire"], PythonLock),
            (&[&PARKED_3_13[..], &["PyEvent_WaitTimed", "ThreadHandle_join"]].concat(), ThreadEnd),
            (&["PyThread_acquire_lock_timed", "_queue_SimpleQueue_get_impl"], PythonQueue),
            (&[&PARKED_3_13[..], &["_queue_SimpleQueue_get_impl"]].concat(), PythonQueue),
            // Debian's, whose functions have no names.
            (
                &["PyThread_acquire_lock_timed", "_queue.cpython-311-x86_64-linux-gnu.so"],
                PythonQueue,
            ),
        ] {
            let alone = [&SEM[..], cpython].concat();
            assert_eq!(sleeps(&FUTEX, &alone), wait, "{cpython:?}");
            let with_python = [&alone[..], &["run (states.py)"]].concat();
            assert_eq!(sleeps(&FUTEX, &with_python), wait, "{cpython:?}");
        }
        let worker = [&SEM[..], &["_queue_SimpleQueue_get_impl", "_worker (thread.py)"]].concat();
        assert_eq!(sleeps(&FUTEX, &worker), Pool);
        // Who runs Python's functions and waits for the interpreter is not in a lock of them.
        let interpreter = ["pthread_cond_timedwait", "", "Condition.wait (threading.py)"];
        assert_eq!(sleeps(&FUTEX, &interpreter), Condition);
        // Not even CPython's own functions are in the stack.
        let cut = [&SEM[..], &["Condition.wait (threading.py)", "Queue.get (queue.py)"]].concat();
        assert_eq!(sleeps(&FUTEX, &cut), PythonQueue);
    }

    #[test]
    fn workers_of_python_that_wait_for_work_are_idle_and_who_waits_for_others_is_blocked() {
        for wait in [PythonQueue, PythonEvent, Pool] {
            assert_eq!(wait.class(), WaitClass::Idle);
        }
        let others =
            [PythonSemaphore, PythonBarrier, PythonFuture, PythonQueueRoom, PythonLock, ThreadEnd];
        assert!(others.iter().all(|wait| wait.class() == WaitClass::Blocked));
    }

    #[test]
    fn a_program_that_calls_its_functions_like_the_kernels_is_not_believed() {
        assert_eq!(sleeps(&["schedule", "some_driver"], &["do_epoll_wait"]), Unknown);
        assert_eq!(sleeps(&[], &["do_epoll_wait", "kthread"]), Unknown);
    }

    #[test]
    fn without_a_stack_the_state_decides_or_nothing_is_claimed() {
        for (state, io_wait, wait, class) in [
            (SleepState::Interruptible, false, Unknown, WaitClass::Undecided),
            (SleepState::Uninterruptible, false, Uninterruptible, WaitClass::Blocked),
            (SleepState::Uninterruptible, true, Io, WaitClass::Blocked),
            (SleepState::Idle, false, Kernel, WaitClass::Idle),
            (SleepState::Stopped, false, Stopped, WaitClass::Blocked),
        ] {
            let found = waits(&[], &[], state, io_wait);
            assert_eq!((found, found.class()), (wait, class));
        }
        let uring = ["schedule", "io_cqring_wait"];
        assert_eq!(sleeps(&uring, &[]), IoUring);
        assert_eq!(waits(&uring, &[], SleepState::Interruptible, true), Io);
    }

    #[test]
    fn a_program_that_is_not_let_run_yet_has_nothing_to_do() {
        let (kernel, held_back) = (
            ["schedule", "anon_pipe_read"],
            "syscollect::record::backend::command::wait_and_become",
        );
        assert_eq!(sleeps(&kernel, &["read", held_back]), Recorder);
        assert_eq!(sleeps(&kernel, &["read", "wait_and_become"]), PipeData);
    }

    #[test]
    fn the_recorder_waits_for_what_it_records_and_is_held_up_as_others_are() {
        let mut tables = Tables::default();
        tables.machines[0].recorder_pid = 7;
        let name = tables.strings.intern("program");
        let process = |pid, tables: &mut Tables| {
            tables.processes.push(Process { pid, name, ..tables.processes[0].clone() });
            ProcessId(tables.processes.len() as u32 - 1)
        };
        let (recorder, other) = (process(7, &mut tables), process(8, &mut tables));
        let sleeps = |process, state| {
            let reason = Reason { blocked_in: None, state, io_wait: false };
            WaitsFor::new(&tables).of(process, None, reason)
        };
        assert_eq!(sleeps(recorder, SleepState::Interruptible), Recorder);
        assert_eq!(sleeps(other, SleepState::Interruptible), Unknown);
        assert_eq!(sleeps(recorder, SleepState::Uninterruptible), Uninterruptible);
    }
}
