//! What threads wait for, of stacks as programs have them.

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
    let mut frames = Vec::new();
    for (module, name) in
        kernel.iter().map(|name| (0, name)).chain(user.iter().map(|name| (verdict_of(name), name)))
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

fn verdict_of(name: &str) -> u32 {
    match name {
        _ if name.contains(".py)") => 2,
        _ if QUEUE.ends_with(name) && !name.is_empty() => 3,
        _ => 1,
    }
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
    let expected = [(&epoll[..], Events), (&tty, Terminal), (&["schedule", "do_nanosleep"], Sleep)];
    for (kernel, wait) in expected {
        assert_eq!((sleeps(kernel, &[]), wait.class()), (wait, WaitClass::Idle));
    }
}

#[test]
fn a_kernel_thread_idles_in_its_own_function_and_not_where_that_one_works() {
    let kthread = ["kthread", "ret_from_fork", "ret_from_fork_asm"];
    for (inner, expected) in [
        (&["schedule", "schedule_timeout", "kcompactd"][..], Kernel),
        (&["schedule", "worker_thread"], Kernel),
        (&["schedule", "some_driver", "process_one_work", "worker_thread"], Unknown),
        (&["io_schedule", "wait_for_device", "kjournald2"], Io),
        (&["schedule_preempt_disabled", "__mutex_lock.constprop.0", "kcompactd"], KernelLock),
    ] {
        assert_eq!(sleeps(&[inner, &kthread].concat(), &[]), expected, "{inner:?}");
    }
}

#[test]
fn what_a_futex_is_waited_for_is_what_the_program_says() {
    let futex = ["syscall", "std::sys::pal::unix::futex::futex_wait"];
    for (user, wait) in [
        (&["__futex_wait_common", "__GI___lll_lock_wait", "___pthread_mutex_lock", "t"][..], Lock),
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
            &["pthread_cond_timedwait", "os::PlatformEvent::park(long)", "JavaThread::sleep(long)"],
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
        // Who sends into a channel with bounds waits for room, however deep in the channel.
        (&[futex[0], "std::sync::mpmc::array::Channel<T>::send::{{closure}}"], ChannelRoom),
        (&[futex[0], "<std::sync::mpmc::zero::Channel<u64>>::send::{closure#1}"], ChannelRoom),
        (
            &[
                "std::sys::sync::thread_parking::futex::Parker::park",
                "std::sync::mpmc::context::Context::wait_until",
                "std::sync::mpsc::SyncSender<T>::send",
            ],
            ChannelRoom,
        ),
        (
            &["std::thread::park", "crossbeam_channel::flavors::array::Channel<T>::send"],
            ChannelRoom,
        ),
        (&["std::thread::park", "<crossbeam_channel::channel::Receiver<u8>>::recv"], Channel),
        (
            &[
                "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
                "std::sync::mpmc::array::Channel<T>::send::{{closure}}",
            ],
            Lock,
        ),
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
    for (outer, expected) in
        [(["ProcSleep", "LockAcquireExtended"], Lock), (["secure_read", "PostgresMain"], Events)]
    {
        assert_eq!(sleeps(&polls, &[&latch[..], &outer].concat()), expected, "{outer:?}");
    }
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
        (&["Condition.wait (threading.py)", "Semaphore.acquire (threading.py)"], PythonSemaphore),
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
        (&["PyThread_acquire_lock_timed", "_queue.cpython-311-x86_64-linux-gnu.so"], PythonQueue),
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
    let others = [
        PythonSemaphore,
        PythonBarrier,
        PythonFuture,
        PythonQueueRoom,
        ChannelRoom,
        PythonLock,
        ThreadEnd,
    ];
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
    let (kernel, held_back) =
        (["schedule", "anon_pipe_read"], "syscollect::record::backend::command::wait_and_become");
    assert_eq!(sleeps(&kernel, &["read", held_back]), Recorder);
    assert_eq!(sleeps(&kernel, &["read", "wait_and_become"]), PipeData);
}

#[test]
fn the_recorder_waits_for_what_it_records_and_is_held_up_as_others_are() {
    let mut tables = Tables::default();
    tables.machines[0].recorder_pid = 7;
    let name = tables.strings.intern("program");
    let first = tables.processes.len() as u32;
    for pid in [7, 8] {
        tables.processes.push(Process { pid, name, ..tables.processes[0].clone() });
    }
    let (recorder, other) = (ProcessId(first), ProcessId(first + 1));
    for (process, state, expected) in [
        (recorder, SleepState::Interruptible, Recorder),
        (other, SleepState::Interruptible, Unknown),
        (recorder, SleepState::Uninterruptible, Uninterruptible),
    ] {
        let reason = Reason { blocked_in: None, state, io_wait: false };
        assert_eq!(WaitsFor::new(&tables).of(process, None, reason), expected);
    }
}
