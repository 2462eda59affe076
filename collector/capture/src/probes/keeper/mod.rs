//! A process of its own that holds what is attached to programs.
//!
//! The kernel takes breakpoints out of other processes, and lowers their semaphores, on behalf of
//! whoever closes the last descriptor of a link. A thread with a fatal signal pending cannot do
//! that: it may not touch the pages of others any more (`__get_user_pages` in mm/gup.c), and the
//! kernel logs `failed to unregister, leaking uprobe`. So a recorder that is killed would leave
//! breakpoints behind. It holds no link, therefore: this process does, which attaches at the
//! recorder's word, notices when the recorder is gone, closes all links with no signal pending, and
//! ends.
//!
//! It is forked before the recorder maps rings and starts the threads of its sources, in a session
//! of its own, blocks all signals, and keeps no descriptor and no right but those it needs. Who
//! kills it, too, has what killing the recorder alone would have cost; the next recording takes out
//! what is left.

mod message;
mod serve;

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::RecvFlags;

use self::message::{KeeperRequest, Reply};
pub(super) use self::message::{OneProcess, PerfLink, Request};
use crate::child_process::ChildProcess;
use crate::{descriptor_passing, usage};

const NAME: &std::ffi::CStr = c"uprobe-keeper";

/// Makes the links of one request: of a program, and of a file.
type Link = fn(&Request, BorrowedFd<'_>, BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>>;

/// The process. Dropping it waits until all is detached.
#[derive(Debug)]
pub(crate) struct UprobeKeeper {
    process: ChildProcess,
    /// What it said to have used of the CPU, nanoseconds.
    counted_ns: u64,
}

impl UprobeKeeper {
    /// Starts it. To be called while this process is small and has few threads: the new one is its
    /// copy.
    ///
    /// # Errors
    ///
    /// No process or no socket can be had.
    pub(crate) fn start() -> io::Result<Self> {
        Self::that_links(super::attach::link)
    }

    fn that_links(link: Link) -> io::Result<Self> {
        let process = ChildProcess::start(NAME, |socket| serve::run(socket, link))?;
        Ok(Self { process, counted_ns: 0 })
    }

    /// Has the program attached as the request says; it stays so until this is dropped, or its
    /// lease is let go.
    ///
    /// # Errors
    ///
    /// What the kernel says of it; `BrokenPipe` where the process is gone.
    pub(super) fn link(
        &mut self,
        request: &Request,
        program: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
    ) -> io::Result<()> {
        self.ask(&KeeperRequest::Attach(request.clone()), &[program, file])
    }

    /// Has what was attached under these leases taken out, and waits for it where that is to be
    /// `at_once`.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` where the process is gone.
    pub(super) fn let_go(&mut self, leases: &[u64], at_once: bool) -> io::Result<()> {
        self.ask(&KeeperRequest::LetGo { leases: leases.to_vec(), at_once }, &[])
    }

    fn ask(&mut self, asked: &KeeperRequest, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send(asked, fds).map_err(keeper_is_gone)?;
        let mut reply = [0; Reply::BYTES];
        self.process.socket.read_exact(&mut reply).map_err(keeper_is_gone)?;
        let reply = Reply::decode(&reply);
        usage::add_other_process(reply.cpu_ns.saturating_sub(self.counted_ns));
        self.counted_ns = reply.cpu_ns;
        reply.result()
    }

    fn send(&mut self, asked: &KeeperRequest, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let (head, rest) = asked.encode();
        let sent = descriptor_passing::send(&self.process.socket, &head, fds)?;
        self.process.socket.write_all(&head[sent..])?;
        self.process.socket.write_all(&rest)
    }

    /// Whether somebody ended it: nothing is attached any more.
    pub(super) fn has_ended(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(self.process.socket.as_fd(), &mut [0; 1], flags), Ok((0, _)))
    }

    /// Its process.
    pub(super) fn pid(&self) -> i32 {
        self.process.pid
    }
}

fn keeper_is_gone(_: io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the process that holds probes is gone")
}

