//! What runs in the process that asks.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::answer::Answer;
use crate::privileges::{self, Stage};

/// Asks a process, no longer than that.
pub(super) type AskOne = fn(u32, Duration) -> Answer;

/// How much longer than it may take is waited for a process that asks, which takes away the file
/// that it made, before it is killed.
pub(super) const GRACE: Duration = Duration::from_millis(300);
/// Then it ends, unless it stands in the kernel (a file system that never answers).
const KILLED: Duration = Duration::from_millis(200);
/// How often to see whether processes have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Who is to be asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) limit: Duration,
    pub(super) pids: Vec<u32>,
}

impl Request {
    const HEAD: usize = 12;

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.limit.as_millis() as u64).to_ne_bytes().to_vec();
        bytes.extend((self.pids.len() as u32).to_ne_bytes());
        bytes.extend(self.pids.iter().flat_map(|pid| pid.to_ne_bytes()));
        bytes
    }

    /// The next one; `None` at the end.
    fn read(socket: &mut UnixStream) -> io::Result<Option<Self>> {
        let mut head = [0; Self::HEAD];
        match socket.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let [a, b, c, d, e, f, g, h, count @ ..] = head;
        let limit = Duration::from_millis(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
        let mut pids = vec![0; u32::from_ne_bytes(count) as usize * 4];
        socket.read_exact(&mut pids)?;
        let pids = pids.chunks_exact(4).filter_map(|pid| pid.first_chunk().copied());
        Ok(Some(Self { limit, pids: pids.map(u32::from_ne_bytes).collect() }))
    }
}

/// Asks whom the recorder names, until it names none any more.
pub(super) fn run(mut socket: UnixStream, ask: AskOne) -> io::Result<()> {
    privileges::keep(Stage::AskingJvms)?;
    // A sandbox may refuse filters, which the recorder says of itself.
    let _ = privileges::refuse_all_but_local_sockets();
    // Nobody whose rights a child takes on reads the recorder's memory in it. SAFETY: the call
    // takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    while let Some(request) = Request::read(&mut socket)? {
        let answers = ask_all(&request, ask, &socket);
        socket.write_all(&answers)?;
    }
    Ok(())
}

/// A process that asks one.
struct AttachAttempt {
    process: libc::pid_t,
    answer: Option<Answer>,
}

impl AttachAttempt {
    /// By this process; -1 where none could be had.
    fn of(process: libc::pid_t) -> Self {
        Self { process, answer: (process == -1).then_some(Answer::OutOfReach) }
    }
}

fn ask_all(request: &Request, ask: AskOne, socket: &UnixStream) -> Vec<u8> {
    let end = Instant::now() + request.limit;
    let processes = request.pids.iter().map(|pid| start(*pid, end, ask, socket));
    let mut all: Vec<AttachAttempt> = processes.map(AttachAttempt::of).collect();
    if !wait_for(&mut all, end + GRACE) {
        for AttachAttempt { process, .. } in all.iter().filter(|asking| asking.answer.is_none()) {
            // SAFETY: the process is our child, and nobody has waited for it.
            unsafe { libc::kill(*process, libc::SIGKILL) };
        }
        wait_for(&mut all, Instant::now() + KILLED);
    }
    all.iter().map(|asking| asking.answer.unwrap_or(Answer::Silent).code()).collect()
}

/// Starts a process that asks `pid` and ends with the answer; its number, -1 where none can be had.
fn start(pid: u32, end: Instant, ask: AskOne, socket: &UnixStream) -> libc::pid_t {
    // SAFETY: this process has one thread, so that the child may do as it likes; it never returns.
    let process = unsafe { libc::fork() };
    if process != 0 {
        return process;
    }
    // The recorder is this one's parent's business. SAFETY: nobody uses the number here any more.
    unsafe { libc::close(socket.as_raw_fd()) };
    let left = end.saturating_duration_since(Instant::now());
    let answer = catch_unwind(AssertUnwindSafe(|| ask(pid, left))).unwrap_or(Answer::OutOfReach);
    // SAFETY: ends this process and runs nothing of its parent's, whose copy it is.
    unsafe { libc::_exit(i32::from(answer.code())) }
}

/// Waits until all have ended, or it is `end`; whether all have.
fn wait_for(all: &mut [AttachAttempt], end: Instant) -> bool {
    loop {
        for AttachAttempt { process, answer } in
            all.iter_mut().filter(|asking| asking.answer.is_none())
        {
            let mut status = 0;
            // SAFETY: the process is our child, and `status` has room for the result.
            if unsafe { libc::waitpid(*process, &raw mut status, libc::WNOHANG) } == *process {
                let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status) as u8);
                *answer = Some(code.map_or(Answer::Silent, Answer::of_code));
            }
        }
        let is_done = all.iter().all(|asking| asking.answer.is_some());
        if is_done || Instant::now() >= end {
            return is_done;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_as_they_were_sent_and_then_the_end() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let request = Request { limit: Duration::from_millis(1500), pids: vec![1, 70_000, 3] };
        here.write_all(&request.encode()).unwrap();
        drop(here);
        assert_eq!(Request::read(&mut there).unwrap(), Some(request));
        assert_eq!(Request::read(&mut there).unwrap(), None);
    }
}
