//! Filters of system calls (seccomp), for all threads at once.
//!
//! What is refused gets `EPERM`, as from a kernel that does not permit it, and the recording goes
//! on: a recorder that is killed for a call that a library happened to make would be the worse
//! bargain, and who runs foreign code in here gains nothing by the difference.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::arch;

const REFUSED: SeccompAction = SeccompAction::Errno(libc::EPERM as u32);

/// What no recorder does once it records, beside calls that this CPU has alone ([`arch`]).
const NEVER_WHILE_RECORDING: &[c_long] = &[
    // Programs. The launched command has been forked by then.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes' insides, beyond reading them.
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    // The network.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // The system's shape.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mknodat,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // The kernel itself.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    // Ways around this filter, and large parts of kernels that nobody here uses.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_personality,
];

/// All that naming and exporting are made of, beside making threads and copies of this process, and
/// calls that this CPU has alone ([`arch`]).
const NAMING_AND_EXPORTING: &[c_long] = &[
    // Files: reading, writing, looking for them.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_ioctl,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_memfd_create,
    libc::SYS_pipe2,
    // Files: making them, and what a full disk is asked.
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_linkat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_umask,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    // Threads; see `threads` and `copies` for making them.
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_getparam,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // Time and signals; signals arrive through a pair of sockets, which lead nowhere else.
    libc::SYS_socketpair,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    // alarm(3), which ends what takes too long to stop.
    libc::SYS_setitimer,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    // Who and where this is, and being less of it.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_setgroups,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_prctl,
    libc::SYS_seccomp,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
];

/// Refuses [`NEVER_WHILE_RECORDING`].
pub(super) fn recording() -> io::Result<()> {
    let never = NEVER_WHILE_RECORDING.iter().chain(arch::NEVER_WHILE_RECORDING);
    let rules = never.map(|call| (*call, Vec::new())).collect();
    install(rules, SeccompAction::Allow, REFUSED)
}

/// Refuses [`NEVER_WHILE_RECORDING`], but for accepting connections at sockets that listen already.
pub(super) fn with_connections() -> io::Result<()> {
    let never = NEVER_WHILE_RECORDING.iter().chain(arch::NEVER_WHILE_RECORDING);
    let never = never.filter(|call| ![libc::SYS_accept, libc::SYS_accept4].contains(call));
    install(never.map(|call| (*call, Vec::new())).collect(), SeccompAction::Allow, REFUSED)
}

/// Refuses [`NEVER_WHILE_RECORDING`], but for connecting to sockets of this machine.
pub(super) fn with_local_sockets() -> io::Result<()> {
    let never = NEVER_WHILE_RECORDING.iter().chain(arch::NEVER_WHILE_RECORDING);
    let never = never.filter(|call| **call != libc::SYS_connect);
    let mut rules: BTreeMap<_, _> = never.map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, vec![other_than_local()?]);
    install(rules, SeccompAction::Allow, REFUSED)
}

/// A socket that leads to other machines, or to the kernel.
fn other_than_local() -> io::Result<SeccompRule> {
    let local = libc::AF_UNIX as u64;
    let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, local)
        .map_err(io::Error::other)?;
    SeccompRule::new(vec![other]).map_err(io::Error::other)
}

/// Refuses all but [`NAMING_AND_EXPORTING`], threads, and copies of this process, in which files of
/// users are read.
pub(super) fn finishing() -> io::Result<()> {
    // Its arguments lie in memory, which a filter does not see. Where it is "not there", C
    // libraries use clone.
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    install([(libc::SYS_clone3, Vec::new())].into(), SeccompAction::Allow, absent)?;
    let allowed = NAMING_AND_EXPORTING.iter().chain(arch::NAMING_AND_EXPORTING);
    let mut rules: BTreeMap<_, _> = allowed.map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, vec![threads()?, copies()?]);
    install(rules, REFUSED, SeccompAction::Allow)
}

/// A clone that makes a thread of this process.
fn threads() -> io::Result<SeccompRule> {
    clones(libc::CLONE_THREAD, libc::CLONE_THREAD)
}

/// A clone that makes a process as fork(2) does: with memory of its own, and in no other namespace.
fn copies() -> io::Result<SeccompRule> {
    const NAMESPACES: i32 = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    clones(NAMESPACES | libc::CLONE_VM | libc::CLONE_THREAD, 0)
}

/// A clone of whose flags those in `mask` are these.
fn clones(mask: i32, flags: i32) -> io::Result<SeccompRule> {
    let equal = SeccompCmpOp::MaskedEq(u64::from(mask as u32));
    let flags = u64::from(flags as u32);
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, equal, flags)
        .map_err(io::Error::other)?;
    SeccompRule::new(vec![condition]).map_err(io::Error::other)
}

