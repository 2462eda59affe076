//! Functions of kernels, libraries and languages that threads sleep in, and what for.

use super::wait_for::WaitFor::{self, *};

/// Functions of the kernel that have one reason to sleep, and what for.
///
/// Names are those of kernels 5.10 to 6.18: which is inlined into which changes between them. What
/// has no underscore and begins with a capital letter is a reason of Windows.
pub(super) const KERNEL: &[(&str, WaitFor)] = &[
    // kernel/exit.c, kernel/fork.c (vfork waits for a completion)
    ("do_wait", Child),
    ("wait_for_vfork_done", Child),
    // kernel/futex/waitwake.c; kernel/futex.c until 5.15
    ("futex_wait_queue_me", Futex),
    ("futex_wait_queue", Futex),
    ("futex_do_wait", Futex),
    ("futex_wait_multiple", Futex),
    // kernel/locking: futexes with priority inheritance are locks, too
    ("rt_mutex_slowlock_block", KernelLock),
    ("rt_mutex_wait_proxy_lock", Lock),
    ("__mutex_lock", KernelLock),
    ("rwsem_down_read_slowpath", KernelLock),
    ("rwsem_down_write_slowpath", KernelLock),
    ("percpu_rwsem_wait", KernelLock),
    ("__down_common", KernelLock),
    ("__down", KernelLock),
    ("__down_interruptible", KernelLock),
    ("__down_killable", KernelLock),
    // kernel/sched/completion.c
    ("wait_for_completion", Completion),
    ("wait_for_completion_timeout", Completion),
    ("wait_for_completion_interruptible", Completion),
    ("wait_for_completion_killable", Completion),
    ("wait_for_completion_state", Completion),
    ("wait_for_completion_io", Io),
    ("wait_for_completion_io_timeout", Io),
    // fs/locks.c
    ("locks_lock_inode_wait", FileLock),
    ("flock_lock_inode_wait", FileLock),
    ("posix_lock_inode_wait", FileLock),
    ("do_lock_file_wait", FileLock),
    // fs/eventpoll.c
    ("ep_poll", Events),
    ("do_epoll_wait", Events),
    // fs/select.c
    ("poll_schedule_timeout", Events),
    ("do_poll", Events),
    ("do_sys_poll", Events),
    ("do_select", Events),
    // kernel/time/hrtimer.c, kernel/time/posix-cpu-timers.c
    ("do_nanosleep", Sleep),
    ("hrtimer_nanosleep", Sleep),
    ("do_cpu_nanosleep", Sleep),
    // fs/pipe.c
    ("pipe_read", PipeData),
    ("anon_pipe_read", PipeData),
    ("pipe_write", PipeRoom),
    ("anon_pipe_write", PipeRoom),
    ("wait_for_partner", PipePeer),
    // kernel/signal.c
    ("do_sigtimedwait", Signal),
    ("sigsuspend", Signal),
    ("__do_sys_pause", Signal),
    ("do_signal_stop", Stopped),
    ("ptrace_stop", Tracer),
    // net/unix/af_unix.c, net/core/datagram.c, net/ipv4/inet_connection_sock.c
    ("unix_stream_data_wait", UnixSocket),
    ("unix_stream_read_generic", UnixSocket),
    ("__skb_wait_for_more_packets", Socket),
    ("inet_csk_accept", Connection),
    ("inet_csk_wait_for_connect", Connection),
    // net/core/sock.c, net/ipv4/af_inet.c
    ("sk_wait_data", Socket),
    ("inet_wait_for_connect", Connect),
    ("__inet_stream_connect", Connect),
    // drivers/tty/n_tty.c
    ("n_tty_read", Terminal),
    // mm/filemap.c
    ("folio_wait_bit_common", Page),
    ("wait_on_page_bit_common", Page),
    ("__lock_page_or_retry", Page),
    // kernel/sched/wait_bit.c, block
    ("bit_wait_io", Io),
    ("rq_qos_wait", Io),
    ("blk_mq_get_tag", Io),
    ("balance_dirty_pages", Io),
    // io_uring/io_uring.c, fs/io_uring.c until 5.19
    ("io_cqring_wait", IoUring),
    // fs/eventfd.c, fs/timerfd.c, fs/signalfd.c, fs/notify/inotify/inotify_user.c
    ("eventfd_read", EventFd),
    ("timerfd_read", Timer),
    ("timerfd_read_iter", Timer),
    ("signalfd_dequeue", Signal),
    ("inotify_read", FileChanges),
    // fs/fuse/dev.c
    ("request_wait_answer", Fuse),
    // kernel/workqueue.c, kernel/smpboot.c, kernel/kthread.c, kernel/rcu/tree.c
    ("worker_thread", Kernel),
    ("rescuer_thread", Kernel),
    ("smpboot_thread_fn", Kernel),
    ("kthreadd", Kernel),
    ("kthread_worker_fn", Kernel),
    ("rcu_gp_kthread", Kernel),
    ("rcu_gp_fqs_loop", Kernel),
    ("rcu_tasks_one_gp", Kernel),
    // virt/kvm/kvm_main.c
    ("kvm_vcpu_block", VirtualCpu),
    // KWAIT_REASON
    ("DelayExecution", Sleep),
    ("WrDelayExecution", Sleep),
    ("WrQueue", Pool),
    ("PageIn", Page),
    ("WrPageIn", Page),
    ("WrPushLock", KernelLock),
    ("WrResource", KernelLock),
    ("WrFastMutex", KernelLock),
    ("WrGuardedMutex", KernelLock),
];

