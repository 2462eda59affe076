//! Programs with limits: each in a child of its own, since an arena is made once.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use syscollect_usdt_client::{frame_mark, message, plot, testing, zone};

/// Marks something of every kind.
fn marks() {
    testing::raise();
    for index in 0..3 {
        let outer = zone!("outer");
        let inner = zone!("inner");
        assert_eq!((outer.token().to_number(), inner.token().to_number()), (0, 1));
        inner.value(1);
        message!("text {index}");
        plot!("plot", index);
        frame_mark!();
    }
}

fn limit(resource: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: sets a limit of this process.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

/// One test, so that no other thread is there when it forks.
#[test]
fn marks_do_without_shared_memory_where_a_limit_forbids_it() {
    assert!(
        common::in_child(|| {
            limit(libc::RLIMIT_FSIZE, 1 << 20);
            no_arena()
        }),
        "a limit of file sizes, which would kill"
    );
    assert!(
        common::in_child(|| {
            limit(libc::RLIMIT_NOFILE, 0);
            no_arena()
        }),
        "no more descriptors"
    );
    assert!(
        common::in_child(|| {
            limit(libc::RLIMIT_AS, 512 << 20);
            no_arena()
        }),
        "no more addresses"
    );
    assert!(
        common::in_child(|| {
            refuse_memfd_create();
            no_arena()
        }),
        "a filter of system calls"
    );
    assert!(common::in_child(memory_is_not_filled_where_all_is_locked), "locked memory");
}

fn no_arena() -> bool {
    marks();
    testing::arena_descriptor().is_none()
}

/// Has the kernel refuse memfd_create, as containers do.
fn refuse_memfd_create() {
    let number = libc::SYS_memfd_create as u32;
    let mut program = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a filter of this process alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            0
        );
    }
}

fn filter(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// With mlockall a mapping is filled when it is made: the arena would be 1 GiB of memory.
fn memory_is_not_filled_where_all_is_locked() -> bool {
    // SAFETY: concerns this process alone. Without the right it fails, or later mappings do.
    unsafe { libc::mlockall(libc::MCL_FUTURE) };
    marks();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes < 100 << 10
}
