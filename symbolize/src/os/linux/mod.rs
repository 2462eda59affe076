//! Linux.

mod child;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use syscollect_untrusted_files::{FixedPath, MemoryFile, ThreadNice};

pub(crate) use child::{CAN_BE_APART, Child, ChildLimits, ChildSocket};

/// Raises the soft limit of open files towards `wanted`; what it is then.
pub(crate) fn raise_descriptor_limit(wanted: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable for the whole call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return 0;
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = before.max(wanted.min(limit.rlim_max));
    // SAFETY: `limit` is readable for the whole call.
    let raised =
        limit.rlim_cur == before || unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } == 0;
    if raised { limit.rlim_cur } else { before }
}

/// This process's memory from `start` on as a file in memory.
pub(crate) fn copy_of_memory(name: &str, start: u64, size: usize) -> io::Result<File> {
    let mut bytes = vec![0; size];
    FixedPath::new("/proc/self/mem").open()?.read_exact_at(&mut bytes, start)?;
    let file = MemoryFile::new(name, size as u64)?;
    file.write_at(&bytes, 0)?;
    file.seal()
}

/// The clock of the CPU time that one thread takes, which all others may read while it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadClock {
    id: libc::clockid_t,
    thread: libc::pid_t,
}

impl ThreadClock {
    pub(crate) fn of_this_thread() -> Self {
        let mut id = libc::CLOCK_THREAD_CPUTIME_ID;
        // SAFETY: `id` is writable for the whole call, and a thread's own handle is valid.
        unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut id) };
        // SAFETY: gettid takes nothing and cannot fail.
        Self { id, thread: unsafe { libc::gettid() } }
    }

    pub(crate) fn now(&self) -> Duration {
        time_of(self.id)
    }

    /// The thread is as urgent as the calling one, which waits for it.
    pub(crate) fn is_as_urgent_as_this(&self) {
        ThreadNice::of_this_thread().give(self.thread as u32);
    }

    /// The thread takes only what CPU time nobody else wants, as far as that can be.
    pub(crate) fn yield_to_all(&self) {
        // SAFETY: plain numbers; no memory is involved.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, self.thread as libc::id_t, 19) };
    }
}

/// What a clock shows; 0 where its thread or process is gone.
fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable for the whole call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