/// The kernel's ways to sleep for whatever reason: who called them tells.
pub(super) const SCHEDULER: &[&str] = &[
    "__schedule",
    "schedule",
    "schedule_preempt_disabled",
    "schedule_rtlock",
    "schedule_timeout",
    "schedule_timeout_interruptible",
    "schedule_timeout_idle",
    "schedule_timeout_killable",
    "schedule_timeout_uninterruptible",
    "schedule_hrtimeout",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "wait_woken",
    "__wait_for_common",
    "do_wait_intr",
    "do_wait_intr_irq",
    "bit_wait",
    "bit_wait_timeout",
    "__wait_on_bit",
    "out_of_line_wait_on_bit",
];

/// The kernel's ways to sleep for I/O.
pub(super) const IO: &[&str] = &["io_schedule", "io_schedule_timeout", "bit_wait_io_timeout"];

/// What calls the main function of a kernel thread.
pub(super) const KERNEL_THREAD: &str = "kthread";

/// Functions of programs that wait on futexes: of the C library, without the underscores that they
/// begin with and the version that they end with, and of others that are called so everywhere.
pub(super) const USER: &[(&str, WaitFor)] = &[
    // glibc and musl
    ("lll_lock_wait", Lock),
    ("GI___lll_lock_wait", Lock),
    ("lll_lock_wait_private", Lock),
    ("GI___lll_lock_wait_private", Lock),
    ("pthread_mutex_lock", Lock),
    ("pthread_mutex_lock_full", Lock),
    ("pthread_mutex_timedlock", Lock),
    ("pthread_mutex_clocklock", Lock),
    ("pthread_mutex_cond_lock", Lock),
    ("pthread_rwlock_rdlock", Lock),
    ("pthread_rwlock_wrlock", Lock),
    ("pthread_rwlock_timedrdlock", Lock),
    ("pthread_rwlock_timedwrlock", Lock),
    ("pthread_cond_wait", Condition),
    ("pthread_cond_wait_common", Condition),
    ("pthread_cond_timedwait", Condition),
    ("pthread_cond_timedwait64", Condition),
    ("pthread_cond_clockwait", Condition),
    ("pthread_cond_clockwait64", Condition),
    ("cnd_wait", Condition),
    ("cnd_timedwait", Condition),
    ("pthread_join", ThreadEnd),
    ("pthread_clockjoin_ex", ThreadEnd),
    ("pthread_timedjoin_ex", ThreadEnd),
    ("sem_wait", Semaphore),
    ("new_sem_wait", Semaphore),
    ("new_sem_wait_slow64", Semaphore),
    ("new_sem_wait_slow", Semaphore),
    ("sem_timedwait", Semaphore),
    ("sem_clockwait", Semaphore),
    // CPython: its global lock is made of a condition variable; builds without symbols show only
    // who asks for it
    ("take_gil", Gil),
    ("PyEval_RestoreThread", Gil),
    ("PyEval_AcquireThread", Gil),
    ("rlock_acquire", PythonLock),
    ("rlock_acquire_restore", PythonLock),
    ("thread_RLock_acquire", PythonLock),
    ("thread_RLock__acquire_restore", PythonLock),
    ("PyRecursiveMutex_LockTimed", PythonLock),
    ("ThreadHandle_join", ThreadEnd),
    ("PyThreadHandleObject_join", ThreadEnd),
    ("queue_SimpleQueue_get_impl", PythonQueue),
    // Go
    ("runtime.lock2", Lock),
    ("runtime.stopm", Pool),
    ("runtime.stoplockedm", Pool),
    ("runtime.templateThread", Pool),
    ("runtime.sysmon", Pool),
    ("os/signal.signal_recv", Signal),
    // HotSpot: functions that do nothing but wait
    ("ObjectMonitor::enter", Lock),
    ("ObjectMonitor::EnterI", Lock),
    ("ObjectMonitor::ReenterI", Lock),
    ("JavaThread::sleep", Sleep),
    ("os::signal_wait", Signal),
    ("CompileQueue::get", Pool),
    ("VMThread::wait_for_operation", Pool),
    ("WatcherThread::sleep", Pool),
    ("G1ServiceThread::sleep_before_next_cycle", Pool),
    ("JVM_WaitForReferencePendingList", Pool),
    // PostgreSQL: locks in shared memory, whose queues are semaphores
    ("LWLockAcquire", Lock),
    ("LWLockAcquireOrWait", Lock),
    ("LWLockWaitForVar", Lock),
    // GLib, gRPC, Chromium
    ("g_thread_pool_wait_for_new_task", Pool),
    ("base::internal::WorkerThread::Delegate::WaitForWork", Pool),
];

