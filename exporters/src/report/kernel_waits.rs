//! What threads wait for that sleep in well-known functions of the Linux kernel.

/// Functions that have one reason to sleep, and what they wait for.
///
/// Only the innermost function outside the scheduler counts, and what sleeps for more than one
/// reason (`wait_woken`, locks of the kernel) is not here. Names are those of kernels 5.10 to 6.18:
/// which is inlined into which changes between them.
const WAITS: &[(&str, &str)] = &[
    // kernel/exit.c
    ("do_wait", "waits for a child process"),
    // kernel/futex/waitwake.c; kernel/futex.c until 5.15
    ("futex_wait_queue_me", FUTEX),
    ("futex_wait_queue", FUTEX),
    ("futex_do_wait", FUTEX),
    ("futex_wait_multiple", FUTEX),
    // fs/eventpoll.c
    ("ep_poll", EVENTS),
    ("do_epoll_wait", EVENTS),
    // fs/select.c
    ("poll_schedule_timeout", EVENTS),
    ("do_poll", EVENTS),
    ("do_sys_poll", EVENTS),
    ("do_select", EVENTS),
    // kernel/time/hrtimer.c, kernel/time/posix-cpu-timers.c
    ("do_nanosleep", SLEEPS),
    ("hrtimer_nanosleep", SLEEPS),
    ("do_cpu_nanosleep", SLEEPS),
    // fs/pipe.c
    ("pipe_read", PIPE_READ),
    ("anon_pipe_read", PIPE_READ),
    ("pipe_write", PIPE_WRITE),
    ("anon_pipe_write", PIPE_WRITE),
    ("wait_for_partner", "waits until the other end of a FIFO is opened"),
    // kernel/signal.c
    ("do_sigtimedwait", SIGNAL),
    ("sigsuspend", SIGNAL),
    ("__do_sys_pause", SIGNAL),
    ("do_signal_stop", "is stopped"),
    ("ptrace_stop", "is stopped for its tracer"),
    // net/unix/af_unix.c, net/core/datagram.c, net/ipv4/inet_connection_sock.c
    ("unix_stream_data_wait", "waits for data of a Unix socket"),
    ("unix_stream_read_generic", "waits for data of a Unix socket"),
    ("__skb_wait_for_more_packets", "waits for a message of a socket"),
    ("inet_csk_accept", "waits for a connection"),
    ("inet_csk_wait_for_connect", "waits for a connection"),
    // mm/filemap.c
    ("folio_wait_bit_common", PAGE),
    ("wait_on_page_bit_common", PAGE),
    // io_uring/io_uring.c, fs/io_uring.c until 5.19
    ("io_cqring_wait", "waits for operations of io_uring"),
    // fs/eventfd.c, fs/timerfd.c, fs/signalfd.c, fs/notify/inotify/inotify_user.c
    ("eventfd_read", "waits for an eventfd"),
    ("timerfd_read", "waits for a timer"),
    ("timerfd_read_iter", "waits for a timer"),
    ("signalfd_dequeue", SIGNAL),
    ("inotify_read", "waits for changes of files"),
    // fs/fuse/dev.c
    ("request_wait_answer", "waits for the server of a FUSE file system"),
    // kernel/workqueue.c, kernel/smpboot.c, kernel/kthread.c
    ("worker_thread", KERNEL_IDLE),
    ("rescuer_thread", KERNEL_IDLE),
    ("smpboot_thread_fn", KERNEL_IDLE),
    ("kthreadd", KERNEL_IDLE),
    ("kthread_worker_fn", KERNEL_IDLE),
    // virt/kvm/kvm_main.c
    ("kvm_vcpu_block", "is a virtual CPU that idles"),
];

const FUTEX: &str = "waits for a lock or condition of its program";
const EVENTS: &str = "waits for events of files or sockets";
const SLEEPS: &str = "sleeps for a time";
const PIPE_READ: &str = "waits for data of a pipe";
const PIPE_WRITE: &str = "waits for room in a pipe";
const SIGNAL: &str = "waits for a signal";
const PAGE: &str = "waits for a page of a file or of swap";
const KERNEL_IDLE: &str = "is the kernel's and has nothing to do";

/// What a thread waits for that sleeps in this function, where that is certain.
pub(super) fn meaning(function: &str) -> Option<&'static str> {
    // Compilers add endings to parts and copies of a function: do_wait.part.0.
    let function = function.split('.').next().unwrap_or(function);
    WAITS.iter().find(|(name, _)| *name == function).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_explained_whole_and_whatever_the_compiler_made_of_it() {
        assert_eq!(meaning("do_wait"), Some("waits for a child process"));
        assert_eq!(meaning("poll_schedule_timeout.constprop.0"), Some(EVENTS));
        assert_eq!([meaning("do_wait_intr"), meaning("wait_woken"), meaning("")], [None; 3]);
    }

    #[test]
    fn each_function_is_there_once() {
        let mut names: Vec<_> = WAITS.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), WAITS.len());
    }
}