/// Installs a filter: `matched` for what `rules` name, `other` for all else.
fn install(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    other: SeccompAction,
    matched: SeccompAction,
) -> io::Result<()> {
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
    let filter =
        SeccompFilter::new(rules, other, matched, architecture).map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    to_all_threads(&program)
}

/// Beside what `seccompiler::apply_filter_all_threads` asks for, nothing that slows these threads:
/// before 5.16 a filter turns on mitigations that only code of foreign origin calls for.
fn to_all_threads(program: &BpfProgram) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    // The two structures are the same: struct sock_filter of the kernel.
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the program and its description live through the call, which copies them and changes
    // neither.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    };
    match result {
        0 => Ok(()),
        thread @ 1.. => Err(io::Error::other(format!("thread {thread} has another filter"))),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `test` in a process of its own, since a filter is there for good. Its exit code.
    fn in_a_process(test: fn() -> i32) -> i32 {
        // SAFETY: the child allocates, which C libraries allow after a fork, and takes no other
        // lock of another thread.
        match unsafe { libc::fork() } {
            // SAFETY: ends the child without anything of the test harness.
            0 => unsafe { libc::_exit(test()) },
            child => {
                let mut status = 0;
                // SAFETY: the child is ours, and `status` has room for the result.
                let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert!(waited == child && libc::WIFEXITED(status), "ended with {status:#x}");
                libc::WEXITSTATUS(status)
            }
        }
    }

    fn error() -> i32 {
        io::Error::last_os_error().raw_os_error().unwrap_or(0)
    }

    /// Opens a socket and runs a program that is not there.
    fn refused() -> [i32; 2] {
        // SAFETY: no memory is involved.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
        let socket = if socket < 0 { error() } else { 0 };
        let none = [std::ptr::null()];
        // SAFETY: the name is a C string, and the lists end with null.
        unsafe { libc::execve(c"/none".as_ptr(), none.as_ptr(), none.as_ptr()) };
        [socket, error()]
    }

    #[test]
    fn who_asks_programs_of_this_machine_connects_to_no_other() {
        let code = in_a_process(|| {
            if with_local_sockets().is_err() {
                return 1;
            }
            let nowhere = std::os::unix::net::UnixStream::connect("/none/socket");
            let connects = nowhere.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            if refused() == [libc::EPERM; 2] && connects { 0 } else { 2 }
        });
        assert_eq!(
            code, 0,
            "1: the filter was refused, 2: it lets through what it should not, or too little"
        );
    }

    #[test]
    fn a_recorder_opens_no_socket_and_runs_no_program_and_goes_on() {
        let code = in_a_process(|| {
            if recording().is_err() {
                return 1;
            }
            // SAFETY: no memory is involved; a process may be made.
            let forks = unsafe { libc::syscall(libc::SYS_getppid) } > 0;
            if refused() == [libc::EPERM; 2] && forks { 0 } else { 2 }
        });
        assert_eq!(
            code, 0,
            "1: the filter was refused, 2: it lets through what it should not, or too little"
        );
    }

    #[test]
    fn naming_and_exporting_start_threads_and_copies_of_themselves_alone() {
        let code = in_a_process(|| {
            if recording().and_then(|()| finishing()).is_err() {
                return 1;
            }
            if std::thread::Builder::new().spawn(|| ()).map(std::thread::JoinHandle::join).is_err()
            {
                return 2;
            }
            if in_a_process(|| 7) != 7 {
                return 3;
            }
            let elsewhere = libc::CLONE_NEWUSER | libc::SIGCHLD;
            // SAFETY: as fork(2), without a stack of its own; a child, if there is one after all,
            // ends at once.
            match unsafe { libc::syscall(libc::SYS_clone, elsewhere, 0, 0, 0, 0) } {
                0 => return 7,
                -1 if error() == libc::EPERM => {}
                _ => return 4,
            }
            if refused() == [libc::EPERM; 2] { 0 } else { 5 }
        });
        assert_eq!(
            code, 0,
            "1: refused, 2: no thread, 3: no copy, 4: one in another namespace, 5: sockets or \
             programs"
        );
    }

    #[test]
    fn a_file_is_made_and_renamed_under_both_filters() {
        let folder = tempfile::tempdir().unwrap();
        let (draft, finished) = (folder.path().join("draft"), folder.path().join("finished"));
        // SAFETY: as in `in_a_process`; what is allocated is the child's own.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let done = recording()
                .and_then(|()| finishing())
                .and_then(|()| std::fs::write(&draft, "x"))
                .and_then(|()| std::fs::rename(&draft, &finished));
            // SAFETY: ends the child without anything of the test harness.
            unsafe { libc::_exit(i32::from(done.is_err())) };
        }
        let mut status = 0;
        // SAFETY: the child is ours, and `status` has room for the result.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
        assert_eq!(std::fs::read(finished).unwrap(), b"x");
    }
}