/// Where a program that the recorder starts waits for it, before it becomes that program.
pub(super) const HELD_BACK: &str = "::wait_and_become";

/// Functions that wait for something of their program by way of events.
pub(super) const BY_EVENTS: &[(&str, WaitFor)] = &[
    // PostgreSQL: who holds a lock of a row, a table or a transaction sets the latch of who waits
    ("ProcSleep", Lock),
    ("ConditionVariableTimedSleep", Condition),
];

/// The same where type parameters stand in the middle: how a name begins and ends, without `<` and
/// `>`, which compilers of Rust set differently.
pub(super) const USER_PARTS: &[(&str, &str, WaitFor)] = &[
    ("std::sys::", "lock_contended", Lock),
    ("std::sys::", "read_contended", Lock),
    ("std::sys::", "write_contended", Lock),
    ("std::sys::", "Condvar::wait_optional_timeout", Condition),
    ("std::sys::", "Parker::park", Parked),
    ("std::sys::", "Parker::park_timeout", Parked),
    ("std::sys::", "Thread::join", ThreadEnd),
    // Only who sends into a channel with bounds waits: for room, or for who receives.
    ("std::sync::mpmc::", "::send", ChannelRoom),
    ("std::sync::mpsc::SyncSender", "::send", ChannelRoom),
    ("std::sync::mpmc::", "", Channel),
    ("parking_lot::raw_mutex::RawMutex", "lock_slow", Lock),
    ("parking_lot::raw_rwlock::RawRwLock", "_slow", Lock),
    ("parking_lot::condvar::Condvar", "", Condition),
    ("crossbeam_channel::", "::send", ChannelRoom),
    ("crossbeam_channel::", "::send_timeout", ChannelRoom),
    ("crossbeam_channel::", "", Channel),
    ("rayon_core::sleep::", "", Pool),
    ("rustc_thread_pool::sleep::", "", Pool),
    ("tokio::runtime::", "Parker::park", Pool),
    ("tokio::runtime::", "Parker::park_timeout", Pool),
    ("tokio::runtime::", "Inner::park", Pool),
    ("tokio::runtime::", "Inner::park_condvar", Pool),
    ("absl::", "Mutex::LockSlow", Lock),
    ("absl::", "Mutex::LockSlowLoop", Lock),
    ("std::condition_variable::", "", Condition),
];

/// Ways to wait of runtimes, which say nothing themselves: what calls them does.
pub(super) const RUNTIME_WAITS: &[&str] = &[
    "PosixSemaphore::wait",
    "Monitor::wait",
    "Monitor::wait_without_safepoint_check",
    "uv_cond_wait",
    "uv_sem_wait",
];

/// Functions that wait for work and do it: what they call may wait for anything, but where they
/// call one of [`RUNTIME_WAITS`] themselves, they have nothing to do.
pub(super) const WORK_LOOPS: &[&str] = &[
    // HotSpot
    "GangWorker::loop",
    "WorkerThread::run",
    "G1ConcurrentMarkThread::run_service",
    "G1ConcurrentRefineThread::run_service",
    "ServiceThread::service_thread_entry",
    "MonitorDeflationThread::monitor_deflation_thread_entry",
    "NMethodSweeper::sweeper_loop",
    "NotificationThread::notification_thread_entry",
    // Node.js
    "node::(anonymous namespace)::PlatformWorkerThread",
    "node::inspector::(anonymous namespace)::StartIoThreadMain",
    // libuv
    "worker",
];