impl Drop for UprobeKeeper {
    fn drop(&mut self) {
        if let Some(cpu_ns) = self.process.end() {
            usage::add_other_process(cpu_ns.saturating_sub(self.counted_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Holds on to the file, and refuses requests without points.
    fn hold(
        request: &Request,
        _: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
    ) -> io::Result<Vec<OwnedFd>> {
        if request.points.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        Ok(vec![file.try_clone_to_owned()?])
    }

    fn request(points: usize) -> Request {
        let points = (0..points as u64)
            .map(|offset| crate::bpf_calls::UprobePoint { offset, semaphore: 2, cookie: 3 })
            .collect();
        Request { means: PerfLink::Link, at_return: false, process: None, points }
    }

    /// Whether all ends of the pipe for writing are closed within some seconds.
    fn is_let_go(pipe: &io::PipeReader) -> bool {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            let mut read = [rustix::event::PollFd::new(pipe, rustix::event::PollFlags::IN)];
            let timeout = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
            if rustix::event::poll(&mut read, Some(&timeout)).unwrap() == 1 {
                return read[0].revents().contains(rustix::event::PollFlags::HUP);
            }
        }
        false
    }

    #[test]
    fn what_is_attached_stays_until_its_owner_lets_it_go() {
        let (read, write) = io::pipe().unwrap();
        let mut keeper = UprobeKeeper::that_links(hold).unwrap();
        keeper.link(&request(1), read.as_fd(), write.as_fd()).unwrap();
        let refused = keeper.link(&request(0), read.as_fd(), write.as_fd()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP), "as the kernel said it");
        // More than a socket takes at once.
        keeper.link(&request(100_000), read.as_fd(), write.as_fd()).unwrap();
        drop(write);
        let mut none = [rustix::event::PollFd::new(&read, rustix::event::PollFlags::IN)];
        assert_eq!(
            rustix::event::poll(&mut none, Some(&rustix::event::Timespec::default())).unwrap(),
            0
        );
        drop(keeper);
        assert!(is_let_go(&read));
    }

    #[test]
    fn what_is_attached_to_one_process_is_let_go_by_its_lease() {
        [true, false].into_iter().for_each(is_let_go_by_its_lease);
    }

    fn is_let_go_by_its_lease(at_once: bool) {
        let (read, write) = io::pipe().unwrap();
        let (stays, other) = io::pipe().unwrap();
        let mut keeper = UprobeKeeper::that_links(hold).unwrap();
        for (lease, file) in [(7, &write), (8, &other), (7, &write)] {
            let process = Some(OneProcess { pid: 1, lease });
            let request = Request { process, ..request(1) };
            keeper.link(&request, read.as_fd(), file.as_fd()).unwrap();
        }
        drop((write, other));
        keeper.let_go(&[9], at_once).unwrap();
        let mut none = [rustix::event::PollFd::new(&read, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec::default();
        assert_eq!(rustix::event::poll(&mut none, Some(&now)).unwrap(), 0);
        keeper.let_go(&[9, 7], at_once).unwrap();
        assert!(is_let_go(&read));
        let mut other = [rustix::event::PollFd::new(&stays, rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut other, Some(&now)).unwrap(), 0, "8 stays");
    }

    #[test]
    fn what_is_attached_is_let_go_when_its_owner_is_killed() {
        let (read, write) = io::pipe().unwrap();
        // SAFETY: the child starts a keeper, as a recorder does, and never returns.
        let recorder = unsafe { libc::fork() };
        if recorder == 0 {
            let keeper = UprobeKeeper::that_links(hold);
            let linked = keeper.and_then(|mut keeper| {
                keeper.link(&request(1), read.as_fd(), write.as_fd())?;
                // SAFETY: kills this child, whose keeper lives on.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
                Ok(())
            });
            // SAFETY: ends the child without anything of the test harness.
            unsafe { libc::_exit(i32::from(linked.is_err())) };
        }
        drop(write);
        let mut status = 0;
        // SAFETY: the child is ours, and `status` has room for the result.
        unsafe { libc::waitpid(recorder, &raw mut status, 0) };
        assert!(libc::WIFSIGNALED(status), "the recorder ended with {status:#x}");
        assert!(is_let_go(&read));
    }

    #[test]
    fn who_asks_a_keeper_that_was_killed_is_told() {
        let (read, write) = io::pipe().unwrap();
        let mut keeper = UprobeKeeper::that_links(hold).unwrap();
        keeper.link(&request(1), read.as_fd(), write.as_fd()).unwrap();
        assert!(!keeper.has_ended());
        // SAFETY: the process is our child and was not waited for.
        unsafe { libc::kill(keeper.pid(), libc::SIGKILL) };
        drop(write);
        assert!(is_let_go(&read));
        // Its files are closed one after the other.
        let end = Instant::now() + Duration::from_secs(20);
        while !keeper.has_ended() && Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(keeper.has_ended());
        let error = keeper.link(&request(1), read.as_fd(), read.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
