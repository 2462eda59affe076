//! A process of its own for work that may go wrong: its crash is an answer, and its memory and CPU
//! time have a bound.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use syscollect_untrusted_files::FixedPath;

const NAME: &CStr = c"elf-reader";

/// There are such processes here.
pub(crate) const CAN_BE_APART: bool = true;

/// Where a child hears and answers.
pub(crate) type ChildSocket = UnixStream;

/// The process, and the socket that leads to it. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Child {
    socket: UnixStream,
    pid: libc::pid_t,
    clock: libc::clockid_t,
}

/// What a child may take beyond what this process has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildLimits {
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// CPU time, which is rounded up to seconds.
    pub(crate) cpu_time: Duration,
}

impl Child {
    /// Starts one that does this `work` and ends. It is a copy of this process with the calling
    /// thread alone, and ends with that thread: no lock of another thread may be taken in it, but
    /// those of the C library's memory.
    ///
    /// # Errors
    ///
    /// No process or no socket can be had.
    pub(crate) fn start(limits: ChildLimits, work: impl FnOnce(UnixStream)) -> io::Result<Self> {
        let (socket, of_child) = UnixStream::pair()?;
        // SAFETY: the child runs `run`, which never returns, so that no destructor of this
        // process's state runs twice. It allocates, which C libraries allow after a fork.
        match unsafe { libc::fork() } {
            0 => run(limits, socket.as_raw_fd(), of_child, work),
            -1 => Err(io::Error::last_os_error()),
            pid => {
                let mut clock = libc::CLOCK_THREAD_CPUTIME_ID;
                // SAFETY: `clock` may be written. The child is not waited for yet.
                unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
                Ok(Self { socket, pid, clock })
            }
        }
    }

    /// Sends it something.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Waits for some of what it sends, for `patience` at most: how many bytes, 0 where it is gone,
    /// `None` where nothing came.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn receive(
        &mut self,
        bytes: &mut [u8],
        patience: Duration,
    ) -> io::Result<Option<usize>> {
        // Options of sockets are not for those who name (`privileges/filter.rs` of the recorder).
        let mut ready =
            libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one entry, which is writable for the whole call.
        if unsafe { libc::poll(&raw mut ready, 1, timeout) } <= 0 {
            // Another child may have been made meanwhile, and have its end of the socket, too.
            return Ok(self.has_ended().then_some(0));
        }
        match self.socket.read(bytes) {
            Ok(count) => Ok(Some(count)),
            // What it had not read when it was gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    fn has_ended(&self) -> bool {
        // SAFETY: siginfo_t is plain numbers, for which zero is valid.
        let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `ended` may be written. The child is ours; it can be waited for afterwards.
        let known =
            unsafe { libc::waitid(libc::P_PID, self.pid as libc::id_t, &raw mut ended, how) == 0 };
        // SAFETY: the system has filled it in, or left the zeroes.
        known && unsafe { ended.si_pid() } == self.pid
    }

    /// CPU time that it has taken so far.
    pub(crate) fn cpu_time(&self) -> Duration {
        super::time_of(self.clock)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: no memory is involved; the child is ours and was not waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // SAFETY: `status` may be written, and nobody else waits for it.
        unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
    }
}

/// Does the work and ends this process.
fn run(
    limits: ChildLimits,
    of_parent: RawFd,
    socket: UnixStream,
    work: impl FnOnce(UnixStream),
) -> ! {
    let done = confine(limits, of_parent)
        .is_ok_and(|()| catch_unwind(AssertUnwindSafe(|| work(socket))).is_ok());
    // SAFETY: ends this process and runs nothing of the other's, whose copy this is.
    unsafe { libc::_exit(i32::from(!done)) }
}

/// Ends with the thread that started this, says nothing, leaves no core, and has limits.
fn confine(limits: ChildLimits, of_parent: RawFd) -> io::Result<()> {
    // SAFETY: no memory is involved but the name, which ends with NUL.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
    }
    // What runs out of stack or memory, or panics, would say so on the user's terminal.
    if let Ok(null) = FixedPath::new("/dev/null").open_with(File::options().write(true)) {
        // SAFETY: no memory is involved. Nothing that owned the number here is used any more.
        unsafe { libc::dup2(null.as_raw_fd(), libc::STDERR_FILENO) };
    }
    // SAFETY: no memory is involved. Nothing that owned the number here is used any more.
    unsafe { libc::close(of_parent) };
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: nobody here handles them otherwise.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    limit(libc::RLIMIT_DATA.into(), data_bytes()?.saturating_add(limits.memory))?;
    limit(libc::RLIMIT_CPU.into(), limits.cpu_time.as_secs() + 1)
}

fn limit(resource: i64, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    let old = std::ptr::null_mut::<libc::rlimit>();
    // SAFETY: `limit` is readable for the whole call, which is told of no place for the old one.
    match unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, &raw const limit, old) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What counts against RLIMIT_DATA: writable memory of this process alone, and stacks.
fn data_bytes() -> io::Result<u64> {
    // Pages: all, resident, shared, code, libraries (always 0), data and stacks (proc(5)).
    let statm = FixedPath::new("/proc/self/statm").read_to_string()?;
    let pages = statm.split_ascii_whitespace().nth(5).and_then(|pages| pages.parse::<u64>().ok());
    // SAFETY: no memory is involved.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Ok(pages.ok_or(io::ErrorKind::InvalidData)?.saturating_mul(page as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ChildLimits = ChildLimits { memory: 64 << 20, cpu_time: Duration::from_secs(1) };
    const LONG: Duration = Duration::from_secs(20);

    /// What a child says, until it is gone.
    fn answer(child: &mut Child) -> Vec<u8> {
        let (mut all, mut some) = (Vec::new(), [0; 16]);
        loop {
            match child.receive(&mut some, LONG).unwrap() {
                Some(0) => return all,
                Some(count) => all.extend_from_slice(&some[..count]),
                None => panic!("it neither answers nor ends"),
            }
        }
    }

    #[test]
    fn it_answers_and_its_cpu_time_is_known() {
        let mut child = Child::start(LIMITS, |mut socket| {
            let mut asked = [0; 3];
            socket.read_exact(&mut asked).unwrap();
            asked.reverse();
            socket.write_all(&asked).unwrap();
        });
        let child = child.as_mut().unwrap();
        child.send(b"abc").unwrap();
        assert_eq!(answer(child), b"cba");
        assert!(child.cpu_time() < LONG);
    }

    #[test]
    fn what_goes_wrong_in_it_is_its_end_alone() {
        let ways: [fn(UnixStream); 4] = [
            |_| panic!("its reader gave up"),
            |_| assert_ne!(deeper(&[0; 4096]), 1),
            |_| {
                let all: Vec<Vec<u8>> = (0..1024).map(|_| vec![1; 1 << 20]).collect();
                std::hint::black_box(all);
            },
            |_| loop {
                std::hint::black_box(());
            },
        ];
        for way in ways {
            let mut child = Child::start(LIMITS, move |mut socket| {
                way(socket.try_clone().unwrap());
                let _ = socket.write_all(b"it went well");
            });
            assert_eq!(answer(child.as_mut().unwrap()), b"");
        }
    }

    #[expect(unconditional_recursion, reason = "it runs out of stack")]
    fn deeper(before: &[u8; 4096]) -> u8 {
        let here = std::hint::black_box([before[0]; 4096]);
        deeper(&here).wrapping_add(std::hint::black_box(here[1]))
    }

    #[test]
    fn one_that_nobody_wants_any_more_is_gone() {
        let child = Child::start(LIMITS, |_| std::thread::sleep(LONG)).unwrap();
        let process = format!("/proc/{}", child.pid);
        assert!(std::fs::exists(&process).unwrap());
        drop(child);
        assert!(!std::fs::exists(&process).unwrap());
    }
}
